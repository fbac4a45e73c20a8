"""Products of an already quantized model that a runtime computes with floats: of the integers, not of what they stand for.

A float holds integers up to 2**24, so a sum of products of 8-bit integers that stays below it (as all sums of 518 products do)
is exact whatever the order of its summands, and is multiplied by the quotient of the steps once, as kernels do that round once.
A sum of scaled numbers is off by some millionths of
a step, which now and then is the other side of a half, and the layers behind let a few such integers grow to many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.grid_nodes import REASON, ShortNames
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.targets.operands import bias_of, weight_of

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})

WIDTH = 8
"""Bits of integers whose sums of products a float holds."""

_WHOLE = 1.5 * 2.0**23
"""Between here and the next power of two floats are whole numbers."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product whose result is put on a grid.

    Attributes:
        node: The product.
        weight: Its weight.
        given: Of what it reads.
        scale: Of the weight; one, or one for each channel of the result.
        clamp: A Relu or Clip between the product and the grid.
        grid: Nodes of the grid: Clip, Mul, Add, Floor and Mul.
    """

    node: ir.Node
    weight: ir.Value
    given: QuantParams
    scale: NDArray[np.float32]
    clamp: ir.Node | None
    grid: list[ir.Node]


def make_products_exact(quantized: QuantizedModel, adapted: QuantizedModel, read: dict[ir.Node, QuantParams]) -> None:
    """Let products that read a grid and whose results are put on one multiply integers, in place.

    Args:
        quantized: As it was read.
        adapted: What the target can do, with the nodes of its grids. Scales of weights become 1.
        read: Parameters of what products of integers read, from before those nodes (:func:`grids_read`).
    """
    graph = quantized.model.graph
    found = {node: item for node in graph if (item := _product(quantized, adapted.plan, node, read))}
    products = [item for item in found.values() if all(user in found for user, _ in item.weight.uses())]
    writer, integers = _Writer(graph, adapted.plan), dict[ir.Value, ir.Value]()
    for product in products:
        _multiply_integers(writer, product, integers)
    writer.remove([product.grid[-1] for product in products if _is_unused(product.grid[-1])])
    for weight in {product.weight: None for product in products}:
        name = str(weight.name)
        chosen = quantized.integers(name)
        weight.const_value = ir.Tensor(chosen.astype(np.float32), name=name)
        if name in adapted.plan.weights:
            params = adapted.plan.weights[name]
            adapted.q_weights.setdefault(name, chosen)
            adapted.plan.weights[name] = QuantParams(np.ones_like(params.scale), params.zero_point, params.spec)


def grids_read(quantized: QuantizedModel) -> dict[ir.Node, QuantParams]:
    """Parameters of the 8-bit data that products of integers read."""
    plan, found = quantized.plan, {}
    for node in quantized.model.graph:
        params = plan.activations.get(str(node.inputs[0].name)) if node.inputs and node.inputs[0] is not None else None
        if params is None or params.spec.bits > WIDTH or params.is_per_channel:
            continue
        if node.op_type in PRODUCTS and plan.mode(node) is NodeMode.INTEGER:
            found[node] = params
    return found


def _product(
    quantized: QuantizedModel, adapted: QuantPlan, node: ir.Node, read: dict[ir.Node, QuantParams]
) -> _Product | None:
    """A product that can multiply integers here."""
    weight, bias = weight_of(node), bias_of(node)
    if node not in read or adapted.mode(node) is NodeMode.INTEGER or weight is None or weight is node.inputs[0]:
        return None
    if node.op_type == "Gemm" and {"alpha", "beta"} & set(node.attributes):
        return None
    params, shape = quantized.plan.weights.get(str(weight.name)), g.static_shape(node.outputs[0])
    if params is None or params.spec.bits > WIDTH or params.spec.block or np.any(params.zero_point) or not shape:
        return None
    if params.scale.size not in (1, shape[_channel_axis(node)]) or (bias is not None and not g.is_constant(bias)):
        return None
    clamp = g.single_consumer(node.outputs[0])
    if clamp is None or adapted.nodes[str(clamp.name)].reason == REASON or g.clamp_bounds(clamp) is None:
        clamp = None
    grid = _grid_behind(clamp or node, adapted)
    return _Product(node, weight, read[node], params.scale.ravel(), clamp, grid) if grid else None


def _channel_axis(node: ir.Node) -> int:
    """Axis of the result's channels."""
    return 1 if node.op_type.startswith("Conv") else -1


def _grid_behind(node: ir.Node, plan: QuantPlan) -> list[ir.Node]:
    """The five nodes that put the result of a node on a grid, or none."""
    found = list[ir.Node]()
    for op_type in ("Clip", "Mul", "Add", "Floor", "Mul"):
        follower = g.single_consumer(node.outputs[0])
        if follower is None or follower.op_type != op_type or plan.nodes[str(follower.name)].reason != REASON:
            return []
        found.append(follower)
        node = follower
    return found


