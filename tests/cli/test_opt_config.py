"""``opt --configFile``: quantization with samples in the same step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.nb.parse import parse
from tests.cli.test_opt import run
from tests.formats.paddle.inference_models import fake_quantized_model, save
from tests.formats.paddle.models import small_network


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    ir.save(small_network(), path)
    return path


def calibrated(folder: Path, shape: tuple[int, ...]) -> Path:
    """A configuration file for full quantization with samples for input ``x``."""
    data = folder / "data"
    data.mkdir()
    for index in range(4):
        np.random.default_rng(index).standard_normal(shape).astype(np.float32).tofile(data / f"{index}.bin")
    config = folder / "full_quant.cfg"
    config.write_text(
        "[common_quant_param]\nquant_type=FULL_QUANT\n[full_quant_param]\nactivation_quant_method=MAX_MIN\n"
        f"[data_preprocess_param]\ncalibrate_path=x:{data}\ncalibrate_size=4\ninput_type=BIN\n"
    )
    return config


@pytest.fixture
def full_config(tmp_path: Path) -> Path:
    """Full quantization with samples for :func:`small_network`."""
    return calibrated(tmp_path, (1, 3, 12, 12))


def test_full_int8_in_one_step_from_a_configuration_file(
    onnx_file: Path, full_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'full'}", f"--configFile={full_config}") == 0
    operators = parse((tmp_path / "full.nb").read_bytes()).program.main.operators
    assert [op.type for op in operators if op.get("enable_int8")] == ["conv2d", "depthwise_conv2d", "conv2d", "fc"]
    assert "output y: cosine 0.99" in capsys.readouterr().err


def test_x86_computes_with_integers_only_if_the_configuration_names_it(
    onnx_file: Path, full_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (f"--model_file={onnx_file}", f"--configFile={full_config}", "--valid_targets=x86")
    assert run(*flags, f"--optimize_out={tmp_path / 'weights'}") == 0
    assert "target_device=X86 asks for them" in capsys.readouterr().err
    text = full_config.read_text()
    full_config.write_text(text.replace("[full_quant_param]\n", "[full_quant_param]\ntarget_device=X86\n"))
    assert run(*flags, f"--optimize_out={tmp_path / 'integers'}") == 0
    counts = [
        sum(bool(op.get("enable_int8")) for op in parse((tmp_path / name).read_bytes()).program.main.operators)
        for name in ("weights.nb", "integers.nb")
    ]
    assert counts[0] == 0
    assert counts[1] > 0


def test_a_result_below_the_quality_gate_is_not_handed_out(
    onnx_file: Path,
    full_config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("converter_lite.pipeline.prove.DEFAULT_MIN_COSINE", 1.01)
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'full'}", f"--configFile={full_config}") == 1
    assert "quality gate" in capsys.readouterr().err
    assert not (tmp_path / "full.nb").exists()


def test_a_quantized_model_is_not_quantized_by_a_configuration_again(
    full_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "ptq", *fake_quantized_model())
    assert run(f"--model_dir={folder}", f"--optimize_out={tmp_path / 'full'}", f"--configFile={full_config}") == 1
    assert "quantized already" in capsys.readouterr().err


def test_the_older_layout_holds_with_a_configuration_file_too(
    onnx_file: Path, full_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_LITE_MODEL_VERSION1", "1")
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'old'}", f"--configFile={full_config}") == 0
    file = parse((tmp_path / "old.nb").read_bytes())
    assert file.meta_version == 1
    assert any(op.get("enable_int8") for op in file.program.main.operators)


def test_host_has_no_quantization_and_the_refusal_names_flags_of_opt(
    onnx_file: Path, full_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (f"--configFile={full_config}", "--valid_targets=host")
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out'}", *flags) == 2
    assert capsys.readouterr().err == (
        f"Error: {full_config}: a configuration file is for arm and x86, not for host\n"
        "  put one of them in front in --valid_targets, or leave --configFile out\n"
    )
