"""Convolutions, pooling, and pictures that are put together from blocks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, is_op, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped, split

POOLS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")


def spell_out_grouped_deconvolution(model: ir.Model) -> int:
    """Replace a ConvTranspose with several groups, unless it is depthwise, by one for each group.

    ::

        x ─ Split ─ ConvTranspose (one for each group, with its filters and biases) ─ Concat ─ y

    A dilated depthwise one with stride 1 becomes a Conv with its filters turned round.

    Refused: unknown channels, a weight or bias that is not constant.
    """
    nodes = [node for node in model.graph if is_op(node, "ConvTranspose")]
    return sum(_turned(model.graph, node) or _deconvolution(model.graph, node) for node in nodes)


def _turned(graph: ir.Graph, node: ir.Node) -> bool:
    weight, groups = g.constant(node.inputs[1]), g.int_attribute(node, "group", 1)
    if weight is None or weight.shape[:2] != (groups, 1):
        return False
    axes = tuple(range(2, weight.ndim))
    strides, dilations = (g.ints_attribute(node, name, (1,) * len(axes)) for name in ("strides", "dilations"))
    given = {"auto_pad", "output_shape", "output_padding"} & node.attributes.keys()
    if given or set(strides) != {1} or set(dilations) == {1}:
        return False
    reach = [step * (size - 1) for step, size in zip(dilations, weight.shape[2:], strict=True)]
    cut = g.ints_attribute(node, "pads", (0, 0) * len(axes))
    pads = [outer - inner for outer, inner in zip(reach * 2, cut, strict=True)]
    if min(pads) < 0:
        return False
    filters = g.add_initializer(graph, f"{node.name}_turned", np.ascontiguousarray(np.flip(weight, axes)))
    kept = {name: attr.value for name, attr in node.attributes.items() if name != "pads"}
    inputs = [node.inputs[0], filters, *node.inputs[2:]]
    replace([node], ir.node("Conv", inputs, attributes={**kept, "pads": pads}))
    return True


def _deconvolution(graph: ir.Graph, node: ir.Node) -> bool:
    groups, x, y = g.int_attribute(node, "group", 1), node.inputs[0], node.outputs[0]
    weight, bias = g.constant(node.inputs[1]), g.constant(g.input_at(node, 2))
    shape, result = g.static_shape(x), g.static_shape(y)
    if groups == 1 or x is None or weight is None or shape is None or result is None:
        return False
    if weight.shape[:2] == (groups, 1):
        return False
    if g.input_at(node, 2) is not None and bias is None:
        return False
    parts = split(graph, node, x, [shape[1] // groups] * groups)
    graph.insert_before(node, parts)
    kept = {name: attr for name, attr in node.attributes.items() if name != "group"}
    width, made = result[1] // groups, []
    for number, part in enumerate(parts.outputs):
        part.name, part.type = f"{node.name}_group_{number}", x.type
        part.shape = ir.Shape([shape[0], shape[1] // groups, *shape[2:]])
        filters = weight[number * shape[1] // groups : (number + 1) * shape[1] // groups]
        operands = [part, g.add_initializer(graph, f"{node.name}_filters_{number}", np.ascontiguousarray(filters))]
        if bias is not None:
            share = bias[number * width : (number + 1) * width]
            operands.append(g.add_initializer(graph, f"{node.name}_bias_{number}", np.ascontiguousarray(share)))
        made.append(insert(graph, node, "ConvTranspose", operands, (result[0], width, *result[2:]), **kept))
    replace([node], ir.node("Concat", made, attributes={"axis": 1}))
    return True


WIDENED = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}
"""Attributes with one number for each dimension -> that of a dimension of size 1."""


def spell_out_rows(model: ir.Model) -> int:
    """Replace pooling and ConvTranspose over one dimension by those over two, of which the first has size 1.

    Refused: unknown sizes, the indices of a MaxPool, and filters that are not constant.
    """
    nodes = [node for node in model.graph if is_op(node, *POOLS, "ConvTranspose")]
    return sum(_of_rows(model.graph, node) for node in nodes)


def _of_rows(graph: ir.Graph, node: ir.Node) -> bool:
    x, shape, result = node.inputs[0], g.static_shape(node.inputs[0]), g.static_shape(node.outputs[0])
    if x is None or shape is None or result is None or len(shape) != 3 or len(node.outputs) != 1:
        return False
    others = list(node.inputs[1:])
    if node.op_type == "ConvTranspose":
        filters = g.constant(node.inputs[1])
        if filters is None or "output_shape" in node.attributes:
            return False
        others[0] = g.add_initializer(graph, f"{node.name}_filters", np.ascontiguousarray(filters[:, :, None, :]))
    widened = {
        name: [number, *g.ints_attribute(node, name)] for name, number in WIDENED.items() if name in node.attributes
    }
    if "pads" in node.attributes:
        begin, end = g.ints_attribute(node, "pads")
        widened["pads"] = [0, begin, 0, end]
    kept = {name: attr for name, attr in node.attributes.items() if name not in widened}
    image = reshaped(graph, node, x, (shape[0], shape[1], 1, shape[2]))
    wide = (result[0], result[1], 1, result[2])
    made = insert(graph, node, node.op_type, [image, *others], wide, **kept, **widened)
    replace(
        [node], ir.node("Reshape", [made, g.add_initializer(graph, f"{node.name}_rows", np.array(result, np.int64))])
    )
    return True


@for_each("Col2Im")
def spell_out_blocks(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace Col2Im, which adds overlapping blocks of a picture, by a ConvTranspose with a filter for each place in a block.

    ::

        (n, c * places, blocks) ─ Reshape (n * c, places, rows, columns) ─ ConvTranspose ─ Reshape (n, c, height, width)

    Refused: unknown sizes, other than two dimensions.
    """
    x, block, result = node.inputs[0], g.constant(node.inputs[2]), g.static_shape(node.outputs[0])
    if x is None or block is None or block.size != 2 or result is None or x.dtype is not ir.DataType.FLOAT:
        return False
    strides, dilations = (g.ints_attribute(node, name, (1, 1)) for name in ("strides", "dilations"))
    pads = g.ints_attribute(node, "pads", (0, 0, 0, 0))
    reach = [step * (int(size) - 1) + 1 for step, size in zip(dilations, block, strict=True)]
    padded = [size + pads[axis] + pads[axis + 2] for axis, size in enumerate(result[2:])]
    counts = [(whole - part) // step + 1 for whole, part, step in zip(padded, reach, strides, strict=True)]
    rest = [
        whole - part - (count - 1) * step
        for whole, part, count, step in zip(padded, reach, counts, strides, strict=True)
    ]
    places, planes = int(block.prod()), result[0] * result[1]
    filters = np.eye(places, dtype=np.float32).reshape(places, 1, *(int(size) for size in block))
    image = reshaped(graph, node, x, (planes, places, *counts))
    made = insert(
        graph,
        node,
        "ConvTranspose",
        [image, g.add_initializer(graph, f"{node.name}_places", filters)],
        (planes, 1, *result[2:]),
        kernel_shape=[int(size) for size in block],
        strides=list(strides),
        dilations=list(dilations),
        pads=list(pads),
        output_padding=rest,
    )
    shape = g.add_initializer(graph, f"{node.name}_shape", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [made, shape]))
    return True


