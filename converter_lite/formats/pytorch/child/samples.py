"""Inputs to try a network with whose file says nothing about their types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch


def first_that_runs(
    call: Callable[[list[Any]], Any], shapes: Mapping[str, Sequence[int]], weights: Iterable[Any]
) -> tuple[list[Any], list[str]]:
    """Inputs with which a network runs: floats, or where it needs integers (indices), those; and what to say about them.

    Args:
        call: Runs it with an input for each name.
        shapes: Of the inputs.
        weights: Its parameters; inputs are floats of their type.

    Raises:
        RuntimeError: It does not run with any; the first reason is given.
    """
    names = list(shapes)
    real = next((weight.dtype for weight in weights if weight.dtype.is_floating_point), torch.float32)
    choices = [chosen for count in range(len(names) + 1) for chosen in combinations(names, count)][:64]
    first: Exception | None = None
    for integers in choices:
        values = [sample(shapes[name], torch.int64 if name in integers else real) for name in names]
        try:
            with torch.no_grad():
                call(values)
        except Exception as error:  # noqa: BLE001 - whatever the network does not like
            first = first or error
            continue
        return values, [
            f"input '{name}' is taken as int64: the network does not run with floats there" for name in integers
        ]
    assert first is not None
    raise first


def sample(shape: Sequence[int], kind: torch.dtype) -> Any:
    """Repeatable numbers, zeros for integers."""
    if not kind.is_floating_point:
        return torch.zeros(list(shape), dtype=kind)
    return torch.randn(list(shape), generator=torch.Generator().manual_seed(0)).to(kind)
