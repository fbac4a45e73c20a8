"""The result of a conversion for programs (``--json``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from converter_lite.pipeline.request import Artefact, ConvertResult, OutputAccuracy
from converter_lite.quantization.plan import QuantPlan

MAX_WEIGHT_BITS = 16


def result_to_json(result: ConvertResult) -> dict[str, Any]:
    """Plain data; numbers that JSON lacks (infinite SQNR) are ``null``."""
    return {
        "status": 0,
        "model_bytes": result.model_bytes,
        "nodes": {"read": result.nodes_read, "optimized": result.nodes_optimized},
        "artefacts": [_artefact(artefact) for artefact in result.artefacts],
        "forecast_bytes": result.forecast_bytes,
        "plans": {name: _plan(plan) for name, plan in result.plans.items()},
        "figures": {name: figures.to_json() for name, figures in result.figures.items()},
        "samples": [[preview.to_json() for preview in sample] for sample in result.samples],
        "configuration": result.configuration,
        "warnings": result.warnings,
        "seconds": {name: round(seconds, 4) for name, seconds in result.seconds.items()},
        "peak_memory_bytes": result.peak_memory,
        "versions": result.versions,
    }


def rejected_to_json(result: ConvertResult) -> dict[str, Any]:
    """The same of a conversion whose files were not good enough and are not there."""
    found = result_to_json(result)
    found["rejected"] = found.pop("artefacts")
    return found


def accuracy_to_json(accuracy: Sequence[OutputAccuracy]) -> list[dict[str, Any]]:
    """Figures of each output; numbers that JSON lacks (infinite SQNR) are ``None``."""
    return [
        {key: (None if isinstance(v, float) and not math.isfinite(v) else v) for key, v in asdict(output).items()}
        for output in accuracy
    ]


def _artefact(artefact: Artefact) -> dict[str, Any]:
    data = asdict(artefact)
    data["path"] = str(artefact.path)
    data["accuracy"] = accuracy_to_json(artefact.accuracy)
    return data


def _plan(plan: QuantPlan) -> dict[str, Any]:
    return {
        "target": plan.target,
        "quantized_nodes": len(plan.quantized_nodes),
        "float_nodes": len(plan.nodes) - len(plan.quantized_nodes),
        "float_reasons": dict(plan.float_reasons()),
        "weight_bits": dict(sorted(_weight_bits(plan).items())),
    }


def _weight_bits(plan: QuantPlan) -> dict[str, list[str]]:
    """Width -> names of the weights that have it; biases are not weights."""
    found: dict[str, list[str]] = {}
    for name, params in plan.weights.items():
        if params.spec.bits <= MAX_WEIGHT_BITS:
            found.setdefault(str(params.spec.bits), []).append(name)
    return found
