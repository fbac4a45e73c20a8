"""The floors of ``pyproject.toml`` as constraints."""

from __future__ import annotations

import re

import pytest

from tests.floors import PROJECT, floors


def test_every_requirement_becomes_a_constraint() -> None:
    text = """
[project]
dependencies = ["click>=8.1", "dask[array] >= 2024.8", "tomli>=2.0; python_version < '3.11'"]
[project.optional-dependencies]
dev = ["pytest>=8.2"]
fuzz = ["atheris>=2.3"]
"""
    assert list(floors(text)) == ["click==8.1", "dask==2024.8", "tomli==2.0", "pytest==8.2"]


def test_a_requirement_without_a_floor_is_refused() -> None:
    with pytest.raises(ValueError, match="numpy: has no floor"):
        list(floors('[project]\ndependencies = ["numpy"]\n[project.optional-dependencies]\ndev = []'))


def test_the_project_has_a_floor_for_everything() -> None:
    found = list(floors(PROJECT.read_text(encoding="utf-8")))
    assert "onnx-ir==0.1.15" in found
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in found)
