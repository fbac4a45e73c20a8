"""Mixed precision: a width per layer, with fewer bits where the network's output is least sensitive.

Widths come either from the error that each weight may have, or from a search for the smallest file whose outputs keep a given
cosine. The search measures how much accuracy each weight costs when it alone is narrow, orders all possible steps by loss per
byte saved, and looks for the last step with which the whole quantized and corrected network still keeps the goal.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

import numpy as np
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import Samples
from converter_lite.log import Log
from converter_lite.quantization.bias_correction import FITTING_SAMPLES
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.settings import MixedBits
from converter_lite.quantization.storage import ONNX_STORAGE, Storage
from converter_lite.quantization.weight_uses import WeightUse, float_bytes, grid
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import stored_weights

SEARCH_SAMPLES = 48
"""Samples on which losses and cosines are measured."""

CLOSE_ENOUGH = 0.03
"""Steps that would save less than this share of the weights' bytes are not worth another network."""

DETOURS = 4
"""Networks tried to use up the margin that remains before the first step that costs too much."""

_NO_LOSS = 1e-12
"""Stands in for a loss of zero when losses are interpolated."""


@dataclass(frozen=True, slots=True)
class Step:
    """One weight gets narrower.

    Attributes:
        name: Initializer.
        bits: Its new width.
        loss: Loss of cosine, as measured for the weight alone.
        saved: Bytes that it saves.
    """

    name: str
    bits: int
    loss: float
    saved: int


