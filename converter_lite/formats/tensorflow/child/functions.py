"""What ONNX does not have, or otherwise: Erfc (Keras' Gelu), Expm1, Log1p, Bucketize, quotients rounded down, numbers nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from converter_lite.formats.tensorflow.child.nodes import node_of

PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")

SIZES = ("Shape", "ShapeN", "Size", "Rank")

SEGMENTS = ("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum")

SMALLEST = 1e-30
"""By which nothing is divided, since Log1p(-1) is minus infinity."""


def spell_out_functions(graph: Any) -> None:
    """Make each Erfc(x) of a GraphDef 1 - Erf(x); Expm1(x) and Log1p(x) become expressions that keep small numbers.

    Tanh(x/2) (Exp(x) + 1), and Log(u) - ((u - 1) - x) / u, where u = 1 + x is rounded.
    """
    for node in [node for node in graph.node if node.op in ("Erfc", "Expm1", "Log1p")]:
        x = list(node.input[:1])  # these have no further ones but what must have run before, which changes nothing
        if node.op == "Erfc":
            _become(node, "Sub", [_number(graph, node, "one", 1), _add(graph, node, "erf", "Erf", x)])
            continue
        if node.op == "Log1p":
            one = _number(graph, node, "one", 1)
            more = _add(graph, node, "more", "AddV2", [*x, one])
            rounded = _add(graph, node, "rounded", "Sub", [_add(graph, node, "less", "Sub", [more, one]), *x])
            least = _add(graph, node, "positive", "Maximum", [more, _number(graph, node, "least", SMALLEST)])
            share = _add(graph, node, "share", "RealDiv", [rounded, least])
            _become(node, "Sub", [_add(graph, node, "log", "Log", [more]), share])
            continue
        half = _add(graph, node, "half_of_it", "Mul", [*x, _number(graph, node, "half", 0.5)])
        power = _add(graph, node, "exp", "Exp", x)
        more = _add(graph, node, "more", "AddV2", [power, _number(graph, node, "one", 1)])
        _become(node, "Mul", [_add(graph, node, "tanh", "Tanh", [half]), more])


def round_quotients_down(graph: Any) -> None:
    """Spell out each FloorDiv and FloorMod of integers that depend on numbers of an input, which may be negative.

    tf2onnx writes ONNX's Div, which cuts off. Sizes are never negative, and stay as they are.
    """
    by_name = {node.name: node for node in graph.node}
    for node in [node for node in graph.node if node.op in ("FloorDiv", "FloorMod")]:
        if not tf.dtypes.as_dtype(node.attr["T"].type).is_integer or not _is_fed(node, by_name):
            continue
        x, y = node.input[:2]
        quotient = _add(graph, node, "cut_off", "TruncateDiv", [x, y])
        rest = _add(graph, node, "rest", "Sub", [x, _add(graph, node, "whole", "Mul", [quotient, y])])
        signs = [_add(graph, node, f"sign_{name}", "Sign", [value]) for name, value in (("rest", rest), ("y", y))]
        product = _add(graph, node, "signs", "Mul", signs)
        below = _add(graph, node, "below", "Less", [product, _number(graph, node, "zero", 0)])
        one = graph.node.add(name=f"{node.name}/one_less", op="Cast", input=[below])
        one.attr["SrcT"].type, one.attr["DstT"].type = tf.bool.as_datatype_enum, node.attr["T"].type
        if node.op == "FloorDiv":
            _become(node, "Sub", [quotient, one.name])
        else:
            _become(node, "AddV2", [rest, _add(graph, node, "added", "Mul", [one.name, y])])


def count_boundaries(graph: Any) -> None:
    """Make each Bucketize of a GraphDef the number of boundaries that are not above an element."""
    for node in [node for node in graph.node if node.op == "Bucketize"]:
        kind = tf.float64 if node.attr["T"].type == tf.float64.as_datatype_enum else tf.float32
        boundaries = np.array(node.attr["boundaries"].list.f, kind.as_numpy_dtype)
        constants = {"boundaries": boundaries, "last_axis": np.array(-1, np.int32)}
        bounds, axis = (_constant(graph, node, name, array) for name, array in constants.items())
        value = _cast(graph, node, node.input[0], (tf.dtypes.as_dtype(node.attr["T"].type), kind))
        column = graph.node.add(name=f"{node.name}/column", op="ExpandDims", input=[value, axis])
        above = graph.node.add(name=f"{node.name}/above", op="Less", input=[column.name, bounds])
        below = graph.node.add(name=f"{node.name}/below", op="LogicalNot", input=[above.name])
        ones = _cast(graph, node, below.name, (tf.bool, tf.float32))  # devices add up floats
        count = graph.node.add(name=f"{node.name}/count", op="Sum", input=[ones, axis])
        for made, dtype in ((column, kind), (above, kind), (count, tf.float32)):
            made.attr["T"].type = dtype.as_datatype_enum
        node.ClearField("attr")
        node.attr["SrcT"].type, node.attr["DstT"].type = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
        _become(node, "Cast", [count.name])


def add_up_scattered(graph: Any) -> None:
    """Make each ScatterNd whose places may come twice a sum of zeros and what is scattered: tf2onnx keeps the last one."""
    by_name = {node.name: node for node in graph.node}
    for node in [node for node in graph.node if node.op == "ScatterNd"]:
        indices, updates, shape = node.input[:3]
        source = by_name.get(node_of(indices))
        if source is not None and source.op == "Const":
            places = tf.make_ndarray(source.attr["value"].tensor)
            if len(np.unique(places.reshape(-1, places.shape[-1]), axis=0)) == places.size // places.shape[-1]:
                continue
        zeros = graph.node.add(name=f"{node.name}/zeros", op="Fill", input=[shape, _number(graph, node, "zero", 0)])
        zeros.attr["T"].type, zeros.attr["index_type"].type = node.attr["T"].type, node.attr["Tindices"].type
        _become(node, "TensorScatterAdd", [zeros.name, indices, updates])


def leave_out_negatives(graph: Any) -> None:
    """Let numbers below zero be nowhere in each OneHot of a GraphDef; ONNX counts them from behind."""
    by_name = {node.name: node for node in graph.node}
    for node in [node for node in graph.node if node.op == "OneHot"]:
        indices, depth = node.input[:2]
        kind, source = tf.dtypes.as_dtype(node.attr["TI"].type), by_name.get(node_of(indices))
        if kind.is_unsigned or (source is not None and source.op == "ArgMax"):
            continue
        node.attr["T"].type, kept = kind.as_datatype_enum, node.attr["T"].type
        is_below = _add(graph, node, "is_below", "Less", [indices, _number(graph, node, "zero", 0)])
        beyond = _cast(graph, node, depth, (tf.int32, kind))
        node.input[0] = _add(graph, node, "indices", "SelectV2", [is_below, beyond, indices])
        node.attr["T"].type = kept


def drop_negative_segments(graph: Any) -> None:
    """Put rows whose segment is below zero into one more segment, which is cut off; ONNX counts such numbers from behind."""
    by_name = {node.name: node for node in graph.node}
    for node in [node for node in graph.node if node.op in SEGMENTS]:
        rows, numbers, count = node.input[:3]
        source, kinds = by_name.get(node_of(numbers)), [node.attr[name] for name in ("Tnumsegments", "Tindices")]
        if source is not None and source.op == "Const" and np.all(tf.make_ndarray(source.attr["value"].tensor) >= 0):
            continue
        size, kind = (tf.dtypes.as_dtype(attribute.type) for attribute in kinds)
        found = graph.node.add()
        found.CopyFrom(node)
        found.name = f"{node.name}/with_rest"
        node.ClearField("attr")
        node.attr["T"].type = kind.as_datatype_enum
        is_below = _add(graph, node, "is_below", "Less", [numbers, _number(graph, node, "first", 0)])
        beyond = _cast(graph, node, count, (size, kind))
        chosen = _add(graph, node, "numbers", "SelectV2", [is_below, beyond, numbers])
        node.attr["T"].type = size.as_datatype_enum
        more = _add(graph, node, "count", "AddV2", [count, _number(graph, node, "one", 1)])
        found.input[:] = [rows, chosen, more]
        ends = graph.node.add(name=f"{node.name}/end", op="ExpandDims", input=[count, _number(graph, node, "axis", 0)])
        ends.attr["T"].type = ends.attr["Tdim"].type = size.as_datatype_enum
        begin, step = (
            _constant(graph, node, name, np.full(1, number, size.as_numpy_dtype))
            for name, number in (("begin", 0), ("step", 1))
        )
        node.attr["T"].type, node.attr["Index"].type = found.attr["T"].type, size.as_datatype_enum
        _become(node, "StridedSlice", [found.name, begin, ends.name, step])


def bound_segments(graph: Any) -> None:
    """Let segments without elements have the largest finite number, and its negative, which tf2onnx makes infinite."""
    for node in [node for node in graph.node if node.op in ("UnsortedSegmentMax", "UnsortedSegmentMin")]:
        kind = tf.dtypes.as_dtype(node.attr["T"].type)
        if not kind.is_floating:
            continue
        found = graph.node.add()
        found.CopyFrom(node)
        found.name, is_largest = f"{node.name}/segments", node.op == "UnsortedSegmentMax"
        bound = _constant(graph, node, "bound", np.array(kind.min if is_largest else kind.max, kind.as_numpy_dtype))
        node.ClearField("attr")
        node.attr["T"].type = kind.as_datatype_enum
        _become(node, "Maximum" if is_largest else "Minimum", [found.name, bound])


def _is_fed(node: Any, by_name: Mapping[str, Any]) -> bool:
    """Whether a node depends on the numbers of an input, and not on its sizes alone."""
    pending, seen = [node], {node.name}
    while pending:
        current = pending.pop()
        if current.op in PLACEHOLDERS:
            return True
        if current.op in SIZES:
            continue
        for name in map(node_of, current.input):
            if name in by_name and name not in seen:
                seen.add(name)
                pending.append(by_name[name])
    return False


def _number(graph: Any, node: Any, name: str, number: float) -> str:
    kind = tf.dtypes.as_dtype(node.attr["T"].type).as_numpy_dtype
    return _constant(graph, node, name, np.array(number, kind))


def _constant(graph: Any, node: Any, name: str, array: NDArray[Any]) -> str:
    made = graph.node.add(name=f"{node.name}/{name}", op="Const")
    made.attr["dtype"].type = tf.dtypes.as_dtype(array.dtype).as_datatype_enum
    made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
    return str(made.name)


def _cast(graph: Any, node: Any, value: str, kinds: tuple[Any, Any]) -> str:
    """The value as another type."""
    made = graph.node.add(name=f"{node.name}/{kinds[1].name}_of_{kinds[0].name}", op="Cast", input=[value])
    made.attr["SrcT"].type, made.attr["DstT"].type = (kind.as_datatype_enum for kind in kinds)
    return str(made.name)


def _add(graph: Any, node: Any, name: str, op: str, inputs: Sequence[str]) -> str:
    made = graph.node.add(name=f"{node.name}/{name}", op=op)
    made.input.extend(inputs)
    made.attr["T"].type = node.attr["T"].type
    return str(made.name)


def _become(node: Any, op: str, inputs: Sequence[str]) -> None:
    node.op = op
    del node.input[:]
    node.input.extend(inputs)
