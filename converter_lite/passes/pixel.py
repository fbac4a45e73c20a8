"""Convolutions of a single pixel as Gemm."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.graph import add_initializer, constant, input_at, int_attribute, ints_attribute, single_consumer
from converter_lite.passes.rewrite import for_each, is_op, replace


@for_each("Conv")
def fuse_pixel_conv(graph: ir.Graph, conv: ir.Node) -> bool:
    """Replace a convolution that reads a single pixel and is flattened, as at the end of many classifiers, by Gemm.

    ::

        x (N, C, 1, 1) ─ Conv(W (M, C, 1, 1), b) ─ Flatten ─ y    becomes    x ─ Flatten ─ Gemm(W (M, C), b) ─ y

    Integer kernels of matrix products can give float results where those of convolutions cannot: the scores of a
    classifier keep their precision. Flatten may be a Squeeze or Reshape.

    Refused: other or unknown sizes, groups, padding, a weight or bias that is not constant, another reader of the convolution.
    """
    source, kernel, bias = (input_at(conv, position) for position in range(3))
    weight, flatten = constant(kernel), single_consumer(conv.outputs[0])
    if source is None or source.shape is None or kernel is None or weight is None or flatten is None:
        return False
    if not (_is_pixel(source.shape) and _is_pixel(weight.shape)) or any(ints_attribute(conv, "pads")):
        return False
    if int_attribute(conv, "group", 1) != 1 or (bias is not None and constant(bias) is None):
        return False
    if not _gives_rows(flatten, len(weight)):
        return False
    row = ir.node("Flatten", [source], attributes={"axis": 1})
    row.outputs[0].shape, row.outputs[0].type = ir.Shape([source.shape[0], weight.shape[1]]), source.type
    graph.insert_before(conv, row)
    matrix = add_initializer(graph, f"{kernel.name}_matrix", weight.reshape(weight.shape[:2]))
    operands = [row.outputs[0], matrix, *([bias] if bias is not None else [])]
    replace([conv, flatten], ir.node("Gemm", operands, attributes={"transB": 1}))
    return True


def _is_pixel(shape: ir.Shape | tuple[int, ...]) -> bool:
    return len(shape) > 2 and all(size == 1 for size in tuple(shape)[2:])


def _gives_rows(node: ir.Node, columns: int) -> bool:
    """Whether the node turns the pixels into one row per sample."""
    shape = node.outputs[0].shape
    return (
        is_op(node, "Flatten", "Reshape", "Squeeze") and shape is not None and len(shape) == 2 and shape[1] == columns
    )
