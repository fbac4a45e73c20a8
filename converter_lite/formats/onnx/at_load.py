"""Weights that a runtime dequantizes once, while it loads the file.

::

    W (int8) ─ DequantizeLinear ─ y      is written as      W (int8) ─ Cast ─┐
                                                            Z (int8) ─ Cast ─ Sub ─ Mul scale ─ y

Both give the same numbers, bit for bit. Runtimes fold the second form when they load it, as they fold every operator of
constants, and then compute with floats as fast as a float model. They keep the first: onnxruntime (1.31) dequantizes at every
run, or computes products of matrices with activations rounded to int8, in blocks that depend on the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.quantize import along_axis
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.quantization.qdq.known import is_known
from converter_lite.quantization.qdq.parts import is_dequantized_whole
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine

FLOAT = ir.DataType.FLOAT

INTEGERS = frozenset(
    ir.DataType[name]
    for name in ("INT2", "UINT2", "INT4", "UINT4", "INT8", "UINT8", "INT16", "UINT16")
    if name in ir.DataType.__members__  # two bits are not in the oldest onnx-ir
)
"""Types of stored weights."""


def dequantize_at_load(
    model: ir.Model, *, of: Callable[[ir.Node], bool] = lambda _: True, engine: Engine = DEFAULT_ENGINE
) -> int:
    """Write every DequantizeLinear of a constant in the form that runtimes fold; returns how many.

    Those of a type that the engine cannot cast, and those with a scale per block, stay.

    Args:
        model: Changed in place.
        of: Whether weights of a node are meant. Where others read a weight too, they keep the DequantizeLinear.
        engine: Casts.
    """
    graph, names, known = model.graph, g.Names(model.graph), dict[ir.DataType, bool]()
    count = 0
    for node in [node for node in graph if is_op(node, "DequantizeLinear")]:
        stored = node.inputs[0]
        if (
            stored is None
            or stored.const_value is None
            or stored.dtype not in INTEGERS
            or "block_size" in node.attributes
        ):
            continue
        meant = [use for use in node.outputs[0].uses() if of(use.node)]
        if not meant:
            continue
        if stored.dtype not in known:
            known[stored.dtype] = can_cast(stored.dtype, g.opset(model), engine)
        if known[stored.dtype]:
            _spell_out(graph, _apart(graph, node, meant, names), stored, names)
            count += 1
    _forget_unused(graph)
    return count


def recognize_dequantizers(model: ir.Model) -> int:
    """The opposite, for weights of any writer; returns how many.

    Refused: constants of one axis, results that are not read as a weight, and factors that are not one positive scale per tensor
    or per channel.
    """
    graph, names = model.graph, g.Names(model.graph)
    count = sum(_recognize(graph, node, names) for node in list(graph) if is_op(node, "Cast"))
    if count:
        _forget_unused(graph)
    return count


def can_cast(dtype: ir.DataType, opset: int, engine: Engine = DEFAULT_ENGINE) -> bool:
    """Whether the engine turns integers of a type into floats: four bits are newer than the oldest supported one."""
    sample = ir.Tensor(np.zeros((1, 4), dtype.numpy()), dtype=dtype)
    return is_known("Cast", [sample], opset=opset, attributes={"to": FLOAT.value}, engine=engine)


def _apart(graph: ir.Graph, node: ir.Node, readers: Sequence[tuple[ir.Node, int]], names: g.Names) -> ir.Node:
    """The DequantizeLinear, or one of their own for ``readers`` where there are others."""
    if len(readers) == len(node.outputs[0].uses()):
        return node
    own = ir.node("DequantizeLinear", node.inputs, attributes=node.attributes)
    shared, result = node.outputs[0], own.outputs[0]
    result.name, result.dtype, result.shape = names.unique(f"{shared.name}_at_load"), FLOAT, shared.shape
    graph.insert_before(node, own)
    for user, position in readers:
        user.replace_input_with(position, result)
    return own


def _spell_out(graph: ir.Graph, node: ir.Node, stored: ir.Value, names: g.Names) -> None:
    """Names are few and short, since they take more bytes than small weights; the result keeps its own."""
    scale, zeros = g.constant(node.inputs[1]), g.constant(g.input_at(node, 2))
    assert scale is not None
    axis, rank = g.int_attribute(node, "axis", 1) if scale.size > 1 else None, len(stored.shape or ())
    name = str(stored.name).removesuffix("_quantized")

    def put(op_type: str, inputs: list[ir.Value], end: str, **attributes: int) -> ir.Value:
        made = ir.node(op_type, inputs, attributes=attributes)
        result = made.outputs[0]
        result.name, result.dtype, result.shape = f"{name}{end}", FLOAT, inputs[0].shape
        graph.insert_before(node, made)
        return result

    value = put("Cast", [stored], ".q", to=FLOAT.value)
    if zeros is not None and np.any(zeros):
        spread = g.add_initializer(
            graph, f"{name}.zero", along_axis(zeros, rank, axis), dtype=stored.dtype, names=names
        )
        value = put("Sub", [value, put("Cast", [spread], ".z", to=FLOAT.value)], ".c")
    factor = g.add_initializer(graph, f"{name}.scale", along_axis(scale, rank, axis), names=names)
    replace([node], ir.node("Mul", [value, factor]))


READERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Gather", "Add", "Mul", "Max"})
"""Operators with weights or tables, and those that put a weight together (two parts, scales per input channel) or guard it."""


def _recognize(graph: ir.Graph, cast: ir.Node, names: g.Names) -> bool:
    stored, reader = cast.inputs[0], g.single_consumer(cast.outputs[0])
    tensor = stored.const_value if stored is not None else None
    if stored is None or tensor is None or stored.dtype not in INTEGERS or len(tensor.shape) < 2:
        return False
    if cast.outputs[0].dtype is not FLOAT or reader is None:
        return False
    zero: NDArray[Any] = np.zeros((), np.int8)
    nodes = [cast]
    if is_op(reader, "Sub") and reader.inputs[0] is cast.outputs[0]:
        found = _zero_points(reader.inputs[1])
        if found is None:
            return False
        zero, nodes = found[0], [*found[1], *nodes, reader]
        reader = g.single_consumer(reader.outputs[0])
    if reader is None or not is_op(reader, "Mul") or reader.inputs[0] is not nodes[-1].outputs[0]:
        return False
    nodes.append(reader)
    scale = g.constant(reader.inputs[1])
    grid = None if scale is None or scale.dtype != np.float32 else _grid(scale, zero, tensor.shape.numpy())
    readers = [node for node, _ in reader.outputs[0].uses()]
    if grid is None or not readers or any(node.op_type not in READERS for node in readers):
        return False
    axis, scales, zeros = grid
    if any(node.op_type == "Gather" for node in readers) and not is_dequantized_whole(tensor.shape.numpy()):
        return False  # rows of larger tables are written in another form
    name = str(stored.name).removesuffix("_quantized")
    middle = zeros.astype(stored.dtype.numpy())
    inputs = [
        stored,
        g.add_initializer(graph, f"{name}_scale", scales, names=names),
        g.add_initializer(graph, f"{name}_zero_point", middle, dtype=stored.dtype, names=names),
    ]
    attributes = {} if axis is None else {"axis": axis}
    replace(nodes, ir.node("DequantizeLinear", inputs, attributes=attributes))
    return True


def _zero_points(value: ir.Value | None) -> tuple[NDArray[Any], list[ir.Node]] | None:
    """Whole numbers, constant or behind a Cast, and that Cast."""
    producer = value.producer() if value is not None else None
    casts = [producer] if producer is not None and is_op(producer, "Cast") else []
    array = g.constant(casts[0].inputs[0] if casts else value)
    return None if array is None or np.any(array != np.rint(array)) else (array, casts)


def _grid(
    scale: NDArray[np.float32], zero: NDArray[Any], shape: Sequence[int]
) -> tuple[int | None, NDArray[np.float32], NDArray[Any]] | None:
    """Channel axis, scales and zero points; ``None`` where they are none of a DequantizeLinear."""
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0) or zero.size not in (1, scale.size):
        return None
    if scale.size == 1:
        return None, scale.reshape(()), zero.reshape(())
    spread = (1,) * (len(shape) - scale.ndim) + scale.shape
    axes = [axis for axis, size in enumerate(spread) if size > 1]
    if len(spread) != len(shape) or len(axes) != 1 or spread[axes[0]] != shape[axes[0]]:
        return None
    return axes[0], scale.ravel(), np.broadcast_to(zero.ravel(), scale.size)


def _forget_unused(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
