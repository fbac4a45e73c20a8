"""``opt --enable_fp16``: alone, with integer weights, with a configuration file, and where it changes nothing."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from tests.cli.test_opt import run
from tests.cli.workshop import WEIGHT, ini
from tests.formats.paddle.models import small_network


@pytest.fixture
def conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags that name a model and the result, ``out.nb``."""
    monkeypatch.chdir(tmp_path)
    ir.save(small_network(), "m.onnx")
    Path("weight.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    return ["--model_file=m.onnx", "--optimize_out=out", "--enable_fp16=true"]


def keys() -> list[str]:
    operators = parse(Path("out.nb").read_bytes()).program.main.operators
    return [str(op.get(KERNEL_ATTRIBUTE)) for op in operators if op.type not in ("feed", "fetch")]


@pytest.mark.parametrize(
    "more",
    [[], ["--quant_model=true", "--quant_type=QUANT_INT8"], ["--configFile=weight.cfg"], ["--valid_targets=arm,x86"]],
    ids=["float", "integer weights", "configuration", "two targets"],
)
def test_float16_kernels_are_written_and_what_the_file_needs_is_reported(
    more: list[str], conversion: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*conversion, *more) == 0
    assert capsys.readouterr().err.startswith("Warning: 7 of 7 operators that compute do so in float16")
    assert [key for key in keys() if not key.endswith("/4/5/1")] == ["flatten_contiguous_range/def/1/4/2"]


@pytest.mark.parametrize("more", [[], ["--configFile=weight.cfg"]], ids=["float", "configuration"])
@pytest.mark.parametrize("targets", ["x86", "opencl x86,arm"])
def test_another_target_than_arm_keeps_float32_and_says_so(
    targets: str, more: list[str], conversion: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*conversion, f"--valid_targets={targets}", *more) == 0
    assert "float16 kernels exist for ARM only" in capsys.readouterr().err
    assert {key.split("/")[3] for key in keys()} == {"1", "4"}


def test_a_protobuf_result_has_the_same_kernels(conversion: list[str]) -> None:
    assert run(*conversion, "--optimize_out_type=protobuf") == 0
    assert b"calib/fp32_to_fp16/4/5/1" in Path("out", "model").read_bytes()
