"""Pieces of a graph, one session for all of the same structure.

A network of thousands of layers has few kinds of them, and loading a session takes longer than running it. From
``SHARED_FROM`` parts of one structure on (operators, attributes, types and shapes), the others run in one session that is given
their weights, biases, scales and zero points. Between such the runtime dequantizes and computes in float, which differs from its
integer kernels in the rounding of sums only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.quantization.piece import Arrays, PartRequest, Piece
from converter_lite.runtime.context import RunContext

SHARED_FROM = 64
"""Parts of a structure that have sessions of their own: no network of usual depth has more."""

GIVEN_TO = frozenset(
    ("QuantizeLinear", "DequantizeLinear", "Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Max")
)
"""Operators whose constants a session can be given; others may need them when it is loaded (sizes, axes)."""

GIVEN_TYPES = frozenset(
    (ir.DataType.FLOAT, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32)
)
"""Types of constants that a session can be given."""

FIXED_BYTES = 256
"""Larger constants that cannot be given make a part unlike all others."""


class Runs(Protocol):
    """A loaded part."""

    def run(self, stored: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], Arrays]:
        """See :meth:`converter_lite.quantization.piece.Piece.run`."""


class SharedPieces:
    """Opens parts of a graph.

    Args:
        model: The graph; initializers may be changed between calls.
        context: Runs the parts.
    """

    def __init__(self, model: ir.Model, context: RunContext) -> None:
        self._model, self._context = model, context
        self._seen: Counter[Hashable] = Counter()
        self._shared: dict[Hashable, tuple[Piece, list[str]]] = {}

    def piece(self, inputs: Sequence[ir.Value], asked: PartRequest, halves: Container[str | None]) -> Runs:
        """The part that computes some values.

        Args:
            inputs: What it may be given.
            asked: What it computes.
            halves: Names of inputs that are given in half precision.
        """
        section = g.section(self._model.graph, inputs, asked.outputs)
        given = _given(section)
        structure = _structure(section, set(given), asked, halves)
        self._seen[structure] += 1
        kept = {value.name for value in asked.keep}
        if structure is None or self._seen[structure] <= SHARED_FROM:
            return Piece(asked.extracted(self._model, section.inputs), kept, halves, self._context)
        names = [value.name or "" for value in (*section.inputs, *given, *asked.outputs)]
        if structure not in self._shared:
            part = asked.extracted(self._model, section.inputs)
            _give(part.graph, given)
            self._shared[structure] = Piece(part, kept, halves, self._context, given=True), names
        piece, known = self._shared[structure]
        constants = {name: g.constant(value) for name, value in zip(known[len(section.inputs) :], given, strict=False)}
        return _Renamed(piece, dict(zip(known, names, strict=True)), constants)


class _Renamed:
    """A part of the same structure as another one, which runs it.

    Args:
        piece: The other one.
        names: Name there -> name here.
        constants: What is given besides the stored tensors, by its names.
    """

    def __init__(self, piece: Piece, names: Mapping[str, str], constants: Mapping[str, Any]) -> None:
        self._piece, self._names, self._constants = piece, names, constants

    def run(self, stored: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], Arrays]:
        feed = {there: stored[here] for there, here in self._names.items() if here in stored}
        asked, held = self._piece.run({**feed, **self._constants})
        return asked, {self._names[name]: array for name, array in held.items()}


def _given(section: g.Section) -> list[ir.Value]:
    """Constants of a section that its session can be given. Their readers elsewhere, which may be thousands, do not count."""
    fixed = {value for node in section.nodes if node.op_type not in GIVEN_TO for value in node.inputs}
    return [value for value in section.constants if value.dtype in GIVEN_TYPES and value not in fixed]


def _give(graph: ir.Graph, values: Iterable[ir.Value]) -> None:
    """Make initializers inputs."""
    for value in values:
        own = graph.initializers.pop(value.name or "")
        own.const_value = None
        graph.inputs.append(own)


def _structure(
    section: g.Section, given: Container[ir.Value], asked: PartRequest, halves: Container[str | None]
) -> Hashable | None:
    """What two parts have in common if one session can run both; ``None`` of a part that is unlike all others."""
    numbers: dict[ir.Value | None, int] = {None: -1}
    found: list[Hashable] = [asked.mean]
    for value in (*section.inputs, *section.constants):
        numbers[value] = len(numbers)
        found.append((value.dtype, str(value.shape), value.name in halves))
        if value.const_value is not None and value not in given:
            if value.const_value.nbytes > FIXED_BYTES:
                return None
            found.append(value.const_value.tobytes())
    for node in section.nodes:
        if g.subgraphs(node):
            return None
        attributes = tuple((name, str(attribute.value)) for name, attribute in sorted(node.attributes.items()))
        found.append((node.domain, node.op_type, attributes, tuple(numbers[value] for value in node.inputs)))
        for value in node.outputs:
            numbers[value] = len(numbers)
    found.extend((numbers[value], value.dtype, str(value.shape), value in asked.keep) for value in asked.outputs)
    return tuple(found)
