"""What the quantizer needs to know of a runtime: abilities per node, and a few properties. Device tables and formats answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from converter_lite.kernels.params import QuantParams, QuantSpec


@dataclass(frozen=True, slots=True)
class Capability:
    """What a runtime can do with one node.

    Attributes:
        integer: Why it cannot compute in integers; empty when it can.
        stored: Why its weight is not stored as integers where it computes in float; empty when it is.
        weight: Grid of its weight, with the channel axis where the runtime takes one scale per channel.
        activation: Grid of its data inputs, and of its result.
    """

    integer: str
    stored: str
    weight: QuantSpec
    activation: QuantSpec


@dataclass(frozen=True, slots=True)
class StemLimits:
    """Which first layers of a network that reads pictures stay float (:mod:`converter_lite.quantization.stem`).

    Attributes:
        share: Largest share of the network's weights that they may have: a network of few layers is not left in float as a whole.
        narrow: Input and output channels up to which a pointwise convolution behind them is as fast in float; 0: none.
    """

    share: float = 0.001
    narrow: int = 0


DEVICE_STEM = StemLimits()
"""Limits for devices whose float kernels were not measured."""


@dataclass(frozen=True, slots=True)
class DynamicCosts:
    """What a product of matrices with quantized activations costs and saves beside a float one, in microseconds of one thread.

    Attributes:
        call: Lost by a product before it saves anything.
        saved: Saved for each million multiplications.
        fetched: Saved for each thousand elements of the weight, which are read from memory.
        converted: Lost for each thousand inputs, which are quantized, and for each thousand results, which are scaled.
        added: Saved where a float network adds the bias in an operator of its own, and for each thousand results.
        rows: Rows that are reckoned with where their number is open.
    """

    call: float
    saved: float
    fetched: float
    converted: float
    added: tuple[float, float]
    rows: int

    def gain(self, rows: int | None, inputs: int, results: int, *, is_added: bool) -> float:
        """What a product saves, for its number of rows (``None``: open), of inputs and of results in a row."""
        count, weight = self.rows if rows is None else rows, inputs * results / 1e3
        saved = self.saved * count * weight / 1e3 + self.fetched * weight
        if is_added:
            saved += self.added[0] + self.added[1] * count * results / 1e3
        return saved - self.call - self.converted * count * (inputs + results) / 1e3


@dataclass(frozen=True, slots=True)
class KernelCosts:
    """What integer kernels cost and save beside float ones, in microseconds of one thread.

    Attributes:
        call: Lost by a product or a convolution before it saves anything.
        saved: Saved for each million multiplications.
        product: Lost by a product of matrices for each thousand results.
        column: Lost by it for each thousand columns of its weight, however many rows it computes.
        fetched: Saved for each thousand elements of a weight, which are read from memory.
        single: Lost by a convolution of single channels, for each thousand results.
        narrow: Lost by one of fewer channels than a vector holds, for each million multiplications.
        multiplied: Lost for each million multiplications where single channels have several results.
        grouped: Lost by a convolution of groups of channels, or of a single channel, for each thousand of its groups at all
            places, and for each element of the kernel there.
        picture: Lost by a small kernel over the few channels of a picture, for each thousand results.
        window: Lost by a larger kernel over two to four channels, for each thousand of its rows at all places: they are gathered.
        series: Saved by a kernel over one dimension, for each thousand elements of all channels at all places.
        volume: Lost by a convolution over three dimensions, for each thousand elements of kernels at all places.
        quantize, dequantize: Of a tensor, and for each thousand of its elements.
        reorder: Of a picture that float convolutions keep in blocks of channels: the same.
        activation: HardSwish, which a float convolution computes with its result: the same.
        gate: Sigmoid and Mul behind a convolution (SiLU), which a float network computes as one: the same.
        floats: Of a float node, and for each million of its multiplications.
        shortest: Time of a float network from which it matters; shorter runs are the call of the runtime.
        dynamic: Of products whose activations are quantized while the network runs.
    """

    call: float
    saved: float
    product: float
    column: float
    fetched: float
    single: float
    narrow: float
    multiplied: float
    grouped: tuple[float, float]
    picture: float
    window: float
    series: float
    volume: float
    quantize: tuple[float, float]
    dequantize: tuple[float, float]
    reorder: tuple[float, float]
    activation: tuple[float, float]
    gate: tuple[float, float]
    floats: tuple[float, float]
    shortest: float
    dynamic: DynamicCosts


class Policy(Protocol):
    """The abilities of one runtime. Device tables (:class:`~converter_lite.targets.spec.TargetSpec`) are policies."""

    @property
    def name(self) -> str:
        """Written into plans."""

    @property
    def activation(self) -> QuantSpec:
        """Grid of activations, unless a node requires another, and of constant operands."""

    @property
    def per_channel(self) -> bool:
        """Default of the ``per_channel`` key."""

    @property
    def quantize_bias(self) -> bool:
        """Biases become int32 with scale ``s_input * s_weight``; otherwise they stay float."""

    @property
    def bias_correction(self) -> bool:
        """Whether the runtime takes corrected biases."""

    @property
    def float_output(self) -> frozenset[str]:
        """Weighted operators whose integer kernel can give float results."""

    @property
    def float_addend(self) -> bool:
        """An Add reads the addend that comes straight from a convolution in float (one kernel)."""

    @property
    def keeps_grid(self) -> frozenset[str]:
        """Averages whose integer kernel gives the grid of its input."""

    @property
    def only_between_weighted(self) -> bool:
        """Operators without weights are quantized only between quantized neighbours."""

    @property
    def integer_ends(self) -> frozenset[str]:
        """Inputs and outputs of the network that are asked for as integers: beside them nothing is left in float for that."""

    @property
    def grid_ends(self) -> frozenset[str]:
        """Those of the network's inputs and outputs that are quantized even if nothing beside them computes with integers."""

    @property
    def float_small_numbers(self) -> bool:
        """Divisions and what computes divisors and arguments of logarithms stay float.

        See :mod:`converter_lite.quantization.small_numbers`.
        """

    @property
    def float_stem(self) -> StemLimits | None:
        """The layers that read a picture stay float within these limits; ``None``: they are treated like others."""

    @property
    def costs(self) -> KernelCosts | None:
        """By which nodes are left in float where integers take longer; ``None``: not measured."""

    @property
    def pairs_saturate(self) -> bool:
        """Kernels may add two products in saturating 16 bits (:mod:`converter_lite.kernels.pairs`)."""

    def capability(self, node: ir.Node) -> Capability:
        """What it can do with a node."""

    def computed(self, producer: ir.Node, grid: QuantParams) -> QuantParams:
        """The grid in which it holds a result of ``producer`` for which a file says ``grid``."""
