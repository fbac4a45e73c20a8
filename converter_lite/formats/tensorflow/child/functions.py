"""Functions that ONNX does not have: Erfc, with which Keras writes Gelu, Expm1 and Log1p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

SMALLEST = 1e-30
"""By which nothing is divided, since Log1p(-1) is minus infinity."""


def spell_out_functions(graph: Any) -> None:
    """Make each Erfc(x) of a GraphDef 1 - Erf(x); Expm1(x) and Log1p(x) become expressions that keep small numbers.

    Tanh(x/2) (Exp(x) + 1), and Log(u) - ((u - 1) - x) / u, where u = 1 + x is rounded.
    """
    for node in [node for node in graph.node if node.op in ("Erfc", "Expm1", "Log1p")]:
        x = list(node.input[:1])  # these have no further ones but what must have run before, which changes nothing
        if node.op == "Erfc":
            _become(node, "Sub", [_number(graph, node, "one", 1), _add(graph, node, "erf", "Erf", x)])
            continue
        if node.op == "Log1p":
            one = _number(graph, node, "one", 1)
            more = _add(graph, node, "more", "AddV2", [*x, one])
            rounded = _add(graph, node, "rounded", "Sub", [_add(graph, node, "less", "Sub", [more, one]), *x])
            least = _add(graph, node, "positive", "Maximum", [more, _number(graph, node, "least", SMALLEST)])
            share = _add(graph, node, "share", "RealDiv", [rounded, least])
            _become(node, "Sub", [_add(graph, node, "log", "Log", [more]), share])
            continue
        half = _add(graph, node, "half_of_it", "Mul", [*x, _number(graph, node, "half", 0.5)])
        power = _add(graph, node, "exp", "Exp", x)
        more = _add(graph, node, "more", "AddV2", [power, _number(graph, node, "one", 1)])
        _become(node, "Mul", [_add(graph, node, "tanh", "Tanh", [half]), more])


def _number(graph: Any, node: Any, name: str, number: float) -> str:
    made = graph.node.add(name=f"{node.name}/{name}", op="Const")
    made.attr["dtype"].type = dtype = node.attr["T"].type
    made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.array(number, tf.dtypes.as_dtype(dtype).as_numpy_dtype)))
    return str(made.name)


def _add(graph: Any, node: Any, name: str, op: str, inputs: Sequence[str]) -> str:
    made = graph.node.add(name=f"{node.name}/{name}", op=op)
    made.input.extend(inputs)
    made.attr["T"].type = node.attr["T"].type
    return str(made.name)


def _become(node: Any, op: str, inputs: Sequence[str]) -> None:
    node.op = op
    del node.input[:]
    node.input.extend(inputs)
