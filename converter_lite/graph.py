"""Queries and small edits on an ``onnx_ir`` graph that every other part needs.

Names: after :func:`assign_names` every node and value has a unique non-empty name. A pass that merges nodes calls
:func:`absorb_names`, so that :func:`find_nodes` still finds the node that does the work of an original one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import copysign, inf, prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

ALIASES = "aliases"
"""Key of ``node.meta``: names of original nodes and tensors whose work this node does now."""

FREQUENCIES = "frequencies"
"""Key of ``value.meta``: a constant holds the cosines and sines of a Fourier transform."""

LENGTH = "length"
"""Key of ``value.meta``: places that other operators count from the front now; the size of their shortest axis."""

FLOAT_MAX = float(np.finfo(np.float32).max)

KEPT_BELOW = 1 << 19
"""Elements from which a lazily decoded weight is not kept but decoded at every read."""


def assign_names(model: ir.Model) -> None:
    """Give every unnamed node a name from its operator and position, and make names unique; outputs likewise.

    A generated name never takes one that another node of the file carries. Outputs that the file leaves out (empty
    name: an optional output nobody asked for) stay left out.
    """
    nodes = list(all_nodes(model.graph))
    given = {node.name for node in nodes if node.name}
    taken: set[str] = set()
    for index, node in enumerate(nodes):
        name = node.name or unique_among(f"{node.op_type}_{index}", given)
        node.name = unique_among(name, taken)
        node.meta.setdefault(ALIASES, set()).update({name, node.name})
        for output in node.outputs:
            if output.name is None:
                output.name = f"{node.name}_output_{output.index()}"
            if output.name:
                node.meta[ALIASES].add(output.name)


def unique_among(name: str, taken: set[str]) -> str:
    """``name``, with a number appended if it is taken; the result counts as taken from now on."""
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    taken.add(candidate)
    return candidate


def all_nodes(graph: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    """Nodes of a graph or local function and of its subgraphs (If, Loop bodies), in order."""
    for node in graph:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """The graphs that a node runs (If, Loop, Scan)."""
    found: list[ir.Graph] = []
    for attr in node.attributes.values():
        if attr.type is ir.AttributeType.GRAPH:
            found.append(attr.as_graph())
        elif attr.type is ir.AttributeType.GRAPHS:
            found += attr.as_graphs()
    return found


def values_read(node: ir.Node) -> list[ir.Value]:
    """Inputs of a node and of the nodes in its subgraphs."""
    inner = [n for graph in subgraphs(node) for n in all_nodes(graph)]
    return [value for n in (node, *inner) for value in n.inputs if value is not None]


@dataclass(frozen=True, slots=True)
class Section:
    """What computes some values of a graph.

    Attributes:
        nodes: Nodes, sorted.
        constants: Initializers that they read, in the order in which they are met; so are the inputs.
        inputs: Given values that they read.
    """

    nodes: list[ir.Node]
    constants: list[ir.Value]
    inputs: list[ir.Value]


def section(graph: ir.Graph, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> Section:
    """The part of a graph that computes ``outputs`` from ``inputs`` and constants.

    Raises:
        ValueError: The outputs depend on another input of the graph, which is named.
    """
    known = set(inputs)
    constants = dict.fromkeys(value for value in inputs if value.is_initializer())
    read: dict[ir.Value, None] = {}
    nodes: dict[ir.Node, None] = {}
    entered: set[ir.Node] = set()
    pending: list[ir.Value | ir.Node] = list(reversed(outputs))
    while pending:
        item = pending.pop()
        if isinstance(item, ir.Node):  # what it reads is there already
            nodes[item] = None
            continue
        if item in known:
            read[item] = None
            continue
        producer = item.producer()
        if producer in entered or item.graph is not graph:
            continue
        if producer is not None:
            entered.add(producer)
            pending += [producer, *reversed(values_read(producer))]
        elif item.is_initializer():
            constants[item] = None
        else:
            raise ValueError(f"the part depends on the input {item.name}")
    return Section(list(nodes), list(constants), list(read))


def extracted(graph: ir.Graph, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Graph:
    """A copy of the :func:`section` of a graph.

    The time is that of the part; ``onnx_ir.convenience.extract`` reads the whole graph.

    Raises:
        ValueError: The outputs depend on another input of the graph, which is named.
    """
    found = section(graph, inputs, outputs)
    view = ir.GraphView(
        inputs,
        outputs,
        nodes=found.nodes,
        initializers=tuple(found.constants),
        opset_imports=graph.opset_imports,
        name=graph.name,
    )
    part = view.clone()
    given = {value.name for value in part.inputs}
    for output in [output for node in part for output in node.outputs if output.name in given]:
        output.name = f"{output.name}_computed"  # another output of its node is needed, and is not given
    return part


def separate_names(graph: ir.Graph) -> None:
    """Rename values of inner graphs that are called like one of the main graph, which the standard forbids.

    Branches may share names, until what one of them computes moves into the main graph.
    """
    inner = [value for node in all_nodes(graph) for body in subgraphs(node) for value in values_of(body)]
    outer = {value.name for value in values_of(graph)} if inner else set()
    taken = {value.name or "" for value in (*inner, *values_of(graph))} if inner else set()
    for value in inner:
        if value.name and value.name in outer:
            value.name = unique_among(value.name, taken)


def values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    """What a graph itself names, without its inner graphs: inputs, constants and results."""
    yield from dict.fromkeys((*graph.inputs, *graph.initializers.values()))
    for node in graph:
        yield from node.outputs


def absorb_names(kept: ir.Node, removed: Iterable[ir.Node]) -> None:
    """Record that ``kept`` does the work of ``removed``, so that their names still find a node."""
    aliases = kept.meta.setdefault(ALIASES, {kept.name})
    for node in removed:
        aliases.update(node.meta.get(ALIASES, {node.name}))


def find_nodes(graph: ir.Graph, name: str) -> list[ir.Node]:
    """Nodes that have this name now, or do the work of the original node or tensor of this name."""
    exact = [node for node in all_nodes(graph) if node.name == name]
    return exact or [node for node in all_nodes(graph) if name in node.meta.get(ALIASES, ())]


def observation(what: str, index: int) -> str:
    """Name of an output that is added to observe a model. PyTorch calls tensors ``sum_1`` or ``mean_2``; nobody uses these."""
    return f"converter_lite/{what}/{index}"


def known_names(graph: ir.Graph) -> set[str]:
    """Every name that :func:`find_nodes` accepts."""
    return {str(alias) for node in all_nodes(graph) for alias in {node.name, *node.meta.get(ALIASES, ())}}


def label(node: ir.Node) -> str:
    """``name (Operator)``, as messages show a node."""
    return f"{node.name} ({node.op_type})"


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """The input of this position, ``None`` when it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def constant(value: ir.Value | None) -> NDArray[Any] | None:
    """The array of an initializer; ``None`` for activations and overridable defaults."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def floats(value: ir.Value | None) -> NDArray[np.float32]:
    """:func:`constant` as float32, of a value that is known to be one."""
    array = constant(value)
    assert array is not None
    return array.astype(np.float32, copy=False)


def is_constant(value: ir.Value | None) -> bool:
    """Whether :func:`constant` would return an array, without loading it."""
    return value is not None and value.const_value is not None and not value.is_graph_input()


def scalar(value: ir.Value | None) -> float | None:
    """The number in a one-element constant, else ``None``."""
    if not is_constant(value):
        return None
    array = constant(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def clamp_bounds(node: ir.Node) -> tuple[float, float] | None:
    """Constant ``(lowest, highest)`` result of a Relu or Clip, infinite where unbounded; ``None`` for all else.

    ReLU6 has no operator in ONNX: it is the Clip for which this returns ``(0.0, 6.0)``.
    """
    if node.domain or node.op_type not in ("Relu", "Clip"):
        return None
    if node.op_type == "Relu":
        return 0.0, inf
    low, high = _bound(node, 1, "min", -inf), _bound(node, 2, "max", inf)
    return None if low is None or high is None else (low, high)


def _bound(node: ir.Node, index: int, name: str, default: float) -> float | None:
    """One bound: an attribute before opset 11, an input since; infinite where it is the largest float."""
    attr, value = node.attributes.get(name), input_at(node, index)
    if attr is None and value is None:
        return default
    bound = scalar(value) if attr is None else attr.as_float()
    return copysign(inf, bound) if bound is not None and abs(bound) >= FLOAT_MAX else bound


def holds_numbers(value: ir.Value) -> bool:
    """Whether a value is a tensor of numbers as far as its type is known: neither of texts, nor a sequence or an optional one."""
    return value.type is None or (isinstance(value.type, ir.TensorType) and value.dtype is not ir.DataType.STRING)


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape when every dimension is known, else ``None``."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return value.shape.numpy()


def channel_axis(rank: int) -> int:
    """Axis of an activation that runs over channels: 1 from rank 3 on, else the last."""
    return 1 if rank > 2 else rank - 1


def add_initializer(
    graph: ir.Graph,
    name: str,
    array: NDArray[np.generic],
    *,
    dtype: ir.DataType | None = None,
    names: Names | None = None,
) -> ir.Value:
    """Register a constant under a name made unique in the graph (with ``names``: among those), and return its value."""
    return add_tensor(graph, name, ir.Tensor(np.asarray(array, order="C"), dtype=dtype), names=names)


def add_tensor(graph: ir.Graph, name: str, tensor: ir.TensorProtocol, *, names: Names | None = None) -> ir.Value:
    """:func:`add_initializer` for a constant that need not be in memory; the tensor is renamed."""
    tensor.name = unique_name(graph, name) if names is None else names.unique(name)
    value = ir.Value(
        name=tensor.name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def load_constants(model: ir.Model, *, largest: int | None = None) -> None:
    """Read constants that lie in files into memory. The files may stay open for others, which the library's function refuses.

    Args:
        model: Changed in place.
        largest: Bytes; larger constants of the main graph stay in their files.
    """
    for value in (value for graph in model.graphs() for value in graph.initializers.values()):
        tensor = value.const_value
        stays = largest is not None and value.graph is model.graph and tensor is not None and tensor.nbytes > largest
        if isinstance(tensor, ir.ExternalTensor) and not stays:
            value.const_value = ir.Tensor(tensor.numpy().copy(), name=tensor.name, dtype=tensor.dtype)


def lazy_tensor(
    make: Callable[[], NDArray[np.generic]],
    dtype: ir.DataType,
    shape: Sequence[int],
    *,
    name: str = "",
    keep_small: bool = False,
) -> ir.LazyTensor:
    """A constant that ``make`` computes at every read, or only at the first (``keep_small``, below ``KEPT_BELOW`` elements)."""
    kept = keep_small and prod(shape) < KEPT_BELOW
    return ir.LazyTensor(lambda: ir.Tensor(make(), dtype=dtype), dtype, ir.Shape(shape), cache=kept, name=name)


def replace_output(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Give a value instead of another one, wherever that is an output of the graph: a tensor may be several outputs."""
    for place, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[place] = new


