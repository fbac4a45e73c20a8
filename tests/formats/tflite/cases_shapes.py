"""Cases of operators that change shapes, cut and join, and reduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.formats.tflite.case import Array, Case, Fed, i32, normal, scalar, single, whole

X = normal(2, 3, 4)
PICTURE = normal(2, 4, 5, 3)


def reshaping() -> Iterator[Case]:
    yield single("", "RESHAPE", [Fed(X), i32(4, 6)], X.reshape(4, 6), new_shape=[4, 6])
    yield single("with a size that is left", "RESHAPE", [Fed(X), i32(-1, 2, 6)], X.reshape(2, 2, 6))
    yield single("by an option", "RESHAPE", [Fed(X)], X.reshape(4, 6), new_shape=[4, 6])
    yield single("computed", "RESHAPE", [Fed(X), Fed(i32(6, 4))], X.reshape(6, 4))
    row = normal(1, 3, 1, 4)
    yield single("all", "SQUEEZE", [Fed(row)], row[0, :, 0])
    yield single("one", "SQUEEZE", [Fed(row)], row[:, :, 0], squeeze_dims=[-2])
    for axis in (0, 2, -1):
        yield single(f"axis {axis}", "EXPAND_DIMS", [Fed(X), scalar(axis)], np.expand_dims(X, axis))
    yield single("", "TRANSPOSE", [Fed(PICTURE), i32(0, 3, 1, 2)], PICTURE.transpose(0, 3, 1, 2))
    yield single("of a constant", "TRANSPOSE", [X, i32(2, 0, 1)], X.transpose(2, 0, 1))
    yield single("", "FILL", [Fed(i32(2, 3)), np.array(1.5, np.float32)], np.full((2, 3), 1.5, np.float32))
    yield single("", "RANGE", [Fed(scalar(2)), Fed(scalar(9)), Fed(scalar(3))], np.arange(2, 9, 3, dtype=np.int32))
    yield single("", "TILE", [Fed(X), i32(2, 1, 3)], np.tile(X, (2, 1, 3)))
    column = normal(3, 1)
    yield single("", "BROADCAST_TO", [Fed(column), i32(2, 3, 4)], np.broadcast_to(column, (2, 3, 4)).copy())
    yield single("", "BROADCAST_ARGS", [Fed(i32(3, 1)), Fed(i32(2, 1, 4))], i32(2, 3, 4))


def joining() -> Iterator[Case]:
    other = normal(2, 3, 2)
    yield single("", "CONCATENATION", [Fed(X), Fed(other), X], np.concatenate([X, other, X], 2), axis=-1)
    for axis in (0, 1, -1):
        made = np.stack([X, 2 * X], axis)
        yield single(f"axis {axis}", "PACK", [Fed(X), Fed(2 * X)], made, values_count=2, axis=axis)
    yield single("axis 1", "UNPACK", [Fed(X)], [X[:, n] for n in range(3)], num=3, axis=1)
    yield single("of one", "UNPACK", [Fed(X[:1])], [X[0]], num=1, axis=0)
    yield single("", "SPLIT", [scalar(2), Fed(X)], np.split(X, 2, 2), num_splits=2)
    parts = [X[..., :1], X[..., 1:3], X[..., 3:]]
    yield single("", "SPLIT_V", [Fed(X), i32(1, -1, 1), scalar(2)], parts, num_splits=3)
    parts = [X[..., :1], X[..., 1:], X[..., 4:]]
    yield single("with an empty part", "SPLIT_V", [Fed(X), i32(1, 3, 0), scalar(2)], parts, num_splits=3)


def cutting() -> Iterator[Case]:
    yield single("", "SLICE", [Fed(X), i32(0, 1, 1), i32(-1, 2, 2)], X[:, 1:3, 1:3])
    yield single("computed", "SLICE", [Fed(X), Fed(i32(1, 0, 2)), i32(1, 2, -1)], X[1:2, :2, 2:])
    masks: dict[str, tuple[dict[str, int], Array, Array, Array, Array]] = {
        "plain": ({}, i32(0, 1, 0), i32(2, 3, 4), i32(1, 1, 2), X[0:2, 1:3, ::2]),
        "backwards": ({"end_mask": 4}, i32(0, 2, 3), i32(2, 0, 0), i32(1, -1, -2), X[0:2, 2:0:-1, 3::-2]),
        "all backwards": ({"begin_mask": 7, "end_mask": 7}, i32(0, 0, 0), i32(0, 0, 0), i32(1, -1, 1), X[:, ::-1]),
        "backwards from before the first": ({}, i32(0, -4, 0), i32(2, -9, 4), i32(1, -1, 1), X[:, -4:-9:-1]),
        "from behind": ({}, i32(-1, -2, 0), i32(2, 3, -1), i32(1, 1, 1), X[-1:2, -2:3, 0:-1]),
        "shrunk": ({"shrink_axis_mask": 5, "end_mask": 2}, i32(1, 1, -1), i32(2, 0, 0), i32(1, 1, 1), X[1, 1:, -1]),
        "new axis": ({"new_axis_mask": 2, "end_mask": 5}, i32(0, 0, 1), i32(0, 0, 0), i32(1, 1, 1), X[:, None, 1:]),
        "ellipsis": ({"ellipsis_mask": 1}, i32(0, 1), i32(0, 3), i32(1, 1), X[..., 1:3]),
        "ellipsis, new, shrunk": (
            {"ellipsis_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4},
            i32(0, 0, 2),
            i32(0, 0, 0),
            i32(1, 1, 1),
            X[..., None, 2],
        ),
        "the first of an axis that is shrunk": (
            {"begin_mask": 5, "end_mask": 4, "shrink_axis_mask": 5},
            i32(1, 1, -1),
            i32(2, 9, 9),
            i32(1, 1, 1),
            X[0, 1:, 0],
        ),
        "fewer axes": ({}, i32(1), i32(2), i32(1), X[1:2]),
        "lengths": ({"offset": True}, i32(0, 1, 2), i32(2, 2, 1), i32(1, 1, 1), X[0:2, 1:3, 2:3]),
    }
    for name, (options, begin, end, strides, expected) in masks.items():
        yield single(name, "STRIDED_SLICE", [Fed(X), begin, end, strides], expected.copy(), **options)
    operands = [Fed(X), Fed(i32(1, 1, -1)), Fed(i32(2, 9, 9)), i32(1, 1, 1)]
    made = X[1, 1:, -1:]
    yield single("computed", "STRIDED_SLICE", operands, made, shrink_axis_mask=1, end_mask=4)
    masks_of_both = {"shrink_axis_mask": 1, "begin_mask": 3, "end_mask": 5}
    yield single("computed, shrunk to the first", "STRIDED_SLICE", operands, X[0, :9, -1:], **masks_of_both)


def reductions() -> Iterator[Case]:
    functions: dict[str, Callable[..., Any]] = {
        "MEAN": np.mean,
        "SUM": np.sum,
        "REDUCE_MAX": np.max,
        "REDUCE_MIN": np.min,
        "REDUCE_PROD": np.prod,
    }
    for kind, function in functions.items():
        for axes, keep in (((1, 2), False), ((1, 2), True), ((-1,), False), ((0, 2), True)):
            made = np.asarray(function(PICTURE, axis=axes, keepdims=keep), np.float32)
            yield single(f"{axes}{' kept' if keep else ''}", kind, [Fed(PICTURE), i32(*axes)], made, keep_dims=keep)
    truth = PICTURE > 0
    yield single("", "REDUCE_ANY", [Fed(truth), i32(1)], truth.any(1))
    yield single("kept", "REDUCE_ALL", [Fed(truth), i32(1, 3)], truth.all((1, 3), keepdims=True), keep_dims=True)
    yield single("", "CUMSUM", [Fed(X), scalar(1)], np.cumsum(X, 1))
    backwards = np.cumsum(X[:, :, ::-1], 2)[:, :, ::-1] - X
    yield single("exclusive, backwards", "CUMSUM", [Fed(X), scalar(2)], backwards, exclusive=True, reverse=True)


def sizes_of_sizes() -> Iterator[Case]:
    numbers = whole(1, 9, 2, 3)
    yield single("of whole numbers", "SUM", [Fed(numbers), i32(1)], numbers.sum(1, dtype=np.int32))
    yield single("of whole numbers", "REDUCE_MAX", [Fed(numbers), i32(0)], numbers.max(0))


CASES = [*reshaping(), *joining(), *cutting(), *reductions(), *sizes_of_sizes()]
