"""Layer-wise sensitivity: what the network loses if one layer alone is quantized, and gains if one alone is not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from converter_lite import graph as g
from converter_lite.quantization import fallback
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.quantizer import Quantizer, leaving_out, skip_line
from converter_lite.quantization.score import Score, Scorer
from converter_lite.quantization.settings import Goal
from converter_lite.reports.csv_rows import name_field, number_field
from converter_lite.runtime.engine import Feed

CSV_COLUMNS = (
    "Rank,Node,Operator,AloneCosine,AloneSqnrDb,AloneMaxError,"
    "WithoutCosine,WithoutSqnrDb,WithoutMaxError,Share,Multiplications"
)


@dataclass(frozen=True, slots=True)
class LayerSensitivity:
    """One layer.

    Attributes:
        name: Node.
        op_type: Its operator.
        alone: Score of the network in which this layer alone is quantized.
        without: Score of the network in which everything but this layer is quantized.
        share: Share of the output's error that is due to the layer, mean of both measurements.
        work: Its multiplications, share of the whole network's.
    """

    name: str
    op_type: str
    alone: Score
    without: Score
    share: float
    work: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The analysis of one network.

    Attributes:
        layers: In graph order.
        ranking: Layer names, most error for their price first; layers without any share are left out.
        everything: Score of the fully quantized network without bias correction, as the layers are measured.
        quantized: Score of the fully quantized network with bias correction.
        samples: Samples on which layers are measured.
        reached: Score with ``skip`` left out; ``None`` where no goal was set.
        skip: Layers left out for the goal.
        line: The configuration line for ``skip``, empty if nothing has to be left out.
        is_reached: Whether the goal holds.
    """

    layers: tuple[LayerSensitivity, ...]
    ranking: tuple[str, ...]
    everything: Score
    quantized: Score
    samples: int
    reached: Score | None = None
    skip: tuple[str, ...] = ()
    line: str = ""
    is_reached: bool = True

    @property
    def ranked(self) -> list[LayerSensitivity]:
        """All layers, the ranked ones first, the others by their share."""
        place = {name: index for index, name in enumerate(self.ranking)}
        return sorted(self.layers, key=lambda layer: (place.get(layer.name, len(place)), -layer.share))


def analyse(
    quantizer: Quantizer, *, judges: Sequence[Feed], samples: int, goal: Goal | None
) -> tuple[Sensitivity, QuantizedModel]:
    """Measure every layer, and find what to leave out for a goal.

    Args:
        quantizer: The network and how it is quantized.
        judges: Samples on which whole networks are judged; one at least.
        samples: How many of them measure single layers.
        goal: Wanted accuracy, ``None`` only measures.

    Returns:
        The measurements, and the network quantized so that the goal holds (or as near as was found).

    Raises:
        ConverterError: The network cannot be quantized.
    """
    first = quantizer.quantize(quantizer.choice)
    scorer = Scorer(quantizer.model, judges, quantizer.resources.context)
    start = fallback.Trial((), first, scorer(qdq_model(first)))
    result = _measured(quantizer, start, judges[:samples])
    if goal is None:
        return result, first
    best = _best(quantizer, start, result.ranking, goal, scorer)
    return _with_goal(result, quantizer, best, goal), best.quantized


def _measured(quantizer: Quantizer, start: fallback.Trial, feeds: Sequence[Feed]) -> Sensitivity:
    """Every layer alone, and all but it."""
    first = start.quantized
    names = fallback.candidates(first)
    measurement = quantizer.measure(first, feeds)
    everything = measurement.left_out(frozenset())
    alone: dict[str, Score] = {}
    without: dict[str, Score] = {}

    def measured_alone(name: str) -> Score:
        alone[name] = measurement.alone(name)
        return alone[name]

    def measured_without(name: str) -> Score:
        without[name] = measurement.left_out(frozenset({name}))
        return without[name]

    shares = fallback.sensitivities(
        names,
        alone=measured_alone,
        without=measured_without,
        everything=everything,
        log=quantizer.resources.context.log,
    )
    prices = fallback.prices(first.model, names)
    work = {name: price - fallback.NODE_PRICE for name, price in prices.items()}
    total = sum(work.values()) or 1.0
    operators = {node.name or "": node.op_type for node in g.all_nodes(first.model.graph)}
    layers = (LayerSensitivity(n, operators[n], alone[n], without[n], shares[n], work[n] / total) for n in names)
    return Sensitivity(tuple(layers), tuple(fallback.ranked(shares, prices)), everything, start.score, len(feeds))


