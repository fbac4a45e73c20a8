"""``.nb`` as an output format, and its description for people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import TargetError, UsageError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.paddle.exporter.build import NbOptions, check
from converter_lite.formats.paddle.exporter.build import build as build_file
from converter_lite.formats.paddle.format import NbFormat
from converter_lite.formats.paddle.inspect import description
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.passes.io_types import IoTypes
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.models import random, small_network
from tests.formats.paddle.plans import convert_to_nb, plan_full, plan_weights
from tests.support import build


@pytest.mark.parametrize("target", ["arm", "x86"])
@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceL2"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_norms_of_integers_are_refused_by_name(kind: str, operator: str, target: str) -> None:
    model = build(f"g ({kind}[3,4] x) => ({kind} y) {{ y = {operator}<axes=[1]>(x) }}", opset=13)
    assert [problem.reason for problem in check(model, target)] == [f"{operator} of {kind}"]


@pytest.mark.parametrize("target", ["x86", "host"])
def test_an_elu_that_turns_round_is_refused_but_for_arm(target: str) -> None:
    model = build("g (float[3,4] x) => (float[3,4] y) { y = Elu<alpha=-0.5>(x) }")
    assert len(check(model, target)) == 1
    assert check(model, "arm") == []


def test_a_matrix_has_a_stored_form_for_each_factor_however_close() -> None:
    text = """g (float[2,4] x) => (float[2,3] y, float[2,3] z)
        { y = Gemm<alpha=0.5000001>(x, w) z = Gemm<alpha=0.5000003>(x, w) }"""
    model = build(text, w=random(4, 3))
    stored = build_file(QuantizedModel(model, QuantPlan("arm")), options=NbOptions("arm")).parameters
    assert len({array.tobytes() for array in stored.values()}) == 2


@pytest.mark.parametrize("target", ["arm", "x86"])
def test_a_written_file_runs_as_onnx(target: str, tmp_path: Path) -> None:
    fmt = NbFormat(target)
    quantized = plan_weights(small_network(), target=target, bits=8)
    (made,) = fmt.write(quantized, tmp_path / "m.nb").files
    result = DEFAULT_ENGINE.session(fmt.runnable(made, like=small_network()), threads=1).run(
        {"x": random(1, 3, 12, 12)}
    )
    assert result["y"].sum() == pytest.approx(1.0, abs=1e-5)


def test_what_lies_below_the_range_ends_at_127_steps_in_the_proof_as_on_the_device(tmp_path: Path) -> None:
    model = build("g (float[1,8] x) => (float[1,8] y) { y = MatMul(x, w) }", w=np.eye(8, dtype=np.float32))
    fmt, feed = NbFormat("arm"), {"x": np.full((1, 8), -1.02, np.float32)}
    quantized = plan_full(model, target="arm", bound=1.0)
    (made,) = fmt.write(quantized, tmp_path / "m.nb").files
    result = DEFAULT_ENGINE.session(fmt.runnable(made, like=model), threads=1).run(feed)
    np.testing.assert_allclose(result["y"], -1.0, rtol=1e-6)


def test_a_file_of_a_float16_model_takes_its_samples(tmp_path: Path) -> None:
    text = "g (float16[1,3,4,4] x) => (float16[1,2,4,4] y) { y = Conv(x, w) }"
    ir.save(build(text, w=random(2, 3, 1, 1).astype(np.float16)), tmp_path / "half.onnx")
    (made,) = convert_to_nb(tmp_path / "half.onnx", tmp_path / "m.nb").artefacts
    assert made.accuracy[0].cosine > 0.9999


def test_what_the_target_lacks_is_reported_before_any_work() -> None:
    with pytest.raises(TargetError, match="Acos"):
        NbFormat("arm").check(build("g (float[2] x) => (float[2] y) { y = Acos(x) }"))
    NbFormat("x86").check(small_network())


def test_options_that_the_format_lacks_are_refused() -> None:
    with pytest.raises(UsageError, match="float16"):
        NbFormat.of(FileOptions(fp16=True))
    with pytest.raises(UsageError, match="types"):
        NbFormat.of(FileOptions(io_types=IoTypes("INT8", "DEFAULT")))


def test_a_description_names_operators_kernels_shapes_and_precisions(tmp_path: Path) -> None:
    (made,) = NbFormat("x86").write(plan_weights(small_network(), target="x86", bits=8), tmp_path / "m.nb").files
    text = description(parse(made.read_bytes()))
    lines = text.splitlines()
    assert lines[0].startswith("Paddle-Lite model: target x86, written by v2.12, meta_version 2")
    conv = next(line for line in lines if " conv2d " in line)
    assert "x86 float32 def" in conv
    assert "[1,3,12,12]" in conv
    assert "weights int" in conv
    assert lines[-1].startswith("10 operators, ")
    assert np.all([len(line) < 400 for line in lines])
