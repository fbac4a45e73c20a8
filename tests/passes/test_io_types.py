from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import TargetError
from converter_lite.passes.io_types import TYPES, IoTypes, change_io_types, feed_for
from tests.support import build, full, normal, operators, random_feed, run, written

CONVS = "g (float[1,3,8,8] x) => (float[1,4,4,4] y) { a = Conv(x, w, b) y = Conv(a, v, c) }"


def quantized(target: str = "CPU") -> ir.Model:
    return written(full(build(CONVS, w=normal(4, 3, 3, 3), b=normal(4), v=normal(4, 4, 3, 3), c=normal(4)), target))


def checked(model: ir.Model) -> ir.Model:
    onnx.checker.check_model(ir.to_proto(model))
    return model


def test_default_changes_nothing() -> None:
    model = quantized()
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    change_io_types(model, IoTypes())
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_float_models_keep_float_interfaces_that_are_asked_for() -> None:
    model = quantized()
    change_io_types(model, IoTypes("FLOAT", "FLOAT"))
    assert "Cast" not in operators(model)


@pytest.mark.parametrize(("target", "wanted"), [("CPU", "UINT8"), ("DSP", "UINT8"), ("NVGPU", "INT8"), ("ARM", "INT8")])
def test_a_quantized_input_takes_the_integers(target: str, wanted: str) -> None:
    model = quantized(target)
    feed = random_feed(model)
    expected = run(model, feed)["y"]
    before = operators(model)["QuantizeLinear"]
    change_io_types(model, IoTypes(wanted))
    integers = feed_for(checked(model), feed)
    assert integers["x"].dtype == TYPES[wanted].numpy()
    assert operators(model)["QuantizeLinear"] == before - 1
    assert [value.name for value in model.graph.inputs] == ["x"]
    np.testing.assert_array_equal(run(model, integers)["y"], expected)


@pytest.mark.parametrize("target", ["CPU", "DSP"])
def test_a_quantized_output_gives_the_integers(target: str) -> None:
    model = quantized(target)
    feed = random_feed(model)
    expected = run(model, feed)["y"]
    last = model.graph.outputs[0].producer()
    assert last is not None
    scale, zero = (value.const_value.numpy() for value in last.inputs[1:])  # type: ignore[union-attr]
    change_io_types(model, IoTypes(outputs="UINT8"))
    y = run(checked(model), feed)["y"]
    assert y.dtype == np.uint8
    np.testing.assert_array_equal((y.astype(np.int32) - zero).astype(np.float32) * scale, expected)


@pytest.mark.parametrize("types", [IoTypes("FLOAT16", "FLOAT16"), IoTypes("FLOAT16"), IoTypes(outputs="FLOAT16")])
def test_float16_interfaces_are_casts_at_the_border(types: IoTypes) -> None:
    model = quantized()
    feed = random_feed(model)
    expected = run(model, feed)["y"]
    change_io_types(model, types)
    given = run(checked(model), feed_for(model, feed))["y"]
    assert given.dtype == (np.float16 if types.outputs == "FLOAT16" else np.float32)
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["x", "y"]
    np.testing.assert_allclose(given, expected, atol=0.1 * np.abs(expected).max())


@pytest.mark.parametrize(("declared", "wanted"), [("int64", "INT32"), ("int32", "INT64")])
def test_integer_interfaces_become_other_integers(declared: str, wanted: str) -> None:
    text = f"g ({declared}[2,3] ids) => ({declared}[2,3] y) {{ y = Add(ids, one) }}"
    model = build(text, one=np.ones(3, np.int64 if declared == "int64" else np.int32))
    feed = {"ids": np.array([[1, 2, 3], [-4, 5, 6]], np.int64 if declared == "int64" else np.int32)}
    change_io_types(model, IoTypes(wanted, wanted))
    changed = feed_for(checked(model), feed)
    assert changed["ids"].dtype == TYPES[wanted].numpy()
    y = run(model, changed)["y"]
    assert y.dtype == TYPES[wanted].numpy()
    np.testing.assert_array_equal(y, feed["ids"] + 1)


def test_token_numbers_stay_when_float_inputs_change() -> None:
    text = "g (int64[2,3] ids, float[2,3,4] x) => (float[2,3,4] y) { e = Gather(w, ids) y = Add(e, x) }"
    model = build(text, w=normal(10, 4))
    feed = random_feed(model)
    change_io_types(model, IoTypes("FLOAT16"))
    changed = feed_for(checked(model), feed)
    assert {name: array.dtype for name, array in changed.items()} == {"ids": np.int64, "x": np.float16}
    assert run(model, changed)["y"].dtype == np.float32


