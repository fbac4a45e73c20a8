"""Cases of operators on complex numbers, each behind a Fourier transform that makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.tflite.enums import TensorType
from tests.formats.tflite.case import Array, Case, i32, normal
from tests.formats.tflite.files import KINDS, File, Graph

X = normal(2, 3, 4, 16)
COMPLEX = NDArray[np.complex128]
Step = Callable[[Graph, int, COMPLEX], tuple[int, COMPLEX]]
"""Adds an operator behind a tensor of complex numbers; the next one."""

ENDS: dict[str, Callable[[COMPLEX], Array]] = {"REAL": np.real, "IMAG": np.imag, "COMPLEX_ABS": np.abs, "CAST": np.real}


def spectrum(name: str, kind: str, end: str, lengths: Sequence[int], steps: Sequence[Step] = (), x: Array = X) -> Case:
    """A file that transforms its input, changes the result and makes real numbers of it."""
    file = File()
    main = file.main
    source = main.input(x.shape)
    numbers = np.fft.rfft2(x.astype(np.float64), lengths)
    (tensor,) = main.op(
        "RFFT2D", [source, main.constant(i32(*lengths))], [main.tensor(numbers.shape, TensorType.COMPLEX64)]
    )
    for step in steps:
        tensor, numbers = step(main, tensor, numbers)
    result = ENDS[end](numbers).astype(np.float32)
    main.ends_with(*main.op(end, [tensor], [main.tensor(result.shape, KINDS[result.dtype])]))
    return Case(f"{kind} {name}".strip(), kind, file.bytes(), (x,), (result,), 1e-5)


def moved(kind: str, result: Callable[[COMPLEX], COMPLEX], *more: Array, **options: object) -> Step:
    """A step that one operator does."""

    def step(main: Graph, tensor: int, numbers: COMPLEX) -> tuple[int, COMPLEX]:
        made = result(numbers)
        inputs = [tensor, *map(main.constant, more)]
        (index,) = main.op(kind, inputs, [main.tensor(made.shape, TensorType.COMPLEX64)], **options)
        return index, made

    return step


def transforms() -> Iterator[Case]:
    yield spectrum("of rows and columns", "RFFT2D", "REAL", (4, 16))
    yield spectrum("of longer rows", "RFFT2D", "REAL", (1, 32), x=normal(3, 1, 16))
    yield spectrum("of shorter rows and columns", "RFFT2D", "REAL", (2, 8), x=normal(3, 4, 16))
    yield spectrum("of columns", "RFFT2D", "IMAG", (1, 16), x=normal(2, 3, 1, 16))
    for end in ("REAL", "IMAG", "COMPLEX_ABS"):
        yield spectrum("", end, end, (1, 16), x=normal(5, 1, 16))
    yield spectrum("of complex numbers", "CAST", "CAST", (1, 16), x=normal(5, 1, 16))
    row = normal(5, 1, 16)
    yield spectrum(
        "of complex numbers", "SQUEEZE", "IMAG", (1, 16), [moved("SQUEEZE", lambda y: y[:, 0], squeeze_dims=[-2])], row
    )
    yield spectrum(
        "of complex numbers",
        "EXPAND_DIMS",
        "REAL",
        (1, 16),
        [moved("EXPAND_DIMS", lambda y: y[:, None], np.array(1, np.int32))],
        row,
    )
    yield spectrum(
        "of complex numbers",
        "RESHAPE",
        "COMPLEX_ABS",
        (1, 16),
        [moved("RESHAPE", lambda y: y.reshape(9, 5), i32(9, 5))],
        row,
    )


CASES = list(transforms())
