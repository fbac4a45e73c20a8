"""Constant weights and biases of ``.ms`` nodes, stored as planned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.container import MsQuant, MsTensor
from converter_lite.formats.mindspore_lite.encodings import store
from converter_lite.formats.mindspore_lite.enums import Compression, DataType, QuantType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.fse import encode_values, estimated_bytes
from converter_lite.formats.mindspore_lite.options import Compatibility
from converter_lite.formats.permutation import Perm
from converter_lite.graph import constant, label
from converter_lite.kernels.params import QuantParams
from converter_lite.kernels.quantize import along_axis, in_slices, round_half_away
from converter_lite.quantization.plan import NodeMode, QuantizedModel

_SAFE_CORRECTION = 10.0
_SMALLEST_DEVIATION = 2e-16
"""Bounds of the corrections in the original converter (measured)."""


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A weight in the file.

    Attributes:
        index: Its tensor.
        mark: Quantization type of the node that uses it.
        channel_scale: Scales by which the node's result must be multiplied; ``None`` = none.
    """

    index: int
    mark: QuantType = QuantType.NONE
    channel_scale: NDArray[np.float32] | None = None


def quantized_weight(ctx: Lowering, node: ir.Node, value: ir.Value) -> QuantParams | None:
    """Parameters of a weight, or ``None`` when this node computes with floats."""
    mode = ctx.mode(node)
    return None if mode is NodeMode.FLOAT else ctx.plan.weights.get(value.name or "")


def weight(ctx: Lowering, node: ir.Node, value: ir.Value, order: Perm, *, axis: int, shared: bool = False) -> Weight:
    """A weight in axis order ``order``.

    Args:
        ctx: The conversion.
        node: The node that uses the weight.
        value: The initializer.
        order: Axis order of the file.
        axis: Axis (in the file's order) along which the runtime expects per-channel parameters.
        shared: The desktop runtimes keep this kind of weight in a cache that refuses dequantized ones.
    """
    params = quantized_weight(ctx, node, value)
    if params is None:
        return Weight(ctx.use(value, order))
    if params.is_per_channel and order.index(params.spec.axis or 0) != axis:
        ctx.notes.append(f"{label(node)}: stored in float32, the runtime needs one scale per entry of another axis")
        return Weight(ctx.use(value, order))
    if ctx.mode(node) is NodeMode.DYNAMIC:
        index = ctx.cached((value, "int8", order), lambda: _int8(ctx, value, params, order))
        return Weight(index, QuantType.DYNAMIC)
    if shared and ctx.options.compatibility is Compatibility.WHEEL:
        return _expanded_at_load(ctx, node, value, params, order)
    index = ctx.cached((value, "weight", order), lambda: _packed(ctx, value, params, order))
    is_float = ctx.ms.tensors[index].dtype is DataType.FLOAT32
    return Weight(index, QuantType.NONE if is_float else QuantType.WEIGHT)


def int8_weight(ctx: Lowering, node: ir.Node, value: ir.Value, order: Perm, *, axis: int) -> tuple[int, MsQuant]:
    """A weight of the integer kernels: int8, symmetric.

    Raises:
        Unsupported: The plan has other parameters for it.
    """
    params = quantized_weight(ctx, node, value)
    if params is None:
        raise Unsupported(f"the weight {value.name} has no quantization parameters")
    if params.spec.bits != 8 or (params.is_per_channel and order.index(params.spec.axis or 0) != axis):
        raise Unsupported(f"the weight {value.name} must be 8 bits per tensor or per output channel")
    index = ctx.cached((value, "int8", order), lambda: _int8(ctx, value, params, order))
    quant = ctx.ms.tensors[index].quant
    assert quant is not None
    if np.any(quant.zero_point != 0) and params.is_per_channel:
        raise Unsupported(f"the weight {value.name} must have zero point 0")
    return index, quant


