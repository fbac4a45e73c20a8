"""Inputs that become constants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.errors import UsageError
from converter_lite.log import QUIET, Log
from converter_lite.passes.input_values import fix_input_values
from converter_lite.pipeline.convert import run as convert
from converter_lite.pipeline.request import ConvertRequest
from tests.support import build, normal, operators, run


def branches() -> onnx.ModelProto:
    """As in Silero VAD: a rate that is given with every call decides between two networks."""
    weights = {f"w{rate}": normal(64, 32, seed=rate) for rate in (8, 16)}
    bodies = {}
    for rate in (8, 16):
        node = helper.make_node("MatMul", ["x", f"w{rate}"], [f"y{rate}"])
        out = helper.make_tensor_value_info(f"y{rate}", TensorProto.FLOAT, [2, 32])
        bodies[rate] = helper.make_graph([node], f"network_{rate}", [], [out])
    graph = helper.make_graph(
        [
            helper.make_node("Equal", ["sr", "sixteen"], ["is_sixteen"]),
            helper.make_node("If", ["is_sixteen"], ["y"], then_branch=bodies[16], else_branch=bodies[8]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64]),
            helper.make_tensor_value_info("sr", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 32])],
        [
            *(numpy_helper.from_array(array, name) for name, array in weights.items()),
            numpy_helper.from_array(np.array(16000), "sixteen"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_a_branch_is_left(rate: int, tmp_path: Path) -> None:
    onnx.save(branches(), tmp_path / "m.onnx")
    values = {"sr": (float(rate),)}
    request = ConvertRequest(
        tmp_path / "m.onnx", tmp_path / "o", input_value=values, save_type=("ONNX", "MINDIR_LITE", "NAIVE_BUFFER")
    )
    convert(request, Log(QUIET))
    assert operators(ir.load(tmp_path / "o.onnx")) == {"MatMul": 1}
    x = normal(2, 64)
    expected = run(tmp_path / "m.onnx", {"x": x, "sr": np.array(rate)})["y"]
    np.testing.assert_allclose(run(tmp_path / "o.onnx", {"x": x})["y"], expected, rtol=1e-6)
    assert {"o.ms", "o.nb"} < {path.name for path in tmp_path.iterdir()}


def test_without_a_value_the_refusal_names_the_flag(tmp_path: Path) -> None:
    onnx.save(branches(), tmp_path / "m.onnx")
    for save_type in ("MINDIR_LITE", "NAIVE_BUFFER"):
        with pytest.raises(Exception, match="If") as error:
            convert(ConvertRequest(tmp_path / "m.onnx", tmp_path / "o", save_type=(save_type,)), Log(QUIET))
        assert "--inputValue=NAME:NUMBER" in error.value.hint  # type: ignore[attr-defined]


def test_samples_and_sizes_of_an_input_with_a_value_are_refused(tmp_path: Path) -> None:
    onnx.save(branches(), tmp_path / "m.onnx")
    given = ConvertRequest(tmp_path / "m.onnx", tmp_path / "o", input_value={"sr": (16000.0,)})
    folders = {name: tmp_path / name for name in ("x", "sr")}
    for name, folder in folders.items():
        folder.mkdir()
        (normal(2, 64) if name == "x" else np.array(16000)).tofile(folder / "0.bin")
    config = tmp_path / "c.cfg"
    config.write_text(
        "[common_quant_param]\nquant_type=FULL_QUANT\n[data_preprocess_param]\ncalibrate_size=1\ninput_type=BIN\n"
        f"calibrate_path={','.join(f'{name}:{folder}' for name, folder in folders.items())}\n"
    )
    for request, where in [
        (replace(given, config_file=config), "calibrate_path"),
        (replace(given, input_shape={"x": (2, 64), "sr": ()}), "--inputShape"),
    ]:
        with pytest.raises(UsageError, match="input 'sr' has the value of --inputValue") as error:
            convert(request, Log(QUIET))
        assert error.value.where == where


@pytest.mark.parametrize(
    ("shape", "numbers", "expected"), [("2,3", [7], [[7] * 3] * 2), ("N,2", [1, 2], [[1, 2]]), ("", [5], 5)]
)
@pytest.mark.parametrize("kind", ["float", "int64", "float16"])
def test_values(kind: str, shape: str, numbers: list[float], expected: object) -> None:
    brackets = f"[{shape}]"
    model = build(
        f"g (float[2,3] x, {kind}{brackets} a) => (float[2,3] y, {kind}{brackets} b) {{ y = Relu(x) b = Identity(a) }}"
    )
    fix_input_values(model, {"a": numbers})
    assert [value.name for value in model.graph.inputs] == ["x"]
    value = model.graph.initializers["a"].const_value
    assert value is not None and value.dtype.name.lower() == kind
    np.testing.assert_array_equal(value.numpy(), expected)


@pytest.mark.parametrize(
    ("kind", "numbers", "message"),
    [
        ("int64", [0.5], "is int64 and cannot be 0.5"),
        ("uint8", [-1], "is uint8 and cannot be -1"),
        ("bool", [2], "is bool and cannot be 2"),
        ("float16", [1e6], "is float16 and cannot be 1e"),
        ("float", [1, 2], "has 6 elements, not 2"),
        ("string", [1], "holds texts"),
    ],
)
def test_values_that_an_input_cannot_have(kind: str, numbers: list[float], message: str) -> None:
    model = build(f"g (float[2,3] x, {kind}[2,3] a) => (float[2,3] y, {kind}[2,3] b) {{ y = Relu(x) b = Identity(a) }}")
    with pytest.raises(UsageError, match=message) as error:
        fix_input_values(model, {"a": numbers})
    assert error.value.where == "--inputValue"
