"""Operators that compute with integers, as float operators between DequantizeLinear and QuantizeLinear (Q/DQ).

::

    x (uint8) ─ QLinearConv(W, B) ─ y (uint8)    becomes    x ─ DQ ─ Conv(DQ W, DQ B) ─ Q ─ y

The operators, of the standard set and of onnxruntime, are defined as exactly that, up to the rounding of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

OWN_ATTRIBUTES = frozenset({"channels_last", "opset"})
"""Attributes that the float operators do not have."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Where an operator has its inputs.

    Attributes:
        op_type: The float operator.
        operands: Positions of integers, each with its scale and zero point behind it; empty for all behind the result's.
        result: Position of the result's scale and zero point.
        bias: Position of a bias in units of the product of both scales.
        kept: Position of an input that is no integer.
    """

    op_type: str
    operands: tuple[int, ...]
    result: int
    bias: int | None = None
    kept: int | None = None


_FORMS = {
    ("", "QLinearConv"): _Form("Conv", (0, 3), 6, bias=8),
    ("", "QLinearMatMul"): _Form("MatMul", (0, 3), 6),
    (MICROSOFT, "QGemm"): _Form("Gemm", (0, 3), 7, bias=6),
    (MICROSOFT, "QLinearWhere"): _Form("Where", (1, 4), 7, kept=0),
    (MICROSOFT, "QLinearConcat"): _Form("Concat", (), 0),
    **{(MICROSOFT, f"QLinear{name}"): _Form(name, (0, 3), 6) for name in ("Add", "Mul")},
    **{
        (MICROSOFT, f"QLinear{name}"): _Form(name, (0,), 3)
        for name in ("Sigmoid", "LeakyRelu", "Softmax", "AveragePool", "GlobalAveragePool")
    },
}


def spell_out_integer_operators(model: ir.Model) -> int:
    """Write integer operators as float operators between Q/DQ, in place; returns how many.

    Left as they are: pictures with channels last, a Softmax of old operator sets over several axes, a bias whose scale is
    computed.
    """
    graph, names = model.graph, g.Names(model.graph)
    found = [(node, form) for node in graph if (form := _FORMS.get((node.domain, node.op_type)))]
    return sum(_Rewriting(graph, node, form, names).run() for node, form in found)


class _Rewriting:
    """One operator on its way to floats."""

    def __init__(self, graph: ir.Graph, node: ir.Node, form: _Form, names: g.Names) -> None:
        self._graph, self._node, self._form, self._names = graph, node, form, names

    def run(self) -> bool:
        """Rewrite the operator, unless that is not possible."""
        node, form = self._node, self._form
        bias = None
        if g.int_attribute(node, "channels_last", 0) or not self._has_plain_softmax():
            return False
        if form.bias is not None and g.input_at(node, form.bias) is not None:
            bias = self._bias(form.bias)
            if bias is None:
                return False
        inputs = [] if form.kept is None else [node.inputs[form.kept]]
        inputs += [self._real(position) for position in form.operands or range(2, len(node.inputs), 3)]
        inputs += [] if bias is None else [bias]
        attributes = [attribute for name, attribute in node.attributes.items() if name not in OWN_ATTRIBUTES]
        made = ir.Node("", form.op_type, inputs, attributes, name=node.name)
        self._graph.insert_before(node, made)
        result, output = made.outputs[0], node.outputs[0]
        result.name, result.shape = self._names.unique(f"{output.name}_real"), output.shape
        result.dtype = ir.DataType.FLOAT
        scale, zero = g.input_at(node, form.result), g.input_at(node, form.result + 1)
        if scale is not None:
            result = self._put("QuantizeLinear", [result, scale, *([zero] if zero is not None else [])], "quantized")
            kind = zero.dtype if zero is not None else None
            result.type, result.shape = ir.TensorType(kind or ir.DataType.UINT8), output.shape
        name = output.name
        output.replace_all_uses_with(result, replace_graph_outputs=True)
        self._graph.remove(node, safe=True)
        result.name = name
        return True

    def _has_plain_softmax(self) -> bool:
        """Whether a Softmax runs along one axis, as it does since operator set 13."""
        node = self._node
        if self._form.op_type != "Softmax" or g.int_attribute(node, "opset", 13) >= 13:
            return True
        shape, axis = node.outputs[0].shape, g.int_attribute(node, "axis", 1)
        return axis == -1 or (shape is not None and axis == len(shape) - 1)

    def _real(self, position: int) -> ir.Value:
        """The floats of an operand."""
        node = self._node
        value, scale, zero = (g.input_at(node, position + step) for step in range(3))
        if value is None or scale is None:
            raise ModelError("it has no data or no scale", where=g.label(node))
        attributes = {"axis": self._axis()} if position and _is_vector(scale) else {}
        inputs = [value, scale, *([zero] if zero is not None else [])]
        return self._put("DequantizeLinear", inputs, f"operand_{position}", **attributes)

    def _axis(self) -> int:
        """Axis of the output channels of a weight."""
        if self._form.op_type == "Gemm":
            return 0 if g.int_attribute(self._node, "transB", 0) else 1
        return 0 if self._form.op_type == "Conv" else -1

    def _bias(self, position: int) -> ir.Value | None:
        """The floats of a bias, ``None`` where its scale is not constant."""
        node = self._node
        bias, scales = g.input_at(node, position), [g.constant(node.inputs[at]) for at in (1, 4)]
        if bias is None or scales[0] is None or scales[1] is None:
            return None
        alpha = g.float_attribute(node, "alpha", 1.0)
        product = np.asarray(alpha * scales[0].reshape(-1)[0] * scales[1], np.float32)
        scale = g.add_initializer(
            self._graph, f"{bias.name}_scale", product if product.size > 1 else product.reshape(()), names=self._names
        )
        return self._put("DequantizeLinear", [bias, scale], "bias", **({"axis": -1} if product.size > 1 else {}))

    def _put(self, op_type: str, inputs: list[ir.Value], part: str, **attributes: int) -> ir.Value:
        return put_before(self._node, op_type, inputs, self._names.unique(f"{self._node.name}/{part}"), **attributes)


def put_before(node: ir.Node, op_type: str, inputs: list[ir.Value], name: str, **attributes: int) -> ir.Value:
    """Insert a node with one float output of its name before another one; returns the output."""
    assert node.graph is not None
    made = ir.node(op_type, inputs, attributes=attributes, name=name)
    output = made.outputs[0]
    output.name, output.dtype, output.shape = name, ir.DataType.FLOAT, inputs[0].shape
    node.graph.insert_before(node, made)
    return output


def _is_vector(scale: ir.Value) -> bool:
    array = g.constant(scale)
    return array is not None and array.size > 1


INTEGER_OPERATORS = frozenset(
    {"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"}
    | {name for _, name in _FORMS}
    | {
        "DequantizeBFP",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
        "GatherBlockQuantized",
        "MatMulBnb4",
        "MatMulFpQ4",
    }
    | {"MatMulInteger16", "MatMulIntegerToFloat", "MatMulNBits", "MulInteger", "QAttention", "QEmbedLayerNormalization"}
    | {"QLinearReduceMean", "QMoE", "QOrderedMatMul", "QuantizeBFP", "QuantizeWithOrder"}
)
"""Operators of the standard set and of onnxruntime with integers inside that are not written as Q/DQ."""


def integer_operators(model: ir.Model) -> Iterator[ir.Node]:
    """Those of a model."""
    return (n for n in model.graph if n.domain in ("", MICROSOFT) and n.op_type in INTEGER_OPERATORS)
