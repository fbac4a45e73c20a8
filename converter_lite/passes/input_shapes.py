"""Shapes that the user gives to the inputs of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from converter_lite.errors import UsageError, nearest
from converter_lite.passes.shapes import infer_shapes


def fix_input_shapes(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give inputs the shapes that the user asked for, and infer the shapes that follow from them.

    A symbol means the same size everywhere: fixing ``batch`` at one input fixes it at all. ``-1`` leaves a dimension
    as it is.

    Raises:
        UsageError: An input is unknown, or a shape contradicts the model or another one.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise UsageError(f"the model has no input '{name}'", where="inputShape", hint=_suggest(name, inputs))
        _fix_input(inputs[name], shape, sizes)
    for value in inputs_and_results(model.graph):
        if value.shape is not None:
            value.shape = ir.Shape([_size_of(dim, sizes) for dim in value.shape])
    infer_shapes(model)


def _fix_input(value: ir.Value, shape: Sequence[int], sizes: dict[str, int]) -> None:
    own: list[int | ir.SymbolicDim] = (
        list(value.shape) if value.shape is not None else [ir.SymbolicDim(None)] * len(shape)
    )
    described = "x".join(map(str, shape))
    if len(own) != len(shape):
        raise UsageError(
            f"input '{value.name}' has {len(own)} dimensions {_shape_text(own)}, not {len(shape)} ({described})",
            where="inputShape",
        )
    for axis, size in enumerate(shape):
        if size == 0 or size < -1:
            raise UsageError(f"dimension {axis} of input '{value.name}' cannot be {size}", where="inputShape")
        if size != -1:
            own[axis] = _fixed(value, axis, own[axis], size, sizes)
    value.shape = ir.Shape(own)


def _fixed(value: ir.Value, axis: int, dim: int | ir.SymbolicDim, size: int, sizes: dict[str, int]) -> int:
    symbol = None if isinstance(dim, int) else dim.value
    known = dim if isinstance(dim, int) else sizes.get(symbol or "")
    if known is not None and known != size:
        because = f" ('{symbol}' was set by another input)" if symbol else ""
        raise UsageError(
            f"dimension {axis} of input '{value.name}' is {known}{because}, not {size}",
            where="inputShape",
            hint="only dimensions without a fixed size can be set",
        )
    if symbol:
        sizes[symbol] = size
    return size


def _size_of(dim: int | ir.SymbolicDim, sizes: Mapping[str, int]) -> int | ir.SymbolicDim:
    return dim if isinstance(dim, int) else sizes.get(dim.value or "", dim)


def inputs_and_results(graph: ir.Graph) -> Iterable[ir.Value]:
    """Values of the main graph that are not constants."""
    yield from graph.inputs
    for node in graph:
        yield from node.outputs


def _shape_text(shape: Sequence[int | ir.SymbolicDim]) -> str:
    return "(" + ", ".join(str(dim if isinstance(dim, int) else dim.value or "?") for dim in shape) + ")"


def _suggest(name: str, known: Mapping[str, ir.Value]) -> str:
    match = nearest(name, known)
    return f"did you mean '{match}'?" if match else f"known are {', '.join(known)}"
