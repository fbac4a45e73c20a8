"""Which layers count as those that read a picture, and what they are to a quantized network."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converter_lite.formats.mindspore_lite.policy import MS_CPU
from converter_lite.quantization.placement import decide_nodes
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.stem import FEW_INPUTS, FEW_OUTPUTS, SMALL_KERNEL, stem
from converter_lite.targets.devices import CPU
from converter_lite.targets.policy import StemLimits
from converter_lite.targets.spec import TargetSpec
from tests.support import build, full, normal, optimized, samples_of, sqnr, written

LIMITS = StemLimits(share=0.02, narrow=32)

DEPTHWISE = "d = Relu(c) e = Conv<group=8, pads=[1,1,1,1]>(d, depthwise)"


def network(
    text: str, behind: str = DEPTHWISE, *, inputs: int = 3, outputs: int = 8, kernel: int = 3, wide: int = 600
) -> ir.Model:
    """A picture network: ``text`` makes ``c`` of ``x``, ``behind`` makes ``e`` of it, two wide layers follow."""
    constants = {
        "first": normal(outputs, inputs, kernel, kernel, seed=1) * 0.3,
        "b": normal(outputs, seed=2),
        "depthwise": normal(outputs, 1, 3, 3, seed=3),
        "second": normal(wide, outputs, 1, 1, seed=4),
        "third": normal(wide, wide, 1, 1, seed=5) * 0.1,
    }
    head = "f = Conv(e, second) h = Relu(f) y = Conv(h, third)"
    return build(f"g (float[1,{inputs},12,12] x) => (float[n,c,h,w] y) {{ {text} {behind} {head} }}", **constants)


def names(model: ir.Model) -> list[str]:
    return [node.outputs[0].name or "" for node in stem(model, LIMITS)]


def test_the_first_convolution_and_the_depthwise_one_behind_it() -> None:
    assert names(network("c = Conv(x, first, b)")) == ["c", "e"]
    assert names(network("c = Conv(x, first, b)", "e = Conv<group=8, pads=[1,1,1,1]>(c, depthwise)")) == ["c", "e"]
    assert names(network("c = Conv(x, first, b)", "e = Relu(c)")) == ["c"]


def test_narrow_layers_behind_it() -> None:
    behind = f"{DEPTHWISE} p = Relu(e) q = Conv(p, narrow) r = Conv(q, broad) e2 = Relu(r)"
    constants = {
        "first": normal(8, 3, 3, 3, seed=1),
        "depthwise": normal(8, 1, 3, 3, seed=3),
        "narrow": normal(32, 8, 1, 1, seed=4),
        "broad": normal(33, 32, 1, 1, seed=5),
        "last": normal(3000, 33, 1, 1, seed=6),
    }
    text = f"g (float[1,3,12,12] x) => (float[n,c,h,w] y) {{ c = Conv(x, first) {behind} y = Conv(e2, last) }}"
    assert names(build(text, **constants)) == ["c", "e", "q"]


def test_a_change_of_layout_in_front_is_looked_through() -> None:
    text = "t = Transpose<perm=[0,1,3,2]>(x) c = Conv(t, first, b)"
    assert names(network(text)) == ["c", "e"]


@pytest.mark.parametrize(
    "sizes",
    [
        {"inputs": FEW_INPUTS + 1, "wide": 1200},
        {"outputs": FEW_OUTPUTS + 8, "wide": 1200},
        {"kernel": 7, "wide": 1200},
        {"wide": 80},
    ],
    ids=["many input channels", "many output channels", "a large kernel", "more than two hundredths of the network"],
)
def test_layers_that_integers_compute_faster_are_none(sizes: dict[str, int]) -> None:
    assert names(network("c = Conv(x, first, b)", "e = Relu(c)", **sizes)) == []


def test_a_convolution_that_reads_features_is_none() -> None:
    assert names(network("a = Relu(x) c = Conv(a, first, b)")) == []


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.sampled_from([8, 16, 32, 40]), st.integers(1, 4), st.sampled_from([8, 64, 600]))
def test_the_stem_never_exceeds_its_bounds(inputs: int, outputs: int, kernel: int, wide: int) -> None:
    model = network("c = Conv(x, first, b)", "e = Relu(c)", inputs=inputs, outputs=outputs, kernel=kernel, wide=wide)
    total = sum(value.const_value.size for n, value in model.graph.initializers.items() if value.uses() and n != "b")  # type: ignore[union-attr]
    own = outputs * inputs * kernel**2
    within = (
        inputs <= FEW_INPUTS and outputs <= FEW_OUTPUTS and kernel**2 <= SMALL_KERNEL and own <= LIMITS.share * total
    )
    assert bool(stem(model, LIMITS)) == within


def test_cpu_leaves_the_stem_in_float_and_gains_accuracy() -> None:
    model = network("c = Conv(x, first, b)")
    samples = samples_of(model)
    cpu, dsp = full(model.clone(), samples=samples), full(model.clone(), "DSP", per_channel=True, samples=samples)
    modes = [cpu.plan.mode(node) for node in cpu.model.graph]
    assert modes[:3] == [NodeMode.FLOAT] * 3
    assert NodeMode.FLOAT not in modes[3:]
    assert "x" not in cpu.plan.activations
    assert sqnr(model, written(cpu), samples) > sqnr(model, written(dsp), samples)


@pytest.mark.parametrize("target", [CPU, MS_CPU], ids=["onnxruntime", "MindSpore Lite"])
def test_both_runtimes_of_the_cpu_compute_it_in_float(target: TargetSpec) -> None:
    model = network("c = Conv(x, first, b)")
    plan = decide_nodes(model, target, frozenset())
    assert [node.op_type for node in model.graph if plan.mode(node) is NodeMode.FLOAT] == ["Conv", "Relu", "Conv"]


def test_the_layers_behind_the_stem_run_in_integer_kernels(tmp_path: Path) -> None:
    kernels = optimized(written(full(network("c = Conv(x, first, b)"))), tmp_path)
    assert kernels["QLinearConv"] == 2
    assert kernels["QuantizeLinear"] == 1
