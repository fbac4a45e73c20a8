"""Types and shapes of the values that a reader makes, by ONNX's own shape inference, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import onnx
import onnx_ir as ir

from converter_lite.errors import ModelError

OPSET = 20
"""Operator set of graphs that are made from other frameworks: the first with Gelu, besides LayerNormalization and HardSwish."""

INTEGERS_SEEN = 4096
"""Most elements of an integer constant (a shape, axes, indices) that the inference looks at."""

OTHERS_SEEN = 16
"""The same for others: scales of a Resize, bounds of a Range."""

TYPES_KEPT = 256
"""Most values of which the types are kept for further readers; those of a long network would take as much memory as its nodes."""

_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32})

_INFERRED_AS = {"LessOrEqual": "Less", "GreaterOrEqual": "Greater"}
"""Operators that are functions of others and have no inference of their own in older versions of the library."""

_REFUSALS = (
    *(onnx.shape_inference.InferenceError, onnx.checker.ValidationError),
    *(RuntimeError, ValueError, TypeError),
)
"""What shape inference raises for inputs that do not fit."""

_NOTHING: Mapping[str, onnx.TensorProto] = MappingProxyType({})


class Inference:
    """Inference for the nodes of one graph; what it is told about a value is kept for the nodes that read it."""

    def __init__(self) -> None:
        self._types: dict[ir.Value, onnx.TypeProto] = {}

    def infer(self, node: ir.Node, contents: Mapping[str, onnx.TensorProto] = _NOTHING) -> None:
        """Give the outputs of a node their types and shapes, as far as they follow from its inputs.

        Args:
            node: The node; its values have names.
            contents: What is known of inputs that are no constants, by name.

        Raises:
            ModelError: The inputs do not fit the operator.
        """
        proto = ir.serde.serialize_node(node)
        proto.op_type = _INFERRED_AS.get(node.op_type, node.op_type)
        schema = onnx.defs.get_schema(proto.op_type, OPSET)
        types, data = {}, dict(contents)
        for value in node.inputs:
            if value is None or value.type is None:
                continue
            types[str(value.name)] = self._type(value)
            limit = INTEGERS_SEEN if value.dtype in _INTEGERS else OTHERS_SEEN
            if value.const_value is not None and value.const_value.size <= limit:
                data[str(value.name)] = ir.serde.serialize_tensor(value.const_value)
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, proto, types, data, opset_imports=[onnx.helper.make_opsetid("", OPSET)]
            )
        except _REFUSALS as error:
            raise ModelError(f"its inputs do not fit: {str(error).strip().splitlines()[0]}") from None
        for value in node.outputs:
            if value.name in found:
                _take(value, found[value.name])

    def forget(self, value: ir.Value) -> None:
        """Call after type or shape of a value changed."""
        self._types.pop(value, None)

    def _type(self, value: ir.Value) -> onnx.TypeProto:
        if value not in self._types:
            if len(self._types) >= TYPES_KEPT:
                self._types.clear()
            assert value.dtype is not None
            shape = None
            if value.shape is not None:
                shape = [size if isinstance(size, int) else size.value for size in value.shape]
            self._types[value] = onnx.helper.make_tensor_type_proto(int(value.dtype), shape)
        return self._types[value]


def _take(value: ir.Value, proto: onnx.TypeProto) -> None:
    tensor = proto.tensor_type
    if tensor.elem_type:
        value.type = ir.TensorType(ir.DataType(tensor.elem_type))
    if tensor.HasField("shape"):
        sizes = [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim]
        value.shape = ir.Shape(sizes)
