"""From ``(graph, plan)`` to an ONNX graph with QuantizeLinear and DequantizeLinear (Q/DQ).

Rules:

1. A tensor with parameters gets one Q/DQ pair behind it. Integer nodes read the pair; float nodes read it only if the tensor
   comes from an integer node (whose float result then need not exist), or is an input that is to be integers in the file.
2. A Relu or Clip that is the last step of an integer node is dropped where saturation of the output grid does its work.
3. A planned weight or bias becomes an integer initializer behind one DequantizeLinear (two and an Add where it has two parts;
   and a Mul, where it has input scales), stored once for all its readers.
4. Dynamic nodes and Gathers from larger integer tables are written as :mod:`converter_lite.quantization.qdq.dynamic` and
   :mod:`converter_lite.quantization.qdq.recurrent` describe.
5. Graph inputs and outputs keep their names.
6. Between a float node with weights and a QuantizeLinear behind it (or behind its Relu, Reshape and the like) stands a Max
   with the lowest number, which changes nothing. Without it onnxruntime takes ``DequantizeLinear, Conv, QuantizeLinear`` for a
   Conv to be quantized and does it with one scale per tensor, whatever the plan says (seen in its optimized graphs, 1.31).
   So it does between a float MaxPool and a QuantizeLinear: onnxruntime pools integers otherwise, with a kernel that takes up to
   seventy times as long as the float one (1.32).
7. A bias added to the float result of an integer MatMul has the rank of that result. With a bias of one axis, onnxruntime (1.31,
   where shapes are known) turns MatMul and Add into a Gemm, for which there is no integer kernel with a float bias.
8. A Relu or Clip behind an integer MatMul or Gemm that is not dropped is written as Max and Min. With a Relu or Clip behind it,
   onnxruntime (1.32) computes the product with floats, and dequantizes its weight at every run.
9. A Gelu that is spelled out with Div and Erf reads what a DequantizeLinear gives through such a Max, too. Without it,
   onnxruntime (1.32) gives each of the two readers a DequantizeLinear of its own, and does not recognize the Gelu any more.
10. So it does in front of and behind a MaxPool or ReduceMax, and behind a Conv with weights of 8 bits, where the grid has fewer:
   onnxruntime (1.32) makes operators of them that take no such integers, and does not load the model. And behind a Clip that is
   not dropped, whose bounds it cannot compare with such a grid, and a Relu, where the grid has negative numbers: onnxruntime
   leaves the Relu out, as if the smallest integer were zero.
11. So it does in front of an AveragePool between integers that onnxruntime would compute otherwise in them
   (:mod:`converter_lite.quantization.qdq.averages`).

Source: ONNX operator specification (QuantizeLinear, DequantizeLinear); the placement that onnxruntime fuses into integer
kernels (seen in its optimized graphs).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from operator import itemgetter

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.passes.gelu import spelled_out_gelus
from converter_lite.quantization.bodies import inner_nodes
from converter_lite.quantization.clamps import saturation_clamps
from converter_lite.quantization.grid_nodes import KERNEL_BITS
from converter_lite.quantization.placement import is_fused_clamp, reads_grid
from converter_lite.quantization.plan import NodeMode, Part, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.attention import fuse_attentions
from converter_lite.quantization.qdq.averages import has_other_integers
from converter_lite.quantization.qdq.dynamic import DynamicWriter
from converter_lite.quantization.qdq.guard import guard
from converter_lite.quantization.qdq.parts import (
    FOUR_BITS,
    LOWER,
    NARROWEST,
    UPPER,
    has_two_parts,
    is_dequantized_whole,
    lower,
    parts_of,
    upper,
)
from converter_lite.quantization.qdq.products import keep_bias_apart, spell_out_clamp
from converter_lite.quantization.qdq.recurrent import write_lstm
from converter_lite.targets.operands import is_recurrent, operator, weight_of
from converter_lite.targets.operators import Role

POOLS_OF_BYTES = ("MaxPool", "ReduceMax")
"""Operators that onnxruntime computes in integers of 8 bits, and tries to with others."""

TWO_BITS_OPSET = 25
"""Operator set since which DequantizeLinear takes two-bit integers."""

BLOCKS_OPSET = 21
"""Operator set since which it takes four and sixteen bits, and a scale per block."""

TWO_BITS_TYPES: dict[bool, ir.DataType] = {
    signed: ir.DataType[name]
    for signed, name in ((True, "INT2"), (False, "UINT2"))
    if name in ir.DataType.__members__  # not in the oldest onnx-ir
}
"""signed -> ONNX element type of two bits."""

STORAGE: dict[tuple[int, bool], ir.DataType] = {
    **{(2, signed): dtype for signed, dtype in TWO_BITS_TYPES.items()},
    (4, True): ir.DataType.INT4,
    (4, False): ir.DataType.UINT4,
    (8, True): ir.DataType.INT8,
    (8, False): ir.DataType.UINT8,
    (16, True): ir.DataType.INT16,
    (16, False): ir.DataType.UINT16,
    (32, True): ir.DataType.INT32,
}
"""(bits, signed) -> ONNX element type of a grid's integers and of its zero point."""

