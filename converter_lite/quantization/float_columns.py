"""Columns of a tensor whose products stay float.

One or a few columns of an activation may be far larger than all others: they decide the step of its grid, and factors would
move their size into the weights. ``x @ W`` becomes ``x' @ W' + x[:, c] @ W[c]``, with zeros in the columns ``c`` of ``x'`` and
in the rows ``c`` of ``W'``. The first product computes with integers as before, the second is narrow.

Source: Dettmers et al., LLM.int8(), NeurIPS 2022, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.quantization.plan import rest_name


def compute_columns_in_float(
    graph: ir.Graph,
    value: ir.Value,
    products: Sequence[tuple[ir.Node, NDArray[np.float32]]],
    columns: Sequence[int],
    names: g.Names,
) -> None:
    """Add the narrow products to the results of others.

    What is added is in no plan and thus stays float. The results keep their names behind the addition.

    Args:
        graph: Changed in place.
        value: The tensor; its last axis has the columns.
        products: MatMuls that read it first, and the rows of their weights: ``(len(columns), outputs)``. The caller takes them
            out of these weights.
        columns: Numbers of the columns.
        names: Of this graph.
    """
    index = g.add_initializer(graph, f"{value.name}_columns", np.asarray(columns, np.int64), names=names)
    gather = ir.node("Gather", [value, index], attributes={"axis": -1}, name=names.unique(f"{value.name}_apart"))
    shape = None if value.shape is None else ir.Shape((*value.shape[:-1], len(columns)))
    _describe(gather, names.unique(f"{value.name}_apart"), shape)
    graph.insert_before(products[0][0], gather)
    for node, rows in products:
        result = node.outputs[0]
        weight = g.add_initializer(graph, f"{node.name}_apart_weight", np.ascontiguousarray(rows), names=names)
        narrow = ir.node("MatMul", [gather.outputs[0], weight], name=names.unique(f"{node.name}_apart"))
        _describe(narrow, names.unique(f"{result.name}_apart"), result.shape)
        total = ir.node("Add", [result, narrow.outputs[0]], name=names.unique(f"{node.name}_sum"))
        result.replace_all_uses_with(total.outputs[0], replace_graph_outputs=True)
        total.replace_input_with(0, result)
        name = result.name or ""
        result.name = names.unique(rest_name(name))
        _describe(total, name, result.shape)
        graph.insert_after(node, [narrow, total])


def _describe(node: ir.Node, name: str, shape: ir.Shape | None) -> None:
    output = node.outputs[0]
    output.name, output.shape, output.dtype = name, shape, ir.DataType.FLOAT
