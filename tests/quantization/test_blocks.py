"""Weights with a scale per block: exact values, files in onnxruntime, and what refuses them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from converter_lite.config import config_from_mapping
from converter_lite.config.names import Rounding
from converter_lite.errors import ConfigError
from converter_lite.formats.onnx.block_operators import knows_block_operators
from converter_lite.kernels.blocks import per_block
from converter_lite.kernels.params import QuantParams, QuantSpec, weight_params
from converter_lite.log import Log
from converter_lite.pipeline.convert import run as convert
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.pipeline.result import ConvertResult
from converter_lite.quantization.adaptive import Layer, fit_grid, fit_rounding
from converter_lite.quantization.blocks import blocks_of
from converter_lite.quantization.moments import Moments, products
from converter_lite.quantization.plan import QuantPlan
from converter_lite.quantization.settings import Blocks, WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.support import Samples, build, normal

GRAPH = """g (int64[N,S] ids) => (float[N,S,24] y, float[T,7] z) {
    rows = Gather(table, ids)
    y = MatMul(rows, square)
    flat = Reshape(rows, shape)
    z = Gemm<transB=1>(flat, turned, bias)
}"""
"""A table and products whose rows of 80 elements end in half a block of 32."""


def network() -> ir.Model:
    table = normal(50, 80, seed=1)
    table[7, 32:64] = 0
    square = normal(80, 24, seed=2) / 9
    square[32:64, 5] = 0
    return build(
        GRAPH,
        opset=17,
        table=table,
        square=square,
        shape=np.array([-1, 80]),
        turned=normal(7, 80, seed=3) / 9,
        bias=normal(7, seed=4),
    )


def converted(folder: Path, *, save_type: str = "ONNX", bits: int = 4, **keys: str) -> ConvertResult:
    ir.save(network(), folder / "model.onnx")
    common = {"quant_type": keys.pop("quant_type", "WEIGHT_QUANT"), "bit_num": str(bits)}
    sections = {"common_quant_param": common, "weight_quant_param": {"block_size": "32", **keys}}
    request = ConvertRequest(
        folder / "model.onnx",
        folder / "out",
        save_type=(save_type,),
        config=config_from_mapping(sections),
        input_shape={"ids": (2, 3)} if save_type == "MINDIR_LITE" else {},
        min_cosine=0.0,
        threads=1,
    )
    return convert(request, Log())


def outputs(path: Path, level: str = "1") -> list[NDArray[Any]]:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", level)
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ids = np.array([[0, 7, 49], [7, 3, 2]])
    return [np.asarray(value) for value in session.run(None, {"ids": ids})]


def by_hand(weight: NDArray[np.float32], axis: int, bits: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Blocks of 32 one by one, in double precision."""
    result = np.array(weight, np.float64)
    lines = np.moveaxis(result, axis, -1)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for line in lines:
        for start in range(0, len(line), 32):
            block = line[start : start + 32]
            least, most = min(block.min(), 0.0), max(block.max(), 0.0)
            step = max(-least, most) / high if symmetric else (most - least) / (2**bits - 1)
            step = np.float32(max(step, 1e-38))
            zero = 0 if symmetric else np.clip(np.rint(low - least / np.float64(step)), low, high)
            steps = np.clip(np.rint(np.float32(block) / step) + zero, low, high) - zero
            block[...] = np.float32(steps) * step
    return result


@pytest.mark.parametrize(("axis", "bits", "symmetric"), list(product((0, 1), (4, 8), (True, False))))
def test_blocks_have_the_values_of_one_by_one(axis: int, bits: int, symmetric: bool) -> None:
    weight = normal(80, 50, seed=axis)
    weight[32:64, 32:64] = 0
    spec = QuantSpec(bits, symmetric=symmetric, axis=axis, block=32)
    params = weight_params(weight, spec)
    q = params.quantize(weight)
    assert params.scale.shape == ((3, 50) if axis == 0 else (80, 2))
    assert q.min() >= spec.qmin and q.max() <= spec.qmax
    assert params.dequantize(q) == pytest.approx(by_hand(weight, axis, bits, symmetric=symmetric), abs=1e-7)


