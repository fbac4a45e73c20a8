"""What a device table says. Data only: the planner holds the rules that read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from converter_lite.quantization.params import QuantSpec


@dataclass(frozen=True, slots=True)
class StemLimits:
    """Which first layers of a network that reads pictures stay float (:mod:`converter_lite.quantization.stem`).

    Attributes:
        share: Of the network's weights that they may have: a network that consists of its first layers is not left in float.
        narrow: Input and output channels up to which a pointwise convolution behind them is computed as fast in float; 0: none.
    """

    share: float = 0.001
    narrow: int = 0


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Integer abilities of one device.

    Attributes:
        name: As in ``target_device``.
        activation: Grid of activations (per tensor).
        weight: Grid of weights; its axis is filled in per operator.
        per_channel: Default of the ``per_channel`` key.
        per_channel_operators: Operators that may have one weight scale per output channel.
        quantize_bias: Biases become int32 with scale ``s_input * s_weight``; otherwise they stay float.
        integer: Operators with integer kernels.
        attributes: operator -> attribute -> values for which the integer kernel exists.
        weight_only: Operators without integer kernels whose weights are stored as integers all the same.
        float_output: Weighted operators whose integer kernel can give float results.
        float_addend: An Add reads the addend that comes straight from a convolution in float (one kernel).
        only_between_weighted: Operators without weights are quantized only between quantized neighbours,
            where they save a conversion; at the edges of the graph they stay float.
        float_stem: The layers that read a picture stay float within these limits; ``None``: they are like others.
        bias_correction: Whether the device takes corrected biases.
        pairs_saturate: Kernels may add two products of a weighted sum in saturating 16 bits
            (:mod:`converter_lite.kernels.pairs`): weights are chosen so that they never do.
        note: Where the rules come from.
    """

    name: str
    activation: QuantSpec
    weight: QuantSpec
    per_channel: bool
    per_channel_operators: frozenset[str]
    quantize_bias: bool
    integer: frozenset[str]
    attributes: Mapping[str, Mapping[str, tuple[object, ...]]] = field(default_factory=dict)
    weight_only: frozenset[str] = frozenset()
    float_output: frozenset[str] = frozenset()
    float_addend: bool = False
    only_between_weighted: bool = True
    float_stem: StemLimits | None = None
    bias_correction: bool = True
    pairs_saturate: bool = False
    note: str = ""
