"""Settings crossed with models, written as ONNX for the CPU and run in OpenVINO beside the exact result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtimes.conftest import Tally
from tests.runtimes.onnx_settings import results
from tests.runtimes.ov_runtime import run_cases, skip_if_missing
from tests.runtimes.parts import cosine
from tests.runtimes.settings_networks import MODELS
from tests.runtimes.test_settings import SETTINGS, USUAL

pytestmark = pytest.mark.runtime

LOST = 0.001
"""What the cosine with the float model may fall below that of the exact result: sums in another order move integers."""

NOT_LOADED = ("six bits", "widths found on drawn pictures")
"""Settings whose weights are stored in parts, one of two bits, a type that OpenVINO does not know."""

OTHERS = tuple(name for name in MODELS if name not in (*USUAL, "sound", "long frames"))
"""Models for the settings that differ most. OpenVINO does not load the STFT of the other two, from the float model neither."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    skip_if_missing()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in NOT_LOADED])
@pytest.mark.parametrize("model", USUAL)
def test_a_setting_holds(model: str, setting: str, tally: Tally, folder: Path) -> None:
    judge(model, setting, tally, folder)


@pytest.mark.parametrize("setting", ["full", "KL", "full, nothing rewritten", "weights", "four bits with data"])
@pytest.mark.parametrize("model", OTHERS)
def test_a_setting_holds_for_rarer_layers(model: str, setting: str, tally: Tally, folder: Path) -> None:
    judge(model, setting, tally, folder)


def judge(model: str, setting: str, tally: Tally, folder: Path) -> None:
    tally("OpenVINO", "settings of whole conversions")
    r = results(model, SETTINGS[setting].config, run_cases, folder)
    assert cosine(r.found, r.wanted) >= cosine(r.exact, r.wanted) - LOST
