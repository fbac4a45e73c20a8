"""The preprocessing doctor: are the prepared samples what the model was trained on?

It looks only at the first samples and is silent if all is well. What its signals find, and what they miss, was measured:
docs/decisions/0012-preprocessing-doctor.md.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import copysign, log1p, sqrt
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from converter_lite.config.names import InputType
from converter_lite.data.inputs import InputSpec, input_specs
from converter_lite.data.layout import DOUBT_RATIO, Layout, model_layout, roughness_ratio
from converter_lite.preprocessing.normalization import PIXELS, USUAL, Normalization, View, guess
from converter_lite.preprocessing.probe import Probe, Statistics, Vector, bias_ratio, distances
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed

if TYPE_CHECKING:
    from converter_lite.config.sections.data import DataPreprocessParam

LOOKED_AT = 48
"""Most samples."""

RANGE_SAMPLES, FIRST_SAMPLES = 5, 3
"""Samples on which normalizations are compared, which differ greatly; where distributions are known, only the first ones if these
lean to none."""

NORMED_SAMPLES = 16
"""Samples on which channel orders are compared where distributions are known."""

FEW = 8
"""Fewer samples say nothing about the order of channels; this many are tried first."""

WORK = 6e9
"""Multiplications that may be spent: 0.1 s on one core (MobileNetV1-0.75)."""

SHARE_OF_CALIBRATION = 0.08
"""... or this share of what one pass over all samples costs, if that is more."""


@dataclass(frozen=True, slots=True)
class PreferenceThresholds:
    """When a variant is preferred, if the distributions of layers are known.

    Attributes:
        gain: Least mean log ratio of the distances from training.
        agreeing: Least share of the layers that are nearer with the variant.
        noise: Distance of one sample by chance; divided by the number of samples it is added to both sides of a ratio.
    """

    gain: float
    agreeing: float
    noise: float


RANGE_THRESHOLDS = PreferenceThresholds(gain=0.15, agreeing=0.6, noise=1.0)
CHANNEL_THRESHOLDS = PreferenceThresholds(gain=0.05, agreeing=0.8, noise=4.0)
"""Exchanged channels change distances by a tenth; another range changes them many times."""

LEANING = PreferenceThresholds(gain=0.0, agreeing=0.5, noise=4.0)
"""What a few samples have to show for more of them to be examined: correct samples rarely do."""

FAR_BIAS, NEARER_BIAS = 2.4, 1.2
"""Log ratio of the first bias from which a range is doubted, and by how much another one has to be nearer to zero."""

SURE, UNSURE = 2.2, 1.0
"""Standard errors from which another order of channels is believed if no distribution is known, and from which more samples are
used than the work allows."""

MORE = 4
"""How many times more samples are used if the first ones leave doubt."""


class Mistake(enum.Enum):
    """What can be wrong with samples."""

    EQUAL = "all samples are equal"
    CONSTANT = "the samples are constant"
    LAYOUT = "wrong layout"
    NORMALIZATION = "wrong normalization"
    CHANNELS = "red and blue swapped"


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake that the samples seem to have.

    Attributes:
        mistake: Which.
        input: Model input.
        message: A sentence that says what to change.
        wanted: The normalization that fits, for ``Mistake.NORMALIZATION``.
    """

    mistake: Mistake
    input: str
    message: str
    wanted: Normalization | None = None


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is known about how the samples were made.

    Attributes:
        are_pictures: Whether they were decoded here, so the layout is right.
        normalization: What was done to pixels; ``None``: it is guessed from the values.
        order: ``image_to_format``, empty where it is not known.
    """

    are_pictures: bool = False
    normalization: Normalization | None = None
    order: str = ""

    @property
    def blue_first(self) -> bool:
        """Whether the first channel is known to be blue."""
        return self.order == "BGR"


def preparation_of(data: DataPreprocessParam | None) -> Preparation:
    """How a configuration makes samples."""
    if data is None or data.input_type is not InputType.IMAGE:
        return Preparation()
    order = "BGR" if data.image_to_format is None else data.image_to_format.value
    if not data.normalize_mean or not data.normalize_std:
        return Preparation(True, PIXELS, order)
    step = -1 if order == "BGR" else 1
    mean, std = data.normalize_mean[::step], data.normalize_std[::step]
    like = next((n.name for n in USUAL if n.is_like(Normalization("", mean, std))), "configured")
    return Preparation(True, Normalization(like, mean, std), order)


def examine(
    model: ir.Model,
    feeds: Sequence[Feed],
    *,
    preparation: Preparation,
    samples: int,
    context: RunContext,
) -> list[Finding]:
    """Look at the first samples of a data set.

    Args:
        model: Optimized float graph.
        feeds: The first samples, one at least.
        preparation: How they were made.
        samples: Size of the whole data set.
        context: Runs the model.

    Raises:
        ModelError: The runtime refuses the model or a sample.
    """
    specs = input_specs(model)
    findings = [f for spec in specs if (f := _without_content(spec, feeds)) is not None]
    pictures = [spec for spec in specs if is_picture(spec, feeds[0])]
    if findings or len(specs) != 1 or len(pictures) != 1:
        return findings
    spec = pictures[0]
    layout = model_layout(spec)[0]
    if not preparation.are_pictures and _is_turned(spec, layout, feeds):
        return [_layout_finding(spec, layout)]
    probe = Probe(model, context)
    if not probe.is_observed:
        return []
    ranges = probe if probe.known else Probe(model, context, first_only=True)
    return _Examination(spec, feeds, preparation, probe, ranges, samples).run()


def _without_content(spec: InputSpec, feeds: Sequence[Feed]) -> Finding | None:
    arrays = [feed[spec.name] for feed in feeds if feed[spec.name].size]  # states of no step are empty
    if not np.issubdtype(spec.dtype, np.floating) or not arrays or arrays[0].size < 2:
        return None
    if all(np.ptp(array) == 0 for array in arrays):
        text = f"input '{spec.name}': every value of a sample is the same; are these the right files, and read as they are meant?"
        return Finding(Mistake.CONSTANT, spec.name, text)
    if len(arrays) > 1 and all(np.array_equal(array, arrays[0]) for array in arrays[1:]):
        text = f"input '{spec.name}': all of the first {len(arrays)} samples are equal; give samples that differ"
        return Finding(Mistake.EQUAL, spec.name, text)
    return None


def is_picture(spec: InputSpec, feed: Feed) -> bool:
    """Whether an input takes float pictures of 1 or 3 channels."""
    array = feed[spec.name]
    if array.ndim != 4 or not np.issubdtype(array.dtype, np.floating):
        return False
    return model_layout(spec)[0].split(array.shape)[2] in (1, 3)


def _is_turned(spec: InputSpec, layout: Layout, feeds: Sequence[Feed]) -> bool:
    arrays = [feed[spec.name][:1] for feed in feeds[:RANGE_SAMPLES]]
    if layout.split(arrays[0].shape)[2] != 3 or min(arrays[0].shape[1:]) < 2:
        return False
    return median(roughness_ratio(array, array.shape, layout) for array in arrays) > DOUBT_RATIO


def _layout_finding(spec: InputSpec, layout: Layout) -> Finding:
    text = (
        f"input '{spec.name}': the model reads {layout.value}, and the values look like {layout.other.value}; "
        f"transpose the samples, or set --inputDataFormat={layout.other.value} for BIN files that are {layout.other.value}"
    )
    return Finding(Mistake.LAYOUT, spec.name, text)


class _Examination:
    """Normalization and channel order of one input."""

    def __init__(
        self,
        spec: InputSpec,
        feeds: Sequence[Feed],
        preparation: Preparation,
        probe: Probe,
        ranges: Probe,
        samples: int,
    ) -> None:
        self._spec, self._feeds, self._probe, self._ranges = spec, list(feeds), probe, ranges
        self._preparation, layout = preparation, model_layout(spec)[0]
        self._channels = layout.split(feeds[0][spec.name].shape)[2]
        low = min(float(feed[spec.name].min()) for feed in feeds)
        high = max(float(feed[spec.name].max()) for feed in feeds)
        used = preparation.normalization or guess(low, high, channels=self._channels)
        self._is_usual = used is not None
        self._view = View(layout, used or PIXELS, blue_first=preparation.blue_first)
        room = max(WORK, SHARE_OF_CALIBRATION * samples * probe.whole)
        self._runs = int(room / max(probe.work, 1.0))
        self._measured: dict[tuple[Normalization | None, bool], Statistics] = {}

    def run(self) -> list[Finding]:
        """What seems to be wrong, if anything."""
        others = [n for n in USUAL if not n.is_like(self._view.used) and n.suits(self._channels)]
        wanted = others if self._is_usual else []  # values of no usual normalization are compared with none
        count = min(RANGE_SAMPLES, len(self._feeds))
        if self._ranges is self._probe:
            count = max(min(count, self._runs // (2 * len(wanted) + 2)), 1)
            self._runs -= count * (1 + len(wanted))
        best = self._best_known(wanted, count) if self._probe.known else self._best_range(wanted, count)
        is_sure = best is None or bool(
            self._probe.known
        )  # statistics of deep layers mean nothing if the range is a guess
        is_swapped = self._channels == 3 and is_sure and self._is_swapped(best)
        findings = [] if best is None else [self._range_finding(best, is_swapped=is_swapped)]
        return [*findings, self._channel_finding()] if is_swapped else findings

    def _varied(self, wanted: Normalization | None, *, swapped: bool, feeds: Sequence[Feed]) -> list[Feed]:
        name, view = self._spec.name, self._view
        varied: list[Feed] = []
        for feed in feeds:
            array = feed[name]
            if wanted is not None:
                array = view.changed(array, wanted)
            if swapped:
                array = (view if wanted is None else replace(view, used=wanted)).swapped(array)
            varied.append({**feed, name: array})
        return varied

    def _statistics(self, wanted: Normalization | None, count: int, *, swapped: bool = False) -> Statistics:
        """The network's statistics for the first samples in another form; each runs once."""
        known = self._measured.get((wanted, swapped))
        start = 0 if known is None else len(known.margins)
        if start < count:
            feeds = self._feeds[start:count]
            given = wanted is None and not swapped
            more = self._probe(feeds if given else self._varied(wanted, swapped=swapped, feeds=feeds))
            known = more if known is None else known.then(more)
            self._measured[wanted, swapped] = known
        assert known is not None
        return known.first(count)

    def _best_known(self, wanted: Sequence[Normalization], count: int) -> Normalization | None:
        """A normalization with which layers are clearly nearer to their distributions in training."""
        gains: dict[Normalization, float] = {}
        for samples, thresholds in ((min(FIRST_SAMPLES, count), LEANING), (count, RANGE_THRESHOLDS)):
            given = self._statistics(None, samples)
            gains = {other: self._gain(given, self._statistics(other, samples), thresholds) for other in wanted}
            if not any(gains.values()):
                return None
        return max(gains, key=gains.__getitem__)

    def _best_range(self, wanted: Sequence[Normalization], count: int) -> Normalization | None:
        """The same by the first bias, where no distribution is known."""
        bias = self._probe.bias
        if bias is None:
            return None
        own = abs(bias_ratio(self._ranges(self._feeds[:count]), bias))
        measured = [(n, self._ranges(self._varied(n, swapped=False, feeds=self._feeds[:count]))) for n in wanted]
        nearest = min(((abs(bias_ratio(other, bias)), i) for i, (_, other) in enumerate(measured)), default=(own, 0))
        return measured[nearest[1]][0] if own > FAR_BIAS and own - nearest[0] > NEARER_BIAS else None

    def _gain(self, given: Statistics, other: Statistics, thresholds: PreferenceThresholds) -> float:
        """Mean log ratio by which the other variant is nearer to training, 0 if that is not certain."""
        noise = thresholds.noise / len(given.means[0])
        mine, theirs = distances(given, self._probe.known), distances(other, self._probe.known)
        gain = float(np.log((mine + noise) / (theirs + noise)).mean())
        return gain if gain > thresholds.gain and (mine > theirs).mean() >= thresholds.agreeing else 0.0

    def _is_swapped(self, wanted: Normalization | None) -> bool:
        """Whether the samples fit the model clearly better with red and blue exchanged."""
        count = min(NORMED_SAMPLES if self._probe.known else LOOKED_AT, len(self._feeds), self._runs // 2)
        if count < FEW:
            return False
        if self._probe.known and not self._gain(*self._both_orders(wanted, FEW), LEANING) > 0.0:
            return False
        mine, theirs = self._both_orders(wanted, count)
        if self._probe.known:
            return self._gain(mine, theirs, CHANNEL_THRESHOLDS) > 0.0
        signals = mine.preferences(theirs)
        rest = self._feeds[count : min(MORE * count, LOOKED_AT)]
        if rest and certainty(signals) > UNSURE:
            mine, theirs = self._probe(rest), self._probe(self._varied(None, swapped=True, feeds=rest))
            signals = np.concatenate([signals, mine.preferences(theirs)], axis=1)
        return certainty(signals) > SURE

    def _both_orders(self, wanted: Normalization | None, count: int) -> tuple[Statistics, Statistics]:
        """The network's statistics for the first samples as they are, and with red and blue exchanged."""
        return self._statistics(wanted, count), self._statistics(wanted, count, swapped=True)

    def _range_finding(self, wanted: Normalization, *, is_swapped: bool) -> Finding:
        """``is_swapped``: the channels are to be exchanged as well, and so are the numbers of each then."""
        used, name = self._view.used, self._spec.name
        blue_first = self._preparation.order == ("RGB" if is_swapped else "BGR")
        keys = f"set {wanted.keys(self._channels or 3, blue_first=blue_first)}"
        if wanted.std == (1.0,):
            keys = "remove normalize_mean and normalize_std"
        fits = f"the model fits {wanted.name}"
        if not self._probe.known:
            larger = used.width > wanted.width
            fits = (
                f"they are far too {'large' if larger else 'small'} for its first layer, {wanted.name} would fit better"
            )
        text = f"input '{name}': the pictures are normalized as {used.name}, and {fits}; if so, {keys}"
        return Finding(Mistake.NORMALIZATION, name, text, wanted)

    def _channel_finding(self) -> Finding:
        order = self._preparation.order
        fix = f"set image_to_format={'RGB' if order == 'BGR' else 'BGR'}" if order else "exchange the channels"
        text = (
            f"input '{self._spec.name}': the model fits the pictures better with red and blue exchanged; if so, {fix}"
        )
        return Finding(Mistake.CHANNELS, self._spec.name, text)


def certainty(signals: Vector) -> float:
    """Standard errors by which the mean over samples of all signals, ``(signals, samples)``, is positive.

    Each signal is weighted by its own deviation. Few samples follow a t-distribution, which is mapped to the normal one.
    """
    deviations = signals.std(axis=1, ddof=1)
    certain = signals[deviations > 0] / deviations[deviations > 0, np.newaxis]
    total = certain.sum(axis=0)
    count = total.size
    error = float(total.std(ddof=1)) / sqrt(count)
    if error == 0.0:
        return 0.0
    t = float(total.mean()) / error
    return copysign(sqrt((count - 1) * log1p(t * t / (count - 1))), t)