RESULTS = {"DequantizeLinear": "dequantized", "Add": "added", "Mul": "multiplied"}
"""Operator that dequantizes a weight, or takes part in it -> end of its result's name."""


MOVED = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice")
"""Operators that onnxruntime computes in integers in front of a QuantizeLinear, whatever stands before them."""


def storage_bits(spec: QuantSpec, narrowest: int = NARROWEST) -> int:
    """Width of the ONNX element type that holds a grid: the narrowest that fits, of ``narrowest`` bits at least."""
    return next(bits for bits in (2, 4, 8, 16, 32) if spec.bits <= bits and narrowest <= bits)


def storage_type(spec: QuantSpec, narrowest: int = NARROWEST) -> ir.DataType:
    """ONNX element type that holds a grid."""
    return STORAGE[(storage_bits(spec, narrowest), spec.signed)]


def required_opset(plan: QuantPlan, narrowest: int = NARROWEST) -> int:
    """Lowest ONNX operator set for the plan: 10; 13 with scales per axis; 21 with 4 or 16 bits or blocks; 25 with 2 bits."""
    specs = [p.spec for p in (*plan.activations.values(), *plan.weights.values())]
    widths = {storage_bits(spec, narrowest) for spec in specs}
    if 2 in widths or any(has_two_parts(params.spec, narrowest) for params in plan.weights.values()):
        return TWO_BITS_OPSET
    if widths & {4, 16} or any(spec.block for spec in specs):
        return BLOCKS_OPSET
    return 13 if any(spec.axis is not None for spec in specs) else 10


def materialize(quantized: QuantizedModel, *, narrowest: int = NARROWEST, attention: bool = False) -> ir.Model:
    """A new model with the plan written into it; the float model is left as it is (its tensors are shared).

    With ``attention``, attentions in float become the operator of this name, which the model's operator set has.
    """
    model = quantized.model.clone()
    if attention:
        fuse_attentions(model.graph, quantized.plan)
    _Materializer(model, quantized, narrowest).run()
    return model


