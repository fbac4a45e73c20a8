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
from tests.support import build_proto, normal, run

pytestmark = pytest.mark.runtime

Array = NDArray[Any]

PICTURES = """
g (float[1,3,16,16] x) => (float[1,10] y) {
    [first] a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Clip(a, zero, infinity)
    [second] c = Conv<pads=[1,1,1,1], group=24>(b, w2, b2)
    d = Clip(c, zero, six)
    [third] e = Conv(d, w3, b3)
    f = Clip(e, minus, infinity)
    h = Add(f, b)
    [fourth] i = Conv(h, w4, b4)
    j = Clip(i, half, two)
    p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(j)
    q = Flatten(p)
    [last] y = Gemm(q, w5, b5)
}
"""
TOKENS = """
g (float[1,12,32] x) => (float[1,12,16] y) {
    n = LayerNormalization<epsilon=0.00001>(x, scale, offset)
    [query] q = MatMul(n, wq)
    [key] k = MatMul(n, wk)
    s = Add(q, k)
    t = Tanh(s)
    r = Add(t, x)
    m = LayerNormalization<epsilon=0.00001>(r, scale, offset)
    [last] o = MatMul(m, wo)
    y = Add(o, bo)
}
"""


SPIKES = """
g (float[1,12,32] x) => (float[1,12,16] y) {
    h = MatMul(x, wh)
    s = Mul(h, spread)
    t = Add(s, offset)
    e = Relu(t)
    [last] o = MatMul(e, wo)
    y = Add(o, bo)
}
"""
"""In one row of a hundred, three columns of ``e`` are far larger than all others."""


FILTERS = """
g (float[1,3,16,16] x) => (float[1,8,13,13] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Relu(a)
    t = MaxPool<kernel_shape=[4,4], strides=[4,4]>(b)
    f = Reshape(t, single)
    c = Conv<group=24>(b, f)
    n = ReduceL2(c, rows_and_columns)
    s = Add(n, one)
    d = Div(c, s)
    [last] y = Conv(d, w2, b2)
}
"""
"""A picture correlated with itself, as trackers do, and set off against its norm."""


UNEVEN = """
g (float[1,3,16,16] x) => (float[1,8,16,16] y) {
    [first] a = Conv(x, w1, b1)
    b = HardSwish(a)
    [single] c = Conv<pads=[1,1,1,1], group=24>(b, w2, b2)
    [mixed] m = Conv(c, w3, b3)
    d = HardSwish(m)
    e = Mul(d, scale)
    f = Add(e, shift)
    [groups] h = Conv<pads=[1,1,1,1], group=3>(f, w4, b4)
    i = HardSwish(h)
    j = Add(i, b)
    [last] y = Conv(j, w5, b5)
}
"""
"""Channels of very different size behind functions that no factor passes."""


MOVED = """
g (float[1,3,16,16] x) => (float[1,256,24] y) {
    [first] a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    r = Reshape(a, rows)
    t = Transpose<perm=[0,2,1]>(r)
    m = Softmax(t)
    s = Add(m, t)
    [last] p = MatMul(s, w2)
    y = Add(p, b2)
}
"""
"""Integers that are moved before a layer in float reads them, at an operator set from which onnxruntime loads them otherwise."""


EXPERTS = """
g (float[1,12,32] x) => (float[1,12,2000] y) {
    [route] r = MatMul(x, wr)
    s = Sigmoid(r)
    [experts] y = MatMul(s, we)
}
"""
"""A weight of few rows and many columns, whose scales would take more space than its integers save."""


SOUND = """
g (float[1,2000] x) => (float[1,8,57] y) {
    samples = Unsqueeze(x, last_axis)
    frames = STFT<onesided=1>(samples, step, window)
    squares = Mul(frames, frames)
    power = ReduceSum<keepdims=0>(squares, last_axis)
    [bands] b = MatMul(power, bands)
    s = Add(b, least)
    loudness = Log(s)
    turned = Transpose<perm=[0,2,1]>(loudness)
    c = Conv<pads=[1,1]>(turned, w1, b1)
    d = Relu(c)
    [last] y = Conv(d, w2, b2)
}
"""
"""A spectrum of sound, whose transform devices compute as a convolution."""


