"""Signs of zeros, by which Keras 3 tells the largest of equal numbers (``keras.ops.argmax``), and which no device knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from converter_lite.formats.tensorflow.child.nodes import node_of


def drop_signs_of_zeros(graph: Any) -> None:
    """Let each node of a GraphDef that puts another number in the place of -0.0 give what it reads.

    Select(And(x == 0, (Bitcast(x) & sign) < 0), other, x) becomes x.
    """
    by_name = {node.name: node for node in graph.node}
    for node in [node for node in graph.node if node.op in ("Select", "SelectV2")]:
        is_negative_zero, _, x = node.input[:3]
        if _asks_for_sign(by_name, is_negative_zero, x):
            node.op = "Identity"
            node.input[:] = [x]


def _asks_for_sign(by_name: Mapping[str, Any], condition: str, x: str) -> bool:
    both = by_name.get(node_of(condition))
    if both is None or both.op != "LogicalAnd":
        return False
    asked = {made.op: list(made.input) for made in (by_name.get(node_of(name)) for name in both.input[:2]) if made}
    if set(asked) != {"Equal", "Less"} or asked["Equal"][0] != x:
        return False
    sign = by_name.get(node_of(asked["Less"][0]))
    bits = by_name.get(node_of(sign.input[0])) if sign is not None and sign.op == "BitwiseAnd" else None
    return bits is not None and bits.op == "Bitcast" and bits.input[0] == x
