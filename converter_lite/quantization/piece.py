"""A part of a graph that runs alone, between tensors that are held in half precision.

The runtime converts them: NumPy's own conversions took a fifth of the time of fitting 4-bit weights.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import mean_node
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Session
from converter_lite.runtime.serializing import open_session

LAYER_NORMALIZATION_OPSET = 17
"""Operator set since which onnxruntime makes a LayerNormalization of one that is spelled out."""

HALF_LIMIT = 6e4
"""Largest magnitude that is held in half precision."""

_LIMIT = int(np.float16(HALF_LIMIT).view(np.uint16))
_MAGNITUDE = np.uint16(0x7FFF)
"""All bits of a number but its sign; as integers, they are in the order of the magnitudes."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class PartRequest:
    """What a part computes.

    Attributes:
        value: What is asked for.
        keep: Values that are to be held.
        mean: Of ``value``, the mean per channel is enough.
    """

    value: ir.Value
    keep: Sequence[ir.Value]
    mean: bool

    @property
    def outputs(self) -> list[ir.Value]:
        """All of them, the one that is asked for first."""
        return [self.value, *(v for v in self.keep if v is not self.value)]

    def extracted(self, model: ir.Model, inputs: Sequence[ir.Value]) -> ir.Model:
        """The part of a model that computes them from ``inputs``."""
        graph = g.extracted(model.graph, inputs, self.outputs)
        if self.mean:
            reduced = mean_node(graph, graph.outputs[0])
            reduced.name, reduced.dtype = "mean_of_output", ir.DataType.FLOAT
            graph.outputs[0] = reduced
        return ir.Model(graph, ir_version=model.ir_version)


class Piece:
    """A loaded part.

    Args:
        model: The part; its first output is the one that is asked for. Changed in place.
        kept: Names of the values that are to be held.
        halves: Names of the inputs that are given in half precision.
        context: Runs it, samples with one thread each.
        given: Its constants are inputs.
    """

    def __init__(
        self,
        model: ir.Model,
        kept: Container[str | None],
        halves: Container[str | None],
        context: RunContext,
        *,
        given: bool = False,
    ) -> None:
        self._model, self._context, self._given = model, context, given
        graph, names = model.graph, g.Names(model.graph)
        for value in [v for v in graph.inputs if not v.uses() and not v.is_graph_output()]:
            graph.inputs.remove(value)
        self._widened = {v.name or "" for v in graph.inputs if v.name in halves}
        self._types = {v.name or "": v.dtype for v in graph.inputs}
        self._inputs = {
            name: _widened(graph, i, names) if name in self._widened else name for i, name in enumerate(self._types)
        }
        self._outputs = list(graph.outputs)
        asked = self._outputs[0]
        self._asked = asked.name or ""
        self._kept = [v.name or "" for v in self._outputs if v.name in kept]
        floats = [v for v in self._outputs if v.name in kept and v.dtype is ir.DataType.FLOAT]
        made = {v: _narrowed(graph, v, names) for v in floats}
        self._halves = {v.name or "": half.name or "" for v, half in made.items()}
        graph.outputs[:] = [asked, *(made.get(v, v) for v in self._outputs if v in made or v is not asked)]
        self._session = open_session(context.engine, model, given=given)
        self._exact: Session | None = None
        self._lock = Lock()

    def run(self, stored: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], Arrays]:
        """The value that is asked for, and those that are to be held, by name.

        Args:
            stored: What is held of a sample, the inputs among it.

        Raises:
            ModelError: The runtime refuses the sample.
        """
        feed = self._feed(stored)
        outputs = self._session.run(feed)
        found = {name: outputs[self._halves.get(name, name)] for name in self._kept}
        large = [name for name in self._halves if _is_too_large(found[name])]
        if large:
            exact = self._in_single().run(feed)
            found.update({name: exact[name] for name in large})
        return outputs[self._asked], {
            name: found[name] if name in self._halves else _packed(found[name]) for name in found
        }

    def outputs(self, stored: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """All outputs, of a part of which nothing is to be held.

        Raises:
            ModelError: The runtime refuses the sample.
        """
        found = self._session.run(self._feed(stored))
        return [found[value.name or ""] for value in self._outputs]

    def _feed(self, stored: Mapping[str, NDArray[Any]]) -> Arrays:
        return {given: self._single(name, stored[name]) for name, given in self._inputs.items()}

    def _single(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """A held tensor as the part takes it: some samples may be in half precision where others are not."""
        is_packed = array.dtype == np.float16 and self._types[name] is not ir.DataType.FLOAT16
        return array.astype(np.float32) if is_packed and name not in self._widened else array

    def _in_single(self) -> Session:
        """The part with outputs in single precision."""
        with self._lock:
            if self._exact is None:
                self._model.graph.outputs[:] = self._outputs
                self._exact = open_session(self._context.engine, self._model, given=self._given)
            return self._exact


def _widened(graph: ir.Graph, index: int, names: g.Names) -> str:
    """Have an input given in half precision; its name."""
    value = graph.inputs[index]
    half = ir.Value(name=names.unique(f"{value.name}_half"), shape=value.shape, type=ir.TensorType(ir.DataType.FLOAT16))
    cast = ir.node("Cast", [half], attributes={"to": ir.DataType.FLOAT.value})
    nodes = [cast]
    if g.opset(graph) >= LAYER_NORMALIZATION_OPSET and _is_normalized(value):
        nodes.append(ir.node("Max", [cast.outputs[0]]))  # changes nothing
    for node in nodes:
        made = node.outputs[0]
        made.name, made.shape, made.dtype = names.unique(f"{value.name}_single"), value.shape, ir.DataType.FLOAT
    single = nodes[-1].outputs[0]
    graph.inputs[index] = half
    value.replace_all_uses_with(single, replace_graph_outputs=True)
    single.name, value.name = value.name, f"{value.name}_unread"
    if len(graph):
        graph.insert_before(graph[0], nodes)
    else:
        graph.extend(nodes)
    return half.name or ""


def _is_normalized(value: ir.Value) -> bool:
    """Whether a value may be normalized by operators of their own.

    onnxruntime (1.32) makes one of them and of a Cast before them, and does not load the one that it made.
    """
    return any(user.op_type == "ReduceMean" for user, _ in value.uses())


def _narrowed(graph: ir.Graph, value: ir.Value, names: g.Names) -> ir.Value:
    """A value in half precision."""
    cast = ir.node("Cast", [value], attributes={"to": ir.DataType.FLOAT16.value})
    half = cast.outputs[0]
    half.name, half.shape, half.dtype = names.unique(f"{value.name}_half"), value.shape, ir.DataType.FLOAT16
    graph.append(cast)
    return half


def _is_too_large(half: NDArray[np.float16]) -> bool:
    """Whether a magnitude is beyond ``HALF_LIMIT``; integers are compared, which NumPy does faster."""
    return half.size > 0 and int((half.view(np.uint16) & _MAGNITUDE).max()) > _LIMIT


def _packed(array: NDArray[Any]) -> NDArray[Any]:
    """float32 of a value whose type the graph does not say as float16, where its range allows."""
    if array.dtype != np.float32 or array.size == 0 or float(np.abs(array).max()) > HALF_LIMIT:
        return array
    return array.astype(np.float16)
