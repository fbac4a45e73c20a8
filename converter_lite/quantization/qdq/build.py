"""The ONNX graph of a quantized model, at the operator set that its plan needs."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.passes.opset import raise_opset
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.attention import ATTENTION_OPSET
from converter_lite.quantization.qdq.materialize import materialize, required_opset
from converter_lite.quantization.qdq.parts import NARROWEST


def qdq_model(quantized: QuantizedModel, *, narrowest: int = NARROWEST, attention: bool = False) -> ir.Model:
    """The ONNX graph of a quantized model, at the operator set it needs.

    Args:
        quantized: Its model is raised to that operator set.
        narrowest: Least width of stored integers.
        attention: Whether to write attentions in float as one operator.

    Raises:
        ModelError: An operator cannot be expressed in the operator set that the plan needs.
    """
    opset = required_opset(quantized.plan, narrowest)
    quantized.model = raise_opset(quantized.model, max(opset, ATTENTION_OPSET) if attention else opset)
    return materialize(quantized, narrowest=narrowest, attention=attention)
