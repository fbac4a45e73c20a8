"""Dynamic quantization: integer weights now, activations quantized at run time.

For matrix products with constant weights, and LSTMs where a runtime has an operator for them. Weights of convolutions and other
recurrent layers, of products that would take longer with integers or have no integer form, and embedding tables are stored as
integers, and computed with as floats.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.calibration.runner import Samples
from converter_lite.config.names import Rounding
from converter_lite.errors import CalibrationError, ConfigError
from converter_lite.kernels.params import QuantSpec, weight_params
from converter_lite.passes.rewrite import is_op
from converter_lite.quantization.bias_correction import LayerFit, fit_layers
from converter_lite.quantization.bodies import decide_inner_nodes
from converter_lite.quantization.constants import refuse_broken_constants
from converter_lite.quantization.full import avoid_saturation, check_saturation
from converter_lite.quantization.plan import Integers, NodeMode, NodePlan, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.recurrent import has_integer_form, is_faster
from converter_lite.quantization.regions import TAKES_LONGER, float_time
from converter_lite.quantization.remedies import Remedies
from converter_lite.quantization.reorder import reorder_channels
from converter_lite.quantization.rows import LowerBounds
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.quantization.small_numbers import small_number_nodes
from converter_lite.quantization.smooth import (
    SAMPLES,
    apply_smoothing,
    smooth_expected_products,
    smooth_products,
)
from converter_lite.quantization.stored_convolutions import CONVOLUTIONS, round_convolutions
from converter_lite.runtime.blocks import is_larger_than_memory
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.devices import SYMMETRIC_WEIGHT
from converter_lite.targets.operands import (
    FLOAT_TYPES,
    SAVES_NOTHING,
    bias_of,
    has_short_columns,
    is_recurrent,
    is_small,
    missing_weight,
    output_channel_axis,
    stored_axis,
    stored_weight,
    stored_weights,
    weight_of,
)
from converter_lite.targets.policy import DynamicCosts, KernelCosts

PRODUCTS = ("MatMul", "Gemm")
"""Products of matrices."""

MATRIX_RANK = 2

FEW_SUMMANDS = "it adds up too few elements for a scale of theirs at run time"

FITTED_COLUMNS = 4096
"""Most inputs of a product whose weight gets fitted rounding: the time grows with their third power."""


def decide_dynamic(model: ir.Model, settings: DynamicSettings, *, target: str) -> QuantPlan:
    """Products with constant weights and LSTMs become dynamic; tables and the weights of other layers are stored as integers."""
    plan = QuantPlan(target)
    signals = small_number_nodes(model.graph)
    bounds = None if settings.weight_per_channel or not settings.rows else LowerBounds(model.graph)
    for node in model.graph:
        if node.op_type == "Gather" and _is_table(node):
            if is_small(node):
                plan.keep_float(node, "its table is so small that floats are faster")
            else:
                plan.quantize(node, NodeMode.WEIGHT)
        elif is_recurrent(node) and stored_weights(node):
            if is_small(node):
                plan.keep_float(node, SAVES_NOTHING)
            else:
                computes = settings.recurrent is NodeMode.DYNAMIC and has_integer_form(node) and is_faster(node)
                plan.quantize(node, NodeMode.DYNAMIC if computes else NodeMode.WEIGHT)
        elif node.op_type not in (*PRODUCTS, *CONVOLUTIONS) or node.domain:
            plan.keep_float(node, "has no weight to quantize")
        elif reason := _stays_float(node, signals, settings):
            plan.keep_float(node, reason)
        elif node.op_type in CONVOLUTIONS or _has_no_form(node) or g.is_constant(node.inputs[0]):
            plan.quantize(node, NodeMode.WEIGHT)
        else:
            zero_point = None if bounds is None else bounds.zero_point(node.inputs[0])
            plan.quantize(node, NodeMode.DYNAMIC, row_zero_point=zero_point)
    if settings.costs is not None:
        _only_store_slow_ones(model, plan, settings.costs)
    for node in model.graph:  # last, so that no other node is decided otherwise without these
        if node.name in settings.skip:
            plan.keep_float(node, "named in skip_quant_node")
    decide_inner_nodes(model.graph, plan, settings.skip)
    return plan


def _only_store_slow_ones(model: ir.Model, plan: QuantPlan, costs: KernelCosts) -> None:
    """Products that take longer with integers compute with floats; only their weights are stored as integers, if not small."""
    batches = {str(s[0]) for value in model.graph.inputs if (s := value.shape) and not isinstance(s[0], int)}
    products = [node for node in _dynamic_nodes(model, plan) if node.op_type in PRODUCTS]
    if float_time(model, products, costs) < costs.shortest:
        return
    slow = [node for node in products if _gain(node, costs.dynamic, batches) <= 0]
    for node in slow:
        if is_small(node):
            plan.keep_float(node, TAKES_LONGER)
        else:
            plan.quantize(node, NodeMode.WEIGHT)
    if not plan.quantized_nodes:
        for node in slow:
            plan.quantize(node, NodeMode.WEIGHT)


def _gain(product: ir.Node, costs: DynamicCosts, batches: Container[str]) -> float:
    """Microseconds that a product saves with integers; ``batches`` are the names of open axes that hold samples."""
    weight = g.static_shape(weight_of(product))
    assert weight is not None
    return costs.gain(_rows(product.outputs[0], batches), *weight, is_added=_adds_apart(product))


def _rows(result: ir.Value, batches: Container[str]) -> int | None:
    """Rows of a product for one sample, ``None`` if another axis is open."""
    if result.shape is None:
        return None
    sizes = list(result.shape[:-1])
    if sizes and str(sizes[0]) in batches:
        sizes[0] = 1
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def _adds_apart(product: ir.Node) -> bool:
    """Whether the bias of a product is an operator of its own: onnxruntime makes one of both for matrices alone."""
    result, reader = product.outputs[0], g.single_consumer(product.outputs[0])
    is_stack = result.shape is not None and len(result.shape) > MATRIX_RANK
    return is_stack and reader is not None and is_op(reader, "Add") and any(map(g.is_constant, reader.inputs))


def quantize_dynamic(
    model: ir.Model,
    settings: DynamicSettings,
    *,
    target: str,
    plan: QuantPlan | None = None,
    samples: Samples | None = None,
    context: RunContext,
) -> QuantizedModel:
    """Plan with weight parameters; activations get none. A given plan is used as it is.

    Args:
        model: Optimized float graph (rewritten in place where the plan has smoothing factors).
        settings: Choices.
        target: Name of the device table.
        plan: Decisions and parameters to use instead of making them.
        samples: Calibration samples, for smoothing and rounding; without them smoothing relies on normalizations only.
        context: Runs the float model.

    Raises:
        CalibrationError: A weight is NaN, infinite or empty; it is named.
        ConfigError: The given plan does not fit the model.
    """
    given = plan
    plan = given or decide_dynamic(model, settings, target=target)
    if given is not None:
        plan.check(model)
        _check_forms(model, plan)
        if settings.portable:
            check_saturation(plan, _dynamic_nodes(model, plan))
        apply_smoothing(model, plan, mode=NodeMode.DYNAMIC)
    else:
        refuse_broken_constants(model, plan)
        smoothing = settings.smoothing and settings.weight_per_channel
        if smoothing and samples is not None:
            remedies = Remedies(rows=settings.rows)
            smooth_products(
                model, plan, samples.head(SAMPLES), mode=NodeMode.DYNAMIC, remedies=remedies, context=context
            )
        elif smoothing and not is_larger_than_memory(model):
            smooth_expected_products(model, plan, context.log)
    is_portable = settings.portable if given is None else given.cannot_saturate
    if (
        is_portable and settings.weight_per_channel and _dynamic_nodes(model, plan)
    ):  # scales in a plan are in this order too
        reorder_channels(model, per_channel=True, threads=context.threads)
    if given is None:
        _find_params(model, plan, settings)
    quantized = QuantizedModel(model, plan, reference=model.clone())
    data = None if samples is None or is_larger_than_memory(model) else samples
    if settings.rounding.is_fitted and data is not None and _fitted_nodes(quantized):
        quantized.q_weights = _fitted_integers(quantized, data.head(SAMPLES), settings.rounding, context)
    round_convolutions(quantized, data, context)
    return quantized


def _fitted_integers(
    quantized: QuantizedModel, feeds: Sequence[Feed], rounding: Rounding, context: RunContext
) -> dict[str, Integers]:
    """Integers of weights, fitted to inputs of a network in which only the weights of earlier layers are quantized."""
    plan = quantized.plan
    nodes = {name: NodePlan(node.op_type, NodeMode.FLOAT, "is not fitted") for name, node in plan.nodes.items()}
    for node in _fitted_nodes(quantized):
        nodes[node.name or ""] = NodePlan(node.op_type, NodeMode.WEIGHT)
    copy = QuantizedModel(quantized.model.clone(), replace(plan, nodes=nodes))
    wanted = LayerFit(biases=False, rounding=rounding)
    with context.log.stage(wanted.stage):
        fit_layers(copy, feeds, wanted, context)
    return copy.q_weights


def _fitted_nodes(quantized: QuantizedModel) -> list[ir.Node]:
    """Products whose weights get fitted rounding."""
    nodes = _dynamic_nodes(quantized.model, quantized.plan)
    return [node for node in nodes if not is_recurrent(node) and _columns(node) <= FITTED_COLUMNS]


def _find_params(model: ir.Model, plan: QuantPlan, settings: DynamicSettings) -> None:
    stored = [(n, w) for n in g.all_nodes(model.graph) if plan.mode(n) is not NodeMode.FLOAT for w in stored_weights(n)]
    for node, weight in stored:
        if weight.name is None:
            continue
        if plan.mode(node) is NodeMode.WEIGHT or is_recurrent(node):
            has_axis = settings.recurrent_per_channel or not is_recurrent(node)
            axis = stored_axis(node, weight) if has_axis else None
            is_symmetric = node.op_type not in CONVOLUTIONS
            spec = QuantSpec(bits=8, signed=True, symmetric=is_symmetric, narrow_range=is_symmetric, axis=axis)
        else:
            has_axis = settings.weight_per_channel and not has_short_columns(node, weight, settings.shared_below)
            axis = output_channel_axis(node, weight) if has_axis else None
            spec = QuantSpec(8, signed=True, symmetric=True, narrow_range=SYMMETRIC_WEIGHT.narrow_range, axis=axis)
        known = plan.weights.get(weight.name)
        if known is not None and known.spec.axis != spec.axis:
            spec = replace(spec, axis=None)  # stored once, for nodes whose channels run along different axes
        try:
            plan.weights[weight.name] = weight_params(g.floats(weight), spec)
        except CalibrationError as error:
            raise CalibrationError(error.message, where=f"constant {weight.name}", hint="repair the weights") from error
    if settings.portable:
        avoid_saturation(model, _dynamic_nodes(model, plan), plan.weights)


def _check_forms(model: ir.Model, plan: QuantPlan) -> None:
    """Refuse a given plan in which nodes are dynamic that have no such form.

    Raises:
        ConfigError: They are named.
    """
    problems = []
    for node in _dynamic_nodes(model, plan):
        if is_recurrent(node):
            reason = "" if has_integer_form(node) else "its operator has no dynamic form"
        else:
            reason = _has_no_form(node) if node.op_type in PRODUCTS else "its operator has no dynamic form"
        if not reason and any(weight.name not in plan.weights for weight in stored_weights(node)):
            reason = "its weight has no scales"
        if reason:
            problems.append(f"plan: {node.name} ({node.op_type}) cannot be dynamic: {reason}")
    if problems:
        hint = "make a new plan with --savePlan"
        raise ConfigError("the plan does not fit the model", problems=tuple(problems), hint=hint)


def _columns(node: ir.Node) -> int:
    """Inputs of a product."""
    rows, columns = g.static_shape(weight_of(node)) or (0, 0)
    return columns if g.int_attribute(node, "transB", 0) else rows


def _dynamic_nodes(model: ir.Model, plan: QuantPlan) -> list[ir.Node]:
    return [node for node in model.graph if plan.mode(node) is NodeMode.DYNAMIC]


def _stays_float(node: ir.Node, signals: Mapping[ir.Node, str], settings: DynamicSettings) -> str:
    """Why the weight of a product or a convolution is not stored as integers; empty where it is."""
    weight = weight_of(node)
    if weight is None:
        return missing_weight(node)
    if node.op_type in CONVOLUTIONS and not settings.layers:
        return "only matrix products are quantized at run time, and its weight stays float"
    if node.op_type in CONVOLUTIONS:
        return SAVES_NOTHING if is_small(node) else signals.get(node, "")
    if node in signals:
        return signals[node]
    if has_short_columns(node, weight, settings.least_summands):
        return FEW_SUMMANDS
    is_kept = not settings.layers or is_small(node) or len(g.static_shape(weight) or ()) < MATRIX_RANK
    if is_kept and (reason := _has_no_form(node)):
        return reason
    return "it multiplies constants" if is_small(node) and g.is_constant(node.inputs[0]) else ""


def _has_no_form(node: ir.Node) -> str:
    """Why a product with a constant weight cannot compute with integers."""
    weight = weight_of(node)
    if len(g.static_shape(weight) or ()) != 2 or node.inputs[0] is None or node.inputs[0].dtype not in FLOAT_TYPES:
        return "its weight is not a matrix of float32"
    if node.op_type == "Gemm":
        bias = bias_of(node)
        factors = [float(node.attributes[a].as_float()) for a in ("alpha", "beta") if a in node.attributes]
        if (
            g.int_attribute(node, "transA", 0)
            or any(f != 1.0 for f in factors)
            or (bias is not None and not g.is_constant(bias))
        ):
            return "Gemm with transA, alpha, beta or a computed bias has no integer form"
    return ""


def _is_table(node: ir.Node) -> bool:
    weight = stored_weight(node)
    return weight is not None and len(g.static_shape(weight) or ()) == 2 and g.int_attribute(node, "axis", 0) == 0