@pytest.mark.parametrize("wanted", ["INT8", "UINT8"])
def test_a_float_model_has_no_quantized_interface(wanted: str) -> None:
    text = "g (float[3] x) => (float[3] y) { y = Neg(x) }"
    with pytest.raises(TargetError, match=f"input x: the input cannot have type {wanted}") as error:
        change_io_types(build(text), IoTypes(wanted))
    assert "--inputDataType" in error.value.hint
    with pytest.raises(TargetError, match=f"output y: the output cannot have type {wanted}") as error:
        change_io_types(build(text), IoTypes(outputs=wanted))
    assert "--outputDataType" in error.value.hint


def test_the_other_eight_bit_type_is_refused() -> None:
    with pytest.raises(TargetError, match="it is quantized to UINT8"):
        change_io_types(quantized("CPU"), IoTypes("INT8"))
    with pytest.raises(TargetError, match="it is quantized to INT8"):
        change_io_types(quantized("NVGPU"), IoTypes("UINT8"))


def test_an_input_that_a_float_node_reads_too_cannot_take_integers() -> None:
    text = "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,3,8,8] z) { y = Conv(x, w, b) z = Neg(x) }"
    model = written(full(build(text, w=normal(4, 3, 3, 3), b=normal(4))))
    with pytest.raises(TargetError, match="input x"):
        change_io_types(model, IoTypes("UINT8"))


@pytest.mark.parametrize("wanted", ["INT32", "INT64"])
def test_float_interfaces_never_become_plain_integers(wanted: str) -> None:
    with pytest.raises(TargetError, match="it has type FLOAT"):
        change_io_types(quantized(), IoTypes(wanted))
    with pytest.raises(TargetError, match="it has type FLOAT"):
        change_io_types(quantized(), IoTypes(outputs=wanted))


INTEGERS = (
    "g (float[2,3] x) => (float[2,3] y{}) {{ r = Relu(x) q = QuantizeLinear(r, s{}) y = DequantizeLinear(q, s{}) }}"
)
GRID = {"s": np.float32(0.1), "z": np.uint8(3)}


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        (INTEGERS.format("", "", ""), ["y"]),  # no zero point
        (INTEGERS.format(", uint8[2,3] q", ", z", ", z"), ["y", "q"]),
        (INTEGERS.format(", float[2,3] y", ", z", ", z"), ["y", "y"]),
        ("g (uint8[2,3] x) => (float[2,3] y) { y = DequantizeLinear(x, s, z) }", ["y"]),
    ],
)
def test_integers_of_other_forms_become_outputs(text: str, outputs: list[str]) -> None:
    before, after = build(text, **GRID), build(text, **GRID)
    change_io_types(after, IoTypes(outputs="UINT8"))
    assert [value.name for value in after.graph.outputs] == outputs
    feed = random_feed(before)
    wanted, given = run(before, feed)["y"], run(after, feed)["y"]
    scale, zero_point = after.graph.outputs[0].meta["grid"]
    assert given.dtype == np.uint8
    assert np.allclose((given.astype(np.float32) - zero_point) * scale, wanted)


@pytest.mark.parametrize("zero_point", ["", ", z"])
def test_integers_that_are_inputs_may_be_outputs_at_once(zero_point: str) -> None:
    text = f"g (float[2,3] x) => (uint8[2,3] q) {{ q = QuantizeLinear(x, s{zero_point}) }}"
    before, after = build(text, **GRID), build(text, **GRID)
    change_io_types(after, IoTypes(inputs="UINT8"))
    feed = random_feed(before)
    assert np.array_equal(run(checked(after), feed_for(after, feed))["q"], run(before, feed)["q"])


@pytest.mark.parametrize("wanted", ["UINT8", "FLOAT16"])
def test_an_input_that_is_an_output_keeps_its_type(wanted: str) -> None:
    model = build("g (float[2,3] x) => (uint8[2,3] q, float[2,3] x) { q = QuantizeLinear(x, s, z) }", **GRID)
    with pytest.raises(TargetError, match="it is an output, too"):
        change_io_types(model, IoTypes(inputs=wanted))


def test_integers_with_a_step_for_each_channel_are_no_output() -> None:
    text = "g (uint8[2,3] x) => (float[2,3] y) { q = Identity(x) y = DequantizeLinear<axis=0>(q, s, z) }"
    model = build(text, s=np.float32([0.1, 0.2]), z=np.uint8([0, 0]))
    with pytest.raises(TargetError, match="it is not quantized"):
        change_io_types(model, IoTypes(outputs="UINT8"))


def test_an_interface_can_be_changed_back() -> None:
    """The file has Casts at the border already, with the names that new ones would get."""
    first = build("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    change_io_types(first, IoTypes("FLOAT16", "FLOAT16"))
    again = ir.from_proto(ir.to_proto(first))
    change_io_types(again, IoTypes("FLOAT", "FLOAT"))
    names = [node.name for node in checked(again).graph]
    assert len(set(names)) == len(names) == 5
    assert np.array_equal(run(again, {"x": np.ones((2, 3), np.float32)})["y"], np.ones((2, 3)))
