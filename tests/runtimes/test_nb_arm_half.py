"""Files with float16 kernels in the library for ARM64 that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.formats.paddle.exporter.half import to_half
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.program import NbFile
from tests.formats.paddle.test_half import float_file
from tests.runtimes.conftest import Tally
from tests.runtimes.nb_cases import Cases, NbCase
from tests.runtimes.paddle_arm import ARM64, require_arm, run_on_arm
from tests.runtimes.test_nb_operators import CASES, expected

pytestmark = [pytest.mark.runtime]


@pytest.fixture(autouse=True)
def library() -> None:
    require_arm(half=True)


def computes_in_half(file: NbFile) -> bool:
    operators = [op for op in file.program.main.operators if op.type != "calib"]
    return any("/4/5/1" in str(op.get(KERNEL_ATTRIBUTE)) for op in operators)


def distorted() -> list[NbCase]:
    """What float16 kernels get wrong."""
    cases = Cases()
    cases.add("Tanh of a picture", "Tanh", np.linspace(-40, 40, 64, dtype=np.float32).reshape(1, 4, 4, 4))
    wide = np.abs(cases.data((1, 4, 112, 112))) + 1
    cases.add("GlobalAveragePool of a large picture", "GlobalAveragePool", wide)
    cases.add("AveragePool of large windows", "AveragePool", wide, kernel_shape=[56, 56], strides=[56, 56])
    for kind in ("Relu", "LeakyRelu"):
        nodes = [
            onnx.helper.make_node("ConvTranspose", ["x", "w"], ["h"], strides=[2, 2]),
            onnx.helper.make_node(kind, ["h"], ["y"]),
        ]
        name = f"ConvTranspose without bias, then {kind}"
        cases.graph(name, nodes, {"x": cases.data((1, 8, 6, 7))}, [cases.constant("w", (8, 4, 3, 3))], ["y"])
    for name, channels, size, given in (
        ("to one pixel", (8, 16), 5, {}),
        ("to one pixel with strides", (8, 16), 1, {"strides": [2, 2], "kernel_shape": [1, 1]}),
        ("in groups of one filter", (2, 4), 7, {"strides": [3, 3], "group": 4, "kernel_shape": [1, 1]}),
        ("of one pixel", (20, 16), 1, {"kernel_shape": [1, 1]}),
    ):
        kernel, groups = given.get("kernel_shape", (5, 5)), int(given.get("group", 1))
        inputs, outputs = channels
        shape = (1, inputs * groups, size, size)
        cases.add(f"Conv {name}", "Conv", shape, consts={1: (outputs, inputs, *kernel), 2: (outputs,)}, **given)
    for rows, columns in ((1, 8), (8, 1)):
        cases.add(f"MatMul of {rows} x 12 x {columns}, constant", "MatMul", (rows, 12), consts={1: (12, columns)})
    cases.add("MatMul of one column", "MatMul", (8, 12), (12, 1))
    return cases.made


@pytest.mark.parametrize("case", [*CASES[::3], *distorted()], ids=lambda case: case.name)
def test_float16_files_give_the_float_models_numbers_on_arm(case: NbCase, tally: Tally, tmp_path: Path) -> None:
    tally(ARM64, "operators, float16")
    made = to_half(float_file(case.model))[0]
    if not computes_in_half(made) and case in CASES:
        return  # the same file as without float16
    found = run_on_arm(serialize(made), case.feed, tmp_path, half=True)
    assert not isinstance(found, str), found
    for got, want in zip(found, expected(case), strict=True):
        # A function may cut off most of what a convolution gives: its error is that of the convolution.
        largest = max(float(np.abs(want).max()), 10.0 if case.name.startswith("Conv") else 1e-9)
        # Places of samples have the digits of float16, too: an error in them counts by the slope of the picture.
        share = 1e-2 if "GridSample" in case.name else 5e-3
        assert np.abs(got.reshape(want.shape) - want).max() <= share * largest
