"""The bytes of a ``.nb`` file, and what the runtime demands of its structure."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from converter_lite.errors import FormatError, TargetError
from converter_lite.formats.paddle.exporter.build import NbOptions, build, check, refuse_unwritable
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, RELEASES, choose, exists, operators
from converter_lite.formats.paddle.kernels import Target as Place
from converter_lite.formats.paddle.nb.parse import HEADER, parse
from converter_lite.formats.paddle.nb.serialize import program_dict, serialize
from converter_lite.formats.paddle.program import (
    Attribute,
    AttrType,
    Block,
    NbFile,
    Operator,
    Program,
    Variable,
    VarType,
    attr,
    floats,
    ints,
    long,
)
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.formats.paddle.models import small_network
from tests.formats.paddle.writing import write
from tests.support import build as graph


def every_kind_of_attribute() -> dict[str, Attribute]:
    return {
        "i": attr(-3),
        "f": attr(0.5),
        "s": attr("text"),
        "ints": ints((1, -2)),
        "floats": floats((0.25, -1.5)),
        "strings": Attribute(AttrType.STRINGS, ("a", "b")),
        "b": attr(True),
        "bools": Attribute(AttrType.BOOLEANS, (True, False)),
        "l": long(2**40),
        "longs": Attribute(AttrType.LONGS, (1, 2**40)),
        "empty": ints(()),
        "zero": attr(0),
        "false": attr(False),
        "none": attr(0.0),
    }


def odd_file() -> NbFile:
    """Names beyond ASCII, every attribute and element type, an empty tensor."""
    operator = Operator("x", {"X": ["ä", "b"], "A": []}, {"Out": ["c"]}, every_kind_of_attribute())
    variables = [Variable("feed", VarType.FEED_MINIBATCH, persistable=True), Variable("ä", dims=(-1, 3))]
    kinds = (np.float32, np.float16, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_)
    parameters = {f"p{kind.__name__}": np.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    parameters["nothing"] = np.zeros((0, 4), np.float32)
    return NbFile(Program([Block(variables=variables, operators=[operator])], 2006002), parameters)


@pytest.mark.parametrize("meta_version", [1, 2])
def test_a_file_reads_back_as_it_was_written(meta_version: int) -> None:
    file = odd_file()
    file.meta_version = meta_version
    again = parse(serialize(file))
    assert again.program == file.program
    assert again.meta_version == meta_version
    assert again.parameters.keys() == file.parameters.keys()
    for name, array in file.parameters.items():
        assert again.parameters[name].dtype == array.dtype
        assert again.parameters[name].shape == array.shape
        assert np.array_equal(again.parameters[name], array)


def test_the_header_and_the_parameter_stream_are_laid_out_as_the_runtime_reads_them() -> None:
    data = serialize(odd_file())
    meta, version, size = HEADER.unpack_from(data)
    assert (meta, version.rstrip(b"\0")) == (2, b"v2.12")
    params, meta_size, header, count, largest = struct.unpack_from("<HHHHI", data, HEADER.size + size)
    assert (params, meta_size, header, count, largest) == (0, 0, 6, len(odd_file().parameters), 48)
    position = HEADER.size + size + 12
    for _ in range(count):
        total, offset = struct.unpack_from("<II", data, position)
        assert offset == 4
        position += 4 + total
    assert position == len(data)


def test_keys_that_the_runtime_searches_are_sorted_by_bytes() -> None:
    operator = program_dict(odd_file().program)["blocks"][0]["ops"][0]
    names = [item["name"].encode() for item in operator["attrs"]]
    assert names == sorted(names)
    slots = [item["parameter"].encode() for item in operator["inputs"]]
    assert slots == sorted(slots)


def test_attributes_that_older_runtimes_do_not_know_are_not_written() -> None:
    file = odd_file()
    file.program.main.operators[0].attributes["d"] = Attribute(AttrType.FLOAT64, 1.0)
    with pytest.raises(FormatError, match="FLOAT64"):
        serialize(file)


def test_the_same_model_gives_the_same_bytes() -> None:
    files = [write(QuantizedModel(small_network(), QuantPlan("arm")), options=NbOptions("arm")) for _ in range(2)]
    assert files[0] == files[1]


@pytest.mark.parametrize("target", ["arm", "x86"])
def test_a_written_file_keeps_what_the_loader_demands(target: str) -> None:
    file = build(QuantizedModel(small_network(), QuantPlan(target)), options=NbOptions(target))
    block = file.program.main
    declared = {variable.name: variable for variable in block.variables}
    assert len(declared) == len(block.variables)
    for operator in block.operators:
        names = [n for slots in (operator.inputs, operator.outputs) for names in slots.values() for n in names]
        assert [name for name in names if name not in declared] == []
        assert operator.get(KERNEL_ATTRIBUTE).count("/") == 4
    persistable = {name for name, variable in declared.items() if variable.persistable}
    assert persistable == {*file.parameters, "feed", "fetch"}
    assert [o.get("col") for o in block.operators if o.type == "feed"] == [0]
    assert block.operators[0].type == "feed"
    assert block.operators[-1].type == "fetch"


@pytest.mark.parametrize("target", ["arm", "x86"])
@pytest.mark.parametrize("mark", RELEASES)
def test_every_kernel_of_the_small_network_is_in_every_release(target: str, mark: str) -> None:
    file = build(QuantizedModel(small_network(), QuantPlan(target)), options=NbOptions(target))
    for operator in file.program.main.operators:
        assert exists(operator.type, str(operator.get(KERNEL_ATTRIBUTE)), mark), operator.type


def test_activation_functions_and_sums_are_fused() -> None:
    file = build(QuantizedModel(small_network(), QuantPlan("x86")), options=NbOptions("x86"))
    kinds = [operator.type for operator in file.program.main.operators]
    assert kinds == [
        *("feed", "conv2d", "depthwise_conv2d", "conv2d", "elementwise_add"),
        *("pool2d", "flatten_contiguous_range", "fc", "softmax", "fetch"),
    ]
    first = file.program.main.operators[1]
    assert (first.get("with_act"), first.get("act_type"), first.get("fuse_brelu_threshold")) == (True, "relu6", 6.0)


def test_tensors_named_like_the_borders_are_renamed_inside() -> None:
    model = graph("g (float[2] x) => (float[2] y) { feed = Relu(x) fetch = Sigmoid(feed) y = Abs(fetch) }")
    file = build(QuantizedModel(model, QuantPlan("x86")), options=NbOptions("x86"))
    assert file.program.main.operators[1].outputs == {"Out": ["feed_1"]}
    assert file.program.main.operators[3].inputs == {"X": ["fetch_1"]}


def test_all_nodes_that_cannot_be_written_are_named_at_once() -> None:
    model = graph(
        "g (float[1,2,4,4,4] x, float[3] z) => (float[1,3,2,2,2] y, float[3] u) { y = Conv(x, w) u = Acos(z) }",
        w=np.ones((3, 2, 3, 3, 3), np.float32),
    )
    problems = check(model, "x86")
    assert [problem.operator for problem in problems] == ["Conv", "Acos"]
    assert "3 dimensions" in problems[0].reason
    with pytest.raises(TargetError, match="2 of 2 nodes") as caught:
        write(QuantizedModel(model, QuantPlan("x86")), options=NbOptions("x86"))
    assert "Acos" in str(caught.value)


@pytest.mark.parametrize(("size", "advice"), [("n", "give --inputShape"), ("4", "and do not decide it")])
def test_fixed_input_shapes_are_advised_where_inputs_are_open(size: str, advice: str) -> None:
    model = graph(f"g (float[{size}] x, int64[1] times) => (float[m] y) {{ y = Tile(x, times) }}")
    (problem,) = check(model, "arm")
    assert problem.reason == "times is computed at run time" and advice in problem.hint


def test_more_than_six_dimensions_are_a_problem() -> None:
    model = graph("g (float[2,2,2,2,2,2] x) => (float[1,2,2,2,2,2,2] y) { y = Unsqueeze(x, axes) }", axes=np.array([0]))
    (problem,) = check(model, "arm")
    assert problem.operator == "Unsqueeze" and "at most 6" in problem.reason


@pytest.mark.parametrize(
    ("body", "targets"),
    [
        ("Slice(x, zero, one, zero)", ["arm", "x86"]),
        ("Gather<axis=1>(x, zero)", ["arm", "x86"]),
        ("Softmax<axis=2>(x)", ["x86"]),
        ("ReduceMax(x, one)", []),
    ],
)
def test_operators_that_end_the_process_with_seven_dimensions_are_a_problem(body: str, targets: list[str]) -> None:
    text = f"g (float[2,2,2,2,2,2,2] x) => (float[a,b,c,d,e,f,h] y) {{ y = {body} }}"
    model = graph(text, opset=18, zero=np.array([0]), one=np.array([1]))
    assert [target for target in ("arm", "x86") if check(model, target)] == targets


def test_a_node_behind_one_that_cannot_be_written_is_not_blamed() -> None:
    model = graph("g (float[3] x) => (float[3] y) { a = Acos(x) y = Relu(a) }")
    assert [problem.operator for problem in check(model, "arm")] == ["Acos"]


def test_an_output_that_nothing_computes_is_a_problem() -> None:
    model = graph("g (float[3] x) => (float[3] x) { a = Relu(x) }")
    assert check(model, "arm")[-1].operator == "graph output"


def test_outputs_that_cannot_be_written_are_not_counted_as_nodes() -> None:
    model = graph("g (float[3] x) => (float[3] x, float[3] a) { a = Acos(x) }")
    with pytest.raises(TargetError, match="1 output and 1 of 1 nodes cannot be written as") as caught:
        refuse_unwritable(model, "arm")
    assert "use --saveType=ONNX" in caught.value.hint


def test_a_constant_output_is_named() -> None:
    model = graph(
        "g (float[2] x) => (float[2] y, float[2] z) { z = Constant<value = float[2] {1, 2}>() y = Mul(x, z) }"
    )
    assert [problem.operator for problem in check(model, "arm")] == ["Constant"]


def test_a_resize_that_the_runtime_would_compute_otherwise_is_refused() -> None:
    model = graph(
        'g (float[1,1,9,9] x) => (float[1,1,4,4] y) { y = Resize<mode="linear">(x, , s) }',
        s=np.array([1, 1, 0.5, 0.5], np.float32),
    )
    assert "goes by the size" in check(model, "x86")[0].reason


def test_what_the_runtime_would_leave_out_or_misread_is_refused() -> None:
    smaller = graph(
        'g (float[1,1,9,9] x) => (float[1,1,4,4] y) { y = Resize<mode="linear", antialias=1>(x, , , s) }',
        opset=18,
        s=np.array([1, 1, 4, 4]),
    )
    whole = graph("g (int64[5] x) => (int64[2] y, int64[2] i) { y, i = TopK(x, k) }", k=np.array([2]))
    for target in ("arm", "x86"):
        assert "antialias" in check(smaller, target)[0].reason
        assert "no kernel for INT64" in check(whole, target)[0].reason


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(TargetError, match="opencl"):
        check(small_network(), "opencl")


def test_a_kernel_of_all_releases_is_preferred_to_one_of_some() -> None:
    kernel = choose("hard_swish", Place.X86)
    assert kernel is not None
    assert kernel.key("hard_swish") == "hard_swish/def/1/1/1"
    assert choose("softsign", Place.ARM) is None
    assert choose("slice", Place.ARM, dtype="int64").alias == "def_int64"  # type: ignore[union-attr]
    assert choose("slice", Place.X86, dtype="int64").alias == "int64"  # type: ignore[union-attr]


def test_the_registry_knows_the_operators_of_three_releases() -> None:
    assert len(operators()) > 250
    assert exists("fc", "fc/fp32out/4/2/1", "0")
    assert not exists("fc", "fc/fp32_out/2/2/1", "0")
    assert exists("fc", "fc/fp32_out/2/2/1", "2")
    assert not exists("fc", "fc/def/2/2", "2")


def test_a_choice_of_one_number_has_it_once() -> None:
    """Masks of Paddle's own files are filled by an operator; they are constants here, and would be stored."""
    text = "g (float[1,6,20,30] x) => (float[1,6,20,30] y) { c = Greater(x, zero) y = Where(c, x, k) }"
    model = graph(text, zero=np.float32(0), k=np.full((1, 6, 20, 30), -7, np.float32))
    file = build(QuantizedModel(model, QuantPlan("arm")), options=NbOptions("arm"))
    (filling,) = (operator for operator in file.program.main.operators if operator.type == "fill_constant")
    assert filling.get("value") == -7
