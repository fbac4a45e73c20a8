"""Environments with whole frameworks: what they compute beside what is made of their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.registry import readable
from converter_lite.formats.source import ModelFiles, Source
from tests.runtimes.environments import finish, interpreter
from tests.support import run

Numbers = Mapping[str, NDArray[Any]]


class Framework:
    """An environment with a framework, and the program that makes its models."""

    def __init__(self, name: str, program: str) -> None:
        self.name = name
        self.program = program

    def interpreter(self) -> Path:
        """Its interpreter; the calling test is skipped where it was not made."""
        return interpreter(self.name, "make frameworks")

    def make(self, *arguments: str) -> None:
        """Run the program: models and their numbers into a folder, or the numbers of a file.

        Raises:
            RuntimeError: It fails.
        """
        finish(self.interpreter(), self.program, *arguments, CUDA_VISIBLE_DEVICES="-1")


def read(
    framework: str, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None, *, unsafe: bool = False
) -> Source:
    """The model of a file, by the reader of ``--fmk``."""
    return readable()[framework].read_source(ModelFiles(path, None, shapes or {}, True, unsafe))


def assert_same_numbers(model: ir.Model, recorded: Path) -> None:
    """The model has the inputs and outputs that the framework recorded, and gives its numbers."""
    with np.load(recorded) as arrays:
        feed = {name.removeprefix("in_"): arrays[name] for name in arrays.files if name.startswith("in_")}
        expected = {name.removeprefix("out_"): arrays[name] for name in arrays.files if name.startswith("out_")}
    assert sorted(str(value.name) for value in model.graph.inputs) == sorted(feed)
    found = run(model, feed)
    if "#0" in expected:  # a program of PyTorch does not name its outputs
        expected = dict(zip(found, (expected[f"#{number}"] for number in range(len(expected))), strict=True))
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        assert found[name].shape == values.shape
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
