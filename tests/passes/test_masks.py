"""Rows of a softmax that a mask may leave empty, and comparisons with infinity."""

from typing import Any

import numpy as np
import pytest

from converter_lite.passes.pipeline import optimize
from converter_lite.passes.spelled_out.masks import spell_out_empty_rows, spell_out_infinite_equals
from tests.support import assert_applies, assert_refuses, build, operators, run

SCORES = np.array([[1, 2, 0.5], [3, -1, 0]], np.float32)
EMPTY = np.array([[True, False, True], [False, False, False]])
MASKED = "b = Where(keep, zero, inf) c = Unsqueeze(b, first) d = Squeeze(c, first) a = Add(x, d)"
CONSTANTS: dict[str, Any] = {"zero": np.float32(0), "inf": np.float32(-np.inf), "first": np.array([0])}
INPUTS = "float[2,3] x, bool[2,3] keep"


@pytest.mark.parametrize("version", [13, 18])
def test_an_empty_row_that_the_model_knows_of_stays_what_it_makes_of_it(version: int) -> None:
    guard = "s = Softmax(a) e = IsNaN(s) y = Where(e, zero, s)"
    model = build(f"g ({INPUTS}) => (float[2,3] y) {{ {MASKED} {guard} }}", opset=version, **CONSTANTS)
    assert_applies(spell_out_empty_rows, model, 1, {"x": SCORES, "keep": EMPTY})
    assert (operators(model)["IsNaN"], operators(model)["Max"]) == (0, 1)


@pytest.mark.parametrize("version", [11, 13])
def test_other_rows_stay_and_an_empty_one_has_equal_shares(version: int) -> None:
    masked = MASKED if version > 11 else "a0 = Where(keep, x, inf) a = Identity(a0)"
    constants = CONSTANTS if version > 11 else {"inf": CONSTANTS["inf"]}
    model = build(f"g ({INPUTS}) => (float[2,3] y) {{ {masked} y = Softmax(a) }}", opset=version, **constants)
    kept = {"x": SCORES, "keep": np.array([[True, False, True], [True, False, False]])}
    assert_applies(spell_out_empty_rows, model, 1, kept)
    np.testing.assert_allclose(run(model, {"x": SCORES, "keep": EMPTY})["y"][1], 1 / 3)


@pytest.mark.parametrize("axis", [0, 1])
def test_constant_masks_are_looked_at_row_by_row(axis: int) -> None:
    """Of each row one element is left, and of the last column none."""
    mask = np.array([[0, -np.inf, -np.inf], [0, 0, -np.inf]], np.float32)
    model = build(f"g (float[2,3] x) => (float[2,3] y) {{ a = Add(x, m) y = Softmax<axis={axis}>(a) }}", m=mask)
    if axis == 1:
        assert_refuses(spell_out_empty_rows, model)
    else:
        assert spell_out_empty_rows(model) == 1


def test_scores_that_the_model_bounds_or_reads_otherwise_stay() -> None:
    bounded = f"{MASKED} f = Max(a, low) y = Softmax(f)"
    assert_refuses(
        spell_out_empty_rows,
        build(f"g ({INPUTS}) => (float[2,3] y) {{ {bounded} }}", low=np.float32(-1e9), **CONSTANTS),
    )
    counted = f"{MASKED} s = Softmax(a) e = IsNaN(s) y = Not(e)"
    assert_refuses(spell_out_empty_rows, build(f"g ({INPUTS}) => (bool[2,3] y) {{ {counted} }}", **CONSTANTS))


@pytest.mark.parametrize("sign", [-1, 1])
def test_what_equals_infinity_is_beyond_all_numbers(sign: int) -> None:
    model = build("g (float[4] x) => (bool[4] y) { y = Equal(inf, x) }", inf=np.float32(sign * np.inf))
    assert_applies(
        spell_out_infinite_equals,
        model,
        1,
        {"x": np.array([np.inf, -np.inf, sign * np.finfo(np.float32).max, np.nan], np.float32)},
    )
    assert_refuses(spell_out_infinite_equals, build("g (float[4] x) => (bool[4] y) { y = Equal(x, x) }"))


def test_the_optimizer_leaves_masks_to_formats_that_ask() -> None:
    model = build(f"g ({INPUTS}) => (float[2,3] y) {{ {MASKED} y = Softmax(a) }}", **CONSTANTS)
    optimize(model)
    assert operators(model)["Max"] == 0
    optimize(model, spelled_out=frozenset({"Softmax"}))
    assert operators(model)["Max"] == 1
