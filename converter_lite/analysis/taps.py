"""Where a quantized graph holds its tensors: as real numbers or as integers with their grid, and the value that others read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.onnx.qdq import GRIDS
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.qdq.guard import is_guard

DECORATIONS = (
    "_dequantized",
    "_quantized",
    "_DequantizeLinear_Output",
    "_QuantizeLinear_Output",
    "_onnx",
)
"""What writers and readers append to the name of a tensor: this project's and onnxruntime's quantizers, the ``.ms`` reader."""

INTEGER_RESULTS = {
    "QLinearConv": (6, 7),
    "QLinearMatMul": (6, 7),
    "QLinearAdd": (6, 7),
    "QLinearMul": (6, 7),
    "QLinearGlobalAveragePool": (3, 4),
    "QLinearAveragePool": (3, 4),
    "QLinearSigmoid": (3, 4),
    "QLinearLeakyRelu": (3, 4),
    "QLinearSoftmax": (3, 4),
    "QGemm": (7, 8),
    "QLinearConcat": (0, 1),
    "QLinearWhere": (7, 8),
}
"""Operators that give integers -> positions of scale and zero point of their output."""

STEPS = frozenset({"QuantizeLinear", "DequantizeLinear", "Identity", "Cast"})
"""Operators that change how a tensor is stored, not its content."""


@dataclass(frozen=True, slots=True)
class Tap:
    """A tensor of a quantized graph.

    Attributes:
        value: Name of the value that is looked at.
        entry: Name of the value that everything behind it is computed from; a different one if a QuantizeLinear stands between.
        params: Grid of ``value``, ``None`` where it holds real numbers.
    """

    value: str
    entry: str
    params: QuantParams | None = None


def type_integers(model: ir.Model) -> bool:
    """Give results of onnxruntime's own integer operators, of which ONNX infers nothing, the type of their zero point.

    Returns:
        Whether a type was missing.
    """
    is_changed = False
    for node in model.graph:
        _, zero_at = INTEGER_RESULTS.get(node.op_type, (0, len(node.inputs)))
        zero = node.inputs[zero_at] if zero_at < len(node.inputs) else None
        if zero is not None and node.outputs[0].dtype is None:
            node.outputs[0].type = zero.type
            is_changed = True
    return is_changed


def tap_of(value: ir.Value) -> Tap | None:
    """How to look at a value; ``None`` for integers whose grid is not known.

    In front of a DequantizeLinear the integers are observed, so a runtime fuses the graph as it would without an observer.
    """
    producer, name = value.producer(), value.name or ""
    if producer is not None and producer.op_type == "DequantizeLinear":
        source = producer.inputs[0]
        return tap_of(source) if source is not None and not g.is_constant(source) else None
    if value.dtype not in GRIDS:
        return Tap(name, name)
    if producer is None:
        return None
    if producer.op_type == "QuantizeLinear":
        params, entry = _grid(producer, 1, 2), producer.inputs[0]
        return None if params is None or entry is None else Tap(name, _unguarded(entry).name or "", params)
    positions = INTEGER_RESULTS.get(producer.op_type)
    params = None if positions is None else _grid(producer, *positions)
    return None if params is None else Tap(name, name, params)


def _unguarded(value: ir.Value) -> ir.Value:
    """The value behind a Max with the lowest float, which stands before a QuantizeLinear to keep a runtime from fusing."""
    producer = value.producer()
    source = producer.inputs[0] if producer is not None and is_guard(producer) else None
    return value if source is None else source


def _grid(node: ir.Node, scale_at: int, zero_at: int) -> QuantParams | None:
    inputs = node.inputs
    scale = g.constant(inputs[scale_at]) if len(inputs) > scale_at else None
    zero = g.constant(inputs[zero_at]) if len(inputs) > zero_at else None
    dtype = node.outputs[0].dtype
    if scale is None or scale.size != 1 or dtype not in GRIDS:
        return None
    bits, signed = GRIDS[dtype]
    zero_point = np.zeros((), np.int32) if zero is None else zero.astype(np.int32).reshape(())
    return QuantParams(scale.astype(np.float32).reshape(()), zero_point, QuantSpec(bits, signed=signed))


def plain_names(name: str) -> Iterator[str]:
    """The name, and what is left of it without decorations, step by step."""
    yield name
    while True:
        ending = next((text for text in DECORATIONS if name.endswith(text) and name != text), None)
        if ending is None:
            return
        name = name.removesuffix(ending)
        yield name


def readers(value: ir.Value) -> Iterator[ir.Node]:
    """Nodes that read a value, even if it is stored differently."""
    for node, _ in value.uses():
        if node.op_type in STEPS:
            yield from readers(node.outputs[0])
        else:
            yield node
