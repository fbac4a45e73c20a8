from collections.abc import Callable

import onnx_ir as ir
import pytest

from converter_lite.passes.spelled_out.recurrent import MOST_STEPS, spell_out_forms, spell_out_recurrent
from tests.support import (
    assert_applies,
    assert_refuses,
    build,
    normal,
    operators,
)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU, linear_before_reset=1", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("states", [True, False], ids=["states", "zeros"])
def test_recurrent_layers_are_written_out_step_by_step(kind: str, direction: str, states: bool) -> None:
    op, _, more = kind.partition(", ")
    gates, names = {"LSTM": (4, '"Sigmoid","Tanh","Tanh"'), "GRU": (3, '"Sigmoid","Tanh"'), "RNN": (1, '"Tanh"')}[op]
    directions = 2 if direction == "bidirectional" else 1
    attributes = f'hidden_size=5, direction="{direction}", activations=[{",".join([names] * directions)}]'
    attributes += f", {more}" if more else ""
    shape = f"float[{directions},2,5]"
    given = f", {shape} h0" + (f", {shape} c0" if op == "LSTM" else "") if states else ""
    read = (", , h0" + (", c0" if op == "LSTM" else "")) if states else ""
    made, outputs = ("y, h, c", f"{shape} h, {shape} c") if op == "LSTM" else ("y, h", f"{shape} h")
    model = build(
        f"g (float[4,2,6] x{given}) => (float[4,{directions},2,5] y, {outputs}) "
        f"{{ {made} = {op}<{attributes}>(x, w, r, b{read}) }}",
        opset=14,
        w=normal(directions, gates * 5, 6),
        r=normal(directions, gates * 5, 5),
        b=normal(directions, gates * 10),
    )
    written = op in ("LSTM", "RNN") or direction == "reverse" or not more
    assert_applies(spell_out_recurrent, model, 1 + written)
    assert (operators(model)[op] == 0) == written


def test_an_lstm_whose_cell_state_nobody_reads_stays() -> None:
    text = "g (float[4,2,6] x) => (float[4,1,2,5] y, float[1,2,5] h) { y, h, c = LSTM<hidden_size=5>(x, w, r) }"
    assert_refuses(spell_out_recurrent, build(text, opset=14, w=normal(1, 20, 6), r=normal(1, 20, 5)))


@pytest.mark.parametrize(("op", "gates", "more"), [("LSTM", 4, ""), ("GRU", 3, ", linear_before_reset=1")])
def test_a_long_layer_that_runs_backwards_runs_forwards_over_steps_in_the_opposite_order(
    op: str, gates: int, more: str
) -> None:
    steps = MOST_STEPS + 1
    layer = f'{op}<hidden_size=5, direction="reverse"{more}>(x, w, r)'
    text = f"g (float[{steps},2,6] x) => (float[{steps},1,2,5] y, float[1,2,5] h) {{ y, h = {layer} }}"
    model = build(text, opset=14, w=normal(1, gates * 5, 6), r=normal(1, gates * 5, 5))
    assert_applies(spell_out_recurrent, model, 1)
    assert operators(model) == {"Gather": 2, op: 1}
    text = f"g (float[{steps},2,6] x) => (float[1,2,5] h) {{ y, h = {layer} }}"
    model = build(text, opset=14, w=normal(1, gates * 5, 6), r=normal(1, gates * 5, 5))
    assert_applies(spell_out_recurrent, model, 1)
    assert operators(model) == {"Gather": 1, op: 1}


@pytest.mark.parametrize("rule", [spell_out_recurrent, spell_out_forms])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_peepholes_are_written_out(rule: Callable[[ir.Model], int], direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    text = f"g (float[4,2,6] x) => (float[4,{directions},2,5] y) "
    text += f'{{ y, h, c = LSTM<hidden_size=5, direction="{direction}">(x, w, r, , , , , p) }}'
    weights = {"w": normal(directions, 20, 6), "r": normal(directions, 20, 5), "p": normal(directions, 15)}
    assert_applies(rule, build(text, opset=14, **weights), 1)


ACTIVATED = [
    ("RNN", 1, '["Relu"]', ""),
    ("RNN", 1, '["LeakyRelu"]', ", activation_alpha=[0.3]"),
    ("RNN", 1, '["Softsign"]', ""),
    ("GRU", 3, '["HardSigmoid","Elu"]', ", activation_alpha=[0.15,0.7], activation_beta=[0.4]"),
    ("LSTM", 4, '["HardSigmoid","Tanh","Relu"]', ""),
]
"""Operator, gates, activations of a direction, and their parameters."""


@pytest.mark.parametrize("rule", [spell_out_recurrent, spell_out_forms])
@pytest.mark.parametrize(("op_type", "gates", "names", "parameters"), ACTIVATED)
def test_layers_with_other_activations_are_written_out(
    rule: Callable[[ir.Model], int], op_type: str, gates: int, names: str, parameters: str
) -> None:
    text = "g (float[4,2,6] x) => (float[4,1,2,5] y) "
    text += f"{{ y = {op_type}<hidden_size=5, activations={names}{parameters}>(x, w, r) }}"
    model = build(text, opset=14, w=normal(1, gates * 5, 6), r=normal(1, gates * 5, 5))
    assert_applies(rule, model, 1)
    assert operators(model)[op_type] == 0


def test_both_directions_have_activations_of_their_own() -> None:
    text = "g (float[4,2,6] x) => (float[4,2,2,5] y) { y = RNN<hidden_size=5, "
    text += 'direction="bidirectional", activations=["Relu","Tanh"]>(x, w, r) }'
    assert_applies(spell_out_forms, build(text, opset=14, w=normal(2, 5, 6), r=normal(2, 5, 5)), 1)


def test_activations_that_are_no_operators_stay() -> None:
    text = "g (float[4,2,6] x) => (float[4,1,2,5] y) "
    text += '{ y = RNN<hidden_size=5, activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1]>(x, w, r) }'
    assert_refuses(spell_out_recurrent, build(text, opset=14, w=normal(1, 5, 6), r=normal(1, 5, 5)))


@pytest.mark.parametrize("steps", [64, 65])
def test_long_sequences_stay(steps: int) -> None:
    text = f"g (float[{steps},1,3] x) => (float[1,1,2] h) {{ y, h = GRU<hidden_size=2>(x, w, r) }}"
    model = build(text, opset=14, w=normal(1, 6, 3), r=normal(1, 6, 2))
    assert spell_out_recurrent(model) == (steps == 64)