def _multiply_integers(writer: _Writer, product: _Product, integers: dict[ir.Value, ir.Value]) -> None:
    """Let a product read integers and give sums of integers, which are put on the grid of the result."""
    node, clamp, (*rounding, multiply) = product.node, product.clamp, product.grid
    data, bias, axis = node.inputs[0], bias_of(node), _channel_axis(node)
    assert data is not None
    units, step = np.float32(product.given.scale) * product.scale, np.float32(g.scalar(multiply.inputs[1]) or 1.0)
    if data not in integers:
        integers[data] = _integers(writer, data, product.given, axis)
    node.replace_input_with(0, integers[data])
    if bias is not None:
        sums = np.rint(np.asarray(g.constant(bias), np.float64) / units)
        node.replace_input_with(list(node.inputs).index(bias), writer.constant(sums))
    bounds = np.array([g.clamp_bounds(rounding[0]), g.clamp_bounds(clamp or rounding[0])], np.float64) / step
    last = node if clamp is None or clamp.op_type == "Clip" else clamp
    value = last.outputs[0]
    limits = (np.rint(bounds[:, 0].max()), np.rint(bounds[:, 1].min()))
    result = writer.behind(
        value, [("Mul", writer.channels(value, units / step, axis)), ("Clip", *limits), *_rounded(writer, value, axis)]
    )
    multiply.replace_input_with(0, result)
    multiply.replace_input_with(1, writer.constant(writer.channels(value, step, axis)))
    writer.remove([*rounding[::-1], *([clamp] if clamp is not None and last is node else [])])


def _integers(writer: _Writer, value: ir.Value, params: QuantParams, axis: int) -> ir.Value:
    """The integers of a value, less their zero point, as floats."""
    maker = value.producer()
    if maker is not None and maker.op_type == "Mul" and writer.plan.nodes[str(maker.name)].reason == REASON:
        floats = maker.inputs[0]
        assert floats is not None
        return floats
    steps = writer.channels(value, 1.0 / np.float32(params.scale), axis)
    return writer.behind(value, [("Mul", steps), *_rounded(writer, value, axis)])


def _rounded(writer: _Writer, value: ir.Value, axis: int) -> list[tuple[str, NDArray[np.float32]]]:
    """Halves to the even number, which no kernel of Paddle-Lite rounds to: what is above has no place behind the point."""
    return [("Add", writer.channels(value, sign * _WHOLE, axis)) for sign in (1, -1)]


def _is_unused(node: ir.Node) -> bool:
    return not node.outputs[0].uses() and not node.outputs[0].is_graph_output()


class _Writer:
    """Nodes and constants that go into a graph and its plan.

    Args:
        graph: The graph.
        plan: What the target can do.
    """

    def __init__(self, graph: ir.Graph, plan: QuantPlan) -> None:
        self._graph, self.plan = graph, plan
        self._names = ShortNames(graph)
        self._constants: dict[tuple[bytes, tuple[int, ...]], ir.Value] = {}

    def constant(self, numbers: ArrayLike) -> ir.Value:
        """A float32 constant, which equal ones share."""
        array = np.asarray(numbers, np.float32)
        key = (array.tobytes(), array.shape)
        if key not in self._constants:
            self._constants[key] = self._names.constant(self._graph, array)
        return self._constants[key]

    @staticmethod
    def channels(value: ir.Value, numbers: ArrayLike, axis: int) -> NDArray[np.float32]:
        """A number for each channel of a value: Paddle-Lite's kernel for x86 takes six times as long for one of all."""
        shape = g.static_shape(value) or (1,)
        tail = (1,) * (len(shape) - 1 - axis % len(shape))
        return np.broadcast_to(np.asarray(numbers, np.float32), shape[axis]).reshape(-1, *tail)

    def behind(self, value: ir.Value, steps: Sequence[tuple[Any, ...]]) -> ir.Value:
        """The result of nodes, an operator and its constants each, one after the other, behind what makes a value."""
        nodes, result = list[ir.Node](), value
        for op_type, *numbers in steps:
            node = ir.node(op_type, [result, *map(self.constant, numbers)], name=self._names.next())
            result = node.outputs[0]
            result.name, result.shape, result.type = node.name, value.shape, value.type
            self.plan.keep_float(node, REASON)
            nodes.append(node)
        producer = value.producer()
        if producer is None:
            self._graph.insert_before(next(iter(self._graph)), nodes)
        else:
            self._graph.insert_after(producer, nodes)
        return result

    def remove(self, nodes: Sequence[ir.Node]) -> None:
        """Take nodes that nothing reads out, the last ones first."""
        for node in nodes:
            self._graph.remove(node, safe=True)
            del self.plan.nodes[str(node.name)]
