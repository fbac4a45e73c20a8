"""FakeQuantize of OpenVINO, which NNCF writes, as QuantizeLinear and DequantizeLinear.

``levels`` numbers from ``input_low`` to ``input_high``, both included, are what a tensor may hold. With the same ends for input
and output, and zero among the numbers, that is a grid of integers. Source: operator specification of OpenVINO, FakeQuantize-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.onnx.integer_operators import put_before

DOMAIN = "org.openvinotoolkit"

MOST_LEVELS = 256
"""More do not fit into a byte."""

SLACK = 1e-2
"""Steps by which zero may miss a number of the grid: the ends are rounded to float32."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Scales and zero points (scalars, or one each along an axis), and the ends where they are not those of the type."""

    scale: NDArray[np.float32]
    zero: NDArray[np.generic]
    axis: int | None
    ends: tuple[float, float] | None


def spell_out_fake_quantize(model: ir.Model, where: str) -> int:
    """Write every FakeQuantize as Q/DQ, in place; returns how many.

    Raises:
        ModelError: One of them is no grid of integers.
    """
    graph, names = model.graph, g.Names(model.graph)
    found = [node for node in graph if node.domain == DOMAIN and node.op_type == "FakeQuantize"]
    for node in found:
        value = node.inputs[0] if len(node.inputs) == 5 else None
        grid = None if value is None else _grid(node, value)
        if value is None or grid is None:
            raise ModelError(
                "it stands for no grid of integers of up to 8 bits: other ends for input and output, ends that are computed, or "
                "no zero between them",
                where=f"{where} {g.label(node)}".strip(),
                hint="export the model with QuantizeLinear and DequantizeLinear pairs (QDQ)",
            )
        _replace(graph, node, value, grid, names)
    if found:
        model.graph.opset_imports.pop(DOMAIN, None)
    return len(found)


def _grid(node: ir.Node, value: ir.Value) -> _Grid | None:
    levels = g.int_attribute(node, "levels", MOST_LEVELS)
    ends = [array for end in node.inputs[1:] if (array := g.constant(end)) is not None]
    if len(ends) < 4 or not 2 <= levels <= MOST_LEVELS:
        return None
    low, high = ends[:2]
    if not (np.array_equal(low, ends[2]) and np.array_equal(high, ends[3])):
        return None
    step = (high.astype(np.float64) - low) / (levels - 1)
    if low.shape != high.shape or not np.all(np.isfinite(step)) or np.any(step <= 0):
        return None
    zero = -low / step
    whole = np.rint(zero)
    if np.any(np.abs(zero - whole) > SLACK) or np.any(whole < 0) or np.any(whole > levels - 1):
        return None
    axis = _axis(low.shape, len(value.shape) if value.shape is not None else low.ndim) if low.size > 1 else None
    if low.size > 1 and axis is None:
        return None
    form = () if axis is None else (-1,)
    scale = step.astype(np.float32).reshape(form)
    if levels == MOST_LEVELS - 1 and np.all(whole == MOST_LEVELS // 2 - 1):  # symmetric, without the lowest integer
        return _Grid(scale, np.zeros(scale.shape, np.int8), axis, None)
    bounds = None if levels == MOST_LEVELS else (float(low.reshape(-1)[0]), float(high.reshape(-1)[0]))
    if bounds is not None and axis is not None and not g.is_constant(value):
        return None
    return _Grid(scale, whole.astype(np.uint8).reshape(form), axis, None if axis is not None else bounds)


def _axis(shape: Sequence[int], rank: int) -> int | None:
    """The axis along which ends differ."""
    axes = [axis - len(shape) + rank for axis, size in enumerate(shape) if size > 1]
    return axes[0] if len(axes) == 1 and axes[0] >= 0 else None


def _replace(graph: ir.Graph, node: ir.Node, value: ir.Value, grid: _Grid, names: g.Names) -> None:
    name = str(node.outputs[0].name)
    if grid.ends is not None:
        ends = [
            g.add_initializer(graph, f"{name}_{end}", np.asarray(bound, np.float32), names=names)
            for end, bound in zip(("low", "high"), grid.ends, strict=True)
        ]
        value = put_before(node, "Clip", [value, *ends], names.unique(f"{name}_clipped"))
    constants = [
        g.add_initializer(graph, f"{name}_{part}", array, names=names)
        for part, array in (("scale", grid.scale), ("zero_point", grid.zero))
    ]
    axis = {} if grid.axis is None else {"axis": grid.axis}
    stored = put_before(node, "QuantizeLinear", [value, *constants], names.unique(f"{name}_quantized"), **axis)
    stored.type = ir.TensorType(constants[1].dtype or ir.DataType.UINT8)
    result = put_before(node, "DequantizeLinear", [stored, *constants], names.unique(f"{name}_real"), **axis)
    output = node.outputs[0]
    result.shape = output.shape or value.shape
    output.replace_all_uses_with(result, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    result.name = name
