"""Keys that depend on the device: those that it reads, and a word about those that it does not."""

from __future__ import annotations

import pytest

from tests.cli.workshop import FULL, Workshop, changed


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("min_quant_weight_channel", "output channels"),
        ("min_quant_weight_size", "elements"),
    ],
)
def test_limits_of_weights_hold_for_ascend(limit: str, reason: str, workshop: Workshop) -> None:
    config = changed(FULL, full_quant_param={"target_device": "ASCEND"})
    assert "its weight has" not in workshop.succeed("--saveType=ONNX", config=config).out
    said = workshop.convert("--saveType=ONNX", config=changed(config, common_quant_param={limit: "65535"})).out
    assert f"{limit}=65535 {reason}" in said


@pytest.mark.parametrize(
    ("device", "key", "words"),
    [
        ("X86", "per_channel", "per_channel=true has no effect on X86"),
        ("NVGPU", "bias_correction", "bias_correction=true does not change biases for NVGPU"),
    ],
)
def test_what_a_device_does_not_take_is_said(device: str, key: str, words: str, workshop: Workshop) -> None:
    config = changed(FULL, full_quant_param={"target_device": device})
    assert "WARNING" not in workshop.succeed("--saveType=ONNX", config=config).err
    asked = changed(config, full_quant_param={"target_device": device, key: "true"})
    assert words in workshop.succeed("--saveType=ONNX", config=asked).err


@pytest.mark.parametrize("keys", [{"target_device": "DSP"}, {"per_channel": "false"}])
def test_smooth_alpha_says_where_weights_have_one_scale_per_layer(keys: dict[str, str], workshop: Workshop) -> None:
    asked = changed(FULL, full_quant_param={**keys, "smooth_alpha": "0.3"})
    assert "smooth_alpha has no effect" in workshop.succeed("--saveType=ONNX", config=asked).err
    rescaled = changed(asked, full_quant_param={**keys, "smooth_alpha": "0.3", "per_channel": "true"})
    assert "smooth_alpha" not in workshop.succeed("--saveType=ONNX", config=rescaled).err


def test_a_ms_file_for_x86_says_that_weights_have_one_scale(workshop: Workshop) -> None:
    config = changed(FULL, full_quant_param={"target_device": "X86"})
    said = "CPU, ARM and X86, here with one scale per weight (per_channel=true is more accurate)"
    assert said in workshop.succeed("--saveType=MINDIR_LITE", config=config).err
    asked = changed(config, full_quant_param={"target_device": "X86", "per_channel": "true"})
    assert "one scale per weight" not in workshop.succeed("--saveType=MINDIR_LITE", config=asked).err


def test_what_a_device_does_not_take_changes_nothing(workshop: Workshop) -> None:
    """Equalization and rounding went by the key: a network of depthwise layers had a cosine of 0.56, without the key 0.998."""
    files = []
    for name, keys in (("plain", {}), ("asked", {"per_channel": "true"})):
        config = changed(FULL, full_quant_param={"target_device": "X86", **keys})
        workshop.succeed("--saveType=ONNX", config=config, output=name)
        files.append((workshop.folder / f"{name}.onnx").read_bytes())
    assert files[0] == files[1]
