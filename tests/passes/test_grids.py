"""Pictures that are read at computed places."""

import numpy as np
import pytest

from converter_lite.passes.spelled_out.grids import (
    spell_out_affine_grid,
    spell_out_grid_sample,
    spell_out_resampling,
)
from tests.support import assert_applies, assert_refuses, build, operators, random_feed

SAMPLED = (
    "g (float[{0},3,5,7] x, float[{0},{1},2] p) => (float[{0},3,{1}] y) {{ n = Neg(x) y = GridSample<{2}>(n, p) }}"
)
TURNED = "g (float[{},{}] t) => (float[{}] y) {{ n = Neg(t) y = AffineGrid<align_corners={}>(n, size) }}"


@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize(("batch", "version"), [(1, 16), (2, 16), (2, 20)])
def test_a_place_is_the_mean_of_its_four_neighbours(padding: str, corners: int, batch: int, version: int) -> None:
    mode = "bilinear" if version < 20 else "linear"
    attributes = f'mode="{mode}", padding_mode="{padding}", align_corners={corners}'
    model = build(SAMPLED.format(batch, "4,6", attributes), opset=version)
    feed = random_feed(model)
    edges = np.array([-1, 1, 0, -3, 2.5, 0.999], np.float32)
    grid = np.stack(np.broadcast_arrays(edges[:4, None], edges[None]), -1)
    assert_applies(spell_out_grid_sample, model, 1, feed, {**feed, "p": np.stack([grid] * batch)})
    assert operators(model)["GridSample"] == 0


@pytest.mark.parametrize(
    ("mode", "padding"),
    [("nearest", "zeros"), ("nearest", "border"), ("nearest", "reflection"), ("linear", "reflection")],
)
@pytest.mark.parametrize("corners", [0, 1])
def test_the_nearest_element_is_read_and_places_beside_are_reflected(mode: str, padding: str, corners: int) -> None:
    attributes = f'mode="{mode}", padding_mode="{padding}", align_corners={corners}'
    model = build(SAMPLED.format(2, "4,6", attributes), opset=20)
    feed = random_feed(model)
    edges = np.array([-1.01, 1.02, 0, -3.3, 2.47, 0.999], np.float32)
    grid = np.stack(np.broadcast_arrays(edges[None], edges[:4, None]), -1)
    assert_applies(spell_out_grid_sample, model, 1, {**feed, "p": 2 * feed["p"]}, {**feed, "p": np.stack([grid] * 2)})
    assert operators(model)["GridSample"] == 0


def test_a_cubic_sampling_stays() -> None:
    assert_refuses(spell_out_grid_sample, build(SAMPLED.format(1, "4,6", 'mode="bicubic"'), opset=16))


def test_a_picture_that_keeps_its_size_stays_where_runtimes_have_the_operator() -> None:
    assert_refuses(spell_out_resampling, build(SAMPLED.format(1, "5,7", "align_corners=0"), opset=16))
    assert_applies(spell_out_resampling, build(SAMPLED.format(1, "5,6", "align_corners=0"), opset=16), 1)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("places", [(4, 6), (3, 4, 5)])
def test_an_affine_grid_is_a_product_with_all_places(corners: int, batch: int, places: tuple[int, ...]) -> None:
    rank = len(places)
    result = ",".join(map(str, (batch, *places, rank)))
    size = np.array([batch, 3, *places])
    model = build(TURNED.format(batch, f"{rank},{rank + 1}", result, corners), opset=20, size=size)
    assert_applies(spell_out_affine_grid, model, 1)
    assert operators(model)["AffineGrid"] == 0


def test_corners_of_a_single_place_stay() -> None:
    model = build(TURNED.format(1, "2,3", "1,1,4,2", 1), opset=20, size=np.array([1, 3, 1, 4]))
    assert_refuses(spell_out_affine_grid, model)
