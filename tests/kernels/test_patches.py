"""Patches of a convolution: multiplied with the weights they give what the runtime's Conv gives."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.kernels.patches import Window, choose, conv_patches
from tests.support import build, normal, run

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, tuple[int, ...]]]] = {
    "1x1": ((2, 3, 5, 6), (1, 1), {}),
    "3x3 padded": ((2, 3, 5, 6), (3, 3), {"pads": (1, 1, 1, 1)}),
    "uneven": ((1, 2, 9, 7), (3, 2), {"strides": (2, 1), "dilations": (2, 3), "pads": (0, 1, 2, 3)}),
    "larger steps than kernels": ((1, 2, 9, 9), (2, 2), {"strides": (4, 3)}),
    "one axis": ((3, 2, 11), (4,), {"pads": (2, 1), "strides": (2,)}),
    "three axes": ((1, 2, 4, 5, 6), (2, 3, 2), {"pads": (0, 1, 0, 1, 0, 1)}),
}


def window(kernel: tuple[int, ...], given: dict[str, tuple[int, ...]]) -> Window:
    rank = len(kernel)
    return Window(kernel, **{"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank, **given})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("group", [1, 2])
def test_patches_times_weights_are_the_convolution(case: str, group: int) -> None:
    shape, kernel, given = CASES[case]
    shape = (shape[0], shape[1] * group, *shape[2:])
    x, weight = normal(*shape, seed=1), normal(4, shape[1] // group, *kernel, seed=2)
    attributes = ", ".join([f"group={group}", *(f"{name}={list(value)}" for name, value in given.items())])
    sizes, unknown = ",".join(map(str, shape)), ",".join("nabcd"[: len(shape)])
    model = build(f"g (float[{sizes}] x) => (float[{unknown}] y) {{ y = Conv<{attributes}>(x, w) }}", w=weight)
    expected = np.moveaxis(run(model, {"x": x})["y"], 1, -1).reshape(-1, 4)
    patches = conv_patches(x, window(kernel, given), positions=10**6, seed=0)
    assert patches.shape == (len(expected), shape[1], np.prod(kernel))
    rows = patches.reshape(len(patches), group, -1)
    given_rows = np.einsum("ngc,goc->ngo", rows, weight.reshape(group, 4 // group, -1)).reshape(-1, 4)
    np.testing.assert_allclose(given_rows, expected, atol=1e-4)


def test_fewer_positions_are_some_of_all_patches_in_order() -> None:
    x = normal(2, 3, 8, 8)
    all_of_them = conv_patches(x, window((3, 3), {}), positions=1000, seed=0)
    some = conv_patches(x, window((3, 3), {}), positions=20, seed=5)
    np.testing.assert_array_equal(some, all_of_them[choose(len(all_of_them), 20, 5)])
    assert len(some) == 20


def test_the_same_seed_chooses_the_same_positions_once_each() -> None:
    first = choose(1000, 50, 7)
    assert len(np.unique(first)) == 50
    np.testing.assert_array_equal(first, np.sort(first))
    np.testing.assert_array_equal(first, choose(1000, 50, 7))
    assert np.any(first != choose(1000, 50, 8))


def test_all_positions_are_chosen_where_there_are_no_more() -> None:
    np.testing.assert_array_equal(choose(4, 4, 0), [0, 1, 2, 3])
    np.testing.assert_array_equal(choose(4, 9, 0), [0, 1, 2, 3])
