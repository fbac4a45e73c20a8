"""The content of an ONNX file, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.base import Block
from converter_lite.formats.onnx.at_load import recognize_dequantizers
from converter_lite.formats.onnx.block_operators import TABLE
from converter_lite.formats.onnx.qdq import GRIDS
from converter_lite.formats.onnx.reader import is_quantized, read_onnx
from converter_lite.runtime.float_products import BLOCK_PRODUCT
from converter_lite.runtime.saturation import saturating_weights

Rows = list[list[str]]


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Head line, operators in the order in which they run, tensors, and which weights of a quantized model can saturate a kernel.

    Args:
        path: The file.
        confined: Refuse external data outside its folder.

    Raises:
        ModelError: The file cannot be read.
    """
    model = read_onnx(path, confined=confined)
    yield f"ONNX model {model.graph.name or ''!r}, operator set {g.opset(model)}, {path.stat().st_size:,} bytes"
    yield _operators(model)
    recognize_dequantizers(model)
    yield _tensors(model)
    if is_quantized(model):
        found = _saturating(model)
        yield found if len(found) > 1 else "no integer kernel of an x86 processor can saturate"


def _saturating(model: ir.Model) -> Rows:
    """Weights whose pairs saturate an x86 processor without VNNI."""
    found = saturating_weights(model)
    return [
        ["saturating on x86", "weight", "pairs", "of"],
        *([w.node, w.weight, str(w.pairs), str(w.of)] for w in found),
    ]


def _operators(model: ir.Model) -> Rows:
    rows = [["name", "operator", "inputs", "outputs"]]
    for node in model.graph:
        inputs = ", ".join(_shape(value) for value in node.inputs if value is not None and not g.is_constant(value))
        rows.append([node.name or "", node.op_type, inputs, ", ".join(map(_shape, node.outputs))])
    return rows


def _tensors(model: ir.Model) -> Rows:
    graph = model.graph
    rows = [["name", "kind", "type", "shape", "quantization", "bytes"]]
    rows += [_row(value, "input") for value in graph.inputs]
    rows += [_row(value, "output") for value in graph.outputs]
    rows += [_row(value, "constant") for value in graph.initializers.values()]
    return rows


def _row(value: ir.Value, kind: str) -> list[str]:
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    size = value.const_value.nbytes if value.const_value is not None else 0
    return [value.name or "", kind, dtype, _shape(value), _quantization(value), str(size)]


def _quantization(value: ir.Value) -> str:
    """Parameters of the Q/DQ, or of the product or table with blocks, that reads a tensor."""
    for node, position in value.uses():
        if node.op_type in (BLOCK_PRODUCT, TABLE) and position == int(node.op_type == BLOCK_PRODUCT):
            blocks = g.constant(g.input_at(node, 2))
            bits = g.int_attribute(node, "bits", 4)
            return f"{bits} bits, {0 if blocks is None else blocks.size} blocks of {g.int_attribute(node, 'block_size', 128)}"
        if position != 0 or node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        scale, zero = g.constant(node.inputs[1]), node.inputs[2] if len(node.inputs) > 2 else None
        if scale is None:
            return "scale computed at run time"
        dtype = zero.dtype if zero is not None else value.dtype
        bits = GRIDS[dtype][0] if dtype in GRIDS else 8
        if scale.ndim > 1:
            return f"{bits} bits, {scale.size} blocks of {g.int_attribute(node, 'block_size', 0)}"
        if scale.size > 1:
            return f"{bits} bits, {scale.size} channels"
        zero_point = g.constant(zero)
        shown = 0 if zero_point is None else int(zero_point.reshape(-1)[0])
        return f"{bits} bits, scale {float(scale.reshape(-1)[0]):.6g}, zero point {shown}"
    return ""


def _shape(value: ir.Value) -> str:
    if value.shape is None:
        return "?"
    return "x".join(str(size) for size in value.shape) or "scalar"
