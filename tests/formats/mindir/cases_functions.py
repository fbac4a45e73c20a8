"""Cases of functions that ONNX has no operator for, and of elements in other places."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.mindir.cases import IN, Case, f32, one, two
from tests.formats.mindir.files import Weight
from tests.support import normal

Array = NDArray[Any]

AROUND = (np.asarray([0, 1, 1, -1, -1, 0, -0.5, 2], np.float32), np.asarray([1, 1, -1, -1, 0, -1, 3, 0], np.float32))
FACTORS = normal(3, 7, seed=5)
STRANGE = np.asarray([np.nan, np.inf, -np.inf, 2], np.float32)
WORDS = (np.arange(-4, 8, dtype=np.int32), np.arange(12, dtype=np.int32)[::-1].copy())
IMAGES = normal(2, 3, 4, 6, seed=2)
ROWS, PLACES = normal(3, 4, seed=1), np.asarray([[0], [4], [0]], np.int32)
TO = np.asarray([[0, 2], [1, 0]], np.int32)


def blocks(x: Array, rows: int, columns: int, pads: tuple[tuple[int, int], ...]) -> Array:
    """The pixels of each place of blocks, one place after the other."""
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    return np.concatenate(
        [padded[:, :, row::rows, column::columns] for row in range(rows) for column in range(columns)]
    )


def together(x: Array) -> Array:
    """Four images as one of which each pixel is a block, without its first row."""
    made = np.zeros((len(x) // 4, x.shape[1], 2 * x.shape[2], 2 * x.shape[3]), x.dtype)
    for place, part in enumerate(np.split(x, 4)):
        made[:, :, place // 2 :: 2, place % 2 :: 2] = part
    return made[:, :, 1:]


def products(x: Array, *, exclusive: bool, backwards: bool) -> Array:
    x = x[:, ::-1] if backwards else x
    found = np.cumprod(np.pad(x, ((0, 0), (1, 0)), constant_values=1)[:, :-1] if exclusive else x, axis=1)
    return found[:, ::-1] if backwards else found


def median(x: Array, axis: int, *, keeps: bool) -> tuple[Array, Array]:
    order = np.argsort(x, axis=axis, kind="stable")
    place = np.take(order, [(x.shape[axis] - 1) // 2], axis)
    parts = np.take_along_axis(x, place, axis), place.astype(np.int64)
    return parts if keeps else (parts[0].squeeze(axis), parts[1].squeeze(axis))


def grids(*rows: Array, order: str) -> tuple[Array, ...]:
    return tuple(np.meshgrid(*rows, indexing="xy" if order == "xy" else "ij"))


def added(rows: Array) -> Array:
    made = np.zeros((6, 4), np.float32)
    np.add.at(made, PLACES[:, 0], rows)
    return made


def put(x: Array, updates: Array, *, adds: bool) -> Array:
    made = x.copy()
    np.put_along_axis(made, TO, (np.take_along_axis(x, TO, 1) if adds else 0) + updates, 1)
    return made


def medians(**own: Any) -> dict[str, Any]:
    return {"global_median": False, "axis": 1, "keep_dims": False, "ignore_nan": False} | own


def cubic(x: Array) -> Array:
    """Twice as many pixels of a row, on centres: weights of Keys' kernel with a = -0.5 that leave out what lies outside."""
    made = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    for place in range(made.shape[-1]):
        centre = (place + 0.5) / 2 - 0.5
        taken = [k for k in range(int(np.floor(centre)) - 1, int(np.floor(centre)) + 3) if 0 <= k < x.shape[-1]]
        far = np.abs(np.asarray(taken) - centre)
        weights = np.where(far <= 1, 1.5 * far**3 - 2.5 * far**2 + 1, -0.5 * far**3 + 2.5 * far**2 - 4 * far + 2)
        made[..., place] = x[..., taken] @ (weights / weights.sum())
    return made


def linear(x: Array) -> Array:
    """Twice as many elements along every axis behind the second, on centres."""
    for axis in range(2, x.ndim):
        line, size = np.moveaxis(x, axis, -1), x.shape[axis]
        at = np.clip((np.arange(2 * size) + 0.5) / 2 - 0.5, 0, size - 1)
        below = np.floor(at).astype(int)
        above = np.minimum(below + 1, size - 1)
        x = np.moveaxis(line[..., below] * (1 - at + below) + line[..., above] * (at - below), -1, axis)
    return x