def int32_bias(ctx: Lowering, array: NDArray[np.float32], x: MsQuant, w: MsQuant, name: str) -> int:
    """A bias of the integer kernels: int32 in units of input scale times weight scale.

    It carries no parameters: the runtimes compute them, and they would cost 20 bytes per channel.
    """
    scale = x.scale[0] * w.scale
    limits = np.iinfo(np.int32)
    q = np.clip(round_half_away(array.astype(np.float64) / scale), limits.min, limits.max).astype(np.int32)
    return ctx.tensor(MsTensor(f"{name}_int32", DataType.INT32, q.shape, q))


def stored_integers(quantized: QuantizedModel, name: str) -> NDArray[np.int32]:
    """Integers of a planned weight in a signed range, rounded with ties away from zero as the device tools do."""
    params = quantized.plan.weights[name]
    spec = params.spec
    if name in quantized.q_weights:
        q = quantized.integers(name)
    else:
        tensor = quantized.model.graph.initializers[name].const_value
        assert tensor is not None

        def rounded(
            part: NDArray[np.floating], scale: NDArray[np.float32], zero_point: NDArray[np.int32]
        ) -> NDArray[np.float64]:
            steps = part.astype(np.float64)
            steps /= scale
            steps += zero_point
            return np.clip(round_half_away(steps), spec.qmin, spec.qmax, out=steps)

        q = in_slices(rounded, tensor.numpy(), params.scale, params.zero_point, axis=spec.axis)
    return q - _shift(params) if _shift(params) else q


def _shift(params: QuantParams) -> int:
    return 0 if params.spec.signed else 2 ** (params.spec.bits - 1)


def _quant(params: QuantParams) -> MsQuant:
    return MsQuant.of(params.scale, params.zero_point - _shift(params), params.spec.bits)


def _int8(ctx: Lowering, value: ir.Value, params: QuantParams, order: Perm) -> int:
    q = stored_integers(ctx.quantized, value.name or "").transpose(order).astype(np.int8)
    return ctx.tensor(MsTensor(value.name or "", DataType.INT8, q.shape, q, quant=_quant(params)))


def _packed(ctx: Lowering, value: ir.Value, params: QuantParams, order: Perm) -> int:
    q = stored_integers(ctx.quantized, value.name or "")
    quant = _quant(params)
    if ctx.options.corrections and params.is_per_channel:
        quant = with_corrections(quant, np.asarray(constant(value), np.float32), q, params.spec.axis or 0)
    q = np.ascontiguousarray(q.transpose(order))
    stored = store(q, quant, encode=ctx.options.encode)
    name = value.name or ""
    if ctx.options.encode and not params.is_per_channel:
        coded = _entropy_coded(params.scale * (q - quant.zero_point[0]).astype(np.float32), len(stored.data))
        if coded is not None:
            return ctx.tensor(MsTensor(name, DataType.FLOAT32, q.shape, coded, compression=Compression.FSE))
    dtype = DataType.INT8 if quant.bits <= 8 else DataType.INT16
    return ctx.tensor(MsTensor(name, dtype, q.shape, stored.data, quant=quant, compression=stored.compression))


def _entropy_coded(values: NDArray[np.float32], limit: int) -> bytes | None:
    """The FSE encoding of numbers, if it takes less than ``limit`` bytes."""
    if estimated_bytes(np.unique(values, return_counts=True)[1]) >= limit:
        return None
    coded = encode_values(values)
    return coded if coded is not None and len(coded) < limit else None


def coded_weight(ctx: Lowering, node: ir.Node, value: ir.Value) -> NDArray[np.float32] | None:
    """The numbers of a weight with one scale, for :func:`coded_reals`; ``None``: it stays as it is."""
    params = quantized_weight(ctx, node, value)
    if params is None:
        return None
    if not params.is_per_channel and ctx.options.encode:
        steps = stored_integers(ctx.quantized, value.name or "") - _quant(params).zero_point[0]
        if estimated_bytes(np.unique(steps, return_counts=True)[1]) < 4 * steps.size:
            return params.scale * steps.astype(np.float32)
    ctx.notes.append(f"{label(node)}: {value.name} stored in float32, it cannot be coded with one scale in fewer bytes")
    return None


