from typing import Any

import numpy as np
import pytest

from converter_lite.graph import constant
from converter_lite.passes.spelled_out.scattering import spell_out_put_elements, spell_out_scatter
from tests.support import (
    assert_applies,
    assert_refuses,
    build,
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
    ("corner", "sizes"),
    [((1, 0, 0), (2, 4, 2)), ((0, 3, 0), (3, 1, 2)), ((0, 1, 1), (2, 2, 1)), ((0, 0, 0), (3, 4, 2)), ((2, 3), (1, 1))],
    ids=["last rows", "a column", "inside", "everything", "one row of two axes"],
)
def test_a_slice_that_is_assigned_to_is_joined_with_what_lies_around_it(
    corner: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    grid = np.meshgrid(*(first + np.arange(size) for first, size in zip(corner, sizes, strict=True)), indexing="ij")
    updates = ",".join(map(str, (*sizes, *(3, 4, 2)[len(sizes) :])))
    model = build(SCATTER.format(updates, ""), places=np.stack(grid, axis=-1), opset=16)
    assert_applies(spell_out_scatter, model, 1)
    assert not {"Gather", "ScatterND"} & set(operators(model))


def test_elements_of_a_slice_are_joined_with_what_lies_around_it() -> None:
    text = "g (float[3,4] x, float[2,4] u) => (float[3,4] y) { y = ScatterElements(x, places, u) }"
    model = build(text, places=np.array([[1] * 4, [2] * 4]), opset=16)
    assert_applies(spell_out_scatter, model, 1)
    assert not {"Gather", "ScatterElements"} & set(operators(model))


def test_elements_of_a_slice_in_another_order_are_chosen() -> None:
    model = build(SCATTER.format("2,4,2", ""), places=np.array([[1], [0]]), opset=16)
    assert_applies(spell_out_scatter, model, 1)
    assert operators(model)["Gather"] == 1


@pytest.mark.parametrize(("places", "attribute"), [([[2], [2]], ""), ([[2], [0]], '<reduction="add">')])
def test_what_adds_up_or_comes_twice_stays(places: list[Any], attribute: str) -> None:
    assert_refuses(spell_out_scatter, build(SCATTER.format("2,4,2", attribute), places=np.array(places), opset=16))


def test_constant_places_that_come_twice_count_from_the_front() -> None:
    model = build(SCATTER.format("2,4,2", '<reduction="add">'), places=np.array([[2], [-1]]), opset=16)
    assert_applies(spell_out_scatter, model, 1)
    (node,) = (node for node in model.graph if node.op_type == "ScatterND")
    places = constant(node.inputs[1])
    assert places is not None
    assert (places >= 0).all()


@pytest.mark.parametrize(("places", "updates"), [([[-1], [0]], "2,4"), ([[-3, -4], [2, 3]], "2")])
def test_computed_places_count_from_the_front(places: list[list[int]], updates: str) -> None:
    """Runtimes write in front of the tensor."""
    width = len(places[0])
    text = f"g (float[3,4] x, int64[2,{width}] places, float[{updates}] u) => (float[3,4] y) {{ y = ScatterND(x, places, u) }}"
    model = build(text)
    assert_applies(spell_out_scatter, model, 1, {**random_feed(model), "places": np.array(places)})


@pytest.mark.parametrize("axis", [0, 1])
def test_computed_places_of_elements_count_from_the_front(axis: int) -> None:
    text = f"g (float[3,4] x, int64[2,2] i, float[2,2] u) => (float[3,4] y) {{ y = ScatterElements<axis={axis}>(x, i, u) }}"
    model = build(text, opset=16)
    assert_applies(spell_out_scatter, model, 1, {**random_feed(model), "i": np.array([[-1, 0], [1, -2]])})


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize(("axis", "most"), [(0, 4), (-1, 5)])
def test_elements_are_put_into_a_row_of_all(axis: int, most: int, reduction: str) -> None:
    text = "g (float[4,5] x, int64[2,3] i, float[2,3] u) => (float[4,5] y) "
    text += f'{{ y = ScatterElements<axis={axis}, reduction="{reduction}">(x, i, u) }}'
    model = build(text, opset=18)
    rows = np.stack([np.random.default_rng(4).permutation(most)[:2] for _ in range(3)], axis=1)
    columns = np.stack([np.random.default_rng(4).permutation(most)[:3] for _ in range(2)])
    feed = {**random_feed(model), "i": columns if axis else rows}
    assert_applies(spell_out_scatter, model, 1, feed)
    assert operators(model)["ScatterND"] == 1


def test_elements_are_added_twice_to_a_constant_place() -> None:
    text = "g (float[2,5] x, float[2,2] u) => (float[2,5] y) { "
    text += 'y = ScatterElements<axis=1, reduction="add">(x, i, u) }'
    assert_applies(spell_out_scatter, build(text, i=np.array([[1, 1], [-1, 0]]), opset=18), 1)


def test_rows_are_added_to_rows_where_one_number_says_where_to() -> None:
    text = """g (float[4,3] x, int64[6,1] i, float[6,3] u) => (float[4,3] y) {
        everywhere = Expand(i, size) y = ScatterElements<reduction="add">(x, everywhere, u) }"""
    model = build(text, size=np.array([6, 3]), opset=18)
    feed = {**random_feed(model), "i": np.array([[2], [0], [2], [3], [0], [2]])}
    assert_applies(spell_out_scatter, model, 1, feed)
    assert operators(model)["ScatterND"] == 1
    (node,) = (node for node in model.graph if node.op_type == "ScatterND")
    assert node.inputs[1] is not None and list(node.inputs[1].shape or ()) == [6, 1]


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [("float", '<reduction="max">'), ("bool", "")],
    ids=["the largest", "truth values"],
)
def test_other_elements_stay_where_they_are_put(kind: str, attribute: str) -> None:
    text = f"g ({kind}[2,5] x, int64[2,2] i, {kind}[2,2] u) => ({kind}[2,5] y) {{ y = ScatterElements{attribute}(x, i, u) }}"
    assert_refuses(spell_out_scatter, build(text, opset=18))


