"""Where the integer kernels of an x86 processor could saturate, and how to give the same model weights with which none can.

Weights as uint8 around 128 are the same real numbers, and kernels for uint8 times uint8 add their products in 32 bits on every
processor. They are slower, so weights stay int8 where no pair of them saturates (:mod:`converter_lite.kernels.pairs`).

Source: onnxruntime's kernels, as docs/formats/x86_integer_kernels.md describes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.pairs import Rules, convolution_rule, count_pairs, count_violations, matrix_rule

MIDDLE = 128
"""Zero point of uint8 weights that stand for int8 ones around 0."""

WEIGHTS: Mapping[tuple[str, str], tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        ("", "QLinearConv"): ((3, 5),),
        ("", "ConvInteger"): ((1, 3),),
        ("", "QLinearMatMul"): ((3, 5),),
        ("", "MatMulInteger"): ((1, 3),),
        ("com.microsoft", "QGemm"): ((3, 5),),
        ("com.microsoft", "DynamicQuantizeMatMul"): ((1, 3),),
        ("com.microsoft", "MatMulIntegerToFloat"): ((1, 5),),
        ("com.microsoft", "QAttention"): ((1, 7),),
        ("com.microsoft", "DynamicQuantizeLSTM"): ((1, 9), (2, 11)),
    }
)
"""Domain and operator -> positions of its int8 weights and of their zero points."""

ACTIVATION_ZEROS: Mapping[str, int] = MappingProxyType(
    {"QLinearConv": 2, "ConvInteger": 2, "QLinearMatMul": 2, "MatMulInteger": 2, "QGemm": 2}
    | {"MatMulIntegerToFloat": 4, "QAttention": 6}
)
"""Position of the zero point of an operator's activations. Where those are int8, its kernels are exact (and there are none for
uint8 weights): tried with onnxruntime 1.31 on an emulated processor without VNNI. Operators between Q/DQ pairs do saturate: they
are rewritten to uint8."""

FLOAT_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that a runtime computes in integers between DequantizeLinear and QuantizeLinear."""

MOVING = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "MaxPool", "Slice", "Split", "Expand")
"""Operators that a runtime moves a DequantizeLinear past."""


@dataclass(frozen=True, slots=True)
class SaturatingWeight:
    """An int8 weight with which an integer kernel can saturate.

    Attributes:
        node: The node that multiplies with it.
        weight: Name of its integers.
        pairs: Pairs of elements that are too large together.
        of: All pairs of the weight.
    """

    node: str
    weight: str
    pairs: int
    of: int


@dataclass(frozen=True, slots=True)
class _Weight:
    """An int8 constant: the node and the inputs that hold it and its zero point, and the one that multiplies with it.

    Without ``rules`` it is not known in which order its elements are added.
    """

    holder: ir.Node
    position: int
    zero_position: int
    reader: ir.Node
    rules: Rules | None
    integers: ir.Value


def saturating_weights(model: ir.Model) -> list[SaturatingWeight]:
    """Weights of a graph with Q/DQ or integer operators with which a kernel can saturate, in graph order."""
    found = []
    for item in _weights(model):
        array = g.constant(item.integers)
        pairs = 0 if array is None else _violations(array, item)
        if array is not None and pairs:
            total = array.size // 2 if item.rules is None else count_pairs(array.shape, item.rules)
            found.append(SaturatingWeight(item.reader.name or "", item.integers.name or "", pairs, total))
    return found


def has_integer_weights(model: ir.Model) -> bool:
    """Whether any node may multiply with int8 weights in integers."""
    return next(_weights(model), None) is not None


def without_saturation(model: ir.Model) -> ir.Model:
    """The model with uint8 weights wherever int8 ones could make a kernel saturate; ``model`` itself where none can.

    The real values of the weights are the same. The two weights of an LSTM have one type: both change, or none where one cannot.
    """
    if not _shifting(model):
        return model
    changed = model.clone()
    _shift(_shifting(changed))
    return changed


def _shifting(model: ir.Model) -> list[_Weight]:
    """The weights that become uint8: those that can saturate, and the others of their nodes."""
    items = list(_weights(model))
    positions: dict[ir.Node, set[int]] = {}
    for item in items:
        positions.setdefault(item.holder, set()).add(item.position)
    whole = {
        item.holder
        for item in items
        if len(positions[item.holder]) >= len(WEIGHTS.get((item.holder.domain, item.holder.op_type), ()))
        and _is_saturating(item)
    }
    return [item for item in items if item.holder in whole]


def _is_saturating(item: _Weight) -> bool:
    array = g.constant(item.integers)
    return array is not None and _violations(array, item) > 0


