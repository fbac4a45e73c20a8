"""Q/DQ pairs as different tools write them, in the one form that :mod:`converter_lite.formats.onnx.qdq` reads.

1. Q/DQ in the domain of onnxruntime are those of the standard set.
2. ``W (float) ─ Q ─ DQ``: the weight is stored as integers. So is one behind a Clip of integers, whose bounds give its grid.
3. ``W (int8) ─ DQ ─ Transpose``: the integers are transposed.
4. ``Q ─ Cast ─ DQ`` with a Cast to the same type: without it.
5. ``x ─ Q ─ Clip ─ DQ``: the Clip is one of floats in front of Q, or a grid without its lowest integer.
6. ``Q ─ MaxPool ─ DQ``, and other operators that move integers: ``Q ─ DQ ─ MaxPool ─ Q ─ DQ``.
7. ``W (int8) ─ DQ ─ Max`` with the lowest number: without it.
8. A tensor with two grids: an Identity carries the second one, without the rounding to the first where they follow each other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.onnx.integer_operators import MICROSOFT, put_before
from converter_lite.kernels.params import QuantSpec
from converter_lite.kernels.quantize import quantize
from converter_lite.passes.constant_folding import fold_constants
from converter_lite.passes.rewrite import is_op
from converter_lite.passes.shapes import infer_shapes
from converter_lite.quantization.qdq.guard import is_guard

GRID = "converter_lite.grid"
"""Key under which a DequantizeLinear remembers the grid of its integers, where that is not all of their type."""

Q, DQ = "QuantizeLinear", "DequantizeLinear"

MOVING = frozenset(
    {"Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "Identity", "MaxPool", "Reshape"}
    | {"Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Operators whose results are numbers of their first input (of all, for Concat), or lie between them."""

NARROW = (-127, 127)
"""Bounds of int8 without its lowest number."""


def tidy_pairs(model: ir.Model) -> None:
    """Write the Q/DQ of any tool in one form, in place. Where that is not possible, the nodes stay."""
    graph = model.graph
    use_standard_domain(model)
    if any(not g.is_constant(value) for node in graph if is_op(node, Q, DQ) for value in node.inputs[1:]):
        fold_constants(model)
    for rule in (_store_weight, _clip_weight, _drop_cast, _drop_guard, _move_clip, _transpose_weight):
        _each(graph, rule)
    if _each(graph, _move_dequantizer):
        infer_shapes(model)
    _separate_grids(graph)


def use_standard_domain(model: ir.Model) -> None:
    """Rule 1."""
    for node in model.graph:
        if node.domain == MICROSOFT and node.op_type in (Q, DQ):
            node.domain = ""
            zero = g.input_at(node, 2)
            made = ir.DataType.FLOAT if node.op_type == DQ else zero.dtype if zero is not None else None
            node.outputs[0].type = ir.TensorType(made or ir.DataType.UINT8)
            source = node.inputs[0]
            node.outputs[0].shape = node.outputs[0].shape or (source.shape if source is not None else None)


Rule = Callable[[ir.Graph, ir.Node, g.Names], bool]


def _each(graph: ir.Graph, rule: Rule) -> int:
    """Apply a rule to every node, the last first."""
    names = g.Names(graph)
    return sum(rule(graph, node, names) for node in reversed(list(graph)) if node.graph is not None)


def _store_weight(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    """Rule 2: integers of a constant."""
    values = g.constant(g.input_at(node, 0)) if is_op(node, Q) else None
    scale = g.constant(g.input_at(node, 1)) if values is not None else None
    zero = g.input_at(node, 2)
    if values is None or scale is None or scale.ndim > 1 or (zero is not None and not g.is_constant(zero)):
        return False
    dtype = zero.dtype if zero is not None else None
    dtype = dtype or ir.DataType(g.int_attribute(node, "output_dtype", 0) or ir.DataType.UINT8.value)
    if dtype not in _LIMITS or node.outputs[0].is_graph_output():
        return False
    axis = g.int_attribute(node, "axis", 1) % values.ndim if scale.size > 1 else None
    zeros = np.zeros(scale.shape, np.int32) if zero is None else g.constant(zero)
    assert zeros is not None
    low, high = _LIMITS[dtype]
    single = scale.size == 1
    integers = quantize(
        values.astype(np.float32, copy=False),
        scale.reshape(()).astype(np.float32) if single else scale.astype(np.float32),
        zeros.reshape(() if single else scale.shape).astype(np.int32),
        qmin=low,
        qmax=high,
        axis=axis,
    )
    source = node.inputs[0]
    _put_constant(graph, node, str(source.name if source is not None else ""), integers, dtype, names)
    return True


_LIMITS = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-(1 << 15), (1 << 15) - 1),
    ir.DataType.UINT16: (0, (1 << 16) - 1),
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT4: (0, 15),
}


