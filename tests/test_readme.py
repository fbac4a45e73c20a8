"""The commands that the README shows are run as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import workshop as workshop
from tests.cli.workshop import Workshop, environment

ROOT = Path(__file__).resolve().parents[1]
MODULES = {"opt": "converter_lite.cli.opt", "converter_lite": "converter_lite"}


def blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def shell_lines() -> list[list[str]]:
    return [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]


@pytest.mark.parametrize("quant_type", ["FULL_QUANT", "WEIGHT_QUANT", "DYNAMIC_QUANT"])
def test_the_example_of_a_quantization_type_converts_the_sample_without_a_warning(
    tmp_path: Path, quant_type: str
) -> None:
    (example,) = (block for block in blocks("ini") if f"quant_type={quant_type}\n" in block)
    (tmp_path / "quant.cfg").write_text(example, encoding="utf-8")
    flags = ["--fmk=ONNX", "--modelFile=samples/shapes.onnx", f"--outputFile={tmp_path}/out"]
    line = [sys.executable, "-m", "converter_lite", *flags, f"--configFile={tmp_path}/quant.cfg"]
    done = subprocess.run(line, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "WARNING" not in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"quant.cfg", "out.ms", "out.onnx"}


def test_the_python_example_runs(workshop: Workshop) -> None:
    (example,) = blocks("python")
    my_samples = [np.fromfile(path, np.float32).reshape(8, 8, 3).transpose(2, 0, 1) for path in Path("bins").iterdir()]
    exec(example, {"my_samples": my_samples})
    assert Path("model_int8.ms").is_file()
    assert Path("model_int8.onnx").is_file()


def test_the_three_ways_to_a_quantized_model_run_in_order(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "samples", tmp_path / "samples", ignore=shutil.ignore_patterns("test", "__pycache__"))
    lines = shell_lines()
    assert len(lines) == 5
    for program, *arguments in lines:
        command = [sys.executable, "-m", MODULES[program], *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stderr)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "demo_output").iterdir()}
    assert set(sizes) == {"shapes_weights.nb", "shapes_int8.nb", "shapes_static.nb", "shapes_qat.onnx", "shapes_qat.nb"}
    float_size = (tmp_path / "samples/shapes.onnx").stat().st_size
    assert max(sizes.values()) < 0.5 * float_size


@pytest.mark.parametrize("name", ["opt", "converter_lite_opt", "converter_lite"])
def test_the_commands_are_installed(name: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (target,) = re.findall(rf'^{name} = "(.*)"$', text, flags=re.MULTILINE)
    module, function = target.split(":")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[1:] = ['--help']; from {module} import {function}; {function}()"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--" in done.stdout
