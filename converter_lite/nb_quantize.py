"""Quantization for ``.nb`` files: what the runtimes of Paddle-Lite can use, with the corrections that there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.calibration.observers import METHODS
from converter_lite.calibration.runner import Samples, collect
from converter_lite.engine import DEFAULT_ENGINE, Engine, Feed
from converter_lite.errors import ConfigError
from converter_lite.formats.paddle_nb.capability import weight_of
from converter_lite.formats.paddle_nb.full_plan import calibration_tensors, plan_full
from converter_lite.formats.paddle_nb.lowering import constant
from converter_lite.formats.paddle_nb.weight_plan import plan_weights
from converter_lite.log import Log
from converter_lite.quantization.bias_correction import CORRECTION_SAMPLES, correct_layers, ensure_biases
from converter_lite.quantization.choose import Settings
from converter_lite.quantization.equalize import equalize
from converter_lite.quantization.full import BIAS_OPERATORS, FullSettings
from converter_lite.quantization.params import TensorRange
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.weight_only import WeightSettings
from converter_lite.quantization.weights import compensated_integers

WEIGHT_BITS = (8, 16)
"""Widths of integer weights that the runtime turns back into floats."""


def quantize_for_nb(
    model: ir.Model,
    settings: Settings,
    *,
    target: str,
    samples: Samples | None,
    engine: Engine = DEFAULT_ENGINE,
    threads: int = 1,
    log: Log | None = None,
) -> QuantizedModel:
    """Quantize ``model`` (changed in place: biases) as a configuration asks, for one target.

    Full int8 is for ARM. For x86 only weights become integers: the int8 kernels there saturate and are no faster.

    Args:
        model: Optimized float graph with names.
        settings: Full or weight quantization.
        target: ``arm``, ``x86`` or ``host``.
        samples: Calibration samples.
        engine: Runs the float model.
        threads: Worker threads.
        log: Receives progress, stage times and warnings.

    Raises:
        ConfigError: A ``.nb`` file has no such quantization, or there are no samples.
        CalibrationError: A tensor is not finite.
    """
    log = log or Log()
    if isinstance(settings, FullSettings) and target == "arm":
        if samples is None:
            raise ConfigError("FULL_QUANT needs calibration samples", hint="add [data_preprocess_param]")
        return _full(model, settings, target, samples, engine, threads, log)
    if isinstance(settings, FullSettings):
        log.warning(f"{target}: weights become int8, computation stays float; int8 kernels there saturate beyond 63")
        settings = WeightSettings(8, settings.per_channel, settings.bias_correction, skip=settings.skip)
    if not isinstance(settings, WeightSettings):
        raise ConfigError("a .nb file has no dynamic quantization", hint="use WEIGHT_QUANT or FULL_QUANT")
    if settings.bits not in WEIGHT_BITS:
        raise ConfigError(f"a .nb file stores weights with 8 or 16 bits, not {settings.bits}", hint="set bit_num to 8")
    return _weights(model, settings, target, samples, engine, threads, log)


def _full(
    model: ir.Model,
    settings: FullSettings,
    target: str,
    samples: Samples,
    engine: Engine,
    threads: int,
    log: Log,
) -> QuantizedModel:
    ensure_biases(model, operators=BIAS_OPERATORS)
    head = samples.head(CORRECTION_SAMPLES)
    if settings.equalization:
        with log.stage("equalization"):
            per_channel, alpha = settings.per_channel, settings.smooth_alpha
            equalize(model, head, per_channel=per_channel, alpha=alpha, engine=engine, threads=threads)
    reference = model.clone()
    need, observe = METHODS[settings.method]
    names = calibration_tensors(model, target)
    with log.stage("calibration"):
        stats = collect(model, names, need, samples, threads=threads, log=log, engine=engine)
    ranges = {name: _range(observe(stats[name], 8), settings.method) for name in names}
    with log.stage("quantization"):
        quantized = plan_full(model, ranges, target=target, skip=settings.skip, per_channel=settings.per_channel)
    quantized.reference = reference
    _correct(quantized, settings, head, engine, threads, log)
    return quantized


def _range(bounds: tuple[float, float], method: str) -> TensorRange:
    return TensorRange(np.asarray(bounds[0], np.float64), np.asarray(bounds[1], np.float64), observer=method)


def _weights(
    model: ir.Model,
    settings: WeightSettings,
    target: str,
    samples: Samples | None,
    engine: Engine,
    threads: int,
    log: Log,
) -> QuantizedModel:
    head = samples.head(CORRECTION_SAMPLES) if samples is not None else []
    if head:
        ensure_biases(model, operators=BIAS_OPERATORS)
    reference = model.clone()
    with log.stage("quantization"):
        quantized = plan_weights(
            model, target=target, bits=settings.bits, skip=settings.skip, per_channel=settings.per_channel
        )
    quantized.reference = reference
    _correct(quantized, settings, head, engine, threads, log)
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
            _round(quantized)
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


def _round(quantized: QuantizedModel) -> None:
    for node in quantized.model.graph:
        value = weight_of(node)
        if quantized.plan.mode(node) is NodeMode.FLOAT or value is None or node.op_type == "Gather":
            continue
        array, params = constant(value), quantized.plan.weights[str(value.name)]
        if array is not None and params.spec.bits == 8:
            values = array.astype(np.float32, copy=False)
            quantized.q_weights[str(value.name)] = compensated_integers(node, values, params)