class Names:
    """Names of the values of a graph, for code that adds many: :func:`unique_name` walks the graph for each.

    Args:
        graph: The graph; names that are added to it in other ways are not known here.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._taken = {value.name or "" for value in values_of(graph)}

    def unique(self, name: str) -> str:
        """See :func:`unique_among`."""
        return unique_among(name, self._taken)


def unique_name(graph: ir.Graph, name: str) -> str:
    """``name``, with a number appended if a value of the graph has that name already."""
    return Names(graph).unique(name)


def is_read(value: ir.Value) -> bool:
    """Whether a node reads a value, or it is an output of the graph."""
    return bool(value.uses()) or value.is_graph_output()


def single_consumer(value: ir.Value) -> ir.Node | None:
    """The only node that reads ``value``, or ``None`` if there are more, none, or the value is a graph output."""
    uses = value.uses()
    if len(uses) != 1 or value.is_graph_output():
        return None
    return next(iter(uses)).node


def attribute(node: ir.Node, name: str, default: object = None) -> object:
    """Value of an attribute as a Python object (int, float, str, list), or ``default`` when it is absent."""
    attr = node.attributes.get(name)
    return default if attr is None else attr.value


def int_attribute(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute with its default."""
    attr = node.attributes.get(name)
    return default if attr is None else int(attr.as_int())


def float_attribute(node: ir.Node, name: str, default: float) -> float:
    """A float attribute with its default."""
    attr = node.attributes.get(name)
    return default if attr is None else float(attr.value)


def text_attribute(node: ir.Node, name: str, default: str) -> str:
    """A string attribute with its default."""
    attr = node.attributes.get(name)
    return default if attr is None else str(attr.value)


def ints_attribute(node: ir.Node, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
    """An integer-list attribute with its default."""
    attr = node.attributes.get(name)
    return default if attr is None else tuple(int(i) for i in attr.as_ints())


def window_pads(
    node: ir.Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Padding of a window that moves over spatial axes, ``(begin..., end...)``, with ``auto_pad`` resolved.

    ``size`` is that of the input, which only ``SAME_UPPER`` and ``SAME_LOWER`` ask for. Source: ONNX operator specification.
    """
    mode, none = text_attribute(node, "auto_pad", "NOTSET"), (0,) * (2 * len(kernel))
    if mode in ("NOTSET", ""):
        return ints_attribute(node, "pads", none)
    if mode == "VALID":
        return none
    totals = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def opset(model: ir.Model | ir.Graph) -> int:
    """Version of the default ONNX operator set."""
    return model.opset_imports.get("", 1)
