"""FULL_QUANT of every operator with a Relu or a Clip behind it, in the runtimes of the devices.

Integers end at the bounds of a grid that was made for them, so that most kernels need no activation of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import SUCCESS, command
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS
from tests.runtimes.paddle_arm import ARM64, require_arm, run_on_arm

pytestmark = pytest.mark.runtime

Array = NDArray[Any]
SAMPLES = 12
SHAPE = (1, 4, 8, 8)
LEAST = 0.985
"""Cosine with the float model, on a sample that did not calibrate."""

COARSE = {"GlobalAveragePool": 0.95}
"""Its kernel in MindSpore Lite keeps the grid of what it reads, which is much wider than the means here."""

CHANNELS = {"Concat": 16, "DepthToSpace": 2, "SpaceToDepth": 32, "Split": 4, "Gather": 4}
"""Of results that have not 8 of them, as their operands have."""

OPERATORS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    **{name: (("c", "d"), {}) for name in ("Add", "Sub", "Mul", "Max", "Min", "MatMul")},
    "Concat": (("c", "d"), {"axis": 1}),
    "AveragePool": (("c",), {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}),
    "MaxPool": (("c",), {"kernel_shape": [2, 2]}),
    **{
        name: (("c",), {})
        for name in ("GlobalAveragePool", "GlobalMaxPool", "HardSwish", "Gelu", "Elu", "Sigmoid", "Tanh")
    },
    **{name: (("c", "rows"), {}) for name in ("ReduceMean", "ReduceSum", "ReduceMax")},
    "Softmax": (("c",), {"axis": -1}),
    "LeakyRelu": (("c",), {"alpha": 0.3}),
    "PRelu": (("c", "slope"), {}),
    **{name: (("c", "gamma", "beta"), {}) for name in ("InstanceNormalization", "LayerNormalization")},
    "Resize": (("c", "", "twice"), {"mode": "nearest"}),
    "Pad": (("c", "pads"), {}),
    "Transpose": (("c",), {"perm": [0, 1, 3, 2]}),
    "Reshape": (("c", "shape"), {}),
    "Tile": (("c", "tiles"), {}),
    "DepthToSpace": (("c",), {"blocksize": 2}),
    "SpaceToDepth": (("c",), {"blocksize": 2}),
    "Split": (("c",), {"axis": 1, "num_outputs": 2}),
    "Gather": (("c", "picked"), {"axis": 1}),
    "ConvTranspose": (("c", "up"), {"strides": [2, 2]}),
}
"""Operator -> its inputs, and attributes; ``c`` and ``d`` are results of convolutions."""

CLAMPS = {"Relu": (), "Clip from 0 to 6": (0.0, 6.0), "Clip on both sides": (-0.5, 0.7), "Clip from above": (None, 0.7)}


def network(operator: str, bounds: Sequence[float | None]) -> onnx.ModelProto:
    """Two convolutions, the operator, the clamp, and a convolution."""
    rng = np.random.default_rng(len(operator))
    inputs, attributes = OPERATORS[operator]
    constants: dict[str, Array] = {
        "w0": 0.3 * rng.standard_normal((8, 4, 3, 3)),
        "w1": 0.3 * rng.standard_normal((8, 4, 3, 3)),
        "w2": 0.3 * rng.standard_normal((8, CHANNELS.get(operator, 8), 1, 1)),
        "up": 0.3 * rng.standard_normal((8, 8, 2, 2)),
        "slope": rng.random((8, 1, 1)),
        "gamma": 0.5 + rng.random(8),
        "beta": 0.3 * rng.standard_normal(8),
        "twice": np.array([1.0, 1.0, 2.0, 2.0]),
        **{name: np.array(bound) for name, bound in zip(("low", "high"), bounds, strict=False) if bound is not None},
    }
    constants = {name: array.astype(np.float32) for name, array in constants.items()}
    places = {
        "rows": [2],
        "pads": [0, 0, 1, 1] * 2,
        "shape": [1, 8, 4, 16],
        "tiles": [1, 1, 2, 1],
        "picked": [0, 3, 5, 1],
    }
    constants |= {name: np.array(array, np.int64) for name, array in places.items()}
    ends = [name if bound is not None else "" for name, bound in zip(("low", "high"), bounds, strict=False)]
    results = ["a"] if operator != "Split" else ["a", "rest"]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["x", "w1"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node(operator, inputs, results, **attributes),
        helper.make_node("Clip" if bounds else "Relu", ["a", *ends], ["z"]),
        helper.make_node("Conv", ["z", "w2"], ["y"]),
    ]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if name in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def cosine(a: Array, b: Array) -> float:
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / max(np.sqrt((x @ x) * (y @ y)), 1e-30))


def quantized(save_type: str, suffix: str, folder: Path) -> dict[str, tuple[bytes, Array, Array]]:
    """Name -> file, sample, and what the float model makes of it."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((SAMPLES + 1, *SHAPE)).astype(np.float32)
    (folder / "data").mkdir()
    for number, sample in enumerate(samples[:SAMPLES]):
        sample.tofile(folder / f"data/{number}.bin")
    (folder / "quant.cfg").write_text(
        "[common_quant_param]\nquant_type=FULL_QUANT\n"
        f"[data_preprocess_param]\ncalibrate_path=x:{folder}/data\ncalibrate_size={SAMPLES}\ninput_type=BIN\n"
    )
    flags = ["--fmk=ONNX", f"--saveType={save_type}", f"--configFile={folder}/quant.cfg", "--inputDataFormat=NCHW"]
    found = {}
    for operator in OPERATORS:
        for number, (clamp, bounds) in enumerate(CLAMPS.items()):
            model = folder / "model.onnx"
            onnx.save(network(operator, bounds), model)
            outcome = command(*flags, f"--modelFile={model}", f"--outputFile={folder / 'out'}")
            assert (outcome.status, outcome.last_line) == (0, SUCCESS), (operator, clamp, outcome)
            (wanted,) = DEFAULT_ENGINE.session(model).run({"x": samples[-1]}).values()
            found[f"{operator}_{number}"] = (folder / f"out.{suffix}").read_bytes(), samples[-1], wanted
    return found


