"""The ONNX graph of a quantized model, at the operator set that its plan needs."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.passes.opset import changed_operators, raise_opset
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.attention import ATTENTION_OPSET
from converter_lite.quantization.qdq.materialize import materialize, required_opset
from converter_lite.quantization.qdq.parts import NARROWEST

WITHOUT_KERNELS = frozenset(
    {
        *("RoiAlign", "MaxRoiPool", "Bernoulli", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    }
)
"""Operators that onnxruntime (1.32) has for operator sets up to ``WITH_KERNELS`` only."""

WITH_KERNELS = 21


def qdq_model(quantized: QuantizedModel, *, narrowest: int = NARROWEST, attention: bool = False) -> ir.Model:
    """The ONNX graph of a quantized model, at the operator set it needs.

    Args:
        quantized: Its model is raised to that operator set.
        narrowest: Least width of stored integers.
        attention: Whether to write attentions in float as one operator.

    Raises:
        ModelError: An operator cannot be expressed in the operator set that the plan needs, or the runtime lacks it there.
    """
    opset = required_opset(quantized.plan, narrowest)
    if attention:
        opset = max(opset, ATTENTION_OPSET)
    lacking = sorted(WITHOUT_KERNELS.intersection(changed_operators(quantized.model, opset)))
    if lacking and opset > WITH_KERNELS:
        raise ModelError(f"onnxruntime has no {', '.join(lacking)} of operator set {opset}")
    quantized.model = raise_opset(quantized.model, opset)
    return materialize(quantized, narrowest=narrowest, attention=attention)