def _best(
    quantizer: Quantizer, start: fallback.Trial, ranking: Sequence[str], goal: Goal, scorer: Scorer
) -> fallback.Trial:
    if goal.shortfall(start.score) <= 1.0:
        return start
    return fallback.fall_back(
        start,
        ranking,
        goal,
        quantize=lambda skip: quantizer.quantize(leaving_out(quantizer.choice, skip)),
        score=lambda quantized: scorer(qdq_model(quantized)),
        log=quantizer.resources.context.log,
    )


def _with_goal(result: Sensitivity, quantizer: Quantizer, best: fallback.Trial, goal: Goal) -> Sensitivity:
    return replace(
        result,
        reached=best.score,
        skip=best.skip,
        line=skip_line(quantizer.choice, best.skip) if best.skip else "",
        is_reached=goal.shortfall(best.score) <= 1.0,
    )


def decibels(score: Score) -> float:
    """Signal-to-noise ratio of a score; infinite if nothing differs."""
    if score.noise <= 0.0:
        return math.inf
    return -10.0 * math.log10(score.noise) if math.isfinite(score.noise) else -math.inf


def table(result: Sensitivity, *, shown: int) -> Iterator[Sequence[str]]:
    """Rows of the table, the head first."""
    yield ("rank", "layer", "operator", "share", "alone: cosine", "SQNR dB", "all but it: cosine", "SQNR dB", "work")
    for rank, layer in enumerate(result.ranked[:shown], 1):
        cells = (f"{layer.alone.cosine:.6f}", f"{decibels(layer.alone):.1f}")
        rest = (f"{layer.without.cosine:.6f}", f"{decibels(layer.without):.1f}")
        yield (str(rank), layer.name, layer.op_type, f"{layer.share:.1%}", *cells, *rest, f"{layer.work:.1%}")


def csv_text(result: Sensitivity) -> str:
    """All layers, ranked."""
    lines = [CSV_COLUMNS]
    for rank, layer in enumerate(result.ranked, 1):
        numbers = [
            value for score in (layer.alone, layer.without) for value in (score.cosine, decibels(score), score.error)
        ]
        texts = map(number_field, (*numbers, layer.share, layer.work))
        lines.append(",".join((str(rank), name_field(layer.name), name_field(layer.op_type), *texts)))
    return "\n".join(lines) + "\n"


def to_json(result: Sensitivity) -> dict[str, Any]:
    """Plain data; numbers that JSON lacks are ``null``."""
    return {
        "samples": result.samples,
        "everything": _numbers(result.everything),
        "quantized": _numbers(result.quantized),
        "reached": None if result.reached is None else _numbers(result.reached),
        "is_reached": result.is_reached,
        "skip": list(result.skip),
        "skip_quant_node": result.line,
        "ranking": list(result.ranking),
        "layers": [
            {
                "name": layer.name,
                "operator": layer.op_type,
                "alone": _numbers(layer.alone),
                "without": _numbers(layer.without),
                "share": layer.share,
                "work": layer.work,
            }
            for layer in result.layers
        ],
    }


def _numbers(score: Score) -> dict[str, float | None]:
    values = {**asdict(score), "sqnr": decibels(score)}
    return {name: value if math.isfinite(value) else None for name, value in values.items() if name != "noises"}
