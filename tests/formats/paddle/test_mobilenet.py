"""A real MobileNet as Paddle models: float, and quantized by PaddleSlim in both of its formats."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from PIL import Image

from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.inference_model.reader import load, locate, read_paddle
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.planning import adapt_plan
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.writing import write
from tests.support import MODELS, shared_model

pytestmark = pytest.mark.shared
Array = NDArray[Any]

FOLDER = MODELS / "paddle_mobilenet_v1_075"
PADDLES_DROP = 0.842 - 0.819
"""Top-1 that Paddle itself loses with these scales, on 900 pictures."""


@pytest.fixture(autouse=True)
def _models_are_there() -> None:
    if not FOLDER.is_dir():
        pytest.skip("the Paddle models are not beside the checkout")


@cache
def pictures() -> tuple[Array, Array]:
    """Labels and pictures: 256x256, centre crop 224, -1 to 1."""
    labels, arrays = [], []
    for path in sorted((MODELS.parent / "imagenet_eval").iterdir()):
        image = Image.open(path).convert("RGB").resize((256, 256), Image.Resampling.BILINEAR).crop((16, 16, 240, 240))
        arrays.append((np.asarray(image, np.float32).transpose(2, 0, 1) - 127.5) / 127.5)
        labels.append(int(path.name.split("_")[0]))
    return np.array(labels), np.stack(arrays)


def top1(model: bytes | Path, name: str) -> float:
    labels, images = pictures()
    session = DEFAULT_ENGINE.session(model)
    found = [next(iter(session.run({name: part}).values())).argmax(axis=1) for part in np.array_split(images, 20)]
    return float(np.mean(np.concatenate(found) == labels))


def serialized(model: ir.Model) -> bytes:
    return ir.to_proto(model).SerializeToString()


def test_the_float_model_equals_its_onnx_twin() -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    twin = DEFAULT_ENGINE.session(shared_model("mobilenet_v1_0.75_224.onnx")).run({"input": image})["prob"]
    ours = DEFAULT_ENGINE.session(serialized(read_paddle(FOLDER / "fp32").model)).run({"image": image})
    assert np.abs(next(iter(ours.values())) - twin).max() < 1e-4


def test_the_scales_of_a_quantized_model_are_kept_exactly() -> None:
    parameters = load(*locate(FOLDER / "ptq", None))[1]
    plan = read_paddle(FOLDER / "ptq").plan
    assert len(plan.activations) == len(plan.weights) == 28
    for name, params in plan.activations.items():
        largest = parameters[f"{name}@scale"].reshape(-1)[0]
        assert float(params.scale) == float(np.float32(largest / np.float32(127)))


def test_both_formats_say_the_same() -> None:
    older, newer = (read_paddle(FOLDER / kind) for kind in ("ptq", "ptq_onnx_format"))
    for first, second in zip(older.plan.weights, newer.plan.weights, strict=True):
        assert np.array_equal(older.integers(first), newer.integers(second))
        assert np.allclose(older.plan.weights[first].scale, newer.plan.weights[second].scale, rtol=1e-6)


def test_a_quantized_model_is_as_accurate_as_in_paddle() -> None:
    reached = top1(serialized(qdq_model(read_paddle(FOLDER / "ptq"))), "image")
    lost = top1(shared_model("mobilenet_v1_0.75_224.onnx"), "input") - reached
    assert lost <= PADDLES_DROP + 0.01


@pytest.mark.parametrize("kind", ["ptq", "ptq_onnx_format"])
def test_an_arm_file_says_what_its_paddle_model_says(kind: str) -> None:
    quantized = read_paddle(FOLDER / kind)
    again = read(write(adapt_plan(quantized, PaddlePolicy("arm"), integer=True), options=NbOptions("arm")))
    images = {"image": pictures()[1][:4]}
    first, second = (DEFAULT_ENGINE.session(serialized(qdq_model(q))).run(images) for q in (quantized, again))
    assert [np.array_equal(a, b) for a, b in zip(first.values(), second.values(), strict=True)] == [True]
