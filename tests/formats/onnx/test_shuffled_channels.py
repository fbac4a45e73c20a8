"""Channels of groups that are shuffled between integer layers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.onnx.shuffled_channels import gather_shuffled_channels
from converter_lite.quantization.plan import NodeMode
from tests.support import assert_applies, build, clone, full, normal, operators, optimized, random_feed, run

SHUFFLE = "r = Reshape(d, apart) t = Transpose<perm = {}>(r) y = Reshape(t, together)"
ORDER = "[0,2,1,3,4]"
PAIRS = "r = Reshape(d, apart) {r} t = Transpose<perm = [0,2,1,3,4]>(rd) {t} y = Reshape(td, together)"


def pair(name: str, scale: str = "s") -> str:
    return f"{name}q = QuantizeLinear({name}, {scale}, z) {name}d = DequantizeLinear({name}q, {scale}, z)"


def shuffled(body: str, *, batch: int | str = 2, apart: tuple[int, ...] = (0, 3, 4, 5, 6)) -> ir.Model:
    nodes = f"q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) {body}"
    numbers: dict[str, Any] = {"s": np.float32(0.02), "u": np.float32(0.05), "z": np.uint8(100)}
    shapes = {"apart": np.array(apart), "together": np.array([0, 12, 5, 6])}
    return build(f"g (float[{batch},12,5,6] x) => (float[{batch},12,5,6] y) {{ {nodes} }}", **numbers, **shapes)


@pytest.mark.parametrize("batch", [1, 2, "n"])
@pytest.mark.parametrize("body", [SHUFFLE.format(ORDER), PAIRS.format(r=pair("r"), t=pair("t"))])
def test_a_shuffle_is_one_gather_of_the_same_integers(body: str, batch: int | str) -> None:
    model = shuffled(body, batch=batch)
    before, feed = clone(model), random_feed(model)
    assert_applies(gather_shuffled_channels, model, 1, feed)
    assert operators(model) == {"QuantizeLinear": 1, "DequantizeLinear": 1, "Gather": 1}
    assert not {"apart", "together"} & set(model.graph.initializers)
    np.testing.assert_array_equal(run(model, feed)["y"], run(before, feed)["y"])


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(shuffled(SHUFFLE.format("[0,1,2,3,4]")), id="nothing is turned"),
        pytest.param(shuffled(SHUFFLE.format("[0,1,3,2,4]"), apart=(0, 12, 5, 3, 2)), id="places"),
        pytest.param(shuffled(PAIRS.format(r=pair("r", "u"), t=pair("t"))), id="another grid between"),
        pytest.param(shuffled(SHUFFLE.format(ORDER).replace("(d, apart)", "(x, apart)")), id="floats"),
    ],
)
def test_what_moves_otherwise_stays(model: ir.Model) -> None:
    assert gather_shuffled_channels(model) == 0


def grouped() -> ir.Model:
    """Two layers of 4 groups of 16 channels, shuffled between; each in the middle of wide layers."""
    layers = (
        "a = Conv(x, w) b = Conv<group=4>(a, v) r = Reshape(b, apart) t = Transpose<perm = [0,2,1,3,4]>(r) "
        "c = Reshape(t, together) d = Conv<group=4>(c, v) y = Conv(d, w)"
    )
    shapes = {"apart": np.array([1, 4, 16, 24, 24]), "together": np.array([1, 64, 24, 24])}
    weights = {"w": normal(64, 64, 1, 1), "v": normal(64, 16, 1, 1, seed=2)}
    return build(f"g (float[1,64,24,24] x) => (float[1,64,24,24] y) {{ {layers} }}", **weights, **shapes)


def test_the_runtime_moves_no_single_numbers_in_a_written_file(tmp_path: Path) -> None:
    quantized = full(grouped())
    assert {node.mode for node in quantized.plan.nodes.values()} == {NodeMode.INTEGER}
    OnnxFormat().write(quantized, tmp_path / "model.onnx")
    kinds = optimized(ir.load(tmp_path / "model.onnx"), tmp_path)
    assert (kinds["Gather"], kinds["Reshape"], kinds["QLinearConv"]) == (1, 0, 4)


def test_files_for_other_devices_keep_the_shuffle(tmp_path: Path) -> None:
    quantized = full(grouped())
    quantized.plan.target = "NVGPU"
    OnnxFormat().write(quantized, tmp_path / "model.onnx")
    assert operators(ir.load(tmp_path / "model.onnx"))["Gather"] == 0
