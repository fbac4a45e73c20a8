"""Settings crossed with formats: what the command writes for each, run in the runtimes that read the format.

The result is held against the float model, and against what the converter itself says that the file computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.format import NbFormat
from tests.cli.workshop import SUCCESS, Config, changed, command, ini, write_bins
from tests.runtimes.conftest import Tally
from tests.runtimes.device_files import RUNTIMES
from tests.runtimes.settings_networks import MODELS
from tests.support import build_proto, normal, run

pytestmark = pytest.mark.runtime

Array = NDArray[Any]


USUAL = ("pictures", "tokens")
FULL = {
    "common_quant_param": {"quant_type": "FULL_QUANT"},
    "data_preprocess_param": {"calibrate_path": "x:bins", "calibrate_size": "16", "input_type": "BIN"},
}
DYNAMIC = {"common_quant_param": {"quant_type": "DYNAMIC_QUANT"}}
WEIGHT = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "min_quant_weight_channel": "0"}}


def with_data(config: Config) -> Config:
    return changed(config, data_preprocess_param=FULL["data_preprocess_param"])


def bits(number: int) -> Config:
    return changed(WEIGHT, common_quant_param={"bit_num": str(number)})


def dynamic(**keys: str) -> Config:
    return changed(DYNAMIC, dynamic_quant_param=keys)


def full(**keys: str) -> Config:
    return changed(FULL, full_quant_param=keys)


@dataclass(frozen=True)
class Setting:
    """A configuration, the least cosine with the float model, and what Paddle-Lite's format cannot hold of it."""

    config: Config
    least: float
    refused_by_paddle: str = ""


FLAGS = ("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--configFile=quant.cfg")

SAME = 0.9999
"""Cosine with what the converter says: integers that are almost halves may be rounded the other way in the runtime."""

NO_DYNAMIC = "has no dynamic quantization"
WIDTHS = "a .nb file stores weights with 8 or 16 bits"
SETTINGS: dict[str, Setting] = {
    "full": Setting(FULL, 0.997),
    "one step per weight": Setting(full(per_channel="false"), 0.997),
    "one step per weight, nearest": Setting(full(per_channel="false", rounding="NEAREST"), 0.997),
    "adaptive": Setting(full(rounding="ADAPTIVE"), 0.997),
    "no equalization, no correction": Setting(full(equalization="false", bias_correction="false"), 0.997),
    "KL": Setting(full(activation_quant_method="KL"), 0.997),
    "REMOVAL_OUTLIER": Setting(full(activation_quant_method="REMOVAL_OUTLIER"), 0.997),
    "a layer in float": Setting(changed(FULL, common_quant_param={"skip_quant_node": "last"}), 0.999),
    "target_error": Setting(changed(FULL, common_quant_param={"target_error": "0.11"}), 0.998),
    "weights": Setting(WEIGHT, 0.9999),
    "weights, one step": Setting(changed(WEIGHT, weight_quant_param={"per_channel": "false"}), 0.999),
    "six bits": Setting(bits(6), 0.999, WIDTHS),
    "four bits with data": Setting(with_data(bits(4)), 0.999, WIDTHS),
    "sixteen bits": Setting(bits(16), 0.99999999),
    "full, nothing rewritten": Setting(changed(FULL, registry={"disable_fusion": "on"}), 0.99),
    "weights, nothing rewritten": Setting(changed(WEIGHT, registry={"disable_fusion": "on"}), 0.9999),
    "full, some rules left out": Setting(
        changed(FULL, registry={"fusion_blacklists": "recognize_relu,fuse_gemm,fold_scale_shift"}), 0.99
    ),
    "widths found on drawn pictures": Setting(
        changed(bits(0), mixed_bit_weight_quant_param={"auto_tune": "true", "use_cv_data": "true"}), 0.99, WIDTHS
    ),
    "dynamic": Setting(DYNAMIC, 0.9999, NO_DYNAMIC),
    "dynamic with data": Setting(with_data(DYNAMIC), 0.9999, NO_DYNAMIC),
    "dynamic, ACWL": Setting(dynamic(quant_strategy="ACWL"), 0.9995, NO_DYNAMIC),
    "dynamic, ACWL with data": Setting(with_data(dynamic(quant_strategy="ACWL")), 0.9995, NO_DYNAMIC),
    "dynamic, not smoothed": Setting(dynamic(smoothing="false"), 0.9995, NO_DYNAMIC),
}


