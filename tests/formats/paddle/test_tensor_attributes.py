"""Operators of Paddle whose attributes are tensors of the program, and shapes that only older programs have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.program import Operator, attr, ints
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.inference_models import program_of, random, save
from tests.runtimes.paddle_inference import ENVIRONMENTS, InferenceCase, run_models

Array = NDArray[Any]


def computed(folder: Path, op: Operator, x: Array, **parameters: Array) -> Array:
    """What a program of one operator gives for ``x``."""
    program = program_of([op], parameters, {"x": x.shape}, "out")
    model = read_paddle(save(folder / "m", program, parameters)).model
    session = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1)
    return next(iter(session.run({"x": x}).values()))


def op(kind: str, more: dict[str, list[str]] | None = None, **attributes: Any) -> Operator:
    return Operator(kind, {"X": ["x"], **(more or {})}, {"Out": ["out"]}, attributes)


MIDDLE = {"Out": ["out"], "MidOut": ["middle"]}


def squeeze(slots: dict[str, list[str]], axes: tuple[int, ...]) -> Operator:
    return replace(op("squeeze2", slots, axes=ints(axes)), outputs={"Out": ["out"], "XShape": ["shape"]})


def lrn(x: Array) -> Array:
    """Local response normalization along the last axis, window 3, with the defaults of the others."""
    padded = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(1, 1)])
    total = padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]
    return x / (1.0 + 1e-4 * total) ** 0.75


CASES: dict[str, tuple[Operator, dict[str, Array], tuple[int, ...], Callable[[Array], Array]]] = {
    "an exponent": (
        op("pow", {"FactorTensor": ["n"]}, factor=attr(1.0)),
        {"n": np.array([3], np.float32)},
        (2, 3),
        lambda x: x**3,
    ),
    "an axis to add up along, which Paddle ignores": (
        op("cumsum", {"AxisTensor": ["n"]}, axis=attr(-1)),
        {"n": np.array([0], np.int32)},
        (2, 3),
        lambda x: np.cumsum(x, -1),
    ),
    "an axis to reduce, which Paddle ignores": (
        op("reduce_mean", {"AxisTensorList": ["n"]}, dim=ints((0,)), keep_dim=attr(False)),
        {"n": np.array([1], np.int32)},
        (2, 3),
        lambda x: x.mean(0),
    ),
    "an axis to squeeze, which Paddle ignores": (
        squeeze({"AxesTensor": ["n"]}, ()),
        {"n": np.array([0], np.int32)},
        (1, 3, 1, 4),
        lambda x: x.reshape(3, 4),
    ),
    "an axis to squeeze that is larger than 1": (
        squeeze({}, (1,)),
        {"n": np.zeros(1, np.int32)},
        (1, 3, 1, 4),
        lambda x: x,
    ),
    "how often each element comes": (
        op("repeat_interleave", {"RepeatsTensor": ["n"]}, Repeats=attr(0), dim=attr(1)),
        {"n": np.array([1, 0, 3], np.int32)},
        (2, 3, 2),
        lambda x: np.repeat(x, [1, 0, 3], axis=1),
    ),
    "channels behind": (
        replace(op("lrn", n=attr(3), k=attr(1.0), alpha=attr(1e-4), data_format=attr("NHWC")), outputs=MIDDLE),
        {"n": np.zeros(1, np.float32)},
        (1, 4, 4, 6),
        lrn,
    ),
    "a sum of squares with something added": (
        replace(op("norm", axis=attr(1), epsilon=attr(0.5)), outputs={"Out": ["out"], "Norm": ["norm"]}),
        {"n": np.zeros(1, np.float32)},
        (2, 3),
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True) + 0.5),
    ),
    "sizes of 1 at the end": (
        op("elementwise_add", {"Y": ["n"]}, axis=attr(2)),
        {"n": random(4, 1)},
        (2, 3, 4),
        lambda x: x + random(4, 1)[:, 0],
    ),
}
"""Each has a parameter, since Paddle reads no empty file of them."""

ENDS_PADDLE = {"3.3.1": ("sizes of 1 at the end",)}
"""Cases in which a release ends its process."""


@pytest.mark.parametrize("case", CASES)
def test_an_operator_is_read_as_paddle_computes_it(case: str, tmp_path: Path) -> None:
    operator, parameters, shape, wanted = CASES[case]
    x = random(*shape, seed=5)
    found = computed(tmp_path, operator, x, **parameters)
    np.testing.assert_allclose(found, wanted(x), rtol=1e-5, atol=1e-6)


@pytest.mark.runtime
@pytest.mark.parametrize("release", ENVIRONMENTS)
def test_paddle_computes_so(release: str, tmp_path: Path) -> None:
    names = [name for name in CASES if name not in ENDS_PADDLE.get(release, ())]
    cases = []
    for number, name in enumerate(names):
        operator, parameters, shape, _ = CASES[name]
        folder = save(tmp_path / f"m{number}", program_of([operator], parameters, {"x": shape}, "out"), parameters)
        cases.append(InferenceCase(folder / "inference.pdmodel", {"x": random(*shape, seed=5)[None]}))
    for name, found in zip(names, run_models(release, cases, tmp_path), strict=True):
        _, _, shape, wanted = CASES[name]
        assert not found.error, name
        np.testing.assert_allclose(
            found.outputs[0][0], wanted(random(*shape, seed=5)), rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize(("end", "count"), [(0.3, 3), (0.6, 6), (1.0, 10)])
def test_a_range_of_floats_counts_in_their_precision(end: float, count: int, tmp_path: Path) -> None:
    numbers = {
        "start": np.array([0], np.float32),
        "end": np.array([end], np.float32),
        "step": np.array([0.1], np.float32),
    }
    slots = {"Start": ["start"], "End": ["end"], "Step": ["step"]}
    steps = Operator("range", slots, {"Out": ["r"]}, {})
    add = Operator("elementwise_add", {"X": ["x"], "Y": ["r"]}, {"Out": ["out"]}, {"axis": attr(-1)})
    program = program_of([steps, add], numbers, {"x": (1,)}, "out")
    model = read_paddle(save(tmp_path / "m", program, numbers)).model
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString()).run({"x": np.zeros(1, np.float32)})
    assert next(iter(found.values())).shape == (count,)


def test_numbers_of_copies_that_are_computed_are_refused(tmp_path: Path) -> None:
    slots = {"X": ["x"], "RepeatsTensor": ["r"]}
    counts = Operator("cast", {"X": ["x"]}, {"Out": ["r"]}, {"out_dtype": attr(2), "in_dtype": attr(5)})
    repeat = Operator("repeat_interleave", slots, {"Out": ["out"]}, {"Repeats": attr(0), "dim": attr(0)})
    program = program_of([counts, repeat], {}, {"x": (3,)}, "out")
    with pytest.raises(ModelError, match="computed at run time"):
        read_paddle(save(tmp_path / "m", program, {}))


def test_a_window_without_a_middle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no middle"):
        computed(tmp_path, op("lrn", n=attr(4)), random(1, 6, 4, 4))
