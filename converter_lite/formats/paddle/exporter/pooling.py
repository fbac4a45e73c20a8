"""Pooling over two dimensions."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.convolution import padded, window_paddings
from converter_lite.formats.paddle.exporter.lowering import Handler, Lowering, Unsupported, dims, rank
from converter_lite.formats.paddle.program import Attribute, attr, ints


def _pool(lowering: Lowering, node: ir.Node) -> None:
    if rank(node.inputs[0]) != 4:
        raise Unsupported("pooling exists over two dimensions only")
    if len(node.outputs) > 1 and g.is_read(node.outputs[1]):
        raise Unsupported("the indices of MaxPool")
    if any(d != 1 for d in g.ints_attribute(node, "dilations", (1, 1))):
        raise Unsupported("pooling with dilations")
    kernel = g.ints_attribute(node, "kernel_shape")
    strides = g.ints_attribute(node, "strides", (1, 1))
    average, ceil = node.op_type == "AveragePool", bool(g.int_attribute(node, "ceil_mode", 0))
    counted = average and bool(g.int_attribute(node, "count_include_pad", 0))
    name, sizes = lowering.tensor(node.inputs[0]), dims(node.inputs[0])[2:]
    windows = pads = window_paddings(node, kernel, strides, (1, 1))
    if ceil:
        windows, ceil = _rounded_up(sizes, kernel, strides, pads)
    if counted and (ceil or windows != pads or pads[::2] != pads[1::2]):
        # The kernels use the padding at the beginning at the end too, and count what ONNX does not.
        name, counted = padded(lowering, node, name, pads), False
        windows = tuple(needed - there if needed > there else 0 for needed, there in zip(windows, pads, strict=True))
    attributes = {
        "ksize": ints(kernel),
        "strides": ints(strides),
        "paddings": ints(windows),
        "exclusive": attr(average and not counted),
        "ceil_mode": attr(ceil),
    }
    _emit(lowering, node, name, "avg" if average else "max", attributes, whole=False)


def _rounded_up(
    sizes: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], paddings: tuple[int, ...]
) -> tuple[tuple[int, ...], bool]:
    """Paddings and ``ceil_mode`` with the windows of ONNX' ceil_mode, of which none begins in the padding at the end."""
    axes = list(zip(sizes, kernel, strides, paddings[::2], paddings[1::2], strict=True))
    if all(end + stride - 1 < window for _, window, stride, _, end in axes):
        return paddings, True  # whatever the size is, the last window begins before the end
    if min(sizes) < 1:
        raise Unsupported("pooling with ceil_mode of a picture whose size is unknown", "give --inputShape")
    ends, same = [], True
    for size, window, stride, begin, end in axes:
        steps = -(-(size + begin + end - window) // stride)
        if steps * stride >= size + begin:
            steps, same = steps - 1, False
        ends.append(max(steps * stride + window - size - begin, 0))
    if same:
        return paddings, True
    return (paddings[0], ends[0], paddings[2], ends[1]), False


def _global(lowering: Lowering, node: ir.Node) -> None:
    if rank(node.inputs[0]) != 4:
        raise Unsupported("pooling exists over two dimensions only", "ReduceMean works on any axis")
    attributes = {
        "ksize": ints((1, 1)),
        "strides": ints((1, 1)),
        "paddings": ints((0, 0, 0, 0)),
        "exclusive": attr(True),
        "ceil_mode": attr(False),
    }
    kind = "avg" if node.op_type == "GlobalAveragePool" else "max"
    _emit(lowering, node, lowering.tensor(node.inputs[0]), kind, attributes, whole=True)


def _emit(
    lowering: Lowering, node: ir.Node, name: str, kind: str, attributes: dict[str, Attribute], *, whole: bool
) -> None:
    attributes = attributes | {
        "pooling_type": attr(kind),
        "global_pooling": attr(whole),
        "adaptive": attr(False),
        "padding_algorithm": attr("EXPLICIT"),
    }
    inputs, outputs = {"X": [name]}, {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("pool2d", inputs, outputs, attributes)


HANDLERS: dict[str, Handler] = {
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global,
    "GlobalMaxPool": _global,
}
