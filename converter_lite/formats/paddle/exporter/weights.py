"""Weights as a ``.nb`` file stores them: float, or integers with the attributes that explain them to the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import TargetError
from converter_lite.formats.paddle.program import Attribute, attr, floats
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.plan import NodeMode, QuantizedModel

QUANTIZATION_TYPE = "post_weight_channel_wise_abs_max"


@dataclass(frozen=True, slots=True)
class Transform:
    """How a weight is stored, compared with ONNX.

    Attributes:
        name: Part of the stored name; equal names, factors and numbers of channels must mean equal functions.
        apply: Array to array, for values and integers alike.
        axis: Channel axis of the ONNX weight whose scales the runtime takes.
        factor: The values (and scales) are multiplied by this.
        added: Channels of zeros that ``apply`` puts at the end.
    """

    name: str
    apply: Callable[[NDArray[Any]], NDArray[Any]]
    axis: int
    factor: float = 1.0
    added: int = 0


def keep(axis: int) -> Transform:
    """Store a weight as it is."""
    return Transform("as is", lambda array: array, axis)


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A stored weight.

    Attributes:
        name: Its variable.
        scales: One per channel, empty for float weights.
        attributes: What a weight-only file adds to the one operator that carries them.
    """

    name: str
    scales: tuple[float, ...] = ()
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def again(self) -> StoredWeight:
        """The same weight for another operator: the runtime would dequantize once per operator that has attributes."""
        return replace(self, attributes={})


def store_weight(
    quantized: QuantizedModel, value: ir.Value, transform: Transform, *, mode: NodeMode, name: str
) -> tuple[StoredWeight, NDArray[Any]]:
    """A weight as the plan requires it, and the array to store.

    Raises:
        TargetError: The plan asks for something that the runtime cannot read: a zero point, another channel axis,
            other widths than 8 and 16 bits.
    """
    params = quantized.plan.weights.get(str(value.name))
    if params is None or mode is NodeMode.FLOAT:
        array = _array(value).astype(np.float32, copy=False)
        scaled = array * np.float32(transform.factor) if transform.factor != 1 else array
        return StoredWeight(name), np.ascontiguousarray(transform.apply(scaled))
    where = str(value.name)
    bits = _stored_bits(params, integer=mode is NodeMode.INTEGER, where=where)
    scales = _channel_scales(params, value, transform, where)
    q_weight = quantized.integers(where).astype(np.int8 if bits == 8 else np.int16)
    stored = np.ascontiguousarray(transform.apply(q_weight))
    if mode is NodeMode.INTEGER:
        return StoredWeight(name, scales), stored
    attributes = {
        "quantization_type": attr(QUANTIZATION_TYPE),
        "quantize_weight_bits": attr(bits),
        f"{name}_quant_scale": floats(scales),
    }
    return StoredWeight(name, scales, attributes), stored


def _array(value: ir.Value) -> NDArray[Any]:
    array = g.constant(value)
    if array is None:
        producer = value.producer()
        if producer is None:
            raise TargetError("the weight is not a constant", where=str(value.name))
        return producer.attributes["value"].as_tensor().numpy()
    return array


def _stored_bits(params: QuantParams, *, integer: bool, where: str) -> int:
    if np.any(params.zero_point):
        raise TargetError("Paddle-Lite has no zero points; the weight must be symmetric", where=where)
    bits = params.spec.bits
    if integer and bits <= 8:
        return 8
    if not integer and bits in (8, 16):
        return bits
    raise TargetError(f"Paddle-Lite stores weights with 8 or 16 bits, not {bits}", where=where)


def _channel_scales(params: QuantParams, value: ir.Value, transform: Transform, where: str) -> tuple[float, ...]:
    channels = int(_array(value).shape[transform.axis])
    factor = np.float32(transform.factor)
    if not params.is_per_channel:
        return (float(params.scale * factor),) * (channels + transform.added)
    if params.spec.axis != transform.axis:
        raise TargetError(
            f"the plan has scales along axis {params.spec.axis}, the runtime wants axis {transform.axis}", where=where
        )
    return (*(params.scale * factor).tolist(), *(1.0,) * transform.added)
