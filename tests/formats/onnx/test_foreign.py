"""Quantized models of other tools keep their scales, in every format, or are refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.api import convert
from converter_lite.errors import ModelError
from converter_lite.formats.onnx.source import read_source
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.pipeline.result import ConvertResult
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.runtime.saturation import without_saturation
from tests.formats.onnx import foreign
from tests.formats.onnx.foreign import CASES, COMMON, DYNAMIC, STEP, Case
from tests.support import run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "foreign.onnx"


def read(case: Case, path: Path) -> Source:
    """The file of a case, written and read."""
    proto = foreign.model(case)
    onnx.save(foreign.four_bits(proto) if "m4" in case.graph else proto, path)
    return read_source(ModelFiles(path, None, {}, confined=True))


def converted(path: Path, save_type: str) -> ConvertResult:
    """The file as another one beside it."""
    written = path.with_name("written")
    return convert(ConvertRequest(fmk="ONNX", model_file=path, output_file=written, save_type=(save_type,)))


@pytest.mark.parametrize("name", CASES)
def test_scales_and_integers_are_those_of_the_file(name: str, path: Path) -> None:
    case = CASES[name]
    quantized = read(case, path).graph(keep_qdq=False)
    plan = quantized.plan
    assert sum(decision.mode is NodeMode.INTEGER for decision in plan.nodes.values()) == case.integer
    assert set(case.scales) <= set(plan.activations)
    if "x" in case.scales:
        assert float(plan.activations["x"].scale) == STEP
    assert {node.op_type for node in quantized.model.graph}.isdisjoint({"QuantizeLinear", "DequantizeLinear", "Cast"})
    stored = [np.asarray(quantized.integers(weight)) for weight in plan.weights]
    if "(w, ws" in case.graph:
        assert any(np.array_equal(integers, COMMON["w"]) for integers in stored)


@pytest.mark.parametrize("name", CASES)
def test_the_plan_computes_what_the_file_computes(name: str, path: Path) -> None:
    case = CASES[name]
    source = read(case, path)
    expected = run(without_saturation(source.model), foreign.feed(case))["y"]
    given = run(without_saturation(qdq_model(source.graph(keep_qdq=False))), foreign.feed(case))["y"]
    assert np.abs(given - expected).max() <= case.tolerance


@pytest.mark.parametrize("save_type", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE", "ONNX"])
@pytest.mark.parametrize("name", CASES)
def test_every_format_gives_the_numbers_of_the_file(name: str, save_type: str, path: Path) -> None:
    read(CASES[name], path)
    (accuracy,) = converted(path, save_type).artefacts[0].accuracy
    assert accuracy.least_cosine > CASES[name].cosine


@pytest.mark.parametrize("name", DYNAMIC)
def test_products_quantized_at_run_time_become_float_products(name: str, path: Path) -> None:
    case = DYNAMIC[name]
    source = read(case, path)
    quantized = source.graph(keep_qdq=False)
    modes = {decision.op_type: decision.mode for decision in quantized.plan.nodes.values()}
    is_convolution = "convolution" in name
    wanted = NodeMode.WEIGHT if is_convolution else {"a product": NodeMode.DYNAMIC, "activations": NodeMode.FLOAT}[name]
    assert modes["Conv" if is_convolution else "MatMul"] is wanted
    expected = run(without_saturation(source.model), foreign.feed(case))["y"]
    given = run(quantized.model, foreign.feed(case))["y"]
    assert given == pytest.approx(expected, abs=0.02 * float(np.abs(expected).max()))


@pytest.mark.parametrize("save_type", ["MINDIR_LITE", "NAIVE_BUFFER"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_they_are_written_for_devices(name: str, save_type: str, path: Path) -> None:
    read(DYNAMIC[name], path)
    assert converted(path, save_type).artefacts[0].accuracy[0].least_cosine > 0.9995


def test_a_fake_quantize_rounds_to_its_levels(path: Path) -> None:
    case = CASES["a FakeQuantize"]
    source = read(case, path)
    x, step = foreign.feed(case)["x"], 1 / 32
    levels = np.rint((np.clip(x, -100 * step, 155 * step)) / step) * step
    wanted = next(value for node in source.model.graph for value in node.outputs if value.name == "d")
    graph = source.model.graph
    graph.outputs[0] = wanted
    assert run(source.model, {"x": x})["d"] == pytest.approx(levels, abs=1e-6)


REFUSED = {
    "com.microsoft.MatMulNBits": (
        Case(
            "packed = Cast<to=2>(x) y = com.microsoft.MatMulNBits<K=8,N=5,bits=4,block_size=16>(x, packed, ms)",
            rows=True,
        ),
        r"integer operators cannot be taken back to float: \w+ \(MatMulNBits\)",
    ),
    "blocks of another size": (
        Case(
            "y = com.microsoft.MatMulNBits<K=8,N=5,bits=4,block_size=32>(x, packed, ms)",
            rows=True,
            constants=(("packed", np.zeros((5, 1, 8), np.uint8)),),
        ),
        "its blocks do not have the sizes that it names",
    ),
    "blocks": (
        Case(
            "q = QuantizeLinear<axis=1,block_size=4>(x, blocks) d = DequantizeLinear<axis=1,block_size=4>(q, blocks) "
            "dm = DequantizeLinear<axis=1>(m, ms) y = MatMul(d, dm)",
            rows=True,
            opset=21,
            constants=(("blocks", np.full((3, 2), 0.01, np.float32)),),
        ),
        "scales per block of what is no constant",
    ),
    "quark": (
        Case("y = com.amd.quark.BFPQuantizeDequantize<bfp_method=1>(x)", rows=True),
        r"only AMD Quark computes: \w+ \(BFPQuantizeDequantize\)",
    ),
    "other ends": (
        Case(
            "y = org.openvinotoolkit.FakeQuantize<levels=256>(x, lo, hi, lo, double)",
            rows=True,
            constants=tuple((n, np.array([v], np.float32)) for n, v in (("lo", -1), ("hi", 1), ("double", 2))),
        ),
        "it stands for no grid of integers",
    ),
    "more levels": (
        Case(
            "y = org.openvinotoolkit.FakeQuantize<levels=65536>(x, lo, hi, lo, hi)",
            rows=True,
            constants=tuple((n, np.array([v], np.float32)) for n, v in (("lo", -1), ("hi", 1))),
        ),
        "it stands for no grid of integers",
    ),
    "no zero": (
        Case(
            "y = org.openvinotoolkit.FakeQuantize<levels=256>(x, lo, hi, lo, hi)",
            rows=True,
            constants=tuple((n, np.array([v], np.float32)) for n, v in (("lo", 0.5), ("hi", 1))),
        ),
        "it stands for no grid of integers",
    ),
    "channels last": (
        Case(
            "q = QuantizeLinear(x, s, z) g = com.microsoft.QLinearGlobalAveragePool<channels_last=1>(q, s, z, s, z) "
            "y = DequantizeLinear(g, s, z)"
        ),
        r"integer operators cannot be taken back to float: \w+ \(QLinearGlobalAveragePool\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_plan_is_refused_by_name(name: str, path: Path) -> None:
    case, sentence = REFUSED[name]
    onnx.save(foreign.model(case), path)
    with pytest.raises(ModelError, match=sentence):
        converted(path, "MINDIR_LITE")
    assert not path.with_name("written.ms").exists()


def test_reading_a_plan_leaves_the_model_of_the_proof_as_it_is(path: Path) -> None:
    source = read(CASES["integers that are moved"], path)
    before = ir.to_proto(source.model).SerializeToString(deterministic=True)
    source.graph(keep_qdq=False)
    assert ir.to_proto(source.model).SerializeToString(deterministic=True) == before


def test_nodes_without_inputs_are_left_alone(path: Path) -> None:
    case = Case(
        f"q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) {foreign.CONV.replace('y =', 'c =')} "
        "n = RandomNormal<shape=[1]>() t = Mul(n, nothing) y = Add(c, t)",
        constants=(("nothing", np.zeros(1, np.float32)),),
    )
    quantized = read(case, path).graph(keep_qdq=False)
    assert "RandomNormal" in {node.op_type for node in quantized.model.graph}
    assert list(quantized.plan.activations) == ["x"]


@pytest.mark.parametrize(
    "graph",
    [
        "q = QuantizeLinear(x, s, z8) c = Clip(q, wf) d = DequantizeLinear(c, s, z8) y = MatMul(d, m)",
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, ms, z8) y = MatMul(d, mf)",
        "q = QuantizeLinear(x, s) d = DequantizeLinear(q, s, mz) y = MatMul(d, mf)",
        "dm = DequantizeLinear<axis=7>(mt, ms, mz) t = Transpose<perm=[1,1]>(dm) y = MatMul(x, t)",
        "q, a, b = DynamicQuantizeLinear(x) p = MatMulInteger(q, m, b, wz) f = Cast<to=1>(p) k = Mul(a, ws) y = Mul(f, k)",
    ],
)
def test_constants_that_do_not_fit_are_one_error(graph: str, path: Path) -> None:
    onnx.save(foreign.model(Case(graph, rows=True, constants=(("mf", np.zeros((8, 5), np.float32)),))), path)
    with pytest.raises(ModelError):
        converted(path, "MINDIR_LITE")
