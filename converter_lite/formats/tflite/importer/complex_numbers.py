"""Complex numbers: two tensors, and the Fourier transform that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator, Subgraph, Tensor
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.importer.context import Handler, Importer

MOVES = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Operators that do with real and imaginary parts what they do with complex numbers."""

PARTS = {"REAL": (0,), "CAST": (0,), "IMAG": (1,), "COMPLEX_ABS": (0, 1)}
"""Operators that make real numbers of complex ones -> which parts they read."""


def in_two_parts(graph: Subgraph, where: str = "") -> Subgraph:
    """The graph with two tensors of real numbers for each of complex ones: itself, the real part, and one behind the others.

    Raises:
        ModelError: Complex numbers are inputs, outputs or constants, or an operator does something else with them.
    """
    numbers = [index for index, tensor in enumerate(graph.tensors) if tensor.type is TensorType.COMPLEX64]
    parts = {index: (index, len(graph.tensors) + place) for place, index in enumerate(numbers)}
    for index in numbers:
        if index in graph.inputs or index in graph.outputs or graph.tensors[index].data is not None:
            raise ModelError(
                "complex numbers are read only between operators", where=f"{where} {graph.tensors[index].name}"
            )
    real = [
        replace(tensor, type=TensorType.FLOAT32) if index in parts else tensor
        for index, tensor in enumerate(graph.tensors)
    ]
    imaginary = [_imaginary(graph.tensors[index]) for index in numbers]
    operators = [new for op in graph.operators for new in _apart(op, parts, where)]
    return replace(graph, tensors=[*real, *imaginary], operators=operators)


def _imaginary(tensor: Tensor) -> Tensor:
    return replace(tensor, type=TensorType.FLOAT32, name=f"{tensor.name}_imaginary")


def _apart(op: Operator, parts: dict[int, tuple[int, int]], where: str) -> Iterator[Operator]:
    """What is done with the parts."""
    reads, gives = parts.keys() & set(op.inputs), parts.keys() & set(op.outputs)
    if not reads and not gives:
        yield op
    elif op.kind == "RFFT2D" and not reads:
        yield replace(op, outputs=parts[op.outputs[0]])
    elif op.kind in PARTS and not gives:
        yield replace(op, inputs=tuple(parts[op.inputs[0]][part] for part in PARTS[op.kind]))
    elif op.kind in MOVES and reads and gives:
        for part in (0, 1):
            inputs, outputs = (
                tuple(parts[index][part] if index in parts else index for index in indices)
                for indices in (op.inputs, op.outputs)
            )
            yield replace(op, inputs=inputs, outputs=outputs)
    else:
        raise ModelError(f"{op.kind} of complex numbers is not read", where=where)


def _transform(ctx: Importer, op: Operator) -> None:
    source, (rows, columns) = op.inputs[0], ctx.ints(op.inputs[1])
    one_row = rows == 1 and ctx.shape(source)[-2] == 1
    value = ctx.add("Unsqueeze", [ctx.value(source), ctx.int64([-1], "axes")])
    value = ctx.add("DFT", [value, _number(ctx, columns), _number(ctx, -2)], onesided=1)
    if not one_row:
        value = ctx.add("DFT", [value, _number(ctx, rows), _number(ctx, -3)])
    for part, index in enumerate(op.outputs):
        ctx.bind(index, ctx.add("Gather", [value, _number(ctx, part)], axis=-1))


def _number(ctx: Importer, number: int) -> ir.Value:
    return ctx.builder.constant(number, np.int64)


def _part(ctx: Importer, op: Operator) -> None:
    ctx.same(op.outputs[0], op.inputs[0])


def _magnitude(ctx: Importer, op: Operator) -> None:
    squares = [ctx.add("Mul", [value, value]) for value in map(ctx.value, op.inputs)]
    ctx.bind(op.outputs[0], ctx.add("Sqrt", [ctx.add("Add", squares)]))


HANDLERS: dict[str, Handler] = {"COMPLEX_ABS": _magnitude, "IMAG": _part, "REAL": _part, "RFFT2D": _transform}
"""Operator -> function that translates it."""
