import pytest

from converter_lite.passes.spelled_out.many_axes import spell_out_deep_softmax, spell_out_many_axes
from tests.support import (
    assert_applies,
    assert_refuses,
    build,
)


@pytest.mark.parametrize(
    ("shape", "order", "axes"),
    [
        ((1, 3, 2, 2, 2, 3, 2, 4), (0, 2, 4, 6, 3, 5, 7, 1), [4, 5]),
        ((2, 3, 2, 3, 2, 3, 2), (0, 1, 6, 2, 3, 4, 5), [3]),
        ((2, 1, 3, 2, 1, 3, 2), (6, 5, 4, 3, 2, 1, 0), [5]),
        ((1, 2, 2, 3, 2, 1, 2), (0, 3, 6, 1, 4, 2, 5), [5]),
    ],
    ids=["patches of a video", "one that moves", "turned round", "axes of one element"],
)
def test_axes_that_stay_together_are_one(shape: tuple[int, ...], order: tuple[int, ...], axes: list[int]) -> None:
    model = build(TRANSPOSE.format(*_sizes(shape, order)))
    assert_applies(spell_out_many_axes, model, 1)
    assert [len(node.attributes["perm"].as_ints()) for node in model.graph if node.op_type == "Transpose"] == axes


def test_eight_axes_that_all_move_take_a_few_steps() -> None:
    model = build(TRANSPOSE.format(*_sizes((2, 3, 2, 3, 2, 3, 2, 2), (6, 4, 2, 0, 7, 5, 3, 1))))
    assert_applies(spell_out_many_axes, model, 1)
    assert max(len(node.attributes["perm"].as_ints()) for node in model.graph if node.op_type == "Transpose") <= 6


@pytest.mark.parametrize("axis", [-1, 2, 0])
def test_a_softmax_of_six_axes_has_three(axis: int) -> None:
    sizes = "2,3,2,2,3,2"
    model = build(
        f"g (float[{sizes}] x) => (float[{sizes}] y) {{ a = Neg(x) b = Softmax<axis={axis}>(a) y = Relu(b) }}"
    )
    assert_applies(spell_out_deep_softmax, model, 1)


def test_a_softmax_of_five_axes_stays() -> None:
    assert_refuses(spell_out_deep_softmax, build("g (float[2,3,2,2,3] x) => (float[2,3,2,2,3] y) { y = Softmax(x) }"))


def test_six_axes_stay() -> None:
    shape, order = (2, 3, 2, 3, 2, 3), (5, 3, 1, 4, 2, 0)
    assert_refuses(spell_out_many_axes, build(TRANSPOSE.format(*_sizes(shape, order))))


TRANSPOSE = "g (float[{}] x) => (float[{}] y) {{ a = Neg(x) b = Transpose<perm={}>(a) y = Relu(b) }}"


def _sizes(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[str, str, list[int]]:
    return ",".join(map(str, shape)), ",".join(str(shape[axis]) for axis in order), list(order)
