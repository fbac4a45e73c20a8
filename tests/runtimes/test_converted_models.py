"""What the command writes for real models, run in the released runtimes beside the ONNX that is rebuilt from the same file."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.format import NbFormat
from tests.cli.workshop import SUCCESS, Config, changed, command, ini
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS, Platform
from tests.runtimes.paddle import Case, require, run_cases
from tests.support import MODELS, exact_session, run, shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared, pytest.mark.slow]

Feed = dict[str, NDArray[Any]]
TOKENS = ("input_ids", "attention_mask", "token_type_ids")
FILES: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "mobilenet": ("mobilenet_v1_0.75_224.onnx", {"input": (1, 3, 224, 224)}),
    "ultraface": ("ultraface_rfb_320.onnx", {"input": (1, 3, 240, 320)}),
    "resnet8": ("resnet8_cifar10.onnx", {"input_1": (1, 32, 32, 3)}),
    "minilm": ("minilm_l6_fp16_weights.onnx", dict.fromkeys(TOKENS, (1, 128))),
}
WEIGHT = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "min_quant_weight_channel": "0"}}
MIXED = changed(WEIGHT, common_quant_param={"bit_num": "0"})
DYNAMIC = {"common_quant_param": {"quant_type": "DYNAMIC_QUANT"}}
FULL = {"common_quant_param": {"quant_type": "FULL_QUANT"}}
PICTURES = {
    "mobilenet": ("input", "imagenet_calib", 224, 224, 127.5, 127.5),
    "ultraface": ("input", "imagenet_calib", 320, 240, 127.0, 128.0),
    "resnet8": ("input_1", "cifar10_calib", 32, 32, 0.0, 1.0),
}


def full(name: str) -> Config:
    """Full quantization on eight pictures."""
    input_name, folder, width, height, mean, std = PICTURES[name]
    data = {
        "calibrate_path": f"{input_name}:{MODELS.parent / folder}",
        "calibrate_size": "8",
        "input_type": "IMAGE",
        "image_to_format": "RGB",
        "resize_method": "LINEAR",
        "resize_width": str(width),
        "resize_height": str(height),
        "normalize_mean": f"[{mean}, {mean}, {mean}]",
        "normalize_std": f"[{std}, {std}, {std}]",
    }
    return changed(FULL, data_preprocess_param=data)


PLACES = (50, 51, 52, 53)
"""Of pictures: integers differ by a step here and there, and a picture of two classes that are close to each other shows it."""


def convert(name: str, save_type: str, config: Config | None, folder: Path, *flags: str) -> Path:
    """The file without its suffix."""
    file, shapes = FILES[name]
    out = folder / "out"
    arguments = [f"--modelFile={shared_model(file)}", f"--outputFile={out}", f"--saveType={save_type}", *flags]
    if config is not None:
        (folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
        arguments.append(f"--configFile={folder / 'quant.cfg'}")
    if name == "minilm":
        text = ";".join(f"{key}:{','.join(map(str, shape))}" for key, shape in shapes.items())
        arguments.append(f"--inputShape={text}")
    outcome = command("--fmk=ONNX", *arguments)
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    return out


def sample(name: str, place: int = 50) -> Feed:
    """A picture by its place in the folder, or token ids."""
    if name == "minilm":
        ids = np.random.default_rng(1).integers(1000, 20000, (1, 128))
        return dict(zip(TOKENS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    input_name, folder, width, height, mean, std = PICTURES[name]
    path = sorted((MODELS.parent / folder).iterdir())[place]
    with Image.open(path) as opened:
        pixels = (np.asarray(opened.convert("RGB").resize((width, height)), np.float32) - mean) / std
    return {input_name: (pixels if name == "resnet8" else pixels.transpose(2, 0, 1))[None].astype(np.float32)}


def cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    x, y = a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def configuration(name: str, kind: str) -> Config | None:
    if kind == "full":
        return DYNAMIC if name == "minilm" else full(name)
    return {"float": None, "weight": WEIGHT, "mixed": MIXED}[kind]


@pytest.mark.parametrize(
    ("kind", "compat"),
    [("float", "device"), *product(("weight", "mixed"), ("device", "wheel")), ("full", "device")],
)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_a_ms_file_gives_its_numbers(
    platform: Platform, name: str, kind: str, compat: str, tally: Tally, tmp_path: Path
) -> None:
    tally(f"MindSpore Lite 2.0.0, {platform.name}", f"whole models, {kind}")
    needs_shim = kind in ("weight", "mixed") and compat == "device"
    platform.skip_if_missing(shim=needs_shim)
    config = configuration(name, kind)
    path = convert(name, "MINDIR_LITE", config, tmp_path, f"--msCompat={compat}").with_suffix(".ms")
    like = read_onnx(shared_model(FILES[name][0]), input_shapes=FILES[name][1])
    ours = exact_session(MsFormat().runnable(path, like=like))
    work = tmp_path / "run"
    work.mkdir()
    feeds = {str(place): sample(name, place) for place in (PLACES if kind == "full" else PLACES[:1])}
    outcomes = platform.run({place: (path.read_bytes(), feed) for place, feed in feeds.items()}, work, shim=needs_shim)
    found = []
    for place, feed in feeds.items():
        assert not outcomes[place].error, outcomes[place].error
        found.append([cosine(outcomes[place].outputs[output], array) for output, array in ours.run(feed).items()])
    assert min(np.mean(found, axis=0)) >= (0.9999 if kind != "full" else 0.99)


@pytest.mark.parametrize("kind", ["float", "weight"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("release", ["2.12", "2.13rc0"])
def test_a_nb_file_gives_its_numbers(release: str, name: str, kind: str, tally: Tally, tmp_path: Path) -> None:
    tally(f"Paddle-Lite {release}, x86", f"whole models, {kind}")
    require(release)
    path = convert(name, "NAIVE_BUFFER", configuration(name, kind), tmp_path, "--nbTarget=x86").with_suffix(".nb")
    like = read_onnx(shared_model(FILES[name][0]), input_shapes=FILES[name][1])
    expected = run(NbFormat("x86").runnable(path, like=like), sample(name))
    case = Case(path.read_bytes(), [sample(name)[str(value.name)] for value in like.graph.inputs], len(expected))
    work = tmp_path / "run"
    work.mkdir()
    (outputs,) = run_cases(release, [case], work)
    assert not isinstance(outputs, str), outputs
    for array, wanted in zip(outputs, expected.values(), strict=True):
        assert np.abs(array.reshape(wanted.shape) - wanted).max() <= 1e-5 * np.abs(wanted).max()
