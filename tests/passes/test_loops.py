"""Loops that are written out turn by turn."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.passes.pipeline import optimize
from converter_lite.passes.spelled_out import loops
from converter_lite.passes.spelled_out.loops import spell_out_loops
from tests.support import assert_applies, assert_refuses, build, operators

CONSTANTS = {
    "turns": np.array(4, np.int64),
    "yes": np.array(True),
    "no": np.array(False),
    "zero": np.array(0, np.int64),
    "factor": np.float32(0.5),
}
STEP = "t = Mul(s, k) so = Add(t, x) row = Neg(so)"
"""A state that becomes half of itself and the input."""


def model(
    body: str = f"co = Identity(c) {STEP}", *, limit: str = "turns", start: str = "yes", opset: int = 20
) -> ir.Model:
    """``last`` is the state behind the loop, ``rows`` what each turn gives."""
    return leaving_out(
        f"""
        g (float[2,3] x) => (float[2,3] last, float[N,2,3] rows) {{
            first = Relu(x)
            last, rows = Loop ({limit}, {start}, first) <
                body = b (int64 i, bool c, float[2,3] s) => (bool co, float[2,3] so, float[2,3] row) {{
                    k = Identity(factor)
                    {body}
                }}
            >
        }}
        """,
        opset=opset,
    )


def leaving_out(text: str, *, opset: int = 20) -> ir.Model:
    """A model in which the inputs named ``absent`` are left out; parsers before onnx 1.18 have no way to write that."""
    made = build(text, opset=opset, **CONSTANTS)
    for node in made.graph:
        for index, value in enumerate(node.inputs):
            if value is not None and value.name == "absent":
                node.replace_input_with(index, None)
    return made


BRANCH = """
v = Cast<to = 9>(i)
y = If (v) <then_branch = p () => (float[2,3] a) { a = Neg(s) }, else_branch = q () => (float[2,3] b) { b = Exp(s) }>
"""
COUNTED = "one = Constant<value_int = 1>() three = Constant<value_int = 3>() n = Add(i, one) co = Less(n, three)"


@pytest.mark.parametrize(
    ("made", "turns"),
    [
        (model(), 4),
        (model(start="absent"), 4),
        (model(f"co = And(c, c) {STEP}"), 4),
        (model(f"{COUNTED} {STEP}"), 3),
        (model(f"{COUNTED} {STEP}", limit="absent"), 3),
        (model(f"co = Identity(yes) {STEP}"), 4),
        (model("co = Identity(c) so = Identity(s) row = Add(s, x)"), 4),
        (model(f"{BRANCH} co = Identity(c) so = Mul(y, k) row = Add(so, x)"), 4),
    ],
    ids=[
        "limit",
        "no start",
        "condition passed on",
        "counter",
        "counter alone",
        "constant",
        "state as it was",
        "branches",
    ],
)
def test_a_loop_with_a_known_number_of_turns_is_its_turns(made: ir.Model, turns: int) -> None:
    assert_applies(spell_out_loops, made, 1)
    found = operators(made)
    assert "Loop" not in found
    assert found["Concat"] == 1
    assert found["Unsqueeze"] == turns


def test_a_counter_that_is_carried_counts() -> None:
    made = leaving_out(
        """
        g (float[3] x) => (float[3] last) {
            count, last = Loop (absent, yes, zero, x) <
                body = b (int64 i, bool c, int64 n, float[3] s) => (bool co, int64 no_, float[3] so) {
                    two = Constant<value_int = 2>()
                    seven = Constant<value_int = 7>()
                    no_ = Add(n, two)
                    co = Less(no_, seven)
                    so = Mul(s, factor)
                }
            >
        }
        """,
    )
    assert_applies(spell_out_loops, made, 1)
    assert operators(made)["Mul"] == 4


def test_a_loop_that_names_too_few_results_is_its_turns_or_an_error_of_the_runtime() -> None:
    """Not valid, and onnxruntime says so where it reads the model."""
    made = build(
        """
        g (float[2,3] x) => (float[2,3] last) {
            last = Loop (turns, yes, x, x) <
                body = b (int64 i, bool c, float[2,3] s, float[2,3] t) => (bool co, float[2,3] so, float[2,3] to) {
                    co = Identity(c) so = Add(s, t) to = Neg(t)
                }
            >
        }
        """,
        **CONSTANTS,
    )
    assert spell_out_loops(made) == 1
    assert operators(made)["Add"] == 4


UNKNOWN = {
    "a condition on data": model(f"sum = ReduceMax<keepdims = 0>(s) co = Less(sum, k) {STEP}"),
    "no end": model(limit="absent"),
    "no turn": model(start="no"),
    "an old operator set": model(opset=12),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_loop_that_is_not_known_stays(name: str) -> None:
    assert_refuses(spell_out_loops, UNKNOWN[name])


def test_long_loops_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MOST_TURNS", 3)
    assert_refuses(spell_out_loops, model())
    monkeypatch.undo()
    monkeypatch.setattr(loops, "MOST_NODES", 12)
    assert_refuses(spell_out_loops, model())


def test_turns_are_simplified_with_the_rest_of_the_graph() -> None:
    """The Gather of each turn has a constant index, and a product of constants is computed."""
    made = build(
        """
        g (float[4,3] x) => (float[3] last) {
            first = Mul(zeros, factor)
            last = Loop (turns, yes, first) <
                body = b (int64 i, bool c, float[3] s) => (bool co, float[3] so) {
                    co = Identity(c)
                    k = Mul(factor, factor)
                    row = Gather(x, i)
                    t = Mul(s, k)
                    so = Add(t, row)
                }
            >
        }
        """,
        opset=20,
        zeros=np.zeros(3, np.float32),
        **CONSTANTS,
    )
    optimize(made, spelled_out=frozenset({"Loop"}))
    assert operators(made) == {"Gather": 4, "Add": 4, "Mul": 3}
