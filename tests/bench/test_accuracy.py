"""Figures of accuracy, in the runtime as it is and exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.accuracy import as_it_is, compared, exact, flat
from bench.precision import difference
from tests.support import build_proto

PRODUCT = "g (uint8[1,4] x) => (int32[1,8] y) { y = MatMulInteger(x, w) }"


def written(folder: Path, weight: int) -> Path:
    model = build_proto(PRODUCT, w=np.full((4, 8), weight, np.int8))
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def test_a_file_is_run_exactly_where_a_kernel_could_saturate(tmp_path: Path) -> None:
    run = exact(written(tmp_path, 127))
    assert run is not None
    assert np.all(run({"x": np.full((1, 4), 255, np.uint8)})[0] == 4 * 255 * 127)


def test_a_file_that_no_kernel_saturates_with_is_exact_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, 64)
    assert exact(path) is None
    feed = {"x": np.full((1, 4), 255, np.uint8)}
    assert np.all(as_it_is(path)(feed)[0] == 4 * 255 * 64)
    assert difference(path, [feed]) == 0.0


def test_figures_are_those_of_all_samples_and_outputs() -> None:
    reference = [flat([np.array([[1.0, 0.0]])]), flat([np.array([[0.0, 2.0]])])]
    found = [flat([np.array([[1.0, 0.0]])]), flat([np.array([[2.0, 2.0]])])]
    figures = compared(found, reference)
    assert figures == {
        "cosine": pytest.approx((1 + 0.5**0.5) / 2),
        "least": pytest.approx(0.5**0.5),
        "error": 2.0,
    }


def test_classes_count_where_there_are_labels() -> None:
    found = [[np.eye(8, dtype=np.float32)[index]] for index in (3, 4)]
    figures = compared(found, found, np.array([3, 7]))
    assert (figures["top1"], figures["top5"]) == (0.5, 0.5)