def _violations(array: NDArray[np.generic], item: _Weight) -> int:
    integers = array.astype(np.int8, copy=False)
    if item.rules is None:
        return int(np.count_nonzero(np.abs(integers.astype(np.int16)) > MIDDLE // 2))
    return count_violations(integers, item.rules)


def _weights(model: ir.Model) -> Iterator[_Weight]:
    for node in g.all_nodes(model.graph):
        for position, zero_position in WEIGHTS.get((node.domain, node.op_type), ()):
            value = _int8(node, position)
            if value is not None and _is_fixed(node, zero_position) and not _reads_int8(node):
                yield _Weight(node, position, zero_position, node, _rules(node, value), value)
        value = _int8(node, 0) if node.op_type == "DequantizeLinear" and not node.domain else None
        if value is not None and _is_fixed(node, 2):
            yield from _dequantized_weights(node, value)


def _reads_int8(node: ir.Node) -> bool:
    """Whether the activations of an integer operator are int8."""
    zero = ACTIVATION_ZEROS.get(node.op_type)
    found = [node.inputs[i] for i in (0, zero) if i is not None and i < len(node.inputs)]
    return any(value is not None and value.dtype is ir.DataType.INT8 for value in found)


def _dequantized_weights(node: ir.Node, value: ir.Value) -> Iterator[_Weight]:
    """Readers of a DequantizeLinear of constants that a runtime may compute in integers."""
    for reader, at in node.outputs[0].uses():
        if reader.op_type in FLOAT_PRODUCTS and at == 1:
            if _comes_from_integers(reader.inputs[0]) and reader.op_type != "ConvTranspose":
                yield _Weight(node, 0, 2, reader, _rules(reader, value), value)
        elif reader.op_type in MOVING:
            yield _Weight(node, 0, 2, reader, None, value)


def _comes_from_integers(value: ir.Value | None) -> bool:
    producer = value.producer() if value is not None else None
    while producer is not None and producer.op_type in MOVING:
        value = producer.inputs[0]
        producer = value.producer() if value is not None else None
    return producer is not None and producer.op_type == "DequantizeLinear"


def _is_fixed(node: ir.Node, position: int) -> bool:
    """Whether an input is a constant or missing."""
    value = g.input_at(node, position)
    return value is None or g.is_constant(value)


def _int8(node: ir.Node, position: int) -> ir.Value | None:
    value = g.input_at(node, position)
    is_int8 = value is not None and g.is_constant(value) and value.dtype is ir.DataType.INT8
    return value if is_int8 and len(g.static_shape(value) or ()) > 0 else None


def _rules(node: ir.Node, value: ir.Value) -> Rules:
    shape = g.static_shape(value) or ()
    if "Conv" in node.op_type:
        rule = convolution_rule(shape, g.int_attribute(node, "group", 1))
        return () if rule is None else (rule,)
    return (matrix_rule(len(shape), transposed=bool(g.int_attribute(node, "transB", 0))),)


def _shift(items: list[_Weight]) -> None:
    """Make the integers of these weights uint8, with a zero point that is larger by 128."""
    made: dict[tuple[ir.Value, ir.Graph], ir.Value] = {}
    done: set[tuple[ir.Node, int]] = set()
    names: dict[ir.Graph, g.Names] = {}
    for item in items:
        if (item.holder, item.position) in done:
            continue
        done.add((item.holder, item.position))
        graph = item.integers.graph
        assert isinstance(graph, ir.Graph)
        taken = names[graph] if graph in names else names.setdefault(graph, g.Names(graph))
        zero = item.holder.inputs[item.zero_position] if len(item.holder.inputs) > item.zero_position else None
        item.holder.resize_inputs(max(len(item.holder.inputs), item.zero_position + 1))
        item.holder.replace_input_with(item.position, _shifted(item.integers, graph, made, taken))
        if zero is None:
            scale = item.holder.inputs[item.zero_position - 1]
            shape = (g.static_shape(scale) or ()) if item.holder.op_type == "DequantizeLinear" else ()
            middle = np.full(shape, MIDDLE, np.uint8)
            zero = g.add_initializer(
                graph, f"{item.integers.name}_middle", middle, dtype=ir.DataType.UINT8, names=taken
            )
            item.holder.replace_input_with(item.zero_position, zero)
        else:
            item.holder.replace_input_with(item.zero_position, _shifted(zero, graph, made, taken))
    for value, graph in made:
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[value.name or ""]


def _shifted(
    value: ir.Value, graph: ir.Graph, made: dict[tuple[ir.Value, ir.Graph], ir.Value], names: g.Names
) -> ir.Value:
    if (value, graph) not in made:
        array = g.constant(value)
        assert array is not None
        shifted = (array.astype(np.int16) + MIDDLE).astype(np.uint8)
        made[value, graph] = g.add_initializer(
            graph, f"{value.name}_uint8", shifted, dtype=ir.DataType.UINT8, names=names
        )
    return made[value, graph]
