"""Weight quantization: weights stored as integers, computation in float."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import CalibrationError, ConfigError
from converter_lite.kernels.params import QuantParams, QuantSpec, weight_params
from converter_lite.quantization import bias_correction, mixed_bits, score, weight_uses, width_losses
from converter_lite.quantization.blocks import block_spec, blocks_of, turn_weights
from converter_lite.quantization.bodies import inner_nodes
from converter_lite.quantization.constants import (
    BIAS_OPERATORS,
    ensure_biases,
    refuse_broken_constants,
)
from converter_lite.quantization.expected_bias import correct_expected_bias
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq import build
from converter_lite.quantization.settings import WIDE_BITS, MixedBits, WeightSettings
from converter_lite.quantization.small_weights import too_small
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import (
    RECURRENT,
    compensated_integers,
    missing_weight,
    stored_weights,
)

if TYPE_CHECKING:
    from converter_lite.calibration.runner import Samples
    from converter_lite.quantization.weight_uses import WeightUse

OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Gather", *RECURRENT)
"""Operators whose constant weights are quantized (the original: Conv2D, its transpose, MatMul, FullConnection, LSTM, Gather)."""

SHOWN = 5
"""Names in a line of the log."""


NOT_COMPENSATED = ("Gather", "MatMul", *RECURRENT)
"""Operators whose rounding errors need not cancel: rows of a table are read one by one, and inputs of a product have no common
sign (MiniLM without data, cosine on calibration samples: 8 bits 0.9991 either way, 4 bits 0.706 with and 0.891 without)."""


def decide_weights(model: ir.Model, settings: WeightSettings, *, target: str) -> QuantPlan:
    """Which weights are quantized, with a reason for every node that keeps float weights."""
    plan = QuantPlan(target)
    inner = [node for node in inner_nodes(model.graph) if stored_weights(node)]
    is_plain = settings.mixed is None and settings.blocks is None
    for node in (*model.graph, *inner):
        reason = _refusal(node, settings)
        if not reason and not is_plain and node.graph is not model.graph:
            reason = "it is in a branch or a loop: no width is searched there, and no blocks are written"
        if reason:
            plan.keep_float(node, reason)
        else:
            plan.quantize(node, NodeMode.WEIGHT)
    if settings.mixed is not None and not settings.mixed.search:
        uses = weight_uses.weight_uses(model, plan)
        per_channel, storage = settings.per_channel, settings.storage
        widths = mixed_bits.widths_by_error(uses, settings.mixed.init_scale, per_channel=per_channel, storage=storage)
        plan = weight_uses.assign(plan, uses, widths, per_channel=per_channel, storage=storage)
    if settings.wide or (settings.storage.precise_share and settings.bits == 8):
        uses = weight_uses.unchecked_uses(model, plan)
        small = _smallest(uses, settings.storage.precise_share) if settings.bits == 8 else set()
        wide = [u for u in uses if u.name in small or any(n.name in settings.wide for n in u.nodes)]
        weight_uses.refuse_broken(wide)
        widths = dict.fromkeys((use.name for use in wide), WIDE_BITS)
        plan = weight_uses.assign(plan, wide, widths, per_channel=settings.per_channel, storage=settings.storage)
    return plan


def _smallest(uses: Sequence[WeightUse], share: float) -> set[str]:
    """The smallest weights that may together take one more byte per element within a share of all float bytes."""
    sizes = {use.name: math.prod(g.static_shape(use.value) or ()) for use in uses}
    budget = share * 4 * sum(sizes.values())
    chosen: set[str] = set()
    for name, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        budget -= size
        if budget < 0:
            break
        chosen.add(name)
    return chosen


def quantize_weights(
    model: ir.Model,
    settings: WeightSettings,
    *,
    target: str,
    samples: Samples | None = None,
    tuning: Sequence[Feed] = (),
    context: RunContext,
) -> QuantizedModel:
    """Quantize weights of ``model`` (changed in place: biases).

    Args:
        model: Optimized float graph with names.
        settings: Choices.
        target: Name written into the plan.
        samples: Calibration samples for bias correction and rounding; ``None`` = both without data.
        tuning: Samples that judge a search of widths if there are no calibration samples; at least one then.
        context: Runs the float model where there are samples.

    Raises:
        CalibrationError: A weight is NaN, infinite or empty; it is named.
    """
    run, fitted, judges = _started(model, settings, samples, context)
    plan = decide_weights(model, settings, target=target)
    if settings.mixed is None:
        return run.as_planned(model, plan)
    if settings.mixed.search:
        plan = replace(run, feeds=fitted).searched(model, plan, settings.mixed, judges or tuning)
    quantized = run.as_planned(model, plan)
    mixed_bits.report(quantized, context.log)
    return quantized


def quantize_weights_as_planned(
    model: ir.Model, settings: WeightSettings, plan: QuantPlan, *, samples: Samples | None = None, context: RunContext
) -> QuantizedModel:
    """:func:`quantize_weights` with the decisions and parameters of a plan instead of making them.

    Raises:
        CalibrationError: A weight is NaN, infinite or empty; it is named.
        ConfigError: The plan does not fit the graph or the kind of file.
    """
    run, _, _ = _started(model, settings, samples, context)
    plan.check(model)
    _refuse_input_scales(plan, settings)
    return replace(run, grids=False).as_planned(model, plan)


def _started(
    model: ir.Model, settings: WeightSettings, samples: Samples | None, context: RunContext
) -> tuple[_Run, Sequence[Feed] | None, Sequence[Feed]]:
    """The run over a model with biases, and its samples as :func:`_split` gives them."""
    with context.log.stage("quantization"):
        if settings.bias_correction:
            ensure_biases(model, operators=BIAS_OPERATORS)
        if settings.blocks is not None:
            turn_weights(model)
    fitted, judges = _split(model, settings, samples)
    feeds = fitted if fitted is None or judges is fitted else [*fitted, *judges]
    grids = settings.mixed is not None or settings.storage.fits_steps
    return _Run(settings, feeds, context, grids), fitted, judges


def _split(
    model: ir.Model, settings: WeightSettings, samples: Samples | None
) -> tuple[Sequence[Feed] | None, Sequence[Feed]]:
    """Samples to fit to, ``None`` without any, and those that judge a search; the final result is fitted to both."""
    if samples is None:
        return None, ()
    if settings.mixed is not None and settings.mixed.search:
        return mixed_bits.split(samples)
    coarse = settings.bits < bias_correction.GRID_BELOW_BITS
    return samples.head(
        bias_correction.samples_wanted(model, fitted_rounding=settings.rounding.is_fitted, coarse=coarse)
    ), ()


def _refuse_input_scales(plan: QuantPlan, settings: WeightSettings) -> None:
    named = [name for name, params in plan.weights.items() if params.input_scales is not None]
    if named and not settings.input_scales:
        raise ConfigError(
            f"the plan has scales per input channel for {len(named)} weights, the first is {named[0]}",
            where=f"plan for {plan.target}",
            hint="only ONNX files hold them: take 'input_scales' and 'input_scales_shape' out, or use --saveType=ONNX",
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """What all trials of one quantization have in common."""

    settings: WeightSettings
    feeds: Sequence[Feed] | None
    context: RunContext
    grids: bool = True

    def as_planned(self, model: ir.Model, plan: QuantPlan) -> QuantizedModel:
        """Parameters, integers and corrected biases for a plan with decisions; its widths are kept."""
        settings, log = self.settings, self.context.log
        quantized = QuantizedModel(model, plan, reference=model.clone())
        with log.stage("quantization"):
            refuse_broken_constants(model, plan)
            weighted = [node for node in g.all_nodes(model.graph) if plan.mode(node) is NodeMode.WEIGHT]
            done: dict[str, int | None] = {}
            for node in log.track(weighted, "rounding weights", len(weighted)):
                for weight in stored_weights(node):
                    _quantize_weight(node, weight, quantized, settings, done)
            if settings.bias_correction and self.feeds is None:
                for node in model.graph:
                    if plan.mode(node) is NodeMode.WEIGHT:
                        correct_expected_bias(node, quantized)
        if self.feeds is not None and (settings.bias_correction or settings.rounding.is_fitted):
            wanted = bias_correction.LayerFit(
                settings.bias_correction, settings.rounding, self.grids, settings.input_scales
            )
            if settings.mixed is not None:
                wanted = replace(wanted, below_bits=width_losses.FITTED_BELOW_BITS)
            with log.stage(wanted.stage):
                bias_correction.fit_layers(quantized, self.feeds, wanted, self.context)
        return quantized

    def searched(self, model: ir.Model, plan: QuantPlan, mixed: MixedBits, judges: Sequence[Feed]) -> QuantPlan:
        """The plan with a searched width per weight; ``judges`` are the samples that accuracy is measured on."""
        per_channel, storage, log = self.settings.per_channel, self.settings.storage, self.context.log
        uses = [use for use in weight_uses.weight_uses(model, plan) if use.name not in plan.weights]
        grids = {
            use: {
                bits: weight_uses.grid(use, bits, per_channel=per_channel, storage=storage) for bits in storage.measured
            }
            for use in uses
        }
        scorer = score.Scorer(model, judges, self.context)
        with log.stage("sensitivity"):
            losses = width_losses.measure_losses(
                model,
                grids,
                self.feeds or judges,
                input_scales=self.settings.input_scales,
                scorer=scorer,
                context=self.context,
            )

        def assured(widths: dict[str, int]) -> float:
            found = scorer(build.qdq_model(self.as_planned(model.clone(), planned(widths))))
            return found.cosine - found.doubt

        def planned(widths: dict[str, int]) -> QuantPlan:
            return weight_uses.assign(plan, uses, widths, per_channel=per_channel, storage=storage)

        losses = mixed_bits.interpolated(losses, storage.widths)
        widths = mixed_bits.search(
            mixed_bits.steps(uses, losses, per_channel=per_channel, storage=storage),
            mixed_bits.Trials(
                mixed,
                cosine=assured,
                names=[use.name for use in uses],
                total_bytes=mixed_bits.bytes_at(uses, storage.widths[-1], per_channel=per_channel, storage=storage),
                log=log,
                choices=storage.widths,
            ),
        )
        return planned(widths)


def _refusal(node: ir.Node, settings: WeightSettings) -> str:
    if node.name in settings.skip:
        return "named in skip_quant_node"
    if node.op_type not in OPERATORS or node.domain:
        return "has no weight to quantize"
    if reason := settings.storage.refusal(node):
        return reason
    shapes = [g.static_shape(weight) or () for weight in stored_weights(node)]
    if not shapes:
        return missing_weight(node)
    if len(max(shapes, key=np.prod)) < 2:
        return "its weight has less than two dimensions"
    least = settings.storage.least_channels if settings.min_channel is None else settings.min_channel
    return too_small(node, settings.min_size, least)


def left_by_filters(model: ir.Model, settings: WeightSettings) -> str:
    """Layers kept in float only by ``min_quant_weight_size`` and ``min_quant_weight_channel``, and the bytes that this costs.

    Returns:
        A line for the log; empty if the filters leave nothing out.
    """
    unfiltered = replace(settings, min_size=0, min_channel=0)
    nodes = [node for node in model.graph if _refusal(node, settings) and not _refusal(node, unfiltered)]
    if not nodes:
        return ""
    weights = {weight.name: weight for node in nodes for weight in stored_weights(node)}
    elements = sum(int(np.prod(g.static_shape(weight) or ())) for weight in weights.values())
    names = ", ".join(str(node.name) for node in nodes[:SHOWN])
    names += f" and {len(nodes) - SHOWN} more (-v prints them)" if len(nodes) > SHOWN else ""
    cost = elements * (32 - settings.bits) // 8
    return f"left out by min_quant_weight_size and min_quant_weight_channel, about {cost:,} bytes more: {names}"


def _quantize_weight(
    node: ir.Node, weight: ir.Value, quantized: QuantizedModel, settings: WeightSettings, done: dict[str, int | None]
) -> None:
    """Grid of a node's weight, and its integers unless they are rounded to nearest; ``done``: weights seen so far -> axes."""
    if weight.name is None:
        return
    known = quantized.plan.weights.get(weight.name)
    blocks = block_spec(node, weight, settings) if known is None else None
    axis = settings.storage.axis(node, weight) if settings.per_channel else None
    axis = axis if blocks is None else blocks.axis
    bits = max(settings.bits, settings.storage.least_bits(node, weight)) if known is None else known.spec.bits
    if weight.name in done:
        if done[weight.name] == axis:
            return
        known, axis, blocks = None, None, None
    values = g.floats(weight)
    try:
        spec = blocks or weight_spec(settings, bits, values.shape, axis)
        params = known or weight_grid(values, spec)
    except CalibrationError as error:
        raise CalibrationError(
            error.message, where=f"constant {weight.name}", hint="repair the model's weights"
        ) from error
    quantized.plan.weights[weight.name] = params
    done[weight.name] = axis
    quantized.q_weights.pop(weight.name, None)
    if settings.bias_correction and node.op_type not in NOT_COMPENSATED and not params.spec.block:
        quantized.q_weights[weight.name] = compensated_integers(node, values, params)


def weight_spec(settings: WeightSettings, bits: int, shape: tuple[int, ...], axis: int | None) -> QuantSpec:
    """The grid of a weight in the file format that is written."""
    spec = QuantSpec(bits=bits, signed=True, symmetric=bits == 1, axis=axis)
    channels = 1 if axis is None else shape[axis]
    return settings.storage.spec(spec, channels=channels, elements=math.prod(shape))


def weight_grid(values: NDArray[np.float32], spec: QuantSpec) -> QuantParams:
    """Parameters that cover a weight; one bit has two levels only."""
    if spec.bits == 1:
        return one_bit_params(values, spec)
    if spec.block:
        return blocks_of(values, spec)
    return weight_params(values, spec)


def one_bit_params(weight: NDArray[np.float32], spec: QuantSpec) -> QuantParams:
    """Grid {-1, 0} scaled to the weight's extremes, zero kept exact (the original's definition of one bit)."""
    axes = tuple(i for i in range(weight.ndim) if i != spec.axis) if spec.axis is not None else None
    magnitude = np.maximum(np.abs(weight).max(axis=axes), 1e-10).astype(np.float32)
    return QuantParams(np.asarray(magnitude, np.float32), np.zeros(np.shape(magnitude), np.int32), spec)
