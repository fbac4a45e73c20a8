"""Quantization as a configuration asks for it, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite.calibration.cache import StatisticsCache
from converter_lite.calibration.runner import Samples
from converter_lite.engine import Engine, Feed
from converter_lite.errors import ConfigError
from converter_lite.execution.executor import Executor
from converter_lite.log import Log
from converter_lite.quantization.choose import Choice
from converter_lite.quantization.perform import Quantizer
from converter_lite.quantization.plan import QuantizedModel, QuantPlan

SUBSTITUTES = 16
"""Random samples that accuracy is measured on where there are no others."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a quantization works with.

    Attributes:
        samples: Calibration samples, ``None`` where there are none.
        engine: Runs the float model.
        threads: Worker threads.
        log: Receives progress, stage times and warnings.
        random_feeds: Gives random samples for a model, where something is measured without data.
        cache: Statistics of earlier runs, ``None`` without ``--cache``.
        executor: Observes activations elsewhere; ``None``: this process.
    """

    samples: Samples | None
    engine: Engine
    threads: int
    log: Log
    random_feeds: Callable[[ir.Model, int], Sequence[Feed]]
    cache: StatisticsCache | None = None
    executor: Executor | None = None


def needed_samples(samples: Samples | None) -> Samples:
    """The samples of a full quantization.

    Raises:
        ConfigError: There are none.
    """
    if samples is None:
        raise ConfigError("FULL_QUANT needs calibration samples", hint="add [data_preprocess_param]")
    return samples


def quantize(model: ir.Model, choice: Choice, *, plan: QuantPlan | None, resources: Resources) -> QuantizedModel:
    """Quantize ``model`` (left as it is) within the table of ``choice.target``.

    Args:
        model: Optimized float graph with names.
        choice: Settings and device.
        plan: Decisions and parameters to use instead of making them.
        resources: Samples and the rest.

    Raises:
        ConfigError: Samples are needed and there are none, or the plan does not fit.
        CalibrationError: A tensor cannot be quantized; it is named.
    """
    quantizer = Quantizer(
        model,
        choice,
        resources.samples,
        substitutes=_substitutes(model, choice, resources),
        cache=resources.cache,
        executor=resources.executor,
        engine=resources.engine,
        threads=resources.threads,
        log=resources.log,
    )
    return quantizer.run(plan)


def _substitutes(model: ir.Model, choice: Choice, resources: Resources) -> Sequence[Feed]:
    """Random samples, where something has to be measured and there are no others."""
    if resources.samples is not None or not choice.measures:
        return ()
    resources.log.warning("accuracy is measured on random samples: calibration data would show what matters")
    return resources.random_feeds(model, SUBSTITUTES)
