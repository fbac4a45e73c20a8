"""A file of one operator, what it is fed, and what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.tflite.files import KINDS, File

Array = NDArray[Any]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Fed:
    """An operand that is computed; others are constants of the file."""

    array: Array


@dataclass(frozen=True)
class Variable:
    """An operand that the runtime keeps from run to run."""

    shape: tuple[int, ...]


Operand = Fed | Variable | Array | None


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        name: Of the case.
        kind: The operator that is tried.
        data: The file.
        feeds: Of its inputs.
        expected: Of its outputs, by NumPy.
        tolerance: Largest difference, relative to the largest result.
    """

    name: str
    kind: str
    data: bytes
    feeds: tuple[Array, ...]
    expected: tuple[Array, ...]
    tolerance: float = 2e-6


def single(
    name: str,
    kind: str,
    operands: Sequence[Operand],
    expected: Array | Sequence[Array],
    *,
    tolerance: float = 2e-6,
    **options: Any,
) -> Case:
    """A file of one operator; ``name`` says what is special about it."""
    file = File()
    main, feeds, numbers = file.main, list[Array](), list[int]()
    for operand in operands:
        if operand is None:
            numbers.append(-1)
        elif isinstance(operand, Fed):
            feeds.append(operand.array)
            numbers.append(main.input(operand.array.shape, KINDS[operand.array.dtype]))
        elif isinstance(operand, Variable):
            numbers.append(main.tensor(operand.shape, variable=True))
        else:
            numbers.append(main.constant(operand))
    results = (expected,) if isinstance(expected, np.ndarray | np.generic) else tuple(expected)
    arrays = tuple(np.asarray(result) for result in results)
    main.ends_with(*main.op(kind, numbers, [main.tensor(each.shape, KINDS[each.dtype]) for each in arrays], **options))
    return Case(f"{kind} {name}".strip(), kind, file.bytes(), tuple(feeds), arrays, tolerance)


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Normal random numbers."""
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Random numbers between 0.5 and 2."""
    return np.random.default_rng(seed + sum(shape)).uniform(0.5, 2, shape).astype(np.float32)


def whole(low: int, high: int, *shape: int, dtype: type[np.integer[Any]] = np.int32, seed: int = 0) -> Array:
    """Random whole numbers from ``low`` up to but not including ``high``."""
    return np.random.default_rng(seed + sum(shape)).integers(low, high, shape).astype(dtype)


def i32(*numbers: int) -> Array:
    """A vector of sizes, axes or the like."""
    return np.array(numbers, np.int32)


def scalar(number: float, dtype: Any = np.int32) -> Array:
    """A number without axes."""
    return np.array(number, dtype)
