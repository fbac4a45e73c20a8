"""Graphs of quantization-aware training: FakeQuantWithMinMaxVars and its relatives as QuantizeLinear and DequantizeLinear.

tf2onnx does those of 8 bits with one range that is not narrow, and lets TensorFlow compute what is done to constants: weights
would come without their steps.

Source: documentation of ``tf.quantization.fake_quant_with_min_max_vars`` (how a range is moved so that it holds zero).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from onnx import TensorProto
from tf2onnx.utils import make_name

from converter_lite.formats.tensorflow.child.nodes import node_of

ARGUMENTS = "FakeQuantWithMinMaxArgs"
"""The one whose range is an attribute."""

OPERATORS = (ARGUMENTS, "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")

WIDEST, MIDDLE = 8, 128
"""Bits of the integers that operator set 17 quantizes to, and the one of them that signed integers call zero."""


def hold_constants(graph: Any) -> dict[str, NDArray[Any]]:
    """Feed what such operators of a GraphDef make of constants, in place: TensorFlow and tf2onnx would compute it in advance.

    Returns:
        Placeholder -> the constant that it stands for.
    """
    by_name = {node.name: node for node in graph.node}
    held: dict[str, NDArray[Any]] = {}
    for node in [node for node in graph.node if node.op in OPERATORS]:
        source = by_name.get(node_of(node.input[0]))
        while source is not None and source.op == "Identity":
            source = by_name.get(node_of(source.input[0]))
        if source is not None and source.op == "Const":
            fed = graph.node.add(name=f"{node.name}/held", op="Placeholder")
            fed.attr["dtype"].CopyFrom(source.attr["dtype"])
            fed.attr["shape"].shape.CopyFrom(source.attr["value"].tensor.tensor_shape)
            held[fed.name], node.input[0] = tf.make_ndarray(source.attr["value"].tensor), fed.name
    return held


def handlers(held: Mapping[str, NDArray[Any]]) -> Mapping[str, tuple[Callable[..., None], list[Any]]]:
    """What tf2onnx calls for each of them, and with what behind the node.

    Args:
        held: What :func:`hold_constants` found.
    """
    return {operator: (_write_pair, [None, held]) for operator in OPERATORS}  # None: the operator keeps its name


def _write_pair(graph: Any, node: Any, _name: str, arguments: list[Mapping[str, NDArray[Any]]]) -> None:
    """Replace a node of a graph of tf2onnx.

    Raises:
        ValueError: Its range is computed, or it has more bits.
    """
    (held,), source = arguments, node.inputs[0]
    low, high = _range(node)
    bits, is_narrow = node.get_attr_int("num_bits"), bool(node.get_attr_value("narrow_range", 0))
    if bits > WIDEST:
        raise ValueError(f"{node.name}: {bits} bits, and at most {WIDEST} can be written")
    least, most = int(is_narrow), 2**bits - 1
    scale = ((high - low) / np.float32(most - least)).astype(np.float32)
    zero = np.clip(np.floor(least - low / scale + np.float32(0.5)), least, most)
    value, shape, kind = node.input[0], graph.get_shape(node.input[0]), graph.get_dtype(node.input[0])
    if source.name in held:
        value = graph.make_const(make_name(source.name), held[source.name]).output[0]
    elif bits < WIDEST or is_narrow:
        value = _bounded(graph, node, value, [((end - zero) * scale).astype(np.float32) for end in (least, most)])
    is_signed = is_narrow and bits == WIDEST and bool(np.all(zero == MIDDLE))
    stored, offset = (TensorProto.INT8, MIDDLE) if is_signed else (TensorProto.UINT8, 0)
    numbers = {"scale": scale, "zero": (zero - offset).astype(np.int8 if is_signed else np.uint8)}
    names = [graph.make_const(make_name(f"{node.name}_{what}"), np.asarray(a)).name for what, a in numbers.items()]
    attributes = {"axis": len(shape) - 1} if scale.ndim else {}
    outputs, name = node.output, node.name
    graph.remove_node(node.name)
    if source.name in held:
        graph.remove_node(source.name)
    integers = graph.make_node("QuantizeLinear", [value, *names], attr=attributes, shapes=[shape], dtypes=[stored])
    inputs, kinds = [integers.output[0], *names], {"shapes": [shape], "dtypes": [kind]}
    graph.make_node("DequantizeLinear", inputs, attr=attributes, outputs=outputs, name=name, **kinds)


def _range(node: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if node.type == ARGUMENTS:
        return np.float32(node.get_attr_value("min")), np.float32(node.get_attr_value("max"))  # type: ignore[return-value]
    if not all(given.is_const() for given in node.inputs[1:3]):
        raise ValueError(f"{node.name}: its range is computed")
    low, high = (np.asarray(given.get_tensor_value(as_list=False), np.float32) for given in node.inputs[1:3])
    return (low.reshape(()), high.reshape(())) if low.size == 1 else (low, high)


def _bounded(graph: Any, node: Any, value: str, bounds: list[NDArray[np.float32]]) -> str:
    """What is beyond the range, cut off: 8 bits would hold more."""
    for operator, bound in zip(("Max", "Min"), bounds, strict=True):
        stored = graph.make_const(make_name(f"{node.name}_{operator}"), np.asarray(bound)).name
        value = graph.make_node(operator, [value, stored]).output[0]
    return str(value)
