"""Nearest elements as frameworks take them that multiply by a ratio."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.nearest import gather_by_ratio
from tests.support import assert_refuses, build, operators, run

OLD = 'coordinate_transformation_mode="asymmetric", nearest_mode="floor"'
HALVES = 'coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil"'
CORNERS = 'coordinate_transformation_mode="align_corners", nearest_mode="round_prefer_ceil"'


def text(before: str, after: str, attributes: str, given: str) -> str:
    return f'g (float[{before}] x) => (float[{after}] y) {{ y = Resize<mode="nearest", {attributes}>(x{given}) }}'


@pytest.mark.parametrize(
    ("attributes", "size", "result", "place", "elements"),
    [(OLD, 14, 8, 4, (6, 7)), (HALVES, 14, 23, 11, (7, 6)), (CORNERS, 14, 23, 11, (7, 6))],
)
def test_elements_are_those_at_places_times_the_ratio(
    attributes: str, size: int, result: int, place: int, elements: tuple[int, int]
) -> None:
    model = build(text(f"1,2,{size},3", f"1,2,{result},3", attributes, ",,, sizes"), sizes=np.array([1, 2, result, 3]))
    x = np.broadcast_to(np.arange(size, dtype=np.float32)[:, None], (1, 2, size, 3))
    assert run(model, {"x": x})["y"][0, 0, place, 0] == elements[0]
    assert gather_by_ratio(model) == 1
    assert operators(model)["Resize"] == 0
    assert run(model, {"x": x})["y"][0, 0, place, 0] == elements[1]


def test_a_batch_may_be_open() -> None:
    nodes = """{
        shape = Shape<end=2>(x) sizes = Concat<axis=0>(shape, sides)
        y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x,,, sizes)
    }"""
    model = build(f"g (float[N,2,14,3] x) => (float[N,2,8,3] y) {nodes}", opset=15, sides=np.array([8, 3]))
    assert gather_by_ratio(model) == 1


@pytest.mark.parametrize(
    ("size", "result", "attributes", "factors"),
    [(14, 28, OLD, False), (14, 8, OLD, True), (14, 8, 'nearest_mode="round_prefer_floor"', False)],
)
def test_what_is_the_same_or_is_not_known_stays(size: int, result: int, attributes: str, factors: bool) -> None:
    graph = text(f"1,2,{size},3", f"1,2,{result},3", attributes, ",, factors" if factors else ",,, sizes")
    scales = {"factors": np.array([1, 1, result / size, 1], np.float32)} if factors else {}
    sizes = {} if factors else {"sizes": np.array([1, 2, result, 3])}
    assert_refuses(gather_by_ratio, build(graph, **scales, **sizes))
