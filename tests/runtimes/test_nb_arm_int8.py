"""Full int8 files in the library for ARM64: every integer operator gives what the NumPy model of the device gives.

Each operator is computed anew from what the device gave to it, so that a rounding to the other side stays one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import ArrayLike, NDArray

from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.format import NB_REQUIREMENTS
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.planning import adapt_plan
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.formats.paddle.program import NbFile
from converter_lite.graph import add_initializer, constant
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.planned_graph import settle_planned
from converter_lite.quantization.qdq.build import qdq_model
from tests.formats.paddle.int8_arithmetic import compute
from tests.formats.paddle.models import random
from tests.formats.paddle.plans import plan_full, plan_weights
from tests.formats.paddle.test_grid_ends import GRAPHS, PAIR, adapted, paired, weighted
from tests.formats.paddle.writing import write
from tests.runtimes.conftest import Tally
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.paddle_arm import ARM64, DOT_PRODUCT, run_on_arm
from tests.runtimes.test_nb_operators import CASES
from tests.runtimes.test_nb_operators import run as run_float
from tests.support import build as graph
from tests.support import run as run_onnx

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

    def file(self, *, bound: float | None = None) -> tuple[NbFile, Array, Array]:
        """The file, what is fed, and what the float model gives."""
        dims = ",".join(map(str, self.shape))
        words = set(re.findall(r"\w+", self.body))
        constants = {name: array for name, array in self.constants.items() if name in words}
        model = graph(f"g (float[{dims}] x) => (float y) {{ {self.body} }}", opset=14, **constants)
        feed = {"x": random(*self.shape, seed=11)}
        return (
            build(plan_full(model, feed, target="arm", bound=bound), options=NbOptions("arm")),
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


FUNCTIONS = {
    "no function": "",
    "Relu": "h = Relu(a)",
    "Clip 0 to 6": "h = Clip(a, zero, six)",
    "Clip 0 to 1.5": "h = Clip(a, zero, bound)",
    "LeakyRelu": "h = LeakyRelu<alpha=0.2>(a)",
}
BOUNDS = {"zero": np.float32(0), "six": np.float32(6), "bound": np.float32(1.5)}


def convolution(
    kind: str,
    kernel: int,
    stride: int,
    pads: tuple[int, ...],
    function: str,
    *,
    bias: bool = True,
    dilation: int = 1,
    into_int8: bool = True,
) -> IntegerCase:
    """A convolution of 8 channels behind another, since some kernels trust what registers hold, and in front of one."""
    groups = {"dense": 1, "grouped": 2, "depthwise": 8}[kind]
    attributes = f"group={groups}, strides=[{stride},{stride}], dilations=[{dilation},{dilation}], pads={list(pads)}"
    conv = f"Conv<{attributes}>(p, {'w, b' if bias else 'w'})"
    behind, last = FUNCTIONS[function], "y = Conv(h, last)" if into_int8 else "y = Sigmoid(h)"
    body = f"p = Conv<pads=[1,1,1,1]>(x, first) {f'a = {conv} {behind}' if behind else f'h = {conv}'} {last}"
    constants = {
        "w": random(8, 8 // groups, kernel, kernel),
        "b": random(8, seed=5),
        "first": random(8, 8, 3, 3),
        "last": random(8, 8, 1, 1),
        **BOUNDS,
    }
    name = f"{kind} {kernel}x{kernel}, stride {stride}, pads {pads}, {function}"
    name += f"{'' if bias else ', no bias'}{', dilated' if dilation > 1 else ''}{'' if into_int8 else ', float'}"
    operator = "depthwise_conv2d" if kind == "depthwise" else "conv2d"
    return IntegerCase(name, (1, 8, 17, 19), body, (f"{operator}/{'int8' if into_int8 else 'fp32'}_out",), constants)


CONVOLUTIONS = [
    *(
        convolution(kind, kernel, stride, (pad,) * 4, function)
        for kind in ("dense", "depthwise")
        for kernel in (1, 3, 5)
        for stride in (1, 2)
        for pad in sorted({0, kernel // 2})
        for function in FUNCTIONS
    ),
    *(
        convolution("depthwise", 3, stride, (pad,) * 4, function, into_int8=False)
        for stride in (1, 2)
        for pad in (0, 1)
        for function in FUNCTIONS
    ),
    *(
        convolution(kind, 3, stride, pads, function, bias=False)
        for kind in ("dense", "depthwise")
        for stride in (1, 2)
        for pads in ((0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 0, 1), (1, 0, 2, 1))
        for function in ("no function", "Relu")
    ),
    *(
        convolution(kind, kernel, 1, (kernel // 2,) * 4, function, dilation=dilation)
        for kind, kernel, dilation in (
            ("grouped", 1, 1),
            ("grouped", 3, 1),
            ("dense", 3, 2),
            ("depthwise", 3, 2),
            ("depthwise", 5, 2),
            ("dense", 7, 1),
            ("depthwise", 7, 1),
        )
        for function in ("no function", "Clip 0 to 6", "LeakyRelu")
    ),
]


PLAIN = [*FULLY_CONNECTED, *CONVOLUTIONS]
IN_DOT_PRODUCTS = [case for case in PLAIN if not case.name.startswith("depthwise")]


@pytest.mark.parametrize(
    ("case", "part"),
    [*((case, "") for case in PLAIN), *((case, DOT_PRODUCT) for case in IN_DOT_PRODUCTS)],
    ids=lambda given: given.name if isinstance(given, IntegerCase) else given or "plain",
)
def test_integer_operators_give_what_the_model_of_the_device_gives(
    case: IntegerCase, part: str, tally: Tally, tmp_path: Path
) -> None:
    tally(ARM64, "operators, full int8, step by step")
    file, x, want = case.file()
    keys = [op.get(KERNEL_ATTRIBUTE) for op in file.program.main.operators]
    assert [kernel for kernel in case.kernels if not any(key.startswith(kernel) for key in keys)] == []
    problems, got = disagreements(file, x, tmp_path, part=part)
    assert problems == []
    assert cosine(got, want) > 0.99


WITH_WEIGHTS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Gather", "LSTM", "GRU")
WEIGHTED = [case for case in CASES if case.name.split()[0] in WITH_WEIGHTS]


def _without_lowest(model: ir.Model) -> ir.Model:
    """The device's integers end at -127, those of a QuantizeLinear at -128: what is quantized ends there, too."""
    for node in [node for node in model.graph if node.op_type == "QuantizeLinear"]:
        value, scale = node.inputs[0], constant(node.inputs[1])
        assert value is not None and scale is not None
        low = add_initializer(model.graph, f"{node.name}_low", np.asarray(-127 * scale, np.float32))
        clip = ir.node("Clip", [value, low], name=f"{node.name}_clip")
        clip.outputs[0].name, clip.outputs[0].dtype = f"{node.name}_clipped", value.dtype
        model.graph.insert_before(node, clip)
        node.replace_input_with(0, clip.outputs[0])
    return model


