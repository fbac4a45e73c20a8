"""Truth values as numbers, and bits as truth values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.passes.spelled_out.truths import spell_out_bits, spell_out_moved_bytes, spell_out_moved_truths
from tests.support import assert_applies, build, operators

CONSTANTS = {
    "zero": np.float32(0),
    "places": np.array([2, 0]),
    "rows": np.array([[1, 0]]),
    "first": np.array([1]),
    "cube": np.array([2, 2, 3]),
    "two": np.array([2]),
    "twice": np.array([1, 2]),
    "edges": np.array([0, 1, 0, 2]),
    "yes": np.array(True),
    "mask": np.array([[True, False, False]]),
}


@pytest.mark.parametrize(
    "moved",
    [
        "Concat<axis=0>(b, mask)",
        "Expand(b, cube)",
        "Gather<axis=1>(b, places)",
        "GatherElements<axis=1>(b, rows)",
        "GatherND(b, rows)",
        "Pad(b, edges, yes)",
        "ReduceMax(b, first)",
        "ReduceMin(b, first)",
        "ScatterElements<axis=1>(b, rows, mask)",
        "Slice(b, first, first)",
        "Tile(b, twice)",
        "Transpose<perm=[1,0]>(b)",
        "Trilu(b)",
    ],
)
def test_truth_values_move_as_floats(moved: str) -> None:
    text = f"g (float[2,3] x) => (float[M,N] y) {{ b = Greater(x, zero) m = {moved} y = Cast<to=1>(m) }}"
    if "Expand" in moved:
        text = text.replace("M,N", "2,2,3")
    elif "GatherND" in moved:
        text = text.replace("M,N", "M")
    constants = {name: array for name, array in CONSTANTS.items() if name in text}
    if "Scatter" in moved:
        constants["mask"] = constants["mask"][:, :2]
    model = build(text, opset=20, ir_version=9, **constants)
    assert_applies(spell_out_moved_truths, model, 1)
    (node,) = (n for n in model.graph if n.op_type == moved.split("<")[0].split("(")[0])
    assert not any(value is not None and value.dtype is ir.DataType.BOOL for value in node.inputs)


@pytest.mark.parametrize(
    ("moved", "shape"),
    [
        ("Transpose<perm=[1,0]>(x)", "3,2"),
        ("Concat<axis=0>(x, bytes)", "3,3"),
        ("Gather<axis=1>(x, places)", "2,2"),
        ("Slice(x, first, two)", "1,3"),
        ("Tile(x, twice)", "2,6"),
    ],
)
@pytest.mark.parametrize("results", ["float[M] y", "float[M] y, uint8[M] m"])
def test_bytes_move_as_floats(moved: str, shape: str, results: str) -> None:
    text = f"g (uint8[2,3] x) => ({results}) {{ m = {moved} f = Cast<to=1>(m) y = Relu(f) }}".replace(
        "[M]", f"[{shape}]"
    )
    constants = {**CONSTANTS, "bytes": np.array([[1, 2, 255]], np.uint8)}
    model = build(text, **{name: array for name, array in constants.items() if name in text})
    assert_applies(spell_out_moved_bytes, model, 1, {"x": np.array([[0, 1, 127], [128, 254, 255]], np.uint8)})
    assert operators(model)["Cast"] == (2 if "uint8" in results else 1)


def test_parts_of_truth_values_are_floats() -> None:
    text = """g (float[2,3] x) => (float[2,1] y, bool[2,2] z) {
        b = Greater(x, zero)
        m, z = Split<axis=1>(b, sizes)
        y = Cast<to=1>(m)
    }"""
    model = build(text, zero=np.float32(0), sizes=np.array([1, 2]))
    assert_applies(spell_out_moved_truths, model, 1)


def test_truth_values_are_compared_as_floats() -> None:
    text = "g (float[2,3] x) => (bool[2,3] y) { b = Greater(x, zero) y = Equal(b, mask) }"
    model = build(text, zero=CONSTANTS["zero"], mask=CONSTANTS["mask"])
    assert_applies(spell_out_moved_truths, model, 1)


def test_numbers_are_left_alone() -> None:
    text = "g (float[2,3] x) => (float[3,2] y) { y = Transpose<perm=[1,0]>(x) }"
    assert_applies(spell_out_moved_truths, build(text), 0)


@pytest.mark.parametrize("operator", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits_that_are_truth_values_are_joined_as_such(operator: str) -> None:
    text = f"""g (float[2,3] x) => (int32[2,3] y) {{
        b = Greater(x, zero)
        n = Cast<to=6>(b)
        m = {operator}(n, stored)
        y = {operator}(m, n)
    }}"""
    model = build(text, opset=18, zero=np.float32(0), stored=np.array([[1, 0, 1]], np.int32))
    assert_applies(spell_out_bits, model, 2)
    assert operators(model)[operator] == 0


def test_bits_of_other_numbers_stay() -> None:
    text = """g (float[2,3] x) => (int32[2,3] y) {
        b = Greater(x, zero)
        n = Cast<to=6>(b)
        y = BitwiseAnd(n, stored)
    }"""
    model = build(text, opset=18, zero=np.float32(0), stored=np.array([[1, 2, 1]], np.int32))
    assert_applies(spell_out_bits, model, 0)


@pytest.mark.parametrize(("kind", "applies"), [("int32", 1), ("int64", 1), ("int8", 0), ("uint8", 0)])
def test_turned_bits_are_a_difference(kind: str, applies: int) -> None:
    model = build(f"g ({kind}[4] x) => ({kind}[4] y) {{ y = BitwiseNot(x) }}", opset=18)
    feed = {"x": np.array([0, 1, 100, 127], kind)}
    assert_applies(spell_out_bits, model, applies, feed)
