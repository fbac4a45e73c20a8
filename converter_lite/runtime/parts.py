"""Parts of a graph that run one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that run together.

    Attributes:
        inputs: Values that it reads from elsewhere.
        outputs: Its values that later parts, or the user, read.
        dropped: Those of its inputs that nobody needs after it has run.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dropped: tuple[str, ...]


def parts(groups: Iterable[tuple[set[str], Sequence[str]]], outputs: Iterable[str]) -> list[Part]:
    """What runs of a graph's nodes read and compute for each other.

    Args:
        groups: For each run, all of them in order, the values that it reads, without constants, and those that it computes.
        outputs: Values that the user reads.
    """
    later = set(outputs)
    found: list[Part] = []
    for reads, makes in reversed(list(groups)):
        inputs = reads.difference(makes)
        made = tuple(name for name in makes if name in later)
        found.append(Part(tuple(sorted(inputs)), made, tuple(sorted(inputs - later))))
        later.difference_update(makes)
        later |= inputs
    return found[::-1]
