"""Variables that a file keeps from run to run: inputs and outputs of the graph."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats.tflite.enums import TensorType
from tests.formats.tflite.case import Array, normal
from tests.formats.tflite.files import File, Graph, quant
from tests.formats.tflite.running import outputs, read

STEPS = normal(5, 1, 2, 3)
GRID = quant(0.05, -3)


def handle(graph: Graph, name: str) -> int:
    number = graph.tensor((), TensorType.RESOURCE)
    return graph.op("VAR_HANDLE", [], [number], container="", shared_name=name)[0]


def begins(file: File, **values: Array) -> None:
    """A graph that gives variables their first numbers, and its call."""
    first = file.graph("first")
    for name, value in values.items():
        first.op("ASSIGN_VARIABLE", [handle(first, name), first.constant(value)], [])
    file.main.op("CALL_ONCE", [], [], init_subgraph_index=len(file.graphs) - 1)


def summing(first: Array) -> File:
    """``y = 2 * (sum + x)``; the sum of what came before is kept, and a factor that no run changes."""
    file = File()
    main = file.main
    begins(file, sum=first, factor=np.full((1, 2, 3), 2, np.float32))
    x, total, factor = main.input((1, 2, 3)), handle(main, "sum"), handle(main, "factor")
    before, more, two, y = (main.tensor((1, 2, 3)) for _ in range(4))
    main.op("READ_VARIABLE", [total], [before])
    main.op("ADD", [before, x], [more], activation=0)
    main.op("ASSIGN_VARIABLE", [total, more], [])
    after = main.op("READ_VARIABLE", [total], [main.tensor((1, 2, 3))])[0]
    main.op("READ_VARIABLE", [factor], [two])
    main.op("MUL", [after, two], [y], activation=0)
    main.ends_with(y)
    return file


def test_a_state_is_an_input_and_its_new_numbers_are_an_output() -> None:
    quantized = read(summing(np.zeros((1, 2, 3), np.float32)))
    assert [value.name for value in quantized.model.graph.inputs][1:] == ["sum"]
    assert [value.name for value in quantized.model.graph.outputs][1:] == ["sum/next"]
    state = np.zeros((1, 2, 3), np.float32)
    for number, x in enumerate(STEPS, 1):
        y, state = outputs(quantized, x, state)
        np.testing.assert_allclose(y, 2 * STEPS[:number].sum(0), rtol=1e-5, atol=1e-6)


def test_a_state_on_a_grid_keeps_it() -> None:
    file = File()
    main = file.main
    begins(file)
    first = file.graphs[-1]
    zeros = first.constant(np.full((1, 4), -3, np.int8), quant=GRID)
    first.op("ASSIGN_VARIABLE", [handle(first, "last"), zeros], [])
    x, last = main.input((1, 4), TensorType.INT8, quant=GRID), handle(main, "last")
    before, both = main.tensor((1, 4), TensorType.INT8, quant=GRID), main.tensor((1, 8), TensorType.INT8, quant=GRID)
    main.op("READ_VARIABLE", [last], [before])
    main.op("CONCATENATION", [before, x], [both], axis=1, activation=0)
    main.op("ASSIGN_VARIABLE", [last, x], [])
    main.ends_with(both)
    quantized = read(file)
    assert "last" in quantized.plan.activations
    one, two = (np.array([[5, 0, -10, 50]], np.float32) * np.float32(0.05) * sign for sign in (1, -1))
    y, kept = outputs(quantized, one, two)
    np.testing.assert_allclose(y, np.concatenate([two, one], 1), atol=1e-6)
    np.testing.assert_allclose(kept, one, atol=1e-6)


def test_numbers_other_than_zero_at_the_beginning_are_refused() -> None:
    with pytest.raises(ModelError, match="the variable sum does not begin with zeros") as caught:
        read(summing(np.ones((1, 2, 3), np.float32)))
    assert "who runs it would have to know" in caught.value.hint


def test_a_variable_that_begins_with_computed_numbers_is_refused() -> None:
    file = summing(np.zeros((1, 2, 3), np.float32))
    first = file.graphs[-1]
    value = first.op("EXP", [first.constant(np.ones(3, np.float32))], [first.tensor((3,))])[0]
    first.op("ASSIGN_VARIABLE", [handle(first, "sum"), value], [])
    with pytest.raises(ModelError, match=r"prepares the first run computes \(EXP\)"):
        read(file)


def test_a_variable_of_which_nothing_is_said_is_refused() -> None:
    file = File()
    main = file.main
    y = main.op("READ_VARIABLE", [handle(main, "gain")], [main.tensor((2,))])[0]
    main.ends_with(*main.op("ADD", [main.input((2,)), y], [main.tensor((2,))], activation=0))
    with pytest.raises(ModelError, match="nothing says what the variable gain holds"):
        read(file)


def test_a_variable_of_another_graph_is_refused() -> None:
    file = File()
    main, inner = file.main, file.graph("inner")
    given = inner.input((), TensorType.RESOURCE, name="given")
    inner.ends_with(*inner.op("READ_VARIABLE", [given], [inner.tensor((2,))]))
    made = main.op("CALL", [handle(main, "gain")], [main.tensor((2,))], subgraph=1)
    main.ends_with(*main.op("ADD", [main.input((2,)), *made], [main.tensor((2,))], activation=0))
    with pytest.raises(ModelError, match="the variable t0 is handed over to another graph"):
        read(file)


def test_a_tensor_that_is_no_variable_is_refused() -> None:
    file = File()
    main = file.main
    x = main.input((2,))
    main.ends_with(*main.op("READ_VARIABLE", [x], [main.tensor((2,))]))
    with pytest.raises(FormatError, match="t0 is no variable"):
        read(file)


def test_a_branch_that_may_assign_is_refused() -> None:
    file = File()
    main = file.main
    for name in ("then", "else"):
        branch = file.graph(name)
        value = branch.input((2,))
        branch.op("ASSIGN_VARIABLE", [handle(branch, "kept"), value], [])
        branch.ends_with(*branch.op("EXP", [value], [branch.tensor((2,))]))
    condition, x = main.input((), TensorType.BOOL), main.input((2,))
    taken = main.op("IF", [condition, x], [main.tensor((2,))], then_subgraph_index=1, else_subgraph_index=2)
    main.ends_with(*taken)
    with pytest.raises(ModelError, match="a branch assigns to a variable"):
        read(file)
