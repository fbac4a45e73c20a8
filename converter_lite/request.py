"""What a conversion is asked for and what it gives back: plain data between command line, programming interface and work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from converter_lite.config.settings import QuantizationConfig
    from converter_lite.quantization.plan import QuantPlan

PROOF_SAMPLES = 16
"""Samples on which the written file is compared with the float model."""

DEFAULT_MIN_COSINE = 0.95
"""Quality gate where none is asked for: 8 bits and more, on real samples."""


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """Every option of a conversion; the defaults are those of the command line.

    Attributes:
        model_file: Model to read.
        output_file: Path of the result; the suffix of each format is appended unless it is there.
        fmk: Framework of the model.
        weight_file: Second file of a CAFFE model.
        config_file: INI file; ``None`` together with ``config`` converts in float.
        config: A configuration made in memory, instead of ``config_file``.
        input_shape: Input name -> fixed shape.
        input_data_format: Layout of BIN calibration files of 4-D inputs, NHWC or NCHW.
        input_data_type: Element type of the inputs of the result: DEFAULT keeps the model's.
        output_data_type: The same for the outputs.
        fp16: Store float constants that stay float as float16.
        optimize: Level of graph optimization.
        save_type: Output formats, in order.
        infer: Run the result once on random data even where there are calibration samples.
        min_cosine: Quality gate; ``None`` takes the default rule, 0 switches it off.
        plan: JSON file with plans to use instead of making them.
        save_plan: Where to write the plans.
        dry_run: Make decisions and forecast the size, write nothing.
        json: Where to write a machine-readable result.
        threads: Worker threads; 0 = one per core.
        calibration_data: Samples from Python instead of ``calibrate_path``.
        calibration_size: How many of them, ``None`` = all.
    """

    model_file: Path
    output_file: Path
    fmk: str = "ONNX"
    weight_file: Path | None = None
    config_file: Path | None = None
    config: QuantizationConfig | None = None
    input_shape: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_data_format: str = "NHWC"
    input_data_type: str = "DEFAULT"
    output_data_type: str = "DEFAULT"
    fp16: bool = False
    optimize: str = "general"
    save_type: tuple[str, ...] = ("ONNX",)
    infer: bool = False
    min_cosine: float | None = None
    plan: Path | None = None
    save_plan: Path | None = None
    dry_run: bool = False
    json: Path | None = None
    threads: int = 0
    calibration_data: Any = None
    calibration_size: int | None = None


@dataclass(frozen=True, slots=True)
class OutputAccuracy:
    """One output of the written file next to the float model.

    Attributes:
        name: Output name.
        cosine: Mean cosine similarity over the samples.
        least_cosine: The lowest one.
        sqnr: Signal to quantization noise ratio over all samples, dB; infinite when equal.
        max_error: Largest absolute difference.
        max_value: Largest absolute value of the float output.
    """

    name: str
    cosine: float
    least_cosine: float
    sqnr: float
    max_error: float
    max_value: float


@dataclass(frozen=True, slots=True)
class Artefact:
    """A written model.

    Attributes:
        format: Name as in ``--saveType``.
        path: The file.
        bytes: Size with external data.
        sha256: Hash of the file.
        accuracy: Proof per output.
        samples: Number of samples of the proof.
        real_samples: Whether they were calibration samples (else random data).
    """

    format: str
    path: Path
    bytes: int
    sha256: str
    accuracy: tuple[OutputAccuracy, ...]
    samples: int
    real_samples: bool


@dataclass(slots=True)
class ConvertResult:
    """What a conversion did.

    Attributes:
        artefacts: Written files; empty after a dry run.
        plans: Output format -> plan; empty after a float conversion.
        model_bytes: Size of the model that was read, external data included.
        forecast_bytes: Output format -> estimated size, after a dry run.
        nodes_read, nodes_optimized: Node counts before and after optimization.
        warnings: Everything the user should know.
        seconds: Stage -> wall seconds.
        peak_memory: Largest resident memory of the process so far, bytes.
        versions: Package -> version.
    """

    model_bytes: int
    nodes_read: int = 0
    nodes_optimized: int = 0
    artefacts: list[Artefact] = field(default_factory=list)
    plans: dict[str, QuantPlan] = field(default_factory=dict)
    forecast_bytes: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        from converter_lite.reports.result_json import result_to_json

        return result_to_json(self)
