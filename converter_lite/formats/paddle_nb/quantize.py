"""Quantization for ``.nb`` files: what the runtimes of Paddle-Lite can use, with the corrections that there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.calibration.observers import METHODS
from converter_lite.calibration.runner import Samples, collect
from converter_lite.engine import DEFAULT_ENGINE, Engine, Feed
from converter_lite.errors import ConfigError
from converter_lite.execution.executor import Executor
from converter_lite.formats.paddle_nb.capability import weight_of
from converter_lite.formats.paddle_nb.full_plan import calibration_tensors, plan_full
from converter_lite.formats.paddle_nb.lowering import constant
from converter_lite.formats.paddle_nb.weight_plan import plan_weights, round_planned
from converter_lite.log import Log
from converter_lite.quantization.bias_correction import correct_layers, ensure_biases, samples_wanted
from converter_lite.quantization.choose import Settings
from converter_lite.quantization.decide import READS_PICTURE
from converter_lite.quantization.dynamic import DynamicSettings
from converter_lite.quantization.equalize import equalize
from converter_lite.quantization.full import BIAS_OPERATORS, FullSettings
from converter_lite.quantization.params import TensorRange
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.run import needed_samples
from converter_lite.quantization.stem import stem
from converter_lite.quantization.weight_only import WeightSettings
from converter_lite.quantization.weights import compensated_integers

WEIGHT_BITS = (8, 16)
"""Widths of integer weights that the runtime turns back into floats."""


def quantize_for_nb(
    model: ir.Model,
    settings: Settings,
    *,
    target: str,
    integer: bool,
    samples: Samples | None,
    plan: QuantPlan | None = None,
    engine: Engine = DEFAULT_ENGINE,
    threads: int = 1,
    log: Log | None = None,
    executor: Executor | None = None,
) -> QuantizedModel:
    """Quantize ``model`` (changed in place: biases) as a configuration asks, for one target.

    Full int8 is for ARM. For x86 only weights become integers unless asked for: the int8 kernels there saturate and are
    no faster.

    Args:
        model: Optimized float graph with names.
        settings: Full or weight quantization.
        target: ``arm``, ``x86`` or ``host``.
        integer: Whether full quantization may compute with integers, else its weights alone become integers.
        samples: Calibration samples.
        plan: Decisions and parameters to use instead of making them.
        engine: Runs the float model.
        threads: Worker threads.
        log: Receives progress, stage times and warnings.
        executor: Observes activations elsewhere; ``None``: this process.

    Raises:
        ConfigError: A ``.nb`` file has no such quantization, or there are no samples.
        CalibrationError: A tensor is not finite.
    """
    log = log or Log()
    refuse_settings(settings)
    fits = not isinstance(settings, DynamicSettings) and settings.adaptive_rounding
    head = samples.head(samples_wanted(model, fitted_rounding=fits)) if samples is not None else []
    if isinstance(settings, FullSettings) and integer:
        quantized = _full(model, settings, target, needed_samples(samples), plan, engine, threads, log, executor)
    else:
        if isinstance(settings, FullSettings):
            log.warning(
                f"{target}: weights become int8, computation stays float: int8 kernels there saturate beyond 63 and are"
                " not faster; target_device=X86 asks for them"
            )
        settings = _weight_settings(settings)
        quantized = _weights(model, settings, target, bool(head), plan, log)
    _correct(quantized, settings, head, engine, threads, log)
    return quantized


def decide_for_nb(model: ir.Model, settings: Settings, *, target: str, integer: bool) -> QuantPlan:
    """Decisions of :func:`quantize_for_nb`, for a dry run; the parameters are not those of the file.

    Raises:
        ConfigError: A ``.nb`` file has no such quantization.
    """
    refuse_settings(settings)
    if isinstance(settings, FullSettings) and integer:
        unit = TensorRange(np.asarray(-1.0), np.asarray(1.0))
        ranges = dict.fromkeys(calibration_tensors(model, target), unit)
        kept = _kept(model, settings)
        return plan_full(model, ranges, target=target, kept=kept, per_channel=settings.per_channel).plan
    weights = _weight_settings(settings)
    per_channel = weights.per_channel
    return plan_weights(model, target=target, bits=weights.bits, skip=weights.skip, per_channel=per_channel).plan


def refuse_settings(settings: Settings) -> None:
    """Refuse what a ``.nb`` file cannot hold.

    Raises:
        ConfigError: It cannot; the reason is given.
    """
    if isinstance(settings, DynamicSettings):
        raise ConfigError("a .nb file has no dynamic quantization", hint="use WEIGHT_QUANT or FULL_QUANT")
    if isinstance(settings, WeightSettings) and settings.mixed is not None:
        raise ConfigError(
            "a .nb file stores weights with 8 or 16 bits, not with searched widths", hint="set bit_num to 8"
        )
    if isinstance(settings, WeightSettings) and settings.bits not in WEIGHT_BITS:
        raise ConfigError(f"a .nb file stores weights with 8 or 16 bits, not {settings.bits}", hint="set bit_num to 8")


def _weight_settings(settings: Settings) -> WeightSettings:
    """What is left of a full quantization where only weights become integers."""
    if isinstance(settings, WeightSettings):
        return settings
    assert isinstance(settings, FullSettings)
    return WeightSettings(8, settings.per_channel, settings.bias_correction, skip=settings.skip)


def _full(
    model: ir.Model,
    settings: FullSettings,
    target: str,
    samples: Samples,
    plan: QuantPlan | None,
    engine: Engine,
    threads: int,
    log: Log,
    executor: Executor | None,
) -> QuantizedModel:
    ensure_biases(model, operators=BIAS_OPERATORS)
    head = samples.head(samples_wanted(model, fitted_rounding=settings.adaptive_rounding))
    if settings.equalization:
        with log.stage("equalization"):
            per_channel, alpha = settings.per_channel, settings.smooth_alpha
            feeds = log.track(head, "equalizing", len(head))
            equalize(model, feeds, per_channel=per_channel, alpha=alpha, engine=engine, threads=threads)
    reference = model.clone()
    if plan is not None:
        plan.check(model)
        return QuantizedModel(model, plan, round_planned(model, plan), reference)
    need, observe = METHODS[settings.method]
    names = calibration_tensors(model, target)
    with log.stage("calibration"):
        stats = collect(model, names, need, samples, threads=threads, log=log, engine=engine, executor=executor)
    ranges = {name: _range(observe(stats[name], 8), settings.method) for name in names}
    with log.stage("quantization"):
        kept, per_channel = _kept(model, settings), settings.per_channel
        quantized = plan_full(model, ranges, target=target, kept=kept, per_channel=per_channel)
    quantized.reference = reference
    return quantized


def _kept(model: ir.Model, settings: FullSettings) -> dict[str, str]:
    """Name of a node that stays float -> why: what the user named, and layers that read a picture."""
    picture = {str(node.name): READS_PICTURE for node in stem(model)}
    return picture | dict.fromkeys(settings.skip, "named in skip_quant_node")


def _range(bounds: tuple[float, float], method: str) -> TensorRange:
    return TensorRange(np.asarray(bounds[0], np.float64), np.asarray(bounds[1], np.float64), observer=method)


def _weights(
    model: ir.Model, settings: WeightSettings, target: str, has_samples: bool, plan: QuantPlan | None, log: Log
) -> QuantizedModel:
    if has_samples:
        ensure_biases(model, operators=BIAS_OPERATORS)
    reference = model.clone()
    if plan is not None:
        plan.check(model)
        return QuantizedModel(model, plan, round_planned(model, plan), reference)
    bits, per_channel = settings.bits, settings.per_channel
    with log.stage("quantization"):
        quantized = plan_weights(model, target=target, bits=bits, skip=settings.skip, per_channel=per_channel)
    quantized.reference = reference
    return quantized


def _correct(
    quantized: QuantizedModel,
    settings: FullSettings | WeightSettings,
    head: Sequence[Feed],
    engine: Engine,
    threads: int,
    log: Log,
) -> None:
    """Rounding whose errors cancel; then, where there are samples, biases and rounding fitted to them."""
    if settings.bias_correction:
        with log.stage("rounding"):
            _round(quantized, log)
    if head and (settings.bias_correction or settings.adaptive_rounding):
        with log.stage("corrections"):
            correct_layers(
                quantized,
                head,
                biases=settings.bias_correction,
                rounding=settings.adaptive_rounding,
                engine=engine,
                threads=threads,
                log=log,
            )


def _round(quantized: QuantizedModel, log: Log) -> None:
    nodes = list(quantized.model.graph)
    for node in log.track(nodes, "rounding weights", len(nodes)):
        value = weight_of(node)
        if quantized.plan.mode(node) is NodeMode.FLOAT or value is None or node.op_type == "Gather":
            continue
        array, params = constant(value), quantized.plan.weights[str(value.name)]
        if array is not None and params.spec.bits == 8:
            values = array.astype(np.float32, copy=False)
            quantized.q_weights[str(value.name)] = compensated_integers(node, values, params)
