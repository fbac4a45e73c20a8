"""Sensitivity-based fallback to float: the nodes that cost the most accuracy stay float until the outputs reach a goal.

Nodes are ranked by two measurements: what the network loses when one node alone is quantized, and what it gains when one node
alone is left in float. Both edit the plan of one quantized network, so each costs one session. The best nodes for their price
(few nodes, few multiplications) are then left out of real quantizations: twice as many each time until the goal holds, then
halving the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.log import Log
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.score import RARE, Score
from converter_lite.quantization.settings import Goal
from converter_lite.targets.operands import operator, stored_weight
from converter_lite.targets.operators import Role

NODE_PRICE = 1.0
"""Price of one more float node, in multiples of an average node's share of the work: its borders cost conversions."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One quantization with some nodes left in float.

    Attributes:
        skip: Names of the nodes.
        quantized: Result.
        score: Its accuracy.
    """

    skip: tuple[str, ...]
    quantized: QuantizedModel
    score: Score


Quantize = Callable[[frozenset[str]], QuantizedModel]
"""Quantizes with these nodes left in float."""


def candidates(quantized: QuantizedModel) -> list[str]:
    """Nodes that can fall back to float individually, in graph order.

    Relu and Clip follow the node before them; operators that only move values lose no accuracy of their own.
    """
    names = []
    for node in g.all_nodes(quantized.model.graph):
        entry = operator(node)
        is_follower = entry is not None and entry.role in (Role.CLAMP, Role.SAME) and stored_weight(node) is None
        if quantized.plan.mode(node) is not NodeMode.FLOAT and not is_follower:
            names.append(node.name or "")
    return names


def sensitivities(
    names: Sequence[str],
    *,
    alone: Callable[[str], Score],
    without: Callable[[str], Score],
    everything: Score,
    log: Log,
) -> dict[str, float]:
    """Share of the output's error that is due to each node, mean of both measurements.

    Args:
        names: Nodes.
        alone: Score of the network in which this node alone is quantized.
        without: Score of the network in which everything but this node is quantized.
        everything: Score of the fully quantized network.
        log: Receives progress and details.
    """
    total = max(everything.noise, 1e-30)
    shares: dict[str, float] = {}
    for name in log.track(names, "measuring layers", len(names)):
        own, rest = alone(name).noise / total, 1.0 - without(name).noise / total
        shares[name] = (min(own, 1.0) + max(rest, 0.0)) / 2 if math.isfinite(own) else 1.0
        log.debug(f"  {name}: alone {own:.3f}, left out {rest:.3f} of the error")
    return shares


def prices(model: ir.Model, names: Iterable[str]) -> dict[str, float]:
    """What leaving each node out costs: one for the node, and its multiplications in multiples of the average node's."""
    nodes = {node.name or "": node for node in g.all_nodes(model.graph)}
    work = {name: multiplications(nodes[name]) for name in names}
    mean = max(sum(work.values()) / max(len(work), 1), 1.0)
    return {name: NODE_PRICE + amount / mean for name, amount in work.items()}


def ranked(shares: Mapping[str, float], price: Mapping[str, float]) -> list[str]:
    """Nodes with any share of the error, most share per price first; ties in graph order."""
    helpful = [name for name, share in shares.items() if share > 0.0]
    return sorted(helpful, key=lambda name: -shares[name] / price[name])


def fall_back(
    first: Trial,
    order: Sequence[str],
    goal: Goal,
    *,
    quantize: Quantize,
    score: Callable[[QuantizedModel], Score],
    log: Log,
) -> Trial:
    """The trial with the fewest nodes left out that reaches the goal; if none does, the most accurate one.

    Args:
        first: The network with nothing left out.
        order: Nodes to leave out, best first.
        goal: What to reach.
        quantize: Makes the trials.
        score: Judges them.
        log: Receives the table.
    """

    def tried(count: int, missed: int) -> Trial:
        skip = tuple(order[:count])
        quantized = quantize(frozenset(skip))
        trial = Trial(skip, quantized, score(quantized))
        _row(log, trial, order[missed:count])
        return trial

    limit = min(len(order), goal.max_nodes or len(order))
    log.info(f"the outputs miss {goal}; leaving nodes out:")
    log.info(f"  {'left out':>8} {'cosine':>9} {'max error':>10} {f'1 in {RARE}':>10}  nodes")
    _row(log, first, ())
    best, missed, k = first, 0, 1
    while missed < limit and k > missed:
        k = min(k, limit)
        trial = tried(k, missed)
        if goal.shortfall(trial.score) < goal.shortfall(best.score):
            best = trial
        if goal.shortfall(trial.score) <= 1.0:
            return _fewest(trial, missed, goal, tried)
        missed, k = k, 2 * k
    return best


def _fewest(reached: Trial, missed: int, goal: Goal, tried: Callable[[int, int], Trial]) -> Trial:
    """Halve the interval between a number of nodes that misses the goal and one that reaches it."""
    while len(reached.skip) - missed > 1:
        middle = (missed + len(reached.skip)) // 2
        trial = tried(middle, missed)
        if goal.shortfall(trial.score) <= 1.0:
            reached = trial
        else:
            missed = middle
    return reached


def _row(log: Log, trial: Trial, added: Sequence[str]) -> None:
    shown = ", ".join(added[:4]) + (f", ... {len(added) - 4} more" if len(added) > 4 else "")
    score = trial.score
    figures = f"{len(trial.skip):>8} {score.cosine:9.6f} {score.error:10.4g} {score.rare_error:10.4g}"
    log.info(f"  {figures}  {'+ ' + shown if added else ''}".rstrip())
