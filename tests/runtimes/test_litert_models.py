"""The shared models, and small ones of our own, in the interpreter and as what they become."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from converter_lite.formats.source import Source
from converter_lite.formats.tflite.container import Tensor, parse
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.importer.graph import to_quantized_model
from converter_lite.formats.tflite.schema import SCHEMA
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.plan import QuantizedModel
from tests.formats.tflite import models
from tests.formats.tflite.test_structure import loop
from tests.runtimes.conftest import Tally
from tests.runtimes.litert_runtime import Array, Results, run_file, skip_if_missing
from tests.support import MODELS, exact_session, shared_model

pytestmark = pytest.mark.runtime

FLOATS = ("ad01_float", "resnet8_float", "dtln_1_float", "ultraface_rfb_320")
INTEGERS = ("ad01_int8", "kws_int8")
RUNS = 16

CLOSE = 1e-5
"""Largest difference between float results, relative to the largest one where that is above one."""


def content(name: str) -> bytes:
    return shared_model(f"frameworks/tflite/{name}.tflite").read_bytes()


def feeds_of(quantized: QuantizedModel, count: int, *, pictures: bool = False) -> list[list[Array]]:
    """Numbers on the grids of the inputs; without a grid normal ones, or whole ones of a picture."""
    rng, feeds = np.random.default_rng(0), []
    for _ in range(count):
        feed: list[Array] = []
        for value in quantized.model.graph.inputs:
            shape = [size if isinstance(size, int) else 1 for size in value.shape or ()]
            params = quantized.plan.activations.get(str(value.name))
            array = rng.integers(0, 256, shape) if pictures else rng.normal(size=shape)
            if params is not None and not pictures:
                array = rng.uniform(*(float(bound) for bound in params.real_range), size=shape)
            real = array.astype(np.float32)
            feed.append(real if params is None else params.fake_quantize(real))
        feeds.append(feed)
    return feeds


def ours(quantized: QuantizedModel, feeds: list[list[Array]], *, optimize: bool = True) -> list[list[Array]]:
    """What the ONNX graph gives."""
    model = Source.of(quantized, 0, "").model
    names = [str(value.name) for value in model.graph.inputs]
    session = exact_session(model, optimize=optimize)
    return [list(session.run(dict(zip(names, feed, strict=True))).values()) for feed in feeds]


@pytest.mark.shared
@pytest.mark.parametrize("name", FLOATS)
def test_a_float_model_gives_the_numbers_of_the_interpreter(name: str, tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    data = content(name)
    quantized = to_quantized_model(data)
    feeds = feeds_of(quantized, RUNS, pictures=name == "resnet8_float")
    wrong = 0
    for found, expected in zip(ours(quantized, feeds), run_file(data, feeds, tmp_path), strict=True):
        for array, other in zip(found, expected, strict=True):
            assert array.shape == other.array.shape
            wrong += not np.abs(array - other.array).max() <= CLOSE * max(1.0, np.abs(other.array).max())
    tally("LiteRT", "float", tried=RUNS, wrong=wrong)
    assert not wrong


@pytest.mark.shared
@pytest.mark.parametrize("name", INTEGERS)
def test_a_model_of_integers_gives_the_integers_of_the_interpreter(name: str, tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    data = content(name)
    quantized = to_quantized_model(data)
    feeds = feeds_of(quantized, 64)
    steps = _steps(ours(quantized, feeds), run_file(data, feeds, tmp_path))
    tally("LiteRT", "int8", tried=len(feeds), wrong=int((steps > 1.01).sum()))
    assert steps.max() < 1.01
    assert (steps < 0.5).mean() > 0.999


def _steps(found: list[list[Array]], expected: Results) -> Array:
    """Differences in steps of the file's integers."""
    differences = []
    for mine, theirs in zip(found, expected, strict=True):
        for array, other in zip(mine, theirs, strict=True):
            differences.append(np.abs(array - other.array).reshape(-1) / other.scale)
    return np.concatenate(differences)