def doubled(x: Array) -> Array:
    for axis in range(2, x.ndim):
        x = x.repeat(2, axis)
    return x


LINE, CUBE = normal(1, 3, 5), normal(1, 2, 3, 4, 5)

CASES: dict[str, Case] = {
    "UpsampleNearest1D": one("UpsampleNearest1D", doubled, (10,), None, feed=(LINE,)),
    "UpsampleNearest3D": one("UpsampleNearest3D", doubled, None, (2.0, 2.0, 2.0), feed=(CUBE,)),
    "UpsampleLinear1D": one("UpsampleLinear1D", f32(linear), (10,), None, False, feed=(LINE,)),
    "UpsampleTrilinear3D": one("UpsampleTrilinear3D", f32(linear), (6, 8, 10), None, False, feed=(CUBE,)),
    "Atan2": two("Atan2", f32(np.arctan2), feed=AROUND),
    "Hypot": two("Hypot", f32(np.hypot), feed=AROUND),
    "Xlogy": two(
        "Xlogy",
        f32(lambda x, y: np.where(x == 0, 0, x * np.log(y))),
        feed=(AROUND[0], np.abs(normal(8, seed=3))),
    ),
    "NanToNum": one(
        "NanToNum", lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-3), 1.0, 2.0, -3.0, feed=(STRANGE,)
    ),
    "NanToNum of the ends": one("NanToNum", np.nan_to_num, None, None, None, feed=(STRANGE,)),
    **{
        f"CumProd {exclusive} {backwards}": one(
            "CumProd",
            f32(partial(products, exclusive=exclusive, backwards=backwards)),
            1,
            exclusive,
            backwards,
            feed=(FACTORS,),
        )
        for exclusive in (False, True)
        for backwards in (False, True)
    },
    "Median": one("Median", lambda x: median(x, 1, keeps=False), own=medians(), feed=(FACTORS,)),
    "Median of an even number": one(
        "Median", lambda x: median(x, 0, keeps=True), own=medians(axis=0, keep_dims=True), feed=(ROWS[:2],)
    ),
    **{
        name: two(name, function, feed=WORDS)
        for name, function in (
            ("BitwiseAnd", np.bitwise_and),
            ("BitwiseOr", np.bitwise_or),
            ("BitwiseXor", np.bitwise_xor),
        )
    },
    "ResizeBicubic": one(
        "ResizeBicubic", f32(lambda x: cubic(cubic(x).swapaxes(2, 3)).swapaxes(2, 3)), (12, 14), False, True
    ),
    "SpaceToBatchND": one(
        "SpaceToBatchND",
        lambda x: blocks(x, 2, 3, ((1, 1), (0, 3))),
        own={"block_shape": (2, 3), "paddings": ((1, 1), (0, 3))},
        feed=(IMAGES,),
    ),
    "BatchToSpaceND": one(
        "BatchToSpaceND", together, own={"block_shape": (2, 2), "crops": ((1, 0), (0, 0))}, feed=(normal(8, 3, 2, 3),)
    ),
    "Diagonal": one("Diagonal", np.diagonal, 0, 0, 1),
    "Diagonal of others": one("Diagonal", lambda x: np.diagonal(x, 1, 1, 3), 1, 1, 3),
    "Diagonal below": one("Diagonal", lambda x: np.diagonal(x, -2, 2, 3), -2, 2, 3),
    "Meshgrid": Case(
        "Meshgrid", ([IN, IN, IN], 1), partial(grids, order="xy"), feed=(FACTORS[0], ROWS[0], ROWS[1, :2])
    ),
    "Meshgrid of rows": Case("Meshgrid", ([IN, IN], 0), partial(grids, order="ij"), feed=(FACTORS[0], ROWS[0])),
    "ScatterNd": Case("ScatterNd", (Weight(PLACES), IN, (6, 4)), added, feed=(ROWS,)),
    "TensorScatterElements": Case(
        "TensorScatterElements", (IN, Weight(TO), IN, 1, 0), partial(put, adds=False), feed=(ROWS[:2], normal(2, 2))
    ),
    "TensorScatterElements, added": Case(
        "TensorScatterElements", (IN, Weight(TO), IN, 1, 1), partial(put, adds=True), feed=(ROWS[:2], normal(2, 2))
    ),
}
