"""Networks and operators that PyTorch exported in 2017 and 2018, in the released runtimes, beside the recorded numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.graph import FLOAT_MAX
from tests.onnx_nodes import problem
from tests.onnx_records import RECORDS, record
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS, Platform
from tests.runtimes.paddle import require, run_cases
from tests.runtimes.paddle_arm import ARM64, run_on_arm
from tests.runtimes.test_onnx_nodes import for_paddle, written, wrong_results

pytestmark = pytest.mark.runtime

CASES = [
    case
    for case in map(record, RECORDS)
    if all(array.dtype != np.float64 or np.abs(array).max() <= FLOAT_MAX for array in case.feed.values())
]
"""Devices compute with float32, and four records hold larger numbers."""

NAMES = {case.name for case in CASES}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_first_exports_in_mindspore_lite(platform: Platform, tally: Tally, tmp_path: Path) -> None:
    platform.skip_if_missing()
    files = {case.name: made for case in CASES if (made := written(case, MsFormat(), tmp_path)) is not None}
    feeds = {case.name: case.feed for case in CASES}
    work = tmp_path / "run"
    work.mkdir()
    found = platform.run({name: (data, feeds[name]) for name, (data, _) in files.items()}, work)
    wrong = {}
    for case in (case for case in CASES if case.name in files):
        outcome = found[case.name]
        texts = [outcome.error] if outcome.error else [problem(outcome.outputs[n], a) for n, a in case.results.items()]
        if any(texts):
            wrong[case.name] = next(filter(None, texts))
    counts = {"tried": len(CASES), "refused": len(CASES) - len(files), "wrong": len(wrong)}
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "first exports of PyTorch", **counts)
    assert not wrong
    assert files.keys() == NAMES


@pytest.mark.parametrize("release", ["2.12", "2.13rc0"])
def test_first_exports_in_paddle_lite(release: str, tally: Tally, tmp_path: Path) -> None:
    require(release)
    files = for_paddle(CASES, "x86", tmp_path)
    work = tmp_path / "run"
    work.mkdir()
    found = dict(zip(files, run_cases(release, list(files.values()), work), strict=True))
    wrong = wrong_results(CASES, found)
    counts = {"tried": len(CASES), "refused": len(CASES) - len(files), "wrong": len(wrong)}
    tally(f"Paddle-Lite {release}, x86", "first exports of PyTorch", **counts)
    assert not wrong
    assert files.keys() == NAMES


@pytest.mark.usefixtures("nb_arm")
def test_first_exports_in_paddle_lite_on_arm(tally: Tally, tmp_path: Path) -> None:
    files = for_paddle(CASES, "arm", tmp_path)
    found = {name: run_on_arm(case.data, case.inputs, tmp_path / name) for name, case in files.items()}
    wrong = wrong_results(CASES, found)
    counts = {"tried": len(CASES), "refused": len(CASES) - len(files), "wrong": len(wrong)}
    tally(ARM64, "first exports of PyTorch", **counts)
    assert not wrong
    assert files.keys() == NAMES