@pytest.mark.parametrize("axis", [0, 1])
def test_steps_of_four_bits_have_the_least_error_and_those_of_eight_cover(axis: int) -> None:
    weight = normal(80, 50, seed=axis)
    for bits in (4, 8):
        covering = weight_params(weight, QuantSpec(bits, symmetric=True, axis=axis, block=32))
        found = blocks_of(weight, covering.spec)
        before, after = (
            per_block(np.add, np.square(p.fake_quantize(weight) - weight), axis, 32) for p in (covering, found)
        )
        assert np.all(after <= before)
        assert np.array_equal(found.scale, covering.scale) == (bits == 8)
        assert bits == 8 or after.sum() < 0.9 * before.sum()


def test_large_weights_are_quantized_in_slabs_of_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = normal(203, 9)
    for axis in (0, 1):
        params = weight_params(weight, QuantSpec(4, symmetric=True, axis=axis, block=32))
        whole = params.quantize(weight)
        with monkeypatch.context() as patch:
            patch.setattr("converter_lite.kernels.blocks.SLAB", 100)
            assert np.array_equal(params.quantize(weight), whole)


def test_a_plan_holds_blocks() -> None:
    weight = normal(40, 6)
    params = weight_params(weight, QuantSpec(4, axis=0, block=32))
    plan = QuantPlan("CPU", weights={"w": params})
    read = QuantPlan.from_json(plan.to_json(), where="plan").weights["w"]
    assert read.spec == params.spec
    assert np.array_equal(read.scale, params.scale) and np.array_equal(read.zero_point, params.zero_point)
    model = build("g (float[1,40] x) => (float[1,6] y) { y = MatMul(x, w) }", w=normal(70, 6))
    with pytest.raises(ConfigError, match="do not fit the constant"):
        QuantPlan("CPU", weights={"w": params}).check(model)


FORMS = [
    {"symmetric": symmetric, **level}
    for symmetric, level in product(("true", "false"), ({}, {"accuracy_level": "1"}, {"accuracy_level": "4"}))
]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("keys", FORMS, ids=str)
def test_files_compute_with_exactly_the_blocks(keys: dict[str, str], bits: int, tmp_path: Path) -> None:
    is_asymmetric = keys["symmetric"] == "false"
    if is_asymmetric and bits == 4 and keys.get("accuracy_level") == "4":
        with pytest.raises(ConfigError, match="must be 1 with symmetric=false"):
            converted(tmp_path, bits=bits, **keys)
        return
    needs_operators = "accuracy_level" in keys or (is_asymmetric and bits == 4)
    if needs_operators and not knows_block_operators(bits):
        with pytest.raises(ConfigError, match="install onnxruntime"):
            converted(tmp_path, bits=bits, **keys)
        assert not list(tmp_path.glob("out*"))
        return
    result = converted(tmp_path, bits=bits, **keys)
    file = tmp_path / "out.onnx"
    kinds = {node.op_type for node in ir.load(file).graph}
    assert ("MatMulNBits" in kinds) == needs_operators
    assert ("GatherBlockQuantized" in kinds) == ("accuracy_level" in keys and bits == 4)
    symmetric = not is_asymmetric
    table_bits = bits if "accuracy_level" in keys else 8
    table, square, turned = (
        np.asarray(network().graph.initializers[n].const_value) for n in ("table", "square", "turned")
    )
    grid = QuantSpec(bits, symmetric=symmetric, axis=0, block=32)
    turned_grid = replace(grid, axis=1)
    rows = blocks_of(table, replace(turned_grid, bits=table_bits)).fake_quantize(table)[[[0, 7, 49], [7, 3, 2]]]
    y = rows @ blocks_of(square, grid).fake_quantize(square)
    z = rows.reshape(-1, 80) @ blocks_of(turned, turned_grid).fake_quantize(turned).T + normal(7, seed=4)
    found = outputs(file)
    tolerance = 0.05 if keys.get("accuracy_level") == "4" else 2e-5
    assert found[0] == pytest.approx(y, abs=tolerance)
    assert found[1] == pytest.approx(z, abs=tolerance)
    again = ConvertRequest(
        file, tmp_path / "again", save_type=("ONNX", "MINDIR_LITE"), input_shape={"ids": (2, 3)}, threads=1
    )
    assert all(a.accuracy[0].least_cosine > 0.9999 for a in convert(again, Log()).artefacts)
    assert result.artefacts[0].accuracy[0].cosine > (0.98 if bits == 4 else 0.9999)


