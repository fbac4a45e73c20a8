"""Random sizes and attributes of operators with windows, in the library for ARM64."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.runtimes.conftest import Tally
from tests.runtimes.nb_cases import Cases, NbCase
from tests.runtimes.paddle_arm import ARM64, run_on_arm
from tests.runtimes.test_nb_operators import expected, mismatch, written

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("nb_arm")]

SEED = 20


def sides(random: np.random.Generator, low: int, high: int, *, alike: float = 0.5) -> list[int]:
    """Two numbers from a range, often the same."""
    first, second = (int(number) for number in random.integers(low, high, 2))
    return [first, first if random.random() < alike else second]


def paddings(random: np.random.Generator, kernel: list[int]) -> list[int]:
    """None, the same everywhere, or each for itself; smaller than the window."""
    kind, most = random.random(), min(kernel)
    if kind < 0.3:
        return [0] * 4
    if kind < 0.6:
        return [int(random.integers(0, most))] * 4
    return [int(random.integers(0, kernel[side % 2])) for side in range(4)]


def poolings(count: int) -> list[NbCase]:
    random, cases = np.random.default_rng(SEED), Cases()
    for number in range(count):
        kind, kernel = str(random.choice(["MaxPool", "AveragePool"])), sides(random, 1, 5)
        given: dict[str, Any] = {
            "kernel_shape": kernel,
            "strides": sides(random, 1, 4),
            "pads": paddings(random, kernel),
        }
        given["ceil_mode"] = int(random.random() < 0.4)
        if kind == "AveragePool":
            given["count_include_pad"] = int(random.random() < 0.5)
        height, width = sides(random, 5, 24)
        cases.add(
            f"{number} {kind} {height}x{width} {given}", kind, (int(random.integers(1, 3)), 3, height, width), **given
        )
    return cases.made


def convolutions(count: int) -> list[NbCase]:
    """Behind another convolution, since some kernels trust what registers hold; some with a function behind them."""
    random, cases = np.random.default_rng(SEED), Cases()
    for number in range(count):
        kernel, groups = sides(random, 1, 6, alike=0.8), int(random.choice([1, 1, 2, 8]))
        channels = 8 * int(random.integers(1, 3))
        given: dict[str, Any] = {"kernel_shape": kernel, "strides": sides(random, 1, 3, alike=0.8), "group": groups}
        given |= {"pads": paddings(random, kernel), "dilations": [int(random.choice([1, 1, 1, 2]))] * 2}
        kind = str(random.choice(["", "Relu", "LeakyRelu", "HardSwish"]))
        height, width = sides(random, 10, 30, alike=0.2)
        nodes = [
            onnx.helper.make_node("Conv", ["x", "first"], ["p"], name="before", pads=[1] * 4),
            onnx.helper.make_node("Conv", ["p", "w", "b"], ["h" if kind else "y"], name="conv", **given),
        ]
        if kind:
            nodes.append(onnx.helper.make_node(kind, ["h"], ["y"], name="act"))
        weights = {"first": (8, 8, 3, 3), "w": (channels, 8 // groups, *kernel), "b": (channels,)}
        constants = [cases.constant(name, shape) for name, shape in weights.items()]
        feed = {"x": cases.data((int(random.integers(1, 3)), 8, height, width))}
        cases.graph(f"{number} Conv {height}x{width} {channels} {given} {kind}", nodes, feed, constants, ["y"])
    return cases.made


def narrow() -> list[NbCase]:
    """Depthwise filters on small pictures, for which there are kernels of their own: all in one file for each kind of border."""
    cases = Cases()
    for stride, pads in product(
        (1, 2), ([1] * 4, [0, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0])
    ):
        nodes, feed, constants = [], {}, [cases.constant("w", (8, 1, 3, 3)), cases.constant("b", (8,))]
        for height, width in product((4, 5), range(3, 11)):
            size, given = f"{height}x{width}", {"strides": [stride] * 2, "pads": pads, "group": 8}
            nodes.append(
                onnx.helper.make_node("Conv", [f"x{size}", "w", "b"], [f"y{size}"], name=f"conv{size}", **given)
            )
            feed[f"x{size}"] = cases.data((1, 8, height, width))
        cases.graph(f"depthwise {stride} {pads}", nodes, feed, constants, [node.output[0] for node in nodes])
    return cases.made


def transposed(count: int) -> list[NbCase]:
    random, cases = np.random.default_rng(SEED), Cases()
    for number in range(count):
        kernel, strides = sides(random, 1, 6, alike=0.8), sides(random, 1, 4, alike=0.8)
        given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": int(random.choice([1, 1, 2, 8]))}
        given["pads"] = paddings(random, kernel)
        if random.random() < 0.3:
            given["output_padding"] = [int(random.integers(0, stride)) for stride in strides]
        height, width = sides(random, 3, 14, alike=0.2)
        weights = {1: (8, 8 // given["group"], *kernel), 2: (8,)}
        name = f"{number} ConvTranspose {height}x{width} {given}"
        cases.add(name, "ConvTranspose", (int(random.integers(1, 3)), 8, height, width), consts=weights, **given)
    return cases.made


def resizings(count: int) -> list[NbCase]:
    random, cases = np.random.default_rng(SEED), Cases()
    for number in range(count):
        coordinates = str(random.choice(["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]))
        shape, larger = (1, 3, *sides(random, 1, 20)), (1, 3, *sides(random, 1, 30))
        given = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        name = f"{number} Resize {coordinates} {shape[2:]} to {larger[2:]}"
        cases.add(name, "Resize", shape, None, None, consts={3: np.array(larger, np.int64)}, **given)
    return cases.made


def products(count: int) -> list[NbCase]:
    random, cases = np.random.default_rng(SEED), Cases()
    for number in range(count):
        rows, inner, columns = (int(size) for size in random.integers(1, 40, 3))
        batch = tuple(int(size) for size in random.integers(1, 4, int(random.integers(0, 3))))
        if random.random() < 0.5:
            cases.add(
                f"{number} MatMul {batch} {rows}x{inner}x{columns} constant",
                "MatMul",
                (*batch, rows, inner),
                consts={1: (inner, columns)},
            )
        else:
            cases.add(
                f"{number} MatMul {batch} {rows}x{inner}x{columns}",
                "MatMul",
                (*batch, rows, inner),
                (*batch, inner, columns),
            )
    return cases.made


@pytest.mark.parametrize(
    "case",
    [*poolings(40), *convolutions(40), *narrow(), *transposed(20), *resizings(30), *products(15)],
    ids=lambda case: case.name,
)
def test_operators_of_any_shape_give_the_float_models_numbers_on_arm(
    case: NbCase, tally: Tally, tmp_path: Path
) -> None:
    tally(ARM64, "random shapes, float")
    threads = 1 + 3 * (len(case.name) % 2)
    assert (
        mismatch(run_on_arm(written(case, "arm"), case.feed, tmp_path, threads=threads), expected(case), case.tolerance)
        == ""
    )
