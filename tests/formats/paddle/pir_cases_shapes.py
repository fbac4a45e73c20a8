"""Shapes, places and constants: see :mod:`tests.formats.paddle.pir_cases`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_cases import CUBE, LONG, PICTURE, TRUTH, VOLUME, Case, simple
from tests.formats.paddle.pir_models import VECTOR, Dtype, PirProgram

Array = NDArray[Any]

BLOCK, ROWS = random(2, 3, 4, 5, seed=32), random(5, 4, seed=33)


def sliced(
    p: PirProgram, x: int, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], drop: Sequence[int] = ()
) -> int:
    return p.op("slice", x, p.ints(*starts), p.ints(*ends), axes=list(axes), decrease_axis=list(drop))


def overwritten() -> Array:
    made = ROWS.copy()
    made[1:5:2, -2:] = 3
    return made


def with_rows() -> Array:
    made = ROWS.copy()
    made[1, 0:4] = random(4)
    return made


SHAPED = {
    "reshape": Case("reshape", lambda p, x: p.op("reshape", x, p.ints(0, -1, 5)), [BLOCK], [BLOCK.reshape(2, 12, 5)]),
    "flatten": simple("flatten", [BLOCK], BLOCK.reshape(2, 12, 5), start_axis=1, stop_axis=2),
    "flatten with open sizes": Case(
        "flatten",
        lambda p, x: p.op("flatten", x, start_axis=0, stop_axis=1),
        [BLOCK],
        [BLOCK.reshape(6, 4, 5)],
        [(-1, 3, -1, -1)],
    ),
    "squeeze": Case("squeeze", lambda p, x: p.op("squeeze", x, p.ints(1, 2)), [LONG[:, None]], [LONG]),
    "unsqueeze": Case("unsqueeze", lambda p, x: p.op("unsqueeze", x, p.ints(0, -1)), [LONG], [LONG[None, ..., None]]),
    "transpose": simple("transpose", [BLOCK], BLOCK.transpose(0, 2, 3, 1), perm=[0, 2, 3, 1]),
    "concat": Case(
        "concat",
        lambda p, x, y: p.op("concat", p.combine(x, y), p.full(1, "int32")),
        [CUBE, CUBE],
        [np.concatenate([CUBE, CUBE], 1)],
    ),
    "stack": Case(
        "stack",
        lambda p, x, y: p.op("stack", p.combine(x, y), axis=-1),
        [CUBE, CUBE * 2],
        [np.stack([CUBE, CUBE * 2], -1)],
    ),
    "split": Case(
        "split",
        lambda p, x: p.listed("split", x, p.ints(1, -1), p.full(2, "int32"), count=2),
        [BLOCK],
        [BLOCK[:, :, :1], BLOCK[:, :, 1:]],
    ),
    "split of an open size": Case(
        "split",
        lambda p, x: p.listed("split", x, p.ints(1, -1, 2), p.full(3, "int32"), count=3),
        [BLOCK],
        [BLOCK[..., :1], BLOCK[..., 1:3], BLOCK[..., 3:]],
        [(2, 3, 4, -1)],
    ),
    "split_with_num": Case(
        "split_with_num",
        lambda p, x: p.listed("split_with_num", x, p.full(2, "int32"), count=2, num=2),
        [BLOCK],
        np.split(BLOCK, 2, 2),
    ),
    "unbind": Case(
        "unbind", lambda p, x: p.listed("unbind", x, count=3, axis=1), [BLOCK], [BLOCK[:, i] for i in range(3)]
    ),
    "unstack": Case("unstack", lambda p, x: p.listed("unstack", x, count=2, axis=0, num=2), [BLOCK], list(BLOCK)),
    "slice": Case(
        "slice", lambda p, x: sliced(p, x, (1, -2), (3, 2**31 - 1), (1, 3)), [BLOCK], [BLOCK[:, 1:3, :, -2:]]
    ),
    "slice that drops": Case("slice", lambda p, x: sliced(p, x, (-1,), (0,), (2,), (2,)), [BLOCK], [BLOCK[:, :, -1]]),
    "slice of one element": Case(
        "slice",
        lambda p, x: sliced(p, x, (0, 1, 2), (1, 2, 3), (0, 1, 2), (0, 1, 2)),
        [CUBE],
        [np.asarray(CUBE[0, 1, 2])],
    ),
    "slice that is computed": Case(
        "slice",
        lambda p, x, start, end: p.op("slice", x, start, end, axes=[1], decrease_axis=[]),
        [BLOCK, np.array([1]), np.array([3])],
        [BLOCK[:, 1:3]],
    ),
    "strided_slice": Case(
        "strided_slice",
        lambda p, x: p.op("strided_slice", x, p.ints(0, 4), p.ints(9, 0), p.ints(2, -2), axes=[1, 3]),
        [BLOCK],
        [BLOCK[:, ::2, :, 4:0:-2]],
    ),
    "strided_slice to the front": Case(
        "strided_slice",
        lambda p, x: p.op("strided_slice", x, p.ints(9), p.ints(-1), p.ints(-1), axes=[2]),
        [BLOCK],
        [BLOCK[:, :, ::-1]],
    ),
    "crop": Case(
        "crop",
        lambda p, x: p.op("crop", x, p.ints(1, 2, 2, -1), p.ints(0, 1, 1, 1)),
        [BLOCK],
        [BLOCK[:1, 1:3, 1:3, 1:]],
    ),
    "expand": Case(
        "expand",
        lambda p, x: p.op("expand", x, p.ints(2, -1, 4)),
        [CUBE[0, :, :1]],
        [np.broadcast_to(CUBE[0, :, :1], (2, 3, 4))],
    ),
    "expand that is computed": Case(
        "expand",
        lambda p, x, n: p.op("expand", x, p.combine(n, p.full(-1, "int64", ()), p.full(4, "int64", ()))),
        [CUBE[0, :, :1], np.array(2)],
        [np.broadcast_to(CUBE[0, :, :1], (2, 3, 4))],
    ),
    "expand_as": simple(
        "expand_as", [CUBE[0, :, :1], CUBE], np.broadcast_to(CUBE[0, :, :1], (2, 3, 4)), target_shape=[2, 3, 4]
    ),
    "tile": Case("tile", lambda p, x: p.op("tile", x, p.ints(2, 1, 3)), [ROWS], [np.tile(ROWS, (2, 1, 3))]),
    "tile of the last": Case("tile", lambda p, x: p.op("tile", x, p.ints(3)), [ROWS], [np.tile(ROWS, 3)]),
    "tile of a number": Case(
        "tile",
        lambda p, x, n: p.op("tile", x, p.combine(n)),
        [np.array(1.5, np.float32), np.array(3, np.int64)],
        [np.full(3, 1.5, np.float32)],
    ),
    "tile of the last that is computed": Case(
        "tile", lambda p, x, n: p.op("tile", x, n), [ROWS, np.array([3], np.int64)], [np.tile(ROWS, 3)]
    ),
    "tile that is computed": Case(
        "tile",
        lambda p, x, n: p.op("tile", x, p.combine(n, p.full(1, "int64", ()))),
        [ROWS, np.array(2)],
        [np.tile(ROWS, (2, 1))],
    ),
    "flip": simple("flip", [BLOCK], BLOCK[:, ::-1, :, ::-1], axis=[1, -1]),
    "reverse": Case("reverse", lambda p, x: p.op("reverse", x, p.ints(2)), [BLOCK], [BLOCK[:, :, ::-1]]),
    "roll": Case(
        "roll", lambda p, x: p.op("roll", x, p.ints(1, -2), axis=[1, 3]), [BLOCK], [np.roll(BLOCK, (1, -2), (1, 3))]
    ),
    "roll of open sizes": Case(
        "roll",
        lambda p, x: p.op("roll", x, p.ints(9, -17), axis=[2, -1]),
        [BLOCK],
        [np.roll(BLOCK, (9, -17), (2, 3))],
        [(-1, -1, -1, -1)],
    ),
    "roll of open sizes without elements": Case(
        "roll",
        lambda p, x: p.op("roll", x, p.ints(3), axis=[1]),
        [np.zeros((2, 0), np.float32)],
        [np.zeros((2, 0), np.float32)],
        [(-1, -1)],
    ),
    "roll of all": Case("roll", lambda p, x: p.op("roll", x, p.ints(7), axis=[]), [CUBE], [np.roll(CUBE, 7)]),
    "tril": simple("tril", [ROWS], np.tril(ROWS, 1), diagonal=1),
    "triu": simple("triu", [ROWS], np.triu(ROWS, -1), diagonal=-1),
    "pad": Case(
        "pad",
        lambda p, x: p.op("pad", x, p.full(1.5), paddings=[1, 0, 0, 2]),
        [ROWS],
        [np.pad(ROWS, [(1, 0), (0, 2)], constant_values=1.5)],
    ),
    "pad3d": Case(
        "pad3d",
        lambda p, x: p.op("pad3d", x, p.ints(1, 2, 0, 1, 2, 0), mode="reflect", pad_value=0.0, data_format="NCDHW"),
        [VOLUME],
        [np.pad(VOLUME, [(0, 0), (0, 0), (2, 0), (0, 1), (1, 2)], mode="reflect")],
    ),
    "pad3d with channels last": Case(
        "pad3d",
        lambda p, x: p.op("pad3d", x, p.ints(1, 2, 0, 1, 2, 0), mode="constant", pad_value=0.5, data_format="NDHWC"),
        [VOLUME],
        [np.pad(VOLUME, [(0, 0), (2, 0), (0, 1), (1, 2), (0, 0)], constant_values=0.5)],
    ),
    "meshgrid": Case(
        "meshgrid",
        lambda p, x, y: p.add("0.split", p.add("1.meshgrid", [p.combine(x, y)], [VECTOR]), [VECTOR["D"][0]] * 2),
        [ROWS[0], ROWS[:, 0].copy()],
        np.meshgrid(ROWS[0], ROWS[:, 0], indexing="ij"),
    ),
    "broadcast_tensors": Case(
        "broadcast_tensors",
        lambda p, x, y: p.add(
            "0.split", p.add("1.broadcast_tensors", [p.combine(x, y)], [VECTOR]), [VECTOR["D"][0]] * 2
        ),
        [ROWS[:, :1].copy(), ROWS[:1]],
        np.broadcast_arrays(ROWS[:, :1], ROWS[:1]),
    ),
    "repeat_interleave": simple("repeat_interleave", [BLOCK], np.repeat(BLOCK, 2, 1), repeats=2, axis=1),
    "shape": simple("shape", [BLOCK], np.array([2, 3, 4, 5], np.int32)),
    "shape64": simple("shape64", [BLOCK], np.array([2, 3, 4, 5])),
    "numel": simple("numel", [BLOCK], np.array(120)),
    "set_value": Case(
        "set_value",
        lambda p, x: p.op(
            "set_value_", x, p.ints(1, -2), p.ints(5, 9), p.ints(2, 1), axes=[0, 1], shape=[1], values=[3.0]
        ),
        [ROWS],
        [overwritten()],
    ),
    "set_value_with_tensor": Case(
        "set_value_with_tensor",
        lambda p, x, v: p.op(
            "set_value_with_tensor_", x, v, p.ints(1, 0), p.ints(2, 4), p.ints(1, 1), axes=[0, 1], decrease_axes=[0]
        ),
        [ROWS, random(4)],
        [with_rows()],
    ),
    "fold": Case(
        "fold",
        lambda p, x: p.op(
            "fold", x, output_sizes=[3, 2], kernel_sizes=[2, 2], strides=[1, 1], paddings=[0, 0, 0, 0], dilations=[1, 1]
        ),
        [np.arange(8, dtype=np.float32).reshape(1, 4, 2)],
        [np.array([[[[0.0, 2.0], [5.0, 9.0], [5.0, 7.0]]]])],
    ),
    "unfold": Case(
        "unfold",
        lambda p, x: p.op("unfold", x, kernel_sizes=[2, 3], strides=[1, 1], paddings=[0, 0, 0, 0], dilations=[1, 1]),
        [PICTURE],
        [
            np.stack(
                [
                    PICTURE[:, c, i : i + 6, j : j + 4].reshape(2, -1)
                    for c in range(4)
                    for i in range(2)
                    for j in range(3)
                ],
                axis=1,
            )
        ],
    ),
}

INDEX, NEAR = np.array([3, 1]), np.array([[0, 3], [2, 2], [1, 0], [3, 3], [0, 1]])


def scattered(kind: str) -> Array:
    made = ROWS.copy()
    for place, row in enumerate(INDEX):
        made[row] = random(2, 4)[place] + (made[row] if kind == "add" else 0)
    return made


def put() -> Array:
    made = ROWS.copy()
    np.put_along_axis(made, NEAR[:, :1], 1.5, 1)
    return made


PICKED = {
    "embedding": Case(
        "embedding", lambda p, i: p.op("embedding", i, p.parameter("w", ROWS), padding_idx=-1), [NEAR], [ROWS[NEAR]]
    ),
    "embedding with padding": Case(
        "embedding",
        lambda p, i: p.op("embedding", i, p.parameter("w", ROWS), padding_idx=2),
        [NEAR],
        [np.where((NEAR == 2)[..., None], 0, ROWS[NEAR])],
    ),
    "gather": Case("gather", lambda p, x, i: p.op("gather", x, i, p.full(1, "int32")), [ROWS, INDEX], [ROWS[:, INDEX]]),
    "gather_nd": simple("gather_nd", [ROWS, NEAR[:3]], ROWS[NEAR[:3, 0], NEAR[:3, 1]]),
    "index_select": simple("index_select", [ROWS, INDEX], ROWS[:, INDEX], axis=1),
    "index_sample": simple("index_sample", [ROWS, NEAR], np.take_along_axis(ROWS, NEAR, 1)),
    "take_along_axis": simple("take_along_axis", [ROWS, NEAR], np.take_along_axis(ROWS, NEAR, 1), axis=1),
    "put_along_axis": simple(
        "put_along_axis",
        [ROWS, NEAR[:, :1], np.full((5, 1), 1.5, np.float32)],
        put(),
        axis=1,
        reduce="assign",
        include_self=True,
    ),
    "scatter": simple("scatter", [ROWS, INDEX, random(2, 4)], scattered("set"), overwrite=True),
    "scatter that adds": simple("scatter", [ROWS, INDEX, random(2, 4)], scattered("set"), overwrite=False),
    "scatter_nd_add": simple("scatter_nd_add", [ROWS, INDEX[:, None], random(2, 4)], scattered("add")),
    "index_add": simple("index_add", [ROWS, INDEX, random(2, 4)], scattered("add"), axis=0),
    "index_put": Case(
        "index_put",
        lambda p, x, i, v: p.op("index_put", x, p.combine(i), v, accumulate=False),
        [ROWS, INDEX, random(2, 4)],
        [scattered("set")],
    ),
    "index_put by a mask": Case(
        "index_put",
        lambda p, x, m: p.op("index_put", x, p.combine(m), p.full(7.0), accumulate=False),
        [ROWS[:3], TRUTH],
        [np.where(TRUTH, 7, ROWS[:3])],
    ),
    "masked_select": simple("masked_select", [ROWS[:3], TRUTH], ROWS[:3][TRUTH]),
    "nonzero": simple("nonzero", [TRUTH], np.stack(np.nonzero(TRUTH), 1)),
    "one_hot": Case(
        "one_hot", lambda p, i: p.op("one_hot", i, p.full(5, "int32")), [INDEX], [np.eye(5, dtype=np.float32)[INDEX]]
    ),
    "sequence_mask": Case(
        "sequence_mask",
        lambda p, n: p.op("sequence_mask", n, p.full(5, "int32"), out_dtype=Dtype("float32")),
        [np.array([3, 0, 5])],
        [(np.arange(5) < np.array([[3], [0], [5]])).astype(np.float32)],
    ),
    "sequence_mask to the longest": Case(
        "sequence_mask",
        lambda p, n: p.op("sequence_mask", n, p.full(-1, "int32"), out_dtype=Dtype("int64")),
        [np.array([3, 0, 4])],
        [(np.arange(4) < np.array([[3], [0], [4]])).astype(np.int64)],
    ),
}

MADE = {
    "arange": Case(
        "arange",
        lambda p, x: p.op("add", x, p.op("arange", p.full(0.5), p.full(2.5), p.full(0.5), dtype=Dtype("float32"))),
        [ROWS],
        [ROWS + np.arange(0.5, 2.5, 0.5, np.float32)],
    ),
    "arange that is computed": Case(
        "arange",
        lambda p, n: p.op("arange", p.full(1, "int64"), n, p.full(2, "int64"), dtype=Dtype("int64")),
        [np.array(8)],
        [np.arange(1, 8, 2)],
    ),
    "linspace": Case(
        "linspace",
        lambda p, x: p.op(
            "add", x, p.op("linspace", p.full(0.0), p.full(1.0), p.full(4, "int32"), dtype=Dtype("float32"))
        ),
        [ROWS],
        [ROWS + np.linspace(0, 1, 4)],
    ),
    "diag": Case(
        "diag",
        lambda p, x: p.op("diag", x, offset=-1, padding_value=3.0),
        [random(4)],
        [np.diag(random(4), -1) + np.where(np.eye(5, k=-1), 0, 3)],
    ),
    "diag of a matrix": Case(
        "diag", lambda p, x: p.op("diag", x, offset=1, padding_value=0.0), [ROWS], [np.diag(ROWS, 1)]
    ),
    "eye": Case(
        "eye",
        lambda p, x: p.op("add", x, p.op("eye", p.full(5, "int32"), p.full(4, "int32"), dtype=Dtype("float32"))),
        [ROWS],
        [ROWS + np.eye(5, 4)],
    ),
    "full_like": Case(
        "full_like",
        lambda p, x: p.op("full_like", x, p.full(2.5), dtype=Dtype("float32")),
        [ROWS],
        [np.full((5, 4), 2.5)],
        [(-1, 4)],
    ),
    "ones_like": simple("ones_like", [ROWS], np.ones((5, 4), np.int64), dtype=Dtype("int64")),
    "zeros_like": simple("zeros_like", [ROWS], np.zeros((5, 4)), dtype=Dtype("Undefined(ALL_DTYPE)")),
    "full_with_tensor": Case(
        "full_with_tensor",
        lambda p, n: p.op(
            "full_with_tensor",
            p.full(1.5),
            p.op("stack", p.combine(n, p.full(3, "int64", ())), axis=0),
            dtype=Dtype("float32"),
        ),
        [np.array(2)],
        [np.full((2, 3), 1.5, np.float32)],
    ),
    "full_batch_size_like": Case(
        "full_batch_size_like",
        lambda p, x: p.op(
            "full_batch_size_like",
            x,
            shape=[7, -1, 3],
            dtype=Dtype("float32"),
            value=2.0,
            input_dim_idx=0,
            output_dim_idx=1,
        ),
        [ROWS],
        [np.full((7, 5, 3), 2.0)],
    ),
}

CASES_OF_SHAPES: Mapping[str, Case] = {**SHAPED, **PICKED, **MADE}
