from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from converter_lite.errors import TargetError
from converter_lite.formats.mindspore_lite.container import MsModel
from converter_lite.formats.mindspore_lite.enums import Compression, DataType, QuantType, ReduceMode
from converter_lite.formats.mindspore_lite.exporter.writer import check, lower, write
from converter_lite.formats.mindspore_lite.format import MS_REQUIREMENTS
from converter_lite.formats.mindspore_lite.importer.reader import read
from converter_lite.formats.mindspore_lite.options import Compatibility, MsOptions
from converter_lite.pipeline.prepare import optimized
from converter_lite.quantization.plan import NodeMode
from tests.formats.mindspore_lite.models import (
    convolutional,
    floating,
    from_nodes,
    fully_quantized,
    weights_quantized,
)
from tests.support import build, normal


def operators(model: ir.Model) -> Counter[str]:
    return Counter(node.op for node in lower(floating(model)).nodes)


def test_a_convolutional_network_gets_no_transpose() -> None:
    found = operators(convolutional())
    assert "Transpose" not in found
    assert found["Conv2DFusion"] == 3


def test_activations_are_computed_inside_of_their_producers() -> None:
    kinds = {n.name: n.attributes.get("activation_type") for n in lower(floating(convolutional())).nodes}
    assert (kinds["first"], kinds["depthwise"], kinds["pointwise"]) == (1, 3, 0)
    assert "relu" not in kinds


def test_images_go_in_as_nhwc_and_other_inputs_as_they_are() -> None:
    model = lower(floating(convolutional()))
    assert model.tensors[model.inputs[0]].dims == (1, 8, 8, 3)
    assert lower(floating(convolutional()), options=MsOptions(nchw_inputs=True)).tensors[0].dims == (1, 3, 8, 8)


def test_an_input_with_channels_last_is_not_turned_again() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["y"]),
    ]
    model = from_nodes(nodes, {"x": (1, 8, 8, 3)}, {"w": np.ones((4, 3, 3, 3), np.float32)}, ["y"])
    ms = lower(floating(model))
    assert ms.tensors[ms.inputs[0]].dims == (1, 8, 8, 3)
    assert [node.op for node in ms.nodes] == ["Conv2DFusion", "Transpose"]  # the second gives the output in NCHW
    ms = lower(floating(model), options=MsOptions(nhwc_outputs=True))
    assert [node.op for node in ms.nodes] == ["Conv2DFusion"]


def test_outputs_carry_the_names_of_the_model() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sigmoid", ["a"], ["b"])]
    model = from_nodes(nodes, {"x": (2, 3)}, {}, ["b", "a"])
    ms = read(write(floating(model)))
    assert [ms.tensors[i].name for i in ms.outputs] == ["b", "a"]


def test_an_output_that_is_also_an_input_gets_a_node() -> None:
    model = from_nodes([helper.make_node("Identity", ["x"], ["y"])], {"x": (2, 3)}, {}, ["y"])
    assert [node.op for node in lower(floating(model)).nodes] == ["Reshape"]


def test_a_single_number_that_would_only_be_copied_is_refused() -> None:
    model = from_nodes([helper.make_node("Identity", ["x"], ["y"])], {"x": ()}, {}, ["y"])
    with pytest.raises(TargetError, match="copies a single number"):
        lower(floating(model))


def test_a_file_in_which_nothing_depends_on_an_input_is_refused() -> None:
    nodes = [helper.make_node("Identity", ["a"], ["y"]), helper.make_node("Identity", ["b"], ["z"])]
    constants = {"a": np.float32([2, 3]), "b": np.float32([4])}
    with pytest.raises(TargetError, match="no input has a part in any output"):
        lower(floating(from_nodes(nodes, {"x": (2, 3)}, constants, ["y", "z"])))


def test_a_text_is_refused() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["a"], ["z"])]
    model = from_nodes(nodes, {"x": (2, 3)}, {"a": np.array([b"cat"], object)}, ["y", "z"])
    with pytest.raises(TargetError, match="z \\(output\\): the constant a has the type"):
        lower(floating(model))


