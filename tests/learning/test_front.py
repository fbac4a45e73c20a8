"""Networks that learn in front of nodes without gradients."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("torch", reason="tests/runtimes/test_learning.py runs these where PyTorch is")

from converter_lite.config import config_from_mapping
from converter_lite.learning import pace, rounding
from converter_lite.learning.front import front_of
from converter_lite.learning.rounding import learn_rounding
from converter_lite.log import DETAILED, Log
from converter_lite.pipeline.convert import run as pipeline
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.score import Scorer
from converter_lite.quantization.settings import Learning, WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.support import Samples, build, normal, random_feed, run, written

CONSTANTS = {
    "w1": normal(16, 3, 3, 3, seed=1) / np.float32(5),
    "w2": normal(16, 16, 3, 3, seed=2) / np.float32(12),
    "w3": normal(5, 16, 1, 1, seed=3) / np.float32(4),
    "w4": normal(4, 8, seed=4),
    "b1": normal(16, seed=5) / 4,
    "b2": normal(16, seed=6) / 4,
}

DETECTOR = """g (float[1,3,16,16] x) => (int64[k,3] found, float[m,8] late) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) b = Relu(a)
    c = Conv<pads=[1,1,1,1],strides=[2,2]>(b, w2, b2) d = Relu(c)
    e = Conv(d, w3) f = Reshape(e, flat)
    boxes_first, s = Split<axis=1>(f, sizes) boxes = Transpose<perm=[0,2,1]>(boxes_first) scores = Sigmoid(s)
    found = NonMaxSuppression(boxes, scores, most, overlap)
    kept = Gather<axis=1>(found, last) rows = Gather<axis=1>(boxes, kept) two = Reshape(rows, four)
    late = MatMul(two, w4) }"""


def detector() -> ir.Model:
    return build(
        DETECTOR,
        **CONSTANTS,
        flat=np.array([1, 5, 64]),
        sizes=np.array([4, 1]),
        most=np.array([20]),
        overlap=np.array([0.5], np.float32),
        last=np.array(2),
        four=np.array([-1, 4]),
    )


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "NODE_SECONDS", 2e-3)
    monkeypatch.setattr(rounding, "OVERDUE", 1000)


def samples(count: int, start: int = 0) -> Samples:
    return Samples(random_feed(detector(), seed=seed) for seed in range(start, start + count))


def of_three_bits() -> QuantizedModel:
    settings = WeightSettings(bits=3, min_channel=0, min_size=0, per_channel=False, bias_correction=False)
    return quantize_weights(detector(), settings, target="CPU", samples=samples(20), context=RunContext())


def test_the_front_ends_at_what_is_read_behind_it() -> None:
    front = front_of(detector())
    assert front.first is not None
    assert (front.ends, front.first.op_type) == (("boxes", "scores"), "NonMaxSuppression")
    assert (front.layers, front.all_layers) == (3, 4)


def test_a_network_whose_nodes_all_have_gradients_is_its_own_front() -> None:
    model = build("g (float[1,3,16,16] x) => (float[1,16,14,14] y) { y = Conv(x, w1) }", w1=CONSTANTS["w1"])
    front = front_of(model)
    assert front.first is None
    assert front.is_whole
    assert front.of_model(model) is model


CLASSES = """a = Conv<pads=[1,1,1,1]>(x, w1, b1) b = Relu(a) c = Conv<pads=[1,1,1,1],strides=[2,2]>(b, w2, b2) d = Relu(c)
    e = Conv(d, w3)"""
"""A network whose last layer is a block of its own."""


def classes(output: str, end: str = "") -> ir.Model:
    constants = {name: CONSTANTS[name] for name in ("w1", "b1", "w2", "b2", "w3")}
    return build(f"g (float[1,3,16,16] x) => ({output}) {{ {CLASSES} {end} }}", **constants, zero=np.float32(0))


def classes_learn(model: ir.Model) -> QuantizedModel:
    settings = WeightSettings(bits=3, min_channel=0, min_size=0, per_channel=False, bias_correction=False)
    before = quantize_weights(model, settings, target="CPU", samples=samples(20), context=RunContext())
    return learn_rounding([before], model, samples(20), Learning(seconds=1), RunContext())


@pytest.mark.parametrize(
    ("end", "ends"),
    [
        ("y = ArgMax<axis=1>(e)", ("e",)),
        ("y = Cast<to=7>(e)", ("e",)),
        ("t = Greater(e, zero) y = Cast<to=7>(t)", ("e",)),
        ("s = Shape(e) f = Reshape(e, s) y = ArgMax<axis=1>(f)", ("f",)),
    ],
)
def test_the_front_ends_before_whole_numbers_at_the_end(end: str, ends: tuple[str, ...]) -> None:
    front = front_of(classes("int64[n,m,h,w] y", end))
    assert (front.ends, front.first, front.is_whole) == (ends, None, False)


def test_a_network_that_ends_in_whole_numbers_learns_to_give_what_they_are_made_of() -> None:
    learnt = classes_learn(classes("int64[1,1,8,8] y", "y = ArgMax<axis=1>(e)"))
    twin = classes_learn(classes("float[1,5,8,8] e"))
    assert [str(value.name) for value in learnt.model.graph.outputs] == ["y"]
    for name in ("w1", "w2", "w3"):
        np.testing.assert_array_equal(learnt.integers(name), twin.integers(name))


def test_what_a_mask_alone_is_made_of_learns_nothing() -> None:
    learnt = classes_learn(classes("float[1,5,8,8] y", "t = Greater(e, zero) y = Cast<to=1>(t)"))
    assert run(written(learnt), random_feed(detector()))["y"].shape == (1, 5, 8, 8)


def test_a_detector_learns_in_front_of_its_suppression() -> None:
    before = of_three_bits()
    after = learn_rounding([before], detector(), samples(20), Learning(seconds=8), RunContext())
    front, others = front_of(detector()), samples(16, start=1000)
    scorer = Scorer(front.of_model(detector()), others, RunContext())
    noise = [scorer(written(front.of_quantized(quantized))).noise for quantized in (before, after)]
    assert noise[1] < 0.95 * noise[0]
    np.testing.assert_array_equal(after.integers("w4"), before.integers("w4"))
    assert [str(value.name) for value in after.model.graph.outputs] == ["found", "late"]
    assert run(written(after), random_feed(detector()))["late"].shape[1] == 8


def test_what_a_branch_reads_is_an_end_of_the_front() -> None:
    text = """g (float[1,3,16,16] x, bool often) => (float[1,16,14,14] y) { a = Conv(x, w1, b1) b = Relu(a)
        c = Sigmoid(a)
        y = If(often) <then_branch = t () => (float[1,16,14,14] p) { p = Add(b, b) },
                       else_branch = f () => (float[1,16,14,14] q) { q = Mul(b, c) }> }"""
    front = front_of(build(text, w1=CONSTANTS["w1"], b1=CONSTANTS["b1"]))
    assert front.ends == ("b", "c")


@pytest.mark.parametrize("quant_type", ["FULL_QUANT", "DYNAMIC_QUANT", "WEIGHT_QUANT"])
def test_detectors_are_converted_with_what_their_front_learnt(quant_type: str, tmp_path: Path) -> None:
    section = f"{quant_type.split('_')[0].lower()}_quant_param"
    sections = {
        "common_quant_param": {"quant_type": quant_type, "learn_seconds": "2", "min_quant_weight_channel": "0"},
        section: {"rounding": "LEARNED"},
    }
    ir.save(detector(), tmp_path / "model.onnx")
    text = io.StringIO()
    request = ConvertRequest(
        fmk="ONNX",
        model_file=tmp_path / "model.onnx",
        output_file=tmp_path / "out",
        save_type=("ONNX",),
        config=config_from_mapping(sections, external_data=True),
        calibration_data=lambda: iter(samples(12)),
        min_cosine=0.0,
    )
    result = pipeline(request, Log(verbosity=DETAILED, stream=text))
    said = text.getvalue()
    assert "ends in front of NonMaxSuppression" in said
    assert "3 of 4 layers with weights" in said
    assert "learnt: error" in said or "learning gained nothing" in said
    assert result.artefacts[0].accuracy
