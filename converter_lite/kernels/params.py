"""Central types of quantization: the integer grid, its parameters, an observed range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import CalibrationError
from converter_lite.kernels.blocks import per_block, scales_shape, slabs, spread
from converter_lite.kernels.pairs import Rules, repair, step_factors
from converter_lite.kernels.quantize import FloatArray, IntArray, along_axis, dequantize, quantize

MIN_RANGE = 1e-10
"""Width that a narrower range is widened to, real units; the original widens all ranges the same way (measured)."""

VANISHED = 1e-30
"""Width below which the range of a whole tensor is widened: networks that nobody trained give signals of 1e-20 and less."""

MIN_SCALE = float(np.finfo(np.float32).tiny)
"""Scales below the smallest normal float32 divide badly; they are raised to it."""

CLIPS = tuple(1 - i / 32 for i in range(21))
"""Candidates of :meth:`QuantParams.clipped`, as shares of the step that covers a weight."""

BLOCK_CLIPS = tuple(share / 50 for share in range(52, 34, -2))
"""Candidates of :func:`block_params`."""

WELL_COVERED = 8
"""Bits from which the covering step is the best one."""


@dataclass(frozen=True, slots=True)
class QuantSpec:
    """An integer grid: width, sign, symmetry and granularity.

    Attributes:
        bits: 1 to 16 (32 for biases).
        signed: Two's complement when true.
        symmetric: Zero point is fixed at the middle (0 for signed grids).
        narrow_range: The lowest signed value is left out, so that the grid is symmetric.
        axis: Channel axis of per-channel parameters; ``None`` = one scale for the tensor.
        block: Neighbours along ``axis`` that share a scale, if all else has scales of its own; 0 = scales per channel.
    """

    bits: int = 8
    signed: bool = True
    symmetric: bool = False
    narrow_range: bool = False
    axis: int | None = None
    block: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.bits <= 16 or self.bits == 32):
            raise ValueError(f"bits must be 1..16 or 32, got {self.bits}")
        if self.narrow_range and not self.signed:
            raise ValueError("narrow_range needs a signed grid")
        if self.block and (self.block < 0 or self.axis is None or self.axis < 0):
            raise ValueError("blocks are positive and run along an axis that is counted from the front")

    @property
    def qmin(self) -> int:
        """Lowest integer of the grid."""
        if not self.signed:
            return 0
        return -(2 ** (self.bits - 1)) + (1 if self.narrow_range and self.bits > 1 else 0)

    @property
    def qmax(self) -> int:
        """Highest integer of the grid."""
        return 2**self.bits - 1 if not self.signed else 2 ** (self.bits - 1) - 1

    @property
    def integer_type(self) -> type[np.signedinteger]:
        """The narrowest signed type that holds the grid: integers of all weights are in memory until a file is written."""
        types = (np.int8, np.int16, np.int32, np.int64)
        return next(t for t in types if np.iinfo(t).min <= self.qmin and self.qmax <= np.iinfo(t).max)


@dataclass(frozen=True, slots=True, eq=False)
class QuantParams:
    """Scale and zero point on a grid; ``real = scale * (q - zero_point)``, times ``input_scales`` where there are any.

    Attributes:
        scale: float32 > 0; shape ``()`` per tensor, ``(channels,)`` per channel; that of the weight with blocks instead of
            elements along the axis, per block.
        zero_point: int32 within ``[qmin, qmax]``, same shape.
        spec: The grid.
        input_scales: float32 > 0 that broadcast to a weight, one for each of a channel's elements (their length along the
            channel axis is 1); ``None`` = all one.
        pair_rules: Neighbours in the sums of the nodes that read a weight, of which no two may saturate a kernel
            (:mod:`converter_lite.kernels.pairs`); empty where kernels do not saturate.
    """

    scale: FloatArray
    zero_point: IntArray
    spec: QuantSpec
    input_scales: FloatArray | None = None
    pair_rules: Rules = ()

    def __post_init__(self) -> None:
        if self.scale.shape != self.zero_point.shape:
            raise ValueError(f"scale {self.scale.shape} and zero_point {self.zero_point.shape} differ in shape")
        if not np.all(np.isfinite(self.scale)) or np.any(self.scale <= 0):
            raise CalibrationError("a scale is not finite and positive")
        self.scale.setflags(write=False)
        self.zero_point.setflags(write=False)
        if self.input_scales is not None:
            if not np.all(np.isfinite(self.input_scales)) or np.any(self.input_scales <= 0):
                raise CalibrationError("an input scale is not finite and positive")
            self.input_scales.setflags(write=False)

    @property
    def is_per_channel(self) -> bool:
        """Whether there is one scale per channel."""
        return self.scale.ndim == 1 and not self.spec.block

    def quantize(self, values: FloatArray) -> IntArray:
        """Integers (int32) of ``values`` on this grid, ties to even; pairs that would saturate are reduced."""
        spec = self.spec
        if spec.block:
            return self._quantize_blocks(values)
        if self.input_scales is not None:
            values = values / self.input_scales
        q = quantize(values, self.scale, self.zero_point, qmin=spec.qmin, qmax=spec.qmax, axis=spec.axis)
        return repair(q, lambda: values / along_axis(self.scale, values.ndim, spec.axis), self.pair_rules)

    def _quantize_blocks(self, values: FloatArray) -> IntArray:
        spec, result = self.spec, np.empty(values.shape, np.int32)
        for rows, blocks in slabs(values.shape, self.block_axis, spec.block):
            part = values[rows]
            scale, zero = (self._spread(array[blocks], part.shape) for array in (self.scale, self.zero_point))
            result[rows] = quantize(part, scale, zero, qmin=spec.qmin, qmax=spec.qmax)
        return result

    def _spread(self, per_block: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        return spread(per_block, shape[self.block_axis], self.block_axis, self.spec.block)

    @property
    def block_axis(self) -> int:
        """The axis that blocks run along."""
        assert self.spec.axis is not None
        return self.spec.axis

    def without_saturation(self, weight: FloatArray, rules: Rules) -> QuantParams:
        """These parameters with larger steps, where pairs of the weight would otherwise saturate a kernel.

        Args:
            weight: What is quantized.
            rules: Neighbours in the sums of its readers.
        """
        scale = along_axis(self.scale, weight.ndim, self.spec.axis)
        grown = self.scale
        for rule in rules:
            factors = step_factors(weight, scale, rule)
            factors = factors.reshape(-1, *self.scale.shape).max(axis=0)  # of all sums with one scale
            grown = np.maximum(grown, (self.scale * factors).astype(np.float32))
        return replace(self, scale=grown, pair_rules=rules)

    def clipped(self, weight: FloatArray) -> QuantParams:
        """These symmetric per-tensor parameters with the smaller step of least squared error; values beyond the grid are clipped.

        Clipped values err in one direction. It pays off only where rounding compensates the errors of single elements.
        """
        largest = np.abs(weight).max()
        steps = np.abs(weight[np.abs(weight) > largest * CLIPS[-1]]).astype(np.float64) / float(self.scale)
        errors = [
            share**2 * (weight.size / 12 + np.square(np.maximum(steps / share - self.spec.qmax, 0)).sum())
            for share in CLIPS
        ]
        share = np.float32(CLIPS[int(np.argmin(errors))] if largest > 0 else 1.0)
        return replace(self, scale=np.maximum(self.scale * share, np.float32(MIN_SCALE)))

    def dequantize(self, q_values: NDArray[np.integer]) -> FloatArray:
        """Real values of integers on this grid."""
        if self.spec.block:
            scale, zero = (self._spread(part, q_values.shape) for part in (self.scale, self.zero_point))
            return dequantize(q_values, scale, zero)
        real = dequantize(q_values, self.scale, self.zero_point, axis=self.spec.axis)
        return real if self.input_scales is None else real * self.input_scales

    def fake_quantize(self, values: FloatArray) -> FloatArray:
        """Quantize and dequantize: what a device sees of ``values``."""
        return self.dequantize(self.quantize(values))

    @property
    def real_range(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lowest and highest real value that the grid can hold."""
        low = self.scale * (self.spec.qmin - self.zero_point).astype(np.float32)
        return low, self.scale * (self.spec.qmax - self.zero_point).astype(np.float32)


