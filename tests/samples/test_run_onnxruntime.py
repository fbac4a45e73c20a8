import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def runner(samples: Path) -> ModuleType:
    return importlib.import_module("run_onnxruntime")


def test_the_float_model_names_at_least_93_percent_of_the_test_pictures(runner: ModuleType, samples: Path) -> None:
    pictures, labels = runner.load_pictures()
    assert pictures.shape == (400, 3, 64, 64)
    assert runner.top1(runner.run(samples / "shapes.onnx", pictures).logits, labels) >= 0.93


def test_top1_counts_the_highest_logit_of_each_picture(runner: ModuleType) -> None:
    logits = np.array([[1, 3, 2], [5, 4, 0], [0, 1, 2], [9, 8, 7]], np.float32)
    assert runner.top1(logits, np.array([1, 0, 2, 2])) == 0.75


def test_mean_cosine_is_the_average_over_pictures(runner: ModuleType) -> None:
    logits = np.array([[1, 0], [0, 2]], np.float32)
    assert runner.mean_cosine(logits, 3 * logits) == pytest.approx(1)
    assert runner.mean_cosine(logits, np.array([[1, 0], [1, 0]], np.float32)) == pytest.approx(0.5)


def test_a_single_model_prints_its_accuracy(samples: Path) -> None:
    output = run_script(samples, "shapes.onnx")
    assert "top-1 9" in output
    assert "400 pictures" in output


def test_a_comparison_prints_one_line_per_model_with_the_float_model_first(samples: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.onnx"
    copy.write_bytes((samples / "shapes.onnx").read_bytes())
    header, first, second = run_script(samples, str(copy), "--compare", "shapes.onnx").splitlines()
    assert header.split() == ["model", "top-1", "cosine", "ms/picture", "bytes"]
    assert (first.split()[0], second.split()[0]) == ("shapes.onnx", "copy.onnx")
    assert second.split()[2] == "1.00000"


def test_a_missing_model_is_named(samples: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_script(samples, "nowhere.onnx")
    assert "not found: nowhere.onnx" in caught.value.stderr


def test_a_folder_without_pictures_is_refused(runner: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no pictures"):
        runner.load_pictures(tmp_path)


def run_script(samples: Path, *arguments: str) -> str:
    command = [sys.executable, "run_onnxruntime.py", *arguments]
    return subprocess.run(command, cwd=samples, check=True, capture_output=True, text=True).stdout