def coded_reals(ctx: Lowering, values: NDArray[np.float32], name: str) -> int:
    """A constant that every runtime expands to floats while loading; as it is where that would take more bytes."""
    coded = _entropy_coded(values, values.nbytes)
    if coded is None:
        return ctx.add_constant(values, name)
    return ctx.tensor(MsTensor(name, DataType.FLOAT32, values.shape, coded, compression=Compression.FSE))


def _expanded_at_load(ctx: Lowering, node: ir.Node, value: ir.Value, params: QuantParams, order: Perm) -> Weight:
    """A weight that every runtime expands to floats while loading: entropy coded, whatever the kernel.

    There is one codebook per tensor; per-channel weights are stored as whole numbers, and the result is scaled.
    """
    q = stored_integers(ctx.quantized, value.name or "")
    quant = _quant(params)
    steps = q - along_axis(quant.zero_point if params.is_per_channel else quant.zero_point[0], q.ndim, params.spec.axis)
    numbers = steps.astype(np.float32) if params.is_per_channel else params.scale * steps.astype(np.float32)
    numbers = np.ascontiguousarray(numbers.transpose(order))
    key = (value, "expanded", order)
    if key not in ctx.shared_weights:
        coded = _entropy_coded(numbers, numbers.nbytes)
        if coded is None:
            ctx.notes.append(
                f"{label(node)}: stored in float32, {numbers.nbytes:,} bytes; entropy coding would make its weight no smaller"
            )
            index = ctx.use(value, order)
            return Weight(index)
        compression = Compression.FSE
        tensor = MsTensor(value.name or "", DataType.FLOAT32, numbers.shape, coded, compression=compression)
        ctx.shared_weights[key] = ctx.tensor(tensor)
    return Weight(ctx.shared_weights[key], channel_scale=params.scale if params.is_per_channel else None)


def scaled(ctx: Lowering, index: int, stored: Weight, bias: NDArray[np.float32] | None, kind: int) -> int:
    """The result of a node whose weight needs scales: times scale, plus bias, then the activation."""
    assert stored.channel_scale is not None
    offset = np.zeros_like(stored.channel_scale) if bias is None else bias
    inputs = [index, ctx.add_constant(stored.channel_scale, "scale"), ctx.add_constant(offset, "offset")]
    return ctx.emit("ScaleFusion", inputs, ctx.ms.tensors[index].dims, axis=-1, activation_type=kind)


def with_corrections(quant: MsQuant, values: NDArray[np.float32], q: NDArray[np.int32], axis: int) -> MsQuant:
    """Variance and mean corrections per channel.

    After ``x * var_corr + mean_corr`` the dequantized channel has the mean and the (population) deviation of the float
    channel; a correction outside the range that the runtime accepts is left out.
    """
    channels = values.shape[axis]
    real = np.moveaxis(values, axis, 0).reshape(channels, -1).astype(np.float64)
    steps = np.moveaxis(q, axis, 0).reshape(channels, -1) - quant.zero_point[:, None]
    back = steps * quant.scale[:, None]
    deviation, got = real.std(axis=1), back.std(axis=1)
    usable = (deviation > _SMALLEST_DEVIATION) & (got > _SMALLEST_DEVIATION)
    var = np.divide(deviation, got, out=np.ones(channels), where=usable)
    var = np.where((var > 0) & (var < _SAFE_CORRECTION), var, 1.0)
    mean = real.mean(axis=1) - back.mean(axis=1) * var
    return MsQuant(quant.scale, quant.zero_point, quant.bits, var.astype(np.float32), mean.astype(np.float32))


def bias_array(ctx: Lowering, value: ir.Value | None) -> NDArray[np.float32] | None:
    """A constant bias, or ``None`` if the node has none."""
    return None if value is None else np.asarray(ctx.array(value, "the bias"), np.float32)
