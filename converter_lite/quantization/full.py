"""Full quantization: integer weights and activations.

decide -> collect ranges -> parameters of activations -> parameters of weights and biases -> bias correction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.observers import METHODS, max_min
from converter_lite.calibration.runner import Samples, collect
from converter_lite.calibration.statistics import CalibrationStats
from converter_lite.errors import CalibrationError, ConfigError
from converter_lite.kernels.pairs import PairRule
from converter_lite.kernels.params import QuantParams, QuantSpec, params_from_range, weight_params
from converter_lite.log import Log
from converter_lite.quantization.adaptive import OPERATORS as FITTED_OPERATORS
from converter_lite.quantization.bias_correction import (
    GRID_BELOW_BITS,
    LayerFit,
    fit_layers,
    samples_wanted,
)
from converter_lite.quantization.biases import add_bias, widen_for_bias
from converter_lite.quantization.bodies import decide_inner_nodes
from converter_lite.quantization.constants import BIAS_OPERATORS, ensure_biases, refuse_broken_constants
from converter_lite.quantization.equalize import Grids, equalize
from converter_lite.quantization.filters import apply_to_filters, smooth_filters
from converter_lite.quantization.placement import (
    decide_nodes,
    is_fused_clamp,
    quantized_tensors,
)
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.readable import EVERYTHING, cut, readable_ranges
from converter_lite.quantization.remedies import Remedies
from converter_lite.quantization.reorder import reorder_channels
from converter_lite.quantization.settings import FullSettings
from converter_lite.quantization.small_weights import too_small
from converter_lite.quantization.smooth import SMOOTHED, apply_smoothing, smooth_products
from converter_lite.quantization.unreached import leave_unreached
from converter_lite.targets.operands import (
    compensated_integers,
    operator,
    pair_rule,
    stored_weights,
    weight_of,
)
from converter_lite.targets.operators import Role
from converter_lite.targets.policy import Policy
from converter_lite.targets.rules import data_inputs
from converter_lite.targets.spec import TargetSpec

SMOOTH_ALPHAS = (0.4, 0.5, 0.6)
"""Exponents that are tried for them, up to ``smooth_alpha`` (MiniLM: cosine 0.9905 at 0.6, 0.960 at 0.7)."""

SHARES_MARGIN = 2.0
"""Largest share of a Softmax that a grid holds, as a multiple of the largest one seen: larger ones decide what is attended to."""

NEVER_SEEN = -1.0, 1.0
"""Range of what was 0 in every sample (steps of time that are always padded). With none, its bias of 32 bits would need a weight
in steps of thousands, which other readers of that weight share."""


def decide_full(model: ir.Model, target: Policy, settings: FullSettings) -> QuantPlan:
    """Node decisions only; used by a dry run and by :func:`quantize_full`."""
    nodes = model.graph if settings.min_size or settings.min_channel else ()
    small = {node.name or "": too_small(node, settings.min_size, settings.min_channel) for node in nodes}
    left = {name for name, reason in small.items() if reason} - settings.skip
    plan = decide_nodes(model, target, settings.skip | left)
    for name in left:
        plan.nodes[name] = replace(plan.nodes[name], reason=small[name])
    if isinstance(target, TargetSpec) and target.weight_only:
        decide_inner_nodes(model.graph, plan, settings.skip)
    return plan


def quantize_full(
    model: ir.Model,
    target: Policy,
    settings: FullSettings,
    *,
    samples: Samples,
    plan: QuantPlan | None = None,
    context: CalibrationContext,
) -> QuantizedModel:
    """Quantize weights and activations of ``model`` (changed in place: biases).

    Args:
        model: Optimized float graph with names.
        target: What the runtime can do.
        settings: Choices.
        samples: Calibration samples.
        plan: Decisions and parameters to use instead of making them.
        context: Runs the float model and observes activations.

    Raises:
        CalibrationError: A tensor cannot be quantized; it is named.
    """
    ensure_biases(model, operators=BIAS_OPERATORS)
    given, log = plan, context.log
    plan = given or decide_full(model, target, settings)
    plan.check(model)
    if given is not None and target.pairs_saturate:
        check_saturation(plan, (node for node in model.graph if plan.mode(node) is NodeMode.INTEGER))
    refuse_broken_constants(model, plan)
    coarse = not settings.per_channel or settings.bits < GRID_BELOW_BITS
    head = samples.head(samples_wanted(model, fitted_rounding=settings.rounding.is_fitted, coarse=coarse))
    if settings.equalization:
        with log.stage("equalization"):
            equalize(
                model,
                log.track(head, "equalizing", len(head)),
                samples=len(head),
                grids=Grids(per_channel=settings.per_channel, symmetric=target.activation.symmetric),
                alpha=settings.smooth_alpha,
                context=context,
            )
        # scales of a plan are in this order, too, even where its nodes were edited
        if target.pairs_saturate and has_pairs(model, plan) if given is None else given.cannot_saturate:
            with log.stage("channel order"):
                reorder_channels(model, per_channel=settings.per_channel, threads=context.threads)
    if given is not None:
        apply_smoothing(model, plan, mode=NodeMode.INTEGER)
        apply_to_filters(model, plan)
    elif settings.equalization and settings.per_channel:
        alphas = [alpha for alpha in SMOOTH_ALPHAS if alpha <= settings.smooth_alpha] or [settings.smooth_alpha]
        remedies = Remedies(alphas, apart=True)
        smooth_products(model, plan, head, mode=NodeMode.INTEGER, remedies=remedies, context=context)
        smooth_filters(model, plan, head, target=target, remedies=remedies, context=context)
    reference = model.clone()
    quantized = QuantizedModel(model, plan, reference=reference)
    biases = settings.bias_correction and target.bias_correction
    if given is None:
        _find_params(quantized, target, settings, samples, context)
    if settings.bias_correction:
        round_weights(quantized, log)
    if biases or settings.rounding.is_fitted:
        is_free = given is None and settings.per_channel
        wanted = LayerFit(biases, settings.rounding, grids=is_free, computed=computed_grids(model, plan, target))
        with log.stage(wanted.stage):
            fit_layers(quantized, head, wanted, context)
    return quantized


def _find_params(
    quantized: QuantizedModel,
    target: Policy,
    settings: FullSettings,
    samples: Samples,
    context: CalibrationContext,
) -> None:
    """Fill in the parameters of a plan that has decisions only."""
    model, plan = quantized.model, quantized.plan
    need, _ = METHODS[settings.method]
    stats, is_settled = CalibrationStats(), False
    context.begins()
    with context.log.stage("calibration"):
        while not is_settled:
            sources, known = quantized_tensors(model, plan, target), {*_fixed_ranges(model, plan), *stats.tensors}
            observed = [source for source in dict.fromkeys(sources.values()) if source not in known]
            stats.merge(collect(model, observed, need, samples, context))
            is_settled = not leave_unreached(model, plan, target, sources, stats)
    with context.log.stage("quantization"):
        plan.activations = activation_params(model, plan, target, sources, stats, settings.method)
        per_channel, is_fitted = settings.per_channel, settings.rounding.is_fitted
        plan.weights = constant_params(model, plan, target, per_channel=per_channel, clip=is_fitted and not per_channel)


def computed_grids(model: ir.Model, plan: QuantPlan, target: Policy) -> dict[str, QuantParams]:
    """Grids of activations in which the runtime computes, where they are not those of the plan (tensor -> parameters)."""
    found = {}
    for node in model.graph:
        for name in (output.name or "" for output in node.outputs):
            grid = plan.activations.get(name)
            if grid is not None and (computed := target.computed(node, grid)) is not grid:
                found[name] = computed
    return found


def round_weights(quantized: QuantizedModel, log: Log) -> None:
    """Choose integers of weights so that rounding errors cancel within each layer; MatMuls are rounded to nearest."""
    plan = quantized.plan
    nodes = list(quantized.model.graph)
    for node in log.track(nodes, "rounding weights", len(nodes)):
        weight = weight_of(node)
        if node.op_type in SMOOTHED[NodeMode.INTEGER]:
            continue  # its inputs have no common sign, so errors do not cancel (MiniLM: 0.9897 with, 0.9905 without)
        if plan.mode(node) is NodeMode.INTEGER and weight is not None and weight.name in plan.weights:
            params = plan.weights[weight.name]
            quantized.q_weights[weight.name] = compensated_integers(node, g.floats(weight), params)


def activation_params(
    model: ir.Model,
    plan: QuantPlan,
    target: Policy,
    sources: dict[str, str],
    stats: CalibrationStats,
    method: str,
) -> dict[str, QuantParams]:
    """Parameters of every tensor in ``sources`` (tensor -> tensor whose parameters it takes).

    Raises:
        CalibrationError: The range is not finite; the tensor is named.
    """
    _, observe = METHODS[method]
    producers = {output.name: node for node in model.graph for output in node.outputs}
    grids, fixed = activation_grids(model, plan, target, sources), _fixed_ranges(model, plan)
    readable = readable_ranges(model, sources)
    found: dict[str, QuantParams] = {}
    for source in dict.fromkeys(sources.values()):
        spec = grids.get(source, target.activation)
        producer = producers.get(source)
        if source in fixed:
            low, high = fixed[source]
        elif _gives_shares(producer):
            low, high = 0.0, min(SHARES_MARGIN * max_min(stats[source], spec.bits)[1], 1.0)
        else:
            low, high = observe(stats[source], spec.bits)
        if producer is not None and is_fused_clamp(producer, plan):
            bounds = g.clamp_bounds(producer) or (low, high)
            low, high = max(low, bounds[0]), min(high, bounds[1])
        if low == high == 0.0:
            low, high = NEVER_SEEN
        low, high = cut(low, high, readable.get(source, EVERYTHING), spec.bits)
        try:
            found[source] = params_from_range(low, high, spec)
        except CalibrationError as error:
            raise CalibrationError(error.message, where=f"tensor {source}") from error
    return {tensor: found[source] for tensor, source in sources.items()}


def activation_grids(
    model: ir.Model, plan: QuantPlan, target: Policy, sources: Mapping[str, str]
) -> dict[str, QuantSpec]:
    """The narrowest grid that the integer readers of each source require.

    Sources without such readers are left out, and those of the network's outputs, which have all bits.
    """
    found: dict[str, QuantSpec] = {}
    given = {sources.get(output.name or "") for output in model.graph.outputs}
    for node in model.graph:
        spec = target.capability(node).activation if plan.mode(node) is NodeMode.INTEGER else None
        for value in data_inputs(node) if spec is not None else []:
            source = sources.get(value.name or "")
            if source is None or spec is None or source in given:
                continue
            if source not in found or spec.bits < found[source].bits:
                found[source] = spec
    return found


def constant_params(
    model: ir.Model, plan: QuantPlan, target: Policy, *, per_channel: bool, clip: bool
) -> dict[str, QuantParams]:
    """Parameters of weights, constant operands and biases of all quantized nodes.

    Args:
        model: The graph.
        plan: What is quantized.
        target: Grids.
        per_channel: One step per output channel where the target allows.
        clip: Choose steps of least squared error for weights with a single step, because their rounding is fitted.

    Raises:
        CalibrationError: A weight is NaN, infinite or empty; it is named.
    """
    found: dict[str, QuantParams] = {}
    for node in g.all_nodes(model.graph):
        mode = plan.mode(node)
        if mode is NodeMode.FLOAT:
            continue
        for weight in stored_weights(node) if mode is NodeMode.WEIGHT else (weight_of(node),):
            if weight is None or weight.name is None:
                continue
            spec = target.capability(node).weight
            spec = spec if per_channel else replace(spec, axis=None)
            known = found.get(weight.name)
            if known is None or known.spec != spec:
                spec = spec if known is None else replace(spec, axis=None, bits=min(spec.bits, known.spec.bits))
                is_fitted = mode is NodeMode.INTEGER and node.op_type in FITTED_OPERATORS
                found[weight.name] = _constant_grid(weight, spec, clip=clip and is_fitted)
        for value in data_inputs(node) if mode is NodeMode.INTEGER else []:
            if g.is_constant(value) and value.name is not None and value.name not in found:
                found[value.name] = _constant_grid(value, target.activation)
    integer = [node for node in model.graph if plan.mode(node) is NodeMode.INTEGER]
    if target.pairs_saturate:
        avoid_saturation(model, integer, found)
    for node in integer:  # even if biases stay float: onnxruntime quantizes them itself (seen in its graphs, 1.31)
        widen_for_bias(node, plan, found)
    for node in integer if target.quantize_bias else []:
        add_bias(node, plan, found)
    return found


def has_pairs(model: ir.Model, plan: QuantPlan) -> bool:
    """Whether a kernel adds up pairs of weights in integers."""
    return any(plan.mode(node) is NodeMode.INTEGER and pair_rule(node) is not None for node in model.graph)


def avoid_saturation(model: ir.Model, nodes: Iterable[ir.Node], found: dict[str, QuantParams]) -> None:
    """Enlarge steps of weights until no integer kernel can saturate; ``found`` is changed (initializer name -> parameters).

    Args:
        model: The graph.
        nodes: Nodes that multiply in integers.
        found: Parameters that cover the weights.
    """
    rules: dict[str, list[PairRule]] = {}
    for node in nodes:
        rule = pair_rule(node)
        for weight in stored_weights(node):
            if rule is not None and weight.name in found:
                rules.setdefault(weight.name or "", []).append(rule)
    for name, given in rules.items():
        values = g.floats(model.graph.initializers[name])
        found[name] = found[name].without_saturation(values, tuple(dict.fromkeys(given)))


def check_saturation(plan: QuantPlan, nodes: Iterable[ir.Node]) -> None:
    """Refuse a plan with whose weights a kernel could saturate.

    Raises:
        ConfigError: Weights have no rules for their pairs, or not those of their kernels; they are named.
    """
    problems = []
    for node in nodes:
        rule = pair_rule(node)
        for weight in stored_weights(node):
            params = plan.weights.get(weight.name or "")
            if rule is not None and params is not None and rule not in params.pair_rules:
                problems.append(f"plan: {weight.name} of {node.name} has no pair_rules, or others than its kernel")
    if problems:
        raise ConfigError(
            "integer kernels of x86 processors could saturate with weights of this plan",
            problems=tuple(problems),
            hint="make a new plan with --savePlan, or set [common_quant_param] portable=false",
        )


def _constant_grid(value: ir.Value, spec: QuantSpec, *, clip: bool = False) -> QuantParams:
    weight = g.floats(value)
    try:
        params = weight_params(weight, spec)
    except CalibrationError as error:
        raise CalibrationError(
            error.message, where=f"constant {value.name}", hint="repair the model's weights"
        ) from error
    return params.clipped(weight) if clip and spec.axis is None and spec.symmetric else params


def _fixed_ranges(model: ir.Model, plan: QuantPlan) -> dict[str, tuple[float, float]]:
    """Tensors whose range follows from their operator (Sigmoid, Softmax), with that range.

    A Softmax that computes with floats is left out: of its hundreds of shares each may be so small that 256 steps up to 1 are a
    handful for all of them.
    """
    found = {}
    for node in model.graph:
        entry = operator(node)
        if entry is None or entry.role is not Role.FIXED or entry.fixed_range is None:
            continue
        if not _gives_shares(node) or plan.mode(node) is NodeMode.INTEGER:
            found.update({output.name or "": entry.fixed_range for output in node.outputs})
    return found


def _gives_shares(node: ir.Node | None) -> bool:
    return node is not None and node.op_type == "Softmax"
