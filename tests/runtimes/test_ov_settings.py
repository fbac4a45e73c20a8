"""Settings crossed with models, written as ONNX for the CPU and run in OpenVINO beside the exact result."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.cli.workshop import SUCCESS, command, ini, write_bins
from tests.runtimes.conftest import Tally
from tests.runtimes.ov_runtime import Case, run_cases, skip_if_missing
from tests.runtimes.parts import cosine, run_exactly
from tests.runtimes.test_settings import FLAGS, MODELS, SETTINGS, USUAL
from tests.support import build_proto, normal

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
    graph, opset, shape, constants = MODELS[model]
    plain, feed = build_proto(graph, opset=opset, **constants), {"x": normal(*shape, seed=77)}
    onnx.save(plain, "model.onnx")
    write_bins(folder / "bins", 16, shape if len(shape) < 4 else (1, *shape[2:], shape[1]))
    Path("quant.cfg").write_text(ini(SETTINGS[setting].config), encoding="utf-8")
    outcome = command(*FLAGS, "--saveType=ONNX")
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    tally("OpenVINO", "settings of whole conversions")
    written = onnx.load("out.onnx")
    ((found,),) = run_cases([Case(written, [feed])], folder)
    wanted = run_exactly(plain, feed)["y"]
    assert cosine(found["y"], wanted) >= cosine(run_exactly(written, feed)["y"], wanted) - LOST
