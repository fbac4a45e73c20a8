"""Real models in every mode in the released runtimes, beside onnxruntime on the model rebuilt from the same file."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from PIL import Image

from converter_lite.calibration.context import CalibrationContext
from converter_lite.formats.mindspore_lite.enums import Compression
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.format import MS_REQUIREMENTS, rebuild
from converter_lite.formats.mindspore_lite.importer.reader import read
from converter_lite.formats.mindspore_lite.options import Compatibility, MsOptions
from converter_lite.formats.mindspore_lite.policy import MS_CPU, economical_spec
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.graph import constant
from converter_lite.kernels.params import QuantSpec, weight_params
from converter_lite.pipeline.prepare import optimized as formed
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.settings import FullSettings
from converter_lite.targets.operands import stored_axis, stored_weight
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS, Outcome, Platform
from tests.support import MODELS, build, exact_session, normal, shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

Feed = dict[str, NDArray[Any]]
FILES = {
    "ultraface": ("ultraface_rfb_320.onnx", {}),
    "mobilenet": ("mobilenet_v1_0.75_224.onnx", {"input": (1, 3, 224, 224)}),
    "resnet8": ("resnet8_cifar10.onnx", {"input_1": (1, 32, 32, 3)}),
    "minilm": (
        "minilm_l6_fp16_weights.onnx",
        dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 128)),
    ),
}
PICTURES = {"ultraface": "imagenet_calib", "mobilenet": "imagenet_calib", "resnet8": "cifar10_calib"}
WHEEL = MsOptions(compatibility=Compatibility.WHEEL)
on_both = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)


@functools.lru_cache(maxsize=1)
def optimized(name: str) -> ir.Model:
    file, shapes = FILES[name]
    return formed(read_onnx(shared_model(file), input_shapes=shapes), MS_REQUIREMENTS)[0]


def picture(name: str, path: Path) -> Feed:
    """A picture as the model wants it."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
        if name == "resnet8":
            return {"input_1": np.asarray(image, np.float32)[None]}
        size, middle, scale = ((320, 240), 127.0, 128.0) if name == "ultraface" else ((224, 224), 127.5, 127.5)
        pixels = (np.asarray(image.resize(size), np.float32) - middle) / scale
    return {"input": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])}


def feeds(name: str, count: int, *, start: int = 0) -> list[Feed]:
    """Samples of the shared data; token ids for MiniLM."""
    if name == "minilm":
        rng = np.random.default_rng(start)
        ones, zeros = np.ones((1, 128), np.int64), np.zeros((1, 128), np.int64)
        ids = [rng.integers(1000, 20000, (1, 128)) for _ in range(count)]
        return [{"input_ids": i, "attention_mask": ones, "token_type_ids": zeros} for i in ids]
    folder = MODELS.parent / PICTURES[name]
    return [picture(name, path) for path in sorted(folder.iterdir())[start : start + count]]


class Recorded:
    """Samples for the calibration."""

    def __init__(self, samples: list[Feed]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._samples)

    def head(self, count: int) -> list[Feed]:
        return self._samples[:count]


def onnx_outputs(model: ir.Model, samples: list[Feed]) -> list[dict[str, NDArray[Any]]]:
    # not optimized: the graph is compared operator by operator, fusions of the reference would only blur it
    session = exact_session(model)
    kinds = {v.name: v.dtype.numpy() for v in model.graph.inputs if v.dtype is not None}
    return [session.run({name: array.astype(kinds[name]) for name, array in feed.items()}) for feed in samples]


def cosines(outcome: Outcome, reference: dict[str, NDArray[Any]]) -> list[float]:
    assert not outcome.error, outcome.error
    found = []
    for name, array in reference.items():
        a, b = outcome.outputs[name].reshape(-1).astype(np.float64), array.reshape(-1).astype(np.float64)
        found.append(float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))))
    return found


STORED = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Gather")