class _Materializer:
    def __init__(self, model: ir.Model, quantized: QuantizedModel, narrowest: int) -> None:
        self.graph = model.graph
        self.narrowest = narrowest
        self.quantized = quantized
        self.plan = quantized.plan
        self.constants: dict[tuple[str, bytes, bytes], tuple[ir.Value, ir.Value]] = {}
        self.dropped: frozenset[ir.Node] = frozenset()
        self.names = g.Names(self.graph)
        self.places: dict[ir.Node, tuple[int, ir.Node]] = {}

    def run(self) -> None:
        clamps = [
            node
            for node in self.graph
            if is_fused_clamp(node, self.plan)
            and saturation_clamps(node, self.plan.activations.get(node.outputs[0].name or ""))  # rule 2
        ]
        self._write_dynamic()
        self.names = g.Names(self.graph)
        nodes = list(enumerate(self.graph))
        self.places = {inner: place for place in nodes for inner in (place[1], *inner_nodes([place[1]]))}
        for name, params in self.plan.weights.items():
            self._store_weight(name, params)
        self.dropped = frozenset(clamps)
        for value in list(self.graph.inputs):
            self._add_qdq(value, producer=None)
        for node in list(self.graph):
            for output in list(node.outputs):
                self._add_qdq(output, producer=node)
        for node in clamps:
            self._drop(node)
        for node in list(self.graph):
            if node.op_type in ("MatMul", "Gemm") and self.plan.mode(node) is NodeMode.INTEGER:
                keep_bias_apart(self.graph, node, self.names)
                spell_out_clamp(self.graph, node, self.names)
        self._join_gelus()
        self._keep_pools_apart()
        self._keep_averages_apart()
        used = {value for node in g.all_nodes(self.graph) for value in node.inputs}
        for name, value in list(self.graph.initializers.items()):
            if value not in used and not value.is_graph_output():
                del self.graph.initializers[name]

    def _join_gelus(self) -> None:
        """Let one node read what is dequantized for a Gelu (rule 9)."""
        for source, nodes in spelled_out_gelus(self.graph).values():
            producer = source.producer()
            if nodes[0].op_type == "Div" and producer is not None and producer.op_type == "DequantizeLinear":
                self._guard_readers(source, producer, nodes)

    def _keep_pools_apart(self) -> None:
        """Let no optimizer move pairs of narrow integers over what has no kernel for them (rule 10)."""
        for producer in [node for node in self.graph if node.op_type == "DequantizeLinear"]:
            source = producer.outputs[0]
            pools = [user for user, _ in source.uses() if user.op_type in POOLS_OF_BYTES]
            if pools and _is_narrow(source):
                self._guard_readers(source, producer, pools)

    def _keep_averages_apart(self) -> None:
        """Let an average be computed with floats where the integer kernel gives another one (rule 11)."""
        for node in [node for node in self.graph if has_other_integers(node)]:
            source = node.inputs[0]
            before = source.producer() if source is not None else None
            if source is not None and before is not None and _is_dequantized(before) and _is_quantized(node):
                self._guard_readers(source, before, [node])

    def _guard_readers(self, source: ir.Value, producer: ir.Node, nodes: Sequence[ir.Node]) -> None:
        node = guard(self.graph, source, self.names)
        self.graph.insert_after(producer, node)
        for user, i in [(user, i) for user, i in source.uses() if user in nodes]:
            user.replace_input_with(i, node.outputs[0])

    def _write_dynamic(self) -> None:
        writer = DynamicWriter(self.graph, self.quantized)
        recurrent: dict[str, list[ir.Value]] = {}
        for node in list(self.graph):
            mode = self.plan.mode(node)
            if mode is NodeMode.DYNAMIC and is_recurrent(node):
                write_lstm(node, self.quantized, recurrent, self.names)
            elif mode is NodeMode.DYNAMIC:
                writer.matmul(node)
            elif mode is NodeMode.WEIGHT and node.op_type == "Gather" and not self._has_small_table(node):
                writer.gather(node)

    def _has_small_table(self, node: ir.Node) -> bool:
        table = node.inputs[0]
        assert table is not None
        params = self.plan.weights[table.name or ""]
        return not params.spec.block and is_dequantized_whole(g.static_shape(table) or (0,))

    def _store_weight(self, name: str, params: QuantParams) -> None:
        value = self.graph.initializers.get(name)
        if value is None:
            return
        readers = [(user, i) for user, i in value.uses() if self._reads_stored(user, i)]
        if not readers:
            return
        _, first = min((self.places[user] for user, _ in readers), key=itemgetter(0))
        nodes = self._dequantizing(name, params)
        for node in nodes:
            self.graph.insert_before(first, node)
            _describe(node.outputs[0], value, self.names.unique(f"{name}_{RESULTS[node.op_type]}"))
        for user, i in readers:
            user.replace_input_with(i, nodes[-1].outputs[0])

    def _dequantizing(self, name: str, params: QuantParams) -> list[ir.Node]:
        """The nodes that dequantize a weight; the last one gives the weight."""
        if has_two_parts(params.spec, self.narrowest):
            high, low = parts_of(params)
            nodes = [self._dequantize(name, UPPER, high, upper), self._dequantize(name, LOWER, low, lower)]
            nodes.append(_node("Add", [node.outputs[0] for node in nodes], f"{name}_add"))
        else:
            nodes = [self._dequantize(name, "", params)]
        if params.input_scales is not None:
            scales = g.add_initializer(self.graph, f"{name}_factors", params.input_scales, names=self.names)
            nodes.append(_node("Mul", [nodes[-1].outputs[0], scales], f"{name}_multiply"))
        return nodes

    def _dequantize(self, name: str, part: str, params: QuantParams, taken: Part | None = None) -> ir.Node:
        """A DequantizeLinear of a weight's integers, or of the part of them that ``taken`` extracts."""
        integers = self.quantized.stored(name, storage_type(params.spec, self.narrowest), taken)
        stored = g.add_tensor(self.graph, f"{name}{part}_quantized", integers, names=self.names)
        scale, zero_point = self._grid(f"{name}{part}", params)
        has_zeros = not (params.spec.block and params.spec.symmetric)
        inputs = [stored, scale, *([zero_point] if has_zeros else [])]
        node = _node("DequantizeLinear", inputs, f"{name}{part}_dequantize", axis=params.spec.axis)
        if params.spec.block:
            node.attributes["block_size"] = ir.AttrInt64("block_size", params.spec.block)
        return node

    def _reads_stored(self, node: ir.Node, position: int) -> bool:
        mode = self.plan.mode(node)
        if mode is NodeMode.INTEGER:
            return position not in self.plan.nodes[node.name or ""].float_inputs
        return mode is NodeMode.WEIGHT

    def _add_qdq(self, value: ir.Value, producer: ir.Node | None) -> None:
        params = self.plan.activations.get(value.name or "")
        if params is None or value.name is None:
            return
        integer_producer = producer is not None and self.plan.mode(producer) is NodeMode.INTEGER
        is_end = value.name in self.plan.ends
        replaces_output = (integer_producer or is_end) and value.is_graph_output() and producer is not None
        reads_all = is_end and not replaces_output
        readers = [(n, i) for n, i in value.uses() if reads_all or reads_grid(n, i, self.plan)]
        if not readers and not replaces_output:
            return
        name = value.name
        if replaces_output:
            value.name = self.names.unique(f"{name}_float")
        scale, zero_point = self._grid(name, params)
        is_taken = (
            _is_weighted_result(producer, self.plan)
            or _is_pooled(producer, self.plan)
            or _is_misread(producer, params, self.dropped)
        )
        first = guard(self.graph, value, self.names) if is_taken else None
        source = value if first is None else first.outputs[0]
        quantize = _node("QuantizeLinear", [source, scale, zero_point], f"{name}_quantize")
        quantize.outputs[0].name = self.names.unique(f"{name}_quantized")
        quantize.outputs[0].dtype = storage_type(params.spec, self.narrowest)
        quantize.outputs[0].shape = value.shape
        dequantize = _node("DequantizeLinear", [quantize.outputs[0], scale, zero_point], f"{name}_dequantize")
        result = name if replaces_output else self.names.unique(f"{name}_dequantized")
        _describe(dequantize.outputs[0], value, result)
        if producer is None:
            self.graph.insert_before(next(iter(self.graph)), [quantize, dequantize])
        else:
            self.graph.insert_after(producer, [*([first] if first is not None else []), quantize, dequantize])
        for user, i in readers:
            user.replace_input_with(i, dequantize.outputs[0])
        if replaces_output:
            g.replace_output(self.graph, value, dequantize.outputs[0])

    def _grid(self, name: str, params: QuantParams) -> tuple[ir.Value, ir.Value]:
        """Scale and zero point initializers; equal ones are stored once."""
        dtype = storage_type(params.spec, self.narrowest)
        zero_point: NDArray[np.generic] = params.zero_point.astype(dtype.numpy())
        key = (str((dtype, params.scale.shape)), params.scale.tobytes(), zero_point.tobytes())
        if key not in self.constants:
            scale = g.add_initializer(self.graph, f"{name}_scale", params.scale, names=self.names)
            self.constants[key] = (
                scale,
                g.add_initializer(self.graph, f"{name}_zero_point", zero_point, dtype=dtype, names=self.names),
            )
        return self.constants[key]

    def _drop(self, node: ir.Node) -> None:
        value = node.inputs[0]
        if value is not None:
            node.outputs[0].replace_all_uses_with(value)
            self.graph.remove(node, safe=True)


