"""Isolating the layers of a planned graph: the quantized graph, cut between its layers and fed with the float graph's values.

The plan says where tensors are held and which operators form one layer. Files without a known plan are cut by
:mod:`converter_lite.analysis.isolation`.

The output of a layer then differs from the float graph only by what was done to this layer: the grid of its inputs, its weights,
its arithmetic, the grid of its output. One graph holds all layers, and the runtime fuses each one as in the whole.

Rules:

1. Integers between QuantizeLinear and DequantizeLinear come from outside: the float value on their grid.
2. Any other tensor that the float graph has comes from outside as it is there.
3. A tensor between a layer and the Relu or Clip that is its last step is not cut: both are one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.placement import is_fused_clamp
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.reports.cutting import STAND_IN, cut, integers, parts


@dataclass(frozen=True, slots=True)
class CutInput:
    """An input of the cut graph.

    Attributes:
        name: Its name.
        origin: Tensor of the float graph that it represents.
        params: Grid that the values are quantized to; ``None`` takes them as they are.
    """

    name: str
    origin: str
    params: QuantParams | None = None

    def values(self, origin: NDArray[Any]) -> NDArray[Any]:
        """What the input is fed, from the values of the float graph."""
        return origin if self.params is None else integers(origin, self.params)


def isolated(quantized: QuantizedModel, written: ir.Model, outputs: Iterable[str]) -> tuple[ir.Model, list[CutInput]]:
    """The quantized graph as isolated layers.

    Args:
        quantized: Float graph and plan.
        written: The same with Q/DQ; not changed.
        outputs: Tensors of ``written`` to compute: results of layers.

    Returns:
        A graph with these outputs, and what its inputs represent.
    """
    model = written.clone()
    supplies = _Cut(model.graph, quantized).supplies
    copy = parts(model, outputs)
    used = {value.name for value in copy.graph.inputs if value.uses()}
    return copy, [supply for supply in supplies if supply.name in used]


class _Cut:
    """Replaces the inputs of layers by inputs of the graph, in place."""

    def __init__(self, graph: ir.Graph, quantized: QuantizedModel) -> None:
        self.graph = graph
        self.supplies: list[CutInput] = []
        grids = quantized.plan.activations
        kept = _float_tensors(quantized)
        for value in [*graph.inputs, *(output for node in graph for output in node.outputs)]:
            name = value.name or ""
            producer = value.producer()
            tensor = name.removesuffix("_quantized")
            kind = producer.op_type if producer is not None else ""
            if kind == "QuantizeLinear" and tensor in grids and tensor in kept:  # rule 1
                self._supply(value, tensor, list(value.uses()), grids[tensor])
            elif name in kept and (kind != "DequantizeLinear" or kind == kept[name]):  # rules 2 and 3
                own = (f"{name}_quantize", f"{name}_guard")
                readers = [(node, i) for node, i in value.uses() if node.name not in own]
                self._supply(value, name, readers, None)

    def _supply(
        self, value: ir.Value, origin: str, readers: Iterable[tuple[ir.Node, int]], params: QuantParams | None
    ) -> None:
        readers = list(readers)
        if not readers:
            return
        name = STAND_IN.format(value.name)
        cut(self.graph, value, name, readers)
        self.supplies.append(CutInput(name, origin, params))


def _float_tensors(quantized: QuantizedModel) -> Mapping[str, str]:
    """Tensors between layers -> operator that computes them, empty for inputs of the model."""
    found = {value.name or "": "" for value in quantized.model.graph.inputs}
    for node in quantized.model.graph:
        for output in node.outputs:
            user = g.single_consumer(output)
            is_inner = user is not None and is_fused_clamp(user, quantized.plan)
            if output.name and not is_inner:
                found[output.name] = node.op_type
    return found