@pytest.mark.parametrize(
    ("shape", "places", "many"),
    [("4,3", "2,1", "2,3"), ("4,3", "2,2", "2"), ("5", "2,1", "2")],
    ids=["rows", "elements", "elements of a row"],
)
@pytest.mark.parametrize("kind", ["float", "int64"])
def test_what_is_put_is_added_to_zeros(shape: str, places: str, many: str, kind: str) -> None:
    text = f"g ({kind}[{shape}] x, int64[{places}] i, {kind}[{many}] u) => ({kind}[{shape}] y) {{ y = ScatterND(x, i, u) }}"
    model = build(text, opset=18)
    feed = {**random_feed(model), "i": np.array([[2, 1], [0, 2]])[:, : int(places[-1])]}
    assert_applies(spell_out_put_elements, model, 1 + (shape == "5"), feed)
    adds = [node for node in model.graph if node.op_type == "ScatterND"]
    assert [node.attributes["reduction"].as_string() for node in adds] == ["add", "add"]
    assert operators(model)["Where"] == 1


def test_nothing_is_added_where_the_operator_set_cannot() -> None:
    text = "g (float[4,3] x, int64[2,1] i, float[2,3] u) => (float[4,3] y) { y = ScatterND(x, i, u) }"
    assert_refuses(spell_out_put_elements, build(text, opset=13))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_of_elements(axis: int) -> None:
    text = f"g (float[3,4] x, float[2,2] u) => (float[3,4] y) {{ y = ScatterElements<axis={axis}>(x, places, u) }}"
    assert_applies(spell_out_scatter, build(text, places=np.array([[1, 0], [-1, 2]]), opset=16), 1)


def test_elements_that_come_twice_stay() -> None:
    text = "g (float[3,4] x, float[2,2] u) => (float[3,4] y) { y = ScatterElements<axis=1>(x, places, u) }"
    assert_refuses(spell_out_scatter, build(text, places=np.array([[1, 1], [0, 2]]), opset=16))
