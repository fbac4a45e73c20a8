"""Cases of operators that pick, place and order elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.formats.tflite.case import Case, Fed, i32, normal, scalar, single

X = normal(2, 3, 4)


def picking() -> Iterator[Case]:
    places = np.array([[2, 0], [1, 1]], np.int32)
    for axis in (0, 1, -1):
        found = places % X.shape[axis]
        made = np.take(X, found, axis)
        yield single(f"axis {axis}", "GATHER", [Fed(X), Fed(found)], made, axis=axis)
    table = normal(2, 5, 3, 4)
    chosen = np.array([[2, 0, 1], [1, 1, 0]], np.int32)
    made = np.stack([np.take(t, c, 1) for t, c in zip(table, chosen, strict=True)])
    yield single("shared axes", "GATHER", [Fed(table), Fed(chosen)], made, axis=2, batch_dims=1)
    made = np.stack([np.take(t, c, 0) for t, c in zip(table, chosen, strict=True)])
    yield single("shared axis in front", "GATHER", [Fed(table), Fed(chosen)], made, axis=1, batch_dims=1)
    made = np.stack([t[c] for t, c in zip(X, chosen[:, 0], strict=True)])
    yield single("all axes shared", "GATHER", [Fed(X), Fed(chosen[:, 0].copy())], made, axis=1, batch_dims=1)
    made = np.stack([np.take(t, c, 0) for t, c in zip(X, chosen, strict=True)])
    yield single("shared from behind", "GATHER", [Fed(X), Fed(chosen)], made, axis=1, batch_dims=-1)
    where = np.array([[0, 1], [1, 2]], np.int32)
    yield single("", "GATHER_ND", [Fed(X), Fed(where)], X[where[:, 0], where[:, 1]])
    rows = normal(6, 3)
    yield single("", "EMBEDDING_LOOKUP", [Fed(i32(4, 0, 4)), rows], rows[[4, 0, 4]])
    truth = np.array([[True, False, True], [False, False, True]])
    yield single("", "WHERE", [Fed(truth)], np.argwhere(truth))
    numbers = np.array([5, 2, 5, 9, 2, 1], np.int32)
    yield single("", "UNIQUE", [Fed(numbers)], [i32(5, 2, 9, 1), i32(0, 1, 0, 2, 1, 3)], idx_out_type=2)


def placing() -> Iterator[Case]:
    where, updates = np.array([[1], [3], [1]], np.int32), normal(3, 4)
    made = np.zeros((5, 4), np.float32)
    np.add.at(made, where[:, 0], updates)
    yield single("", "SCATTER_ND", [Fed(where), Fed(updates), i32(5, 4)], made)
    yield single("constant", "SCATTER_ND", [where, Fed(updates), i32(5, 4)], made)
    made = np.full((2, 3), 7, np.float32)
    made[0, 1], made[1, 2] = 1, 2
    places = np.array([[0, 1], [1, 2]], np.int32)
    operands = [places, i32(2, 3), np.array([1, 2], np.float32), np.array(7, np.float32)]
    yield single("", "SPARSE_TO_DENSE", [Fed(places), *operands[1:]], made)
    line = np.zeros(5, np.float32)
    line[[1, 4]] = 3
    operands = [i32(5), np.array(3, np.float32), np.array(0, np.float32)]
    yield single("one number", "SPARSE_TO_DENSE", [Fed(i32(1, 4)), *operands], line)
    indices = np.array([[0, 2], [-1, 5]], np.int32)
    hot = np.where(indices[..., None] == np.arange(4), np.float32(2), np.float32(-1))
    numbers = [scalar(4), np.array(2, np.float32), np.array(-1, np.float32)]
    yield single("", "ONE_HOT", [Fed(indices), *numbers], hot, axis=-1)
    yield single("in front", "ONE_HOT", [Fed(indices), *numbers], np.moveaxis(hot, -1, 0).copy(), axis=0)
    made = X.copy()
    update = normal(2, 2, 4, seed=4)
    made[:, 1:] = update
    yield single("", "DYNAMIC_UPDATE_SLICE", [Fed(X), Fed(update), Fed(i32(0, 2, 0))], made)
    row = normal(2, 3)
    diagonal = np.zeros((2, 3, 3), np.float32)
    diagonal[:, range(3), range(3)] = row
    yield single("", "MATRIX_DIAG", [Fed(row)], diagonal)
    made = X.copy()
    made[:, range(3), range(3)] = row
    yield single("", "MATRIX_SET_DIAG", [Fed(X), Fed(row)], made)


def ordering() -> Iterator[Case]:
    values, places = np.sort(X, -1)[..., ::-1][..., :2], np.argsort(-X, -1, kind="stable")[..., :2]
    yield single("", "TOPK_V2", [Fed(X), scalar(2)], [values.copy(), places.astype(np.int32)])
    yield single("", "ARG_MAX", [Fed(X), scalar(-1)], X.argmax(-1), output_type=4)
    yield single("short", "ARG_MIN", [Fed(X), scalar(1)], X.argmin(1).astype(np.int32), output_type=2)
    yield single("", "REVERSE_V2", [Fed(X), i32(1)], X[:, ::-1].copy())
    lengths = i32(2, 3)
    made = X.copy()
    for batch, length in enumerate(lengths):
        made[batch, :length] = X[batch, :length][::-1]
    yield single("", "REVERSE_SEQUENCE", [Fed(X), lengths], made, seq_dim=1, batch_dim=0)
    turned, expected = X.transpose(2, 1, 0).copy(), made.transpose(2, 1, 0).copy()
    yield single("other axes", "REVERSE_SEQUENCE", [Fed(turned), lengths], expected, seq_dim=1, batch_dim=2)


def segments() -> Iterator[Case]:
    data = normal(4, 3)
    made = np.stack([data[:2].sum(0), data[2], data[3]])
    yield single("", "SEGMENT_SUM", [Fed(data), i32(0, 0, 1, 2)], made)
    ids = i32(2, 0, 0, -1)
    for kind, function, first in (
        ("SUM", np.add, 0.0),
        ("PROD", np.multiply, 1.0),
        ("MAX", np.maximum, float(np.finfo(np.float32).min)),
        ("MIN", np.minimum, float(np.finfo(np.float32).max)),
    ):
        made = np.full((4, 3), first, np.float32)
        for number, row in zip(ids, data, strict=True):
            if number >= 0:
                made[number] = function(made[number], row)
        yield single("", f"UNSORTED_SEGMENT_{kind}", [Fed(data), ids, scalar(4)], made)


def boxes() -> Iterator[Case]:
    found = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.05, 1, 3.05], [5, 5, 6, 6]], np.float32)
    scores = np.array([0.9, 0.95, 0.6, 0.7, 0.05], np.float32)
    operands = [Fed(found), Fed(scores), scalar(4), np.array(0.5, np.float32), np.array(0.1, np.float32)]
    yield single("", "NON_MAX_SUPPRESSION_V4", operands, [i32(1, 3, 0, 0), scalar(2)])
    kept = np.array([0.95, 0.7, 0, 0], np.float32)
    operands.append(np.array(0, np.float32))
    yield single("", "NON_MAX_SUPPRESSION_V5", operands, [i32(1, 3, 0, 0), kept, scalar(2)])


CASES = [*picking(), *placing(), *ordering(), *segments(), *boxes()]
