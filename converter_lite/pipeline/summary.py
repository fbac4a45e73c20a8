"""The closing summary of a conversion, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from converter_lite.log import counted

if TYPE_CHECKING:
    from converter_lite.pipeline.result import Artefact, ConvertResult
    from converter_lite.pipeline.speed import Speed
    from converter_lite.reports.accuracy import OutputAccuracy


def summary(result: ConvertResult) -> str:
    """Sizes, accuracy per output, seconds per stage, peak memory."""
    lines: list[str] = []
    for artefact in result.artefacts:
        lines += _artefact_lines(artefact, result.model_bytes)
    for name, size in result.forecast_bytes.items():
        ratio = size / max(result.model_bytes, 1)
        lines.append(f"{name}: about {size:,} bytes expected ({ratio:.2f} x the {result.model_bytes:,} bytes read)")
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in result.seconds.items())
    lines.append(
        f"seconds: {stages}; peak memory {result.peak_memory / 2**20:.0f} MiB "
        f"({result.peak_resident / 2**20:.0f} MiB with mapped files)"
    )
    return "\n".join(lines)


def _artefact_lines(artefact: Artefact, model_bytes: int) -> list[str]:
    ratio = artefact.bytes / max(model_bytes, 1)
    return [
        f"{artefact.path}: {model_bytes:,} -> {artefact.bytes:,} bytes ({ratio:.2f} x)",
        *_speed_lines(artefact.speed),
        *accuracy_lines(artefact.accuracy, samples=artefact.samples, kind=artefact.sample_kind),
    ]


def _speed_lines(speed: Speed | None) -> list[str]:
    if speed is None:
        return []
    return [
        f"  {speed.file_ms:.3g} ms a sample, {speed.speedup:.2f} times as fast as the float model "
        f"({speed.float_ms:.3g} ms): one thread, processor time"
    ]


def accuracy_lines(accuracy: Sequence[OutputAccuracy], *, samples: int, kind: str) -> list[str]:
    """The table of the proof.

    Args:
        accuracy: One row each.
        samples: How many were compared.
        kind: Which.
    """
    lines = [
        f"  compared with the float model on {counted(samples, f'{kind} sample')}, in exact arithmetic:",
        f"  {'output':<28} {'cosine':>9} {'least':>9} {'SQNR dB':>8} {'max error':>10} {'max value':>10}",
    ]
    for output in accuracy:
        lines.append(
            f"  {output.name:<28} {output.cosine:9.6f} {output.least_cosine:9.6f} {output.sqnr:8.2f} "
            f"{output.max_error:10.4g} {output.max_value:10.4g}"
        )
        if output.empty:
            lines.append(
                f"    {counted(output.empty, 'sample')} without a cosine, because neither model finds anything"
            )
    return lines
