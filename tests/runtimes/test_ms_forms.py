"""Every operator of ``.ms`` files with integers in the released runtimes: stored weights, dynamic quantization, full int8.

What a runtime gives is held against the model that the converter reads back from the file, and against the float model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.calibration.context import CalibrationContext
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.format import rebuild
from converter_lite.formats.mindspore_lite.planning import adapt_plan, for_device
from converter_lite.formats.mindspore_lite.policy import MS_CPU
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.graph import static_shape
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.settings import DynamicSettings, FullSettings
from converter_lite.runtime.context import RunContext
from tests.formats.paddle.test_grid_ends import GRAPHS, paired, weighted
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_case import Case
from tests.runtimes.ms_cases import FAMILIES
from tests.runtimes.ms_runtime import PLATFORMS, Platform
from tests.runtimes.test_ms_models import weights_quantized
from tests.support import Samples, build, normal, random_feed, run

pytestmark = pytest.mark.runtime

Array = NDArray[Any]

WEIGHTED = ("conv_", "deconv_", "matmul", "gemm", "gather_", "embedding", "lstm_", "gru_", "rnn_")
"""Beginnings of the names of cases whose operators have weights."""


DYNAMIC = DynamicSettings(portable=False, rows=False, recurrent_per_channel=False)


def stored() -> Iterator[tuple[str, Case, QuantizedModel]]:
    """Cases with a weight, which is stored as integers, in every width of whole bytes and one that is not, and dynamically."""
    for case in (case for family in FAMILIES for case in family() if case.name.startswith(WEIGHTED)):
        for bits in (4, 6, 8, 16):
            yield f"{case.name}_{bits}_bits", case, weights_quantized(case.graph(), bits)
        dynamic = quantize_dynamic(case.graph(), DYNAMIC, target="CPU", context=RunContext())
        yield f"{case.name}_dynamic", case, dynamic


def outputs(model: ir.Model, feed: dict[str, Array]) -> dict[str, Array]:
    kinds = {v.name: v.dtype.numpy() for v in model.graph.inputs if v.dtype is not None}
    return run(model, {name: array.astype(kinds[name]) for name, array in feed.items()})


def relative_error(found: Array, wanted: Array) -> float:
    """The largest difference, relative to the largest number."""
    error = np.abs(found.astype(np.float64) - wanted).max(initial=0)
    return float(error / max(np.abs(wanted).max(initial=0), 1e-9))


def problem(found: dict[str, Array], wanted: dict[str, Array], tolerance: float) -> str:
    """What is off by more than the tolerance, relative to the largest number."""
    for name, array in wanted.items():
        if found[name].shape != array.shape:
            return f"{name}: shape {found[name].shape}, not {array.shape}"
        error = relative_error(found[name], array)
        if not error <= tolerance:
            return f"{name}: off by {error:.2g}"
    return ""


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_stored_integers_give_what_is_read_back(platform: Platform, tally: Tally, tmp_path: Path) -> None:
    platform.skip_if_missing(shim=True)
    cases = {name: (case, quantized) for name, case, quantized in stored() if quantized.plan.weights}
    files = {name: (write(quantized), case.feed) for name, (case, quantized) in cases.items()}
    found = platform.run(files, tmp_path, shim=True)
    wrong = {}
    for name, (case, quantized) in cases.items():
        wanted = outputs(qdq_model(rebuild(files[name][0], like=quantized.model)), case.feed)
        text = found[name].error or problem(found[name].outputs, wanted, 2e-5)
        if text:
            wrong[name] = text
    tally(
        f"MindSpore Lite 2.0.0, {platform.name}", "operators, weights and dynamic", tried=len(cases), wrong=len(wrong)
    )
    assert len(cases) > 100
    assert wrong == {}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
@pytest.mark.parametrize("number", [1e-5, 999.0])
def test_a_number_alone_is_not_quantized_at_run_time(number: float, platform: Platform, tmp_path: Path) -> None:
    """A step of time, for example: it has no range of its own, and sums of such integers overflow on x86."""
    platform.skip_if_missing()
    settings = for_device(Choice(DynamicSettings(), MS_CPU), packed=True).settings
    assert isinstance(settings, DynamicSettings)
    weights = {"w": normal(1, 64), "v": normal(64, 8, seed=1)}
    model = build("g (float[1,1] x) => (float[1,8] y) { h = MatMul(x, w) y = MatMul(h, v) }", **weights)
    dynamic = quantize_dynamic(model.clone(), settings, target="CPU", context=RunContext())
    given = quantize_dynamic(model.clone(), DYNAMIC, target="CPU", context=RunContext())  # as of another format
    feed = {"x": np.full((1, 1), number, np.float32)}
    files = {"made": (write(dynamic), feed), "adapted": (write(adapt_plan(given)), feed)}
    found = platform.run(files, tmp_path, shim=True)
    wanted = run(model, feed)
    assert {name: found[name].error or problem(found[name].outputs, wanted, 0.02) for name in files} == {
        "made": "",
        "adapted": "",
    }


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_columns_that_died_keep_their_bias(platform: Platform, tmp_path: Path) -> None:
    """Steps of such a column are too small for its bias in 32 bits."""
    platform.skip_if_missing()
    first = normal(8, 8)
    first[:, 3:5] *= np.array([1e-12, 0.0], np.float32)
    weights = {"w": first, "b": normal(8, seed=1) + 2, "v": normal(8, 6, seed=2)}
    text = "g (float[2,4,8] x) => (float[2,4,6] y) { m = MatMul(x, w) h = Add(m, b) y = MatMul(h, v) }"
    model = build(text, **weights)
    feeds = [random_feed(model, seed=seed) for seed in range(4)]
    samples, context = Samples(feeds), CalibrationContext(threads=1)
    quantized = quantize_full(model.clone(), MS_CPU, FullSettings(), samples=samples, context=context)
    found = platform.run({"dead": (write(quantized), feeds[0])}, tmp_path)["dead"]
    assert (found.error or problem(found.outputs, run(model, feeds[0]), 0.03)) == ""


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_a_constant_behind_a_transpose_can_be_an_integer_operand(platform: Platform, tmp_path: Path) -> None:
    """Transposes of constants stay with ``--optimize=none``."""
    platform.skip_if_missing()
    text = "g (float[2,3,8] x) => (float[2,3,9] y) { h = MatMul(x, w) u = Transpose<perm=[1,0]>(t) y = MatMul(h, u) }"
    model = build(text, w=normal(8, 8), t=normal(9, 8, seed=1))
    feeds = [random_feed(model, seed=seed) for seed in range(4)]
    samples, context = Samples(feeds), CalibrationContext(threads=1)
    quantized = quantize_full(model.clone(), MS_CPU, FullSettings(), samples=samples, context=context)
    assert [quantized.plan.mode(node) for node in quantized.model.graph].count(NodeMode.INTEGER) >= 2
    found = platform.run({"turned": (write(quantized), feeds[0])}, tmp_path)["turned"]
    assert (found.error or problem(found.outputs, run(model, feeds[0]), 0.03)) == ""


BOUNDS = {"zero": 0.0, "low": -0.7, "half": 0.5, "two": 2.0, "six": 6.0, "much": np.inf}
CHANNELS = 8
BETWEEN = {
    "Relu": "h = Relu(a)",
    "Relu6": "h = Clip(a, zero, six)",
    "Clip both": "h = Clip(a, low, two)",
    "Clip above zero": "h = Clip(a, half, two)",
    "Clip below": "h = Clip(a, low, much)",
    "MaxPool": "h = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)",
    "MaxPool 3x3 padded": "h = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(a)",
    "MaxPool ceil": "h = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(a)",
    "AveragePool": "h = AveragePool<kernel_shape=[2,2], strides=[2,2]>(a)",
    "AveragePool padded": "h = AveragePool<kernel_shape=[3,3], strides=[1,2], pads=[1,1,1,1]>(a)",
    "AveragePool with its padding": "h = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(a)",
    "GlobalAveragePool": "h = GlobalAveragePool(a)",
    "AveragePool of 128": "h = AveragePool<kernel_shape=[16,8]>(a)",
    "AveragePool of 256": "c = Concat<axis=3>(a, a) h = AveragePool<kernel_shape=[16,16]>(c)",
    "GlobalAveragePool of 256": "c = Concat<axis=3>(a, a) h = GlobalAveragePool(c)",
    "Concat of channels": "b = Conv<pads=[1,1,1,1]>(x, other) h = Concat<axis=1>(a, b)",
    "Concat of rows": "b = Conv<pads=[1,1,1,1]>(x, other) h = Concat<axis=2>(a, b)",
    "Concat of equals": "h = Concat<axis=3>(a, a)",
    "Transpose": "h = Transpose<perm=[0,1,3,2]>(a)",
    "Transpose of a cube": "c = MaxPool<kernel_shape=[2,1], strides=[2,1]>(a) h = Transpose<perm=[0,3,1,2]>(c)",
    "Reshape": "h = Reshape(a, folded)",
    "Squeeze and Unsqueeze": "s = Squeeze(a, first) h = Unsqueeze(s, first)",
    "Add": "b = Conv<pads=[1,1,1,1]>(x, other) h = Add(a, b)",
    "two readers": "r = Relu(a) s = Sigmoid(r) h = Mul(r, s)",
}
CONVOLUTIONS = {
    f"{kind} {kernel}x{kernel}, stride {stride}, pads {pads}": (
        f"h = Conv<group={groups}, strides=[{stride},{stride}], pads={list(pads)}>(a, {kind}{kernel}, b8)"
    )
    for kind, groups in (("dense", 1), ("depthwise", CHANNELS))
    for kernel in (1, 3, 5)
    for stride in (1, 2)
    for pads in sorted({(0, 0, 0, 0), (kernel // 2,) * 4, (0, 0, kernel // 2, kernel // 2)})
}
FILTERS: dict[str, Any] = {
    **{f"dense{k}": normal(CHANNELS, CHANNELS, k, k, seed=k) / k for k in (1, 3, 5)},
    **{f"depthwise{k}": normal(CHANNELS, 1, k, k, seed=k) / k for k in (1, 3, 5)},
    "first_w": normal(CHANNELS, 3, 3, 3),
    "other": normal(CHANNELS, 3, 3, 3, seed=3),
    "b8": normal(CHANNELS),
    **{name: np.array(bound, np.float32) for name, bound in BOUNDS.items()},
    "folded": np.array([0, 0, -1, 4]),
    "first": np.array([0]),
}


ENDS = {"convolution": "[last] y = Conv(h, last_w)", "matrix product": "f = Flatten(h) [last] y = Gemm(f, rows, b5)"}


def integers() -> Iterator[tuple[str, ir.Model]]:
    """Operators between two layers with weights, so that they read and give integers."""
    for name, body in {**BETWEEN, **CONVOLUTIONS}.items():
        middle = network(f"{body} y = Identity(h)", "n,c,h,w", FILTERS)
        shape = static_shape(middle.graph.outputs[0])
        assert shape is not None
        size = math.prod(shape)
        sizes = {"last_w": normal(5, shape[1], 1, 1, seed=4), "rows": normal(size, 5, seed=5), "b5": normal(5)}
        for end, last in ENDS.items():
            rank = "n,c,h,w" if end == "convolution" else "n,c"
            yield f"{name}, {end}", network(f"{body} {last}", rank, {**FILTERS, **sizes})


def network(body: str, rank: str, constants: dict[str, Any]) -> ir.Model:
    text = f"g (float[1,3,16,8] x) => (float[{rank}] y) {{ [first] a = Conv<pads=[1,1,1,1]>(x, first_w, b8) {body} }}"
    named = re.findall(r"\w+", text)
    return build(text, opset=14, **{word: array for word, array in constants.items() if word in named})


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_integer_kernels_give_what_is_read_back(platform: Platform, tally: Tally, tmp_path: Path) -> None:
    """Kernels round twice where ONNX rounds once, so single values may lie a step beside."""
    platform.skip_if_missing()
    cases, files = {}, {}
    for name, model in integers():
        feeds = [random_feed(model, seed=seed) for seed in range(4)]
        settings = FullSettings(bias_correction=False, equalization=False)
        quantized = quantize_full(
            model.clone(), MS_CPU, settings, samples=Samples(feeds), context=CalibrationContext(threads=2)
        )
        modes = [quantized.plan.nodes[layer].mode for layer in ("first", "last")]
        assert modes == [NodeMode.INTEGER] * 2, name
        key = f"c{len(cases)}"
        cases[key] = (name, model, feeds[0])
        files[key] = (write(quantized), feeds[0])
    found = platform.run(files, tmp_path)
    wrong = {}
    for key, (name, model, feed) in cases.items():
        claimed = outputs(qdq_model(rebuild(files[key][0], like=model)), feed)
        wanted = run(model, feed)
        allowed = 0.01 + 1.5 * relative_error(
            claimed["y"], wanted["y"]
        )  # as many steps again as quantization itself costs
        text = found[key].error or problem(found[key].outputs, claimed, allowed)
        text = text or problem(found[key].outputs, wanted, 0.08)
        if text:
            wrong[name] = text
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "operators, full int8", tried=len(cases), wrong=len(wrong))
    assert wrong == {}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_pairs_between_floats_cut_off_what_is_beyond_their_grid(platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing(shim=True)
    feed = {"x": 4 * normal(1, 4, 6, 6)}
    models = {re.sub(r"\W+", "_", name): weighted(graph) for name, graph in GRAPHS.items()}
    files = {name: (write(adapt_plan(read_qdq(paired(text)))), feed) for name, text in models.items()}
    found = platform.run(files, tmp_path, shim=True)
    said = {n: found[n].error or problem(found[n].outputs, run(paired(text), feed), 0.05) for n, text in models.items()}
    assert said == dict.fromkeys(models, "")


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_a_file_can_be_resized_to_another_batch(platform: Platform, tmp_path: Path) -> None:
    """Three samples through a file that was written for one; what a Reshape fixes beside the batch stays."""
    platform.skip_if_missing(shim=True)
    weights = {
        "w": normal(20, 3, 3, 3),
        "v": normal(20, 5, seed=2),
        "u": normal(20 * 16, 5, seed=3),
        "k": normal(16, 16),
    }
    start = "g (float[1,3,6,6] x) => (float[1,5] y) { c = Conv(x, w)"
    texts = {
        "pooled": f"{start} p = GlobalAveragePool(c) f = Flatten(p) y = Gemm(f, v) }}",
        "flat": f"{start} f = Flatten(c) y = Gemm(f, u) }}",
        "reshaped": f"{start} r = Relu(c) f = Reshape(r, s) y = Gemm(f, u) }}",
        "heads": "g (float[1,6,16] x) => (float[1,6,4,4] y) { m = MatMul(x, k) h = Reshape(m, t) y = Relu(h) }",
    }
    shapes = {"s": np.array([1, 320]), "t": np.array([1, 6, 4, 4])}
    models = {name: build(text, **weights, **shapes) for name, text in texts.items()}
    files, wanted = {}, {}
    for name, model in models.items():
        samples = Samples(random_feed(model, seed=seed) for seed in range(3))
        full = quantize_full(model.clone(), MS_CPU, FullSettings(), samples=samples, context=CalibrationContext())
        feed = {"x": np.concatenate([sample["x"] for sample in samples])}
        for kind, quantized in (("float", QuantizedModel(model.clone(), QuantPlan("CPU"))), ("full", full)):
            files[f"{name}_{kind}"] = write(quantized), feed
            wanted[f"{name}_{kind}"] = {"y": np.concatenate([run(model, sample)["y"] for sample in samples])}
    found = platform.run(files, tmp_path, shim=True)
    wrong = {name: found[name].error or problem(found[name].outputs, wanted[name], 0.05) for name in files}
    assert wrong == dict.fromkeys(files, "")
