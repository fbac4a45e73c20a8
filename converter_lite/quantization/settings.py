"""What the algorithms of each kind of quantization are told; apart from them, since most conversions run only one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from converter_lite.config.names import Rounding
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.storage import ONNX_STORAGE, Storage
from converter_lite.targets.policy import KernelCosts

if TYPE_CHECKING:
    from converter_lite.quantization.score import Score

MIGRATION = 0.7
"""Share of an activation's spread that ``equalize.py`` moves into the weights (its rule 3). Errors of a detector and a classifier
hardly change from 0.6 to 1 and grow below; 0.7 is in that range."""

TUNED_COSINE = 0.995
"""Output cosine that ``auto_tune`` keeps, on samples that nothing is fitted to (0.995 is the original's number)."""

DATA_COSINE = 0.99
"""Default output cosine to keep where there are calibration data."""

WIDE_BITS = 16
"""Width of weights that are singled out for accuracy."""


@dataclass(frozen=True, slots=True)
class FullSettings:
    """Choices of a full quantization.

    Attributes:
        method: Key of :data:`converter_lite.calibration.observers.METHODS`.
        per_channel: One weight scale per output channel where the target allows.
        bias_correction: Correct the biases on calibration samples, and let rounding errors cancel.
        equalization: Rescale channels between neighbouring layers first.
        smooth_alpha: Share of an activation's spread that equalization and smoothing move into the weights behind it.
        rounding: How weights become integers.
        skip: Names of nodes that stay float.
        bits: Width of weights.
        activation_bits: Width of activations between layers.
        min_size: A weight is quantized only if it has more elements.
        min_channel: Conv and ConvTranspose weights are quantized only if they have more output channels.
    """

    method: str = "MAX_MIN"
    per_channel: bool = True
    bias_correction: bool = True
    equalization: bool = True
    smooth_alpha: float = MIGRATION
    rounding: Rounding = Rounding.NEAREST
    skip: frozenset[str] = frozenset()
    bits: int = 8
    activation_bits: int = 8
    min_size: int = 0
    min_channel: int = 0

    @property
    def is_narrow(self) -> bool:
        """Whether anything has less than 8 bits."""
        return min(self.bits, self.activation_bits) < 8


@dataclass(frozen=True, slots=True)
class MixedBits:
    """How widths are chosen.

    Attributes:
        init_scale: Relative error that a weight may have; used where there is no search.
        search: Look for the smallest file whose output cosine is at least ``target_cosine``.
        target_cosine: Goal of the search.
        max_iterations: Most networks that the search quantizes.
    """

    init_scale: float = 0.02
    search: bool = False
    target_cosine: float = TUNED_COSINE
    max_iterations: int = 40


@dataclass(frozen=True, slots=True)
class Blocks:
    """How matrices and tables get a scale per block.

    Attributes:
        size: Elements of a block.
        symmetric: Without zero points.
        wide: Names of nodes whose blocks have 8 bits.
        level: ``accuracy_level`` of the operators of onnxruntime that are written; ``None``: standard operators.
    """

    size: int
    symmetric: bool = True
    wide: frozenset[str] = frozenset()
    level: int | None = None


@dataclass(frozen=True, slots=True)
class WeightSettings:
    """Choices of a weight quantization.

    Attributes:
        bits: 1 to 16.
        per_channel: One scale per output channel.
        bias_correction: Correct biases (on data where given, else from folded BatchNormalization) and let rounding errors cancel.
        rounding: How weights become integers.
        min_size: A weight is quantized only if it has more elements.
        min_channel: Conv and ConvTranspose weights are quantized only if they have more output channels; ``None``: as many as
            ``storage.least_channels``.
        skip: Names of nodes that stay float.
        mixed: A width per weight instead of ``bits``.
        wide: Names of nodes whose weights get 16 bits whatever the others get.
        storage: How the file format stores weights.
        input_scales: Columns of weights of less than 8 bits may have scales of their own, which the file holds beside those per
            channel.
        blocks: Scales per block; ``None``: per channel.
    """

    bits: int = 8
    per_channel: bool = True
    bias_correction: bool = True
    rounding: Rounding = Rounding.NEAREST
    min_size: int = 0
    min_channel: int | None = None
    skip: frozenset[str] = frozenset()
    mixed: MixedBits | None = None
    wide: frozenset[str] = frozenset()
    storage: Storage = ONNX_STORAGE
    input_scales: bool = False
    blocks: Blocks | None = None


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """Choices of a dynamic quantization.

    Attributes:
        weight_per_channel: ALWC (activations per layer, weights per channel); false is ACWL (per row, per layer).
        smoothing: Move outliers of activations into the weights or into scales per row, where weights have scales per channel.
        skip: Names of nodes that stay float.
        portable: Choose weights with which no integer kernel of an x86 processor can saturate.
        rounding: How weights become integers; to nearest where there are no calibration samples.
        rows: Activations may have a scale per row; otherwise every tensor has one.
        recurrent: DYNAMIC: LSTMs compute with integers where that is faster, WEIGHT: weights of recurrent layers are only stored
            as integers (as all others are with DYNAMIC).
        recurrent_per_channel: Weights of recurrent layers have a scale per row; otherwise each has one.
        layers: Weights of convolutions, and of products that have no integer form, are stored as integers.
        shared_below: Columns of fewer elements share one scale (:class:`~converter_lite.targets.spec.TargetSpec`).
        least_summands: Products that add up fewer elements stay float.
        costs: Products are only stored as integers where computing with them would take longer; ``None``: that was not measured.
    """

    weight_per_channel: bool = True
    smoothing: bool = True
    skip: frozenset[str] = frozenset()
    portable: bool = True
    rounding: Rounding = Rounding.ADAPTIVE
    rows: bool = True
    recurrent: NodeMode = NodeMode.DYNAMIC
    recurrent_per_channel: bool = True
    layers: bool = True
    shared_below: int = 2
    least_summands: int = 1
    costs: KernelCosts | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What the outputs must reach; ``None`` sets no limit.

    Attributes:
        cosine: Least mean cosine of any output with the float network.
        error: Largest absolute error of any output value, which rare samples may exceed (``Score.rare_error``).
        max_nodes: Most nodes left in float; 0 = no limit.
    """

    cosine: float | None = None
    error: float | None = None
    max_nodes: int = 0

    def shortfall(self, score: Score) -> float:
        """How many times too large the worse of both errors is; the goal holds up to 1."""
        ratios = [0.0]
        if self.cosine is not None:
            ratios.append((1.0 - score.cosine) / (1.0 - self.cosine))
        if self.error is not None:
            ratios.append(max(score.error, score.rare_error) / self.error)
        return max(ratios)

    def __str__(self) -> str:
        parts = [f"cosine {self.cosine:.15g}"] if self.cosine is not None else []
        return " and ".join([*parts, *([f"largest error {self.error:.15g}"] if self.error is not None else [])])


@dataclass(frozen=True, slots=True)
class Learning:
    """How a quantized network learns from the float one.

    Attributes:
        seconds: Time that it takes on two cores of a usual processor; the number of steps follows from it.
        seed: Of all that is drawn.
        grids: Steps and zero points may change; otherwise integers and biases only.
        unlearned: Rounding of the network where nothing is learnt, with which a result is compared too.
    """

    seconds: int = 300
    seed: int = 0
    grids: bool = True
    unlearned: Rounding = Rounding.ADAPTIVE


Settings = FullSettings | WeightSettings | DynamicSettings
