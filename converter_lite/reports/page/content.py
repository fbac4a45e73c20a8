"""The content of the page, as plain data: everything that is known about a conversion when its files are proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from converter_lite.reports.accuracy import OutputAccuracy
from converter_lite.reports.figures import ModelFigures
from converter_lite.reports.preview import InputPreview


@dataclass(frozen=True, slots=True)
class Reason:
    """Why nodes stay float, and which."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Settings that belong together, with keys and values as text."""

    title: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FormatContent:
    """One output format.

    Attributes:
        name: As in ``--saveType``.
        path: Where its file goes.
        bytes: Size of the file.
        accuracy: Proof per output.
        samples, real_samples: Number of samples of the proof, and whether they were calibration samples.
        gate: Least mean cosine that is required; ``None`` without a gate.
        figures: Layers and tensors.
    """

    name: str
    path: str
    bytes: int
    accuracy: tuple[OutputAccuracy, ...]
    samples: int
    real_samples: bool
    gate: float | None
    figures: ModelFigures

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.figures.layers)

    @property
    def quantized(self) -> int:
        """Number of nodes that are not float."""
        return sum(layer.mode != "float" for layer in self.figures.layers)

    @property
    def worst(self) -> OutputAccuracy | None:
        """The output with the lowest mean cosine."""
        return min(self.accuracy, key=lambda output: output.cosine, default=None)

    @property
    def passed(self) -> bool:
        """Whether the quality gate is passed."""
        return self.gate is None or self.worst is None or self.worst.cosine >= self.gate

    @property
    def reasons(self) -> list[Reason]:
        """Reasons for staying float with their nodes, most frequent first."""
        found: dict[str, list[str]] = {}
        for layer in self.figures.layers:
            if layer.reason:
                found.setdefault(layer.reason, []).append(layer.name)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        return [Reason(text, tuple(names)) for text, names in ordered]


@dataclass(frozen=True, slots=True)
class PageContent:
    """One conversion.

    Attributes:
        title: Name of the model.
        model_bytes: Size of what was read.
        formats: Output formats, in order.
        configuration: Settings.
        samples: Inputs of the first prepared samples; empty without calibration samples.
        warnings, seconds, versions: As in :class:`converter_lite.pipeline.request.ConvertResult`.
    """

    title: str
    model_bytes: int
    formats: Sequence[FormatContent]
    configuration: Sequence[Section] = ()
    samples: Sequence[Sequence[InputPreview]] = ()
    warnings: Sequence[str] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