def _is_weighted_result(node: ir.Node | None, plan: QuantPlan) -> bool:
    """Whether a float tensor comes from a float node with weights, directly or through what optimizers see through (rule 6)."""
    while node is not None and plan.mode(node) is NodeMode.FLOAT:
        entry = operator(node)
        if entry is not None and entry.role is Role.WEIGHTED:
            return weight_of(node) is not None
        is_transparent = entry is not None and entry.role in (Role.CLAMP, Role.SAME)
        if not is_transparent and node.op_type not in ("Identity", "Dropout"):
            return False
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    return False


def _is_pooled(node: ir.Node | None, plan: QuantPlan) -> bool:
    """Whether a float tensor holds the results of a MaxPool, perhaps in another shape (rule 6)."""
    while node is not None and plan.mode(node) is NodeMode.FLOAT and operator(node) is not None:
        if node.op_type == "MaxPool":
            return True
        if node.op_type not in MOVED:
            return False
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    return False


def _is_misread(node: ir.Node | None, params: QuantParams, dropped: Container[ir.Node]) -> bool:
    """Whether onnxruntime would make something else of a node and a grid of less than 8 bits behind it (rule 10)."""
    has_negative = bool(np.any(params.zero_point > params.spec.qmin))
    while node is not None and params.spec.bits < KERNEL_BITS:
        entry = operator(node)
        is_clamp = node.op_type == "Clip" or (node.op_type == "Relu" and has_negative)
        if node.op_type in POOLS_OF_BYTES or (is_clamp and node not in dropped):
            return True
        if entry is None or entry.role not in (Role.CLAMP, Role.SAME):
            return node.op_type == "Conv" and not _is_narrow(node.inputs[1])
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    return False


