"""The real models beside the checkout, from the command line, in every mode that applies to them."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.conftest import workshop as workshop
from tests.cli.workshop import Config, Workshop, changed, command, ini
from tests.support import MODELS, shared_model

pytestmark = pytest.mark.shared

DATA = MODELS.parent
MOBILENET, RESNET, ULTRAFACE, MINILM = (
    "mobilenet_v1_0.75_224.onnx",
    "resnet8_cifar10.onnx",
    "ultraface_rfb_320.onnx",
    "minilm_l6_fp16_weights.onnx",
)

IMAGENET = {
    "input_type": "IMAGE",
    "image_to_format": "RGB",
    "normalize_mean": "[127.5, 127.5, 127.5]",
    "normalize_std": "[127.5, 127.5, 127.5]",
    "resize_width": "256",
    "resize_height": "256",
    "resize_method": "LINEAR",
    "center_crop_width": "224",
    "center_crop_height": "224",
}
FACES = {**IMAGENET, "normalize_mean": "[127, 127, 127]", "normalize_std": "[128, 128, 128]"}
FACES |= {"resize_width": "320", "resize_height": "240"}
del FACES["center_crop_width"], FACES["center_crop_height"]

PREPARE = {
    MOBILENET: {**IMAGENET, "folder": "imagenet_calib"},
    ULTRAFACE: {**FACES, "folder": "imagenet_calib"},
    RESNET: {"input_type": "IMAGE", "image_to_format": "RGB", "folder": "cifar10_calib"},
    MINILM: {"input_type": "BIN", "folder": "minilm_calib"},
}
SHAPES = "--inputShape=input_ids:1,128;attention_mask:1,128;token_type_ids:1,128"


def calibration(model: str, size: int) -> dict[str, dict[str, str]]:
    """Data section for the first ``size`` samples of a model's data."""
    keys = dict(PREPARE[model])
    folder = DATA / keys.pop("folder")
    names = [value.name for value in onnx.load(shared_model(model), load_external_data=False).graph.input]
    paths = ",".join(f"{name}:{folder / name if len(names) > 1 else folder}" for name in names)
    return {"data_preprocess_param": {"calibrate_path": paths, "calibrate_size": str(size), **keys}}


