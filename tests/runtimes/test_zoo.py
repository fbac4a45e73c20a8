"""Networks that nobody here chose, from the command line, in the runtimes of the devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import SUCCESS, command, ini
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS
from tests.runtimes.paddle import Case, require, run_cases
from tests.runtimes.paddle_arm import ARM64, require_arm, run_on_arm
from tests.support import random_feed, shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

Array = NDArray[Any]
Feed = dict[str, Array]
Run = Callable[[Path, Feed, Path], "list[Array] | str"]

NETWORKS = ("fastestdet", "yunet_n_320", "gtcrn_simple", "person_yolo_nano")
WEIGHT = {"common_quant_param": {"quant_type": "WEIGHT_QUANT"}}
SETTINGS: dict[str, tuple[dict[str, dict[str, str]] | None, float]] = {
    "float": (None, 0.999999),
    "weights": (WEIGHT, 0.98),
}
"""Configuration and least cosine of an output: weights of 8 bits, without data."""

ROUNDING = 1e-4
"""Outputs without larger numbers are what onnxruntime's own approximations leave of zero."""


def in_mindspore_lite(name: str) -> Run:
    def run(path: Path, feed: Feed, folder: Path) -> list[Array] | str:
        platform = next(p for p in PLATFORMS if p.name == name)
        platform.skip_if_missing(shim=True)
        outcome = platform.run({"m": (path.read_bytes(), feed)}, folder, shim=True)["m"]
        return outcome.error or list(outcome.outputs.values())

    return run


def in_paddle_lite(path: Path, feed: Feed, folder: Path) -> list[Array] | str:
    require("2.12")
    outputs = len(ir.load(path.with_name("model.onnx")).graph.outputs)
    (found,) = run_cases("2.12", [Case(path.read_bytes(), list(feed.values()), outputs)], folder)
    return found


def on_arm(path: Path, feed: Feed, folder: Path) -> list[Array] | str:
    require_arm()
    return run_on_arm(path.read_bytes(), feed, folder)


RUNTIMES: dict[str, tuple[str, str, Run]] = {
    **{f"MindSpore Lite 2.0.0, {p.name}": ("MINDIR_LITE", "", in_mindspore_lite(p.name)) for p in PLATFORMS},
    "Paddle-Lite 2.12, x86": ("NAIVE_BUFFER", "x86", in_paddle_lite),
    ARM64: ("NAIVE_BUFFER", "arm", on_arm),
}


def cosine(a: Array, b: Array) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / max(np.sqrt((x @ x) * (y @ y)), 1e-30))


@pytest.mark.parametrize(
    "runtime", [pytest.param(name, marks=pytest.mark.slow if "arm" in name else ()) for name in RUNTIMES]
)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_gives_the_float_models_numbers(
    network: str, setting: str, runtime: str, tally: Tally, tmp_path: Path
) -> None:
    source = shared_model(f"zoo/{network}.onnx")
    (tmp_path / "model.onnx").write_bytes(source.read_bytes())
    config, least = SETTINGS[setting]
    save_type, target, run = RUNTIMES[runtime]
    flags = ["--fmk=ONNX", f"--modelFile={tmp_path / 'model.onnx'}", f"--outputFile={tmp_path / 'out'}"]
    flags += [f"--saveType={save_type}", *([f"--nbTarget={target}"] if target else [])]
    if config is not None:
        (tmp_path / "quant.cfg").write_text(ini(config), encoding="utf-8")
        flags.append(f"--configFile={tmp_path / 'quant.cfg'}")
    tally(runtime, "networks of others")
    outcome = command(*flags)
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    model = read_onnx(source)
    feed = random_feed(model, seed=5)
    wanted = DEFAULT_ENGINE.session(source, threads=1).run(feed)
    work = tmp_path / "run"
    work.mkdir()
    found = run(tmp_path / ("out.nb" if target else "out.ms"), feed, work)
    assert not isinstance(found, str), found
    pairs = [(name, got, array) for got, (name, array) in zip(found, wanted.items(), strict=True)]
    cosines = {name: cosine(got, array) for name, got, array in pairs if np.abs(array).max() > ROUNDING}
    assert {name: value for name, value in cosines.items() if not value >= least} == {}