def _filters(length: int, step: int) -> dict[str, np.ndarray]:
    """Constants of a spectrum whose frames have a length and a step."""
    return {
        "last_axis": np.array([-1]),
        "step": np.array(step),
        "window": np.hanning(length).astype(np.float32),
        "bands": np.abs(normal(length // 2 + 1, 16, seed=1)),
        "least": np.array(1e-2, np.float32),
        "w1": uneven(24, 16, 3, seed=2),
        "b1": normal(24, seed=3),
        "w2": uneven(8, 24, 1, seed=4),
        "b2": normal(8, seed=5),
    }


PADDED = """
g (float[1,3,24,24] x) => (float[1,8,576] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Relu(a)
    c = Pad(b, channels)
    d = Conv<pads=[1,1,1,1]>(c, w2, b2)
    e = Relu(d)
    g = Gather<axis=1>(x, first_channel)
    p = Greater(g, half)
    f = Where(p, e, rows)
    q = Less(g, two)
    h = Where(q, f, minus)
    i = Reshape(h, series)
    j = Pad<mode="reflect">(i, around)
    [last] y = Conv(j, w3, b3)
}
"""
"""Channels of zeros, a series that is reflected, and choices between tensors and constants that are broadcast."""


def uneven(*shape: int, seed: int) -> Array:
    """Weights whose output channels differ by ten: what one step per layer costs shows."""
    spread = np.geomspace(0.3, 3, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return (normal(*shape, seed=seed) * spread / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


SIZES = np.geomspace(0.5, 10, 24).astype(np.float32)
"""Of channels."""

BOUNDS = {"minus": -1, "zero": 0, "half": 0.5, "two": 2, "six": 6, "infinity": np.inf}
MODELS: dict[str, tuple[str, int, tuple[int, ...], dict[str, Array]]] = {
    "pictures": (
        PICTURES,
        13,
        (1, 3, 16, 16),
        {
            "w1": uneven(24, 3, 3, 3, seed=1),
            "b1": normal(24, seed=2),
            "w2": uneven(24, 1, 3, 3, seed=3),
            "b2": normal(24, seed=4),
            "w3": uneven(24, 24, 1, 1, seed=5),
            "b3": normal(24, seed=6),
            "w4": uneven(8, 24, 1, 1, seed=7),
            "b4": normal(8, seed=8),
            "w5": normal(512, 10, seed=9) / 8,
            "b5": normal(10, seed=10),
            **{name: np.array(bound, np.float32) for name, bound in BOUNDS.items()},
        },
    ),
    "tokens": (
        TOKENS,
        17,
        (1, 12, 32),
        {
            "wq": normal(32, 32, seed=1) / 6,
            "wk": normal(32, 32, seed=2) / 6,
            "wo": normal(32, 16, seed=3) / 6,
            "scale": np.geomspace(0.1, 4, 32).astype(np.float32),
            "offset": normal(32, seed=4),
            "bo": normal(16),
        },
    ),
    "filters": (
        FILTERS,
        18,
        (1, 3, 16, 16),
        {
            "w1": uneven(24, 3, 3, 3, seed=1),
            "b1": normal(24, seed=2),
            "single": np.array([24, 1, 4, 4]),
            "rows_and_columns": np.array([2, 3]),
            "one": np.array(1, np.float32),
            "w2": uneven(8, 24, 1, 1, seed=3),
            "b2": normal(8, seed=4),
        },
    ),
    "padded": (
        PADDED,
        18,
        (1, 3, 24, 24),
        {
            "w1": uneven(12, 3, 3, 3, seed=1),
            "b1": normal(12, seed=2),
            "channels": np.array([0, 2, 0, 0, 0, 2, 0, 0]),
            "w2": uneven(16, 16, 3, 3, seed=3),
            "b2": normal(16, seed=4),
            "first_channel": np.array([0]),
            "half": np.array(0.5, np.float32),
            "two": np.array(2, np.float32),
            "rows": normal(24, seed=5),
            "minus": np.array(-1, np.float32),
            "series": np.array([1, 16, 576]),
            "around": np.array([0, 0, 2, 0, 0, 2]),
            "w3": uneven(8, 16, 5, seed=6),
            "b3": normal(8, seed=7),
        },
    ),
    "uneven": (
        UNEVEN,
        14,
        (1, 3, 16, 16),
        {
            "w1": normal(24, 3, 1, 1, seed=1) * SIZES[:, None, None, None],
            "b1": normal(24, seed=2) * SIZES,
            "w2": normal(24, 1, 3, 3, seed=3),
            "b2": normal(24, seed=4) * SIZES,
            "w3": normal(24, 24, 1, 1, seed=5) * SIZES[:, None, None, None] / SIZES[:, None, None] / 5,
            "b3": normal(24, seed=6),
            "scale": np.array([0.25], np.float32),
            "shift": np.array([0.5], np.float32),
            "w4": (normal(24, 8, 3, 3, seed=7).reshape(3, 8, 8, 9) / SIZES.reshape(3, 1, 8, 1)).reshape(24, 8, 3, 3),
            "b4": normal(24, seed=8),
            "w5": normal(8, 24, 1, 1, seed=9) / SIZES[:, None, None],
            "b5": normal(8, seed=10),
        },
    ),
    "experts": (EXPERTS, 17, (1, 12, 32), {"wr": normal(32, 4, seed=1) / 6, "we": normal(4, 2000, seed=2)}),
    "sound": (SOUND, 17, (1, 2000), _filters(200, 32)),
    "long frames": (
        SOUND.replace("[1,2000]", "[1,4000]").replace("[1,8,57]", "[1,8,28]"),
        17,
        (1, 4000),
        _filters(512, 128),
    ),
    "moved": (
        MOVED,
        21,
        (1, 3, 16, 16),
        {
            "w1": normal(16, 3, 3, 3, seed=1) / 3,
            "b1": normal(16, seed=2),
            "rows": np.array([1, 16, 256]),
            "w2": normal(16, 24, seed=3) / 4,
            "b2": normal(24, seed=4),
        },
    ),
    "spikes": (
        SPIKES,
        17,
        (1, 12, 32),
        {
            "wh": normal(32, 256, seed=1) / 6,
            "spread": np.where(np.arange(256) % 100 == 7, 150, 1).astype(np.float32),
            "offset": np.where(np.arange(256) % 100 == 7, -350, 0).astype(np.float32),
            "wo": normal(256, 16, seed=2) / 16,
            "bo": normal(16, seed=3),
        },
    ),
}
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
    "setting", ["full", "KL", "full, nothing rewritten", "weights", "six bits", "four bits with data", "dynamic"]
)
@pytest.mark.parametrize("frames", ["sound", "long frames"])
def test_spectra_hold_in_the_runtime(frames: str, setting: str, runtime: str, tally: Tally, folder: Path) -> None:
    judge(frames, setting, runtime, tally, folder)
