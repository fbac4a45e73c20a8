"""Settings crossed with models, and devices, written as ONNX and run in onnxruntime-web beside the exact result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workshop import Config, changed
from tests.runtimes.conftest import Tally
from tests.runtimes.onnx_settings import results
from tests.runtimes.ov_runtime import Case
from tests.runtimes.parts import cosine
from tests.runtimes.settings_networks import MODELS
from tests.runtimes.test_settings import FULL, SETTINGS, USUAL
from tests.runtimes.web_runtime import run_cases, skip_if_missing
from tests.support import build_proto

pytestmark = pytest.mark.runtime

SAME = 0.99998
"""Least cosine with the exact result: a sum that lies between two integers may fall to the other side (least found: 0.99999)."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    skip_if_missing()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", USUAL)
def test_a_setting_holds(model: str, setting: str, tally: Tally, folder: Path) -> None:
    judge(model, SETTINGS[setting].config, tally, folder)


@pytest.mark.parametrize("device", ["ARM", "DSP", "NVGPU"])
@pytest.mark.parametrize("model", MODELS)
def test_integers_for_other_devices_hold(model: str, device: str, tally: Tally, folder: Path) -> None:
    judge(model, changed(FULL, full_quant_param={"target_device": device}), tally, folder)


def judge(model: str, config: Config, tally: Tally, folder: Path) -> None:
    tally("onnxruntime-web 1.30", "settings of whole conversions")
    r = results(model, config, run_cases, folder)
    assert cosine(r.found, r.exact) >= SAME


def test_a_refusal_is_told(folder: Path) -> None:
    model = build_proto("g (float[2] x) => (float[3] y) { y = Identity(x) }")
    with pytest.raises(RuntimeError, match="onnxruntime-web"):
        run_cases([Case(model, [])], folder)
