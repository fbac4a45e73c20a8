"""The layers of the package, as ``pyproject.toml`` states them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_point_downwards() -> None:
    outcome = lint(ROOT)
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize(
    ("module", "text", "contract"),
    [
        (
            "kernels/upward.py",
            "def late():\n    from converter_lite.quantization import plan\n",
            "Imports point downwards",
        ),
        ("formats/onnx/sideways.py", "import converter_lite.formats.paddle.program\n", "A file format knows no other"),
        ("attic/__init__.py", "", "Imports point downwards"),
    ],
)
def test_an_import_that_does_not_is_found(tmp_path: Path, module: str, text: str, contract: str) -> None:
    shutil.copytree(ROOT / "converter_lite", tmp_path / "converter_lite", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    made = tmp_path / "converter_lite" / module
    made.parent.mkdir(exist_ok=True)
    made.write_text(text, encoding="utf-8")
    outcome = lint(tmp_path)
    assert outcome.returncode == 1, outcome.stdout
    assert f"{contract}" in outcome.stdout.split("Broken contracts")[0]
    assert "BROKEN" in outcome.stdout
