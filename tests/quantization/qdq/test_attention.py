"""Attention as one operator, where the libraries here know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.config import config_from_mapping
from converter_lite.errors import ModelError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.onnx import writer
from converter_lite.formats.onnx.format import EXACT_NOTE, OnnxFormat
from converter_lite.graph import opset
from converter_lite.passes.opset import raise_opset
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq import attention as attention_module
from converter_lite.quantization.qdq import build as build_module
from converter_lite.quantization.qdq.attention import ATTENTION_OPSET, find_attentions, knows_attention
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.runtime.context import RunContext
from tests.support import SCORES, OldEngine, attention, build, clone, normal, operators, random_feed, run, written

known = pytest.mark.skipif(not knows_attention(), reason="the libraries here have no Attention operator")

MASKED = "s0 = MatMul(q, k) s1 = Mul(s0, third) s = Add({}) p = Softmax<axis=-1>(s)"


def dynamic(model: ir.Model, *, alwc: bool = True) -> QuantizedModel:
    return quantize_dynamic(clone(model), DynamicSettings(alwc), target="CPU", context=RunContext())


def found(model: ir.Model) -> int:
    return len(find_attentions(model.graph, QuantPlan("CPU")))


def names_of(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def assert_the_same(model: ir.Model, *, attentions: int = 1, **feed: np.ndarray) -> ir.Model:
    """One operator for each attention computes what the spelled-out ones do, for two samples of five positions."""
    fused = qdq_model(dynamic(model), attention=True)
    assert operators(fused)["Attention"] == attentions
    assert "Softmax" not in operators(fused)
    feed = {**random_feed(model, dynamic=5), **feed}
    name = str(model.graph.outputs[0].name)
    expected = run(written(dynamic(model)), feed)[name]
    np.testing.assert_allclose(run(fused, feed)[name], expected, rtol=1e-5, atol=1e-5)
    return fused


@known
@pytest.mark.parametrize("sizes", [("B", "S"), ("1", "6"), ("3", "3")])
def test_one_operator_computes_the_same(sizes: tuple[str, str]) -> None:
    fused = assert_the_same(attention(*sizes))
    assert operators(fused).keys().isdisjoint({"Transpose", "Reshape"})
    assert opset(fused) == ATTENTION_OPSET


@known
@pytest.mark.parametrize(
    "scores",
    [
        MASKED.format("s1, m"),
        MASKED.format("m, s1"),
        "s0 = MatMul(q, k) s1 = Div(s0, third) s = Add(s1, m) p = Softmax<axis=3>(s)",
        "q9 = Mul(third, q) k9 = Mul(k, third) s0 = MatMul(q9, k9) s = Add(s0, m) p = Softmax<axis=-1>(s)",
        "s0 = MatMul(q, k) s = Add(s0, m) p = Softmax<axis=-1>(s)",
    ],
)
@pytest.mark.parametrize("shape", ["B,1,S,S", "B,1,1,S", "1,1,1,S", "B,2,S,S", "S", "1,S", "S,S", "S,1"])
def test_masks_and_factors_are_those_of_the_scores(scores: str, shape: str) -> None:
    model = attention(scores=scores, inputs=f", float[{shape}] m", third=np.float32(0.3))
    sizes = [int(size) if size.isdigit() else 5 for size in shape.split(",")]
    mask = np.where(np.random.default_rng(1).random(sizes) < 0.3, np.float32(-3), np.float32(0.5))
    assert_the_same(model, m=mask)


@known
def test_layers_share_the_mask_for_all_queries() -> None:
    model = build(
        f"""g (float[B,S,16] y0, float[B,1,1,S] m) => (float[B,S,16] y2) {{ {_layer(1)} {_layer(2)} }}""",
        opset=14,
        **{name: normal(16, 16, seed=seed) * 0.3 for seed, name in enumerate(("wq", "wk", "wv"))},
        heads=np.array([0, 0, 2, 8]),
        joined=np.array([0, 0, 16]),
    )
    fused = assert_the_same(model, attentions=2)
    assert operators(fused)["Expand"] == 1


def _layer(n: int) -> str:
    """An attention with a mask, from ``y(n-1)`` to ``yn``."""
    split = " ".join(
        f"{name}0_{n} = MatMul(y{n - 1}, w{name}) {name}1_{n} = Reshape({name}0_{n}, heads) "
        f"{name}_{n} = Transpose<perm=[{order}]>({name}1_{n})"
        for name, order in (("q", "0,2,1,3"), ("k", "0,2,3,1"), ("v", "0,2,1,3"))
    )
    return (
        f"{split} a{n} = MatMul(q_{n}, k_{n}) b{n} = Add(a{n}, m) p{n} = Softmax<axis=-1>(b{n}) "
        f"c{n} = MatMul(p{n}, v_{n}) d{n} = Transpose<perm=[0,2,1,3]>(c{n}) y{n} = Reshape(d{n}, joined)"
    )


@known
def test_per_row_products_keep_their_order() -> None:
    model = attention()
    fused = qdq_model(dynamic(model, alwc=False), attention=True)
    feed = random_feed(model, dynamic=5)
    expected = run(written(dynamic(model, alwc=False)), feed)["y"]
    np.testing.assert_allclose(run(fused, feed)["y"], expected, rtol=1e-5, atol=1e-5)


REFUSED = {
    "softmax over queries": {"scores": "s = MatMul(q, k) p = Softmax<axis=-2>(s)"},
    "weights that are an output": {"outputs": ", float[B,H,S,T] p"},
    "scores that are an output": {"outputs": ", float[B,H,S,T] s"},
    "a factor per head": {
        "scores": "s0 = MatMul(q, k) s = Mul(s0, f) p = Softmax<axis=-1>(s)",
        "f": np.ones((1, 2, 1, 1), np.float32),
    },
    "a number over the scores": {
        "scores": "s0 = MatMul(q, k) s = Div(f, s0) p = Softmax<axis=-1>(s)",
        "f": np.float32(2),
    },
    "a factor below zero": {
        "scores": "s0 = MatMul(q, k) s = Mul(s0, f) p = Softmax<axis=-1>(s)",
        "f": np.float32(-0.5),
    },
    "the same keys for all samples": {
        "scores": "z0 = Reshape(z, heads) z1 = Transpose<perm=[0,2,3,1]>(z0) s = MatMul(q, z1) p = Softmax<axis=-1>(s)",
        "inputs": ", float[1,S,16] z",
    },
    "softmax over three axes at once": {"scores": "s = MatMul(q, k) p = Softmax(s)", "opset": 12},
    "keys and queries exchanged": {"scores": "s0 = MatMul(k, q) s = MatMul(q, s0) p = Softmax<axis=-1>(s)"},
    "a mask of unknown rank": {
        "scores": "m = Reshape(n, r) s0 = MatMul(q, k) s = Add(s0, m) p = Softmax<axis=-1>(s)",
        "inputs": ", float[N] n, int64[R] r",
    },
    "a function of the weights": {"scores": "s = MatMul(q, k) p0 = Softmax<axis=-1>(s) p = Relu(p0)"},
    "heads that are not joined": {"joined": np.array([0, 0, 0, 8], np.int64)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_something_else_stays_spelled_out(case: str) -> None:
    options: dict[str, Any] = REFUSED[case]
    assert found(attention()) == 1
    assert found(attention(**options)) == 0


def test_products_that_are_quantized_stay_products() -> None:
    model = attention()
    plan = QuantPlan("CPU")
    plan.quantize(next(node for node in model.graph if node.outputs[0].name == "s"), NodeMode.INTEGER)
    assert find_attentions(model.graph, plan) == []


@known
def test_the_file_says_so_and_the_key_prevents_it(tmp_path: Path) -> None:
    made = OnnxFormat().write(dynamic(attention()), tmp_path / "one.onnx")
    assert made.notes[0] == EXACT_NOTE and "1 x Attention is written as one operator" in made.notes[1]
    assert "Attention" in names_of(made.files[0])
    writer.check(made.files[0])
    without = config_from_mapping(
        {"common_quant_param": {"quant_type": "DYNAMIC_QUANT"}, "dynamic_quant_param": {"attention_operator": "false"}}
    )
    plain = OnnxFormat(FileOptions(config=without)).write(dynamic(attention()), tmp_path / "plain.onnx")
    assert plain.notes == (EXACT_NOTE,)
    assert "Attention" not in names_of(plain.files[0])
    assert onnx.load(plain.files[0]).opset_import[0].version == 14


def test_an_engine_that_does_not_know_the_operator_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not knows_attention(OldEngine())
    monkeypatch.setattr(attention_module, "knows_attention", lambda: False)
    made = OnnxFormat().write(dynamic(attention()), tmp_path / "plain.onnx")
    assert made.notes == (EXACT_NOTE,)
    assert "Attention" not in names_of(made.files[0])


@known
def test_a_model_that_cannot_be_raised_is_written_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: ir.Model, target: int) -> ir.Model:
        if target >= ATTENTION_OPSET:
            raise ModelError("operator set 14 cannot be raised")
        return raise_opset(model, target)

    monkeypatch.setattr(build_module, "raise_opset", refuse)
    made = OnnxFormat().write(dynamic(attention()), tmp_path / "plain.onnx")
    assert made.notes == (EXACT_NOTE,)
    assert "Attention" not in names_of(made.files[0])


@known
def test_beside_an_operator_that_the_runtime_lacks_there_it_stays_spelled_out(tmp_path: Path) -> None:
    """Masked autoencoders draw random numbers; onnxruntime does so for operator sets up to 21."""
    model = attention(scores=f"noise = RandomUniformLike(x) {SCORES}", outputs=", float[B,S,16] noise")
    made = OnnxFormat().write(dynamic(model), tmp_path / "plain.onnx")
    assert made.notes == (EXACT_NOTE,)
    assert "Attention" not in names_of(made.files[0])
    run(made.files[0], random_feed(model, dynamic=5))


def test_the_usual_scores_are_found() -> None:
    assert found(attention(scores=SCORES)) == 1
