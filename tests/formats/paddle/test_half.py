"""ARM files with float16 kernels: which operators get them, where borders stand, which constants are converted."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.exporter.half import half_kernel, to_half
from converter_lite.formats.paddle.inspect import description
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read, to_graph
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.program import NbFile, Operator, Variable, VarType, attr, refuse_difference
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.formats.paddle.device_rules import violations
from tests.formats.paddle.half_rules import precision_violations
from tests.formats.paddle.models import random, small_network
from tests.formats.paddle.plans import plan_weights
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.test_nb_operators import CASES, run
from tests.support import build as graph

ARM = NbOptions("arm")


def float_file(model: ir.Model) -> NbFile:
    return build(QuantizedModel(model, QuantPlan("arm")), options=ARM)


def half(model: ir.Model) -> NbFile:
    return to_half(float_file(model))[0]


def kernels(file: NbFile) -> list[str]:
    """Kernel strings, without the target and layout that all have."""
    keys = [str(op.get(KERNEL_ATTRIBUTE)).split("/") for op in file.program.main.operators]
    precisions = {"1": "float", "4": "any", "5": "half", "7": "int64"}
    return [f"{kind} {alias} {precisions[precision]}" for kind, alias, _, precision, _ in keys]


def between_halves(file: NbFile) -> NbFile:
    """The file with an operator that has a float16 kernel behind every float input, and before every float output."""
    file = copy.deepcopy(file)
    block = file.program.main
    floats = {variable.name: variable for variable in block.variables if variable.dtype == VarType.FP32}
    inner = [op for op in block.operators if op.type not in ("feed", "fetch")]
    first, last = [op for op in block.operators if op.type == "feed"], []
    for op in block.operators:
        name = op.output("Out") if op.type == "feed" else op.input("X") if op.type == "fetch" else None
        if name in floats:
            made = f"{name}.inner"
            block.variables.append(Variable(made, dims=floats[name].dims))
            source, to, place = (name, made, first) if op.type == "feed" else (made, name, last)
            key = attr("hard_sigmoid/def/4/1/1")
            attributes = {"slope": attr(0.2), "offset": attr(0.5), KERNEL_ATTRIBUTE: key}
            place.append(Operator("hard_sigmoid", {"X": [source]}, {"Out": [to]}, attributes))
            for names in (names for o in inner for slots in (o.inputs, o.outputs) for names in slots.values()):
                names[:] = [made if n == name else n for n in names]
    block.operators[:] = [*first, *inner, *last, *(op for op in block.operators if op.type == "fetch")]
    return file


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_operator_alone_and_between_float16_operators_keeps_the_rules_of_the_device(case: NbCase) -> None:
    file = float_file(case.model)
    assert violations(to_half(file)[0]) == []
    assert violations(to_half(between_halves(file))[0]) == []
    assert violations(to_half(build(plan_weights(case.model, target="arm", bits=8), options=ARM))[0]) == []


def content(model: ir.Model) -> list[object]:
    """Interface, constants and nodes of a graph, whatever values in between are called."""
    proto = ir.to_proto(model).graph
    ends = [*proto.input, *proto.output]
    names = {end.name: end.name for end in ends}
    for node in proto.node:
        for slots in (node.input, node.output):
            slots[:] = [names.setdefault(name, f"value {len(names)}") for name in slots]
    for tensor in proto.initializer:
        tensor.name = names[tensor.name]
    return [sorted(part.SerializeToString() for part in parts) for parts in (proto.initializer, ends, proto.node)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_float16_file_reads_back_as_the_graph_and_the_plan_of_the_float_file(case: NbCase) -> None:
    for quantized in (QuantizedModel(case.model, QuantPlan("arm")), plan_weights(case.model, target="arm", bits=8)):
        file = build(quantized, options=ARM)
        made = to_half(file)[0]
        data = serialize(made)
        refuse_difference(parse(data), made)
        again, expected = read(data), to_graph(file)
        assert content(again.model) == content(expected.model)
        assert again.plan.to_json() == expected.plan.to_json()


def test_borders_stand_where_the_precision_changes_and_are_shared() -> None:
    model = graph(
        """g (float[1,4,4,4] x) => (float[1,4,4,4] y, float[1,4,4,4] z) {
            a = Conv(x, w)
            b = Exp(a)
            c = Sigmoid(a)
            d = Add(b, c)
            e = Sub(b, c)
            y = HardSigmoid(d)
            z = Exp(e)
        }""",
        w=random(4, 4, 1, 1),
    )
    assert kernels(half(model)) == [
        *("feed def any", "calib fp32_to_fp16 half", "conv2d def half", "calib fp16_to_fp32 half"),
        *("exp def float", "sigmoid def float", "calib fp32_to_fp16 half", "calib fp32_to_fp16 half"),
        *("elementwise_add def half", "elementwise_sub def half", "hard_sigmoid def half", "calib fp16_to_fp32 half"),
        *("exp def float", "calib fp16_to_fp32 half", "fetch def any", "fetch def any"),
    ]


def test_data_is_moved_in_the_precision_that_it_has() -> None:
    model = graph(
        """g (float[1,4,4,4] x) => (float[1,2,4,8] y) {
            a = Transpose<perm=[0,1,3,2]>(x)
            b = Relu(a)
            c = Concat<axis=3>(b, a)
            d = Concat<axis=3>(b, b)
            e = Mul(c, d)
            f = Reshape(e, s)
            g = Gather<axis=1>(f, i)
            y = Relu(g)
        }""",
        s=np.array([1, 4, 4, 8]),
        i=np.array([2, 0]),
    )
    file = half(model)
    assert kernels(file)[1:6] == [
        *("transpose2 def any", "calib fp32_to_fp16 half", "relu def half"),
        *("calib fp16_to_fp32 half", "concat def any"),
    ]
    assert "calib" not in " ".join(kernels(file)[7:-2]).replace("calib fp32_to_fp16 half elementwise_mul", "")
    kinds = {variable.name: variable.dtype for variable in file.program.main.variables}
    assert [kinds[name] for name in ("a", "b", "c", "d", "e")] == [5, 4, 5, 4, 4]


def test_the_names_of_inputs_and_outputs_stay() -> None:
    model = graph("g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Relu(x) z = HardSigmoid(y) }")
    operators = half(model).program.main.operators
    assert [op.output("Out") for op in operators if op.type == "feed"] == ["x"]
    assert [op.input("X") for op in operators if op.type == "fetch"] == ["y", "z"]
    assert kernels(half(model))[1:4] == ["calib fp32_to_fp16 half", "relu def half", "hard_sigmoid def half"]


CONVERTED_CONSTANTS = {
    "Conv": ("y = Conv(x, w)", {"w": random(4, 4, 1, 1)}, ["w"]),
    "Add": ("y = Add(w, x)", {"w": random(4)}, ["w"]),
    "PRelu": ("y = PRelu(x, w)", {"w": random(4, 1, 1)}, 1),
    "MatMul": ("y = MatMul(x, w)", {"w": random(4, 4)}, 1),
    "BatchNormalization": ("y = BatchNormalization(x, w, w, w, v)", {"w": random(4), "v": abs(random(4))}, 0),
    "Relu": ("y = Relu(x)", {}, 0),
}


@pytest.mark.parametrize(("body", "constants", "converted"), CONVERTED_CONSTANTS.values(), ids=CONVERTED_CONSTANTS)
def test_the_library_is_told_which_constants_to_convert(
    body: str, constants: dict[str, np.ndarray], converted: list[str] | int
) -> None:
    file = half(graph(f"g (float[1,4,4,4] x) => (float[1,4,4,4] y) {{ {body} }}", **constants))
    (op,) = (op for op in file.program.main.operators if op.type not in ("feed", "fetch", "calib"))
    assert str(op.get(KERNEL_ATTRIBUTE)).endswith("/4/5/1")
    told = [name.removesuffix("_fp16") for name in op.attributes if name.endswith("_fp16")]
    assert told == converted if isinstance(converted, list) else len(told) == converted
    assert all(file.parameters[name].dtype == np.float32 for name in told)


KEPT = {
    "too large a constant": ("y = Mul(x, c)", -3e38, "65504"),
    "a divisor that vanishes": ("y = Div(x, c)", 1e-9, "0 in float16"),
    "an epsilon that vanishes": ("y = Add(x, c)", 1e-12, "0 in float16"),
    "a constant of a fused operator": ("a = Add(x, c) y = Relu(a)", 1.0, "does not convert"),
}


@pytest.mark.parametrize(("body", "number", "reason"), KEPT.values(), ids=KEPT)
def test_an_operator_that_float16_would_break_computes_in_float32(body: str, number: float, reason: str) -> None:
    model = graph(f"g (float[2,3] x) => (float[2,3] y) {{ {body} }}", c=np.float32(number))
    made, notes = to_half(float_file(model))
    assert not any("half" in kernel for kernel in kernels(made))
    assert reason in " ".join(notes)


def test_an_activation_that_is_larger_than_float16_keeps_its_convolution_in_float32() -> None:
    body = "a = Conv(x, w) y = Clip(a, low, high)"
    constants = {"w": random(4, 4, 1, 1), "low": np.float32(0)}
    for high, kernel in ((6.0, "conv2d def half"), (7e4, "conv2d def float")):
        model = graph(f"g (float[1,4,4,4] x) => (float[1,4,4,4] y) {{ {body} }}", high=np.float32(high), **constants)
        assert kernel in kernels(half(model))


def test_infinite_constants_are_float16_too() -> None:
    model = graph("g (float[2,3] x) => (float[2,3] y) { y = Add(x, c) }", c=np.array([0, -np.inf, 1], np.float32))
    assert "elementwise_add def half" in kernels(half(model))


def test_a_constant_that_is_read_in_both_precisions_is_stored_twice() -> None:
    model = graph("g (float[2,3] x) => (float[2,3] y) { a = Mul(x, c) b = Max(a, c) y = Add(b, c) }", c=random(2, 3))
    file = half(model)
    readers = [op for op in file.program.main.operators if op.input("Y") in ("c", "c.fp16")]
    assert [(op.type, "c.fp16_fp16" in op.attributes) for op in readers] == [
        *(("elementwise_mul", True), ("elementwise_max", False), ("elementwise_add", True)),
    ]
    assert np.array_equal(file.parameters["c"], file.parameters["c.fp16"])
    assert violations(file) == []


def sparse_file(*, shared: bool) -> NbFile:
    """Two 1x1 convolutions as sparse ones; they may read the same weight."""
    model = graph(
        "g (float[1,4,4,4] x) => (float[1,4,4,4] y) { a = Conv(x, w) y = Conv(a, v) }",
        w=random(4, 4, 1, 1),
        v=random(4, 4, 1, 1, seed=4),
    )
    file = float_file(model)
    for index, op in enumerate(op for op in file.program.main.operators if op.type == "conv2d"):
        name, op.type = op.inputs.pop("Filter")[0], "sparse_conv2d"
        for slot, kind in (("NonZeroWeights", np.float32), ("OcNonZeros", np.int32), ("Diffs", np.int32)):
            op.inputs[slot] = [f"{slot}{'' if shared else index}"]
            file.parameters[op.inputs[slot][0]] = np.ones(4, kind)
        op.attributes[KERNEL_ATTRIBUTE] = attr("sparse_conv2d/def/4/1/1")
        del file.parameters[name]
    names = {variable.name for variable in file.program.main.variables}
    new = (Variable(name, persistable=True) for name in file.parameters if name not in names)
    file.program.main.variables.extend(new)
    return file


def test_sparse_convolutions_convert_their_own_constants() -> None:
    file = to_half(sparse_file(shared=False))[0]
    assert [kernel for kernel in kernels(file) if "sparse" in kernel] == ["sparse_conv2d def half"] * 2
    assert not any(name.endswith("_fp16") for op in file.program.main.operators for name in op.attributes)
    assert list(precision_violations(file)) == []


def test_sparse_weights_that_are_shared_stay_float32_since_a_float16_kernel_changes_their_steps() -> None:
    file, notes = to_half(sparse_file(shared=True))
    assert [kernel for kernel in kernels(file) if "sparse" in kernel] == ["sparse_conv2d def float"] * 2
    assert "steps of a sparse weight" in notes[-1]


def test_integer_weights_are_dequantized_and_then_converted() -> None:
    file = to_half(build(plan_weights(small_network(), target="arm", bits=8), options=ARM))[0]
    op = next(op for op in file.program.main.operators if op.get("quantize_weight_bits") and op.input("Bias"))
    weight = op.inputs["Filter"][0]
    assert file.parameters[weight].dtype.kind == "i"
    assert {f"{weight}_fp16", f"{weight}_quant_scale", f"{op.inputs['Bias'][0]}_fp16"} <= op.attributes.keys()


def test_the_float_file_is_left_as_it_was() -> None:
    file = float_file(small_network())
    before = copy.deepcopy(file)
    to_half(file)
    assert file.program == before.program
    assert file.parameters.keys() == before.parameters.keys()


def without_border(file: NbFile) -> None:
    operators = file.program.main.operators
    border = next(op for op in operators if op.type == "calib")
    operators.remove(border)
    for op in operators:
        op.inputs = {k: border.inputs["Input"] if v == border.outputs["Out"] else v for k, v in op.inputs.items()}


def unmarked(file: NbFile) -> None:
    op = next(op for op in file.program.main.operators if op.type == "conv2d")
    del op.attributes[f"{op.inputs['Filter'][0]}_fp16"]


def marked_for_float(file: NbFile) -> None:
    op = next(op for op in file.program.main.operators if op.type == "conv2d")
    op.attributes[KERNEL_ATTRIBUTE] = attr("conv2d/def/4/1/1")


def declared_as_float(file: NbFile) -> None:
    for variable in file.program.main.variables:
        variable.dtype = VarType.FP32


def fused_constant(file: NbFile) -> None:
    op = next(op for op in file.program.main.operators if op.type == "elementwise_add")
    op.type = "fusion_elementwise_add_activation"
    op.inputs["Y"] = [next(name for name in file.parameters)]
    op.attributes |= {"act_type": attr("relu"), KERNEL_ATTRIBUTE: attr(f"{op.type}/def/4/5/1")}


def mixed(file: NbFile) -> None:
    op = next(op for op in file.program.main.operators if op.type == "flatten_contiguous_range")
    op.inputs["X"] = [*op.inputs["X"], "x"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (without_border, "conv2d reads x in the wrong precision"),
        (unmarked, "is converted for a kernel of another precision, or not converted"),
        (marked_for_float, "in the wrong precision"),
        (declared_as_float, "is declared in the wrong precision"),
        (fused_constant, "is read as float16, and never converted"),
        (mixed, "moves float16 and float32 at once"),
    ],
)
def test_the_rules_find_what_a_device_would_compute_wrongly(damage: Callable[[NbFile], None], problem: str) -> None:
    file = half(small_network())
    assert violations(file) == []
    damage(file)
    assert problem in " ".join(violations(file))


def test_a_file_of_integer_kernels_stays_what_it_is_and_says_so() -> None:
    file = float_file(small_network())
    file.program.main.operators[1].attributes["enable_int8"] = attr(True)
    made, (note,) = to_half(file)
    assert made is file
    assert "computes with integers" in note


def test_a_model_without_any_float16_kernel_stays_float32_and_says_so() -> None:
    file = float_file(graph("g (float[2,3] x) => (float[2,3] y) { y = Exp(x) }"))
    made, (note,) = to_half(file)
    assert made is file
    assert "no operator" in note


@pytest.mark.parametrize(
    ("body", "releases"),
    [("y = Relu(x)", "2.10, 2.12 or 2.13rc0"), ("t = Transpose(x) y = MatMul(x, t)", "2.12 or 2.13rc0")],
    ids=["relu", "matmul"],
)
def test_a_note_names_the_releases_that_have_all_kernels(body: str, releases: str) -> None:
    note = to_half(float_file(graph(f"g (float[2,3] x) => (float y) {{ {body} }}")))[1][0]
    assert note.startswith("1 of 1 operators that compute do so in float16")
    assert f"Paddle-Lite {releases} built with" in note


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("tanh/def/4/1/1", "tanh/def/4/5/1"),
        ("elementwise_add/int64/4/1/1", None),
        ("hard_sigmoid/def/1/1/1", None),
        ("rnn/def/4/1/1", None),  # only 2.12 has it
        ("exp/def/4/1/1", None),
        ("conv2d/int8_out/4/2/1", None),
    ],
)
def test_a_float16_kernel_is_the_twin_of_arms_own_float_kernel(kernel: str, expected: str | None) -> None:
    assert half_kernel(Operator(kernel.split("/")[0], attributes={KERNEL_ATTRIBUTE: attr(kernel)})) == expected


def test_what_float16_kernels_distort_stays_float32_with_the_reason() -> None:
    body = "a = Relu(x) b = Tanh(a) y = GlobalAveragePool(b) z = AveragePool<kernel_shape=[4,4]>(b)"
    model = graph(f"g (float[1,4,112,112] x) => (float y, float z) {{ {body} }}")
    made, notes = to_half(float_file(model))
    assert [kernel for kernel in kernels(made) if "tanh" in kernel or "pool2d" in kernel] == [
        *("tanh def float", "pool2d def float", "pool2d def half")
    ]
    assert any("beyond 11" in note for note in notes)
    assert any("more than 256" in note for note in notes)


@pytest.mark.parametrize(("function", "expected"), [("Relu", (6,)), ("Tanh", None)])
def test_transposed_convolutions_with_a_function_have_a_bias_of_zeros(
    function: str, expected: tuple[int, ...] | None
) -> None:
    body = f"h = ConvTranspose<group=2, strides=[2,2]>(x, w) y = {function}(h)"
    made = half(graph(f"g (float[1,4,5,6] x) => (float y) {{ {body} }}", w=random(4, 3, 3, 3)))
    op = next(op for op in made.program.main.operators if op.type == "conv2d_transpose")
    bias = op.input("Bias")
    assert (None if bias is None else made.parameters[bias].shape) == expected
    assert bias is None or op.get(f"{bias}_fp16") == "fp16"


@pytest.mark.parametrize(
    ("channels", "attributes", "expected"), [(16, "", True), (8, "", False), (16, "<strides=[2,2]>", False)]
)
def test_a_note_says_what_the_proof_cannot_hold(channels: int, attributes: str, expected: bool) -> None:
    size = "3,3" if attributes else "6,6"
    text = f"g (float[1,{channels},8,8] x) => (float[1,{channels},{size}] y) {{ y = Conv{attributes}(x, w) }}"
    notes = to_half(float_file(graph(text, w=random(channels, channels, 3, 3))))[1]
    assert any("1 convolutions of 3 x 3 run in a Winograd form" in note for note in notes) == expected


def output(model: ir.Model, x: np.ndarray) -> np.ndarray:
    return run(model, {"x": x})[0]


@pytest.mark.parametrize(
    ("body", "compute"),
    [
        ("y = Relu(x)", lambda x: x.astype(np.float16)),
        ("y = Add(x, c)", lambda x: x.astype(np.float16).astype(np.float32) + np.float32(np.float16(0.3))),
        ("y = Exp(x)", np.exp),
    ],
    ids=["data", "constants", "float kernel"],
)
def test_reading_with_rounding_rounds_what_a_device_holds_in_float16(
    body: str, compute: Callable[[np.ndarray], np.ndarray]
) -> None:
    constants = {"c": np.float32(0.3)} if "c)" in body else {}
    data = serialize(half(graph(f"g (float[2,3] x) => (float[2,3] y) {{ {body} }}", **constants)))
    x = abs(random(2, 3))
    got = output(read(data, rounded=True).model, x)
    expected = compute(x)
    if "Exp" not in body:
        expected = expected.astype(np.float16).astype(np.float32)
    assert np.allclose(got, expected, rtol=1e-6)
    assert np.array_equal(got, got.astype(np.float16)) == ("Exp" not in body)


def test_reading_with_rounding_shows_values_that_leave_the_range_of_float16() -> None:
    data = serialize(half(graph("g (float[2,3] x) => (float[2,3] y) { a = Mul(x, x) y = Relu(a) }")))
    x = np.full((2, 3), 300, np.float32)
    assert np.all(output(read(data).model, x) == 90000)
    assert np.all(np.isinf(output(read(data, rounded=True).model, x)))


def test_inspect_shows_the_precision_of_kernels_and_constants() -> None:
    text = description(half(small_network()))
    assert "arm float16 def" in text
    assert "arm float16 fp32_to_fp16" in text
    assert text.count("float16 when loaded") == 7