LONGEST = 1 << 31
"""Size of a buffer, in elements, that no longer fits the integers that MindSpore Lite counts it with."""

VECTOR = 16
"""Filters that its kernel for AVX-512 computes at once; with a multiple of them, it needs no buffer."""


@for_each("Conv")
def spell_out_long_rows(graph: ir.Graph, node: ir.Node) -> bool:
    """Turn long rows into columns for a Conv: (n, c, 1, length) becomes (n, c, length, 1).

    The kernel of MindSpore Lite 2.0 for AVX-512 asks for a buffer of the squared length of a row times its filters, which fails
    from 11,586 places on (the last layers of vocoders). A column needs none.

    Refused: unknown sizes, filters that are not constant, several groups.
    """
    x, filters = node.inputs[0], g.constant(node.inputs[1])
    shape, result = g.static_shape(x), g.static_shape(node.outputs[0])
    if x is None or filters is None or shape is None or result is None or g.int_attribute(node, "group", 1) > 1:
        return False
    is_row = len(shape) == 3 or (len(shape) == 4 and shape[2] == result[2] == filters.shape[2] == 1)
    channels, length = result[1], result[-1]
    vectors = -(-channels // VECTOR) * VECTOR
    if not is_row or channels == vectors or length**2 * vectors < LONGEST:
        return False
    turned = {
        name: [g.ints_attribute(node, name)[-1], 1] for name in ("strides", "dilations") if name in node.attributes
    }
    if "pads" in node.attributes:
        numbers = g.ints_attribute(node, "pads")
        turned["pads"] = [numbers[len(numbers) // 2 - 1], 0, numbers[-1], 0]
    kept = {name: attr for name, attr in node.attributes.items() if name not in (*turned, "kernel_shape")}
    column = reshaped(graph, node, x, (shape[0], shape[1], shape[-1], 1))
    stored = filters.reshape(*filters.shape[:2], filters.shape[-1], 1)
    operands = [column, g.add_initializer(graph, f"{node.name}_column", stored), *node.inputs[2:]]
    made = insert(graph, node, "Conv", operands, (*result[:2], length, 1), **kept, **turned)
    row = g.add_initializer(graph, f"{node.name}_row", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [made, row]))
    return True
