import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.passes.branches import inline_branches
from converter_lite.passes.common import remove_unused
from tests.support import assert_applies, assert_refuses, build, normal, operators, random_feed

BRANCHES = """<
    then_branch = a () => (float[2,4] t) <float[4] c = {1,2,3,4}> { s = Add(x, c) t = Relu(s) },
    else_branch = b () => (float[2,4] e) { s = Neg(x) e = Mul(s, w) }
>"""


@pytest.mark.parametrize(("condition", "expected"), [(True, {"Add", "Relu"}), (False, {"Neg", "Mul"})])
def test_the_branch_that_is_taken_replaces_the_if(condition: bool, expected: set[str]) -> None:
    text = f"g (float[2,4] x) => (float[2,4] y) {{ i = If(yes) {BRANCHES} y = Tanh(i) }}"
    model = build(text, yes=np.array(condition), w=normal(4))
    assert_applies(inline_branches, model, 1)
    assert set(operators(model)) == expected | {"Identity", "Tanh"}


def test_names_that_two_branches_share_stay_apart() -> None:
    text = f"g (float[2,4] x) => (float[2,4] y) {{ i = If(yes) {BRANCHES} j = If(no) {BRANCHES} k = If(yes) {BRANCHES} "
    text += "s = Sub(i, j) y = Add(s, k) }"
    model = build(text, yes=np.array(True), no=np.array([False]), w=normal(4))
    assert_applies(inline_branches, model, 3)


def test_a_result_of_the_model_keeps_its_name() -> None:
    text = (
        "g (float[2,4] x) => (float[2,4] y) { y = If(yes) <then_branch = a () => (float[2,4] t) { t = Identity(x) }, "
    )
    text += "else_branch = b () => (float[2,4] e) { e = Neg(x) }> }"
    assert_applies(inline_branches, build(text, yes=np.array(True)), 1)


def test_a_branch_within_a_branch_is_reached_next() -> None:
    inner = "If(no) <then_branch = c () => (float[2,4] u) { u = Neg(x) }, else_branch = d () => (float[2,4] v) { v = Abs(x) }>"
    text = (
        f"g (float[2,4] x) => (float[2,4] y) {{ y = If(yes) <then_branch = a () => (float[2,4] t) {{ t = {inner} }}, "
    )
    text += "else_branch = b () => (float[2,4] e) { e = Neg(x) }> }"
    model = build(text, yes=np.array(True), no=np.array(False))
    assert inline_branches(model) == 1
    assert_applies(inline_branches, model, 1, random_feed(model))
    assert set(operators(model)) == {"Abs", "Identity"}


def test_what_only_the_other_branch_needed_goes() -> None:
    text = f"g (float[2,4] x) => (float[2,4] y) {{ a = Neg(x) big = Mul(a, w) y = If(yes) {BRANCHES} }}".replace(
        "Mul(s, w)", "Mul(s, big)"
    )
    model = build(text, yes=np.array(True), w=normal(2, 4))
    assert inline_branches(model) == 1
    remove_unused(model)
    assert "w" not in model.graph.initializers
    assert not {"Mul", "Neg"} & set(operators(model))


def test_a_condition_that_is_computed_stays() -> None:
    text = f"g (float[2,4] x, bool yes) => (float[2,4] y) {{ y = If(yes) {BRANCHES} }}"
    assert_refuses(inline_branches, build(text, w=normal(4)))


def test_what_moves_into_the_main_graph_has_a_name_of_its_own() -> None:
    """Branches of one node are called like those of another one, which stays."""
    text = f"g (bool c, float[2,4] x) => (float[2,4] y) {{ i = If(yes) {BRANCHES} j = If(c) {BRANCHES} y = Sub(i, j) }}"
    model = build(text, yes=np.array(True), w=normal(4))
    assert_applies(inline_branches, model, 1, *[{"c": np.array(c), "x": normal(2, 4)} for c in (True, False)])
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
