"""Recurrent layers in ``.ms`` files: the runtime's LSTM where it is right, steps with shared weights otherwise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import FormatError, TargetError
from converter_lite.formats.mindspore_lite.container import from_bytes, to_bytes
from converter_lite.formats.mindspore_lite.enums import Compression, QuantType
from converter_lite.formats.mindspore_lite.exporter.writer import lower, write
from converter_lite.formats.mindspore_lite.format import rebuild
from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model
from converter_lite.formats.mindspore_lite.options import MsOptions
from converter_lite.formats.mindspore_lite.planning import SCALES, adapt_plan
from converter_lite.formats.mindspore_lite.policy import MsStorage
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.formats.mindspore_lite.models import floating
from tests.support import build, random_feed, run, sqnr

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(
    op: str, *, steps: int = 5, rows: int = 1, hidden: int = 8, direction: str = "forward", flags: str = ""
) -> ir.Model:
    count = 1 + (direction == "bidirectional")
    rng = np.random.default_rng(3)
    text = f"""g (float[{steps},{rows},6] x) => (float[{steps},{count},{rows},{hidden}] y, float[{count},{rows},{hidden}] h)
        {{ y, h = {op}<hidden_size={hidden}, direction="{direction}"{flags}>(x, w, r, b) }}"""
    gates = GATES[op] * hidden
    return build(
        text,
        opset=14,
        w=rng.uniform(-0.4, 0.4, (count, gates, 6)).astype(np.float32),
        r=rng.uniform(-0.4, 0.4, (count, gates, hidden)).astype(np.float32),
        b=rng.uniform(-0.1, 0.1, (count, 2 * gates)).astype(np.float32),
    )


def stored(model: ir.Model, bits: int = 8) -> QuantizedModel:
    settings = WeightSettings(bits=bits, storage=MsStorage(), bias_correction=False, min_size=0)
    return quantize_weights(model, settings, target="CPU", context=RunContext())


def operators(model: ir.Model) -> Counter[str]:
    return Counter(node.op for node in lower(floating(model)).nodes)


@pytest.mark.parametrize(("rows", "hidden"), [(1, 8), (3, 5)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_an_lstm_is_one_node_whatever_the_number_of_steps(rows: int, hidden: int, direction: str) -> None:
    assert operators(layer("LSTM", steps=1000, rows=rows, hidden=hidden, direction=direction)) == {"LSTM": 1}
    model = layer("LSTM", rows=rows, hidden=hidden, direction=direction)
    feed = random_feed(model)
    found, wanted = run(rebuild(write(floating(model)), like=model).model, feed), run(model, feed)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        layer("LSTM", hidden=5),
        layer("LSTM", direction="reverse"),
        layer("GRU"),
        layer("GRU", flags=", linear_before_reset=1"),
        layer("RNN"),
    ],
    ids=["one row of 5", "backwards", "GRU", "GRU, reset behind", "RNN"],
)
def test_others_are_written_out_with_names_that_are_numbers(model: ir.Model) -> None:
    ms = lower(floating(model))
    assert Counter(node.op for node in ms.nodes)["LSTM"] == 0
    assert all(node.name.isdigit() for node in ms.nodes if node.op == "Activation")
    feed = random_feed(model)
    found, wanted = run(rebuild(to_bytes(ms), like=model).model, feed), run(model, feed)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6)


def test_a_layer_written_out_has_a_limit_of_steps() -> None:
    with pytest.raises(TargetError, match="513 steps"):
        write(floating(layer("GRU", steps=513)))


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_stored_weights_give_the_numbers_of_the_plan(op: str, bits: int, encode: bool) -> None:
    model = layer(op, hidden=64, direction="bidirectional")
    quantized = stored(model, bits)
    assert {params.spec.bits for params in quantized.plan.weights.values()} == {max(bits, 8)}
    feed = random_feed(model)
    data = write(quantized, options=MsOptions(encode=encode))
    again = rebuild(data, like=model)
    assert sqnr(model, again.model, [feed]) > (40 if bits < 16 else 75)
    if encode and op != "LSTM":
        kinds = [tensor.compression for tensor in from_bytes(data).tensors if tensor.is_constant]
        assert kinds.count(Compression.FSE) == {"GRU": 6, "RNN": 2}[op] * (bits < 16)
    if op == "LSTM" and not encode:
        assert next(node for node in from_bytes(data).nodes if node.op == "LSTM").quant_type is QuantType.WEIGHT
        decisions = {node.op_type: node.mode for node in again.plan.nodes.values()}
        assert decisions["LSTM"] is NodeMode.WEIGHT


def test_a_stored_lstm_is_a_quarter_of_its_float_weights() -> None:
    model = layer("LSTM", hidden=64)
    assert len(write(stored(model))) < 0.3 * len(write(floating(model)))


def test_weights_with_a_scale_per_row_stay_float_and_the_file_says_so() -> None:
    model = layer("LSTM", hidden=24)
    settings = WeightSettings(bias_correction=False, min_size=0)
    notes: list[str] = []
    write(quantize_weights(model, settings, target="CPU", context=RunContext()), notes=notes)
    assert notes and all("one scale per entry of another axis" in note for note in notes)


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_plan_of_another_file_is_kept_where_the_runtime_takes_its_scales(per_channel: bool) -> None:
    model = layer("LSTM", hidden=24)
    settings = WeightSettings(bias_correction=False, min_size=0, per_channel=per_channel)
    adapted = adapt_plan(quantize_weights(model, settings, target="CPU", context=RunContext()))
    (decision,) = adapted.plan.nodes.values()
    assert (decision.mode, decision.reason) == ((NodeMode.FLOAT, SCALES) if per_channel else (NodeMode.WEIGHT, ""))
    assert set(adapted.plan.weights) == (set() if per_channel else {"w", "r"})


@pytest.mark.parametrize(
    ("change", "message"), [({"inputs": slice(0, 4)}, "two weights, biases and two states"), ({}, "")]
)
def test_an_lstm_of_another_form_is_refused(change: dict[str, slice], message: str) -> None:
    ms = lower(floating(layer("LSTM")))
    node = ms.nodes[0]
    if change:
        node.inputs = node.inputs[change["inputs"]]
    else:
        index = node.inputs[1]
        ms.tensors[index] = replace(ms.tensors[index], dims=ms.tensors[index].dims[1:])
        message = "two weights"
    with pytest.raises(FormatError, match=message):
        to_quantized_model(ms)