@pytest.mark.parametrize("full", [False, True], ids=["weights", "full"])
@pytest.mark.parametrize("case", WEIGHTED, ids=lambda case: case.name)
def test_quantized_operators_give_what_their_file_reads_back_as(
    case: NbCase, full: bool, tally: Tally, tmp_path: Path
) -> None:
    """Plans of every operator that has a weight; sums that lie on a border of two integers may fall to either side."""
    model, feed = case.model, case.feed
    quantized = plan_full(model, feed, target="arm") if full else plan_weights(model, target="arm", bits=8)
    if all(node.mode is NodeMode.FLOAT for node in quantized.plan.nodes.values()):
        return  # small weights stay float, and so do products of activations
    tally(ARM64, "operators, full int8" if full else "operators, weights")
    data = serialize(build(quantized, options=NbOptions("arm")))
    found = run_on_arm(data, feed, tmp_path)
    assert not isinstance(found, str), found
    for got, want in zip(found, run_float(_without_lowest(qdq_model(read(data))), feed), strict=True):
        errors = np.abs(got.reshape(-1) - want.reshape(-1)) / max(np.abs(want).max(), 1e-9)
        assert errors.max() < 0.02
        assert np.count_nonzero(errors > 1e-5) <= got.size // 100


def test_a_clip_below_the_reach_of_int8_stays_an_operator_where_the_kernel_cannot_have_it(tmp_path: Path) -> None:
    case = convolution("depthwise", 3, 1, (0,) * 4, "Clip 0 to 1.5")
    file, x, _ = case.file(bound=4.0)
    keys = [op.get(KERNEL_ATTRIBUTE) for op in file.program.main.operators]
    assert "depthwise_conv2d/fp32_out/4/2/1" in keys
    assert "clip/def/4/1/1" in keys
    assert disagreements(file, x, tmp_path)[0] == []


@pytest.mark.parametrize("case", GRAPHS.values(), ids=GRAPHS)
def test_pairs_between_floats_cut_off_what_is_beyond_their_grid(case: str, tmp_path: Path) -> None:
    given = 4 * random(1, 4, 6, 6)
    found = run_on_arm(write(adapted(case, "arm")), [given], tmp_path)
    assert not isinstance(found, str), found
    (expected,) = run_onnx(paired(weighted(case)), {"x": given}).values()
    assert np.abs(found[0] - expected).max() < 0.05 * np.abs(expected).max()


COMPUTED = "a = ArgMax<axis=1, keepdims=0>(c_q) i = Sub(a, four) y = Gather<axis=0>(table, i)"
"""Places from behind, which the library does not know."""


@pytest.mark.parametrize(
    "tail", [COMPUTED, "y = Celu(c_q)", 'e = Einsum<equation="nchw,nkhw->nck">(c_q, c_q) y = Atan(e)']
)
def test_what_quantized_models_compute_with_floats_is_spelled_out(tail: str, tmp_path: Path) -> None:
    start = (
        f"{PAIR.format('x', 'wide')} w = DequantizeLinear(w_i, fine, zero) c = Conv(x_q, w) {PAIR.format('c', 'wide')}"
    )
    constants: dict[str, ArrayLike] = {
        "w_i": np.rint(random(4, 4, 1, 1) / 0.03).astype(np.int8),
        "table": random(4, 3),
        "four": np.int64(4),
        **{name: np.float32(step) for name, step in (("fine", 0.01), ("wide", 0.1))},
    }
    text = f"g (float[1,4,6,6] x) => (float y) {{ {start} {tail} }}"
    used = {name: array for name, array in constants.items() if name in text}
    model, given = graph(text, zero=np.int8(0), **used), 4 * random(1, 4, 6, 6)
    settled, _ = settle_planned(read_qdq(model.clone()), NB_REQUIREMENTS.spelled_out)
    found = run_on_arm(write(adapt_plan(settled, PaddlePolicy("arm"), integer=True)), [given], tmp_path)
    assert not isinstance(found, str), found
    (expected,) = run_onnx(model, {"x": given}).values()
    assert np.abs(found[0] - expected).max() < 0.05 * np.abs(expected).max()
