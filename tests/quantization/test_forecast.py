from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.writer import save
from converter_lite.passes.half import store_constants_as_float16
from converter_lite.quantization.forecast import StoredAs, forecast_bytes
from converter_lite.quantization.plan import QuantPlan
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import decide_weights
from tests.quantization.test_weight_only import weights
from tests.support import build, full, normal, written


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return build(
        "g (float[1,64,8,8] x) => (float[1,32,4,4] y) { a = Conv(x, w, b) r = Relu(a) y = Conv(r, v, c) }",
        w=normal(96, 64, 3, 3),
        b=normal(96),
        v=normal(32, 96, 3, 3),
        c=normal(32),
    )


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_the_size_of_a_weight_quantized_file_is_known_beforehand(model: ir.Model, bits: int, tmp_path: Path) -> None:
    plan = decide_weights(model, WeightSettings(bits=bits), target="CPU")
    size = save(written(weights(model, bits=bits)), tmp_path / "out.onnx")[0].stat().st_size
    assert forecast_bytes(model, plan, StoredAs(bits)) == pytest.approx(size, rel=0.1)


def test_the_size_of_a_fully_quantized_file_is_known_beforehand(model: ir.Model, tmp_path: Path) -> None:
    quantized = full(model)
    size = save(written(quantized), tmp_path / "out.onnx")[0].stat().st_size
    assert forecast_bytes(model, quantized.plan, StoredAs(integer_bias=True)) == pytest.approx(size, rel=0.1)


def test_a_float_plan_keeps_the_size(model: ir.Model, tmp_path: Path) -> None:
    size = save(model, tmp_path / "out.onnx")[0].stat().st_size
    assert forecast_bytes(model, QuantPlan("FLOAT"), StoredAs(per_channel=False)) == pytest.approx(size, rel=0.02)


def test_constants_of_float16_take_half_the_space_in_a_file_that_grows(tmp_path: Path) -> None:
    model = build(
        "g (float[1,64] x) => (float[1,64] y) { a = MatMul(x, narrow) y = MatMul(a, wide) }",
        narrow=normal(64, 64).astype(np.float16).astype(np.float32),
        wide=normal(64, 64),
    )
    asked = StoredAs(per_channel=False, model_bytes=20_000)
    expected = forecast_bytes(model, QuantPlan("FLOAT"), asked)
    store_constants_as_float16(model, exactly=True)
    assert expected == pytest.approx(save(model, tmp_path / "out.onnx")[0].stat().st_size, rel=0.02)


def test_weights_in_branches_count_as_they_are_stored(tmp_path: Path) -> None:
    then = "a () => (float[64] t) { t = MatMul(x, w) }"
    other = "b () => (float[64] e) { e = MatMul(x, v) }"
    model = build(
        f"g (float[64] x, bool c) => (float[64] y) {{ y = If(c) <then_branch = {then}, else_branch = {other}> }}",
        w=normal(64, 64),
        v=normal(64, 64, seed=2),
    )
    quantized = weights(model, bits=8)
    size = save(written(quantized), tmp_path / "out.onnx")[0].stat().st_size
    assert forecast_bytes(model, quantized.plan, StoredAs(8)) == pytest.approx(size, rel=0.1)
