"""Element types of a model's inputs and outputs, as the user asked for them.

Rules:

1. An int8 or uint8 input that the graph quantizes immediately takes the integers: its QuantizeLinear is removed. Likewise for an
   output that comes from a DequantizeLinear. The Cast between a float16 input or output and the float32 inside goes with it.
2. Any other change is a Cast at the border.
3. An input that nothing reads takes any type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import TargetError
from converter_lite.passes.rewrite import cast_of, replace
from converter_lite.runtime.engine import Feed, Session

TYPES = {
    "FLOAT16": ir.DataType.FLOAT16,
    "FLOAT": ir.DataType.FLOAT,
    "INT8": ir.DataType.INT8,
    "UINT8": ir.DataType.UINT8,
    "INT32": ir.DataType.INT32,
    "INT64": ir.DataType.INT64,
}
"""Values of ``--inputDataType`` and ``--outputDataType`` besides DEFAULT."""

Grid = tuple[NDArray[np.generic], NDArray[np.generic]]
"""Scale and zero point."""

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)
_QUANTIZED = (ir.DataType.INT8, ir.DataType.UINT8)


@dataclass(frozen=True, slots=True)
class IoTypes:
    """Wanted element types; ``DEFAULT`` keeps what the model has."""

    inputs: str = "DEFAULT"
    outputs: str = "DEFAULT"


UNCHANGED_TYPES = IoTypes()
"""The interface of the model."""


def change_io_types(model: ir.Model, wanted: IoTypes) -> None:
    """Give the graph the wanted interface, in place.

    Raises:
        TargetError: An input or output cannot have the type; it is named.
    """
    if wanted.inputs != "DEFAULT":
        for value in list(model.graph.inputs):
            _change_input(model.graph, value, TYPES[wanted.inputs])
    if wanted.outputs != "DEFAULT":
        for value in dict.fromkeys(model.graph.outputs):
            _change_output(model.graph, value, TYPES[wanted.outputs])


def feed_for(model: ir.Model, original: Feed) -> dict[str, NDArray[np.generic]]:
    """A feed of the original types, converted for a graph whose inputs :func:`change_io_types` changed."""
    feed: dict[str, NDArray[np.generic]] = {}
    for value in model.graph.inputs:
        array = original[value.name or ""]
        grid = value.meta.get("grid")
        if grid is not None:
            scale, zero_point = grid
            info = np.iinfo(zero_point.dtype)
            integers = np.clip(np.rint(array / scale) + zero_point, info.min, info.max)
            feed[value.name or ""] = np.asarray(integers, zero_point.dtype)
        else:
            dtype = value.dtype.numpy() if value.dtype is not None else array.dtype
            feed[value.name or ""] = array.astype(dtype, copy=False)
    return feed


def computed_input(value: ir.Value) -> ir.Value:
    """What the graph computes with where it reads an input: the float32 that a Cast makes of a float16 one."""
    reader = g.single_consumer(value)
    is_widened = reader is not None and reader.op_type == "Cast" and value.dtype == ir.DataType.FLOAT16
    return reader.outputs[0] if reader is not None and is_widened and _is_inner(reader.outputs[0]) else value


def computed_output(value: ir.Value) -> ir.Value:
    """What the graph computes where it gives an output: the float32 that a Cast makes a float16 one of."""
    producer = value.producer()
    source = producer.inputs[0] if producer is not None and producer.op_type == "Cast" else None
    is_narrowed = source is not None and value.dtype == ir.DataType.FLOAT16 and not value.uses() and _is_inner(source)
    return source if source is not None and is_narrowed and source.producer() is not None else value


def _is_inner(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.FLOAT and not value.is_graph_output()


class RealOutputs:
    """A session whose integer outputs are returned as the real numbers they represent."""

    def __init__(self, session: Session, model: ir.Model) -> None:
        self._session = session
        self._grids = {str(value.name): value.meta["grid"] for value in model.graph.outputs if "grid" in value.meta}
        self.output_names = session.output_names

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """See :class:`converter_lite.runtime.engine.Session`."""
        outputs = self._session.run(feed)
        for name, (scale, zero_point) in self._grids.items():
            outputs[name] = (outputs[name].astype(np.float32) - zero_point) * scale
        return outputs


def _change_input(graph: ir.Graph, value: ir.Value, wanted: ir.DataType) -> None:
    if value.dtype in (wanted, None) or not _is_sensible(value.dtype, wanted):
        if value.dtype != wanted and value.dtype in _FLOATS:
            _refuse("input", value, wanted)
        return
    if value.is_graph_output():
        raise TargetError(
            f"the input cannot have type {wanted.name}: it is an output, too",
            where=f"input {value.name}",
            hint="leave --inputDataType at DEFAULT",
        )
    inner = computed_input(value) if wanted in _QUANTIZED else value
    widening = inner.producer()
    readers = [node for node, _ in inner.uses()]
    if not readers:
        if wanted in _QUANTIZED:
            value.meta["grid"] = np.ones((), np.float32), np.zeros((), wanted.numpy())
    elif wanted in _QUANTIZED:
        quantize = readers[0] if len(readers) == 1 and readers[0].op_type == "QuantizeLinear" else None
        grid = _grid(quantize, None if quantize is None else quantize.outputs[0])
        found = None if grid is None else ir.DataType.from_numpy(grid[1].dtype)
        if quantize is None or grid is None or found != wanted:
            _refuse("input", value, wanted, found)
            return
        if quantize.outputs[0].is_graph_output():
            replace([quantize], ir.node("Identity", [value]))
        else:
            quantize.outputs[0].replace_all_uses_with(value)
            graph.remove(quantize, safe=True)
        if widening is not None:
            graph.remove(widening, safe=True)
        value.meta["grid"] = grid
    else:
        name = f"{value.name}_cast"
        cast = cast_of(graph, value, value.dtype or wanted, name=name, result=name)
        for node, position in list(value.uses()):
            node.replace_input_with(position, cast.outputs[0])
        cast.replace_input_with(0, value)
        graph.insert_before(next(iter(graph)), cast)
    # Clones share the type object: it is replaced, not changed.
    value.type = ir.TensorType(wanted)


def _change_output(graph: ir.Graph, value: ir.Value, wanted: ir.DataType) -> None:
    if value.dtype in (wanted, None) or not _is_sensible(value.dtype, wanted):
        if value.dtype != wanted and value.dtype in _FLOATS:
            _refuse("output", value, wanted)
        return
    name, narrowing, inner = value.name, value.producer(), computed_output(value)
    if wanted in _QUANTIZED:
        producer = inner.producer()
        source = producer.inputs[0] if producer is not None and producer.op_type == "DequantizeLinear" else None
        grid = _grid(producer, source)
        if producer is None or source is None or grid is None or source.dtype != wanted:
            _refuse("output", value, wanted, None if source is None or grid is None else source.dtype)
            return
        if source.producer() is None or source.is_graph_output():  # it has a name of its own
            copy = ir.node("Identity", [source], name=f"{producer.name}_copy")
            copy.outputs[0].dtype = source.dtype
            graph.append(copy)
            source = copy.outputs[0]
        source.meta["grid"] = grid
        value.name = g.unique_name(graph, f"{name}_dequantized")
        source.name, source.shape = name, value.shape
        g.replace_output(graph, value, source)
        if narrowing is not None and inner is not value:
            graph.remove(narrowing, safe=True)
        if not inner.uses():
            graph.remove(producer, safe=True)
        return
    cast = cast_of(graph, value, wanted, name=f"{name}_cast", result=f"{name}_cast")
    value.name, cast.outputs[0].name = cast.outputs[0].name, name
    graph.append(cast)
    g.replace_output(graph, value, cast.outputs[0])


def _grid(node: ir.Node | None, integers: ir.Value | None) -> Grid | None:
    """Constant scale and zero point of a node that quantizes or dequantizes a whole tensor; a zero point left out is 0."""
    if node is None or integers is None:
        return None
    scale, given = g.constant(node.inputs[1]), g.input_at(node, 2)
    none = np.zeros((), (integers.dtype or ir.DataType.UINT8).numpy())
    zero_point = none if given is None else g.constant(given)
    return None if scale is None or scale.size != 1 or zero_point is None else (scale, zero_point)


def _is_sensible(have: ir.DataType | None, wanted: ir.DataType) -> bool:
    """Float interfaces become float or quantized ones, integer interfaces other integers."""
    integers = (ir.DataType.INT32, ir.DataType.INT64)
    if have in _FLOATS:
        return wanted in _FLOATS or wanted in _QUANTIZED
    return have in integers and wanted in integers


def _refuse(kind: str, value: ir.Value, wanted: ir.DataType, found: ir.DataType | None = None) -> None:
    """Refuse a type; ``found`` is that to which the tensor is quantized, if it is."""
    what, hint = f"it has type {value.dtype}", f"leave --{kind}DataType at DEFAULT, or use FLOAT or FLOAT16"
    if found in _QUANTIZED and found is not None:
        what, hint = f"it is quantized to {found.name}", f"use --{kind}DataType={found.name}, or leave it at DEFAULT"
    elif wanted in _QUANTIZED:
        what = "it is not quantized"
    raise TargetError(f"the {kind} cannot have type {wanted.name}: {what}", where=f"{kind} {value.name}", hint=hint)
