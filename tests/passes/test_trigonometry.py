"""Functions of single elements by others: NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.passes.spelled_out.trigonometry import FUNCTIONS, spell_out_functions, spell_out_tan
from tests.support import assert_refuses, build, operators, run

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]

INSIDE = np.concatenate([np.linspace(-1, 1, 4001), [-1 + 1e-7, 1 - 1e-7, 1e-7, -1e-30]])
LINE = np.concatenate([np.linspace(-20, 20, 4001), [1e-7, -1e-30, 1e6, -1e6]])
FAR = np.concatenate([LINE, [1e12, -1e12, 1e30, -1e30]])

CASES: dict[str, tuple[Function, NDArray[np.float64]]] = {
    "Acos": (np.arccos, INSIDE),
    "Acosh": (np.arccosh, np.concatenate([np.linspace(1, 20, 1001), [1 + 1e-6, 1e6]])),
    "Asin": (np.arcsin, INSIDE),
    "Asinh": (np.arcsinh, LINE),
    "Atan": (np.arctan, FAR),
    "Atanh": (np.arctanh, np.linspace(-0.999, 0.999, 2001)),
    "Cosh": (np.cosh, np.linspace(-5, 5, 1001)),
    "Sinh": (np.sinh, np.linspace(-5, 5, 1001)),
    "Tan": (np.tan, np.linspace(-1.4, 1.4, 1001)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function(name: str) -> None:
    function, numbers = CASES[name]
    x = numbers.astype(np.float32)
    model = build(f"g (float[{x.size}] x) => (float[{x.size}] y) {{ y = {name}(x) }}")
    rule = spell_out_tan if name == "Tan" else spell_out_functions
    assert rule(model) == 1
    assert rule(model) == 0
    assert name not in operators(model)
    expected = function(x.astype(np.float64))
    error = np.abs(run(model, {"x": x})["y"] - expected) / np.maximum(np.abs(expected), 1)
    assert error.max() < 1e-6


def test_the_ends_of_inverses_are_reached() -> None:
    model = build("g (float[3] x) => (float[3] y, float[3] z, float[3] w) { y = Asin(x) z = Acos(x) w = Atanh(x) }")
    assert spell_out_functions(model) == 3
    found = run(model, {"x": np.array([-1, 0, 1], np.float32)})
    np.testing.assert_allclose(found["y"], [-np.pi / 2, 0, np.pi / 2], atol=1e-7)
    np.testing.assert_allclose(found["z"], [np.pi, np.pi / 2, 0], atol=3e-7)
    np.testing.assert_array_equal(found["w"], [-np.inf, 0, np.inf])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_types_stay(name: str) -> None:
    assert_refuses(spell_out_functions, build(f"g (double[3] x) => (double[3] y) {{ y = {name}(x) }}"))
