"""The result of a conversion for programs (``--json``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from converter_lite.quantization.plan import QuantPlan
from converter_lite.reports.failure_json import accuracy_to_json
from converter_lite.request import Artefact, ConvertResult

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
