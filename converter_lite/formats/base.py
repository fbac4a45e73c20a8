"""What a conversion needs from a file format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import onnx_ir as ir

from converter_lite.config.settings import QuantizationConfig
from converter_lite.formats.flags import FormatFlags
from converter_lite.formats.requirements import GraphRequirements
from converter_lite.log import Log
from converter_lite.passes.io_types import UNCHANGED_TYPES, IoTypes
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.plan import QuantizedModel

Own = TypeVar("Own", bound=FormatFlags)

Block = str | list[list[str]]
"""A piece of a description: lines of text, or the rows of a table."""


def as_table(rows: Sequence[Any]) -> list[list[str]]:
    """Instances of a dataclass as rows of text under the names of their fields."""
    if not rows:
        return []
    names = [f.name for f in fields(rows[0])]
    return [names, *([str(getattr(row, name)) for name in names] for row in rows)]


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The user's options for the written files.

    Attributes:
        io_types: Element types of inputs and outputs.
        fp16: Store float constants as float16.
        halves: The model computes in float16: ONNX files keep it for constants that stay float, and are no larger than the model.
        model_bytes: Of the model that is converted: ONNX files that would be larger keep float16 for what is float16; 0: unknown.
        flags: Those of the formats; others have their defaults.
        config: The configuration, for keys that concern a single format; ``None``: their defaults.
        key: What the file is encrypted with; empty: nothing.
        source: File or folder of the model that is converted, for formats that follow it; ``None``: unknown.
    """

    io_types: IoTypes = UNCHANGED_TYPES
    fp16: bool = False
    halves: bool = False
    model_bytes: int = 0
    flags: FormatFlags = field(default_factory=FormatFlags)
    config: QuantizationConfig | None = None
    key: bytes = field(default=b"", repr=False)
    source: Path | None = None

    def own(self, kind: type[Own]) -> Own:
        """The flags of one format."""
        return self.flags if isinstance(self.flags, kind) else kind()


@dataclass(frozen=True, slots=True)
class Written:
    """What a format made.

    Attributes:
        files: The model first.
        notes: Where the file departs from the plan.
    """

    files: list[Path]
    notes: tuple[str, ...] = ()


class OutputFormat(Protocol):
    """A file format that a quantized model can be written in."""

    @property
    def name(self) -> str:
        """As in ``--saveType``."""

    @property
    def suffix(self) -> str:
        """End of file names."""

    @property
    def beside(self) -> tuple[str, ...]:
        """Ends of the names of other files that are written, some only for large models, in place of the suffix."""

    @property
    def is_timed(self) -> bool:
        """Whether the runtime that is installed here is the one that the files are for."""

    @property
    def requirements(self) -> GraphRequirements:
        """What the format requires of a graph."""

    @property
    def io_types(self) -> IoTypes:
        """Element types that the written file has at its interface."""

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the format cannot express, before any other work.

        Raises:
            TargetError: It cannot; nodes and reasons are named.
        """

    def restrict(self, choice: Choice, model: ir.Model) -> Choice:
        """The choice with the policy of the runtimes of this format, and with how its files store weights.

        Args:
            choice: As the configuration specifies.
            model: The graph that is to be quantized.

        Raises:
            ConverterError: The format has no such quantization, or not for this device.
        """

    def forecast(self, quantized: QuantizedModel, choice: Choice | None) -> int:
        """Expected bytes of the file, for a dry run.

        Args:
            quantized: The graph with decisions but no parameters, or what :meth:`adapt` gives.
            choice: The settings behind the decisions; ``None`` = nothing is newly quantized.

        Raises:
            ConverterError: Such a file cannot be written.
        """

    def adapt(self, quantized: QuantizedModel, *, log: Log | None = None) -> QuantizedModel:
        """The plan of an already quantized model, within what the format can hold; ``log`` receives what that changes."""

    def write(self, quantized: QuantizedModel, path: Path, *, log: Log | None = None) -> Written:
        """Write the model; ``log`` shows progress where that takes long.

        Raises:
            ConverterError: It cannot be written; the reason is given.
        """

    def runnable(self, path: Path, *, like: ir.Model) -> bytes | Path:
        """The written file, read back as an ONNX model that takes the samples of ``like``.

        Raises:
            FormatError: The file is not valid.
        """
