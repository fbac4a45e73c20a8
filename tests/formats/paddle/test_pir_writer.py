"""PIR programs that are written: read back, they are the programs that they were made from."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import FormatError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.paddle.inference_model.format import InferenceFormat
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.pir.rules import RULES
from converter_lite.formats.paddle.pir.signatures import ATTRIBUTES, RESULTS
from converter_lite.formats.paddle.pir.writer import pir_bytes
from converter_lite.formats.paddle.program import Block, Operator, Program, Variable
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.cli.workshop import command
from tests.formats.paddle.inference_models import float_model, linear_quantized_model
from tests.formats.paddle.pir_models import pir_twin
from tests.support import build, normal, run

FROM_PIR = FileOptions(source=Path("inference.json"))

FIXED = "--inputShape=image:1,3,8,8"

NETWORK = """g (float[1,4,8,8] x, int64[3] i) => (float[1,6] y, float[3,5] t, float[1,4,8,8] n) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Relu(a)
    c, d = Split<axis=1, num_outputs=2>(b)
    e = Concat<axis=1>(d, c, b)
    f = MaxPool<kernel_shape=[2,2], strides=[2,2]>(e)
    m = ReduceMean<keepdims=0>(f, axes)
    y = Gemm<transB=1>(m, w2, b2)
    t = Gather(table, i)
    s = Mul(x, channels)
    n = LayerNormalization(s, scale)
}"""


def network() -> ir.Model:
    return build(
        NETWORK,
        opset=18,
        w1=normal(4, 4, 3, 3),
        b1=normal(4, seed=2),
        axes=np.array([2, 3]),
        w2=normal(6, 8, seed=3),
        b2=normal(6, seed=4),
        table=normal(7, 5, seed=5),
        channels=normal(4, 1, 1, seed=6),
        scale=normal(8, seed=7),
    )


def test_a_program_reads_back_as_the_older_one(tmp_path: Path) -> None:
    written = InferenceFormat.of(FROM_PIR).write(QuantizedModel(network(), QuantPlan("paddle")), tmp_path / "m.pdmodel")
    assert [path.name for path in written.files] == ["m.pdmodel", "m.pdiparams", "m.json"]
    older, newer = (read_paddle(tmp_path / f"m.{end}").model for end in ("pdmodel", "json"))
    assert Counter(node.op_type for node in newer.graph) == Counter(node.op_type for node in older.graph)
    feed = {"x": normal(1, 4, 8, 8), "i": np.array([6, 0, 2])}
    found, expected = run(newer, feed), run(network(), feed)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_every_written_operation_can_be_read() -> None:
    assert ATTRIBUTES.keys() <= RULES.keys()
    assert RESULTS.keys() <= ATTRIBUTES.keys()


def test_an_operator_without_a_counterpart_is_named() -> None:
    operator = Operator("sequence_pool", {"X": ["x"]}, {"Out": ["y"]})
    program = Program([Block(variables=[Variable("x"), Variable("y")], operators=[operator])])
    with pytest.raises(FormatError, match="sequence_pool has no counterpart in a PIR program"):
        pir_bytes(program)


@pytest.mark.parametrize(("maker", "quantized"), [(float_model, False), (linear_quantized_model, True)])
def test_a_model_that_was_read_so_is_written_so(
    maker: object, quantized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights stay int8, with the scales of the other program: both read the same parameters."""
    monkeypatch.chdir(tmp_path)
    pir_twin(*maker()).save(Path("model"))  # type: ignore[operator]
    outcome = command("--fmk=PADDLE", "--modelFile=model", "--outputFile=out", "--saveType=PADDLE", FIXED)
    assert outcome.status == 0, outcome
    names = [op["#"] for op in json.loads(Path("out.json").read_text())["program"]["regions"][0]["blocks"][0]["ops"]]
    fakes = ("quantize_dequantize_moving_average_abs_max", "channel_wise_dequantize_max_abs")
    assert all((f"1.fake_{fake}" in names) == quantized for fake in fakes)
    older, newer = (read_paddle(f"out.{end}") for end in ("pdmodel", "json"))
    assert [each.mode for each in newer.plan.nodes.values()] == [each.mode for each in older.plan.nodes.values()]
    assert newer.plan.weights.keys() == older.plan.weights.keys()
    for name, params in older.plan.weights.items():
        np.testing.assert_array_equal(newer.plan.weights[name].scale, params.scale)
        np.testing.assert_array_equal(newer.integers(name), older.integers(name))


def test_an_older_model_is_written_without(tmp_path: Path) -> None:
    written = InferenceFormat().write(QuantizedModel(network(), QuantPlan("paddle")), tmp_path / "m.pdmodel")
    assert [path.name for path in written.files] == ["m.pdmodel", "m.pdiparams"]