def convert(tmp_path: Path, model: str, config: Config | None, *flags: str) -> tuple[float, float]:
    """Convert and check; returns the least cosine of the outputs and the size relative to the original."""
    path = shared_model(model)
    arguments = [
        "--fmk=ONNX",
        f"--modelFile={path}",
        f"--outputFile={tmp_path / 'out'}",
        f"--json={tmp_path / 'r.json'}",
        "--saveType=ONNX",
    ]
    if config is not None:
        (tmp_path / "quant.cfg").write_text(ini(config), encoding="utf-8")
        arguments.append(f"--configFile={tmp_path / 'quant.cfg'}")
    if model == MINILM:
        arguments.append(SHAPES)
    outcome = command(*arguments, *flags)
    assert outcome.status == 0, outcome
    assert "WARNING" not in outcome.out
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    (artefact,) = result["artefacts"]
    assert (tmp_path / "out.onnx").stat().st_size == artefact["bytes"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(
        ["out.onnx", "r.json", *(["quant.cfg"] if config is not None else [])]
    )
    return min(output["cosine"] for output in artefact["accuracy"]), artefact["bytes"] / path.stat().st_size


def full(method: str = "MAX_MIN", **keys: str) -> dict[str, dict[str, str]]:
    return {
        "common_quant_param": {"quant_type": "FULL_QUANT"},
        "full_quant_param": {"activation_quant_method": method, **keys},
    }


def weight(bits: int) -> dict[str, dict[str, str]]:
    common = {"quant_type": "WEIGHT_QUANT", "bit_num": str(bits), "min_quant_weight_channel": "0"}
    return {"common_quant_param": common}


DYNAMIC = {"common_quant_param": {"quant_type": "DYNAMIC_QUANT"}}


@pytest.mark.parametrize("model", [MOBILENET, RESNET, ULTRAFACE])
def test_a_model_is_optimized_without_changing_what_it_computes(tmp_path: Path, model: str) -> None:
    cosine, ratio = convert(tmp_path, model, None)
    assert cosine > 0.999999
    assert ratio < 1.01


@pytest.mark.parametrize(
    ("model", "least"),
    [(MOBILENET, 0.985), (RESNET, 0.998), (ULTRAFACE, 0.9995)],
    ids=["mobilenet", "resnet8", "ultraface"],
)
@pytest.mark.parametrize("device", ["CPU", "NVGPU", "ASCEND"])
def test_full_quantization_per_channel_keeps_the_outputs(tmp_path: Path, model: str, least: float, device: str) -> None:
    cosine, ratio = convert(tmp_path, model, {**full(target_device=device), **calibration(model, 20)})
    assert cosine > (least if device != "NVGPU" else 0.95)
    assert ratio < 0.55


@pytest.mark.parametrize("method", ["KL", "REMOVAL_OUTLIER", "PERCENTILE", "MSE"])
def test_every_method_keeps_the_outputs(tmp_path: Path, method: str) -> None:
    cosine, _ = convert(tmp_path, RESNET, {**full(method), **calibration(RESNET, 20)})
    assert cosine > 0.99


@pytest.mark.parametrize(("model", "device"), [(RESNET, "CPU"), (RESNET, "DSP"), (ULTRAFACE, "DSP")])
def test_one_scale_per_layer_converts(tmp_path: Path, model: str, device: str) -> None:
    config = {**full(target_device=device, per_channel="false"), **calibration(model, 10)}
    assert convert(tmp_path, model, config)[1] < 0.5


def test_a_text_model_is_fully_quantized_from_token_files(tmp_path: Path) -> None:
    cosine, ratio = convert(tmp_path, MINILM, {**full(), **calibration(MINILM, 4)}, "--minCosine=0")
    assert cosine > 0.5
    assert ratio < 0.6


@pytest.mark.parametrize(
    ("model", "bits", "least", "most"),
    [
        (MOBILENET, 8, 0.99, 0.27),
        (MOBILENET, 4, -1, 0.16),
        (RESNET, 8, 0.999, 0.32),
        (RESNET, 16, 0.99999, 0.6),
        (ULTRAFACE, 8, 0.9999, 0.36),
        (MINILM, 8, 0.998, 0.52),
    ],
)
def test_weights_shrink_the_file_and_keep_the_outputs(
    tmp_path: Path, model: str, bits: int, least: float, most: float
) -> None:
    cosine, ratio = convert(tmp_path, model, weight(bits))
    assert cosine > least
    assert ratio < most


@pytest.mark.parametrize("strategy", ["ALWC", "ACWL"])
def test_a_text_model_is_quantized_dynamically(tmp_path: Path, strategy: str) -> None:
    config = changed(DYNAMIC, dynamic_quant_param={"quant_strategy": strategy})
    cosine, ratio = convert(tmp_path, MINILM, {**config, **calibration(MINILM, 8)})
    assert cosine > (0.985 if strategy == "ALWC" else 0.94)
    assert ratio < 0.55


def test_a_model_without_matrix_products_is_stored_by_dynamic_quantization(tmp_path: Path) -> None:
    cosine, ratio = convert(tmp_path, ULTRAFACE, DYNAMIC)
    assert cosine > 0.9999
    assert ratio < 0.38


def test_a_ms_file_of_a_model_without_matrix_products_has_nothing_dynamic(workshop: Workshop) -> None:
    message = workshop.fail(1, "--saveType=MINDIR_LITE", model=str(shared_model(ULTRAFACE)), config=DYNAMIC)
    assert "nothing would be quantized" in message


@pytest.mark.parametrize("config", [full(), weight(8), weight(4)], ids=["full", "weight", "few_bits"])
@pytest.mark.parametrize("model", [RESNET, ULTRAFACE])
def test_the_forecast_is_within_two_percent(tmp_path: Path, model: str, config: Config) -> None:
    config = {**config, **(calibration(model, 2))}
    (tmp_path / "dry").mkdir()
    (tmp_path / "dry/quant.cfg").write_text(ini(config), encoding="utf-8")
    result = tmp_path / "dry/r.json"
    required = [
        "--fmk=ONNX",
        f"--modelFile={shared_model(model)}",
        f"--outputFile={tmp_path / 'dry/out'}",
        "--saveType=ONNX",
    ]
    outcome = command(*required, f"--configFile={tmp_path / 'dry/quant.cfg'}", "--dryRun", f"--json={result}")
    assert outcome.status == 0, outcome
    forecast = json.loads(result.read_text(encoding="utf-8"))["forecast_bytes"]["ONNX"]
    (tmp_path / "real").mkdir()
    _, ratio = convert(tmp_path / "real", model, config, "--minCosine=-1")
    assert forecast == pytest.approx(ratio * shared_model(model).stat().st_size, rel=0.02)