def _put_constant(
    graph: ir.Graph, node: ir.Node, name: str, array: NDArray[np.generic], dtype: ir.DataType, names: g.Names
) -> None:
    """Let a constant take the place of a node."""
    value = g.add_initializer(graph, name, array.astype(dtype.numpy()), dtype=dtype, names=names)
    node.outputs[0].replace_all_uses_with(value)
    graph.remove(node, safe=True)


def _clip_weight(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    """Rule 2: integers of a constant behind a Clip."""
    source = g.input_at(node, 0) if is_op(node, "Clip") else None
    integers, bounds = g.constant(source), g.clamp_bounds(node)
    readers = [user for user, _ in node.outputs[0].uses()]
    if integers is None or source is None or bounds is None or source.dtype not in _LIMITS:
        return False
    if not readers or not all(is_op(reader, DQ) for reader in readers):
        return False
    low, high = (int(min(max(bound, _LIMITS[source.dtype][0]), _LIMITS[source.dtype][1])) for bound in bounds)
    grid = _grid((low, high))
    for reader in readers:
        if grid is not None:
            reader.meta[GRID] = grid
    _put_constant(graph, node, f"{source.name}", np.clip(integers, low, high), source.dtype, names)
    return True


def _grid(bounds: tuple[int, int]) -> QuantSpec | None:
    """The grid with these ends."""
    for bits in range(1, 9):
        for spec in (QuantSpec(bits), QuantSpec(bits, narrow_range=True), QuantSpec(bits, signed=False)):
            if (spec.qmin, spec.qmax) == bounds:
                return spec
    return None


def _drop_cast(graph: ir.Graph, node: ir.Node, _names: g.Names) -> bool:
    """Rule 4."""
    source = g.input_at(node, 0) if is_op(node, "Cast") else None
    producer = source.producer() if source is not None else None
    if source is None or not is_op(producer, Q) or node.outputs[0].is_graph_output():
        return False
    if source.dtype is None or g.int_attribute(node, "to", 0) != source.dtype.value:
        return False
    node.outputs[0].replace_all_uses_with(source)
    graph.remove(node, safe=True)
    return True


def _drop_guard(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    """Rule 7: a Max that keeps optimizers from a weight."""
    del names
    source = node.inputs[0] if is_guard(node) and not node.outputs[0].is_graph_output() else None
    dequantize = source.producer() if source is not None else None
    if source is None or dequantize is None or not is_op(dequantize, DQ) or not g.is_constant(dequantize.inputs[0]):
        return False
    node.outputs[0].replace_all_uses_with(source)
    graph.remove(node, safe=True)
    return True


def _move_clip(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    """Rule 5."""
    source = g.input_at(node, 0) if is_op(node, "Clip") else None
    quantizer = source.producer() if source is not None else None
    bounds = g.clamp_bounds(node)
    readers = [user for user, _ in node.outputs[0].uses()]
    if quantizer is None or not is_op(quantizer, Q) or bounds is None or not all(is_op(r, DQ) for r in readers):
        return False
    if source is None:
        return False
    scale, zero = g.scalar(quantizer.inputs[1]), g.scalar(g.input_at(quantizer, 2)) or 0.0
    if scale is None or node.outputs[0].is_graph_output() or len(source.uses()) > 1:
        return False
    if bounds == NARROW and source.dtype is ir.DataType.INT8 and not zero:
        for reader in readers:
            reader.meta[GRID] = QuantSpec(8, narrow_range=True)
    elif source.dtype not in _LIMITS or not _holds(bounds, _LIMITS[source.dtype]):
        ends = [
            g.add_initializer(graph, f"{source.name}_{end}", np.asarray((b - zero) * scale, np.float32), names=names)
            for end, b in zip(("low", "high"), bounds, strict=True)
        ]
        data = quantizer.inputs[0]
        if data is None:
            return False
        clipped = put_before(quantizer, "Clip", [data, *ends], names.unique(f"{source.name}_clipped"))
        quantizer.replace_input_with(0, clipped)
    node.outputs[0].replace_all_uses_with(source)
    graph.remove(node, safe=True)
    return True


def _holds(outer: tuple[float, float], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _transpose_weight(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    """Rule 3."""
    source = g.input_at(node, 0) if is_op(node, "Transpose") else None
    dequantizer = source.producer() if source is not None else None
    integers = g.constant(dequantizer.inputs[0]) if is_op(dequantizer, DQ) and dequantizer is not None else None
    if dequantizer is None or integers is None or node.outputs[0].is_graph_output():
        return False
    stored, scale = dequantizer.inputs[0], g.constant(dequantizer.inputs[1])
    if stored is None or stored.dtype is None or scale is None or scale.ndim > 1:
        return False
    order = g.ints_attribute(node, "perm", tuple(reversed(range(integers.ndim))))
    turned = g.add_initializer(
        graph, f"{stored.name}_transposed", integers.transpose(order), dtype=stored.dtype, names=names
    )
    axis = g.int_attribute(dequantizer, "axis", 1) % integers.ndim
    attributes = {"axis": order.index(axis)} if scale.size > 1 else {}
    name = names.unique(f"{node.name}/dequantized")
    result = put_before(node, DQ, [turned, *filter(None, dequantizer.inputs[1:])], name, **attributes)
    made = result.producer()
    assert made is not None
    made.meta.update(dequantizer.meta)
    node.outputs[0].replace_all_uses_with(result)
    graph.remove(node, safe=True)
    if not dequantizer.outputs[0].uses():
        graph.remove(dequantizer, safe=True)
    return True


def _move_dequantizer(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    """Rule 6, for a node whose results only DequantizeLinear reads, all with one scale and zero point."""
    if not is_op(node, *MOVING):
        return False
    readers = [user for output in node.outputs for user, _ in output.uses()]
    if not readers or not all(is_op(r, DQ) and "block_size" not in r.attributes for r in readers):
        return False
    if any(output.is_graph_output() for output in node.outputs) or len({_key(r) for r in readers}) != 1:
        return False
    grid = list(filter(None, readers[0].inputs[1:]))
    if g.scalar(grid[0]) is None:
        return False
    for position, value in enumerate(node.inputs[: None if node.op_type == "Concat" else 1]):
        if value is None:
            return False
        node.replace_input_with(position, put_before(node, DQ, [value, *grid], names.unique(f"{value.name}_real")))
    for output in node.outputs:
        uses = tuple(output.uses())
        kind, output.type = output.type, ir.TensorType(ir.DataType.FLOAT)
        if uses:
            made = ir.node(Q, [output, *grid], name=names.unique(f"{output.name}_again"))
            made.outputs[0].name, made.outputs[0].type, made.outputs[0].shape = made.name, kind, output.shape
            graph.insert_after(node, made)
            for user, position in uses:
                user.replace_input_with(position, made.outputs[0])
    return True


def _key(node: ir.Node) -> tuple[object, ...]:
    """Scale and zero point of Q or DQ as something that can be compared."""
    arrays = [g.constant(value) if value is not None else None for value in node.inputs[1:]]
    flat = [None if array is None else (str(array.dtype), array.reshape(-1).tobytes()) for array in arrays]
    return (*flat, *(value for value, array in zip(node.inputs[1:], flat, strict=True) if array is None))


def _separate_grids(graph: ir.Graph) -> None:
    """Rule 8."""
    names = g.Names(graph)
    known: dict[ir.Value, tuple[object, ...]] = {}
    for node in list(graph):
        value = g.input_at(node, 0) if is_op(node, Q) else None
        if value is None:
            continue
        source = _float_source(value)
        if known.setdefault(source, _key(node)) != _key(node):
            copy = put_before(node, "Identity", [value], names.unique(f"{value.name}_on_another_grid"))
            node.replace_input_with(0, copy)
            known[copy] = _key(node)


def _float_source(value: ir.Value) -> ir.Value:
    """What the Q/DQ pairs in front of a value read; the value itself without any."""
    while True:
        node = value.producer()
        stored = node.inputs[0] if is_op(node, DQ) and node is not None else None
        quantizer = stored.producer() if stored is not None else None
        source = quantizer.inputs[0] if is_op(quantizer, Q) and quantizer is not None else None
        if source is None:
            return value
        value = source
