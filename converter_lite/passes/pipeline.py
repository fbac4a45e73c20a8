"""The order of the passes, and the check after each of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir
import onnx_ir.passes.common as library

from converter_lite.errors import MISFITS, ModelError, UsageError
from converter_lite.graph import all_nodes, assign_names, known_names
from converter_lite.passes import common
from converter_lite.passes.activation import recognize_relu
from converter_lite.passes.batchnorm import fold_batchnorm
from converter_lite.passes.bodies import capture_constants, hoist_constants
from converter_lite.passes.branches import inline_branches
from converter_lite.passes.constant_folding import fold_constants, fold_without_growth
from converter_lite.passes.gelu import fuse_gelu
from converter_lite.passes.gemm import fold_gemm_factors, fuse_gemm, unstack_weights
from converter_lite.passes.hard_activation import fuse_hard_sigmoid, fuse_hard_swish
from converter_lite.passes.layer_norm import fuse_layer_norm
from converter_lite.passes.noop import remove_noops, share_copied_constants
from converter_lite.passes.pad import fold_pad
from converter_lite.passes.pixel import fuse_pixel_conv
from converter_lite.passes.reshape_target import simplify_reshape
from converter_lite.passes.rewrite import Pass
from converter_lite.passes.scale_shift import fold_scale_shift
from converter_lite.passes.shape_chain import fold_shapes, share_sizes
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.spelled_out import SPELLED_OUT
from converter_lite.passes.transpose import merge_transposes
from converter_lite.passes.unsqueeze import merge_unsqueezes

_log = logging.getLogger(__name__)

LEVELS = ("none", "general", "gpu_oriented", "ascend_oriented")
"""Values of ``--optimize``. All but ``none`` run the same rules: none of them depends on the device."""

MAX_ROUNDS = 20
"""Rounds over all rules in a row that leave the graph as large as it was; three are usual. Others are not counted: where each
layer computes its padding from the size of its input, a round settles one layer."""

REQUIRED: tuple[Pass, ...] = (common.lift_constants,)
"""What every later step relies on, at every level."""

ONCE: tuple[Pass, ...] = (common.remove_unused, share_copied_constants, common.deduplicate_initializers)
"""Before the rounds; the last one reads every weight."""

SETTLING: tuple[Pass, ...] = (
    common.lift_constants,
    hoist_constants,
    fold_shapes,
    fold_constants,
    inline_branches,
    common.remove_unused,
)
"""For models that come with a plan."""

RULES: tuple[Pass, ...] = (
    common.lift_constants,
    capture_constants,
    hoist_constants,
    fold_shapes,
    share_sizes,
    simplify_reshape,
    fold_constants,
    remove_noops,
    merge_transposes,
    merge_unsqueezes,
    inline_branches,
    common.eliminate_common_subexpressions,
    unstack_weights,
    fuse_gemm,
    fold_gemm_factors,
    fold_batchnorm,
    fold_scale_shift,
    recognize_relu,
    fold_pad,
    common.remove_unused,
)
"""Simplification first, so that patterns are exposed. Padding comes after Relu: MaxPool takes zeros only behind it."""

FUSIONS: Mapping[str, Pass] = MappingProxyType(
    {
        "LayerNormalization": fuse_layer_norm,
        "Gelu": fuse_gelu,
        "Gemm": fuse_pixel_conv,
        "HardSwish": fuse_hard_swish,
        "HardSigmoid": fuse_hard_sigmoid,
    }
)
"""Rules for operators that a target may have; HardSwish first, as it holds a HardSigmoid."""

EARLY = ("Loop", "If", "ConcatFromSequence")
"""What is spelled out in the rounds already: the nodes of loops and branches are simplified as others are."""

RULE_NAMES = frozenset(rule.__name__ for rule in (*RULES, *FUSIONS.values())) - {rule.__name__ for rule in REQUIRED}
"""Rules that can be left out."""


@dataclass(frozen=True, slots=True)
class Rewrites:
    """What may be rewritten.

    Attributes:
        level: One of :data:`LEVELS`; ``none`` only does what later steps rely on.
        without: Names of rules that are left out.
    """

    level: str = "general"
    without: frozenset[str] = frozenset()


ALL_REWRITES = Rewrites()


class BrokenGraphError(RuntimeError):
    """A pass left an invalid graph: a defect of this program, never of the model."""


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """What :func:`optimize` did.

    Attributes:
        model: The optimized model (the same object, changed in place).
        nodes_before, nodes_after: Node counts, subgraphs included.
        changes: ``(pass name, times applied)`` in the order of first application.
        vanished: Names of original nodes and tensors that no node represents any more: nothing depended on them, or their result
            is a constant.
    """

    model: ir.Model
    nodes_before: int
    nodes_after: int
    changes: tuple[tuple[str, int], ...]
    vanished: frozenset[str]


def optimize(
    model: ir.Model,
    *,
    level: str = "general",
    without: frozenset[str] = frozenset(),
    fused_operators: frozenset[str] = frozenset(),
    spelled_out: frozenset[str] = frozenset(),
    compact: bool = False,
) -> OptimizeResult:
    """Rewrite the model in place until no rule applies.

    Inputs and outputs keep their names, order and values (up to float rounding).

    Args:
        model: As :func:`~converter_lite.formats.onnx.reader.read_onnx` returns it.
        level: One of :data:`LEVELS`; ``none`` only does what later steps rely on.
        without: Names of rules that are left out, of :data:`RULE_NAMES`.
        fused_operators: Keys of :data:`FUSIONS` that the target computes with one operator. Each is used only when
            the model's operator set has it.
        spelled_out: Keys of :data:`SPELLED_OUT` that the target cannot compute in every form, whatever the level.
        compact: Constants are folded only where that takes no more space.

    Raises:
        UsageError: The level or a fused operator is unknown.
        BrokenGraphError: A pass broke the graph; its name is in the message.
    """
    if level not in LEVELS:
        raise UsageError(f"unknown optimization level '{level}'", hint=f"use one of {', '.join(LEVELS)}")
    unknown = fused_operators - FUSIONS.keys()
    if unknown:
        raise UsageError(
            f"no rule recognizes {', '.join(sorted(unknown))}", hint=f"rules exist for {', '.join(FUSIONS)}"
        )
    assign_names(model)
    run = _Run(model, without)
    before = sum(1 for _ in all_nodes(model.graph))
    names = known_names(model.graph)
    run.apply_each(REQUIRED)
    if level == "none":
        infer_shapes(model)
    else:
        folds_less = compact and fold_constants.__name__ not in without
        rules = tuple(fold_without_growth if folds_less and rule is fold_constants else rule for rule in RULES)
        early = tuple(SPELLED_OUT[name] for name in EARLY if name in spelled_out)
        _optimize(run, (*rules, *early, *(rule for name, rule in FUSIONS.items() if name in fused_operators)))
    if _spell_out(run, tuple(rule for name, rule in SPELLED_OUT.items() if name in spelled_out)):
        infer_shapes(model)
    assign_names(model)
    after = sum(1 for _ in all_nodes(model.graph))
    vanished = frozenset(names - known_names(model.graph))
    return OptimizeResult(model, before, after, tuple(run.changes.items()), vanished)


def _spell_out(run: _Run, rules: tuple[Pass, ...]) -> int:
    """Apply rules that rely on what an operator's definition says of its inputs.

    Raises:
        ModelError: A node is not what its operator says.
    """
    try:
        return run.apply_each(rules)
    except MISFITS as error:
        raise ModelError(
            f"a node has inputs or attributes that do not fit its operator ({error})",
            hint="check the model with onnx.checker",
        ) from error


def settle(model: ir.Model, spelled_out: frozenset[str] = frozenset()) -> OptimizeResult:
    """Compute what is already constant, and infer shapes; weights, and the names that a plan refers to, stay as they are.

    Args:
        model: Changed in place.
        spelled_out: See :func:`optimize`.

    Raises:
        BrokenGraphError: A pass broke the graph; its name is in the message.
        ModelError: A node is not what its operator says.
    """
    assign_names(model)
    run = _Run(model)
    before = sum(1 for _ in all_nodes(model.graph))
    names = known_names(model.graph)
    infer_shapes(model)
    run.settle(SETTLING)
    if _spell_out(run, tuple(rule for name, rule in SPELLED_OUT.items() if name in spelled_out)):
        infer_shapes(model)
    assign_names(model)
    after = sum(1 for _ in all_nodes(model.graph))
    return OptimizeResult(model, before, after, tuple(run.changes.items()), frozenset(names - known_names(model.graph)))


def _optimize(run: _Run, rules: tuple[Pass, ...]) -> None:
    run.apply_each(ONCE)
    infer_shapes(run.model)
    if not run.settle(rules):
        _log.warning("the graph still changes after %d rounds of optimization", MAX_ROUNDS)
    library.RemoveUnusedOpsetsPass()(run.model)


class _Run:
    """One optimization: counts what each pass did and checks what it left."""

    def __init__(self, model: ir.Model, without: frozenset[str] = frozenset()) -> None:
        self.model = model
        self._without = without
        self.changes: dict[str, int] = {}
        self._inputs = [value.name for value in model.graph.inputs]
        self._outputs = [value.name for value in model.graph.outputs]

    def apply_each(self, passes: tuple[Pass, ...]) -> int:
        """Apply every pass once, in order; returns how often they applied in all."""
        total = 0
        for rule in passes:
            if rule.__name__ in self._without:
                continue
            count = rule(self.model)
            if count:
                self.changes[rule.__name__] = self.changes.get(rule.__name__, 0) + count
                self._check(rule.__name__)
            total += count
        return total

    def settle(self, passes: tuple[Pass, ...]) -> bool:
        """Apply passes until none applies; returns whether that was reached, see :data:`MAX_ROUNDS`."""
        size, idle = len(self.model.graph), 0
        while idle < MAX_ROUNDS:
            if not self.apply_each(passes):
                return True
            infer_shapes(self.model)
            before, size = size, len(self.model.graph)
            idle = idle + 1 if size >= before else 0
        return False

    def _check(self, pass_name: str) -> None:
        graph = self.model.graph
        if [value.name for value in graph.inputs] != self._inputs:
            raise BrokenGraphError(f"pass {pass_name} changed the inputs of the model")
        if [value.name for value in graph.outputs] != self._outputs:
            raise BrokenGraphError(f"pass {pass_name} changed the outputs of the model")
        known = {*graph.inputs, *graph.initializers.values()}
        for node in graph:
            if not all(value is None or value in known for value in node.inputs):
                raise BrokenGraphError(f"pass {pass_name} left {node.name} ({node.op_type}) without an input")
            known.update(node.outputs)
        if not all(value in known for value in graph.outputs):
            raise BrokenGraphError(f"pass {pass_name} left an output without a node")
