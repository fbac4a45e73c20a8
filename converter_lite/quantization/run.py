"""Quantization as a configuration asks for it, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite.calibration.runner import Samples
from converter_lite.engine import Engine, Feed
from converter_lite.errors import ConfigError
from converter_lite.log import Log
from converter_lite.quantization.choose import Choice
from converter_lite.quantization.dynamic import decide_dynamic, quantize_dynamic
from converter_lite.quantization.full import FullSettings, decide_full, quantize_full
from converter_lite.quantization.mixed_bits import SEARCH_SAMPLES
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.weight_only import WeightSettings, decide_weights, quantize_weights


@dataclass(frozen=True, slots=True)
class Resources:
    """What a quantization works with.

    Attributes:
        samples: Calibration samples, ``None`` where there are none.
        engine: Runs the float model.
        threads: Worker threads.
        log: Receives progress, stage times and warnings.
        random_feeds: Gives random samples for a model, where something is tuned without data.
    """

    samples: Samples | None
    engine: Engine
    threads: int
    log: Log
    random_feeds: Callable[[ir.Model, int], Sequence[Feed]]


def needed_samples(samples: Samples | None) -> Samples:
    """The samples of a full quantization.

    Raises:
        ConfigError: There are none.
    """
    if samples is None:
        raise ConfigError("FULL_QUANT needs calibration samples", hint="add [data_preprocess_param]")
    return samples


def quantize(model: ir.Model, choice: Choice, *, plan: QuantPlan | None, resources: Resources) -> QuantizedModel:
    """Quantize ``model`` (changed in place) within the table of ``choice.target``.

    Args:
        model: Optimized float graph with names.
        choice: Settings and device.
        plan: Decisions and parameters to use instead of making them.
        resources: Samples and the rest.

    Raises:
        ConfigError: Samples are needed and there are none, or the plan does not fit.
        CalibrationError: A tensor cannot be quantized; it is named.
    """
    settings, name = choice.settings, choice.target.name
    engine, threads, log = resources.engine, resources.threads, resources.log
    if isinstance(settings, FullSettings):
        samples = needed_samples(resources.samples)
        return quantize_full(
            model, choice.target, settings, samples=samples, plan=plan, engine=engine, threads=threads, log=log
        )
    if isinstance(settings, WeightSettings):
        return quantize_weights(
            model,
            settings,
            target=name,
            plan=plan,
            samples=resources.samples,
            tuning=_tuning(model, settings, resources),
            engine=engine,
            threads=threads,
            log=log,
        )
    return quantize_dynamic(
        model,
        settings,
        target=name,
        plan=plan,
        samples=resources.samples,
        engine=engine,
        threads=threads,
        log=log,
    )


def _tuning(model: ir.Model, settings: WeightSettings, resources: Resources) -> Sequence[Feed]:
    """Random samples for a search of widths without data."""
    if settings.mixed is None or not settings.mixed.search or resources.samples is not None:
        return ()
    resources.log.warning("the widths are tuned on random samples: calibration data would give better ones")
    return resources.random_feeds(model, SEARCH_SAMPLES)


def decide(model: ir.Model, choice: Choice) -> QuantPlan:
    """Decisions of :func:`quantize` without parameters."""
    settings = choice.settings
    if isinstance(settings, FullSettings):
        return decide_full(model, choice.target, settings)
    if isinstance(settings, WeightSettings):
        return decide_weights(model, settings, target=choice.target.name)
    return decide_dynamic(model, settings, target=choice.target.name)
