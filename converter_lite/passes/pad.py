"""Explicit padding into the layer that follows."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite.graph import (
    absorb_names,
    clamp_bounds,
    input_at,
    int_attribute,
    ints_attribute,
    scalar,
    single_consumer,
    text_attribute,
)
from converter_lite.passes.rewrite import for_each, int_values, is_op, remove

Pads = tuple[int, ...]


@for_each("Pad")
def fold_pad(_graph: ir.Graph, pad: ir.Node) -> bool:
    """Fold padding of the spatial axes into the ``pads`` of a Conv, AveragePool or MaxPool.

    ::

        x ─ Pad(constant 0) ─ Conv | AveragePool | MaxPool ─ y      becomes      x ─ Conv(pads) ─ y

    Refused: another reader, negative pads, padded batch or channels, ``auto_pad=SAME_*``, values other than zero, and

    1. AveragePool that already pads without counting its zeros (the folded zeros must be counted), or rounds up;
    2. MaxPool over values that may be negative, as its own padding is minus infinity (after Relu zero does no harm,
       and a Pad with minus infinity always fits), or that rounds up, or is dilated;
    3. pooling pads as large as the window, which runtimes refuse.
    """
    layer = single_consumer(pad.outputs[0])
    source = pad.inputs[0]
    if layer is None or source is None or not is_op(layer, "Conv", "AveragePool", "MaxPool"):
        return False
    if layer.inputs[0] is not pad.outputs[0] or layer.inputs.count(pad.outputs[0]) != 1:
        return False
    own, extra = _own_pads(layer), _spatial_pads(pad)
    if own is None or extra is None or len(extra) != (len(own) or len(extra)):
        return False
    total = tuple(a + b for a, b in zip(own or (0,) * len(extra), extra, strict=True))
    if not _fits(layer, pad, own, total):
        return False
    layer.attributes.pop("auto_pad", None)
    layer.attributes["pads"] = ir.AttrInt64s("pads", total)
    if is_op(layer, "AveragePool"):
        layer.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
    layer.replace_input_with(0, source)
    absorb_names(layer, [pad])
    remove(pad)
    return True


def _own_pads(layer: ir.Node) -> Pads | None:
    """The layer's pads, empty when there are none; ``None`` for automatic padding."""
    mode = text_attribute(layer, "auto_pad", "NOTSET")
    if mode == "VALID":
        return ()
    return ints_attribute(layer, "pads") if mode == "NOTSET" else None


def _spatial_pads(pad: ir.Node) -> Pads | None:
    """Begin pads of the spatial axes, then end pads; ``None`` when other axes are padded or anything is unknown."""
    pads, axes = int_values(input_at(pad, 1)), input_at(pad, 3)
    source = pad.inputs[0]
    if text_attribute(pad, "mode", "constant") != "constant" or pads is None or source is None:
        return None
    if axes is not None:
        expanded = _on_all_axes(pads, int_values(axes), source.shape)
        if expanded is None:
            return None
        pads = expanded
    rank = len(pads) // 2
    begin, end = pads[:rank], pads[rank:]
    if rank < 3 or any(begin[:2]) or any(end[:2]) or min(pads) < 0:
        return None
    return begin[2:] + end[2:]


def _on_all_axes(pads: Pads, axes: Pads | None, shape: ir.Shape | None) -> Pads | None:
    if axes is None or shape is None:
        return None
    rank = len(shape)
    full = [0] * (2 * rank)
    for position, axis in enumerate(axes):
        full[axis % rank] = pads[position]
        full[rank + axis % rank] = pads[len(axes) + position]
    return tuple(full)


def _fits(layer: ir.Node, pad: ir.Node, own: Pads, total: Pads) -> bool:
    value_input = input_at(pad, 2)
    value = 0.0 if value_input is None else scalar(value_input)
    if is_op(layer, "Conv"):
        return value == 0.0
    kernel = ints_attribute(layer, "kernel_shape")
    if int_attribute(layer, "ceil_mode", 0) or any(p >= k for p, k in zip(total, kernel * 2, strict=True)):
        return False
    if any(d != 1 for d in ints_attribute(layer, "dilations")):
        return False
    if is_op(layer, "AveragePool"):
        return value == 0.0 and (not any(own) or bool(int_attribute(layer, "count_include_pad", 0)))
    return value is not None and len(layer.outputs) == 1 and _harmless_in_maximum(value, pad)


def _harmless_in_maximum(value: float, pad: ir.Node) -> bool:
    if value <= float(np.finfo(np.float32).min):
        return True
    producer = pad.inputs[0].producer() if pad.inputs[0] is not None else None
    bounds = clamp_bounds(producer) if producer is not None else None
    return bounds is not None and bounds[0] >= value and not math.isinf(bounds[0])
