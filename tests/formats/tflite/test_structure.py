"""What becomes of a whole graph: order of axes, names, open sizes, graphs that call others."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.errors import UsageError
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.importer.graph import to_quantized_model
from tests.formats.tflite import reference
from tests.formats.tflite.case import i32, normal, scalar
from tests.formats.tflite.files import File, Graph
from tests.formats.tflite.running import operators, outputs, read

STEPS = {"stride_h": 1, "stride_w": 1}
BOOL, INT32 = TensorType.BOOL, TensorType.INT32


def conv(main: Graph, x: int, y: int, weight: np.ndarray, **options: int) -> int:
    bias = main.constant(np.zeros(weight.shape[0], np.float32))
    main.op("CONV_2D", [x, main.constant(weight), bias], [y], **{"padding": 0, **STEPS, **options})
    return y


def test_the_order_of_axes_changes_at_the_interface_only() -> None:
    file, first, second = File(), normal(4, 3, 3, 3), normal(4, 1, 1, 4)
    main, scale = file.main, normal(4)
    x = main.input((1, 6, 5, 3), name="x")
    a = conv(main, x, main.tensor((1, 6, 5, 4), name="a"), first)
    (b,) = main.op("RELU6", [a], [main.tensor((1, 6, 5, 4), name="b")])
    (c,) = main.op("MUL", [b, main.constant(scale)], [main.tensor((1, 6, 5, 4), name="c")])
    d = conv(main, c, main.tensor((1, 6, 5, 4), name="d"), second)
    (e,) = main.op("ADD", [d, b], [main.tensor((1, 6, 5, 4), name="e")])
    (f,) = main.op("CONCATENATION", [e, a], [main.tensor((1, 6, 5, 8), name="f")], axis=3)
    (g,) = main.op("SOFTMAX", [f], [main.tensor((1, 6, 5, 8), name="g")], beta=1.0)
    part = [main.constant(i32(0, 1, 0, 2)), main.constant(i32(-1, 4, -1, 5))]
    (h,) = main.op("SLICE", [g, *part], [main.tensor((1, 4, 5, 5), name="h")])
    (i,) = main.op("MEAN", [h, main.constant(i32(1, 2))], [main.tensor((1, 5), name="i")])
    main.ends_with(i)
    quantized = read(file)
    assert operators(quantized)["Transpose"] == 1
    given = normal(1, 6, 5, 3)
    convolved = reference.conv(given, first, padding="SAME")
    bounded = np.clip(convolved, 0, 6)
    summed = reference.conv(bounded * scale, second) + bounded
    expected = reference.softmax(np.concatenate([summed, convolved], 3))[:, 1:5, :, 2:7].mean((1, 2))
    (found,) = outputs(quantized, given)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_result_with_pictures_has_one_transpose_too() -> None:
    file = File()
    main = file.main
    x = main.input((1, 6, 5, 3), name="x")
    main.ends_with(conv(main, x, main.tensor((1, 6, 5, 4), name="y"), normal(4, 3, 3, 3)))
    assert [node.op_type for node in read(file).model.graph] == ["Transpose", "Conv", "Transpose"]


def test_transposes_of_the_file_to_and_from_pictures_disappear() -> None:
    """As converters of networks with channels first write them."""
    file = File()
    main = file.main
    x = main.input((1, 3, 6, 5), name="x")
    (a,) = main.op("TRANSPOSE", [x, main.constant(i32(0, 2, 3, 1))], [main.tensor((1, 6, 5, 3))])
    b = conv(main, a, main.tensor((1, 6, 5, 4)), normal(4, 3, 3, 3))
    main.ends_with(*main.op("TRANSPOSE", [b, main.constant(i32(0, 3, 1, 2))], [main.tensor((1, 4, 6, 5), name="y")]))
    quantized = read(file)
    assert operators(quantized) == {"Conv": 1}
    (found,) = outputs(quantized, normal(1, 3, 6, 5))
    given = normal(1, 3, 6, 5).transpose(0, 2, 3, 1)
    expected = reference.conv(given, normal(4, 3, 3, 3), padding="SAME").transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_names_of_the_file_are_kept() -> None:
    file = File()
    main = file.main
    x = main.input((1, 6, 5, 3), name="serving_default_x:0")
    w = main.constant(normal(4, 3, 3, 3), name="kernel")
    b = main.constant(normal(4), name="bias")
    (y,) = main.op("CONV_2D", [x, w, b], [main.tensor((1, 6, 5, 4), name="middle")], padding=0, **STEPS)
    main.ends_with(*main.op("EXP", [y], [main.tensor((1, 6, 5, 4), name="StatefulPartitionedCall:0")]))
    graph = read(file).model.graph
    assert [value.name for value in graph.inputs] == ["serving_default_x:0"]
    assert [value.name for value in graph.outputs] == ["StatefulPartitionedCall:0"]
    assert set(graph.initializers) == {"kernel", "bias"}
    assert "middle" in {node.name for node in graph} & {value.name for node in graph for value in node.outputs}


def test_open_sizes_stay_open_unless_they_are_given() -> None:
    file = File()
    main = file.main
    x = main.input((1, 6, 5, 3), name="x", open_shape=(-1, 6, 5, 3))
    a = conv(main, x, main.tensor((1, 3, 3, 4), open_shape=(-1, 3, 3, 4)), normal(4, 3, 3, 3), stride_h=2, stride_w=2)
    (shape,) = main.op("SHAPE", [a], [main.tensor((4,), INT32)], out_type=2)
    bounds = [main.constant(i32(n)) for n in (0, 1, 1)]
    (batch,) = main.op("STRIDED_SLICE", [shape, *bounds], [main.tensor((), INT32)], shrink_axis_mask=1)
    (sizes,) = main.op("PACK", [batch, main.constant(scalar(36))], [main.tensor((2,), INT32)], values_count=2)
    (y,) = main.op("RESHAPE", [a, sizes], [main.tensor((1, 1), name="y", open_shape=(-1, -1))])
    main.ends_with(y)
    quantized = read(file)
    assert operators(quantized) == {"Transpose": 2, "Conv": 1, "Reshape": 1}
    assert [str(size) for size in quantized.model.graph.inputs[0].shape or ()] == ["x_0", "6", "5", "3"]
    given = normal(3, 6, 5, 3)
    (found,) = outputs(quantized, given)
    expected = reference.conv(given, normal(4, 3, 3, 3), stride=(2, 2), padding="SAME").reshape(3, 36)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    fixed = to_quantized_model(file.bytes(), input_shapes={"x": (4, 6, 5, 3)})
    assert fixed.model.graph.outputs[0].shape == (4, 36)


def test_a_shape_that_does_not_fit_is_refused() -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("EXP", [main.input((1, 6), name="x", open_shape=(-1, 6))], [main.tensor((1, 6))]))
    with pytest.raises(UsageError, match="dimension 1 of input 'x' is 6, not 7"):
        to_quantized_model(file.bytes(), input_shapes={"x": (2, 7)})


def test_a_constant_a_copy_and_an_input_can_be_results() -> None:
    file = File()
    main = file.main
    x = main.input((2, 3), name="x")
    (y,) = main.op("RESHAPE", [x, main.constant(i32(2, 3))], [main.tensor((2, 3), name="y")])
    constant = main.constant(normal(4), name="c")
    (size,) = main.op("SHAPE", [x], [main.tensor((2,), INT32, name="size")], out_type=2)
    main.ends_with(y, constant, y, size, x)
    given = normal(2, 3)
    found = outputs(read(file), given)
    for array, expected in zip(found, (given, normal(4), given, i32(2, 3), given), strict=True):
        np.testing.assert_array_equal(array, expected)


def called(file: File, name: str, factor: float) -> Graph:
    """A graph that multiplies with a number."""
    inner = file.graph(name)
    x, y = inner.input((2, 3)), inner.tensor((2, 3))
    inner.ends_with(*inner.op("MUL", [x, inner.constant(np.array(factor, np.float32))], [y]))
    return inner


@pytest.mark.parametrize("kind", ["CALL", "STABLEHLO_COMPOSITE"])
def test_a_graph_that_is_called_is_put_in_its_place(kind: str) -> None:
    file = File()
    main = file.main
    called(file, "inner", 3.0)
    options = {"subgraph": 1} if kind == "CALL" else {"name": "own.triple", "decomposition_subgraph_index": 1}
    (y,) = main.op(kind, [main.input((2, 3), name="x")], [main.tensor((2, 3))], **options)
    main.ends_with(*main.op(kind, [y], [main.tensor((2, 3), name="z")], **options))
    quantized = read(file)
    assert operators(quantized) == {"Mul": 2}
    (found,) = outputs(quantized, normal(2, 3))
    np.testing.assert_allclose(found, 9 * normal(2, 3), rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_one_of_two_graphs_is_chosen(taken: bool, known: bool) -> None:
    file = File()
    main = file.main
    called(file, "then", 2.0)
    called(file, "else", -5.0)
    truth = np.array(taken)
    condition = main.constant(truth) if known else main.input((), BOOL, name="condition")
    x, y = main.input((2, 3), name="x"), main.tensor((2, 3), name="y")
    main.ends_with(*main.op("IF", [condition, x], [y], then_subgraph_index=1, else_subgraph_index=2))
    quantized = read(file)
    assert operators(quantized) == ({"Mul": 1} if known else {"If": 1})
    (found,) = outputs(quantized, *([] if known else [truth]), normal(2, 3))
    np.testing.assert_allclose(found, normal(2, 3) * (2 if taken else -5), rtol=1e-6)


def loop(turns: int | None) -> File:
    """``x`` is doubled so many times; the results are collected in rows of a matrix."""
    file = File()
    main, test, body = file.main, file.graph("test"), file.graph("body")
    start = main.constant(scalar(0)) if turns is not None else main.input((), INT32, name="start")
    state = [start, main.input((3,), name="x"), main.constant(np.zeros((4, 3), np.float32))]
    results = [main.tensor((), INT32), main.tensor((3,), name="y"), main.tensor((4, 3), name="rows")]
    main.op("WHILE", state, results, cond_subgraph_index=1, body_subgraph_index=2)
    main.ends_with(*results[1:])
    given = [test.input((), INT32), test.input((3,)), test.input((4, 3))]
    limit = test.constant(scalar(4 if turns is None else turns))
    test.ends_with(*test.op("LESS", [given[0], limit], [test.tensor((), BOOL)]))
    at, x, rows = body.input((), INT32), body.input((3,)), body.input((4, 3))
    one, row = body.constant(scalar(1)), body.constant(i32(1, 3))
    (after,) = body.op("ADD", [at, one], [body.tensor((), INT32)])
    (double,) = body.op("ADD", [x, x], [body.tensor((3,))])
    (line,) = body.op("RESHAPE", [double, row], [body.tensor((1, 3))])
    places = [body.op("RESHAPE", [n, body.constant(i32(1))], [body.tensor((1,), INT32)])[0] for n in (at, after)]
    zero, nothing, rest = body.constant(i32(0)), body.constant(i32(0, 0)), body.constant(i32(-1, -1))
    (front,) = body.op("CONCATENATION", [places[0], body.constant(i32(-1))], [body.tensor((2,), INT32)], axis=0)
    (behind,) = body.op("CONCATENATION", [places[1], zero], [body.tensor((2,), INT32)], axis=0)
    (before,) = body.op("SLICE", [rows, nothing, front], [body.tensor((1, 3), open_shape=(-1, 3))])
    (tail,) = body.op("SLICE", [rows, behind, rest], [body.tensor((1, 3), open_shape=(-1, 3))])
    (all_rows,) = body.op("CONCATENATION", [before, line, tail], [body.tensor((4, 3))], axis=0)
    body.ends_with(after, double, all_rows)
    return file


def test_a_loop_with_a_known_number_of_turns_is_written_turn_by_turn() -> None:
    quantized = read(loop(4))
    assert operators(quantized) == {"Add": 4, "Reshape": 4, "Concat": 1}
    given = normal(3)
    last, rows = outputs(quantized, given)
    np.testing.assert_allclose(last, 16 * given, rtol=1e-6)
    np.testing.assert_allclose(rows, np.stack([given * factor for factor in (2, 4, 8, 16)]), rtol=1e-6)


def test_a_loop_may_have_no_turn_at_all() -> None:
    given = normal(3)
    last, rows = outputs(read(loop(0)), given)
    np.testing.assert_array_equal(last, given)
    np.testing.assert_array_equal(rows, np.zeros((4, 3), np.float32))


def test_names_that_a_converter_joined_become_the_first_of_them() -> None:
    """Inputs and outputs keep theirs; what then has the name of another tensor is numbered."""
    file, weight = File(), normal(4, 1, 1, 3)
    main = file.main
    x = main.input((1, 6, 5, 3), name="x;input")
    a = main.tensor((1, 6, 5, 4), name="net/relu;net/conv;net/bias")
    weights = [main.constant(weight, name="net/conv;net/other"), main.constant(normal(4), name="net/relu;net/add")]
    main.op("CONV_2D", [x, *weights], [a], padding=0, **STEPS)
    main.ends_with(*main.op("TANH", [a], [main.tensor((1, 6, 5, 4), name="net/tanh;net/relu")]))
    quantized = read(file)
    graph = quantized.model.graph
    assert [value.name for value in (*graph.inputs, *graph.outputs)] == ["x;input", "net/tanh;net/relu"]
    inner = {str(value.name) for node in graph for value in (*node.inputs, *node.outputs)} | set(graph.initializers)
    assert not [name for name in inner if ";" in name and not name.startswith(("x;input", "net/tanh;net/relu"))]
    assert {"net/conv", "net/relu"} < inner and len({name for name in inner if name.startswith("net/relu")}) > 1