def weights_quantized(
    model: ir.Model, bits: int, mode: NodeMode = NodeMode.WEIGHT, *, economical: bool = False
) -> QuantizedModel:
    """Every constant weight per channel, rounded to nearest."""
    plan = QuantPlan("CPU")
    symmetric = mode is NodeMode.DYNAMIC
    for node in model.graph:
        weight = stored_weight(node)
        suits = node.op_type in (("MatMul", "Gemm") if symmetric else STORED)
        if weight is None or not suits or weight.name is None:
            plan.keep_float(node, "no weight")
            continue
        values = np.asarray(constant(weight), np.float32)
        spec = QuantSpec(bits, symmetric=symmetric, narrow_range=symmetric, axis=stored_axis(node, weight))
        if economical and spec.axis is not None:
            spec = economical_spec(spec, channels=values.shape[spec.axis], elements=values.size)
        plan.quantize(node, mode)
        plan.weights[weight.name] = weight_params(values, spec)
    return QuantizedModel(model, plan)


@on_both
@pytest.mark.parametrize("name", FILES)
def test_float_models_give_the_numbers_of_onnxruntime(
    name: str, platform: Platform, tally: Tally, tmp_path: Path
) -> None:
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "whole models, float")
    platform.skip_if_missing()
    model = optimized(name)
    sample = feeds(name, 1)[0]
    data = write(QuantizedModel(model, QuantPlan("CPU")))
    outcome = platform.run({name: (data, sample)}, tmp_path)[name]
    assert not outcome.error, outcome.error
    for output, expected in onnx_outputs(model, [sample])[0].items():
        error = np.abs(outcome.outputs[output] - expected).max() / np.abs(expected).max()
        assert error <= 1e-4
    transposes = sum(node.op == "Transpose" for node in read(data).nodes)
    assert transposes == (24 if name == "minilm" else 0)  # MiniLM: four per attention block are its own


FEW_WIDTHS = {"minilm": 4}
"""Widths of one test where all sixteen files together would fill the memory."""


@on_both
@pytest.mark.parametrize("wheel", [False, True], ids=["device", "wheel"])
@pytest.mark.parametrize(
    ("name", "first"), [("ultraface", 1), ("mobilenet", 1), *(("minilm", bits) for bits in (1, 5, 9, 13))]
)
def test_weight_quantized_files_compute_what_they_hold(
    name: str, first: int, wheel: bool, platform: Platform, tally: Tally, tmp_path: Path
) -> None:
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "whole models, weight")
    platform.skip_if_missing(shim=not wheel)
    model, sample = optimized(name), feeds(name, 1, start=20)[0]
    options = WHEEL if wheel else MsOptions()
    widths = range(first, first + FEW_WIDTHS.get(name, 16))
    files = {f"w{bits}": write(weights_quantized(model, bits), options=options) for bits in widths}
    outcomes = platform.run({n: (data, sample) for n, data in files.items()}, tmp_path, shim=not wheel)
    for case, data in files.items():
        reference = onnx_outputs(rebuild(data, like=model).model, [sample])[0]
        assert min(cosines(outcomes[case], reference)) >= 0.9999, case


@on_both
@pytest.mark.parametrize("name", ["ultraface", "mobilenet", "resnet8"])
def test_integer_files_compute_what_they_hold(name: str, platform: Platform, tally: Tally, tmp_path: Path) -> None:
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "whole models, full")
    platform.skip_if_missing()
    model = optimized(name).clone()
    samples = Recorded(feeds(name, 20))
    quantized = quantize_full(model, MS_CPU, FullSettings(), samples=samples, context=CalibrationContext(threads=2))
    data = write(quantized)
    # ResNet-8 answers small pictures with near ties, where one step of a logit moves much of the softmax: more samples
    tried = feeds(name, 48 if name == "resnet8" else 8, start=40)
    outcomes = platform.run({f"s{i}": (data, feed) for i, feed in enumerate(tried)}, tmp_path)
    references = onnx_outputs(qdq_model(rebuild(data, like=model)), tried)
    floats = onnx_outputs(optimized(name), tried)
    held = [np.mean(cosines(outcomes[f"s{i}"], reference)) for i, reference in enumerate(references)]
    real = [np.mean(cosines(outcomes[f"s{i}"], reference)) for i, reference in enumerate(floats)]
    assert np.mean(held) >= 0.999
    assert np.mean(real) >= 0.997


