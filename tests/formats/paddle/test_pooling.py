"""Pooling whose last windows reach over the end of a picture, as Paddle counts their elements."""

from __future__ import annotations

import itertools
import re
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
Window = tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]
"""Sizes, strides, paddings (top, bottom, left, right)."""


def pool(kind: str, window: Window, **flags: Any) -> Operator:
    kernel, strides, paddings = window
    given = {"exclusive": True, "ceil_mode": False, "padding_algorithm": "EXPLICIT", **flags}
    attributes = {"ksize": ints(kernel), "strides": ints(strides), "paddings": ints(paddings)}
    attributes |= {key: attr(value) for key, value in given.items()}
    fixed = {"pooling_type": attr(kind), "global_pooling": attr(False), "adaptive": attr(False)}
    more = {"data_format": attr("NCHW"), "use_cudnn": attr(False)}
    return Operator("pool2d", {"X": ["x"]}, {"Out": ["out"]}, {**attributes, **fixed, **more})


def pooled(x: Array, kind: str, window: Window, **flags: Any) -> Array:
    """By the source of Paddle's kernel for processors: behind a picture counts as much padding as before it."""
    kernel, strides, pads = window
    if flags.get("padding_algorithm") == "SAME":
        needed = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(x.shape[2:], kernel, strides, strict=True)]
        pads = (needed[0] // 2, -(-needed[0] // 2), needed[1] // 2, -(-needed[1] // 2))
    starts = []
    for axis, size in enumerate(x.shape[2:]):
        span = size + pads[2 * axis] + pads[2 * axis + 1] - kernel[axis] + (strides[axis] - 1) * flags["ceil_mode"]
        starts.append([place * strides[axis] - pads[2 * axis] for place in range(span // strides[axis] + 1)])
    made = np.zeros((*x.shape[:2], *map(len, starts)))
    for place in itertools.product(*(range(len(axis)) for axis in starts)):
        begins = [axis[index] for axis, index in zip(starts, place, strict=True)]
        ends = [b + k for b, k in zip(begins, kernel, strict=True)]
        part = x[:, :, max(begins[0], 0) : ends[0], max(begins[1], 0) : ends[1]].astype(np.float64)
        last = [x.shape[2] + pads[0], x.shape[3] + pads[2]]
        counted = np.prod([min(end, most) - begin for begin, end, most in zip(begins, ends, last, strict=True)])
        inside = part.shape[2] * part.shape[3]
        mean = part.sum(axis=(2, 3)) / (inside if flags["exclusive"] else counted)
        made[(..., *place)] = part.max(axis=(2, 3)) if kind == "max" else mean
    return made.astype(np.float32)


UP = {"ceil_mode": True, "exclusive": False}
CASES: dict[str, tuple[str, Window, dict[str, Any]]] = {
    "means that count a margin, rounded up": ("avg", ((3, 3), (2, 2), (1, 1, 1, 1)), UP),
    "means of windows that leave gaps": ("avg", ((2, 2), (3, 3), (1, 1, 0, 0)), UP),
    "more margin before than behind, rounded up": ("avg", ((3, 4), (2, 1), (1, 0, 2, 1)), UP),
    "more margin behind than before": ("avg", ((3, 3), (1, 2), (0, 2, 1, 2)), {"ceil_mode": False, "exclusive": False}),
    "means of SAME that count": ("avg", ((2, 3), (2, 3), (0, 0, 0, 0)), {**UP, "padding_algorithm": "SAME"}),
    "means without the margin, rounded up": ("avg", ((3, 3), (2, 2), (1, 1, 1, 1)), {**UP, "exclusive": True}),
    "maxima, rounded up": ("max", ((3, 2), (2, 2), (1, 1, 0, 0)), {**UP, "exclusive": True}),
    "SAME with windows of single elements": (
        "avg",
        ((1, 1), (3, 1), (0, 0, 0, 0)),
        {"ceil_mode": False, "exclusive": False, "padding_algorithm": "SAME"},
    ),
}
X = random(2, 3, 9, 8, seed=7)
UNREAD = {"w": np.zeros(1, np.float32)}
"""Paddle reads no empty file of parameters."""


def saved(folder: Path, name: str, shape: tuple[int, ...] = X.shape) -> Path:
    kind, window, flags = CASES[name]
    return save(folder, program_of([pool(kind, window, **flags)], UNREAD, {"x": shape}, "out"), UNREAD)


@pytest.mark.parametrize("name", CASES)
def test_windows_over_the_end_hold_what_paddle_counts(name: str, tmp_path: Path) -> None:
    kind, window, flags = CASES[name]
    model = read_paddle(saved(tmp_path / "m", name)).model
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run({"x": X})
    np.testing.assert_allclose(next(iter(found.values())), pooled(X, kind, window, **flags), rtol=1e-5, atol=1e-6)


@pytest.mark.runtime
@pytest.mark.parametrize("release", ENVIRONMENTS)
def test_paddle_counts_so(release: str, tmp_path: Path) -> None:
    files = [saved(tmp_path / f"m{number}", name) / "inference.pdmodel" for number, name in enumerate(CASES)]
    results = run_models(release, [InferenceCase(file, {"x": X[None]}) for file in files], tmp_path)
    for (name, (kind, window, flags)), found in zip(CASES.items(), results, strict=True):
        assert not found.error, name
        np.testing.assert_allclose(
            found.outputs[0][0], pooled(X, kind, window, **flags), rtol=1e-5, atol=1e-6, err_msg=name
        )


OPEN = (-1, 3, -1, -1)


@pytest.mark.parametrize(
    ("name", "operator", "shape"),
    [
        ("behind the picture, and holds nothing", pool("max", ((1, 1), (2, 2), (0, 0, 0, 0)), ceil_mode=True), X.shape),
        ("means that count their padding", pool("avg", ((3, 3), (2, 2), (1, 1, 1, 1)), **UP), OPEN),
        (
            "padding that keeps the size",
            pool("max", ((1, 1), (2, 2), (0, 0, 0, 0)), padding_algorithm="SAME"),
            OPEN,
        ),
    ],
)
def test_what_has_no_numbers_or_needs_the_size_is_refused(
    name: str, operator: Operator, shape: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=re.escape(name)):
        read_paddle(save(tmp_path / "m", program_of([operator], UNREAD, {"x": shape}, "out"), UNREAD))
