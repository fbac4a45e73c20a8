from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from converter_lite.engine import DEFAULT_ENGINE
from converter_lite.errors import TargetError
from converter_lite.formats.mindspore_ms.format import MsFormat
from tests.formats.mindspore_ms.models import (
    convolutional,
    floating,
    from_nodes,
    fully_quantized,
    image,
    proto,
    weights_quantized,
)
from tests.formats.mindspore_ms.test_writer import RANGES


def test_a_written_file_runs_on_the_samples_of_the_model(tmp_path: Path) -> None:
    model = convolutional()
    expected = DEFAULT_ENGINE.session(proto(model)).run(image())["y"]
    for quantized, allowed in (
        (floating(model), 1e-5),
        (weights_quantized(model, 12), 1e-2),
        (fully_quantized(model, RANGES), 0.1),
    ):
        fmt = MsFormat()
        (path,) = fmt.write(quantized, tmp_path / "model.ms").files
        got = DEFAULT_ENGINE.session(fmt.runnable(path, like=model)).run(image())["y"]
        assert np.abs(got - expected).max() <= allowed


def test_indices_stay_64_bits_wide_outside(tmp_path: Path) -> None:
    model = from_nodes(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        {"ids": (2, 3)},
        {"table": np.arange(20, dtype=np.float32).reshape(10, 2)},
        ["y"],
        kinds={"ids": 7},
    )
    ids = {"ids": np.array([[1, 2, 3], [9, 0, 4]])}
    (path,) = MsFormat().write(floating(model), tmp_path / "model.ms").files
    got = DEFAULT_ENGINE.session(MsFormat().runnable(path, like=model)).run(ids)["y"]
    np.testing.assert_array_equal(got, DEFAULT_ENGINE.session(proto(model)).run(ids)["y"])


def test_a_model_that_does_not_fit_is_refused_at_once() -> None:
    model = from_nodes([helper.make_node("Det", ["x"], ["y"], name="d")], {"x": (2, 2)}, {}, ["y"])
    with pytest.raises(TargetError, match="Det"):
        MsFormat().check(model)
    MsFormat().check(convolutional())
