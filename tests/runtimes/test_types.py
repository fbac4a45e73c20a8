"""Operators that move elements, with elements of every type: each is refused, or right in the runtimes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.paddle.format import NbFormat
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.onnx_nodes import NodeCase, problem
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS, Platform
from tests.runtimes.paddle import Case, require, run_cases
from tests.runtimes.paddle_arm import ARM64, NAMES, require_arm, run_on_arm
from tests.runtimes.test_onnx_nodes import written

pytestmark = pytest.mark.runtime

FORM = "types of elements"
TYPES = (np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_)
OPERATORS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Cast": ({}, {"to": 1}),
    "Concat": ({"b": None}, {"axis": 1}),
    "Expand": ({"b": [2, 3, 4]}, {}),
    "Flatten": ({}, {}),
    "Gather": ({"b": [2, 0]}, {"axis": 1}),
    "Identity": ({}, {}),
    "Reshape": ({"b": [4, 3]}, {}),
    "Slice": ({"b": [0, 1], "c": [1, 3]}, {}),
    "Split": ({}, {"axis": 1, "num_outputs": 3}),
    "Squeeze": ({"b": [0]}, {}),
    "Tile": ({"b": [1, 2, 1]}, {}),
    "Transpose": ({}, {"perm": [0, 2, 1]}),
    "Unsqueeze": ({"b": [0]}, {}),
}
"""Operator -> constant inputs (``None``: the tensor once more), attributes."""

OF_NUMBERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Abs": ({}, {}),
    "Add": ({"b": [[[3], [-2], [0]]]}, {}),
    "ArgMax": ({}, {"axis": 2}),
    "Clip": ({"b": -1, "c": 1}, {}),
    "CumSum": ({"axis": 2}, {}),
    "Div": ({"b": [[[3], [-2], [1]]]}, {}),
    "Equal": ({"b": [[[1], [0], [-1]]]}, {}),
    "GatherElements": ({"axis": [[[2, 0, 1, 1]]]}, {"axis": 1}),
    "GatherND": ({"axis": [[0, 1], [0, 0]]}, {}),
    "Less": ({"b": [[[1], [0], [-1]]]}, {}),
    "Max": ({"b": [[[1], [0], [-1]]]}, {}),
    "Min": ({"b": [[[1], [0], [-1]]]}, {}),
    "Mod": ({"b": [[[3], [-2], [2]]]}, {}),
    "Mul": ({"b": [[[3], [-2], [0]]]}, {}),
    "Neg": ({}, {}),
    "Pad": ({"axis": [0, 1, 0, 0, 0, 2], "b": 7}, {}),
    "Pow": ({"b": 2}, {}),
    "ReduceMax": ({"axis": [1]}, {}),
    "ReduceMean": ({"axis": [1]}, {}),
    "ReduceMin": ({"axis": [1]}, {}),
    "ReduceProd": ({"axis": [1]}, {}),
    "ReduceSum": ({"axis": [1]}, {}),
    "ScatterElements": ({"axis": [[[2, 0, 1, 1]]], "b": [[[5, 6, 7, 8]]]}, {"axis": 1}),
    "Sign": ({}, {}),
    "Sub": ({"b": [[[3], [-2], [0]]]}, {}),
    "TopK": ({"axis": [2]}, {"num_outputs": 2}),
    "Trilu": ({}, {"upper": 0}),
}
"""The same for numbers below zero, too; ``b`` and ``c`` have the type of the numbers."""

OF_TRUTHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = OPERATORS | {
    "Equal": ({"b": None}, {}),
    "GatherElements": ({"b": [[[2, 0, 1, 1]]]}, {"axis": 1}),
    "GatherND": ({"b": [[0, 1], [0, 0]]}, {}),
    "Pad": ({"b": [0, 1, 0, 0, 0, 2]}, {}),
    "ReduceMax": ({"b": [1]}, {}),
    "ReduceMin": ({"b": [1]}, {}),
    "ScatterElements": ({"b": [[[2, 0, 1, 1]]], "c": [[[0, 1, 0, 1]]]}, {"axis": 1}),
    "Trilu": ({}, {"upper": 0}),
}
"""The same for operators between a comparison and a Cast to floats; ``c`` of scatters is a truth value."""

BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")


@functools.cache
def cases() -> tuple[NodeCase, ...]:
    """Every operator for every type, casts of floats to it and back, and rows of a table that it numbers."""
    found = []
    for kind in TYPES:
        x = (np.arange(12).reshape(1, 3, 4) % 5).astype(kind)
        for operator, (constants, attributes) in OPERATORS.items():
            names = ["x" if value is None else name for name, value in constants.items()]
            outputs = [f"y{i}" for i in range(attributes.get("num_outputs", 1))]
            node = helper.make_node(operator, ["x", *names], outputs, **attributes)
            stored = {name: np.array(value, np.int64) for name, value in constants.items() if value is not None}
            found.append(case(f"{operator}_{x.dtype}", [node], {"x": x}, stored))
        there = helper.make_node("Cast", ["x"], ["n"], to=helper.np_dtype_to_tensor_dtype(x.dtype))
        back = helper.make_node("Cast", ["n"], ["y0"], to=onnx.TensorProto.FLOAT)
        if kind in (np.int32, np.int64):
            found.extend(numbers(x - 2))
            pick = helper.make_node("Gather", ["b", "x"], ["y0"], axis=0)
            table = np.arange(15, dtype=np.float32).reshape(5, 3)
            found.append(case(f"indices_{x.dtype}", [pick], {"x": x}, {"b": table}))
        found.append(case(f"through_{x.dtype}", [there, back], {"x": x.astype(np.float32)}, {}))
    return tuple(found) + truths()


def numbers(x: NDArray[Any]) -> Iterator[NodeCase]:
    """Every operator that computes with whole numbers."""
    for operator, (constants, attributes) in OF_NUMBERS.items():
        settings = {key: value for key, value in attributes.items() if key != "num_outputs"}
        outputs = [f"y{i}" for i in range(attributes.get("num_outputs", 1))]
        node = helper.make_node(operator, ["x", *constants], outputs, **settings)
        stored = {name: np.array(value, np.int64 if name == "axis" else x.dtype) for name, value in constants.items()}
        yield case(f"{operator}_of_{x.dtype}", [node], {"x": x}, stored)


def truths() -> tuple[NodeCase, ...]:
    """Every operator between a comparison and a Cast, and operators on bits that are truth values."""
    found = []
    x = (np.arange(12, dtype=np.float32).reshape(1, 3, 4) % 5) - 2
    above, number = helper.make_node("Greater", ["x", "zero"], ["t"]), helper.make_node("Cast", ["t"], ["n"], to=6)
    zero = {"zero": np.float32(0)}
    for operator, (constants, attributes) in OF_TRUTHS.items():
        names = ["t" if value is None else name for name, value in constants.items()]
        outputs = [f"m{i}" for i in range(attributes.get("num_outputs", 1))]
        node = helper.make_node(operator, ["t", *names], outputs, **attributes)
        to = {} if operator == "Cast" else {"to": onnx.TensorProto.FLOAT}
        last = helper.make_node("Cast" if to else "Neg", outputs[-1:], ["y0"], **to)
        stored = {name: np.array(value, np.int64) for name, value in constants.items() if value is not None}
        if operator.startswith("Scatter"):
            stored["c"] = stored["c"].astype(bool)
        found.append(case(f"{operator}_truths", [above, node, last], {"x": x}, zero | stored))
    for operator in BITS:
        other = {"b": np.array([[[0, 1, 1, 0]]], np.int32)}
        node = helper.make_node(operator, ["n", "b"], ["m"])
        last = helper.make_node("Cast", ["m"], ["y0"], to=onnx.TensorProto.FLOAT)
        found.append(case(f"{operator}_truths", [above, number, node, last], {"x": x}, zero | other))
    turned = helper.make_node("BitwiseNot", ["x"], ["y0"])
    found.append(case("BitwiseNot_int32", [turned], {"x": x.astype(np.int32)}, {}))
    return tuple(found)


def case(name: str, nodes: list[onnx.NodeProto], feed: dict[str, Any], constants: dict[str, NDArray[Any]]) -> NodeCase:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feed.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(output) for output in nodes[-1].output]
    stored = [onnx.numpy_helper.from_array(array, key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    results = DEFAULT_ENGINE.session(model.SerializeToString()).run(feed)
    for output in model.graph.output:
        array = results[output.name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, array.shape))
    return NodeCase(name, model.SerializeToString(), feed, results)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_types_in_mindspore_lite(platform: Platform, tally: Tally, tmp_path: Path) -> None:
    platform.skip_if_missing()
    files = {c.name: made[0] for c in cases() if (made := written(c, MsFormat(), tmp_path)) is not None}
    tried = {c.name: c for c in cases() if c.name in files}
    work = tmp_path / "run"
    work.mkdir()
    found = platform.run({name: (files[name], c.feed) for name, c in tried.items()}, work)
    wrong = {}
    for name, c in tried.items():
        texts = [problem(found[name].outputs[key], array) for key, array in c.results.items() if not found[name].error]
        if found[name].error or any(texts):
            wrong[name] = found[name].error or texts
    counts = {"tried": len(cases()), "refused": len(cases()) - len(files), "wrong": len(wrong)}
    tally(f"MindSpore Lite 2.0.0, {platform.name}", FORM, **counts)
    assert wrong == {}
    assert len(files) >= 80


@pytest.mark.parametrize("target", ["x86", "arm"])
def test_types_in_paddle_lite(target: str, tally: Tally, tmp_path: Path) -> None:
    """Truth values cannot be fed or fetched in Python."""
    if target == "x86":
        require("2.12")
    else:
        require_arm()
    tried = [
        c
        for c in cases()
        if target == "arm" or not any(a.dtype == bool for a in (*c.feed.values(), *c.results.values()))
    ]
    files = {c.name: made[0] for c in tried if (made := written(c, NbFormat(target), tmp_path)) is not None}
    wrong = {}
    for c in (c for c in tried if c.name in files):
        feed, work = list(c.feed.values()), tmp_path / c.name
        work.mkdir()
        assert all(array.dtype in NAMES for array in feed), c.name
        one = [Case(files[c.name], feed, len(c.results))]
        found = run_on_arm(files[c.name], feed, work) if target == "arm" else run_cases("2.12", one, work)[0]
        if isinstance(found, str):
            wrong[c.name] = found
            continue
        texts = [problem(array, wanted) for array, wanted in zip(found, c.results.values(), strict=True)]
        if any(texts):
            wrong[c.name] = str(texts)
    counts = {"tried": len(tried), "refused": len(tried) - len(files), "wrong": len(wrong)}
    tally(ARM64 if target == "arm" else "Paddle-Lite 2.12, x86", FORM, **counts)
    assert wrong == {}
    assert len(files) >= 60
