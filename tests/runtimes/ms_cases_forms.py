"""Forms of common operators that few models have, for :mod:`tests.runtimes.ms_cases`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.runtimes.ms_case import Case, case, const, values


def biases() -> Iterator[Case]:
    """A bias per row, of as many rows as there are columns."""
    for shape in ((3, 1), (1, 3), (3, 3), (1, 1), (3,)):
        name = "x".join(map(str, shape))
        yield case(f"gemm_square_bias_{name}", "Gemm", values((3, 4)), const((4, 3)), const(shape, 2))
