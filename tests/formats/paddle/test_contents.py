"""Sizes that a program counts with are constants of the graph where they are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.formats.paddle.importer.contents import LARGEST, MOST, Numbers, follow, numbers_of, open_as_rest
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_models import PirProgram

PICTURE = random(2, 4, 6, 8)
OPEN = (-1, 4, 6, 8)


def size(p: PirProgram, x: int, axis: int) -> int:
    """One size, as programs read it."""
    places = p.ints(axis), p.ints(axis + 1)
    return p.op("slice", p.op("shape64", x), *places, axes=[0], decrease_axis=[0], infer_flags=[1])


def stacked(p: PirProgram, *values: int) -> int:
    return p.op("stack", p.combine(*values), axis=0)


def pixels_in_a_row(p: PirProgram, x: int) -> int:
    area = p.op("multiply", size(p, x, 2), size(p, x, 3))
    return p.op("reshape", x, stacked(p, size(p, x, 0), size(p, x, 1), area))


def extremes(p: PirProgram, x: int) -> int:
    most = p.op("maximum", size(p, x, 2), size(p, x, 3))
    least = p.op("minimum", size(p, x, 2), size(p, x, 3))
    return p.op("reshape", x, stacked(p, size(p, x, 0), p.full(4, "int64", []), most, least))


def expanded(p: PirProgram, x: int) -> int:
    one = p.full(1, "int64", [])
    table = p.constant(random(1, 4, 1, 8, seed=5))
    return p.op("expand", table, stacked(p, one, size(p, x, 1), size(p, x, 2), size(p, x, 3)))


def counted(p: PirProgram, x: int) -> int:
    limits = p.full(0, "int64", []), size(p, x, 3), p.full(1, "int64", [])
    row = p.op("cast", p.op("arange", *limits, dtype="int64"), dtype="float32")
    return p.op("add", x, row)


FUNCTIONS: dict[str, tuple[Callable[[PirProgram, int], int], NDArray[np.float32], list[int | None]]] = {
    "pixels in a row": (pixels_in_a_row, PICTURE.reshape(2, 4, 48), [None, 4, 48]),
    "extremes": (extremes, PICTURE.reshape(2, 4, 8, 6), [None, 4, 8, 6]),
    "expanded": (expanded, np.broadcast_to(random(1, 4, 1, 8, seed=5), (1, 4, 6, 8)), [1, 4, 6, 8]),
    "counted": (counted, PICTURE + np.arange(8, dtype=np.float32), [None, 4, 6, 8]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_that_are_known_are_constants_of_the_graph(name: str, tmp_path: Path) -> None:
    build, want, dims = FUNCTIONS[name]
    program = PirProgram()
    program.output(build(program, program.input("x", OPEN)))
    model = read_paddle(program.save(tmp_path / "m")).model
    (result,) = model.graph.outputs
    assert result.shape is not None
    assert [d if isinstance(d, int) else None for d in result.shape.dims] == dims
    shapes = [node.inputs[1] for node in model.graph if node.op_type in ("Reshape", "Expand")]
    assert all(shape is not None and shape.const_value is not None for shape in shapes)
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run({"x": PICTURE})
    np.testing.assert_allclose(found[str(result.name)], want, rtol=1e-6)


def test_two_sizes_that_are_not_known_stay_computed(tmp_path: Path) -> None:
    program = PirProgram()
    program.output(pixels_in_a_row(program, program.input("x", (-1, 4, -1, 8))))
    model = read_paddle(program.save(tmp_path / "m")).model
    (reshape,) = (node for node in model.graph if node.op_type == "Reshape" and node.outputs[0].name == "fetch_name_0")
    assert reshape.inputs[1] is not None
    assert reshape.inputs[1].const_value is None
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run({"x": PICTURE})
    np.testing.assert_array_equal(found["fetch_name_0"], PICTURE.reshape(2, 4, 48))


def directly(p: PirProgram, x: int) -> int:
    return stacked(p, size(p, x, 0), p.full(4, "int64", []), size(p, x, 2), size(p, x, 3))


def in_narrow_integers(p: PirProgram, x: int) -> int:
    narrow = p.op("cast", p.op("shape64", x), dtype="int32")
    parts = [p.op("slice", narrow, p.ints(a), p.ints(b), axes=[0], infer_flags=[1]) for a, b in ((0, 1), (2, 4))]
    return p.op("concat", p.combine(parts[0], p.full(4, "int32"), parts[1]), p.full(0, "int32"))


@pytest.mark.parametrize("shape", [directly, in_narrow_integers])
def test_sizes_are_put_together_in_one_way(shape: Callable[[PirProgram, int], int], tmp_path: Path) -> None:
    """The two kinds of files count with integers of other widths."""
    program = PirProgram()
    x = program.input("x", (-1, 4, -1, -1))
    program.output(program.op("reshape", program.op("transpose", x, perm=[3, 2, 1, 0]), shape(program, x)))
    model = read_paddle(program.save(tmp_path / "m")).model
    assert {node.op_type for node in model.graph} == {"Transpose", "Shape", "Slice", "Concat", "Reshape"}
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run({"x": PICTURE})
    np.testing.assert_array_equal(found["fetch_name_0"], PICTURE.transpose(3, 2, 1, 0).reshape(PICTURE.shape))


def test_a_shape_that_was_taken_apart_is_taken_whole(tmp_path: Path) -> None:
    program = PirProgram()
    x = program.input("x", (-1, -1, -1))
    whole = program.op("shape64", x)
    parts = [
        program.op("slice", whole, program.ints(n), program.ints(n + 1), axes=[0], infer_flags=[1]) for n in range(3)
    ]
    shape = program.op("concat", program.combine(*parts), program.full(0, "int32"))
    program.output(program.op("reshape", program.op("transpose", x, perm=[2, 1, 0]), shape))
    model = read_paddle(program.save(tmp_path / "m")).model
    assert [node.op_type for node in model.graph] == ["Shape", "Transpose", "Reshape"]


@pytest.mark.parametrize(
    ("numbers", "shape"),
    [
        ((None, 4, 5), [-1, 4, 5]),
        ((3, 4), [3, 4]),
        ((-1, 4), [-1, 4]),
        ((None, None), None),
        ((None, -1), None),
    ],
)
def test_one_size_that_is_not_known_follows_from_the_others(numbers: Numbers, shape: list[int] | None) -> None:
    assert open_as_rest(numbers) == shape


VECTOR = np.array([7, -7, 0, 3, 12], np.int64)
OTHER = np.array([2, 2, 5, -2, -5], np.int64)
NODES: dict[str, tuple[str, list[NDArray[np.int64]], dict[str, int]]] = {
    **{kind: (kind, [VECTOR, OTHER], {}) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    "Div by one number": ("Div", [VECTOR, np.array([-3])], {}),
    "one number less": ("Sub", [np.array(10), VECTOR], {}),
    "Concat": ("Concat", [VECTOR, OTHER], {"axis": 0}),
    "Gather": ("Gather", [VECTOR, np.array([1, -1, 0])], {"axis": 0}),
    "Slice": ("Slice", [VECTOR, np.array([1]), np.array([-1])], {}),
    "Slice to the end": ("Slice", [VECTOR, np.array([-2]), np.array([1 << 40]), np.array([0])], {}),
    "Slice in steps": ("Slice", [VECTOR, np.array([0]), np.array([5]), np.array([0]), np.array([2])], {}),
    "Slice of nothing": ("Slice", [VECTOR, np.array([4]), np.array([1])], {}),
    "Cast": ("Cast", [VECTOR], {"to": onnx.TensorProto.INT32}),
    "Unsqueeze": ("Unsqueeze", [np.array(5), np.array([0])], {}),
    "Squeeze": ("Squeeze", [np.array([5]), np.array([0])], {}),
    "Shape": ("Shape", [np.zeros((2, 3, 4), np.int64)], {}),
    "Shape of some": ("Shape", [np.zeros((2, 3, 4), np.int64)], {"start": -2, "end": -1}),
}


def node_of(
    kind: str, arrays: list[NDArray[np.int64]], attributes: dict[str, int]
) -> tuple[ir.Node, NDArray[np.int64]]:
    """A node of constants, with the numbers that onnxruntime says."""
    names = [f"x{place}" for place in range(len(arrays))]
    node = onnx.helper.make_node(kind, names, ["y"], **attributes)
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, array.shape)
        for name, array in zip(names, arrays, strict=True)
    ]
    element = attributes.get("to", onnx.TensorProto.INT64)
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.helper.make_tensor_value_info("y", element, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    feed = {name: np.asarray(array, np.int64) for name, array in zip(names, arrays, strict=True)}
    want = DEFAULT_ENGINE.session(model.SerializeToString(), threads=1).run(feed)["y"]
    made = ir.from_proto(model).graph[0]
    for value, array in zip(made.inputs, feed.values(), strict=True):
        assert value is not None
        value.const_value = ir.Tensor(array)
    made.outputs[0].shape = ir.Shape(want.shape)
    return made, want


@pytest.mark.parametrize("name", NODES)
def test_what_is_known_is_what_the_node_computes(name: str) -> None:
    node, want = node_of(*NODES[name])
    contents: dict[ir.Value, Numbers] = {}
    follow(node, contents)
    assert contents.get(node.outputs[0], ()) == tuple(want.reshape(-1))


def test_what_is_not_known_is_not_guessed() -> None:
    division, _ = node_of("Div", [VECTOR, np.array([1])], {})
    product, _ = node_of("Mul", [VECTOR, VECTOR], {})
    picked, _ = node_of("Gather", [VECTOR, np.array([1])], {"axis": 0})
    contents: dict[ir.Value, Numbers] = {}
    limit = LARGEST[ir.DataType.INT64]
    numbers = {division: np.array([0]), product: np.array([limit, 1, 1, 1, 1]), picked: np.array([9])}
    for node, array in numbers.items():
        assert node.inputs[1] is not None
        node.inputs[1].const_value = ir.Tensor(np.asarray(array, np.int64))
        follow(node, contents)
    assert contents == {product.outputs[0]: (None, -7, 0, 3, 12)}


def test_what_does_not_fit_into_narrow_integers_is_not_known() -> None:
    node, _ = node_of("Cast", [np.array([1 << 31, 1 << 30])], {"to": onnx.TensorProto.INT32})
    node.outputs[0].dtype = ir.DataType.INT32
    contents: dict[ir.Value, Numbers] = {}
    follow(node, contents)
    assert contents == {node.outputs[0]: (None, 1 << 30)}


def test_long_tensors_and_matrices_are_not_followed() -> None:
    for array in (np.zeros(MOST + 1, np.int64), np.zeros((2, 2), np.int64)):
        value = ir.Value(name="x", type=ir.TensorType(ir.DataType.INT64), const_value=ir.Tensor(array))
        assert numbers_of(value, {}) is None
    assert numbers_of(None, {}) is None
    assert numbers_of(ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT)), {}) is None
