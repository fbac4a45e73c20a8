"""Random sizes and attributes of operators with windows, in the library for ARM64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtimes.nb_cases import Cases, NbCase
from tests.runtimes.paddle_arm import run_on_arm
from tests.runtimes.test_nb_operators import expected, mismatch, written

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("nb_arm")]

SEED = 20


def sides(random: np.random.Generator, low: int, high: int, *, alike: float = 0.5) -> list[int]:
    """Two numbers from a range, often the same."""
    first, second = (int(number) for number in random.integers(low, high, 2))
    return [first, first if random.random() < alike else second]


def paddings(random: np.random.Generator, kernel: list[int]) -> list[int]:
    """None, the same everywhere, or each for itself; smaller than the window."""
    kind, most = random.random(), min(kernel)
    if kind < 0.3:
        return [0] * 4
    if kind < 0.6:
        return [int(random.integers(0, most))] * 4
    return [int(random.integers(0, kernel[side % 2])) for side in range(4)]


def poolings(count: int) -> list[NbCase]:
    random, cases = np.random.default_rng(SEED), Cases()
    for number in range(count):
        kind, kernel = str(random.choice(["MaxPool", "AveragePool"])), sides(random, 1, 5)
        given: dict[str, Any] = {
            "kernel_shape": kernel,
            "strides": sides(random, 1, 4),
            "pads": paddings(random, kernel),
        }
        given["ceil_mode"] = int(random.random() < 0.4)
        if kind == "AveragePool":
            given["count_include_pad"] = int(random.random() < 0.5)
        height, width = sides(random, 5, 24)
        cases.add(
            f"{number} {kind} {height}x{width} {given}", kind, (int(random.integers(1, 3)), 3, height, width), **given
        )
    return cases.made


@pytest.mark.parametrize("case", poolings(40), ids=lambda case: case.name)
def test_operators_of_any_shape_give_the_float_models_numbers_on_arm(case: NbCase, tmp_path: Path) -> None:
    assert mismatch(run_on_arm(written(case, "arm"), case.feed, tmp_path), expected(case), case.tolerance) == ""
