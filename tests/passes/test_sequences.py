"""Sequences that are joined again."""

from __future__ import annotations

import pytest

from converter_lite.passes.pipeline import optimize
from converter_lite.passes.spelled_out.sequences import spell_out_sequences
from tests.support import assert_applies, assert_refuses, build, operators

BODIES = {
    "inserted": "s = SequenceEmpty<dtype=1>() t = SequenceInsert(s, a) u = SequenceInsert(t, b)",
    "constructed": "u = SequenceConstruct(a, b)",
    "both": "t = SequenceConstruct(a, b) u = SequenceInsert(t, a)",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("attributes", ["axis=1", "axis=0", "axis=1, new_axis=1", "axis=-1, new_axis=1"])
def test_what_is_put_into_a_sequence_is_joined_in_order(body: str, attributes: str) -> None:
    text = f"{BODIES[body]} y = ConcatFromSequence<{attributes}>(u)"
    rank = "float[m,n,k]" if "new_axis" in attributes else "float[m,n]"
    model = build(f"g (float[2,3] x) => ({rank} y) {{ a = Relu(x) b = Neg(x) {text} }}")
    assert_applies(spell_out_sequences, model, 1)


@pytest.mark.parametrize(
    "body",
    ["u = SplitToSequence<axis=0>(a)", "t = SequenceConstruct(a, b) u = SequenceInsert(t, b, zero)"],
)
def test_other_sequences_stay(body: str) -> None:
    text = f"a = Relu(x) b = Neg(x) {body} y = ConcatFromSequence<axis=1>(u)"
    assert_refuses(spell_out_sequences, build(f"g (float[2,3] x) => (float[m,n] y) {{ {text} }}", zero=0))


def test_rows_that_a_loop_appends_are_joined_without_sequences() -> None:
    text = """
        g (float[3,2] x) => (float[m,n] y) {
            empty = SequenceEmpty<dtype=1>()
            rows = Loop (three, yes, empty) <
                body = b (int64 i, bool c, seq(float) s) => (bool co, seq(float) so) {
                    co = Identity(c)
                    one = Unsqueeze(i, zero)
                    row = Gather<axis=0>(x, one)
                    so = SequenceInsert(s, row)
                }
            >
            y = ConcatFromSequence<axis=0>(rows)
        }
    """
    model = build(text, opset=16, three=3, yes=True, zero=[0])
    done = optimize(model, spelled_out=frozenset({"Loop", "ConcatFromSequence"}))
    assert not {"Loop", "SequenceEmpty", "SequenceInsert", "ConcatFromSequence"} & set(operators(done.model))