def params_from_range(rmin: object, rmax: object, spec: QuantSpec) -> QuantParams:
    """Scale and zero point for a real range (scalar, or one per channel).

    The range is widened to hold zero, so that zero is exact (padding, ReLU). Widths below ``MIN_RANGE``, where there is one
    range for the whole tensor below ``VANISHED``, are widened to ``MIN_RANGE``.
    The grid is nudged so that zero falls on an integer, as the original does (measured, float32 steps there, float64 here).

    Raises:
        CalibrationError: A bound is NaN or infinite.
    """
    with np.errstate(invalid="ignore"):  # signalling NaN: refused below
        low = np.asarray(rmin, np.float64)
        high = np.asarray(rmax, np.float64)
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise CalibrationError("the range is not finite")
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    least = VANISHED if spec.axis is None else MIN_RANGE
    high = np.where(high - low < least, low + MIN_RANGE, high)
    if spec.symmetric:
        magnitude = np.maximum(-low, high)
        steps = (spec.qmax - spec.qmin) / 2 if spec.signed and spec.narrow_range else max(spec.qmax - _middle(spec), 1)
        scale = _as_scale(magnitude / steps)
        return QuantParams(scale, np.full(scale.shape, _middle(spec), np.int32), spec)
    scale = _as_scale((high - low) / (spec.qmax - spec.qmin))
    zero_point = np.clip(np.rint(spec.qmin - low / scale.astype(np.float64)), spec.qmin, spec.qmax)
    return QuantParams(scale, zero_point.astype(np.int32), spec)


