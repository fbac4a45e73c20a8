"""Every operator and attribute variant of a ``.nb`` file, in the released x86 runtimes and through our own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.formats.paddle.exporter.build import NbOptions, build, check
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, RELEASES, exists
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.formats.paddle.writing import write
from tests.runtimes.conftest import Tally
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.nb_cases_layers import layers
from tests.runtimes.nb_cases_tensors import repetitions, tensors
from tests.runtimes.paddle import RELEASES as ENVIRONMENTS
from tests.runtimes.paddle import Case, require, run_cases
from tests.support import exact_session

CASES = [*layers().made, *tensors().made, *repetitions().made]


def expected(case: NbCase) -> list[NDArray[Any]]:
    """Outputs of the float model."""
    return run(case.model, case.feed)


def run(model: ir.Model, feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    return list(exact_session(model, optimize=True).run(feed).values())


def written(case: NbCase, target: str = "") -> bytes:
    target = target or ("x86" if case.releases else "arm")
    return write(QuantizedModel(case.model, QuantPlan(target)), options=NbOptions(target))


def mismatch(given: list[NDArray[Any]] | str, wanted: list[NDArray[Any]], tolerance: float) -> str:
    """What differs, or nothing. A tensor without dimensions is one with one dimension there."""
    if isinstance(given, str):
        return given
    for got, want in zip(given, wanted, strict=True):
        if got.shape != (want.shape or (1,)):
            return f"shape {got.shape}, not {want.shape}"
        error = np.abs(got.reshape(want.shape).astype(np.float64) - want).max()
        if not error <= tolerance * max(np.abs(want).max(), 1e-9):
            return f"error {error}"
    return ""


def test_there_are_more_than_150_cases_with_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 150


@pytest.mark.runtime
@pytest.mark.parametrize("release", ENVIRONMENTS)
def test_every_operator_gives_the_float_models_numbers_in_the_runtime(
    release: str, tally: Tally, tmp_path: Path
) -> None:
    require(release)
    chosen = [case for case in CASES if release in case.releases]
    wanted = [expected(case) for case in chosen]
    files = [Case(written(c), list(c.feed.values()), len(w)) for c, w in zip(chosen, wanted, strict=True)]
    results = run_cases(release, files, tmp_path)
    wrong = {
        case.name: problem
        for case, got, want in zip(chosen, results, wanted, strict=True)
        if (problem := mismatch(got, want, case.tolerance))
    }
    tally(f"Paddle-Lite {release}, x86", "operators, float", tried=len(chosen), wrong=len(wrong))
    assert wrong == {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_written_file_reads_back_as_the_same_function(case: NbCase) -> None:
    rebuilt = read(written(case))
    results = [r.reshape(r.shape or (1,)) for r in run(rebuilt.model, case.feed)]
    assert mismatch(results, expected(case), case.tolerance) == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_arm_file_asks_only_for_kernels_that_release_2_12_has(case: NbCase) -> None:
    file = build(QuantizedModel(case.model, QuantPlan("arm")), options=NbOptions("arm"))
    mark = next(mark for mark, release in RELEASES.items() if release == "2.12")
    keys = [(op.type, str(op.get(KERNEL_ATTRIBUTE))) for op in file.program.main.operators]
    assert [key for kind, key in keys if not exists(kind, key, mark)] == []


@pytest.mark.parametrize("case", [case for case in CASES if not case.releases], ids=lambda case: case.name)
def test_what_x86_files_cannot_hold_is_refused(case: NbCase) -> None:
    assert [problem.operator for problem in check(case.model, "x86")] == [case.name.split()[0]]


@pytest.mark.parametrize("case", CASES[::10], ids=lambda case: case.name)
def test_writing_twice_gives_the_same_bytes(case: NbCase) -> None:
    assert written(case) == written(case)
