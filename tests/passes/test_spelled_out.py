from typing import Any

import numpy as np
import pytest

from converter_lite.passes.pipeline import optimize
from converter_lite.passes.spelled_out import (
    spell_out_batched_gather,
    spell_out_grouped_deconvolution,
    spell_out_scatter,
)
from tests.support import (
    assert_applies,
    assert_refuses,
    assert_same_outputs,
    build,
    clone,
    normal,
    operators,
    random_feed,
)

SCATTER = (
    "g (float[3,4,2] x, float[{}] u) => (float[3,4,2] y) {{ a = Neg(x) b = ScatterND{}(a, places, u) y = Relu(b) }}"
)


@pytest.mark.parametrize(
    ("places", "updates"),
    [
        ([[2], [0]], "2,4,2"),
        ([[1, 3], [-1, 0]], "2,2"),
        ([[[0, 0, 1]], [[2, 3, -2]]], "2,1"),
        ([[[1]], [[2]]], "2,1,4,2"),
    ],
    ids=["rows", "columns", "elements", "more axes"],
)
def test_scatter_to_constant_places_is_a_choice_of_rows(places: list[Any], updates: str) -> None:
    model = build(SCATTER.format(updates, ""), places=np.array(places), opset=16)
    assert_applies(spell_out_scatter, model, 1)
    assert operators(model)["ScatterND"] == 0


@pytest.mark.parametrize(
    ("places", "attribute"), [([[2], [2]], ""), ([[2], [-1]], ""), ([[2], [0]], '<reduction="add">')]
)
def test_what_adds_up_or_comes_twice_stays(places: list[Any], attribute: str) -> None:
    assert_refuses(spell_out_scatter, build(SCATTER.format("2,4,2", attribute), places=np.array(places), opset=16))


def test_places_that_are_computed_stay() -> None:
    text = "g (float[3,4] x, int64[2,1] places, float[2,4] u) => (float[3,4] y) { y = ScatterND(x, places, u) }"
    assert_refuses(spell_out_scatter, build(text))


@pytest.mark.parametrize(
    ("batch", "indices"),
    [
        (1, np.array([[1], [3]])),
        (1, np.array([[[0, 1], [3, -1]], [[2, 2], [0, 0]]])),
        (2, np.arange(6).reshape(2, 3, 1) % 4),
    ],
    ids=["one axis", "two axes", "two batches"],
)
def test_batches_become_indices(batch: int, indices: np.ndarray) -> None:
    rank = 3 - batch - indices.shape[-1] + indices.ndim - 1
    text = f"g (float[2,{3 if batch == 2 else 4},4] x) => (float[{','.join('abcd'[:rank])}] y) "
    text += f"{{ r = Neg(x) y = GatherND<batch_dims={batch}>(r, i) }}"
    assert_applies(spell_out_batched_gather, build(text, i=indices), 1)


def test_a_gather_without_batches_stays() -> None:
    assert_refuses(
        spell_out_batched_gather,
        build("g (float[3,4] x) => (float[2,4] y) { y = GatherND(x, i) }", i=np.array([[1], [2]])),
    )


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(
    ("groups", "filters", "attributes", "size"),
    [
        (2, (6, 5, 3, 3), "", "10,6,7"),
        (3, (6, 1, 3, 3), "strides=[2,2], pads=[1,0,1,1]", "3,7,10"),
        (2, (6, 2, 2, 2), 'strides=[2,2], auto_pad="SAME_UPPER"', "4,8,10"),
    ],
)
def test_groups_of_a_deconvolution_are_computed_one_by_one(
    groups: int, filters: tuple[int, ...], attributes: str, size: str, opset: int
) -> None:
    comma = ", " if attributes else ""
    text = f"g (float[2,6,4,5] x) => (float[2,{size}] y) {{ y = ConvTranspose<group={groups}{comma}{attributes}>(x, w, b) }}"
    model = build(text, opset=opset, w=normal(*filters), b=normal(filters[1] * groups))
    assert_applies(spell_out_grouped_deconvolution, model, 1)
    assert operators(model) == {"Split": 1, "ConvTranspose": groups, "Concat": 1}


def test_depthwise_and_plain_deconvolutions_stay() -> None:
    for groups, filters in ((6, (6, 1, 3, 3)), (1, (6, 2, 3, 3))):
        text = f"g (float[2,6,4,5] x) => (float[2,n,6,7] y) {{ y = ConvTranspose<group={groups}>(x, w) }}"
        assert_refuses(spell_out_grouped_deconvolution, build(text, w=normal(*filters)))


@pytest.mark.parametrize("level", ["none", "general"])
def test_only_what_a_format_lacks_is_spelled_out(level: str) -> None:
    model = build(SCATTER.format("2,4,2", ""), places=np.array([[2], [0]]), opset=16)
    kept = optimize(clone(model), level=level).model
    assert operators(kept)["ScatterND"] == 1
    changed = optimize(clone(model), level=level, spelled_out=frozenset({"ScatterND", "ConvTranspose"})).model
    assert operators(changed)["ScatterND"] == 0
    assert_same_outputs(model, changed, random_feed(model))
