"""Models in float16 or bfloat16 as models in float32, which is what is quantized; inputs and outputs keep their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import cast_of

HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})

TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")
"""Attributes that hold an element type."""

WIDE = ir.DataType.FLOAT


def computes_in_halves(model: ir.Model, kinds: frozenset[ir.DataType] = HALVES) -> bool:
    """Whether a node gives float16 or bfloat16 (or what ``kinds`` holds) that is not a constant."""
    nodes = (node for graph in model.graphs() for node in graph if node.op_type != "Constant")
    return any(value.dtype in kinds for node in nodes for value in node.outputs)


def replace_bfloat16(model: ir.Model) -> bool:
    """Compute in float32, inputs and outputs included, if anything but a Cast gives bfloat16; returns whether it does.

    onnxruntime has no kernels for it on CPUs, and takes and gives no such arrays.
    """
    kind = ir.DataType.BFLOAT16
    nodes = (node for graph in model.graphs() for node in graph if node.op_type not in ("Cast", "Constant"))
    results = [value for node in nodes for value in node.outputs]
    interface = [*model.graph.inputs, *model.graph.outputs]
    if all(value.dtype != kind for value in (*results, *interface)):
        return False
    for value in model.graph.inputs:
        if value.dtype == kind:
            value.type = ir.TensorType(WIDE)
    compute_in_float32(model, kept=HALVES - {kind})
    return True


def compute_in_float32(model: ir.Model, *, kept: frozenset[ir.DataType] = HALVES) -> int:
    """Widen all constants and results; returns how many.

    The numbers are those of the model, but for the rounding of each result to 16 bits, which falls away.

    Args:
        model: Changed in place.
        kept: Types that outputs of the model keep.
    """
    graph = model.graph
    outputs = ((value, value.dtype) for value in graph.outputs if value.producer() is not None)
    narrow = {value: kind for value, kind in outputs if kind in kept}
    widened = 0
    for inner in model.graphs():
        widened += sum(_widen_constant(value) for value in inner.initializers.values())
        for node in inner:
            _widen_attributes(node)
        results = [value for node in inner for value in node.outputs]
        for value in (*results, *(inner.inputs if inner is not graph else ())):
            if value.type is not None and value.dtype in HALVES:
                value.type = _widened(value.type)
                widened += 1
    for value in (*graph.inputs, *graph.initializers.values()):
        if value.dtype in HALVES:
            _widen_for_readers(graph, value)
    for value, kind in narrow.items():
        _narrow_output(graph, value, kind)
    return widened


def _widen_constant(value: ir.Value) -> bool:
    stored = value.const_value
    if stored is None or stored.dtype not in HALVES or value.is_graph_output():
        return False

    def widened() -> NDArray[Any]:
        return stored.numpy().astype(np.float32)

    value.const_value = g.lazy_tensor(widened, WIDE, stored.shape.numpy(), name=value.name or "", keep_small=True)
    value.type = ir.TensorType(WIDE)
    return True


def _widened(kind: ir.TypeProtocol) -> ir.TypeProtocol:
    """The type of wide tensors, or of what holds them: a sequence, or an optional one."""
    if isinstance(kind, (ir.SequenceType, ir.OptionalType)):
        return type(kind)(_widened(kind.elem_type))
    return ir.TensorType(WIDE)


def _widen_attributes(node: ir.Node) -> None:
    for name, attribute in list(node.attributes.items()):
        if attribute.type is ir.AttributeType.TENSOR and attribute.as_tensor().dtype in HALVES:
            wide = ir.Tensor(attribute.as_tensor().numpy().astype(np.float32))
            node.attributes[name] = ir.AttrTensor(name, wide)
        elif name in TYPE_ATTRIBUTES and attribute.type is ir.AttributeType.INT and attribute.as_int() in HALVES:
            node.attributes[name] = ir.AttrInt64(name, WIDE.value)


def _widen_for_readers(graph: ir.Graph, value: ir.Value) -> None:
    readers = list(value.uses())
    if not readers:
        return
    name = f"{value.name}_float32"
    cast = cast_of(graph, value, WIDE, name=f"{name}_cast", result=name)
    for node, place in readers:
        node.replace_input_with(place, cast.outputs[0])
    graph.insert_before(next(iter(graph)), cast)


def _narrow_output(graph: ir.Graph, value: ir.Value, kind: ir.DataType) -> None:
    name = value.name or ""
    cast = cast_of(graph, value, kind, name=f"{name}_cast", result=f"{name}_float32")
    value.name, cast.outputs[0].name = cast.outputs[0].name, name
    graph.append(cast)
    g.replace_output(graph, value, cast.outputs[0])
