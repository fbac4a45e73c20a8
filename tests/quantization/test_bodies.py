"""Weights of nodes in branches and bodies are stored as integers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.config import config_from_mapping
from converter_lite.formats.onnx.source import read_source
from converter_lite.formats.source import ModelFiles
from converter_lite.log import QUIET, Log
from converter_lite.pipeline.convert import run as convert
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.plan import NodeMode
from tests.support import normal, run

CONFIGS = {
    "WEIGHT_QUANT": {},
    "DYNAMIC_QUANT": {},
    "FULL_QUANT": {},
}


def network() -> onnx.ModelProto:
    """A product in front, then a loop of convolutions, in which an If chooses between two products."""
    weights = {"w": normal(64, 64, seed=1) / 8, "wt": normal(64, 64, seed=2) / 8, "we": normal(64, 64, seed=3) / 8}
    branches = {}
    for name in ("t", "e"):
        node = helper.make_node("MatMul", ["state", f"w{name}"], [f"{name}_y"], name=f"{name}_product")
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [4, 64])
        branches[name] = helper.make_graph([node], name, [], [output])
    body = helper.make_graph(
        [
            helper.make_node("If", ["c"], ["chosen"], then_branch=branches["t"], else_branch=branches["e"], name="If"),
            helper.make_node("Unsqueeze", ["chosen", "axis"], ["rows"], name="Unsqueeze"),
            helper.make_node("Conv", ["rows", "k"], ["filtered"], name="Conv", pads=[1, 1]),
            helper.make_node("Squeeze", ["filtered", "axis"], ["squeezed"], name="Squeeze"),
            helper.make_node("Tanh", ["squeezed"], ["next"], name="Tanh"),
            helper.make_node("Identity", ["go"], ["goes_on"], name="Identity"),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [4, 64]),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [4, 64]),
        ],
        [numpy_helper.from_array(normal(4, 4, 3, seed=4) / 2, "k"), numpy_helper.from_array(np.array([0]), "axis")],
    )
    small = helper.make_node("Constant", [], ["turns"], value=numpy_helper.from_array(np.array(3)))
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["first"], name="product"),
            small,
            helper.make_node("Loop", ["turns", "", "first"], ["y"], body=body, name="Loop"),
        ],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 64])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bodies")
    onnx.save(network(), made / "m.onnx")
    return made


def samples() -> list[dict[str, np.ndarray]]:
    return [{"c": np.array(seed % 2 == 0), "x": normal(4, 64, seed=seed)} for seed in range(8)]


def converted(folder: Path, quant_type: str, **options: object) -> Path:
    sections = {"common_quant_param": {"quant_type": quant_type}}
    config = config_from_mapping(sections, external_data=quant_type == "FULL_QUANT")
    data = {"calibration_data": samples()} if quant_type == "FULL_QUANT" else {}
    out = folder / f"{quant_type}.onnx"
    convert(ConvertRequest(folder / "m.onnx", out, config=config, save_type=("ONNX",), **data, **options), Log(QUIET))  # type: ignore[arg-type]
    return out


@pytest.mark.parametrize("quant_type", CONFIGS)
def test_they_are_a_quarter_and_compute_the_same(quant_type: str, folder: Path) -> None:
    out = converted(folder, quant_type, save_plan=folder / "plan.json")
    stored = ir.load(out)
    kinds = {value.const_value.dtype for value in stored.graph.initializers.values() if value.const_value.size >= 4096}  # type: ignore[union-attr]
    assert kinds == {ir.DataType.INT8}
    assert out.stat().st_size < 0.4 * (folder / "m.onnx").stat().st_size
    for feed in samples():
        expected, found = run(folder / "m.onnx", feed)["y"], run(out, feed)["y"]
        assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)
        assert not np.array_equal(found, expected)
    nodes = json.loads((folder / "plan.json").read_text())["ONNX"]["nodes"]
    assert {name: nodes[name]["mode"] for name in ("t_product", "e_product")} == dict.fromkeys(
        ("t_product", "e_product"), "weight"
    )
    again = converted(folder, quant_type, plan=folder / "plan.json")
    np.testing.assert_array_equal(run(again, samples()[0])["y"], run(out, samples()[0])["y"])


def test_a_written_file_is_read_back_with_its_plan(folder: Path) -> None:
    out = converted(folder, "WEIGHT_QUANT")
    source = read_source(ModelFiles(out, None, {}, confined=True))
    plan = source.graph(keep_qdq=False).plan
    assert {name for name, node in plan.nodes.items() if node.mode is NodeMode.WEIGHT} >= {
        "product",
        "t_product",
        "e_product",
    }


@pytest.mark.parametrize("quant_type", CONFIGS)
def test_a_named_node_stays_float(quant_type: str, folder: Path) -> None:
    sections = {"common_quant_param": {"quant_type": quant_type, "skip_quant_node": "t_product"}}
    config = config_from_mapping(sections, external_data=quant_type == "FULL_QUANT")
    data = {"calibration_data": samples()} if quant_type == "FULL_QUANT" else {}
    out = folder / "skipped.onnx"
    convert(ConvertRequest(folder / "m.onnx", out, config=config, save_type=("ONNX",), **data), Log(QUIET))
    kinds = {name: value.const_value.dtype for name, value in ir.load(out).graph.initializers.items()}  # type: ignore[union-attr]
    assert kinds["wt"] is ir.DataType.FLOAT


def test_a_goal_gives_nodes_of_a_branch_more_bits(folder: Path) -> None:
    sections = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "4", "target_cosine": "0.9999"}}
    config = config_from_mapping(sections, external_data=True)
    out = folder / "goal.onnx"
    data = samples()
    convert(
        ConvertRequest(folder / "m.onnx", out, config=config, save_type=("ONNX",), calibration_data=data), Log(QUIET)
    )
    stored = ir.load(out).graph.initializers.values()
    assert any(value.const_value.dtype is ir.DataType.INT16 for value in stored)  # type: ignore[union-attr]
    expected, found = (np.concatenate([run(path, feed)["y"] for feed in data]) for path in (folder / "m.onnx", out))
    assert np.vdot(expected, found) / np.linalg.norm(expected) / np.linalg.norm(found) > 0.9999


def test_searched_widths_leave_branches_out(folder: Path) -> None:
    config = config_from_mapping({"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "0"}})
    convert(
        ConvertRequest(
            folder / "m.onnx", folder / "o", config=config, save_type=("ONNX",), save_plan=folder / "p.json"
        ),
        Log(QUIET),
    )
    nodes = json.loads((folder / "p.json").read_text())["ONNX"]["nodes"]
    assert nodes["product"]["mode"] == "weight"
    assert nodes["t_product"]["reason"].startswith("it is in a branch or a loop")