def _is_dequantized(node: ir.Node | None) -> bool:
    """Whether a node dequantizes what was computed, or moves that."""
    while node is not None and node.op_type in MOVED:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    return node is not None and node.op_type == "DequantizeLinear"


def _is_quantized(node: ir.Node) -> bool:
    """Whether the result of a node is quantized, perhaps in another shape."""
    readers = [reader for reader, _ in node.outputs[0].uses()]
    return any(
        reader.op_type == "QuantizeLinear" or (reader.op_type in MOVED and _is_quantized(reader)) for reader in readers
    )


def _is_narrow(value: ir.Value | None) -> bool:
    """Whether a value is dequantized from integers of four bits."""
    producer = value.producer() if value is not None else None
    stored = producer.inputs[0] if producer is not None and producer.op_type == "DequantizeLinear" else None
    return stored is not None and stored.dtype in FOUR_BITS


def _node(op_type: str, inputs: list[ir.Value], name: str, *, axis: int | None = None) -> ir.Node:
    attributes = {} if axis is None else {"axis": axis}
    return ir.node(op_type, inputs, attributes=attributes, name=name)


def _describe(value: ir.Value, like: ir.Value, name: str) -> None:
    value.name = name
    value.shape = like.shape
    value.dtype = like.dtype or ir.DataType.FLOAT