def split(samples: Samples) -> tuple[Sequence[Feed], Sequence[Feed]]:
    """Samples to fit to and samples to judge by: what is fitted to 48 pictures looks far better on them than on others.

    A single sample serves both.
    """
    fitted = samples.head(FITTING_SAMPLES)
    others = list(islice(samples, len(fitted), len(fitted) + SEARCH_SAMPLES))
    if others and len(others) >= len(fitted) // 2:
        return fitted, others
    cut = max(2 * len(fitted) // 3, 1)
    if cut == len(fitted):
        return fitted, others or fitted
    return fitted[:cut], [*fitted[cut:], *others]


def relative_error(weight: NDArray[np.float32], dequantized: NDArray[np.float32]) -> float:
    """Mean over axis 0 of ``|w - dequantized| / |w|``; slices that are all zero count as exact.

    Source: the error that the original's mixed-bit search bounds (measured).
    """
    rows = weight.reshape(len(weight), -1).astype(np.float64)
    error = np.sqrt(np.sum((rows - dequantized.reshape(rows.shape)) ** 2, axis=1))
    norm = np.sqrt(np.sum(rows**2, axis=1))
    return float(np.mean(np.divide(error, norm, out=np.zeros_like(error), where=norm > 0)))


def widths_by_error(
    uses: Sequence[WeightUse], tolerance: float, *, per_channel: bool, storage: Storage = ONNX_STORAGE
) -> dict[str, int]:
    """Smallest width of each weight whose relative error is within ``tolerance``, the largest width where none is."""
    widths = {}
    for use in uses:
        array = use.array
        grids = ((bits, grid(use, bits, per_channel=per_channel, storage=storage)) for bits in storage.widths)
        fitting = (bits for bits, params in grids if relative_error(array, params.fake_quantize(array)) <= tolerance)
        widths[use.name] = next(fitting, storage.widths[-1])
    return widths


def interpolated(losses: Mapping[str, Mapping[int, float]], widths: Sequence[int]) -> dict[str, dict[int, float]]:
    """Losses of all ``widths``, interpolated between measured ones: each bit more divides the noise by a constant factor."""
    filled = {}
    for name, known in losses.items():
        logs = {bits: math.log(max(loss, _NO_LOSS)) for bits, loss in known.items()}
        filled[name] = {bits: known.get(bits, _between(logs, bits)) for bits in widths if bits <= max(known)}
    return filled


def _between(logs: Mapping[int, float], bits: int) -> float:
    below = max(known for known in logs if known <= bits)
    above = min(known for known in logs if known >= bits)
    share = (bits - below) / max(above - below, 1)
    return math.exp(logs[below] + share * (logs[above] - logs[below]))


def steps(
    uses: Sequence[WeightUse],
    losses: dict[str, dict[int, float]],
    *,
    per_channel: bool,
    storage: Storage = ONNX_STORAGE,
) -> list[Step]:
    """Every step to a smaller width, least loss per byte saved first; ties in graph order.

    Steps of one weight stay in order of width. Steps that save nothing are left out.

    Args:
        uses: Weights in graph order.
        losses: weight name -> bits -> loss; the largest width counts as exact where it is not listed.
        per_channel: Whether a weight has one scale per channel.
        storage: The kind of file.
    """

    def narrower(use: WeightUse, bits: int) -> Step | None:
        return _next_step(use, bits, losses, per_channel=per_channel, storage=storage)

    open_steps = {use.name: step for use in uses if (step := narrower(use, storage.widths[-1]))}
    by_name = {use.name: use for use in uses}
    ordered: list[Step] = []
    while open_steps:
        best = min(open_steps.values(), key=lambda step: step.loss / step.saved)
        ordered.append(best)
        following = narrower(by_name[best.name], best.bits)
        if following is None:
            del open_steps[best.name]
        else:
            open_steps[best.name] = following
    return ordered


def search(ordered: Sequence[Step], trials: Trials) -> dict[str, int]:
    """Widths of the smallest network found that reaches the goal; if none does, the largest widths.

    Losses of single weights add up to a forecast. Each network that is actually quantized corrects the forecast, so a few
    suffice, at most ``mixed.max_iterations``. Where the next step costs too much, later ones that still fit
    the forecast are taken instead.

    Args:
        ordered: Steps, best first.
        trials: What a network with given widths loses.
    """
    good, loss = _last_good(ordered, trials)
    if good < 0:
        trials.log.warning(
            f"no widths keep the output cosine at {trials.mixed.target_cosine:.15g}; the largest are used"
        )
        return trials.widths(())
    taken = list(ordered[:good])
    extra = _still_fitting(ordered, good, trials.budget - loss, loss, trials.choices)
    for _ in range(DETOURS):
        if trials.left == 0 or not trials.is_worth([*taken, *extra], instead_of=taken):
            break
        tried = [*taken, *extra]
        if trials.loss(tried) <= trials.budget:
            return trials.widths(tried)
        while extra and not trials.is_worth(tried, instead_of=[*taken, *extra]):
            extra.pop()
    return trials.widths(taken)


@dataclass(slots=True)
class Trials:
    """Networks quantized so far and what they lose.

    Attributes:
        mixed: Goal and bounds.
        cosine: Quantizes with the given width per weight and gives the output cosine with the float network: its mean less
            its standard error, so that the goal holds on other samples too.
        names: All weights.
        total_bytes: Bytes of all weights at the largest width.
        log: Receives one line per network.
        choices: Widths that the kind of file has, ascending.
        count: Networks so far.
    """

    mixed: MixedBits
    cosine: Callable[[dict[str, int]], float]
    names: Sequence[str]
    total_bytes: int
    log: Log
    choices: tuple[int, ...] = ONNX_STORAGE.widths
    count: int = 0

    @property
    def budget(self) -> float:
        """Loss that the goal allows."""
        return 1.0 - self.mixed.target_cosine

    @property
    def left(self) -> int:
        """Networks that may still be tried."""
        return self.mixed.max_iterations - self.count

    def widths(self, taken: Sequence[Step]) -> dict[str, int]:
        """Width of every weight after these steps."""
        return _widths(self.names, taken, self.choices[-1])

    def size(self, taken: Sequence[Step]) -> int:
        """Bytes of all weights after these steps."""
        return self.total_bytes - sum(step.saved for step in taken)

    def is_worth(self, taken: Sequence[Step], *, instead_of: Sequence[Step]) -> bool:
        """Whether a network is smaller by enough to be looked for where another one is known to reach the goal."""
        known = self.size(instead_of)
        return known - self.size(taken) >= max(CLOSE_ENOUGH * known, 1)

    def loss(self, taken: Sequence[Step]) -> float:
        """Loss of the network after these steps."""
        self.count += 1
        widths = self.widths(taken)
        loss = 1.0 - self.cosine(widths)
        self.log.info(
            f"  {_counts(widths)}: cosine less its standard error {1.0 - loss:.5f}, about {self.size(taken):,} bytes of weights"
        )
        return loss


def _last_good(ordered: Sequence[Step], trials: Trials) -> tuple[int, float]:
    """How many leading steps still reach the goal, and their loss; -1 if the goal is missed even without any."""
    forecast = [0.0, *accumulate(step.loss for step in ordered)]
    good, bad, good_loss = -1, len(ordered) + 1, 0.0
    k = bisect_right(forecast, trials.budget) - 1
    while trials.left > 0:
        loss = trials.loss(ordered[:k])
        if loss <= trials.budget:
            good, good_loss = k, loss
        else:
            bad = _larger(ordered, k, good, trials)
        if bad - good <= 1 or (good >= 0 and not trials.is_worth(ordered[: bad - 1], instead_of=ordered[:good])):
            break
        scale = loss / forecast[k] if forecast[k] > 0 else 0.0
        k = min(bisect_right(forecast, trials.budget / scale) if scale > 0 else bad, bad) - 1
        if trials.count % 3 == 0:
            k = (good + bad) // 2
        k = max(k, _smaller(ordered, good, bad, trials))
    return good, good_loss


def _smaller(ordered: Sequence[Step], good: int, bad: int, trials: Trials) -> int:
    """How many leading steps, of less than ``bad``, are worth a network where ``good`` of them reach the goal."""
    if good < 0:
        return 0
    return next(k for k in range(good + 1, bad) if trials.is_worth(ordered[:k], instead_of=ordered[:good]))


def _larger(ordered: Sequence[Step], k: int, good: int, trials: Trials) -> int:
    """How many leading steps cost too much where ``k`` of them do: networks of nearly the same size differ by their rounding."""
    bad = k
    while bad - 1 > max(good, 0) and not trials.is_worth(ordered[:k], instead_of=ordered[: bad - 1]):
        bad -= 1
    return bad


def _still_fitting(ordered: Sequence[Step], good: int, room: float, loss: float, widths: tuple[int, ...]) -> list[Step]:
    """Steps after the first one that costs too much whose forecast losses together fit into ``room``."""
    forecast = sum(step.loss for step in ordered[:good])
    scale = loss / forecast if forecast > 0 else 1.0
    width = _widths([step.name for step in ordered], ordered[:good], widths[-1])
    fitting: list[Step] = []
    for step in ordered[good + 1 :]:
        is_next = widths[widths.index(step.bits) + 1] == width[step.name]
        if is_next and step.loss * scale <= room:
            room -= step.loss * scale
            width[step.name] = step.bits
            fitting.append(step)
    return fitting


def report(quantized: QuantizedModel, log: Log) -> None:
    """One line with the number of weights per width; details for each layer."""
    weights, plan = quantized.plan.weights, quantized.plan
    log.info(f"bits per weight: {_counts({name: params.spec.bits for name, params in weights.items()})}")
    for node in quantized.model.graph:
        for weight in stored_weights(node) if plan.mode(node) is NodeMode.WEIGHT else ():
            if weight.name in weights:
                log.debug(f"  {g.label(node)}: {weights[weight.name].spec.bits} bits")


def bytes_at(uses: Sequence[WeightUse], bits: int, *, per_channel: bool, storage: Storage = ONNX_STORAGE) -> int:
    """Estimated bytes of all weights with one width, each at most its size in float."""
    return sum(_bytes(use, bits, per_channel=per_channel, storage=storage) for use in uses)


def _next_step(
    use: WeightUse, bits: int, losses: dict[str, dict[int, float]], *, per_channel: bool, storage: Storage
) -> Step | None:
    narrower = [width for width in storage.widths if width < bits]
    if not narrower:
        return None
    width, known = narrower[-1], losses[use.name]
    before, after = (_bytes(use, b, per_channel=per_channel, storage=storage) for b in (bits, width))
    if after >= before:
        return None
    return Step(use.name, width, max(known[width] - known.get(bits, 0.0), 0.0), before - after)


def _widths(names: Sequence[str], taken: Sequence[Step], largest: int) -> dict[str, int]:
    return {**dict.fromkeys(names, largest), **{step.name: step.bits for step in taken}}


def _counts(widths: dict[str, int]) -> str:
    counts = sorted(Counter(widths.values()).items())
    return ", ".join(f"{count} x {bits} bits" for bits, count in counts) or "none"


def _bytes(use: WeightUse, bits: int, *, per_channel: bool, storage: Storage) -> int:
    """At most its size in float."""
    return min(storage.nbytes(use.nodes[0], use.value, bits, per_channel=per_channel), float_bytes(use))
