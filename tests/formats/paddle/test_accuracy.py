"""Accuracy of a real MobileNet as a ``.nb`` file on pictures that calibration never sees."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.int8_arithmetic import run as device_run
from tests.formats.paddle.plans import convert_to_nb
from tests.formats.paddle.test_mobilenet import FOLDER, pictures, serialized, top1
from tests.support import MODELS, shared_model

pytestmark = pytest.mark.shared

NAME = "mobilenet_v1_0.75_224.onnx"
CONFIG = """
[common_quant_param]
quant_type=FULL_QUANT
[full_quant_param]
activation_quant_method=MAX_MIN
[data_preprocess_param]
calibrate_path=input:{folder}
calibrate_size=100
input_type=IMAGE
image_to_format=RGB
normalize_mean=[127.5, 127.5, 127.5]
normalize_std=[127.5, 127.5, 127.5]
resize_width=256
resize_height=256
resize_method=LINEAR
center_crop_width=224
center_crop_height=224
"""


@cache
def float_outputs(count: int) -> NDArray[np.float32]:
    return DEFAULT_ENGINE.session(shared_model(NAME)).run({"input": pictures()[1][:count]})["prob"]


def mean_cosine(file: Path, **flags: Any) -> float:
    """Cosine with the float model over 64 pictures; what a device holds in float16 is rounded."""
    convert_to_nb(shared_model(NAME), file, **flags)
    quantized = read(file.read_bytes(), rounded=True)
    got = DEFAULT_ENGINE.session(serialized(quantized.model)).run({"input": pictures()[1][:64]})["prob"]
    want = float_outputs(64)
    products = (got * want).sum(axis=1) / (np.linalg.norm(got, axis=1) * np.linalg.norm(want, axis=1))
    return float(products.mean())


@pytest.mark.parametrize(("bits", "cosine"), [(8, 0.99), (16, 0.9999)])
@pytest.mark.parametrize("target", ["arm", "x86"])
def test_integer_weights_keep_the_outputs(target: str, bits: int, cosine: float, tmp_path: Path) -> None:
    assert mean_cosine(tmp_path / "w.nb", target=target, weight_bits=bits) >= cosine


@pytest.mark.parametrize(("bits", "cosine"), [(None, 0.9999), (8, 0.99)], ids=["float", "int8 weights"])
def test_float16_kernels_keep_the_outputs(bits: int | None, cosine: float, tmp_path: Path) -> None:
    """As far as rounding every tensor goes; sums within an operator are float16 on a device, and float32 here."""
    assert cosine <= mean_cosine(tmp_path / "half.nb", weight_bits=bits, half=True) < 1


def device_top1(file: Path, name: str) -> float:
    """Share of pictures whose largest output, by the arithmetic of the device, is their label."""
    parsed, (labels, images) = parse(file.read_bytes()), pictures()
    found: list[NDArray[Any]] = [
        device_run(parsed, {name: part})[0].argmax(axis=1) for part in np.array_split(images, 100)
    ]
    return float(np.mean(np.concatenate(found) == labels))


@pytest.mark.slow
def test_full_int8_on_the_device_loses_at_most_one_point_of_top_1(tmp_path: Path) -> None:
    config = tmp_path / "full_quant.cfg"
    config.write_text(CONFIG.format(folder=MODELS.parent / "imagenet_calib"))
    convert_to_nb(shared_model(NAME), tmp_path / "full.nb", config_file=config)
    assert device_top1(tmp_path / "full.nb", "input") >= top1(shared_model(NAME), "input") - 0.01


@pytest.mark.slow
def test_a_quantized_paddle_model_loses_on_the_device_what_it_loses_in_paddle(tmp_path: Path) -> None:
    """81.9 of 84.2 % in Paddle itself, on more pictures; one point of tolerance."""
    convert_to_nb(FOLDER / "ptq", tmp_path / "ptq.nb")
    lost = top1(shared_model(NAME), "input") - device_top1(tmp_path / "ptq.nb", "image")
    assert lost <= 0.842 - 0.819 + 0.01
