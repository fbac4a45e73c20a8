"""Full int8 files in the library for ARM64: every integer operator gives what the NumPy model of the device gives.

Each operator is computed anew from what the device gave to it, so that a rounding to the other side stays one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.program import NbFile
from tests.formats.paddle.int8_arithmetic import compute
from tests.formats.paddle.models import random
from tests.formats.paddle.plans import plan_full
from tests.runtimes.paddle_arm import DOT_PRODUCT, run_on_arm
from tests.runtimes.test_nb_operators import run as run_float
from tests.support import build as graph

pytestmark = [pytest.mark.runtime, pytest.mark.usefixtures("nb_arm")]

Array = NDArray[Any]


@dataclass(frozen=True)
class IntegerCase:
    """A body of ONNX nodes from x to y, its constants, and the kernels that its integer operators must have."""

    name: str
    shape: tuple[int, ...]
    body: str
    kernels: tuple[str, ...]
    constants: dict[str, Array] = field(default_factory=dict)

    def file(self) -> tuple[NbFile, Array, Array]:
        """The file, what is fed, and what the float model gives."""
        dims = ",".join(map(str, self.shape))
        words = set(re.findall(r"\w+", self.body))
        constants = {name: array for name, array in self.constants.items() if name in words}
        model = graph(f"g (float[{dims}] x) => (float y) {{ {self.body} }}", opset=14, **constants)
        feed = {"x": random(*self.shape, seed=11)}
        return (
            build(plan_full(model, feed, target="arm"), options=NbOptions("arm")),
            feed["x"],
            run_float(model, feed)[0],
        )


def disagreements(file: NbFile, x: Array, folder: Path, *, threads: int = 1, part: str = "") -> tuple[list[str], Array]:
    """Integer operators whose device results the model does not give, and the output of the file."""
    operators = [op for op in file.program.main.operators if op.get("enable_int8") or op.type == "calib"]
    names = list(
        dict.fromkeys(n for op in operators for slots in (op.inputs, op.outputs) for v in slots.values() for n in v)
    )
    inner = [name for name in names if name not in file.parameters and name != "x"]
    found = run_on_arm(serialize(file), [x], folder, threads=threads, part=part, inner=inner)
    assert not isinstance(found, str), found
    values = {**file.parameters, "x": x, **dict(zip(inner, found[-len(inner) :], strict=True))}
    problems = []
    for op in operators:
        name, want = compute(op, values)
        problem = difference(values[name], want)
        if problem:
            problems.append(f"{op.get(KERNEL_ATTRIBUTE)}: {problem}")
    return problems, found[0]


def difference(got: Array, want: Array) -> str:
    """What is more than single roundings: one step in 500 integers, the last bits of a float."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    if got.dtype == np.int8:
        wrong = int(np.count_nonzero(error))
        return (
            "" if error.max() <= 1 and wrong <= max(1, got.size // 500) else f"{wrong} of {got.size}, by {error.max()}"
        )
    return "" if error.max() <= 2e-6 * max(np.abs(want).max(), 1e-9) else f"by {error.max()}"


def cosine(a: Array, b: Array) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


FC = {"w": random(40, 24), "b": random(24, seed=5)}
INTO_INT8 = ("fc/int8out", "fc/fp32out")
FULLY_CONNECTED = [
    IntegerCase(
        f"{name}, {len(rows)} dimensions", rows, f"{first} y = MatMul(h, last)", kernels, {**FC, "last": random(24, 10)}
    )
    for rows in ((1, 40), (5, 40), (2, 3, 40))
    for name, first, kernels in (
        ("fc without bias", "h = MatMul(x, w)", INTO_INT8),
        ("fc with bias", "a = MatMul(x, w) h = Add(a, b)", INTO_INT8),
        ("fc with bias and Relu", "a = MatMul(x, w) c = Add(a, b) h = Relu(c)", INTO_INT8),
        ("fc without bias, then Relu", "a = MatMul(x, w) h = Relu(a)", ("fc/fp32out", "relu/def")),
    )
]


@pytest.mark.parametrize("part", ["", DOT_PRODUCT], ids=["plain", "dot product"])
@pytest.mark.parametrize("case", FULLY_CONNECTED, ids=lambda case: case.name)
def test_integer_operators_give_what_the_model_of_the_device_gives(
    case: IntegerCase, part: str, tmp_path: Path
) -> None:
    file, x, want = case.file()
    keys = [op.get(KERNEL_ATTRIBUTE) for op in file.program.main.operators]
    assert [kernel for kernel in case.kernels if not any(key.startswith(kernel) for key in keys)] == []
    problems, got = disagreements(file, x, tmp_path, part=part)
    assert problems == []
    assert cosine(got, want) > 0.99