def test_equal_constants_are_stored_once() -> None:
    half = np.full((2, 3), 0.5, np.float32)
    nodes = [helper.make_node("Mul", ["x", "a"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    model = from_nodes(nodes, {"x": (2, 3)}, {"a": half, "b": half.copy()}, ["y"])
    assert sum(t.is_constant for t in lower(floating(model)).tensors) == 1


def test_a_sum_of_squares_leaves_its_input_alone() -> None:
    """The runtime's reduction of that name squares the tensor that it reads, in place."""
    nodes = [
        helper.make_node("ReduceSumSquare", ["x", "axes"], ["total"]),
        helper.make_node("Div", ["x", "total"], ["y"]),
    ]
    model = from_nodes(nodes, {"x": (2, 5)}, {"axes": np.array([1])}, ["y"])
    ms = lower(floating(model))
    assert [node.op for node in ms.nodes] == ["Square", "ReduceFusion", "DivFusion"]
    assert ms.nodes[1].attributes["mode"] == ReduceMode.SUM


def test_every_node_that_cannot_be_expressed_is_named_with_its_reason() -> None:
    nodes = [
        helper.make_node("Det", ["x"], ["d"], name="determinant"),
        helper.make_node("Pad", ["x", "pads"], ["p"], name="padding", mode="wrap"),
        helper.make_node("TopK", ["x", "k"], ["v", "i"], name="top"),
        helper.make_node("NonZero", ["d"], ["n"], name="behind"),
    ]
    constants = {"pads": np.array([0, 1, 0, 1]), "k": np.array([1])}
    model = from_nodes(nodes, {"x": (3, 3)}, constants, ["d", "p", "v", "n"])
    problems = check(model)
    assert [(p.node, p.op_type) for p in problems] == [("determinant", "Det")]
    assert "Det" in problems[0].reason
    with pytest.raises(TargetError, match=r"determinant \(Det\)") as error:
        write(floating(model))
    assert "saveType=ONNX" in error.value.hint


def test_an_operator_whose_data_decide_how_much_it_gives_is_a_problem() -> None:
    model = from_nodes([helper.make_node("NonZero", ["x"], ["y"], name="places")], {"x": (2, 3)}, {}, ["y"])
    assert "places (NonZero): how many elements it gives depends on the data" in str(check(model)[0])


def test_a_shape_that_is_not_fixed_is_a_problem() -> None:
    model = from_nodes([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, {}, ["y"])
    model.graph.inputs[0].shape = ir.Shape(["batch", 3])
    assert "not fixed" in check(model)[0].reason


@pytest.mark.parametrize("axes", [6, 7])
def test_the_runtimes_pad_six_axes(axes: int) -> None:
    pads = np.eye(1, 2 * axes, 2 * axes - 1, dtype=np.int64)[0]
    model = from_nodes([helper.make_node("Pad", ["x", "pads"], ["y"])], {"x": (2,) * axes}, {"pads": pads}, ["y"])
    problems = check(model)
    assert ["at most 6" in problem.reason for problem in problems] == [True] * (axes > 6)


def test_integers_that_are_clipped_are_reported() -> None:
    constants = {"far": np.array([2**40]), "near": np.array([2**30])}
    nodes = [helper.make_node("Add", ["x", name], [f"y_{name}"]) for name in constants]
    model = from_nodes(nodes, {"x": (2,)}, dict(constants), ["y_far", "y_near"], kinds={"x": 7})
    notes: list[str] = []
    write(floating(model), notes=notes)
    assert notes == ["far: integers beyond 32 bits are clipped, the runtimes have no wider ones"]


def test_an_input_without_elements_is_a_problem() -> None:
    model = from_nodes([helper.make_node("Relu", ["x"], ["y"])], {"x": (0, 3)}, {}, ["y"])
    assert [str(problem) for problem in check(model)] == ["x (input): its shape [0, 3] holds no element"]


def test_a_result_without_elements_is_a_problem() -> None:
    nodes = [helper.make_node("Split", ["x", "sizes"], ["y", "z"], name="parts")]
    model = from_nodes(nodes, {"x": (2, 3)}, {"sizes": np.array([2, 0])}, ["y", "z"])
    assert [str(problem) for problem in check(model)] == ["parts (Split): z holds no element"]


def test_indices_of_a_pool_that_are_an_output_are_a_problem_of_the_pool() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y", "i"], name="pool", kernel_shape=[2, 2])
    assert [problem.node for problem in check(from_nodes([pool], {"x": (1, 3, 8, 8)}, {}, ["y", "i"]))] == ["pool"]


def twins(second: tuple[int, ...]) -> ir.Model:
    """Two convolutions with one weight, the second on pictures of its own size."""
    nodes = [helper.make_node("Conv", [x, "w"], [y], name=y) for x, y in (("a", "y"), ("b", "z"))]
    return from_nodes(nodes, {"a": (1, 3, 8, 8), "b": second}, {"w": np.ones((2, 3, 3, 3), np.float32)}, ["y", "z"])


def filters(ms: MsModel) -> int:
    """Tensors that convolutions have as weights."""
    return len({node.inputs[1] for node in ms.nodes if node.op == "Conv2DFusion"})


def test_nodes_that_pack_a_weight_differently_get_tensors_of_their_own() -> None:
    notes: list[str] = []
    assert filters(lower(floating(twins((1, 3, 5, 9))), notes=notes)) == 2
    assert notes == ["w: stored 2 times, its nodes need it in different forms"]


def test_nodes_that_do_the_same_share_their_weight() -> None:
    notes: list[str] = []
    assert filters(lower(floating(twins((1, 3, 8, 8))), notes=notes)) == 1
    assert notes == []


def test_quantized_weights_are_shared() -> None:
    assert filters(lower(weights_quantized(twins((1, 3, 5, 9)), 8))) == 1


def test_an_integer_product_with_a_constant_before_it_is_computed_with_floats() -> None:
    eye = np.eye(4, dtype=np.float32)
    model = from_nodes([helper.make_node("MatMul", ["w", "x"], ["y"], name="p")], {"x": (4, 2)}, {"w": eye}, ["y"])
    notes: list[str] = []
    quantized = floating(model)
    quantized.plan.quantize(model.graph[0], NodeMode.INTEGER)
    ms = lower(quantized, notes=notes)
    assert [node.quant_type for node in ms.nodes] == [QuantType.NONE]
    assert notes == ["p (MatMul): computed with floats, its left operand is constant"]


@pytest.mark.parametrize("bits", range(1, 17))
def test_weights_have_the_width_that_the_plan_says(bits: int) -> None:
    ms = lower(weights_quantized(convolutional(), bits))
    quantized = [t for t in ms.tensors if t.quant is not None]
    assert len(quantized) == 4
    for tensor in quantized:
        assert tensor.quant is not None
        assert tensor.quant.bits == bits
        assert tensor.dtype is (DataType.INT8 if bits <= 8 else DataType.INT16)
    assert Counter(node.quant_type for node in ms.nodes)[QuantType.WEIGHT] == 4


def test_without_encoding_eight_bits_stay_raw() -> None:
    ms = lower(weights_quantized(convolutional(), 8), options=MsOptions(encode=False))
    assert {t.compression for t in ms.tensors} == {Compression.NONE}


def test_for_the_wheels_dense_weights_are_expanded_at_load() -> None:
    options = MsOptions(compatibility=Compatibility.WHEEL)
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(16, 16, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    model = from_nodes(nodes, {"x": (1, 16, 8, 8)}, {"w": weight}, ["y"])
    ms = lower(weights_quantized(model, 6), options=options)
    assert [node.op for node in ms.nodes][:2] == ["Conv2DFusion", "ScaleFusion"]
    assert all(node.quant_type is QuantType.NONE for node in ms.nodes)
    assert [t.compression for t in ms.tensors if t.compression is not Compression.NONE] == [Compression.FSE]
    assert ms.nodes[1].attributes["activation_type"] == 1


def test_a_dynamic_product_gets_its_activation_quantized_at_run_time() -> None:
    model = from_nodes(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        {"x": (4, 8)},
        {"w": np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)},
        ["y"],
    )
    ms = lower(weights_quantized(model, 8, mode=NodeMode.DYNAMIC))
    assert [(n.op, n.quant_type) for n in ms.nodes] == [
        ("DynamicQuant", QuantType.DYNAMIC),
        ("MatMulFusion", QuantType.DYNAMIC),
    ]


RANGES = {"x": (-1.0, 1.0), "r0": (0.0, 2.0), "r1": (0.0, 6.0), "c2": (-3.0, 3.0), "s": (-3.0, 4.0)}


def test_integer_nodes_are_framed_by_casts() -> None:
    ms = lower(fully_quantized(convolutional(), RANGES))
    kinds = [(node.op, node.quant_type) for node in ms.nodes]
    assert kinds[0] == ("QuantDTypeCast", QuantType.NONE)
    assert kinds.count(("Conv2DFusion", QuantType.ALL)) == 3
    assert ("AddFusion", QuantType.ALL) in kinds
    assert ("MatMulFusion", QuantType.WEIGHT) in kinds  # its input has no parameters: weights only


def test_integer_biases_are_in_units_of_input_and_weight_scale() -> None:
    quantized = fully_quantized(convolutional(), RANGES)
    ms = lower(quantized)
    first = next(node for node in ms.nodes if node.op == "Conv2DFusion")
    bias = ms.tensors[first.inputs[2]]
    scale = quantized.plan.activations["x"].scale * quantized.plan.weights["w0"].scale
    real = quantized.model.graph.initializers["b0"].const_value
    assert real is not None
    assert bias.dtype is DataType.INT32
    assert np.abs(np.asarray(bias.data) * scale - real.numpy()).max() <= scale.max() / 2 * 1.001


def test_what_is_stored_otherwise_than_planned_is_reported() -> None:
    notes: list[str] = []
    write(fully_quantized(convolutional(), RANGES), notes=notes)
    told = [note for note in notes if note.startswith("classifier (Gemm)")]
    assert told == ["classifier (Gemm): computed with floats, an input or output has no quantization parameters"]


def test_the_same_model_gives_the_same_bytes() -> None:
    assert write(weights_quantized(convolutional(), 4)) == write(weights_quantized(convolutional(), 4))


@pytest.mark.parametrize(
    ("op", "most"), [("Relu", 8), ("Add", 7), ("Less", 7), ("Expand", 7), ("Tile", 7), ("Slice", 7)]
)
def test_more_axes_than_the_runtime_loads_are_refused(op: str, most: int) -> None:
    more = {"Add": ["x"], "Less": ["x"], "Expand": ["twice"], "Tile": ["twice"], "Slice": ["one", "two"]}.get(op, [])
    for rank in (most, most + 1):
        ones = np.ones(rank, np.int64)
        constants = {"twice": 2 * ones, "one": ones[:1], "two": 2 * ones[:1]}
        used = {name: array for name, array in constants.items() if name in more}
        model = from_nodes([helper.make_node(op, ["x", *more], ["y"])], {"x": (*(2,) * (rank - 1), 1)}, used, ["y"])
        reasons = [problem.reason for problem in check(model)]
        assert reasons == ([] if rank == most else [f"a tensor of {rank} axes (at most {most})"])


def test_constants_can_be_stored_as_float16() -> None:
    small = write(floating(convolutional()), options=MsOptions(float16=True))
    assert len(small) < len(write(floating(convolutional())))
    assert {t.dtype for t in read(small).tensors if t.is_constant} >= {DataType.FLOAT16}


@pytest.mark.parametrize(
    ("largest", "kind"), [(65504.0, DataType.FLOAT16), (1e5, DataType.FLOAT32), (-np.inf, DataType.FLOAT16)]
)
def test_constants_beyond_float16_stay_float32(largest: float, kind: DataType) -> None:
    model = build("g (float[2,3] x) => (float[2,3] y) { y = Add(x, w) }", w=np.array([1, 2, largest], np.float32))
    assert [
        t.dtype for t in read(write(floating(model), options=MsOptions(float16=True))).tensors if t.is_constant
    ] == [kind]


@pytest.mark.parametrize("numbers", [[1e-12], [0.0, 1e-8, -1e-9]])
def test_constants_that_would_be_nothing_but_zeros_in_float16_stay_float32(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    model = build("g (float[2,3] x) => (float[2,3] y) { a = Abs(x) y = Add(a, w) }", w=array)
    file = read(write(floating(model), options=MsOptions(float16=True)))
    assert [t.dtype for t in file.tensors if t.is_constant] == [DataType.FLOAT32]
    zeros = build("g (float[2,3] x) => (float[2,3] y) { a = Abs(x) y = Add(a, w) }", w=0 * array)
    file = read(write(floating(zeros), options=MsOptions(float16=True)))
    assert [t.dtype for t in file.tensors if t.is_constant] == [DataType.FLOAT16]


@pytest.mark.parametrize(
    "text",
    [
        "b = Greater(x, zero) y = Where(b, w, x)",
        'y = ScatterND<reduction="add">(w, places, x)',
        'y = ScatterElements<reduction="add">(w, elements, x)',
    ],
    ids=["Where", "ScatterND", "ScatterElements"],
)
def test_constants_that_runtimes_do_not_widen_stay_float32(text: str) -> None:
    constants = {"w": normal(2, 3), "zero": np.array(1e-12, np.float32), "places": np.array([[1], [0]])}
    constants["elements"] = np.array([[0, 1, 1], [1, 0, 1]])
    used = {name: value for name, value in constants.items() if name in text}
    model = optimized(build(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", opset=17, **used), MS_REQUIREMENTS)[0]
    file = read(write(floating(model), options=MsOptions(float16=True)))
    assert DataType.FLOAT16 not in {t.dtype for t in file.tensors}


def test_a_row_that_the_file_repeats_for_a_choice_stays_float32() -> None:
    constants = {"row": normal(1, 640), "zero": np.array(1e-12, np.float32)}
    text = "g (float[4,640] x) => (float[4,640] y) { b = Greater(x, zero) y = Where(b, row, x) }"
    file = read(write(floating(build(text, opset=17, **constants)), options=MsOptions(float16=True)))
    assert "BroadcastTo" in {n.op for n in file.nodes}
    assert DataType.FLOAT16 not in {t.dtype for t in file.tensors}


def test_what_is_computed_from_a_float16_table_is_cast_in_front_of_a_choice() -> None:
    text = "rows = Gather<axis=0>(table, words) e = Relu(rows) b = Greater(x, zero) y = Where(b, e, x)"
    constants = {"table": normal(9, 3), "zero": np.zeros((), np.float32)}
    model = build(f"g (float[2,3] x, int64[2] words) => (float[2,3] y) {{ {text} }}", opset=17, **constants)
    nodes = [n.op for n in read(write(floating(model), options=MsOptions(float16=True))).nodes]
    assert [nodes.count("Cast"), nodes.index("Cast") + 1] == [1, nodes.index("Where")]
    assert "Cast" not in {n.op for n in read(write(floating(model))).nodes}


@pytest.mark.parametrize("bias", [(4, 5), (4, 1), None], ids=["matrix", "column", "computed"])
@pytest.mark.parametrize("compatibility", Compatibility)
def test_weights_of_products_with_any_bias_are_stored_as_planned(
    bias: tuple[int, ...] | None, compatibility: Compatibility
) -> None:
    constants = {"w": normal(64, 5), **({"c": normal(*bias)} if bias else {})}
    inputs = {"x": (4, 64), **({} if bias else {"c": (4, 5)})}
    model = from_nodes([helper.make_node("Gemm", ["x", "w", "c"], ["y"], beta=0.5)], inputs, constants, ["y"])
    file = lower(weights_quantized(model, 4), options=MsOptions(compatibility=compatibility))
    (weight,) = (tensor for tensor in file.tensors if tensor.is_constant and tensor.dims == (64, 5))
    assert (weight.quant is not None) == (compatibility is Compatibility.DEVICE)
    assert (weight.compression is Compression.FSE) == (compatibility is Compatibility.WHEEL)


def test_a_clip_of_whole_numbers_without_bounds_is_left_out() -> None:
    model = build("g (int32[2,3] x) => (int32[2,3] y) { a = Clip(x) y = Add(a, a) }")
    assert operators(model) == {"AddFusion": 1}


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_normalizations_by_neighbours_are_of_pictures(rank: int) -> None:
    sizes = ",".join("234"[:rank] + "5" * (rank - 3))
    model = build(f"g (float[{sizes}] x) => (float[{sizes}] y) {{ y = LRN<size=3>(x) }}")
    assert [problem.reason for problem in check(model)] == [f"a tensor of {rank} axes, where it takes pictures"]


@pytest.mark.parametrize(
    ("node", "shapes"),
    [
        (helper.make_node("MatMul", ["a", "b"], ["y"]), ((2, 3), (3, 4))),
        (helper.make_node("Gemm", ["a", "b"], ["y"]), ((2, 3), (3, 4))),
        (helper.make_node("ReduceL2", ["a"], ["y"], axes=[1]), ((2, 3),)),
        (helper.make_node("ReduceSumSquare", ["a"], ["y"], axes=[1]), ((2, 3),)),
        (helper.make_node("ReduceLogSum", ["a"], ["y"], axes=[1]), ((2, 3),)),
        (helper.make_node("ReduceMean", ["a"], ["y"], axes=[0, 1]), ((2, 3),)),
        (helper.make_node("Resize", ["a", "", "f"], ["y"], mode="linear"), ((1, 2, 4, 5),)),
        (helper.make_node("Pow", ["a", "half"], ["y"]), ((2, 3),)),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_whole_numbers_are_refused_where_kernels_take_floats(
    node: onnx.NodeProto, shapes: tuple[tuple[int, ...], ...]
) -> None:
    inputs = dict(zip("ab", shapes, strict=False))
    constants = {"f": np.array([1, 1, 2, 2], np.float32), "half": np.array(0.5, np.float32)}
    used = {name: array for name, array in constants.items() if name in node.input}
    model = from_nodes([node], inputs, used, ["y"], dict.fromkeys(inputs, onnx.TensorProto.INT32))
    with pytest.raises(TargetError, match=r"whole numbers|powers of integers"):
        lower(floating(model))


def test_a_reduction_of_a_single_number_is_refused() -> None:
    model = from_nodes([helper.make_node("ReduceL2", ["x"], ["y"])], {"x": ()}, {}, ["y"])
    with pytest.raises(TargetError, match="reduction of a single number"):
        lower(floating(model))
