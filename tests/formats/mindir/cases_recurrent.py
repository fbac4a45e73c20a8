"""Cases of the LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.mindir.cases import IN, Case, sigmoid
from tests.formats.mindir.files import Weight
from tests.support import normal

Array = NDArray[Any]

STEPS, WIDTH, HIDDEN = 5, 6, 4
INPUT_WEIGHTS, STATE_WEIGHTS = normal(4 * HIDDEN, WIDTH, seed=1), normal(4 * HIDDEN, HIDDEN, seed=2)
GATE_BIAS = normal(4 * HIDDEN, seed=3)
SEQUENCE, H, C = normal(STEPS, 2, WIDTH, seed=4), normal(1, 2, HIDDEN, seed=5), normal(1, 2, HIDDEN, seed=6)


def lstm(x: Array, h: Array, c: Array, bias: Array | float = GATE_BIAS) -> tuple[Array, ...]:
    """Gates in the order input, forget, cell, output."""
    state, cell, outputs = h[0].astype(np.float64), c[0].astype(np.float64), []
    for step in x:
        gates = step @ INPUT_WEIGHTS.T + state @ STATE_WEIGHTS.T + bias
        i, f, g, o = np.split(gates, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        outputs.append(state)
    found = np.stack(outputs), state[None], cell[None], np.zeros((3, 1)), np.zeros((1, 1))
    return tuple(array.astype(np.float32) for array in found)


def lstm_case(*, has_bias: bool) -> Case:
    flat = [INPUT_WEIGHTS, STATE_WEIGHTS, *([GATE_BIAS] if has_bias else [])]
    weights = np.concatenate([part.reshape(-1, 1, 1) for part in flat])
    own = {
        "input_size": WIDTH,
        "hidden_size": HIDDEN,
        "num_layers": 1,
        "has_bias": has_bias,
        "bidirectional": False,
        "dropout": 0.0,
        "proj_size": 0,
    }

    def expected(x: Array, h: Array, c: Array) -> tuple[Array, ...]:
        return lstm(x, h, c, GATE_BIAS if has_bias else 0.0)

    return Case("LSTM", (IN, IN, IN, Weight(weights)), expected, own=own, feed=(SEQUENCE, H, C))


RECURRENT: dict[str, Case] = {"LSTM": lstm_case(has_bias=True), "LSTM without bias": lstm_case(has_bias=False)}
