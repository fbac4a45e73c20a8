"""From configuration to settings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.api import convert
from converter_lite.config import config_from_mapping
from converter_lite.config.names import Rounding
from converter_lite.errors import ConfigError, UsageError
from converter_lite.log import Log
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.choice import Choice, choose
from converter_lite.quantization.settings import FullSettings, Learning, WeightSettings
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.support import build, normal, run


def chosen(quant_type: str, *, has_samples: bool = True, bit_num: int = 8, **keys: str) -> Choice:
    section = {"WEIGHT_QUANT": "weight_quant_param", "FULL_QUANT": "full_quant_param"}[quant_type]
    common = {"quant_type": quant_type, "bit_num": str(bit_num)}
    config = config_from_mapping({"common_quant_param": common, section: keys}, external_data=True)
    model = build("g (float[1,4] x) => (float[1,4] y) { y = MatMul(x, w) }", w=normal(4, 4))
    choice = choose(config, model, frozenset(), has_samples=has_samples)
    assert choice is not None
    return choice


def is_adaptive(*, has_samples: bool = True, bit_num: int = 8, **keys: str) -> bool:
    settings = chosen("WEIGHT_QUANT", has_samples=has_samples, bit_num=bit_num, **keys).settings
    assert isinstance(settings, WeightSettings)
    return settings.rounding.is_fitted


@pytest.mark.parametrize("bit_num", range(1, 17))
def test_weights_of_less_than_8_bits_are_rounded_to_samples_where_there_are_some(bit_num: int) -> None:
    assert is_adaptive(bit_num=bit_num) == (bit_num < 8)
    assert not is_adaptive(bit_num=bit_num, has_samples=False)


@pytest.mark.parametrize("bit_num", [1, 4, 8, 16])
@pytest.mark.parametrize(
    "keys", [{"rounding": "ADAPTIVE"}, {"quant_strategy": "GPTQ"}, {"quant_strategy": "GPTQ", "rounding": "ADAPTIVE"}]
)
def test_adaptive_rounding_that_is_asked_for_is_done_with_any_width(keys: dict[str, str], bit_num: int) -> None:
    assert is_adaptive(bit_num=bit_num, **keys)


@pytest.mark.parametrize("has_samples", [True, False])
def test_nearest_means_nearest(has_samples: bool) -> None:
    assert not is_adaptive(bit_num=4, rounding="NEAREST", has_samples=has_samples)
    assert not is_adaptive(bit_num=4, rounding="NEAREST", quant_strategy="MAX_MIN", has_samples=has_samples)


@pytest.mark.parametrize(("key", "word"), [("rounding", "ADAPTIVE"), ("quant_strategy", "GPTQ")])
def test_adaptive_rounding_without_samples_is_refused(key: str, word: str) -> None:
    with pytest.raises(ConfigError, match="fitted to calibration samples, and there are none") as caught:
        chosen("WEIGHT_QUANT", has_samples=False, **{key: word})
    assert caught.value.where == f"[weight_quant_param] {key}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, False),
        ({"per_channel": "false"}, True),
        ({"per_channel": "false", "rounding": "NEAREST"}, False),
        ({"per_channel": "false", "bias_correction": "false"}, False),
        ({"target_device": "DSP"}, True),
        ({"target_device": "DSP", "per_channel": "true"}, False),
        ({"bit_num": "4"}, True),
        ({"bit_num": "4", "rounding": "NEAREST"}, False),
        ({"bit_num": "4", "bias_correction": "false"}, False),
    ],
)
def test_full_quantization_of_coarse_weights_is_rounded_to_samples(keys: dict[str, str], expected: bool) -> None:
    settings = chosen("FULL_QUANT", **keys).settings
    assert isinstance(settings, FullSettings)
    assert settings.rounding.is_fitted == expected


def test_keys_of_full_quantization_arrive() -> None:
    assert chosen("FULL_QUANT").settings == FullSettings()
    keys = {"equalization": "false", "rounding": "ADAPTIVE", "smooth_alpha": "0.25", "bias_correction": "false"}
    expected = FullSettings(equalization=False, rounding=Rounding.ADAPTIVE, smooth_alpha=0.25, bias_correction=False)
    assert chosen("FULL_QUANT", **keys).settings == expected
    narrow = chosen("FULL_QUANT", bit_num=4, activation_bits="4")
    assert narrow.settings == FullSettings("MSE", bits=4, activation_bits=4, rounding=Rounding.ADAPTIVE)
    assert chosen("FULL_QUANT").is_gated and not narrow.is_gated


POOLED = """g (float[n,8,8,3] x) => (float[n,5] y) {
    a = Transpose<perm=[0,3,1,2]>(x) b = Conv<pads=[1,1,1,1]>(a, w1, b1) c = Relu(b) m = MaxPool<kernel_shape=[2,2]>(c)
    n = MaxPool<kernel_shape=[3,3], pads=[0,0,1,1]>(c) d = Concat<axis=1>(m, n) e = Conv(d, w5, b2) i = Relu(e)
    h = Conv(i, w4, b4) f = ReduceMax<keepdims=0>(h, axes) y = Gemm<transB=1>(f, w3, b3) }"""

CLIPPED = """g (float[n,8,8,3] x) => (float[n,5] y) {
    a = Transpose<perm=[0,3,1,2]>(x) b = Conv<pads=[1,1,1,1]>(a, w1, b1) c = Clip(b, low, high) d = Conv(c, w2, b2)
    e = Add(d, c) f = Clip(e, low, high) h = Conv(f, w4, b4) i = Sin(h) j = Relu(i) k = Conv(j, w2, b2) m = Sin(k)
    n = Clip(m, low, high) o = Conv(n, w4, b4) p = ReduceMax<keepdims=0>(o, axes) y = Gemm<transB=1>(p, w3, b3) }"""

NETWORK = """g (float[n,8,8,3] x) => (float[n,5] y) {
    a = Transpose<perm=[0,3,1,2]>(x) b = Conv<pads=[1,1,1,1]>(a, w1, b1) c = Relu(b) d = Conv(c, w2, b2)
    e = GlobalAveragePool(d) f = Flatten(e) y = Gemm<transB=1>(f, w3, b3) }"""


def narrow_file(folder: Path, save_type: str, text: str = NETWORK, **keys: str) -> ir.Model:
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 1, 1), "w3": (5, 8), "w4": (8, 8, 1, 1), "w5": (8, 16, 1, 1)}
    shapes |= {"b1": (8,), "b2": (8,), "b3": (5,), "b4": (8,)}
    constants = {name: normal(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}
    constants |= {"axes": np.array([2, 3]), "low": np.float32(-1), "high": np.float32(6)}
    used = {name: array for name, array in constants.items() if re.search(rf"\b{name}\b", text)}
    ir.save(build(text, opset=18, **used), folder / "in.onnx")
    common = {"quant_type": "FULL_QUANT", **{name: keys.pop(name) for name in ("bit_num",) if name in keys}}
    config = config_from_mapping({"common_quant_param": common, "full_quant_param": keys}, external_data=True)
    data = [normal(2, 8, 8, 3, seed=seed) for seed in range(4)]
    request = ConvertRequest(folder / "in.onnx", folder / "out", config=config, calibration_data=data)
    convert(replace(request, save_type=(save_type,), threads=1), log=Log())
    return ir.load(folder / "out.onnx")


def test_activations_of_four_bits_are_those_that_inner_integer_layers_read(tmp_path: Path) -> None:
    graph = narrow_file(tmp_path, "ONNX", bit_num="4", activation_bits="4", target_device="ARM").graph
    types = {name: value.dtype for name, value in graph.initializers.items() if name.endswith("_zero_point")}
    eight, four = ({f"{name}_zero_point" for name in names} for names in ("ady", ("c", "f", "w1", "w2", "w3")))
    assert {name for name, dtype in types.items() if dtype is ir.DataType.INT8} == eight
    assert {name for name, dtype in types.items() if dtype is ir.DataType.INT4} == four


@pytest.mark.parametrize("bit_num", ["4", "8"])
@pytest.mark.parametrize("device", ["ARM", "DSP", "NVGPU"])
@pytest.mark.parametrize("text", [POOLED, CLIPPED], ids=["pools", "bounds"])
def test_a_runtime_computes_what_a_file_with_activations_of_four_bits_says(
    text: str, device: str, bit_num: str, tmp_path: Path
) -> None:
    model = narrow_file(tmp_path, "ONNX", text, bit_num=bit_num, activation_bits="4", target_device=device)
    narrow = {value.dtype for value in model.graph.initializers.values()} & {ir.DataType.INT4, ir.DataType.UINT4}
    assert narrow
    feed = {"x": normal(2, 8, 8, 3, seed=9)}
    session = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1, optimize=True)
    np.testing.assert_allclose(session.run(feed)["y"], run(model, feed)["y"], rtol=0, atol=1e-4)


def test_ranges_of_four_bits_are_those_of_least_error_unless_a_method_is_named() -> None:
    method = {"4": "MSE", "8": "MAX_MIN"}
    for bits, expected in method.items():
        settings = chosen("FULL_QUANT", activation_bits=bits).settings
        assert isinstance(settings, FullSettings) and settings.method == expected
    named = chosen("FULL_QUANT", activation_bits="4", activation_quant_method="MAX_MIN").settings
    assert isinstance(named, FullSettings) and named.method == "MAX_MIN"


@pytest.mark.parametrize("save_type", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE"])
@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"bit_num": "4"}, "[common_quant_param] bit_num"),
        ({"activation_bits": "4"}, "[full_quant_param] activation_bits"),
    ],
)
def test_formats_without_kernels_of_four_bits_refuse_them(
    save_type: str, keys: dict[str, str], where: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="compute with 8 bits") as caught:
        narrow_file(tmp_path, save_type, **keys)
    assert caught.value.where == where
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


def test_learning_has_time_and_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("converter_lite.system.extras.find_spec", lambda name: object())
    choice = chosen("FULL_QUANT", rounding="LEARNED")
    assert choice.learning == Learning(seconds=300, seed=0, unlearned=Rounding.NEAREST)
    assert chosen("FULL_QUANT", rounding="ADAPTIVE").learning is None


def test_learning_without_pytorch_is_refused_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("converter_lite.system.extras.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="rounding=LEARNED needs torch, which is not installed") as caught:
        chosen("WEIGHT_QUANT", bit_num=4, rounding="LEARNED")
    assert caught.value.hint == "pip install 'converter-lite[learn]'"
    assert "rounding" in str(caught.value.where)
