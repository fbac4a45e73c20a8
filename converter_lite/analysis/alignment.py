"""Which tensor of a quantized graph is which tensor of the float graph.

Rules:

1. By name, without what quantizers append to it. The integers in front of a DequantizeLinear are preferred to real numbers: they
   are what the next layer reads.
2. By position: operators between tensors that were matched by name correspond if they compute the same on the same number of
   elements, in the same order. A tensor between a layer and its Relu or Clip is left out if the latter is matched.
3. A Relu or Clip belongs to the layer before, whether the quantized graph does it by saturation or has it, too: grids saturate
   where it cuts off, and equalization may give channels that it cuts off any values.
4. A BatchNormalization, or its Mul and Add, that the quantized graph lacks is folded into the layer before, whatever the result
   of that layer is called: the tensor is the one behind it.
5. A float tensor whose only reader, directly or through others like it, makes a matched tensor is part of that layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from math import prod

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.analysis.taps import STEPS, Tap, plain_names, readers, tap_of
from converter_lite.formats.onnx.qdq import GRIDS
from converter_lite.targets.operators import OPERATORS, Role

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

BY_NAME, BY_POSITION = "name", "position"

KINDS = {
    "QLinearConv": "Conv",
    "ConvInteger": "Conv",
    "QLinearMatMul": "MatMul",
    "MatMulInteger": "MatMul",
    "Gemm": "MatMul",
    "QGemm": "MatMul",
    "QLinearAdd": "Add",
    "QLinearMul": "Mul",
    "QLinearConcat": "Concat",
    "QLinearSigmoid": "Sigmoid",
    "QLinearSoftmax": "Softmax",
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
}
"""Operators that compute what another one does."""

UNINFORMATIVE = STEPS | {"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "DynamicQuantizeLinear"}
"""Operators that formats add or leave out; they say nothing about the position."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A tensor that both graphs have, and the nodes that make it.

    Attributes:
        tensor: Its name in the float graph.
        tap: Where it is in the quantized graph.
        matched: ``name`` or ``position``.
        nodes: Names of the float nodes of the layer, in order; the last one makes the tensor.
        op_type: Operator of the layer: its first with a weight, else the last.
        shapes: For one sample, in the float and in the quantized graph; they may differ in axes of 1.
    """

    tensor: str
    tap: Tap
    matched: str
    nodes: tuple[str, ...]
    op_type: str
    shapes: tuple[Shape, Shape]


@dataclass(slots=True)
class Alignment:
    """All layers in float graph order, and what has no counterpart.

    Attributes:
        layers: Tensors of both graphs.
        unmatched: Float tensors without a counterpart that are part of no layer.
        unmatched_quantized: Number of results of the quantized graph that no float tensor corresponds to.
    """

    layers: list[Layer] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    unmatched_quantized: int = 0


def align(
    reference: ir.Model, quantized: ir.Model, *, optimized: ir.Model, shapes: Shapes, quantized_shapes: Shapes
) -> Alignment:
    """Find the layers.

    Args:
        reference: Float graph.
        quantized: Graph with integers.
        optimized: The float graph with everything folded that quantizers fold, tensors named as in ``reference``; for rule 2.
        shapes: Shape of every float result for one sample; tensors that are not in it are left out.
        quantized_shapes: The same of the quantized graph.
    """
    tensors = [o for node in reference.graph for o in node.outputs if o.name in shapes]
    found = {name: (tap, BY_NAME) for name, tap in _by_name(tensors, quantized).items()}
    theirs = {value.name: value for node in quantized.graph for value in node.outputs}
    for past in (_past_folded, _past_saturated):
        found = _moved(tensors, found, past(theirs))
    found = {n: m for n, m in found.items() if _is_alike(shapes[n], quantized_shapes.get(m[0].value))}
    known = {tap.entry: name for name, (tap, _) in found.items()}
    folded = [o for node in optimized.graph for o in node.outputs if o.name in shapes]
    for name, tap in _by_position(folded, quantized, known, shapes, quantized_shapes).items():
        found.setdefault(name, (tap, BY_POSITION))
    found = {n: m for n, m in found.items() if _is_alike(shapes[n], quantized_shapes.get(m[0].value))}
    found = _last_of_each_entry(tensors, found)
    for output, given in _outputs(reference, quantized):
        name, seen = output.name or "", _output_tap(output, given)
        if name in shapes and _is_alike(shapes[name], quantized_shapes.get(given.name or "")):
            found.pop(name, None)
            found |= {} if seen is None else {name: (seen, BY_NAME)}
    outputs = {value.name for value in reference.graph.outputs}
    inner = {value.name for value in tensors if _ends_in(value, set(found))} - outputs
    found = {name: match for name, match in found.items() if name not in inner}
    owner = _owners(tensors, set(found))
    nodes: dict[str, list[ir.Node]] = {}
    for value in tensors:
        if (node := value.producer()) is not None and (last := owner.get(value.name or "")) is not None:
            nodes.setdefault(last, []).append(node)
    layers = [
        _layer(name, match, nodes[name], (shapes[name], quantized_shapes[match[0].value]))
        for value in tensors
        if (match := found.get(name := value.name or "")) is not None
    ]
    left = [value.name for value in tensors if value.name and owner.get(value.name) is None]
    return Alignment(layers, left, _left_over(quantized, {layer.tap for layer in layers}))


def _outputs(reference: ir.Model, quantized: ir.Model) -> Iterable[tuple[ir.Value, ir.Value]]:
    """Outputs of both graphs by name where these are the same, in whatever order, else by their places."""
    ours, theirs = reference.graph.outputs, quantized.graph.outputs
    named = {value.name: value for value in theirs}
    same = {value.name for value in ours} == named.keys()
    return zip(ours, [named[value.name] for value in ours] if same else theirs, strict=False)


def _output_tap(output: ir.Value, given: ir.Value) -> Tap | None:
    """How to look at an output as users get it; ``None`` for integers that stand for real numbers with an unknown grid."""
    tap, name = tap_of(given), given.name or ""
    is_grid = given.dtype in GRIDS and output.dtype not in GRIDS
    return Tap(name, name) if not is_grid else tap


def _is_alike(shape: Shape, other: Shape | None) -> bool:
    """Whether shapes differ in axes of 1 at most, which devices need that have no kernels for one-dimensional layers."""
    return other is not None and [n for n in shape if n != 1] == [n for n in other if n != 1]


def _by_name(tensors: Sequence[ir.Value], quantized: ir.Model) -> dict[str, Tap]:
    names = {value.name for value in tensors}
    found: dict[str, Tap] = {}
    for node in quantized.graph:
        for output in node.outputs:
            name = next((text for text in plain_names(output.name or "") if text in names), None)
            tap = tap_of(output) if name is not None else None
            if name is None or tap is None:
                continue
            if name not in found or (found[name].params is None and tap.params is not None):
                found[name] = tap
    return found


Behind = Callable[[ir.Value, Tap], ir.Value | None]
"""The float tensor that is really at a place of the quantized graph, if it is another one than that of the same name."""


def _moved(
    tensors: Sequence[ir.Value], found: Mapping[str, tuple[Tap, str]], behind: Behind
) -> dict[str, tuple[Tap, str]]:
    """Tensors behind others in the place of those."""
    moved = dict(found)
    for value in tensors:
        target = behind(value, found[value.name][0]) if value.name and value.name in found else None
        if target is not None and target.name and target.name not in found:
            moved[target.name] = moved.pop(value.name or "")
    return moved


def _past_folded(values: Mapping[str | None, ir.Value]) -> Behind:
    """What is behind a normalization that is folded (rule 4)."""

    def behind(value: ir.Value, tap: Tap) -> ir.Value | None:
        entry, producer = values.get(tap.entry), value.producer()
        if entry is None or producer is None or not _is_weighted(producer):
            return None
        return _behind_normalization(value, {node.op_type for node in readers(entry)})

    return behind


def _past_saturated(values: Mapping[str | None, ir.Value]) -> Behind:
    """What is behind a Relu or Clip that the grid of integers does (rule 3)."""

    def behind(value: ir.Value, tap: Tap) -> ir.Value | None:
        other = values.get(tap.value) if tap.params is not None else None
        return None if other is None else _saturated(value, other)

    return behind


def _behind_normalization(value: ir.Value, kept: set[str]) -> ir.Value | None:
    """The result of the normalization that reads a value, ``None`` without one, or where one of its operators is kept."""
    last = None
    while (node := g.single_consumer(value)) is not None and _is_normalization(node) and node.op_type not in kept:
        last = value = node.outputs[0]
    return last


def _is_normalization(node: ir.Node) -> bool:
    """Whether a node is one of the operators that folding makes a part of a layer."""
    if node.op_type == "BatchNormalization":
        return True
    return node.op_type in ("Mul", "Add", "Sub", "Div") and any(map(g.is_constant, node.inputs))


def _is_weighted(node: ir.Node) -> bool:
    entry = OPERATORS.get(node.op_type)
    return entry is not None and entry.role is Role.WEIGHTED


def _by_position(
    tensors: Sequence[ir.Value], quantized: ir.Model, known: Mapping[str, str], shapes: Shapes, given: Shapes
) -> dict[str, Tap]:
    names = set(known.values())
    ours = [value for value in tensors if _is_informative(value)]
    theirs = [o for node in quantized.graph for o in node.outputs[:1] if _is_informative(o) and o.name in given]
    left = [_key(value, shapes, value.name if value.name in names else None) for value in ours]
    right = [_key(value, given, known.get(value.name or "")) for value in theirs]
    found: dict[str, Tap] = {}
    for i, j, size in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        for value, other in zip(ours[i : i + size], theirs[j : j + size], strict=True):
            target = _saturated(value, other) or value
            tap = tap_of(_stored(other) or other)
            if target.name is not None and tap is not None and target.name not in names and not _ends_in(target, names):
                found[target.name] = tap
    return found


def _ends_in(value: ir.Value, names: set[str]) -> bool:
    """Whether the layer ends in a Relu or Clip that is matched."""
    follower = g.single_consumer(value)
    return follower is not None and _is_clamp(follower) and follower.outputs[0].name in names


def _is_informative(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type not in UNINFORMATIVE and value.index() == 0


def _key(value: ir.Value, shapes: Shapes, name: str | None) -> tuple[str, ...]:
    node = value.producer()
    assert node is not None
    if name is not None:
        return ("tensor", name)
    return (KINDS.get(node.op_type, node.op_type), str(prod(shapes.get(value.name or "", ()))))


def _saturated(value: ir.Value, other: ir.Value) -> ir.Value | None:
    """The output of a Relu or Clip behind ``value`` that the quantized graph does by saturation (rule 3)."""
    follower = g.single_consumer(value)
    if follower is None or not _is_clamp(follower) or any(_is_clamp(node) for node in readers(other)):
        return None
    return follower.outputs[0]


def _stored(value: ir.Value) -> ir.Value | None:
    """The integers that a QuantizeLinear directly behind a value gives."""
    quantizers = [node for node, _ in value.uses() if node.op_type == "QuantizeLinear"]
    return quantizers[0].outputs[0] if len(quantizers) == 1 and len(value.uses()) == 1 else None


def _is_clamp(node: ir.Node) -> bool:
    entry = OPERATORS.get(node.op_type)
    return entry is not None and entry.role is Role.CLAMP


def _last_of_each_entry(
    tensors: Iterable[ir.Value], found: Mapping[str, tuple[Tap, str]]
) -> dict[str, tuple[Tap, str]]:
    """One float tensor per tensor of the quantized graph: of a layer and its saturation, the later one."""
    kept: dict[str, str] = {}
    for value in tensors:
        if value.name is not None and value.name in found:
            kept[found[value.name][0].entry] = value.name
    return {name: found[name] for name in kept.values()}


def _owners(tensors: Sequence[ir.Value], matched: set[str]) -> dict[str, str]:
    """Float tensor -> matched tensor whose layer it is part of (rule 5)."""
    owner: dict[str, str] = {}
    for value in reversed(tensors):
        name = value.name or ""
        if name in matched:
            owner[name] = name
            continue
        follower = g.single_consumer(value)
        next_name = follower.outputs[0].name if follower is not None else None
        if next_name in owner:
            owner[name] = owner[next_name]
    return owner


def _layer(tensor: str, match: tuple[Tap, str], nodes: Sequence[ir.Node], shapes: tuple[Shape, Shape]) -> Layer:
    weighted = (n for n in nodes if n.op_type in OPERATORS and OPERATORS[n.op_type].role is Role.WEIGHTED)
    main = next(weighted, nodes[-1])
    return Layer(tensor, *match, tuple(dict.fromkeys(n.name or "" for n in nodes)), main.op_type, shapes)


def _left_over(quantized: ir.Model, taps: set[Tap]) -> int:
    """Results of the quantized graph that are not compared anywhere, without mere changes of storage."""
    seen = {name for tap in taps for name in (tap.value, tap.entry)}
    results = [o for node in quantized.graph for o in node.outputs[:1] if _is_informative(o) and o.name not in seen]
    return sum(1 for value in results if not _feeds_only(value, seen))


def _feeds_only(value: ir.Value, seen: set[str]) -> bool:
    """Whether the only reader makes a tensor that is compared: a step inside a layer."""
    follower = g.single_consumer(value)
    while follower is not None:
        if follower.outputs[0].name in seen:
            return True
        follower = g.single_consumer(follower.outputs[0])
    return False
