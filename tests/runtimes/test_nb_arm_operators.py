"""Operators and their attribute variants in the library for ARM64."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtimes.conftest import Tally
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.paddle_arm import ARM64, run_on_arm
from tests.runtimes.test_nb_operators import CASES, expected, mismatch, written

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("nb_arm")]

SIBLINGS = ("ReduceSum", "ReduceMin", "ReduceProd")
"""Operators that are written like ReduceMean and ReduceMax; their cases about axes are for ``make conformance``."""


def takes_part_always(case: NbCase) -> bool:
    return not (case.name.startswith(SIBLINGS) and " of " in case.name)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if takes_part_always(c) else pytest.mark.slow, id=c.name) for c in CASES],
)
def test_every_operator_gives_the_float_models_numbers_on_arm(case: NbCase, tally: Tally, tmp_path: Path) -> None:
    tally(ARM64, "operators, float")
    assert mismatch(run_on_arm(written(case, "arm"), case.feed, tmp_path), expected(case), case.tolerance) == ""
