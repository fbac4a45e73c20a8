"""The graph as an output format requires it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.data.open_sizes import OpenSizes
from converter_lite.data.random_samples import random_samples
from converter_lite.errors import ModelError, TargetError
from converter_lite.formats.requirements import GraphRequirements
from converter_lite.graph import all_nodes
from converter_lite.passes.definitions import inline_definitions
from converter_lite.passes.input_shapes import fix_input_shapes
from converter_lite.passes.opset import raise_opset
from converter_lite.passes.pipeline import ALL_REWRITES, OptimizeResult, Rewrites, optimize
from converter_lite.passes.widening import compute_in_float32, computes_in_halves
from converter_lite.quantization import forecast
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.planned_graph import settle_planned
from converter_lite.runtime.serializing import constant_bytes

if TYPE_CHECKING:
    from converter_lite.formats.source import Source


MANY_NODES, MANY_NODES_BYTES = 500, 256 << 20
"""Nodes from which a graph takes time for their number, and bytes of constants up to which it takes little memory."""

MOST_GROWTH = 1.1
"""Size of a graph, relative to the one that was read, up to which operators are spelled out for their speed alone."""

EXAMPLE_SIZE = 128
"""Of open dimensions but batches, in the shapes that a message shows."""

RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
"""Operators that give other numbers in each run, unless they have a seed."""


@dataclass(slots=True)
class Prepared:
    """A graph that is ready to be quantized or written.

    Attributes:
        quantized: The optimized graph, with the plan that the model came with.
        done: What the optimizer did.
        notes: What was decided for the user.
    """

    quantized: QuantizedModel
    done: OptimizeResult
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> ir.Model:
        """The graph."""
        return self.quantized.model

    @property
    def is_all_nodes(self) -> bool:
        """Whether the graph takes time for its many nodes, and little memory for its constants."""
        return len(self.model.graph) >= MANY_NODES and constant_bytes(self.model) < MANY_NODES_BYTES

    @property
    def random(self) -> ir.Node | None:
        """A node that gives other numbers in each run."""
        nodes = all_nodes(self.model.graph)
        return next((node for node in nodes if node.op_type in RANDOM and "seed" not in node.attributes), None)

    def copy(self) -> QuantizedModel:
        """A graph that may be changed."""
        kept = self.quantized
        return QuantizedModel(kept.model.clone(), kept.plan, dict(kept.q_weights))


class Preparation:
    """Prepares graphs of one model; formats with the same requirements share it.

    Args:
        source: The model.
        rewrites: What may be optimized.
    """

    def __init__(self, source: Source, rewrites: Rewrites) -> None:
        self._source = source
        self._rewrites = rewrites
        self._made: dict[GraphRequirements, Prepared] = {}

    def __call__(self, requirements: GraphRequirements) -> Prepared:
        """The graph as required; it must not be changed.

        Raises:
            TargetError: A shape must be fixed, and its size is unknown.
            ModelError: The model cannot meet them.
        """
        requirements = self._simplest(requirements)
        if requirements not in self._made:
            self._made[requirements] = _prepare(self._source, requirements, self._rewrites)
        return self._made[requirements]

    def _simplest(self, requirements: GraphRequirements) -> GraphRequirements:
        """The requirements without those that the model meets already."""
        static = requirements.static and bool(_open_axes(self._source.model))
        float32 = requirements.float32 and computes_in_halves(self._source.model)
        qdq = requirements.keeps_qdq and self._source.is_quantized
        return replace(requirements, static=static, float32=float32, keeps_qdq=qdq)


def _prepare(source: Source, requirements: GraphRequirements, rewrites: Rewrites) -> Prepared:
    quantized = source.graph(keep_qdq=requirements.keeps_qdq)
    notes = _fix_batch(quantized.model) if requirements.static else []
    if quantized.plan.holds_integers:
        settled, done = settle_planned(quantized, requirements.spelled_out)
        return Prepared(settled, done, notes)
    if requirements.float32 and compute_in_float32(quantized.model):
        notes.append("float16 is computed in float32, which is what is quantized")
    model, done = optimized(quantized.model, requirements, rewrites=rewrites)
    if requirements.compact and _size(model) > _size(source.model):
        model, done = optimized(source.graph(keep_qdq=True).model, requirements, rewrites=rewrites, compact=True)
    elif _has(source.model, requirements.slow) and _size(model) > MOST_GROWTH * _size(source.model):
        return _prepare(source, replace(requirements, slow=frozenset()), rewrites)
    return Prepared(QuantizedModel(model, QuantPlan("FLOAT")), done, notes)


def optimized(
    model: ir.Model, requirements: GraphRequirements, *, rewrites: Rewrites = ALL_REWRITES, compact: bool = False
) -> tuple[ir.Model, OptimizeResult]:
    """The graph after all passes, with operators fused as the format requires; ``model`` may be changed.

    Args:
        model: The graph.
        requirements: Of the format.
        rewrites: What may be rewritten.
        compact: See :func:`~converter_lite.passes.pipeline.optimize`.
    """
    if requirements.opset is not None and rewrites.level != "none" and _may_hold_patterns(model):
        with contextlib.suppress(ModelError):  # an operator cannot be raised: fuse what this version allows
            model = raise_opset(model, requirements.opset)
    read = sum(1 for _ in all_nodes(model.graph))
    inline_definitions(model, requirements.inlined)
    slow = frozenset[str]() if rewrites.level == "none" or requirements.compact else requirements.slow
    done = optimize(
        model,
        level=rewrites.level,
        without=rewrites.without,
        fused_operators=requirements.fused,
        spelled_out=requirements.spelled_out | slow,
        compact=compact,
    )
    return done.model, replace(done, nodes_before=read)


def _has(model: ir.Model, operators: frozenset[str]) -> bool:
    return any(node.op_type in operators for node in model.graph)


def _size(model: ir.Model) -> int:
    return forecast.forecast_bytes(model, QuantPlan("FLOAT"), forecast.StoredAs())


def _may_hold_patterns(model: ir.Model) -> bool:
    """Whether raising the operator set can pay off: every pattern that is fused contains one of these operators."""
    kinds = {node.op_type for node in model.graph}
    return bool(kinds & {"Erf", "Sqrt"}) or ("Mul" in kinds and bool(kinds & {"Clip", "HardSigmoid"}))


def _open_axes(model: ir.Model) -> dict[str, list[int]]:
    """Input name -> axes without a fixed size; an input without a rank has axis -1."""
    found: dict[str, list[int]] = {}
    for value in model.graph.inputs:
        shape = value.shape
        axes = [-1] if shape is None else [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if axes:
            found[str(value.name)] = axes
    return found


def _fix_batch(model: ir.Model) -> list[str]:
    """Make an open first dimension 1; nothing else can be guessed.

    Raises:
        TargetError: Other dimensions are open; all of them are named.
    """
    open_axes = _open_axes(model)
    others = {name: [axis for axis in axes if axis != 0] for name, axes in open_axes.items()}
    if any(others.values()):
        named = "; ".join(f"{name} (dimension {', '.join(map(str, axes))})" for name, axes in others.items() if axes)
        raise TargetError(
            f"a .ms file has fixed shapes, and these inputs are open: {named}",
            where="--inputShape",
            hint=f"give them, for example --inputShape={_example(model, open_axes)}; --saveType=ONNX keeps them open",
        )
    shapes = {v.name: v.shape for v in model.graph.inputs}
    fixed = {name: [1] + [-1] * (len(shape) - 1) for name in open_axes if (shape := shapes[name]) is not None}
    fix_input_shapes(model, fixed)
    return [f"batch 1 in the .ms file, which has fixed shapes: {', '.join(open_axes)} (--inputShape gives another)"]


def _example(model: ir.Model, names: Collection[str]) -> str:
    """Shapes for these inputs that fit each other: sizes of one name are equal, and batches are 1."""
    drawn = random_samples(model, 1, sizes=OpenSizes(EXAMPLE_SIZE, EXAMPLE_SIZE, states=True)).draws
    return ";".join(f"{draw.spec.name}:{','.join(map(str, draw.shape))}" for draw in drawn if draw.spec.name in names)
