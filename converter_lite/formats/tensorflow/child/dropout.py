"""Dropout of graphs that were frozen with the probability of keeping a value as an input.

``tf.nn.dropout(x, keep_prob)`` of TensorFlow 1 is ``x / keep_prob * floor(random + keep_prob)`` with random numbers below 1. At a
probability of 1, which is what inference feeds, it gives x; at any other its result is random.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from converter_lite.formats.tensorflow.child.nodes import node_of

RANDOM = "RandomUniform"

PASSING = ("Identity", "Mul", "Add", "AddV2", "Sub")
"""Operators between the random numbers and the sum with the probability."""


def fix_keep_probabilities(nodes: Iterable[Any], inputs: Collection[str]) -> set[str]:
    """Turn inputs that are nothing but the probability of dropouts into the constant 1, and the masks made with them, too.

    Returns:
        Tensors of ``inputs`` that are inputs no longer.
    """
    nodes = list(nodes)
    readers = _readers(nodes)
    by_name = {node.name: node for node in nodes}
    fixed = set()
    for node in nodes:
        masks = _masks(node, readers, by_name) if f"{node.name}:0" in inputs and "dtype" in node.attr else []
        if masks:
            dtype = node.attr["dtype"].type
            for constant in (node, *masks):
                _become_one(constant, dtype)
            fixed.add(f"{node.name}:0")
    return fixed


def _become_one(node: Any, dtype: int) -> None:
    one = tf.make_tensor_proto(np.array(1, tf.dtypes.as_dtype(dtype).as_numpy_dtype))
    node.op = "Const"
    node.ClearField("attr")
    node.ClearField("input")
    node.attr["dtype"].type = dtype
    node.attr["value"].tensor.CopyFrom(one)


def _readers(nodes: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for node in nodes:
        for name in {node_of(tensor) for tensor in node.input}:
            found.setdefault(name, []).append(node)
    return found


def _masks(placeholder: Any, readers: dict[str, list[Any]], by_name: dict[str, Any]) -> list[Any]:
    """The Floor nodes of the dropouts whose probability a placeholder is; none if it is anything else, too."""
    if not tf.dtypes.as_dtype(placeholder.attr["dtype"].type).is_floating:
        return []
    name = placeholder.name
    masks: list[Any] = []
    for node in readers.get(name, []):
        if node.op in ("Add", "AddV2"):
            others = [node_of(tensor) for tensor in node.input if node_of(tensor) != name]
            floors = readers.get(node.name, [])
            if len(others) != 1 or not _is_random(others[0], by_name) or any(f.op != "Floor" for f in floors):
                return []
            masks += floors
        elif node.op not in ("RealDiv", "Div") or node_of(node.input[1]) != name:
            return []
    return masks


def _is_random(name: str, by_name: dict[str, Any]) -> bool:
    seen: set[str] = set()
    while name in by_name and name not in seen:
        seen.add(name)
        node = by_name[name]
        if node.op == RANDOM:
            return True
        if node.op not in PASSING or not node.input:
            return False
        name = node_of(node.input[0])
    return False
