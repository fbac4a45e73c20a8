"""Cases of operators on tensors: reductions, shapes, parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.mindir.cases import FLAGS, IN, Case, X, Y, f32, one, two
from tests.formats.mindir.files import Type, Weight
from tests.support import normal

Array = NDArray[Any]

MATRIX = normal(3, 4, seed=9)
COUNTS = np.random.default_rng(3).integers(-9, 9, (3, 4)).astype(np.int32)


def places(array: Any, dtype: type = np.int32) -> Array:
    return np.asarray(array, dtype)


def top(x: Array, count: int, axis: int = -1) -> tuple[Array, Array]:
    order = np.argsort(-x, axis=axis, kind="stable").take(range(count), axis)
    return np.take_along_axis(x, order, axis), places(order)


REDUCTION: dict[str, Case] = {
    "ReduceMean": one("ReduceMean", f32(lambda x: x.mean(axis=(2, 3))), (2, 3), False),
    "ReduceMean in an old file": one(
        "ReduceMean", f32(lambda x: x.mean(axis=1, keepdims=True)), 1, own={"keep_dims": True}, version=1
    ),
    "ReduceSum": one("ReduceSum", f32(lambda x: x.sum(axis=(1, 3), keepdims=True)), (1, -1), True, False),
    "ReduceSum of all": one("ReduceSum", f32(np.sum), (), False, False),
    "ReduceSum of nothing": one("ReduceSum", lambda x: x, (), False, True),
    "ReduceMax": one("ReduceMax", lambda x: x.max(axis=1), 1, False),
    "ReduceMin": one("ReduceMin", lambda x: x.min(axis=1), 1, False),
    "ReduceProd": one("ReduceProd", f32(lambda x: x.prod(axis=1)), 1, False),
    "MeanExt": one("MeanExt", f32(lambda x: x.mean(axis=1)), 1, False, None),
    "SumExt": one("SumExt", lambda x: x.sum(axis=1, dtype=np.int64), 1, False, None, feed=(COUNTS,)),
    "SumExt in a type": one("SumExt", lambda x: x.sum(axis=1).astype(np.float32), 1, False, 43, feed=(COUNTS,)),
    "ProdExt": one("ProdExt", f32(lambda x: x.prod(axis=1)), 1, False, None),
    "Max": one("Max", lambda x: x.max()),
    "Min": one("Min", lambda x: x.min()),
    "ReduceAll": one("ReduceAll", lambda x: x.all(axis=1), 1, False, feed=FLAGS[:1]),
    "ReduceAny": one("ReduceAny", lambda x: x.any(axis=(2, 3), keepdims=True), (2, 3), True, feed=FLAGS[:1]),
    "Argmax": one("Argmax", lambda x: places(x.argmax(axis=1)), 1, 34),
    "Argmax in an old file": one(
        "Argmax", lambda x: places(x.argmax(axis=1)), own={"axis": 1, "output_type": Type("int32")}, version=1
    ),
    "Argmin": one("Argmin", lambda x: places(x.argmin(axis=1), np.int64), 1, 35),
    "ArgMaxExt": one("ArgMaxExt", lambda x: x.argmax(axis=1, keepdims=True), 1, True),
    "ArgMaxExt of all": one("ArgMaxExt", lambda x: np.asarray(x.argmax()), None, False),
    "ArgMinExt": one("ArgMinExt", lambda x: x.argmin(axis=2), 2, False),
    "ArgMaxWithValue": one("ArgMaxWithValue", lambda x: (x.argmax(axis=1), x.max(axis=1)), 1, False),
    "ArgMinWithValue in an old file": one(
        "ArgMinWithValue",
        lambda x: (places(x.argmin(axis=1, keepdims=True)), x.min(axis=1, keepdims=True)),
        own={"axis": 1, "keep_dims": True},
        version=1,
    ),
    "MaxDim": one("MaxDim", lambda x: (x.max(axis=1), x.argmax(axis=1)), 1, False),
    "MinDim": one("MinDim", lambda x: (x.min(axis=1), x.argmin(axis=1)), 1, False),
    "TopK": one("TopK", lambda x: top(x, 3), 3, own={"sorted": True}),
    "TopkExt": one("TopkExt", lambda x: (top(x, 2, 1)[0], places(top(x, 2, 1)[1], np.int64)), 2, 1, True, True),
    "Sort": one(
        "Sort", lambda x: (np.sort(x, axis=1), places(np.argsort(x, axis=1))), own={"axis": 1, "descending": False}
    ),
    "SortExt": one("SortExt", lambda x: (-np.sort(-x, axis=2), np.argsort(-x, axis=2)), 2, True, False),
    "CumSum": one("CumSum", f32(lambda x: x.cumsum(axis=1)), 1, False, False),
    "CumSum backwards": one("CumSum", f32(lambda x: x[:, ::-1].cumsum(axis=1)[:, ::-1] - x), 1, True, True),
    "CumsumExt": one("CumsumExt", f32(lambda x: x.cumsum(axis=2)), 2, None),
    "Var": one("Var", f32(lambda x: x.var(axis=2, ddof=1)), 2, 1, False),
    "Std": one("Std", f32(lambda x: x.std(axis=(2, 3), keepdims=True)), (2, 3), 0, True),
    "ReduceStd": one(
        "ReduceStd", lambda x: (f32(lambda x: x.std(axis=2, ddof=1))(x), x.mean(axis=2)), (2,), True, False
    ),
    "Norm": one("Norm", f32(lambda x: np.sqrt((x**2).sum(axis=1))), 2.0, 1, False, None),
    "Norm of order 1": one("Norm", f32(lambda x: np.abs(x).sum()), 1.0, None, False, None),
    "LpNorm": one(
        "LpNorm",
        f32(lambda x: np.maximum(np.abs(x).sum(axis=(1, 2)), 9.5)),
        own={"axis": (1, 2), "p": 1, "keep_dims": False, "epsilon": 9.5},
    ),
    "LpNorm without a least value": one(
        "LpNorm",
        f32(lambda x: np.sqrt((x**2).sum(axis=-1, keepdims=True))),
        own={"axis": (-1,), "p": 2, "keep_dims": True, "epsilon": 0.0},
    ),
}

SHAPE: dict[str, Case] = {
    "Reshape": one("Reshape", lambda x: x.reshape(2, -1), (2, -1)),
    "View": one("View", lambda x: x.reshape(6, 42), (6, 42)),
    "Flatten": one("Flatten", lambda x: x.reshape(2, -1)),
    "FlattenExt": one("FlattenExt", lambda x: x.reshape(2, 18, 7), 1, 2),
    "FlattenExt of one axis": one("FlattenExt", lambda x: x, 2, 2),
    "Transpose": one("Transpose", lambda x: x.transpose(0, 3, 1, 2), (0, 3, 1, 2)),
    "TransposeView": one("TransposeView", lambda x: x.transpose(0, 3, 1, 2), (0, 3, 1, 2)),
    "TransposeExtView": one("TransposeExtView", lambda x: x.swapaxes(1, 3), 1, -1),
    "TransposeExt": one("TransposeExt", lambda x: x.swapaxes(0, 2), 0, 2),
    "TExt": one("TExt", lambda x: x.T, feed=(COUNTS,)),
    "ExpandDims": one("ExpandDims", lambda x: x[..., None], -1),
    "ExpandDimsView": one("ExpandDimsView", lambda x: x[:, None], 1),
    "Unsqueeze": one("Unsqueeze", lambda x: x[None], 0),
    "Squeeze": one("Squeeze", lambda x: x[:, 0], (1,), feed=(X[:, :1, :1].copy(),)),
    "Squeeze of all": one("Squeeze", lambda x: x[:, 0, 0], (), feed=(X[:, :1, :1].copy(),)),
    "Squeeze in an old file": one("Squeeze", lambda x: x[:, 0], own={"axis": (1,)}, feed=(X[:, :1].copy(),), version=1),
    "Squeeze of nothing": one("Squeeze", lambda x: x, ()),
    "Concat": Case("Concat", ([IN, IN], 1), lambda x, y: np.concatenate([x, y], 1), feed=(X, Y)),
    "Concat in an old file": Case(
        "Concat", ([IN, IN],), lambda x, y: np.concatenate([x, y], 2), own={"axis": 2}, feed=(X, Y), version=1
    ),
    "Concat of one": Case("Concat", ([IN], 1), lambda x: x),
    "Stack": Case("Stack", ([IN, IN],), lambda x, y: np.stack([x, y], 1), own={"axis": 1}, feed=(X, Y)),
    "StackExt": Case("StackExt", ([IN, IN], -1), lambda x, y: np.stack([x, y], -1), feed=(X, Y)),
    "Unstack": one("Unstack", lambda x: tuple(x.swapaxes(0, 1)), own={"axis": 1, "num": 3}),
    "UnstackExtView": one("UnstackExtView", lambda x: tuple(x), 0),
    "Split": one("Split", lambda x: tuple(np.split(x, 3, 2)), 2, 3),
    "Split in an old file": one(
        "Split", lambda x: tuple(np.split(x, 3, 1)), own={"axis": 1, "output_num": 3}, version=1
    ),
    "Split into one": one("Split", lambda x: (x,), 1, 1),
    "SplitTensor": one("SplitTensor", lambda x: tuple(np.split(x, [3, 6], 3)), 3, 3),
    "SplitTensorView": one("SplitTensorView", lambda x: tuple(np.split(x, [4], 2)), 4, 2),
    "SplitWithSize": one("SplitWithSize", lambda x: tuple(np.split(x, [1, 5], 2)), (1, 4, 1), 2),
    "SplitWithSizeView": one("SplitWithSizeView", lambda x: tuple(np.split(x, [2], 1)), (2, 1), 1),
    "Chunk": one("Chunk", lambda x: tuple(np.split(x, [3, 6], 3)), 3, 3),
    "ChunkView": one("ChunkView", lambda x: tuple(np.split(x, [3], 2)), 2, 2),
    "Tile": one("Tile", lambda x: np.tile(x, (1, 2, 1, 3)), (1, 2, 1, 3)),
    "Tile to more axes": one("Tile", lambda x: np.tile(x, (2, 1, 3)), (2, 1, 3), feed=(COUNTS,)),
    "BroadcastTo": one("BroadcastTo", lambda x: np.broadcast_to(x, (2, 3, 4)), (2, 3, -1), feed=(COUNTS,)),
    "BroadcastToView": one("BroadcastToView", lambda x: np.broadcast_to(x, (2, 3, 4)), (2, 3, 4), feed=(COUNTS,)),
    "ExpandAs": two("ExpandAs", lambda x, y: np.broadcast_to(x, y.shape), feed=(Y[:, :, :1], X)),
    "RepeatInterleaveInt": one("RepeatInterleaveInt", lambda x: np.repeat(x, 2, 1), 2, 1, None),
    "RepeatInterleaveInt of all": one("RepeatInterleaveInt", lambda x: np.repeat(x, 3), 3, None, None, feed=(COUNTS,)),
    "Pad": one(
        "Pad", lambda x: np.pad(x, ((0, 0), (1, 2), (0, 0), (3, 0))), own={"paddings": ((0, 0), (1, 2), (0, 0), (3, 0))}
    ),
    "MirrorPad": one(
        "MirrorPad",
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 0)), mode="reflect"),
        np.array([[0, 0], [0, 0], [1, 2], [3, 0]], np.int64),
        own={"mode": "REFLECT"},
    ),
    "MirrorPad that repeats the border": one(
        "MirrorPad",
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 0)), mode="symmetric"),
        np.array([[0, 0], [0, 0], [1, 2], [3, 0]], np.int64),
        own={"mode": "SYMMETRIC"},
    ),
    "PadV3 in circles": one(
        "PadV3",
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 0)), mode="wrap"),
        (3, 0, 1, 2),
        own={"mode": "circular"},
    ),
    "ReverseSequence": one(
        "ReverseSequence",
        lambda x, _: np.stack([x[0], np.concatenate([x[1, 1::-1], x[1, 2:]])]),
        IN,
        own={"seq_dim": 1, "batch_dim": 0},
        feed=(X, np.array([1, 2], np.int32)),
    ),
    "PadV3": one(
        "PadV3",
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2)), constant_values=1.5),
        np.array([1, 2, 0, 1], np.int64),
        np.asarray(1.5, np.float32),
        own={"mode": "constant", "paddings_contiguous": True},
    ),
    "PadV3 by edges": one(
        "PadV3",
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2)), mode="edge"),
        (1, 2, 0, 1),
        None,
        own={"mode": "edge", "paddings_contiguous": True},
    ),
    "PadV3, begins before ends": one(
        "PadV3",
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 4), (1, 3)), mode="reflect"),
        (1, 2, 3, 4),
        None,
        own={"mode": "reflect", "paddings_contiguous": False},
    ),
    "ConstantPadND": one(
        "ConstantPadND", lambda x: np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 2)), constant_values=2), (1, 2), 2.0
    ),
    **{
        f"{kind}Pad{rank}D": one(
            f"{kind}Pad{rank}D",
            lambda x, rank=rank, mode=mode: np.pad(x, ((0, 0),) * (4 - rank) + ((0, 1), (1, 2))[2 - rank :], mode=mode),
            (1, 2, 0, 1)[: 2 * rank],
        )
        for kind, mode in (("Reflection", "reflect"), ("Replication", "edge"))
        for rank in (1, 2)
    },
    "Triu": one("Triu", np.triu, 0, feed=(MATRIX,)),
    "TrilExt": one("TrilExt", lambda x: np.tril(x, 1), 1, feed=(MATRIX,)),
    "Tril": one("Tril", np.tril, own={"diagonal": 0}, feed=(MATRIX,)),
}

TABLE = normal(10, 4, seed=3)
ROWS = np.random.default_rng(5).integers(0, 3, (2, 5)).astype(np.int32)
AT = np.random.default_rng(6).integers(0, 4, (3, 2)).astype(np.int64)
PAIRS = np.stack([np.random.default_rng(7).integers(0, n, 5) for n in (3, 4)], -1).astype(np.int32)
CLASSES = np.random.default_rng(8).integers(0, 5, (2, 3)).astype(np.int32)
ON, OFF = np.asarray(2, np.float32), np.asarray(-1, np.float32)


def hot(k: Array) -> Array:
    return np.where(np.arange(5) == k[..., None], np.float32(2), np.float32(-1))


def strided(starts: Any, ends: Any, steps: Any, expected: Any, **masks: int) -> Case:
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    return one("StridedSlice", expected, starts, ends, steps, *(masks.get(name, 0) for name in names))


INDEXING: dict[str, Case] = {
    "StridedSlice": strided((0, 1, -3), (2, 3, 6), (1, 1, 2), lambda x: x[0:2, 1:3, -3:6:2]),
    "StridedSlice without limits": strided((0, 1), (0, 0), (1, 1), lambda x: x[:, 1:], begin=1, end=3),
    "StridedSlice backwards": strided((0, 0, 9), (0, 0, 1), (1, 1, -2), lambda x: x[:, :, 9:1:-2], begin=3, end=3),
    "StridedSlice, all backwards": strided((0,), (0,), (-1,), lambda x: x[::-1], begin=1, end=1),
    "StridedSlice of one": strided((0, -1), (0, 0), (1, 1), lambda x: x[:, -1], begin=1, end=1, shrink_axis=2),
    "StridedSlice behind an ellipsis": strided(
        (0, 0, 2), (0, 0, 3), (1, 1, 1), lambda x: x[0, ..., 2], ellipsis=2, shrink_axis=5
    ),
    "StridedSlice with a new axis": strided(
        (0, 0, 1), (0, 0, 2), (1, 1, 1), lambda x: x[:, None, 1:2], begin=1, end=1, new_axis=2
    ),
    "StridedSlice of everything": strided((0,), (0,), (1,), lambda x: x, begin=1, end=1),
    "StridedSlice in an old file": one(
        "StridedSlice",
        lambda x: x[:, 1],
        (0, 1, 0, 0),
        (2, 2, 6, 7),
        (1, 1, 1, 1),
        own={"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 2},
        version=1,
    ),
    "Slice": one("Slice", lambda x: x[:, 1:, 2:5], (0, 1, 2, 0), (2, -1, 3, 7)),
    "SliceExt": one("SliceExt", lambda x: x[:, :, 1:6:2], 2, 1, 9223372036854775807, 2),
    "Narrow": one("Narrow", lambda x: x[:, :, 1:4], 2, 1, 3),
    "NarrowView": one("NarrowView", lambda x: x[:, :, -3:-1], 2, -3, 2),
    "SelectExt": one("SelectExt", lambda x: x[:, 2], 1, 2),
    "SelectExtView": one("SelectExtView", lambda x: x[:, :, -1], 2, -1),
    "Gather": two("Gather", lambda x, k: np.take(x, k, 1), 1, 0, feed=(X, ROWS)),
    "Gather in an old file": Case(
        "Gather", (Weight(TABLE), IN, 0), lambda k: TABLE[k], own={"batch_dims": 0}, feed=(ROWS,), version=1
    ),
    "IndexSelect": Case("IndexSelect", (IN, 1, IN), lambda x, k: np.take(x, k, 1), feed=(X, ROWS[0])),
    "Embedding": Case("Embedding", (IN, Weight(TABLE), None, None, 2.0, False), lambda k: TABLE[k], feed=(ROWS,)),
    "EmbeddingLookup": Case("EmbeddingLookup", (Weight(TABLE), IN, 0), lambda k: TABLE[k], feed=(ROWS,)),
    "GatherD": Case("GatherD", (IN, 1, IN), lambda x, k: np.take_along_axis(x, k, 1), feed=(COUNTS, AT)),
    "GatherNd": two("GatherNd", lambda x, k: x[k[:, 0], k[:, 1]], feed=(COUNTS, PAIRS)),
    "OneHot": one("OneHot", hot, 5, ON, OFF, -1, feed=(CLASSES,)),
    "OneHot in an old file": one(
        "OneHot", lambda k: np.moveaxis(hot(k), -1, 1), 5, ON, OFF, own={"axis": 1}, feed=(CLASSES,), version=1
    ),
    "OneHotExt": one("OneHotExt", hot, 5, ON, OFF, -1, feed=(CLASSES,)),
    "ReverseV2": one("ReverseV2", lambda x: x[:, ::-1, :, ::-1], (1, -1)),
    "ReverseV2 of nothing": one("ReverseV2", lambda x: x, ()),
    "Roll": one("Roll", lambda x: np.roll(x, (1, -2), (1, 3)), (1, -2), (1, 3)),
}
