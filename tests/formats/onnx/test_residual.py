"""Additions in front of LayerNormalization."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.onnx.residual import keep_additions_apart
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.quantization.test_weight_only import weights
from tests.support import assert_same_outputs, build, normal, operators, optimized, random_feed

BLOCK = """g (float[1,16,32] x) => (float[1,16,32] y) {{
    p = MatMul(x, w) b = Add(p, bias) a = Add(x, b) {} y = MatMul(n, v) }}"""
WHOLE = "n = LayerNormalization(a, scale, shift)"
SPELLED_OUT = (
    "m = ReduceMean<axes=[-1]>(a) d = Sub(a, m) s = Pow(d, two) e = ReduceMean<axes=[-1]>(s) f = Add(e, tiny) r = Sqrt(f) "
    "q = Div(d, r) t = Mul(q, scale) n = Add(t, shift)"
)


def block(normalization: str) -> ir.Model:
    constants: dict[str, Any] = {"w": normal(32, 32), "v": normal(32, 32, seed=1)}
    constants |= {"bias": normal(32), "scale": normal(32, seed=2)}
    constants |= {"shift": normal(32, seed=3), "tiny": np.float32(1e-5), "two": np.float32(2)}
    text = BLOCK.format(normalization)
    return build(text, **{name: array for name, array in constants.items() if name in text})


@pytest.mark.parametrize("normalization", [WHOLE, SPELLED_OUT])
def test_a_written_file_has_no_kernel_that_adds_and_normalizes(normalization: str, tmp_path: Path) -> None:
    model = block(normalization)
    assert "SkipLayerNormalization" in optimized(model, tmp_path)
    OnnxFormat().write(weights(model), tmp_path / "model.onnx")
    written = ir.load(tmp_path / "model.onnx")
    assert operators(written)["Sum"] == 1
    kinds = optimized(written, tmp_path)
    assert (kinds["LayerNormalization"], kinds["SkipLayerNormalization"]) == (1, 0)


@pytest.mark.parametrize("normalization", [WHOLE, SPELLED_OUT])
def test_the_numbers_are_the_same(normalization: str) -> None:
    model = block(normalization)
    changed = model.clone()
    assert keep_additions_apart(changed) == 1
    assert_same_outputs(model, changed, random_feed(model))


def test_biases_and_other_additions_stay() -> None:
    model = build(
        "g (float[1,4,8] x) => (float[1,4,8] y) { a = Add(x, b) n = LayerNormalization(a, s) y = Add(n, x) }",
        b=normal(8),
        s=normal(8),
    )
    assert keep_additions_apart(model) == 0


def test_a_float_file_and_those_for_other_devices_stay_as_they_are(tmp_path: Path) -> None:
    model = block(WHOLE)
    OnnxFormat().write(QuantizedModel(model, QuantPlan("FLOAT")), tmp_path / "model.onnx")
    assert "Sum" not in operators(ir.load(tmp_path / "model.onnx"))
    quantized = weights(model)
    quantized.plan.target = "NVGPU"
    OnnxFormat().write(quantized, tmp_path / "model.onnx")
    assert "Sum" not in operators(ir.load(tmp_path / "model.onnx"))