def test_products_of_four_bits_with_zero_points_never_round_activations(tmp_path: Path) -> None:
    if not knows_block_operators(4):
        with pytest.raises(ConfigError, match="has no products with blocks of 4 bits"):
            converted(tmp_path, symmetric="false")
        return
    converted(tmp_path, symmetric="false")
    found = [node for node in ir.load(tmp_path / "out.onnx").graph if node.op_type == "MatMulNBits"]
    assert len(found) == 2 and all(node.attributes["accuracy_level"].as_int() == 1 for node in found)
    exact, default = outputs(tmp_path / "out.onnx"), outputs(tmp_path / "out.onnx", "4")
    assert all(map(np.array_equal, exact, default))


def test_nodes_may_have_eight_bits(tmp_path: Path) -> None:
    converted(tmp_path, eight_bit_node="MatMul")
    types = {v.dtype for v in ir.load(tmp_path / "out.onnx").graph.initializers.values()}
    assert {ir.DataType.INT4, ir.DataType.INT8} <= types
    with pytest.raises(ConfigError, match="no node or tensor is called 'head'"):
        converted(tmp_path, eight_bit_node="head")


@pytest.mark.parametrize("save_type", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE"])
def test_other_files_refuse_blocks(save_type: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no scales per block") as raised:
        converted(tmp_path, save_type=save_type, bits=8)
    assert raised.value.where == "[weight_quant_param] block_size"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"quant_type": "DYNAMIC_QUANT", "bits": 8}, "block_size: needs quant_type=WEIGHT_QUANT"),
        ({"bits": 6}, "block_size: needs bit_num 4 or 8, not 6"),
        ({"bits": 0}, "block_size: needs bit_num 4 or 8, not 0"),
        ({"per_channel": "false"}, "contradicts block_size"),
    ],
)
def test_contradictions_are_refused(keys: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        converted(tmp_path, **keys)
    assert sentence in str(raised.value) + " ".join(raised.value.problems)


def test_fitted_blocks_lose_less_than_rounded_ones() -> None:
    weight, node = normal(80, 24, seed=2), ir.node("MatMul", [ir.val("x"), ir.val("w")])
    inputs = normal(600, 80, seed=3) @ normal(80, 80, seed=4)
    moments = Moments()
    moments.add(products(inputs[:, None, :], inputs[:, None, :]))
    plain = weight_params(weight, QuantSpec(4, symmetric=True, axis=0, block=32))
    params, integers = fit_grid(Layer(node, weight, moments, has_bias=False), plain)
    assert np.array_equal(fit_rounding(Layer(node, weight, moments, has_bias=False), params), integers)

    def error(of: QuantParams, q: NDArray[Any]) -> float:
        return float(np.square(inputs @ (of.dequantize(q) - weight)).sum())

    assert error(params, integers) < 0.5 * error(plain, plain.quantize(weight))


def test_products_of_rows_with_blocks_are_fitted_to_samples() -> None:
    samples = Samples({"ids": np.array([[i, 7, 49], [7, 3, i]])} for i in range(4))
    settings = WeightSettings(bits=4, rounding=Rounding.ADAPTIVE, blocks=Blocks(32, True))
    quantized = quantize_weights(network(), settings, target="CPU", samples=samples, context=RunContext())
    assert not np.array_equal(
        quantized.integers("square"), quantized.plan.weights["square"].quantize(normal(80, 24, seed=2) / 9)
    )
