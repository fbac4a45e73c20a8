"""The result of a conversion for programs (``--json``)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from converter_lite.errors import ConverterError
from converter_lite.quantization.plan import QuantPlan
from converter_lite.request import Artefact, ConvertResult


def result_to_json(result: ConvertResult) -> dict[str, Any]:
    """Plain data; numbers that JSON lacks (infinite SQNR) are ``null``."""
    return {
        "status": 0,
        "model_bytes": result.model_bytes,
        "nodes": {"read": result.nodes_read, "optimized": result.nodes_optimized},
        "artefacts": [_artefact(artefact) for artefact in result.artefacts],
        "forecast_bytes": result.forecast_bytes,
        "plans": {name: _plan(plan) for name, plan in result.plans.items()},
        "warnings": result.warnings,
        "seconds": {name: round(seconds, 4) for name, seconds in result.seconds.items()},
        "peak_memory_bytes": result.peak_memory,
        "versions": result.versions,
    }


def failure_to_json(status: int, error: BaseException) -> dict[str, Any]:
    """What ``--json`` holds after a failure."""
    where = error.where if isinstance(error, ConverterError) else ""
    hint = error.hint if isinstance(error, ConverterError) else ""
    message = error.message if isinstance(error, ConverterError) else f"{type(error).__name__}: {error}"
    problems = list(getattr(error, "problems", ()))
    return {"status": status, "error": message, "where": where, "hint": hint, "problems": problems}


def _artefact(artefact: Artefact) -> dict[str, Any]:
    data = asdict(artefact)
    data["path"] = str(artefact.path)
    data["accuracy"] = [
        {key: (None if isinstance(v, float) and not math.isfinite(v) else v) for key, v in asdict(output).items()}
        for output in artefact.accuracy
    ]
    return data


def _plan(plan: QuantPlan) -> dict[str, Any]:
    return {
        "target": plan.target,
        "quantized_nodes": len(plan.quantized_nodes),
        "float_nodes": len(plan.nodes) - len(plan.quantized_nodes),
        "float_reasons": dict(plan.float_reasons()),
    }