STORES_ONLY = "Paddle-Lite 2.12, x86"
"""A runtime that stores integers and computes in float."""


def cosine(a: Array, b: Array) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def outputs(model: bytes | Path, x: Array) -> Array:
    return run(model, {"x": x})["y"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, and where the runtimes' files are put."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", USUAL)
def test_a_setting_holds_in_the_runtime(model: str, setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge(model, setting, runtime, tally, folder)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "adaptive", "KL", "full, nothing rewritten"])
def test_columns_apart_hold_in_the_runtime(setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge("spikes", setting, runtime, tally, folder)
    assert (said(runtime, "columns apart") > 0) is (runtime != STORES_ONLY)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "KL", "full, nothing rewritten", "weights", "four bits with data"])
def test_computed_filters_hold_in_the_runtime(setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge("filters", setting, runtime, tally, folder)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "KL", "adaptive", "full, nothing rewritten"])
def test_uneven_channels_hold_in_the_runtime(setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge("uneven", setting, runtime, tally, folder)
    if setting != "full, nothing rewritten":
        assert said(runtime, "factors with alpha") == (0 if runtime == STORES_ONLY else 3)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "KL", "full, nothing rewritten", "weights", "six bits"])
def test_repeated_constants_and_elements_hold_in_the_runtime(
    setting: str, runtime: str, tally: Tally, folder: Path
) -> None:
    judge("padded", setting, runtime, tally, folder)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "full, nothing rewritten", "weights", "sixteen bits", "dynamic"])
def test_short_columns_hold_in_the_runtime(setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge("experts", setting, runtime, tally, folder)
    if setting != "sixteen bits" and (written := next(folder.glob("out.*"), None)) is not None:
        assert written.stat().st_size < 0.7 * (folder / "model.onnx").stat().st_size


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "weights"])
def test_integers_that_are_moved_hold_in_the_runtime(setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge("moved", setting, runtime, tally, folder)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("setting", ["full", "weights", "dynamic"])
@pytest.mark.parametrize("model", USUAL)
def test_a_float16_model_is_quantized_as_well(
    model: str, setting: str, runtime: str, tally: Tally, folder: Path
) -> None:
    judge(model, setting, runtime, tally, folder, dtype="float16")


def said(runtime: str, words: str) -> int:
    """How often the command for the last model says something."""
    save_type, processor, _ = RUNTIMES[runtime]
    flags = [f"--saveType={save_type}", *([f"--nbTarget={processor}"] if processor else []), "-v"]
    return command(*FLAGS, *flags).out.count(words)


def judge(model: str, setting: str, runtime: str, tally: Tally, folder: Path, *, dtype: str = "float32") -> None:
    graph, opset, shape, constants = MODELS[model]
    if dtype == "float16":
        graph = graph.replace("float[", "float16[")
        constants = {name: array.astype(np.float16) for name, array in constants.items()}
    onnx.save(build_proto(graph, opset=opset, **constants), "model.onnx")
    write_bins(folder / "bins", 16, shape if len(shape) < 4 else (1, *shape[2:], shape[1]), dtype=dtype)
    made, (save_type, processor, run) = SETTINGS[setting], RUNTIMES[runtime]
    Path("quant.cfg").write_text(ini(made.config), encoding="utf-8")
    outcome = command(*FLAGS, f"--saveType={save_type}", *([f"--nbTarget={processor}"] if processor else []))
    is_refused = bool(processor and made.refused_by_paddle)
    tally(runtime, "settings of whole conversions", refused=int(is_refused))
    if is_refused:
        assert outcome.status == 2
        assert made.refused_by_paddle in outcome.err
        return
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    x = normal(*shape, seed=77)
    kind, path = (NbFormat(processor), Path("out.nb")) if processor else (MsFormat(), Path("out.ms"))
    claimed = outputs(kind.runnable(path, like=read_onnx(Path("model.onnx"))), x.astype(dtype))
    wanted = outputs(Path("model.onnx"), x.astype(dtype))
    found = run(path.read_bytes(), x, folder / "run")
    assert not isinstance(found, str), found
    found = found.reshape(wanted.shape)
    assert cosine(found, wanted) >= made.least
    assert cosine(found, claimed) >= SAME


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "setting", ["full", "KL", "full, nothing rewritten", "weights", "six bits", "four bits with data"]
)
@pytest.mark.parametrize("frames", ["sound", "long frames"])
def test_spectra_hold_in_the_runtime(frames: str, setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge(frames, setting, runtime, tally, folder)
