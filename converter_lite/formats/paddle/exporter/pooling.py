"""Pooling over two dimensions."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.convolution import same_padding
from converter_lite.formats.paddle.exporter.lowering import Handler, Lowering, Unsupported, rank, text_attribute
from converter_lite.formats.paddle.program import Attribute, attr, ints


def _pool(lowering: Lowering, node: ir.Node) -> None:
    if rank(node.inputs[0]) != 4:
        raise Unsupported("pooling exists over two dimensions only")
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        raise Unsupported("the indices of MaxPool")
    if any(d != 1 for d in g.ints_attribute(node, "dilations", (1, 1))):
        raise Unsupported("pooling with dilations")
    kernel = g.ints_attribute(node, "kernel_shape")
    strides = g.ints_attribute(node, "strides", (1, 1))
    average = node.op_type == "AveragePool"
    attributes = {
        "ksize": ints(kernel),
        "strides": ints(strides),
        "paddings": ints(_paddings(node, kernel, strides)),
        "exclusive": attr(average and not g.int_attribute(node, "count_include_pad", 0)),
        "ceil_mode": attr(bool(g.int_attribute(node, "ceil_mode", 0))),
    }
    _emit(lowering, node, "avg" if average else "max", attributes, whole=False)


def _paddings(node: ir.Node, kernel: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    padding = text_attribute(node, "auto_pad", "NOTSET")
    if padding in ("NOTSET", "VALID"):
        top, left, bottom, right = g.ints_attribute(node, "pads", (0, 0, 0, 0)) if padding == "NOTSET" else (0,) * 4
        return top, bottom, left, right
    vertical, horizontal = same_padding(node, kernel, strides, (1, 1))
    return *vertical, *horizontal


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
    _emit(lowering, node, "avg" if node.op_type == "GlobalAveragePool" else "max", attributes, whole=True)


def _emit(lowering: Lowering, node: ir.Node, kind: str, attributes: dict[str, Attribute], *, whole: bool) -> None:
    attributes = attributes | {
        "pooling_type": attr(kind),
        "global_pooling": attr(whole),
        "adaptive": attr(False),
        "padding_algorithm": attr("EXPLICIT"),
    }
    inputs, outputs = {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("pool2d", inputs, outputs, attributes)


HANDLERS: dict[str, Handler] = {
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global,
    "GlobalMaxPool": _global,
}