@on_both
def test_widths_and_granularities_can_be_mixed(platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing(shim=True)
    model, sample = optimized("ultraface"), feeds("ultraface", 1, start=20)[0]
    quantized = weights_quantized(model, 8)
    for number, (name, params) in enumerate(quantized.plan.weights.items()):
        value = np.asarray(constant(model.graph.initializers[name]), np.float32)
        spec = QuantSpec(4 + number % 13, axis=params.spec.axis if number % 2 else None)
        quantized.plan.weights[name] = weight_params(value, spec)
    data = write(quantized)
    encodings = {t.compression for t in read(data).tensors if t.is_constant}
    assert Compression.FSE in encodings
    outcome = platform.run({"mixed": (data, sample)}, tmp_path, shim=True)["mixed"]
    assert min(cosines(outcome, onnx_outputs(rebuild(data, like=model).model, [sample])[0])) >= 0.9999


@on_both
def test_constants_can_be_stored_as_float16(platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing()
    model, sample = optimized("ultraface"), feeds("ultraface", 1)[0]
    data = write(QuantizedModel(model, QuantPlan("CPU")), options=MsOptions(float16=True))
    outcome = platform.run({"half": (data, sample)}, tmp_path)["half"]
    assert min(cosines(outcome, onnx_outputs(model, [sample])[0])) >= 0.9999


@on_both
def test_constants_of_choices_and_of_sums_at_places_are_loaded_beside_float16(
    platform: Platform, tmp_path: Path
) -> None:
    platform.skip_if_missing()
    text = """g (float[3,4] x) => (float[3,4] y) {
        b = Greater(x, zero) a = Where(b, half, x) c = Where(b, a, table)
        s = ScatterND<reduction="add">(table, places, c) y = Mul(s, table)
    }"""
    constants = {"zero": np.zeros((), np.float32), "half": np.array(0.5, np.float32), "table": normal(3, 4, seed=1)}
    model = build(text, opset=17, **constants, places=np.array([[2], [0], [1]]))
    data = write(QuantizedModel(model, QuantPlan("CPU")), options=MsOptions(float16=True))
    sample = {"x": normal(3, 4)}
    outcome = platform.run({"choices": (data, sample)}, tmp_path)["choices"]
    assert min(cosines(outcome, onnx_outputs(model, [sample])[0])) >= 0.99999


@on_both
def test_rows_of_a_float16_table_are_chosen_from_and_added_at_places(platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing()
    text = """g (float[4,640] x, int64[4] words) => (float[4,640] y) {
        rows = Gather<axis=0>(table, words) b = Greater(x, zero) a = Where(b, rows, x) c = Where(b, wide, a)
        one = ReduceMax<axes=[0], keepdims=1>(x) rest = Concat<axis=0>(three, one) d = Where(b, rest, c)
        s = ScatterND<reduction="add">(rows, places, d) y = Relu(s)
    }"""
    constants = {"table": normal(9, 640, seed=1), "three": normal(3, 640, seed=2), "wide": normal(1, 640, seed=3)}
    constants["zero"] = np.zeros((), np.float32)
    model = build(text, opset=17, **constants, places=np.array([[2], [0], [1], [3]]))
    data = write(QuantizedModel(model, QuantPlan("CPU")), options=MsOptions(float16=True))
    sample = {"x": normal(4, 640), "words": np.array([3, 8, 0, 3])}
    outcome = platform.run({"rows": (data, sample)}, tmp_path)["rows"]
    assert min(cosines(outcome, onnx_outputs(model, [sample])[0])) >= 0.99999


@on_both
def test_a_dynamic_file_is_close_to_float(platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing()
    model, sample = optimized("minilm"), feeds("minilm", 1)[0]
    data = write(weights_quantized(model, 8, NodeMode.DYNAMIC))
    outcome = platform.run({"dynamic": (data, sample)}, tmp_path)["dynamic"]
    assert min(cosines(outcome, onnx_outputs(model, [sample])[0])) >= 0.98


def test_tiny_channels_are_stored_economically() -> None:
    model = optimized("ultraface")
    data = write(weights_quantized(model, 8, economical=True))
    tried = feeds("ultraface", 5, start=20)
    rebuilt = onnx_outputs(rebuild(data, like=model).model, tried)
    for got, expected in zip(rebuilt, onnx_outputs(model, tried), strict=True):
        assert min(cosines(Outcome(got), expected)) >= 0.99999
    assert len(data) <= 480_000
