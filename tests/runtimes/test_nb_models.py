"""Whole models as ``.nb`` files in the released x86 runtimes: float, integer weights, int8."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.format import NB_REQUIREMENTS
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.pipeline.prepare import optimized
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.int8_arithmetic import run as device_run
from tests.formats.paddle.plans import plan_full, plan_weights
from tests.formats.paddle.writing import write
from tests.runtimes.conftest import Tally
from tests.runtimes.paddle import RELEASES, Case, require, run_cases
from tests.support import build, exact_session, shared_model

Feed = dict[str, NDArray[Any]]
pytestmark = pytest.mark.runtime

TOKENS = ("input_ids", "attention_mask", "token_type_ids")
MODELS: dict[str, dict[str, tuple[int, ...]]] = {
    "mobilenet_v1_0.75_224.onnx": {},
    "resnet8_cifar10.onnx": {},
    "ultraface_rfb_320.onnx": {},
    "minilm_l6_fp16_weights.onnx": dict.fromkeys(TOKENS, (1, 128)),
}


def feed_of(name: str) -> Feed:
    rng = np.random.default_rng(1)
    if name.startswith("minilm"):
        ids, mask = rng.integers(1000, 20000, (1, 128)), np.ones((1, 128), np.int64)
        mask[:, 100:] = 0
        return dict(zip(TOKENS, (ids, mask, np.zeros_like(ids)), strict=True))
    if name.startswith("resnet8"):
        return {"input_1": rng.uniform(0, 255, (1, 32, 32, 3)).astype(np.float32)}
    size = (1, 3, 240, 320) if name.startswith("ultraface") else (1, 3, 224, 224)
    return {"input": rng.standard_normal(size).astype(np.float32)}


@cache
def graph_of(name: str) -> ir.Model:
    return optimized(read_onnx(shared_model(name), input_shapes=MODELS[name] or None), NB_REQUIREMENTS)[0]


def run(model: ir.Model, feed: Feed) -> list[NDArray[Any]]:
    return list(exact_session(model, optimize=True).run(feed).values())


def relative_error(got: list[NDArray[Any]] | str, want: list[NDArray[Any]]) -> float:
    assert not isinstance(got, str), got
    pairs = zip(got, want, strict=True)
    return max(float(np.abs(g.reshape(w.shape) - w).max() / np.abs(w).max()) for g, w in pairs)


def needs(release: str, name: str = "") -> None:
    require(release)
    if release == "2.10" and name.startswith("minilm"):
        pytest.skip("the Python interface of 2.10 cannot feed int64")


@pytest.mark.shared
@pytest.mark.parametrize("bits", [0, 16, 8], ids=["float", "int16", "int8"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_model_gives_the_numbers_of_its_file(
    release: str, name: str, bits: int, tally: Tally, tmp_path: Path
) -> None:
    tally(f"Paddle-Lite {release}, x86", f"whole models, {'weight' if bits else 'float'}")
    needs(release, name)
    model, feed = graph_of(name), feed_of(name)
    quantized = plan_weights(model, target="x86", bits=bits) if bits else QuantizedModel(model, QuantPlan("x86"))
    data = write(quantized, options=NbOptions("x86"))
    want = run(read(data).model, feed)
    got = run_cases(release, [Case(data, list(feed.values()), len(want))], tmp_path)[0]
    assert relative_error(got, want) < 1e-5
    if not bits:
        original = DEFAULT_ENGINE.session(shared_model(name), threads=1).run(feed)
        assert relative_error(got, list(original.values())) < 1e-5


@pytest.mark.shared
@pytest.mark.parametrize(("bits", "share"), [(8, 0.27), (16, 0.52)])
def test_integer_weights_shrink_mobilenet(bits: int, share: float) -> None:
    model = graph_of("mobilenet_v1_0.75_224.onnx")
    whole = len(write(QuantizedModel(model, QuantPlan("x86")), options=NbOptions("x86")))
    assert len(write(plan_weights(model, target="x86", bits=bits), options=NbOptions("x86"))) <= share * whole


@pytest.mark.parametrize("release", ["2.12", "2.13rc0"])
def test_int8_on_x86_computes_what_its_formulas_say_within_its_limits(release: str, tmp_path: Path) -> None:
    needs(release)
    rng = np.random.default_rng(5)
    model = build(
        """g (float[1,4,8,8] x) => (float[8,7] y, float[1,8,8,8] z) {
            z = Conv<pads=[1,1,1,1]>(x, w, b)
            s = Reshape(x, rows)
            y = MatMul(s, v)
        }""",
        w=rng.standard_normal((8, 4, 3, 3)).astype(np.float32),
        b=rng.standard_normal(8).astype(np.float32),
        v=rng.standard_normal((32, 7)).astype(np.float32),
        rows=np.array([8, 32], np.int64),
    )
    feed = {"x": rng.standard_normal((1, 4, 8, 8)).astype(np.float32)}
    quantized = plan_full(model, feed, target="x86", bound=3.0)
    assert [node.mode for node in quantized.plan.nodes.values()].count(NodeMode.INTEGER) == 2
    data = write(quantized, options=NbOptions("x86"))
    want = device_run(parse(data), feed)
    got = run_cases(release, [Case(data, [feed["x"]], 2)], tmp_path)[0]
    assert relative_error(got, want) < 1e-5
