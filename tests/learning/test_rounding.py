"""Networks that learn their rounding from the float network."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("torch", reason="tests/runtimes/test_learning.py runs these where PyTorch is")

import torch

from converter_lite.config import config_from_mapping
from converter_lite.errors import ModelError
from converter_lite.learning import pace, rounding
from converter_lite.learning.blocks import blocks_of
from converter_lite.learning.judge import Judge
from converter_lite.learning.network import Network
from converter_lite.learning.rounding import learn_rounding
from converter_lite.learning.training import Optimizer
from converter_lite.log import DETAILED, Log
from converter_lite.pipeline.convert import run
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.score import Scorer
from converter_lite.quantization.settings import Learning, WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.saturation import saturating_weights
from tests.support import Feed, Samples, build, full, normal, random_feed, written

NETWORK = """g (float[n,3,16,16] x) => (float[n,5] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) b = Relu(a)
    c = Conv<pads=[1,1,1,1],group=24>(b, w2, b2) d = Relu(c)
    e = Conv(d, w3, b3) f = Relu(e)
    h = Conv<pads=[1,1,1,1],strides=[2,2]>(f, w4, b4) i = Relu(h)
    p = GlobalAveragePool(i) q = Flatten(p) y = Gemm<transB=1>(q, w5, b5) }"""


def network(text: str = NETWORK, **more: Any) -> ir.Model:
    shapes = {"w1": (24, 3, 3, 3), "w2": (24, 1, 3, 3), "w3": (24, 24, 1, 1), "w4": (24, 24, 3, 3), "w5": (5, 24)}
    constants: dict[str, Any] = {
        name: normal(*shape, seed=i) / np.float32(np.sqrt(np.prod(shape[1:])))
        for i, (name, shape) in enumerate(shapes.items())
    }
    constants |= {f"b{i}": normal(size, seed=i) / 4 for i, size in enumerate((24, 24, 24, 24, 5), 1)}
    return build(text, **{**constants, **more})


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "NODE_SECONDS", 2e-3)
    monkeypatch.setattr(rounding, "OVERDUE", 1000)


def samples(count: int, start: int = 0) -> Samples:
    return Samples(random_feed(network(), seed=seed, dynamic=1) for seed in range(start, start + count))


def of_three_bits() -> QuantizedModel:
    settings = WeightSettings(bits=3, min_channel=0, per_channel=False, bias_correction=False)
    return quantize_weights(network(), settings, target="CPU", samples=samples(20), context=RunContext())


def test_what_is_learnt_is_nearer_to_the_float_network_on_other_samples() -> None:
    before = of_three_bits()
    after = learn_rounding([before], network(), samples(20), Learning(seconds=2), RunContext())
    scorer = Scorer(network(), samples(16, start=1000), RunContext())
    assert scorer(written(after)).noise < 0.95 * scorer(written(before)).noise


def test_constants_and_inputs_that_are_outputs_stay_as_they_are() -> None:
    model = network(
        NETWORK.replace("(float[n,5] y)", "(float[n,5] y, float[2] kept, float[24] b1, float[n,3,16,16] x)"),
        kept=np.array([1.0, 2.0], np.float32),
    )
    settings = WeightSettings(bits=3, min_channel=0, per_channel=False, bias_correction=False)
    before = quantize_weights(model, settings, target="CPU", samples=samples(20), context=RunContext())
    after = learn_rounding([before], model, samples(20), Learning(seconds=2), RunContext())
    assert Network(model).evaluate({"x": torch.zeros(1, 3, 16, 16)}, ["kept", "x"])["kept"].tolist() == [1.0, 2.0]
    assert [str(value.name) for value in after.model.graph.outputs] == ["y", "kept", "b1", "x"]


@pytest.mark.parametrize("part", ["a table", "a product whose grids are given"])
def test_a_network_in_which_nothing_can_learn_stays_as_it_is(part: str) -> None:
    text = "e = Gather(w, i) s = Softmax(x) y = Mul(e, s)" if part == "a table" else "e = Gather(w, i) y = MatMul(x, w)"
    model = build(f"g (float[8,8] x, int64[8] i) => (float[8,8] y, float[8,8] e) {{ {text} }}", w=normal(8, 8))
    feeds = Samples({"x": normal(8, 8, seed=seed), "i": np.arange(8)[::-1].copy()} for seed in range(12))
    settings = WeightSettings(bits=4, min_channel=0, min_size=0, per_channel=False, bias_correction=False)
    before = quantize_weights(model, settings, target="CPU", samples=feeds, context=RunContext())
    after = learn_rounding([before], model, feeds, Learning(seconds=1, grids=False), RunContext())
    assert after is before


def test_a_channel_without_deviation_does_not_end_learning() -> None:
    """The slope of a square root is infinite at 0: the gradient of what it reads would be NaN."""
    text = NETWORK.replace("p = GlobalAveragePool(i)", "s = Mul(i, i) m = GlobalAveragePool(s) p = Sqrt(m)")
    model = network(text, b4=np.where(np.arange(24) == 0, np.float32(-50), normal(24, seed=4) / 4))
    before = full(model, samples=samples(20))
    after = learn_rounding([before], model, samples(20), Learning(seconds=2), RunContext())
    scorer = Scorer(model, samples(16, start=1000), RunContext())
    assert scorer(written(after)).noise < 0.5 * scorer(written(before)).noise


def test_nothing_moves_by_a_gradient_that_is_not_finite() -> None:
    student = Network(of_three_bits().model, of_three_bits())
    before = {name: value.clone() for name, value in student.state_dict().items()}
    optimizer = Optimizer(student, 2, {})
    bias = student.biases["b1"]
    optimizer.step(lambda: [(bias * torch.tensor(0.0)).sqrt().sum()])
    assert bias.grad is not None and not bias.grad.isfinite().all()
    assert all(torch.equal(value, before[name]) for name, value in student.state_dict().items())
    optimizer.step(lambda: [bias.square().sum()])
    assert not torch.equal(bias, before[next(n for n, p in student.named_parameters() if p is bias)])


def test_the_seed_decides_what_is_learnt() -> None:
    before = of_three_bits()
    plans = [
        learn_rounding([before], network(), samples(20), Learning(seconds=1, seed=seed), RunContext()).plan.to_json()
        for seed in (0, 0, 1)
    ]
    assert plans[0] == plans[1] != plans[2]


def test_grids_of_a_given_plan_stay() -> None:
    before = of_three_bits()
    after = learn_rounding([before], network(), samples(20), Learning(seconds=12, grids=False), RunContext())
    assert after.plan.to_json() == before.plan.to_json()
    assert any(not np.array_equal(after.integers(name), before.integers(name)) for name in before.plan.weights)


def test_a_network_that_gains_nothing_is_returned_as_it_was() -> None:
    model, log = network(), Log()
    settings = WeightSettings(bits=16, min_channel=0)
    before = quantize_weights(model, settings, target="CPU", samples=samples(8), context=RunContext())
    teacher = replace(before, model=network())
    after = learn_rounding([teacher], network(), samples(8), Learning(seconds=2), RunContext(log=log))
    if any("gained nothing" in warning for warning in log.warnings):
        assert after is teacher
    else:
        scorer = Scorer(network(), samples(8)[4::5], RunContext())
        assert scorer(written(after)).noise < scorer(written(teacher)).noise


@pytest.mark.parametrize("is_last", [False, True])
def test_it_starts_with_the_nearest_of_several_results(is_last: bool) -> None:
    fine = quantize_weights(network(), WeightSettings(bits=16, min_channel=0), target="CPU", context=RunContext())
    coarse, fine = of_three_bits(), replace(fine, model=network())
    starts = [coarse, fine] if is_last else [fine, coarse]
    after = learn_rounding(starts, network(), samples(10), Learning(seconds=1), RunContext())
    assert {params.spec.bits for params in after.plan.weights.values()} == {16}


def test_it_starts_with_the_last_of_several_results_that_are_equally_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "is_gain", lambda *_: False)
    starts = [of_three_bits(), of_three_bits()]
    assert learn_rounding(starts, network(), samples(10), Learning(seconds=1), RunContext()) is starts[1]


def test_blocks_lead_from_the_input_to_the_output() -> None:
    quantized = of_three_bits()
    found = blocks_of(quantized.model.graph, quantized.plan, {})
    assert [block.weights for block in found] == [("w1", "w2"), ("w3", "w4"), ("w5",)]
    assert [block.outputs for block in found] == [("d",), ("i",), ("y",)]
    assert [block.inputs for block in found] == [(), ("d",), ("i",)]


def test_the_work_of_a_block_counts_open_sizes_as_the_samples_have_them() -> None:
    """Where the length of a text is open, a step was announced with 1/128 of its time."""
    model = build(
        "g (float[B,N,8] x) => (float[B,N,4] y) { a = MatMul(x, w1) h = Relu(a) y = MatMul(h, w2) }",
        w1=normal(8, 16),
        w2=normal(16, 4),
    )
    quantized = full(model, samples=Samples({"x": normal(1, 5, 8, seed=seed)} for seed in range(4)))
    (open_sizes,) = blocks_of(quantized.model.graph, quantized.plan, {})
    (known,) = blocks_of(quantized.model.graph, quantized.plan, {"a": 5 * 16, "y": 5 * 4, "h": 5 * 16})
    assert known.work == 5 * open_sizes.work == 5 * (8 * 16 + 16 * 4 + 16)
    assert known.positions == 5


def converted(folder: Path, sections: Mapping[str, Mapping[str, str]], save_type: str) -> tuple[str, Path, Any]:
    """Log, path and result of a conversion."""
    model, text = folder / "model.onnx", io.StringIO()
    ir.save(network(), model)
    request = ConvertRequest(
        fmk="ONNX",
        model_file=model,
        output_file=folder / "out",
        save_type=(save_type,),
        config=config_from_mapping({name: dict(keys) for name, keys in sections.items()}, external_data=True),
        calibration_data=lambda: iter(samples(12)),
        input_shape={"x": (1, 3, 16, 16)},
    )
    result = run(request, Log(verbosity=DETAILED, stream=text))
    return text.getvalue(), result.artefacts[0].path, result


TYPES = {
    "WEIGHT_QUANT": ("weight_quant_param", {"bit_num": "4", "min_quant_weight_channel": "0"}),
    "FULL_QUANT": ("full_quant_param", {}),
    "DYNAMIC_QUANT": ("dynamic_quant_param", {}),
}


@pytest.mark.parametrize(
    ("quant_type", "save_type"),
    [
        ("WEIGHT_QUANT", "ONNX"),
        ("WEIGHT_QUANT", "MINDIR_LITE"),
        ("FULL_QUANT", "ONNX"),
        ("FULL_QUANT", "MINDIR_LITE"),
        ("FULL_QUANT", "NAIVE_BUFFER"),
        ("DYNAMIC_QUANT", "ONNX"),
    ],
)
def test_every_type_and_format_takes_what_is_learnt(quant_type: str, save_type: str, tmp_path: Path) -> None:
    section, common = TYPES[quant_type]
    sections = {
        "common_quant_param": {"quant_type": quant_type, "learn_seconds": "1", **common},
        section: {"rounding": "LEARNED"},
    }
    said, path, result = converted(tmp_path, sections, save_type)
    assert "learning from the float network" in said
    assert "learnt: error" in said or "learning gained nothing" in said
    assert result.artefacts[0].accuracy
    if save_type == "ONNX" and quant_type != "WEIGHT_QUANT":
        assert not saturating_weights(ir.load(path))


def test_what_cannot_learn_is_refused_before_a_sample_is_read(tmp_path: Path) -> None:
    constants = {"w": normal(6, 3, 3, 3), "shape": np.array([1, -1])}
    text = """g (float[1,3,8,8] x) => (float[1,216] y) {
        [early] h = Hardmax(x) a = Conv(h, w) y = Reshape(a, shape) }"""
    ir.save(build(text, **constants), tmp_path / "model.onnx")

    def none() -> Iterator[Feed]:
        raise AssertionError("a sample was read")

    sections = {"common_quant_param": {"quant_type": "FULL_QUANT"}, "full_quant_param": {"rounding": "LEARNED"}}
    request = ConvertRequest(
        fmk="ONNX",
        model_file=tmp_path / "model.onnx",
        output_file=tmp_path / "out",
        save_type=("ONNX",),
        config=config_from_mapping(sections, external_data=True),
        calibration_data=none,
    )
    with pytest.raises(ModelError, match=r"there are no gradients of Hardmax") as caught:
        run(request, Log(stream=io.StringIO()))
    assert "early" in str(caught.value.where)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
