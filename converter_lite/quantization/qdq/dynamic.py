"""Nodes that quantize their activations at run time, and integer embedding tables, in standard ONNX operators.

Forms:

* ALWC: ``DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul(scale_x * scale_w)``; onnxruntime fuses it into one kernel. A
  tensor is quantized once for all products that read it. In front of attention heads the integers are transposed
  (:mod:`converter_lite.quantization.qdq.heads`).
* A scale per row (a plan's ``row_zero_point``; ACWL, and ALWC where that helps): every row is quantized around the same zero
  point, since MatMulInteger takes only one, with the smallest scale that covers it; ``QuantizeLinear`` along the rows does it in
  one pass. The result is multiplied by the scale of the weights (and by a 1 that is not a constant, so that onnxruntime fuses it
  into one kernel), then by the rows' scales.
* Gather from an integer table: rows and their scales (per row along axis 0 only) are gathered, then multiplied. A
  DequantizeLinear before the Gather would convert the whole table in every run.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.quantize import along_axis
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.heads import POSITIONS_FIRST, find_heads
from converter_lite.quantization.rows import LowerBounds

UINT8_MAX = 255

SMALLEST_SCALE = 1e-30
"""Scale of a row of zeros."""


class DynamicWriter:
    """Rewrites dynamic nodes of a graph; one per materialization, since quantized activations are shared."""

    def __init__(self, graph: ir.Graph, quantized: QuantizedModel) -> None:
        self._graph = graph
        self._names = g.Names(graph)
        self._quantized = quantized
        self._activations: dict[ir.Value, tuple[ir.Value, ir.Value, ir.Value]] = {}
        self._positions_first: dict[ir.Value, ir.Value] = {}
        self._one: ir.Value | None = None
        self._lower_bounds = LowerBounds(graph)
        self._row_grids: dict[tuple[ir.Value, int], tuple[ir.Value, ir.Value, ir.Value]] = {}
        self._constants: dict[str, ir.Value] = {}
        self._weights: dict[str, tuple[ir.Value, ir.Value, ir.Value]] = {}

    def matmul(self, node: ir.Node) -> None:
        """Replace a MatMul or Gemm with constant weight by its integer form."""
        x, weight = node.inputs[0], node.inputs[1]
        assert x is not None and weight is not None and weight.name is not None
        q_weight, scale_w, zero_w = self._weight(node, weight.name)
        row_zero_point = self._quantized.plan.nodes[node.name or ""].row_zero_point
        if row_zero_point is not None:
            q_x, scale_x, zero_x = self._around(x, node, row_zero_point)
        else:
            q_x, scale_x, zero_x = self._per_tensor(x, node)
            heads = find_heads(node)
            if heads is not None:
                q_x = self._turned(q_x, node)
                heads.turn(self._graph)
        product = self._insert(node, "MatMulInteger", [q_x, q_weight, zero_x, zero_w], "product")
        real = self._insert(node, "Cast", [product], "product_float", to=ir.DataType.FLOAT.value)
        common = scale_x if row_zero_point is None else self._run_time_one(node)
        scale = self._insert(node, "Mul", [common, scale_w], "scale")
        result = self._insert(node, "Mul", [real, scale], "result" if row_zero_point is None else "steps")
        if row_zero_point is not None:
            # Scales of rows in the product above would make onnxruntime (seen in 1.31) fuse all this with a following bias
            # into a kernel that applies the scale of the first row to every row.
            result = self._insert(node, "Mul", [result, scale_x], "result")
        bias = g.input_at(node, 2)
        if bias is not None:
            result = self._insert(node, "Add", [result, bias], "biased")
        self._replace(node, result)

    def gather(self, node: ir.Node) -> None:
        """Replace a Gather from a constant table by Gathers of integer rows and of their scales.

        Scales along an axis behind the gathered one keep their position counted from the end, and are multiplied as they are.
        """
        table, indices = node.inputs[0], node.inputs[1]
        assert table is not None and indices is not None and table.name is not None
        params = self._quantized.plan.weights[table.name]
        if params.spec.block:
            self._gather_blocks(node, table.name, indices)
            return
        axis = g.int_attribute(node, "axis", 0)
        by_row = params.is_per_channel and params.spec.axis == axis
        columns = 0 if by_row or not params.is_per_channel else int(params.spec.axis or 0)
        key = f"{table.name}/table"
        if key not in self._weights:
            storage = ir.DataType.INT8 if params.spec.bits <= 8 else ir.DataType.INT16
            stored = self._quantized.stored(table.name, storage)
            q_table = g.add_tensor(self._graph, f"{table.name}_quantized", stored, names=self._names)
            scales = along_axis(
                params.scale.reshape(-1), len(stored.shape) - columns if params.is_per_channel else 1, 0
            )
            zeros = params.zero_point.reshape(scales.shape).astype(np.float32)
            scale = self._put(f"{table.name}_scale", scales.astype(np.float32))
            zero = self._put(f"{table.name}_zero_point", zeros)
            self._weights[key] = (q_table, scale, zero)
        q_table, scale, zero = self._weights[key]
        rows = self._insert(node, "Gather", [q_table, indices], "rows", axis=axis)
        real = self._insert(node, "Cast", [rows], "rows_float", to=ir.DataType.FLOAT.value)
        if np.any(params.zero_point):
            shift = self._insert(node, "Gather", [zero, indices], "zero_point", axis=0) if by_row else zero
            real = self._insert(node, "Sub", [real, shift], "rows_shifted")
        factor = self._insert(node, "Gather", [scale, indices], "row_scale", axis=0) if by_row else scale
        self._replace(node, self._insert(node, "Mul", [real, factor], "result"))

    def _gather_blocks(self, node: ir.Node, name: str, indices: ir.Value) -> None:
        """The same for rows with a scale per block."""
        params, parts = self._quantized.plan.weights[name], []
        if f"{name}/table" not in self._weights:
            dtype = ir.DataType.INT8 if params.spec.signed else ir.DataType.UINT8
            integers = self._quantized.stored(name, dtype)
            self._weights[f"{name}/table"] = (
                g.add_tensor(self._graph, f"{name}_quantized", integers, names=self._names),
                self._put(f"{name}_scale", params.scale),
                self._put(f"{name}_zero_point", params.zero_point.astype(dtype.numpy())),
            )
        made = self._weights[f"{name}/table"][: 2 if params.spec.symmetric else 3]
        for part, values in zip(("rows", "row_scale", "zero_point"), made, strict=False):
            gathered = self._insert(node, "Gather", [values, indices], part, axis=0)
            gathered.type = values.type  # part of a graph that runs in pieces may begin with it
            parts.append(gathered)
        self._replace(
            node, self._insert(node, "DequantizeLinear", parts, "result", axis=-1, block_size=params.spec.block)
        )

    def _weight(self, node: ir.Node, name: str) -> tuple[ir.Value, ir.Value, ir.Value]:
        transposed = self._is_transposed(node)
        key = f"{name}/{transposed}"
        if key not in self._weights:
            params = self._quantized.plan.weights[name]
            integers = self._quantized.integers(name).astype(np.int8)
            q = self._put(f"{name}_quantized", integers.T if transposed else integers)
            scale = self._put(f"{name}_scale", params.scale)
            zero = self._put(f"{name}_zero_point", params.zero_point.astype(np.int8))
            self._weights[key] = (q, scale, zero)
        return self._weights[key]

    @staticmethod
    def _is_transposed(node: ir.Node) -> bool:
        return node.op_type == "Gemm" and bool(g.int_attribute(node, "transB", 0))

    def _per_tensor(self, x: ir.Value, node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value]:
        if x not in self._activations:
            made = ir.node("DynamicQuantizeLinear", [x], num_outputs=3, name=f"{node.name}/quantize")
            self._graph.insert_before(node, made)
            for output, part in zip(made.outputs, ("quantized", "scale", "zero_point"), strict=True):
                output.name = self._names.unique(f"{node.name}/input_{part}")
            self._activations[x] = (made.outputs[0], made.outputs[1], made.outputs[2])
        return self._activations[x]

    def _turned(self, q_x: ir.Value, node: ir.Node) -> ir.Value:
        """Integers ``(B, S, K)`` as ``(S, B, K)``."""
        if q_x not in self._positions_first:
            turned = self._insert(node, "Transpose", [q_x], "input_positions_first", perm=list(POSITIONS_FIRST))
            self._positions_first[q_x] = turned
        return self._positions_first[q_x]

    def _around(self, x: ir.Value, node: ir.Node, zero_point: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        """uint8 rows around one zero point, their scales (shape of ``x``, 1 along the last axis) and the zero point."""
        key = (x, zero_point)
        if key not in self._row_grids:
            scale = self._row_scales(x, node, zero_point)
            vector = self._add_constant("row_vector", np.array([-1], np.int64))
            flat_scale = self._insert(node, "Reshape", [scale, vector], "row_scale_flat")
            count = self._insert(node, "Shape", [flat_scale], "row_count")
            zero = ir.Tensor(np.array([zero_point], np.uint8))
            zeros = self._insert(node, "ConstantOfShape", [count], "row_zero_points", value=zero)
            weight = node.inputs[1]
            width = (g.static_shape(weight) or (0,))[1 if self._is_transposed(node) else 0]
            matrix = self._add_constant(f"rows_of_{width}", np.array([-1, width], np.int64))
            rows = self._insert(node, "Reshape", [x, matrix], "rows_flat")
            q_rows = self._insert(node, "QuantizeLinear", [rows, flat_scale, zeros], "rows_quantized", axis=0)
            q_x = self._insert(
                node, "Reshape", [q_rows, self._insert(node, "Shape", [x], "rows_shape")], "input_quantized"
            )
            zero_x = self._add_constant(f"zero_point_{zero_point}", np.array(zero_point, np.uint8))
            self._row_grids[key] = (q_x, scale, zero_x)
        return self._row_grids[key]

    def _row_scales(self, x: ir.Value, node: ir.Node, zero_point: int) -> ir.Value:
        """For every row the smallest scale whose grid around the zero point covers it."""
        low = self._lower_bounds.of(x)
        least = SMALLEST_SCALE if low is None else max(-low / zero_point, SMALLEST_SCALE)
        bounds = [self._add_constant(f"smallest_row_scale_{least:g}", np.array(least, np.float32))]
        for op_type, steps in (("ReduceMax", UINT8_MAX - zero_point), ("ReduceMin", -zero_point)):
            if op_type == "ReduceMin" and low is not None:
                continue
            extreme = self._reduce(node, op_type, x, f"row_{op_type[6:].lower()}")
            factor = self._add_constant(f"steps_{steps}", np.array(1.0 / steps, np.float32))
            bounds.insert(0, self._insert(node, "Mul", [extreme, factor], f"row_scale_{op_type[6:].lower()}"))
        return self._insert(node, "Max", bounds, "row_scale")

    def _add_constant(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        if name not in self._constants:
            self._constants[name] = self._put(name, array)
        return self._constants[name]

    def _put(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        return g.add_initializer(self._graph, name, array, names=self._names)

    def _reduce(self, node: ir.Node, op_type: str, x: ir.Value, part: str) -> ir.Value:
        """``op_type`` along the last axis, which is kept."""
        if g.opset(self._graph) >= 18:
            axes = self._add_constant("last_axis", np.array([-1], np.int64))
            return self._insert(node, op_type, [x, axes], part, keepdims=1)
        return self._insert(node, op_type, [x], part, keepdims=1, axes=[-1])

    def _run_time_one(self, node: ir.Node) -> ir.Value:
        """A scalar 1 that runtimes do not take for a constant; with it they see an integer product with a scale."""
        if self._one is None:
            one = [
                self._add_constant("one_step", np.array(1, np.uint8)),
                self._add_constant("one_scale", np.array(1, np.float32)),
            ]
            self._one = self._insert(node, "DequantizeLinear", one, "one")
        return self._one

    def _insert(self, node: ir.Node, op_type: str, inputs: list[ir.Value], part: str, **attributes: object) -> ir.Value:
        made = ir.node(op_type, inputs, attributes=attributes, name=f"{node.name}/{part}")  # type: ignore[arg-type]
        made.outputs[0].name = self._names.unique(f"{node.name}/{part}_output")
        self._graph.insert_before(node, made)
        return made.outputs[0]

    def _replace(self, node: ir.Node, result: ir.Value) -> None:
        output = node.outputs[0]
        name = output.name
        result.shape, result.dtype = output.shape, output.dtype or ir.DataType.FLOAT
        output.replace_all_uses_with(result, replace_graph_outputs=True)
        self._graph.remove(node, safe=True)
        result.name = name