@pytest.mark.slow
@pytest.mark.shared
def test_a_residual_network_of_integers_keeps_its_accuracy(tmp_path: Path, tally: Tally) -> None:
    """Integers of a sum that lies between two steps may differ, and with them those behind it."""
    skip_if_missing()
    with np.load(MODELS.parent / "cifar10_eval.npz") as arrays:
        pictures, labels = arrays["images"][:, None].astype(np.float32), arrays["labels"].reshape(-1)
    data = content("resnet8_int8")
    quantized = to_quantized_model(data)
    feeds = [[picture] for picture in pictures]
    found, expected = ours(quantized, feeds), run_file(data, feeds, tmp_path)
    steps = _steps(found, expected)
    right = [
        np.mean([int(each.argmax()) for each in results] == labels)
        for results in (
            [run[0] for run in found],
            [run[0].array for run in expected],
        )
    ]
    tally("LiteRT", "int8", tried=len(feeds), wrong=int((steps > 1.01).sum()))
    assert abs(right[0] - right[1]) <= 0.002
    assert (steps < 1.01).mean() > 0.995


@pytest.mark.shared
def test_a_model_with_weights_of_integers_is_its_float_model(tmp_path: Path, tally: Tally) -> None:
    """The interpreter makes integers of activations when such a model runs, each set of its kernels in another way."""
    skip_if_missing()
    data = content("kws_float")
    quantized = to_quantized_model(data)
    feeds = feeds_of(quantized, RUNS)
    found = ours(quantized, feeds)
    far, near = (
        max(float(np.abs(a[0] - e[0].array).max()) for a, e in zip(found, run_file(file, feeds, tmp_path), strict=True))
        for file in (data, _with_real_weights(data))
    )
    tally("LiteRT", "dynamic range", tried=RUNS, wrong=int(near > CLOSE))
    assert far <= 0.02
    assert near <= CLOSE
    assert all(each.mode.value in ("float", "weight") for each in quantized.plan.nodes.values())


def _with_real_weights(data: bytes) -> bytes:
    """The same file with the real numbers that its int8 constants stand for."""
    model = SCHEMA.decode("Model", data)
    for tensor in model["subgraphs"][0]["tensors"]:
        integers = model["buffers"][tensor["buffer"]].get("data")
        if tensor.get("type") == TensorType.INT8 and integers is not None:
            scale = tensor.pop("quantization")["scale"]
            assert scale.size == 1
            real = integers.view(np.int8).astype(np.float32) * scale
            tensor["type"], tensor["buffer"] = int(TensorType.FLOAT32), len(model["buffers"])
            model["buffers"].append({"data": real.view(np.uint8)})
    return SCHEMA.encode("Model", model)


SMALL = {
    "float": models.convolutional,
    "int8": partial(models.convolutional, integers=True),
    "lstm": partial(models.recurrent, sparse=False),
    "int4": models.narrow,
    "loop": lambda: loop(4).bytes(),
}
"""Files of our own. The interpreter reads sparse weights in blocks of four or sixteen in a row alone."""


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_give_the_numbers_of_the_interpreter(name: str, tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    data = SMALL[name]()
    quantized = to_quantized_model(data)
    feeds = feeds_of(quantized, RUNS)
    wrong = 0
    for found, expected in zip(ours(quantized, feeds), run_file(data, feeds, tmp_path), strict=True):
        for array, other in zip(found, expected, strict=True):
            limit = 1.01 * other.scale if other.scale else CLOSE * max(1.0, np.abs(other.array).max())
            limit = 0.05 * np.abs(other.array).max() if name == "int4" else limit
            wrong += not np.abs(array - other.array).max() <= limit
    tally("LiteRT", name, tried=RUNS, wrong=wrong)
    assert not wrong


@pytest.mark.shared
@pytest.mark.parametrize("name", [*INTEGERS, "resnet8_int8"])
def test_the_plan_has_the_scales_of_the_file(name: str) -> None:
    """Joined names became the first of them, with a number where several began alike."""
    stored = [tensor for tensor in parse(content(name)).subgraphs[0].tensors if tensor.quant is not None]
    plan = to_quantized_model(content(name)).plan

    def is_of(tensor: Tensor, named: tuple[str, QuantParams]) -> bool:
        quant, params = tensor.quant, named[1]
        return (
            quant is not None
            and named[0].startswith(tensor.name.partition(";")[0])
            and np.array_equal(np.atleast_1d(params.scale), quant.scale)
            and np.array_equal(np.atleast_1d(params.zero_point), quant.zero_point)
        )

    computed = [tensor for tensor in stored if tensor.data is None]
    weights = [tensor for tensor in stored if tensor.data is not None and tensor.type is TensorType.INT8]
    assert computed and weights
    for tensors, kind in ((computed, plan.activations), (weights, plan.weights)):
        for tensor in tensors:
            assert any(is_of(tensor, item) for item in kind.items()), tensor.name