def _middle(spec: QuantSpec) -> int:
    return 0 if spec.signed else 2 ** (spec.bits - 1)


def _as_scale(step: NDArray[np.float64]) -> FloatArray:
    return np.maximum(step, MIN_SCALE).astype(np.float32)


def block_params(weight: FloatArray, spec: QuantSpec, importance: NDArray[np.float64] | float = 1.0) -> QuantParams:
    """Parameters per block, along the last axis, with the step of least squared error of several shares of the covering one.

    Args:
        weight: ``(rows, columns)``.
        spec: Blocks run along axis 1.
        importance: Of the errors of each column.
    """
    shape = scales_shape(weight.shape, 1, spec.block)
    scale, zero = np.empty(shape, np.float32), np.empty(shape, np.int32)
    for rows, _ in slabs(weight.shape, 1, spec.block):
        part = weight[rows]
        covering = weight_params(part, spec)
        best, least = covering.scale, np.full(covering.scale.shape, np.inf)
        for share in BLOCK_CLIPS if spec.bits < WELL_COVERED else (1.0,):
            tried = replace(covering, scale=np.maximum(covering.scale * np.float32(share), np.float32(MIN_SCALE)))
            costs = per_block(np.add, np.square(tried.fake_quantize(part) - part) * importance, 1, spec.block)
            best, least = np.where(costs < least, tried.scale, best), np.minimum(costs, least)
        scale[rows], zero[rows] = best, covering.zero_point
    return QuantParams(scale, zero, spec)


def weight_params(weight: FloatArray, spec: QuantSpec) -> QuantParams:
    """Parameters that cover a weight exactly (its own minimum and maximum), per tensor, along ``spec.axis``, or per block."""
    if weight.size == 0:
        raise CalibrationError("the weight is empty")
    if spec.axis is None:
        return params_from_range(weight.min(), weight.max(), spec)
    if spec.block:
        low, high = (per_block(extreme, weight, spec.axis, spec.block) for extreme in (np.minimum, np.maximum))
        return params_from_range(low, high, spec)
    axes = tuple(i for i in range(weight.ndim) if i != spec.axis)
    return params_from_range(weight.min(axis=axes), weight.max(axis=axes), spec)
