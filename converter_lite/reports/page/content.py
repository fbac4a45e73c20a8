"""The content of the page, as plain data: everything that is known about a conversion when its files are proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from converter_lite.errors import ConverterError
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
class Unit:
    """The unit of all sizes of a page.

    Attributes:
        name: For people.
        bytes: How many bytes it has.
        digits: Digits behind the point.
    """

    name: str
    bytes: int
    digits: int

    def number(self, count: int) -> str:
        """A number of bytes in this unit."""
        return f"{count / self.bytes:,.{self.digits}f}"

    def text(self, count: int) -> str:
        """The same with the name of the unit."""
        return f"{self.number(count)} {self.name}"


UNITS = (Unit("bytes", 1, 0), Unit("kB", 1000, 2), Unit("MB", 1_000_000, 3))
"""Units by size; a page has the first in which its model has less than 10,000, or the last."""


def unit_of(most: int) -> Unit:
    """The unit for sizes up to this many bytes."""
    return next((unit for unit in UNITS if most < 10_000 * unit.bytes), UNITS[-1])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be thought of a file, and what to do next."""

    text: str
    next_step: str


@dataclass(frozen=True, slots=True)
class FormatContent:
    """One output format.

    Attributes:
        name: As in ``--saveType``.
        path: Where its file goes.
        bytes: Size of the file.
        accuracy: Proof per output.
        samples, sample_kind: Number of samples of the proof, and which: ``calibration``, ``proof`` or ``random``.
        gate: Least mean cosine that is required; ``None`` without a gate.
        figures: Layers and tensors.
        refusal: Why no file of the conversion is kept, if so.
    """

    name: str
    path: str
    bytes: int
    accuracy: tuple[OutputAccuracy, ...]
    samples: int
    sample_kind: str
    gate: float | None
    figures: ModelFigures
    refusal: ConverterError | None = None

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
    def verdict(self) -> Verdict:
        """In a sentence each."""
        if self.worst is None:
            return Verdict("The file has no output that can be compared.", "Run it on the device.")
        found = f"cosine {self.worst.cosine:.6f} with the float model at its worst output ({self.worst.name})"
        if not self.passed:
            return Verdict(
                f"Not accurate enough, and not written: {found}, below the gate of {self.gate:.15g}.",
                f"Set target_cosine={self.gate:.15g} in [common_quant_param]: the layers that cost most at the outputs stay in "
                "float. converter_lite sensitivity measures them without converting.",
            )
        if self.refusal is not None:
            return Verdict(f"Not written: {self.refusal.where}: {self.refusal.message}.", self.refusal.hint)
        kept = f"Written, and as accurate as asked for: {found}."
        if self.sample_kind == "random":
            return Verdict(
                f"Written: {found}, on random data, which show defects and not accuracy.",
                "Name calibration samples in [data_preprocess_param].",
            )
        return Verdict(
            kept if self.gate is not None else f"Written without a quality gate: {found}.",
            "Measure it with your own evaluation data on the device. If that is not enough, target_cosine or target_error "
            "leaves the layers in float that cost most.",
        )

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
        command: What makes the files again; empty for a conversion that was asked for in Python.
        configuration: Settings.
        samples: Inputs of the first prepared samples; empty without calibration samples.
        warnings, seconds, versions: As in :class:`converter_lite.pipeline.result.ConvertResult`.
    """

    title: str
    model_bytes: int
    formats: Sequence[FormatContent]
    command: str = ""
    configuration: Sequence[Section] = ()
    samples: Sequence[Sequence[InputPreview]] = ()
    warnings: Sequence[str] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        """The unit of all sizes."""
        return unit_of(max([self.model_bytes, *(item.bytes for item in self.formats)]))
