"""What a conversion gives back: plain data for programs, and as JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter_lite.execution import environment

if TYPE_CHECKING:
    from converter_lite.pipeline.speed import Speed
    from converter_lite.quantization.plan import QuantPlan
    from converter_lite.reports.accuracy import OutputAccuracy
    from converter_lite.reports.figures import ModelFigures
    from converter_lite.reports.preview import InputPreview

PACKAGES = ("converter-lite", "numpy", "onnx", "onnx-ir", "onnxruntime")

MAX_WEIGHT_BITS = 16


@dataclass(frozen=True, slots=True)
class Artefact:
    """A written model.

    Attributes:
        format: Name as in ``--saveType``.
        path: The file.
        bytes: Size of all its files.
        sha256: Hash of them, one after another.
        accuracy: Proof per output.
        samples: Number of samples of the proof.
        real_samples: Whether they were samples of the user (else random data).
        gate: Least mean cosine that was asked for; ``None`` without a gate.
        sample_kind: Which samples: ``calibration``, ``proof`` (of ``proof_data``) or ``random``.
        speed: Time of an ONNX file beside the float model; ``None`` where it was not measured.
        files: Names of all its files, in the folder of ``path``: parameters and external data have files of their own.
    """

    format: str
    path: Path
    bytes: int
    sha256: str
    accuracy: tuple[OutputAccuracy, ...]
    samples: int
    real_samples: bool
    gate: float | None = None
    sample_kind: str = "calibration"
    speed: Speed | None = None
    files: tuple[str, ...] = ()


def installed_versions() -> dict[str, str]:
    """Versions of everything that affects a result."""
    return {"python": platform.python_version(), **environment.installed(PACKAGES)}


@dataclass(slots=True)
class ConvertResult:
    """What a conversion did.

    Attributes:
        artefacts: Written files; empty after a dry run.
        plans: Output format -> plan; empty after a float conversion.
        figures: Output format -> layers and tensors, with errors if a report was made.
        samples: The first prepared samples, when a report was made.
        model_bytes: Size of the model that was read, external data included.
        configuration: Section -> key -> text of everything that was set; the command line is ``command line``.
        forecast_bytes: Output format -> estimated size, after a dry run.
        nodes_read, nodes_optimized: Node counts before and after optimization.
        warnings: Everything the user should know.
        seconds: Stage -> wall seconds.
        peak_memory: Most bytes of memory that the process held while it converted, beside pages of files.
        peak_resident: Most since the process began, with such pages: of the model that is read, of libraries.
    """

    model_bytes: int
    nodes_read: int = 0
    nodes_optimized: int = 0
    artefacts: list[Artefact] = field(default_factory=list)
    plans: dict[str, QuantPlan] = field(default_factory=dict)
    figures: dict[str, ModelFigures] = field(default_factory=dict)
    samples: list[list[InputPreview]] = field(default_factory=list)
    configuration: dict[str, dict[str, str]] = field(default_factory=dict)
    forecast_bytes: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    peak_resident: int = 0

    @property
    def versions(self) -> dict[str, str]:
        """See :func:`installed_versions`."""
        return installed_versions()

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``--json``; numbers that JSON lacks (infinite SQNR) are ``null``."""
        return {
            "status": 0,
            "model_bytes": self.model_bytes,
            "nodes": {"read": self.nodes_read, "optimized": self.nodes_optimized},
            "artefacts": [_artefact(artefact) for artefact in self.artefacts],
            "forecast_bytes": self.forecast_bytes,
            "plans": {name: _plan(plan) for name, plan in self.plans.items()},
            "figures": {name: figures.to_json() for name, figures in self.figures.items()},
            "samples": [[preview.to_json() for preview in sample] for sample in self.samples],
            "configuration": self.configuration,
            "warnings": self.warnings,
            "seconds": {name: round(seconds, 4) for name, seconds in self.seconds.items()},
            "peak_memory_bytes": self.peak_memory,
            "peak_resident_bytes": self.peak_resident,
            "versions": self.versions,
        }


def rejected_to_json(result: ConvertResult) -> dict[str, Any]:
    """:meth:`ConvertResult.to_json` of a conversion whose files missed the quality gate and were not kept."""
    found = result.to_json()
    found["rejected"] = found.pop("artefacts")
    return found


def accuracy_to_json(accuracy: Sequence[OutputAccuracy]) -> list[dict[str, Any]]:
    """Figures of each output; numbers that JSON lacks (infinite SQNR) are ``None``."""
    return [
        {key: (None if isinstance(v, float) and not math.isfinite(v) else v) for key, v in asdict(output).items()}
        for output in accuracy
    ]


def speed_to_json(speed: Speed) -> dict[str, float]:
    """Milliseconds, and their ratio."""
    return {name: round(value, 4) for name, value in {**asdict(speed), "speedup": speed.speedup}.items()}


def _artefact(artefact: Artefact) -> dict[str, Any]:
    data = asdict(artefact)
    data["path"], data["files"] = str(artefact.path), list(artefact.files)
    data["speed"] = None if artefact.speed is None else speed_to_json(artefact.speed)
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
