"""Branches that data choose between, and bounds that are computed."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.spelled_out.choices import spell_out_choices, spell_out_computed_bounds
from tests.support import assert_applies, assert_refuses, build, normal, operators

BRANCHES = """<
    then_branch = a () => (float[2,4] t) <float[4] c = {1,2,3,4}> { s = Add(x, c) t = Relu(s) },
    else_branch = b () => (float[2,4] e) { s = Neg(x) e = Mul(s, w) }
>"""
BY_SUM = "total = ReduceSum<keepdims={0}>(x) c = Greater(total, zero)"
CONSTANTS = {"zero": np.float32(0), "w": normal(4)}


@pytest.mark.parametrize("kept", [0, 1])
def test_both_branches_run_and_one_is_taken(kept: int) -> None:
    model = build(
        f"g (float[2,4] x) => (float[2,4] y) {{ {BY_SUM.format(kept)} i = If(c) {BRANCHES} y = Tanh(i) }}", **CONSTANTS
    )
    samples = [{"x": sign * np.abs(normal(2, 4))} for sign in (1, -1)]
    assert_applies(spell_out_choices, model, 1, *samples)
    assert operators(model)["Where"] == 1


def test_a_branch_within_a_branch_is_next() -> None:
    inner = BRANCHES.replace("a ()", "p ()").replace("b ()", "q ()")
    text = (
        f"g (float[2,4] x) => (float[2,4] y) {{ {BY_SUM.format(0)} y = If(c) <then_branch = a () => (float[2,4] n) {{ "
    )
    text += f"n = If(c) {inner} }}, else_branch = b () => (float[2,4] m) {{ m = Exp(x) }}> }}"
    model = build(text, **CONSTANTS)
    assert spell_out_choices(model) == 1
    assert_applies(spell_out_choices, model, 1, {"x": np.abs(normal(2, 4))}, {"x": -np.abs(normal(2, 4))})


@pytest.mark.parametrize(
    ("inputs", "condition"),
    [
        (", bool c", ""),
        (", int64 rate", "c = Equal(rate, sixteen)"),
        (", float[N] z", "s = Size(z) c = Equal(s, sixteen)"),
    ],
    ids=["a truth value", "an option", "a size"],
)
def test_one_branch_is_enough_where_an_option_or_a_size_decides(inputs: str, condition: str) -> None:
    text = f"g (float[2,4] x{inputs}) => (float[2,4] y) {{ {condition} y = If(c) {BRANCHES} }}"
    assert_refuses(spell_out_choices, build(text, w=normal(4), sixteen=np.array(16, np.int64)))


def test_results_of_two_shapes_stay() -> None:
    text = f"g (float[2,4] x) => (float[N,4] y) {{ {BY_SUM.format(0)} y = If(c) <then_branch = a () => (float[2,4] t) "
    text += "{ t = Exp(x) }, else_branch = b () => (float[4,4] e) { e = Concat<axis=0>(x, x) }> }"
    assert_refuses(spell_out_choices, build(text, zero=np.float32(0)))


@pytest.mark.parametrize(
    ("bounds", "written"), [("b", "Max"), (", b", "Min"), ("zero, b", "Max Min"), ("b, zero", "Max Min")]
)
def test_a_clip_with_computed_bounds_is_a_max_and_a_min(bounds: str, written: str) -> None:
    text = f"g (float[2,4] x) => (float[2,4] y) {{ b = ReduceMean<keepdims=0>(x) y = Clip(x, {bounds}) }}"
    model = build(text, zero=np.float32(0))
    assert_applies(spell_out_computed_bounds, model, 1)
    assert all(operators(model)[op_type] == 1 for op_type in written.split())


def test_a_clip_with_constant_bounds_stays() -> None:
    text = "g (float[2,4] x) => (float[2,4] y) { y = Clip(x, zero) }"
    assert_refuses(spell_out_computed_bounds, build(text, zero=np.float32(0)))
