"""Two-bit integers, also as parts of wider ones, where the libraries here know them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.onnx import narrow, writer
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.onnx.misread_weights import hide_misread_weights
from converter_lite.formats.onnx.narrow import narrowest_width
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.graph import opset
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.forecast import StoredAs, forecast_bytes
from converter_lite.quantization.qdq import build as build_module
from converter_lite.quantization.qdq.materialize import TWO_BITS_OPSET, storage_type
from converter_lite.quantization.qdq.parts import joined, lower, parts_of, upper
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.quantization.test_weight_only import weights
from tests.support import OldEngine, build, normal, random_feed, run, written

two_bits = pytest.mark.skipif(narrowest_width() > 2, reason="the libraries here have no two-bit integers")


def network() -> ir.Model:
    return build("g (float[1,64] x) => (float[1,96] y) { a = MatMul(x, w) y = Relu(a) }", w=normal(64, 96))


def integer_bytes(path: Path) -> int:
    """Bytes of the stored weight, with all its parts."""
    return sum(
        len(tensor.raw_data) for tensor in onnx.load(path).graph.initializer if tensor.name.endswith("_quantized")
    )


def test_an_engine_that_refuses_two_bits_gets_four() -> None:
    assert narrowest_width(OldEngine()) == 4


def test_libraries_without_two_bit_types_give_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "TWO_BITS_TYPES", {})
    assert narrowest_width() == 4


@two_bits
@pytest.mark.parametrize(("bits", "width"), [(1, 2), (2, 2), (3, 4)])
def test_types_of_two_bits_have_to_be_asked_for(bits: int, width: int) -> None:
    spec = QuantSpec(bits)
    assert storage_type(spec, 2) is ir.DataType[f"INT{width}"]
    assert storage_type(spec) is ir.DataType.INT4


@two_bits
@pytest.mark.parametrize("bits", [1, 2])
def test_one_and_two_bits_take_a_quarter_of_a_byte_and_compute_the_same(bits: int, tmp_path: Path) -> None:
    quantized = weights(network(), bits=bits)
    four = writer.save(written(quantized), tmp_path / "four.onnx")[0]
    made = OnnxFormat().write(quantized, tmp_path / "two.onnx")
    assert "in two bits" in made.notes[-1]
    assert [integer_bytes(path) for path in (four, made.files[0])] == [64 * 96 // 2, 64 * 96 // 4]
    writer.check(made.files[0])
    feed = random_feed(network())
    np.testing.assert_allclose(run(made.files[0], feed)["y"], run(four, feed)["y"], rtol=1e-6)
    again = read_qdq(read_onnx(made.files[0]))
    assert opset(again.model) == TWO_BITS_OPSET
    np.testing.assert_array_equal(again.q_weights["w"], quantized.integers("w"))


@two_bits
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("bits", [5, 6])
def test_five_and_six_bits_take_three_quarters_of_a_byte_and_compute_the_same(
    bits: int, per_channel: bool, tmp_path: Path
) -> None:
    quantized = weights(network(), bits=bits, per_channel=per_channel)
    eight = writer.save(written(quantized), tmp_path / "eight.onnx")[0]
    made = OnnxFormat().write(quantized, tmp_path / "parts.onnx")
    assert "in parts of four and two bits" in made.notes[-1]
    assert [integer_bytes(path) for path in (eight, made.files[0])] == [64 * 96, 64 * 96 * 3 // 4]
    writer.check(made.files[0])
    feed = random_feed(network())
    np.testing.assert_allclose(run(made.files[0], feed)["y"], run(eight, feed)["y"], rtol=1e-5, atol=1e-5)
    again = read_qdq(read_onnx(made.files[0]))
    assert list(again.plan.weights) == ["w"]
    assert again.plan.weights["w"].spec.bits == 6
    np.testing.assert_array_equal(again.q_weights["w"], quantized.integers("w"))
    np.testing.assert_array_equal(again.plan.weights["w"].scale, quantized.plan.weights["w"].scale)
    np.testing.assert_array_equal(again.plan.weights["w"].zero_point, quantized.plan.weights["w"].zero_point)


@two_bits
def test_input_scales_stand_behind_the_sum_of_the_parts(tmp_path: Path) -> None:
    quantized = weights(network(), bits=6)
    scales = np.linspace(0.5, 2.0, 64, dtype=np.float32)[:, None]
    quantized.plan.weights["w"] = replace(quantized.plan.weights["w"], input_scales=scales)
    made = OnnxFormat().write(quantized, tmp_path / "parts.onnx").files[0]
    feed = random_feed(network())
    np.testing.assert_allclose(run(made, feed)["y"], run(written(quantized), feed)["y"], rtol=1e-5, atol=1e-5)
    assert not read_qdq(read_onnx(made)).plan.weights


@two_bits
@pytest.mark.parametrize(("bits", "opset_of_file"), [(4, 21), (6, 25), (7, 13)])
def test_only_widths_that_gain_by_it_make_a_file_newer(bits: int, opset_of_file: int, tmp_path: Path) -> None:
    made = OnnxFormat().write(weights(network(), bits=bits), tmp_path / "out.onnx")
    assert opset(ir.load(made.files[0])) == opset_of_file


@two_bits
@pytest.mark.parametrize("product", ["MatMul(x, w)", "Gemm(x, w)"])
@pytest.mark.parametrize(("columns", "guards"), [(8, 0), (7, 1)])
def test_rows_that_share_bytes_are_read_right_at_every_run(product: str, columns: int, guards: int) -> None:
    model = build(f"g (float[2,16] x) => (float[2,{columns}] y) {{ y = {product} }}", w=normal(16, columns))
    quantized = weights(model, bits=2)
    file = build_module.qdq_model(quantized, narrowest=2)
    assert hide_misread_weights(file, quantized.plan) == guards
    feed = random_feed(model)
    session = DEFAULT_ENGINE.session(ir.to_proto(file).SerializeToString(), threads=1, exact=False)
    exact = run(file, feed)["y"]
    np.testing.assert_allclose(session.run(feed)["y"], exact, atol=0.02 * float(np.abs(exact).max()))


@pytest.mark.parametrize("bits", [5, 6])
@pytest.mark.parametrize("signed", [True, False])
def test_parts_add_up_to_the_integers_on_their_grid(bits: int, signed: bool) -> None:
    spec = QuantSpec(bits, signed=signed)
    integers = np.arange(spec.qmin, spec.qmax + 1, dtype=np.int32)
    params = QuantParams(np.float32(0.3), np.int32(spec.qmin + 5), spec)
    parts = parts_of(params)
    values = [part.dequantize(take(integers)) for part, take in zip(parts, (upper, lower), strict=True)]
    for part, take in zip(parts, (upper, lower), strict=True):
        assert part.spec.qmin <= take(integers).min() and take(integers).max() <= part.spec.qmax
    np.testing.assert_allclose(values[0] + values[1], params.dequantize(integers), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(joined(upper(integers), lower(integers)), integers)


@two_bits
@pytest.mark.parametrize("bits", [2, 6])
def test_the_forecast_knows_two_bits_and_parts(bits: int, tmp_path: Path) -> None:
    quantized = weights(network(), bits=bits)
    size = OnnxFormat().write(quantized, tmp_path / "two.onnx").files[0].stat().st_size
    forecast = forecast_bytes(network(), quantized.plan, StoredAs(bits, narrowest=narrowest_width(), at_load=True))
    assert forecast == pytest.approx(size, rel=0.1)


@pytest.mark.parametrize("bits", [2, 6])
def test_wider_integers_are_used_beside_an_operator_that_the_runtime_lacks_there(bits: int, tmp_path: Path) -> None:
    """onnxruntime has RoiAlign, which detectors end in, for operator sets up to 21."""
    text = """g (float[1,64] x) => (float[2,1,1,1] y) {
        a = MatMul(x, w) b = Reshape(a, picture) y = RoiAlign<output_height=1, output_width=1>(b, boxes, batch) }"""
    model = build(
        text,
        w=normal(64, 96),
        picture=np.array([1, 1, 8, 12]),
        boxes=np.array([[0, 0, 4, 4], [2, 2, 7, 7]], np.float32),
        batch=np.zeros(2, np.int64),
    )
    made = OnnxFormat().write(weights(model, bits=bits), tmp_path / "out.onnx")
    assert opset(ir.load(made.files[0])) <= 21
    run(made.files[0], random_feed(model))


def test_four_bits_are_used_where_two_do_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "narrowest_width", lambda: 4)
    quantized = weights(network(), bits=2)
    made = OnnxFormat().write(quantized, tmp_path / "out.onnx")
    assert "two-bit integers are newer than the libraries here" in made.notes[-1]
    assert ir.load(made.files[0]).graph.initializers["w_quantized"].dtype is ir.DataType.INT4


@two_bits
def test_four_bits_are_used_where_the_operator_set_cannot_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_opset = build_module.raise_opset

    def refuse(model: ir.Model, target: int) -> ir.Model:
        if target >= TWO_BITS_OPSET:
            raise ModelError("operator set 13 cannot be raised")
        return raise_opset(model, target)

    monkeypatch.setattr(build_module, "raise_opset", refuse)
    made = OnnxFormat().write(weights(network(), bits=2), tmp_path / "out.onnx")
    assert "they need less: operator set 13 cannot be raised" in made.notes[-1]
    assert ir.load(made.files[0]).graph.initializers["w_quantized"].dtype is ir.DataType.INT4
