"""int8 tensors that are moved before somebody reads them as floats."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.moved_integers import quantize_moved
from tests.cli.workshop import SUCCESS, changed, command, ini, write_bins
from tests.runtimes.test_settings import FULL
from tests.support import assert_applies, build, build_proto, clone, normal, operators, optimized, random_feed, run

PAIR = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"

MOVES: dict[str, tuple[str, str, dict[str, list[int]]]] = {
    "reshape": ("r = Reshape(d, to)", "[1,8,16]", {"to": [1, 8, 16]}),
    "transpose": ("r = Transpose<perm = [0,2,1,3]>(d)", "[1,4,8,4]", {}),
    "squeeze": ("r = Squeeze(d, axis)", "[8,4,4]", {"axis": [0]}),
    "unsqueeze": ("r = Unsqueeze(d, axis)", "[1,1,8,4,4]", {"axis": [0]}),
    "slice": ("r = Slice(d, first, last, axis)", "[1,7,4,4]", {"first": [1], "last": [8], "axis": [1]}),
    "largest": ("r = MaxPool<kernel_shape = [2,2]>(d)", "[1,8,3,3]", {}),
    "several": (
        "i = Transpose<perm = [0,2,1,3]>(d) o = Identity(i) r = Reshape(o, to)",
        "[1,8,16]",
        {"to": [1, 8, 16]},
    ),
}
"""What is done with ``d`` to get ``r``, the shape of that, and constants."""


def moved(
    move: str, *, opset: int = 21, kind: type = np.int8, zero: int = 3, reader: str = "y = Mul(r, two)"
) -> ir.Model:
    nodes, shape, integers = MOVES[move]
    graph = f"g (float[1,8,4,4] x) => (float{shape} y) {{ {PAIR} {nodes} {reader} }}"
    floats = {"s": np.float32(0.02), "two": np.float32(2), "k": np.float32(0.1)}
    constants: dict[str, Any] = {name: np.array(value) for name, value in integers.items()}
    return build(graph, opset=opset, z=kind(zero), **floats, **constants)


@pytest.mark.parametrize("reader", ["y = Mul(r, two)", "y = Identity(r)"])
@pytest.mark.parametrize("move", MOVES)
def test_a_pair_behind_each_move_lets_onnxruntime_load_the_file(move: str, reader: str, tmp_path: Path) -> None:
    model = moved(move, reader=reader)
    times = operators(model).total() - 2 - ("Mul" in reader)
    feed, before = random_feed(model), clone(model)
    assert_applies(quantize_moved, model, times, feed)
    np.testing.assert_array_equal(run(model, feed)["y"], run(before, feed)["y"])
    assert optimized(model, tmp_path)


def test_an_output_that_is_moved_keeps_its_name(tmp_path: Path) -> None:
    model = moved("reshape", reader="")
    model.graph.outputs[0] = next(node for node in model.graph if node.op_type == "Reshape").outputs[0]
    assert quantize_moved(model) == 1
    assert [value.name for value in model.graph.outputs] == ["r"]
    assert optimized(model, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(moved("reshape", opset=20), id="older operator set"),
        pytest.param(moved("reshape", kind=np.uint8), id="uint8"),
        pytest.param(
            moved("reshape", reader="e = QuantizeLinear(r, k, z) y = DequantizeLinear(e, k, z)"), id="quantized"
        ),
    ],
)
def test_others_stay_as_they_are(model: ir.Model) -> None:
    assert quantize_moved(model) == 0


@pytest.mark.parametrize(
    ("shape", "bias", "guards"),
    [("4,8", "v", 0), ("8", "b", 1), ("2,4,8", "v", 1), ("2,4,8", "w", 0)],
    ids=["matrix", "vector", "stack", "stack with a bias of its rank"],
)
def test_a_product_of_int8_values_and_its_bias_are_no_gemm(shape: str, bias: str, guards: int, tmp_path: Path) -> None:
    rows = shape.rpartition(",")[0]
    model = build(
        f"g (float[{shape}] x) => (float[{rows}{',' if rows else ''}6] y) {{ {PAIR} v = DequantizeLinear(b8, s, z) "
        f"t = DequantizeLinear(w8, s, z) m = MatMul(d, t) a = Add(m, {bias}) q2 = QuantizeLinear(a, s, z) "
        "y = DequantizeLinear(q2, s, z) }",
        opset=21,
        s=np.float32(0.02),
        z=np.int8(0),
        b=normal(6),
        w=normal(1, 1, 6),
        b8=np.arange(6, dtype=np.int8),
        w8=np.arange(48, dtype=np.int8).reshape(8, 6),
    )
    feed, before = random_feed(model), clone(model)
    quantize_moved(model)
    assert operators(model)["Max"] == guards
    np.testing.assert_array_equal(run(model, feed)["y"], run(before, feed)["y"])
    assert optimized(model, tmp_path)


NETWORKS = {
    "moved, then read as floats": (
        "[1,64,8]",
        "a = Conv(x, w, b) r = Reshape(a, s) t = Transpose<perm = [0,2,1]>(r) m = Softmax(t) y = Add(m, t)",
    ),
    "moved to an output": ("[1,64,8]", "a = Conv(x, w, b) r = Reshape(a, s) y = Transpose<perm = [0,2,1]>(r)"),
    "moved, then read as both": (
        "[1,8,8,8]",
        "a = Conv(x, w, b) c = Relu(a) r = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(c) m = Softmax(r) d = Conv(r, v, b) "
        "y = Add(m, d)",
    ),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("device", ["ARM", "X86", "NVGPU", "CPU"])
def test_a_file_is_loaded_as_users_load_it(
    device: str, network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shape, nodes = NETWORKS[network]
    constants = {"w": normal(8, 3, 1, 1), "b": normal(8), "s": np.array([1, 8, 64]), "v": normal(8, 8, 1, 1)}
    graph = f"g (float[1,3,8,8] x) => (float{shape} y) {{ {nodes} }}"
    onnx.save(build_proto(graph, opset=21, ir_version=10, **constants), "model.onnx")
    write_bins(tmp_path / "bins", 16, (1, 8, 8, 3))
    Path("quant.cfg").write_text(ini(changed(FULL, full_quant_param={"target_device": device})), encoding="utf-8")
    outcome = command(
        "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX", "--configFile=quant.cfg"
    )
    assert outcome.last_line == SUCCESS, outcome
    assert "qdqisint8allowed" not in outcome.said
    assert optimized(ir.load("out.onnx"), tmp_path)


@pytest.mark.parametrize("move", MOVES)
def test_int8_of_another_tool_is_loaded_as_users_load_it(
    move: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ir.save(moved(move, zero=0), "model.onnx")
    outcome = command("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX")
    assert outcome.last_line == SUCCESS, outcome
    written = ir.load("out.onnx")
    assert operators(written)["QuantizeLinear"] > 1
    assert optimized(written, tmp_path)