def assert_right(
    found: dict[str, tuple[bytes, Array, Array]], run: Callable[[str], Array | str], tally: Tally, name: str
) -> None:
    got = {case: run(case) for case in found}
    wrong = {case: one for case, one in got.items() if isinstance(one, str)}
    least = {case: cosine(one, found[case][2]) for case, one in got.items() if not isinstance(one, str)}
    wrong |= {
        case: f"cosine {value:.4f}"
        for case, value in least.items()
        if not value >= COARSE.get(case.split("_")[0], LEAST)
    }
    tally(name, "operators with a clamp, full int8", tried=len(found), wrong=len(wrong))
    assert wrong == {}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_a_clamped_operator_in_mindspore_lite(platform: Any, tally: Tally, tmp_path: Path) -> None:
    platform.skip_if_missing()
    found = quantized("MINDIR_LITE", "ms", tmp_path)
    (tmp_path / "run").mkdir()
    outcomes = platform.run({case: (data, {"x": x}) for case, (data, x, _) in found.items()}, tmp_path / "run")

    def run(case: str) -> Array | str:
        return outcomes[case].error or next(iter(outcomes[case].outputs.values()))

    assert_right(found, run, tally, f"MindSpore Lite 2.0.0, {platform.name}")


def test_a_clamped_operator_in_paddle_lite_on_arm(tally: Tally, tmp_path: Path) -> None:
    require_arm()
    found = quantized("NAIVE_BUFFER", "nb", tmp_path)

    def run(case: str) -> Array | str:
        outputs = run_on_arm(found[case][0], [found[case][1]], tmp_path / "run")
        return outputs if isinstance(outputs, str) else outputs[0]

    assert_right(found, run, tally, ARM64)
