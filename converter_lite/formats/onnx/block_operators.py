"""Products and tables with a scale per block as operators of onnxruntime, and back.

::

    W (int4, int8) ─ DequantizeLinear<block_size> ─ MatMul, Gemm    is    MatMulNBits<bits, block_size>(x, W, scales, zeros)
    rows, scales ─ Gather ─ DequantizeLinear<block_size>            is    GatherBlockQuantized<block_size>(W, ids, scales)

The numbers are the same. The operator says in the file whether activations stay float (``accuracy_level`` 1) or are rounded to
int8 (4); the standard form leaves that to an option of the session, and to versions of onnxruntime that fuse it. See
docs/decisions/0028.

Source: onnxruntime's list of its own operators (layout of weights, scales and zero points).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.onnx.integer_operators import MICROSOFT
from converter_lite.kernels.blocks import scales_shape
from converter_lite.passes.opset import minimal_ir_version
from converter_lite.passes.rewrite import is_op, remove, take_over
from converter_lite.quantization.qdq.known import computes
from converter_lite.quantization.qdq.materialize import BLOCKS_OPSET
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine
from converter_lite.runtime.float_products import BLOCK_PRODUCT, FLOAT_LEVEL

TABLE = "GatherBlockQuantized"

FLOAT = ir.DataType.FLOAT

INTEGERS = {
    ir.DataType.INT4: (4, 8),
    ir.DataType.UINT4: (4, 0),
    ir.DataType.INT8: (8, 128),
    ir.DataType.UINT8: (8, 0),
}
"""Type -> width, and what makes its integers unsigned."""

LAYOUTS = {4: ir.DataType.UINT4, 8: ir.DataType.UINT8}
"""Width -> type of the integers in a MatMulNBits."""


def has_nibble_zero_points(dequantize: ir.Node) -> bool:
    """Whether blocks of four bits have zero points of their own, which no kernel may read that rounds activations."""
    stored = dequantize.inputs[0]
    middle = 0 if stored is not None and stored.dtype is ir.DataType.INT4 else None
    middle = 8 if stored is not None and stored.dtype is ir.DataType.UINT4 else middle
    zeros = g.constant(g.input_at(dequantize, 2))
    if middle is None:
        return False
    return bool(middle) if zeros is None else bool(np.any(zeros.astype(np.int32) != middle))


def write_block_operators(model: ir.Model, level: int | None) -> int:
    """Write blocks as operators of onnxruntime, in place; returns how many.

    Args:
        model: As it is going to be written.
        level: ``accuracy_level`` of the products. ``None``: only what a runtime could otherwise fuse to a kernel that is not
            right, products with zero points of four bits. Those keep their activations in float whatever the level.
    """
    graph, names = model.graph, g.Names(model.graph)
    count = 0
    for node in list(graph):
        if not is_op(node, "DequantizeLinear") or "block_size" not in node.attributes:
            continue
        if g.is_constant(node.inputs[0]):
            chosen = FLOAT_LEVEL if has_nibble_zero_points(node) else level
            if chosen is not None:
                count += _write_products(graph, node, chosen, names)
        elif level is not None:
            count += _write_table(graph, node, names)
    if count:
        graph.opset_imports.setdefault(MICROSOFT, 1)
        for name, value in list(graph.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                del graph.initializers[name]
    return count


def spell_out_block_operators(model: ir.Model) -> int:
    """Write those with constant blocks as a DequantizeLinear of the whole constant, in place; returns how many.

    So are rows that are gathered before they are dequantized.
    """
    graph, names = model.graph, g.Names(model.graph)
    count = 0
    for node in list(graph):
        if node.domain == MICROSOFT and node.op_type == BLOCK_PRODUCT:
            count += _spell_out_product(graph, node, names)
        elif node.domain == MICROSOFT and node.op_type == TABLE:
            count += _spell_out_table(graph, node, [0, 2, 3], node, names)
        elif is_op(node, "DequantizeLinear") and "block_size" in node.attributes:
            gathers = [value.producer() if value is not None else None for value in node.inputs]
            if _gather_one_row(gathers):
                count += _spell_out_table(graph, node, [0, 1, 2], gathers[0], names)
    if count:
        model.graph.opset_imports[""] = max(g.opset(model), BLOCKS_OPSET)
        model.ir_version = max(model.ir_version, minimal_ir_version(BLOCKS_OPSET))
    return count


def knows_block_operators(bits: int, engine: Engine = DEFAULT_ENGINE) -> bool:
    """Whether the engine computes these operators."""
    scales = ir.tensor(np.ones((1, 1), np.float32))
    x, blocks = ir.tensor(np.ones((1, 32), np.float32)), ir.tensor(np.zeros((1, 1, 4 * bits), np.uint8))
    tried = [(_product_node([None] * 3, (32, 1, bits, 32), 1), (x, blocks, scales))]
    if bits == 4:
        rows = ir.Tensor(np.zeros((1, 32), ir.DataType.INT4.numpy()), dtype=ir.DataType.INT4)
        tried.append((_table_node([None] * 3, 32), (rows, ir.tensor(np.zeros(1, np.int64)), scales)))
    for node, _ in tried:
        node.outputs[0].dtype = FLOAT
    return all(computes(node, constants, opset=BLOCKS_OPSET, engine=engine) for node, constants in tried)


def _write_products(graph: ir.Graph, dequantize: ir.Node, level: int, names: g.Names) -> int:
    stored, matrix = dequantize.inputs[0], dequantize.outputs[0]
    assert stored is not None
    readers = [node for node, position in matrix.uses() if position == 1 and _is_product(node)]
    if stored.dtype not in INTEGERS or len(stored.shape or ()) != 2 or g.int_attribute(dequantize, "axis", 1) != 0:
        return 0
    if not readers or len(readers) != len(matrix.uses()) or matrix.is_graph_output():
        return 0
    inputs, sizes = _packed(graph, dequantize, names)
    for reader in readers:
        made = _product_node([reader.inputs[0], *inputs], sizes, level)
        made.name = reader.name
        result, bias = made.outputs[0], g.input_at(reader, 2)
        graph.insert_before(reader, made)
        result.dtype, result.shape = FLOAT, reader.outputs[0].shape
        if bias is not None:
            result.name = names.unique(f"{reader.name}_product")
            add = ir.node("Add", [result, bias], name=names.unique(f"{reader.name}_add"))
            graph.insert_before(reader, add)
            result = add.outputs[0]
        take_over(result, reader.outputs[0])
        remove(reader)
    remove(dequantize)
    return len(readers)


def _is_product(node: ir.Node) -> bool:
    if is_op(node, "MatMul"):
        return True
    plain = all(node.attributes[name].as_float() == 1.0 for name in ("alpha", "beta") if name in node.attributes)
    return is_op(node, "Gemm") and plain and not any(g.int_attribute(node, name, 0) for name in ("transA", "transB"))


def _product_node(inputs: list[ir.Value | None], sizes: tuple[int, int, int, int], level: int) -> ir.Node:
    attributes = dict(zip(("K", "N", "bits", "block_size"), sizes, strict=True))
    return _own(BLOCK_PRODUCT, inputs, **attributes, accuracy_level=level)


def _table_node(inputs: list[ir.Value | None], block: int) -> ir.Node:
    return _own(TABLE, inputs, block_size=block, gather_axis=0, quantize_axis=1)


def _own(op_type: str, inputs: list[ir.Value | None], **attributes: int) -> ir.Node:
    return ir.node(op_type, inputs, attributes=attributes, domain=MICROSOFT)


def _packed(
    graph: ir.Graph, dequantize: ir.Node, names: g.Names
) -> tuple[list[ir.Value | None], tuple[int, int, int, int]]:
    """Weights, scales and zero points as MatMulNBits reads them, and its sizes."""
    stored = dequantize.inputs[0]
    assert stored is not None and stored.dtype is not None
    bits, offset = INTEGERS[stored.dtype]
    block = g.int_attribute(dequantize, "block_size", 0)
    q, scale = g.constant(stored), g.constant(dequantize.inputs[1])
    assert q is not None and scale is not None
    zeros = g.constant(g.input_at(dequantize, 2))
    (inputs, outputs), count = q.shape, len(scale)
    middle = np.zeros((count, outputs), np.int32) if zeros is None else zeros.astype(np.int32)
    padded = np.repeat(middle, block, axis=0)
    padded[:inputs] = q.astype(np.int32)
    name = str(stored.name).removesuffix("_quantized")
    made: list[ir.Value | None] = [
        _put(graph, f"{name}_blocks", _pack(padded.T + offset, bits).reshape(outputs, count, -1), names),
        _put(graph, f"{name}_scales", np.ascontiguousarray(scale.T), names),
    ]
    if np.any(middle + offset != 1 << (bits - 1)):
        made.append(_put(graph, f"{name}_zeros", _pack(middle.T + offset, bits), names))
    return made, (inputs, outputs, bits, block)


def _pack(rows: NDArray[np.int32], bits: int) -> NDArray[np.uint8]:
    """Unsigned integers as bytes, row by row; of two in a byte the first is the lower one."""
    values = rows.astype(np.uint8)
    if bits == 8:
        return np.ascontiguousarray(values)
    values = np.pad(values, ((0, 0), (0, values.shape[1] % 2)))
    return np.asarray(values[:, ::2] | (values[:, 1::2] << 4))


def _unpack(rows: NDArray[np.uint8], bits: int, size: int) -> NDArray[np.uint8]:
    if bits == 4:
        rows = np.stack((rows & 15, rows >> 4), axis=2).reshape(len(rows), -1)
    return rows[:, :size]


def _write_table(graph: ir.Graph, dequantize: ir.Node, names: g.Names) -> int:
    """Rows that fit into four bits, and were gathered as int8."""
    gathers = [value.producer() if value is not None else None for value in dequantize.inputs]
    if not _gather_one_row(gathers):
        return 0
    parts = [node.inputs[0] for node in gathers if node is not None]
    table = g.constant(parts[0])
    first = gathers[0]
    if table is None or first is None or table.dtype != np.int8 or table.min() < -8 or table.max() > 7:
        return 0
    nibbles = [_nibbles(graph, str(p.name), g.constant(p), names) for p in (parts[0], *parts[2:]) if p is not None]
    block = g.int_attribute(dequantize, "block_size", 0)
    made = _table_node([nibbles[0], first.inputs[1], parts[1], *nibbles[1:]], block)
    made.name = dequantize.name
    graph.insert_before(dequantize, made)
    take_over(made.outputs[0], dequantize.outputs[0])
    for node in (dequantize, *dict.fromkeys(gathers)):
        if node is not None:
            remove(node)
    return 1


def _gather_one_row(gathers: Sequence[ir.Node | None]) -> bool:
    """Whether all of them gather rows of constants by the same indices."""
    return all(
        is_op(node, "Gather")
        and node is not None
        and g.is_constant(node.inputs[0])
        and not g.int_attribute(node, "axis", 0)
        and node.inputs[1] is (gathers[0].inputs[1] if gathers[0] is not None else None)
        for node in gathers
    )


def _spell_out_table(
    graph: ir.Graph, node: ir.Node, positions: Sequence[int], gather: ir.Node | None, names: g.Names
) -> bool:
    """Rows of a table.

    Args:
        graph: Holds them.
        node: Gives the rows.
        positions: Its inputs that hold, or gather, integers, scales and zero points.
        gather: Has the indices.
        names: Of the graph.
    """
    inputs = [value for position in positions if (value := g.input_at(node, position)) is not None]
    constants = [value if g.is_constant(value) else value.producer().inputs[0] for value in inputs]  # type: ignore[union-attr]
    stored, block = constants[0], g.int_attribute(node, "block_size", 128)
    rank = len(stored.shape or ()) if stored is not None else 0
    axis = g.int_attribute(node, "quantize_axis", 1) if node.op_type == TABLE else 1
    if gather is None or stored is None or rank != 2 or axis not in (1, -1) or g.int_attribute(node, "gather_axis", 0):
        return False
    if stored.dtype not in INTEGERS or (stored.dtype is ir.DataType.UINT8 and g.int_attribute(node, "bits", 4) != 8):
        return False
    whole = ir.node(
        "DequantizeLinear",
        constants,
        attributes={"axis": 1, "block_size": block},
        name=names.unique(f"{stored.name}_whole"),
    )
    table = whole.outputs[0]
    table.name, table.dtype, table.shape = names.unique(f"{stored.name}_dequantized"), FLOAT, stored.shape
    made = ir.node("Gather", [table, gather.inputs[1]], name=node.name)
    graph.insert_before(node, [whole, made])
    take_over(made.outputs[0], node.outputs[0])
    for unread in (node, *dict.fromkeys(value.producer() for value in inputs)):
        if unread is not None:
            remove(unread)
    return True


def _spell_out_product(graph: ir.Graph, node: ir.Node, names: g.Names) -> bool:
    bits, block = g.int_attribute(node, "bits", 4), g.int_attribute(node, "block_size", 0)
    inputs, outputs = g.int_attribute(node, "K", 0), g.int_attribute(node, "N", 0)
    arrays = [g.constant(g.input_at(node, position)) for position in range(1, 4)]
    packed, scale, zeros = arrays
    others = [g.input_at(node, position) for position in (3, 4)]
    if bits not in LAYOUTS or packed is None or scale is None or scale.dtype != np.float32 or others[1] is not None:
        return False
    if (others[0] is not None and zeros is None) or (zeros is not None and zeros.dtype != np.uint8) or block < 1:
        return False
    count = scales_shape((inputs,), 0, block)[0]
    if packed.size != outputs * count * block * bits // 8 or scale.size != outputs * count:
        raise ModelError("its blocks do not have the sizes that it names", where=g.label(node))
    dtype, name = LAYOUTS[bits], str(node.inputs[1].name if node.inputs[1] is not None else node.name)
    q = _unpack(packed.reshape(outputs, -1), bits, inputs).T
    rows = np.full((outputs, count), 1 << (bits - 1), np.uint8)
    if zeros is not None:
        rows = _unpack(zeros.reshape(outputs, -1), bits, count)
    parts = [
        g.add_tensor(graph, f"{name}_quantized", ir.Tensor(q.astype(dtype.numpy()), dtype=dtype), names=names),
        _put(graph, f"{name}_scale", np.ascontiguousarray(scale.reshape(outputs, count).T), names),
        g.add_tensor(graph, f"{name}_zero_point", ir.Tensor(rows.T.astype(dtype.numpy()), dtype=dtype), names=names),
    ]
    dequantize = ir.node(
        "DequantizeLinear", parts, attributes={"axis": 0, "block_size": block}, name=f"{name}_dequantize"
    )
    weight = dequantize.outputs[0]
    weight.name, weight.dtype, weight.shape = names.unique(f"{name}_dequantized"), FLOAT, ir.Shape([inputs, outputs])
    product = ir.node("MatMul", [node.inputs[0], weight], name=node.name)
    made, bias = [dequantize, product], g.input_at(node, 5)
    if bias is not None:
        product.outputs[0].name, product.outputs[0].dtype = names.unique(f"{node.name}_product"), FLOAT
        product.outputs[0].shape = node.outputs[0].shape
        made.append(ir.node("Add", [product.outputs[0], bias], name=names.unique(f"{node.name}_add")))
    graph.insert_before(node, made)
    take_over(made[-1].outputs[0], node.outputs[0])
    remove(node)
    return True


def _nibbles(graph: ir.Graph, name: str, array: NDArray[Any] | None, names: g.Names) -> ir.Value:
    assert array is not None
    dtype = ir.DataType.INT4
    return g.add_tensor(graph, f"{name}_nibbles", ir.Tensor(array.astype(dtype.numpy()), dtype=dtype), names=names)


def _put(graph: ir.Graph, name: str, array: NDArray[np.generic], names: g.Names) -> ir.Value:
    return g.add_initializer(graph, name, array, names=names)
