"""Quantized ONNX models (QDQ) as a float graph, with their own scales as the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.onnx.at_load import recognize_dequantizers
from converter_lite.formats.onnx.block_operators import spell_out_block_operators
from converter_lite.formats.onnx.checks import DAMAGED
from converter_lite.formats.onnx.dynamic_products import spell_out_dynamic_products
from converter_lite.formats.onnx.integer_operators import integer_operators, spell_out_integer_operators
from converter_lite.formats.onnx.pairs import GRID, tidy_pairs
from converter_lite.formats.onnx.recurrent_operators import spell_out_recurrent_operators
from converter_lite.kernels.blocks import scales_shape
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.kernels.quantize import dequantize
from converter_lite.passes.shapes import infer_shapes
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.materialize import TWO_BITS_TYPES
from converter_lite.quantization.qdq.parts import UPPER, joined, joined_params
from converter_lite.targets.operands import stored_weights

GRIDS = {
    ir.DataType.INT8: (8, True),
    ir.DataType.UINT8: (8, False),
    ir.DataType.INT16: (16, True),
    ir.DataType.UINT16: (16, False),
    ir.DataType.INT4: (4, True),
    ir.DataType.UINT4: (4, False),
    ir.DataType.INT32: (32, True),
    **{dtype: (2, signed) for signed, dtype in TWO_BITS_TYPES.items()},
}
"""Element type of integers -> bits and sign of their grid."""

AS_THEY_ARE_HINT = "only --saveType=ONNX keeps them as they are; start from the float model"

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


MIDDLE = 128
"""The zero point of uint8 that makes it int8 without one."""


def read_qdq(model: ir.Model, *, where: str = "") -> QuantizedModel:
    """Move the Q/DQ nodes of ``model`` (changed in place), and weights that are dequantized at load, into a plan.

    Weights become float initializers that keep their integers; biases stored as int32 become float. A node with a
    quantized weight and quantized data is INTEGER in the plan, with a quantized weight only it is WEIGHT. A weight whose
    elements have input scales (a Mul behind its DequantizeLinear) becomes float: only ONNX files can hold those.

    Args:
        model: As ``read_onnx`` returns it.
        where: Name of the file for messages.

    Raises:
        ModelError: The model computes with integer operators, or a scale is not constant; the nodes are named.
    """
    try:
        return _read(model, where)
    except MISFITS as error:
        raise ModelError(f"{DAMAGED}: {error}", where=where) from error


def _read(model: ir.Model, where: str) -> QuantizedModel:
    dynamic = spell_out_dynamic_products(model) | spell_out_recurrent_operators(model)
    spell_out_integer_operators(model)
    if spell_out_block_operators(model):
        infer_shapes(model)
    refused = [g.label(node) for node in integer_operators(model)]
    if refused:
        raise ModelError(
            f"integer operators cannot be taken back to float: {', '.join(refused[:5])}",
            where=where,
            hint="export it as QDQ with a scale per tensor or per channel, or start from the float model",
        )
    recognize_dequantizers(model)
    tidy_pairs(model)
    quantized = QuantizedModel(model, QuantPlan("onnx"))
    read: dict[ir.Node, list[int]] = {}
    for node in list(model.graph):
        if node.op_type == "DequantizeLinear":
            _take_out(quantized, node, read, where)
    for node in reversed(list(model.graph)):
        if node.op_type == "QuantizeLinear":
            _take_out_alone(quantized, node, where)
    _keep_outputs_apart(quantized)
    _decide(quantized, dynamic, read)
    return quantized


def _take_out(quantized: QuantizedModel, node: ir.Node, read: dict[ir.Node, list[int]], where: str) -> None:
    """Take a DequantizeLinear out; ``read`` gets who reads a pair with it, and where."""
    source = node.inputs[0] if len(node.inputs) > 1 else None
    if source is None:
        raise ModelError("it has no data or no scale", where=f"{where} {g.label(node)}".strip())
    params = _params(node, source.dtype, where)
    stored = g.constant(source)
    if stored is not None:
        value = _float_weight(quantized, source, stored, params, where)
        reader = g.single_consumer(node.outputs[0])
        _replace(quantized.model.graph, node, value)
        if reader is not None and reader.op_type == "Add":
            add, whole = reader, _joined_parts(quantized, reader)
            if whole is not None:
                value, reader = whole, g.single_consumer(add.outputs[0])
                _replace(quantized.model.graph, add, whole)
        if reader is not None and reader.op_type == "Mul":
            _fold_input_scales(quantized, reader, value)
        return
    if source.is_graph_input():
        raise ModelError(f"input {source.name!r} takes integers", where=where, hint=AS_THEY_ARE_HINT)
    producer = source.producer()
    if producer is None or producer.op_type != "QuantizeLinear" or producer.inputs[0] is None:
        raise ModelError("integers that no QuantizeLinear gives", where=f"{where} {g.label(node)}".strip())
    if not _is_same_grid(params, _params(producer, source.dtype, where)):
        raise ModelError(
            f"its scale or zero point is not that of {g.label(producer)}, whose integers it reads",
            where=f"{where} {g.label(node)}".strip(),
            hint=AS_THEY_ARE_HINT,
        )
    value = producer.inputs[0]
    quantized.plan.activations[str(value.name)] = params
    readers = tuple(node.outputs[0].uses())
    copy = _replace(quantized.model.graph, node, value)
    for user, position in (*readers, *([] if copy is None else [(copy, 0)])):
        read.setdefault(user, []).append(position)


def _is_same_grid(first: QuantParams, second: QuantParams) -> bool:
    same = np.array_equal(first.scale, second.scale) and np.array_equal(first.zero_point, second.zero_point)
    return same and first.spec.axis == second.spec.axis


def _joined_parts(quantized: QuantizedModel, add: ir.Node) -> ir.Value | None:
    """The weight whose two parts a node adds, ``None`` if it adds something else or the other part is not there yet."""
    plan, names = quantized.plan, [str(value.name) for value in add.inputs if value is not None]
    if len(set(names)) < 2 or not all(name in plan.weights for name in names):
        return None
    params = joined_params(*(plan.weights[name] for name in names))
    if params is None:
        return None
    for name in names:
        del plan.weights[name]
    integers = joined(*(np.asarray(quantized.q_weights.pop(name), np.int32) for name in names))
    values = dequantize(integers, params.scale, params.zero_point, axis=params.spec.axis)
    made = g.add_initializer(quantized.model.graph, names[0].removesuffix(UPPER), values)
    plan.weights[str(made.name)], quantized.q_weights[str(made.name)] = params, integers
    return made


def _fold_input_scales(quantized: QuantizedModel, multiply: ir.Node, weight: ir.Value) -> None:
    """Multiply a dequantized weight with its input scales, and forget its integers."""
    arrays = [g.constant(value) for value in multiply.inputs]
    if arrays[0] is None or arrays[1] is None:
        return
    name = str(weight.name)
    product = g.add_initializer(quantized.model.graph, f"{name}_multiplied", np.multiply(arrays[0], arrays[1]))
    _replace(quantized.model.graph, multiply, product)
    quantized.plan.weights.pop(name, None)
    quantized.q_weights.pop(name, None)


def _take_out_alone(quantized: QuantizedModel, node: ir.Node, where: str) -> None:
    """Check a QuantizeLinear that is left: nothing may read it, and it must not be an output of the graph."""
    if node.outputs[0].is_graph_output():
        raise ModelError(f"output {node.outputs[0].name!r} gives integers", where=where, hint=AS_THEY_ARE_HINT)
    if g.is_read(node.outputs[0]):
        raise ModelError("a node other than DequantizeLinear reads integers", where=where, hint=AS_THEY_ARE_HINT)
    quantized.model.graph.remove(node, safe=True)


def _params(node: ir.Node, dtype: ir.DataType | None, where: str) -> QuantParams:
    place = f"{where} {g.label(node)}".strip()
    scale = g.constant(node.inputs[1])
    zero = g.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    if scale is None or dtype not in GRIDS or (len(node.inputs) > 2 and node.inputs[2] is not None and zero is None):
        raise ModelError("its scale or zero point is not constant, or its integer type is unknown", where=place)
    if scale.ndim > 1 or ("block_size" in node.attributes and g.int_attribute(node, "block_size", 0)):
        return _block_params(node, scale, zero, GRIDS[dtype], place)
    flat = scale.astype(np.float32).reshape(-1)
    if not np.all(np.isfinite(flat)) or np.any(flat <= 0):
        raise ModelError("its scale is not finite and positive", where=place)
    per_channel = flat.size > 1
    zeros = np.zeros(flat.size, np.int32) if zero is None else zero.astype(np.int32).reshape(-1)
    if flat.size == 0 or zeros.size not in (1, flat.size):
        raise ModelError(f"{flat.size} scales and {zeros.size} zero points", where=place)
    bits, signed = GRIDS[dtype]
    symmetric = not np.any(zeros)
    axis = g.int_attribute(node, "axis", 1) if per_channel else None
    rank = len(node.outputs[0].shape) if node.outputs[0].shape is not None else None
    if axis is not None and axis < 0:
        if rank is None:
            raise ModelError("its rank is unknown", where=place)
        axis += rank
    grid = node.meta.get(GRID)
    if isinstance(grid, QuantSpec):
        spec = replace(grid, symmetric=symmetric, axis=axis)
    elif bits == 8 and not signed and np.all(zeros == MIDDLE):  # the same numbers
        zeros, spec = zeros - MIDDLE, QuantSpec(bits, symmetric=True, axis=axis)
    else:
        spec = QuantSpec(bits, signed=signed, symmetric=symmetric, axis=axis)
    shape = flat.shape if per_channel else ()
    return QuantParams(flat.reshape(shape).copy(), np.broadcast_to(zeros, flat.shape).reshape(shape).copy(), spec)


def _block_params(
    node: ir.Node, scale: NDArray[Any], zero: NDArray[Any] | None, grid: tuple[int, bool], place: str
) -> QuantParams:
    """Those of a constant with a scale per block."""
    (bits, signed), block = grid, g.int_attribute(node, "block_size", 0)
    stored = g.constant(node.inputs[0])
    axis = g.int_attribute(node, "axis", 1)
    if stored is None or not -stored.ndim <= axis < stored.ndim or block < 1:
        raise ModelError(
            "scales per block of what is no constant, or has no such axis", where=place, hint=AS_THEY_ARE_HINT
        )
    axis %= stored.ndim
    scale = scale.astype(np.float32)
    zeros = np.zeros(scale.shape, np.int32) if zero is None else zero.astype(np.int32)
    if scale.shape != scales_shape(stored.shape, axis, block) or zeros.shape != scale.shape:
        raise ModelError(f"its scales {scale.shape} do not fit blocks of {block} elements", where=place)
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise ModelError("its scale is not finite and positive", where=place)
    if not signed and np.all(zeros == 1 << (bits - 1)):  # the same numbers
        zeros, signed = np.zeros_like(zeros), True
    spec = QuantSpec(bits, signed=signed, symmetric=not np.any(zeros), axis=axis, block=block)
    return QuantParams(scale.copy(), zeros, spec)


def _float_weight(
    quantized: QuantizedModel, source: ir.Value, stored: NDArray[Any], params: QuantParams, where: str
) -> ir.Value:
    axis, block = params.spec.axis, params.spec.block
    if axis is not None and not block and (axis >= stored.ndim or stored.shape[axis] != params.scale.size):
        raise ModelError(
            f"weight '{source.name}' {stored.shape} does not have {params.scale.size} channels on axis {axis}",
            where=where,
        )
    integers = stored.astype(np.int32)
    if params.spec.signed and (source.dtype is ir.DataType.UINT8 or (block and source.dtype is ir.DataType.UINT4)):
        integers -= 1 << (params.spec.bits - 1)
    values = params.dequantize(integers)
    name = str(source.name).removesuffix("_quantized")
    made = g.add_initializer(quantized.model.graph, name, values)
    if params.spec.bits <= 16:
        quantized.plan.weights[str(made.name)] = params
        quantized.q_weights[str(made.name)] = integers
    return made


def _replace(graph: ir.Graph, node: ir.Node, value: ir.Value) -> ir.Node | None:
    """Make every reader of ``node`` read ``value``; a graph output keeps its name behind an Identity, which is returned."""
    output, copy = node.outputs[0], None
    for user, index in tuple(output.uses()):
        user.replace_input_with(index, value)
    if output.is_graph_output():
        copy = ir.node("Identity", [value], name=f"{node.name}_identity")
        copy.outputs[0].name, copy.outputs[0].shape, copy.outputs[0].type = output.name, output.shape, output.type
        graph.insert_before(node, copy)
        graph.outputs[list(graph.outputs).index(output)] = copy.outputs[0]
        output.name = f"{output.name}_removed"
    graph.remove(node, safe=True)
    return copy


def _keep_outputs_apart(quantized: QuantizedModel) -> None:
    """Put an Identity in front of outputs that are read through pairs: what the model gives is on no grid."""
    graph, activations = quantized.model.graph, quantized.plan.activations
    for value in dict.fromkeys(graph.outputs):
        name, node = str(value.name), value.producer()
        if name not in activations or node is None:
            continue
        copy = ir.node("Identity", [value], name=g.unique_name(graph, f"{name}_identity"))
        value.name = g.unique_name(graph, f"{name}_computed")
        activations[value.name] = activations.pop(name)
        copy.outputs[0].name, copy.outputs[0].shape, copy.outputs[0].type = name, value.shape, value.type
        graph.insert_after(node, copy)
        g.replace_output(graph, value, copy.outputs[0])


def _decide(quantized: QuantizedModel, dynamic: set[str], pairs: dict[ir.Node, list[int]]) -> None:
    plan = quantized.plan
    for node in g.all_nodes(quantized.model.graph):
        if not any(value.name in plan.weights for value in stored_weights(node)):
            if node.graph is quantized.model.graph:
                plan.keep_float(node, "it is float in the model")
        elif node.name in dynamic and _is_symmetric_int8(plan.weights[str(stored_weights(node)[0].name)]):
            plan.quantize(node, NodeMode.DYNAMIC)
        elif node.op_type in WEIGHTED and node.inputs[0] is not None and str(node.inputs[0].name) in plan.activations:
            plan.quantize(node, NodeMode.INTEGER)
        else:
            plan.quantize(node, NodeMode.WEIGHT)
        if node.graph is quantized.model.graph and plan.mode(node) is not NodeMode.INTEGER:
            decision = replace(plan.nodes[str(node.name)], grid_inputs=tuple(pairs.get(node, ())))
            plan.nodes[str(node.name)] = decision
    read = {
        str(value.name) for node in g.all_nodes(quantized.model.graph) for value in node.inputs if value is not None
    }
    plan.weights = {name: params for name, params in plan.weights.items() if name in read}


def _is_symmetric_int8(params: QuantParams) -> bool:
    return params.spec.bits == 8 and params.spec.signed and not np.any(params.zero_point)
