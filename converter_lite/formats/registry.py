"""Every file format by its names: ``--fmk`` for what is read, ``--saveType`` for what is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from converter_lite.errors import UsageError, did_you_mean
from converter_lite.formats.flags import FormatFlags
from converter_lite.formats.mindspore_lite.flags import MsFlags
from converter_lite.formats.onnx.flags import OnnxFlags
from converter_lite.formats.paddle.flags import NbFlags
from converter_lite.system.files import is_file

if TYPE_CHECKING:
    from converter_lite.formats.base import Block, FileOptions, OutputFormat
    from converter_lite.formats.source import ModelFiles, Source


@dataclass(frozen=True, slots=True)
class Format:
    """A folder of this package. Its modules, whose names are fixed, are loaded on demand.

    Attributes:
        folder: ``source`` reads files, ``format`` writes them and reads them back, ``inspect`` describes them.
        suffix: End of file names.
        flags: The user's options for a file.
        has_weight_file: A model may have its parameters in a separate file.
        other_suffixes: Ends of the names of other files that it reads.
        weight_suffix: End of the names of such files, if ``inspect`` describes them, too.
        folder_files: A folder with one of these files in it is a model.
    """

    folder: str
    suffix: str
    flags: type[FormatFlags] = FormatFlags
    has_weight_file: bool = False
    other_suffixes: tuple[str, ...] = ()
    weight_suffix: str = ""
    folder_files: tuple[str, ...] = ()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Ends of the names of models."""
        return self.suffix, *self.other_suffixes

    def is_folder(self, path: Path) -> bool:
        """Whether a path is a folder that is a model of this format."""
        return any(is_file(path / name) for name in self.folder_files)

    def read_source(self, files: ModelFiles) -> Source:
        """A model to convert.

        Raises:
            ConverterError: It cannot be read, or the shapes do not fit.
        """
        source: Source = self._module("source").read_source(files)
        return source

    def output_format(self, options: FileOptions) -> OutputFormat:
        """The writer of files with these options.

        Raises:
            TargetError: It cannot follow an option.
        """
        output: OutputFormat = self._module("format").output_format(options)
        return output

    def describe(self, path: Path, *, confined: bool) -> Iterator[Block]:
        """The content of a file: lines and tables.

        Raises:
            ConverterError: The file cannot be read.
        """
        yield from self._module("inspect").describe(path, confined=confined)

    def _module(self, name: str) -> Any:
        return import_module(f"converter_lite.formats.{self.folder}.{name}")


ONNX = Format("onnx", ".onnx", OnnxFlags)
MINDSPORE_LITE = Format("mindspore_lite", ".ms", MsFlags)
PADDLE = Format(
    *("paddle", ".nb", NbFlags),
    has_weight_file=True,
    other_suffixes=(".pdmodel", ".json"),
    weight_suffix=".pdiparams",
    folder_files=("__model__", "inference.json", "inference.pdmodel", "model.pdmodel"),
)
CAFFE = Format("caffe", ".prototxt", has_weight_file=True, weight_suffix=".caffemodel")
TENSORFLOW = Format("tensorflow", ".pb", other_suffixes=(".keras", ".h5", ".hdf5"), folder_files=("saved_model.pb",))
PYTORCH = Format("pytorch", ".pt2", other_suffixes=(".pt", ".jit", ".pth"))
TFLITE = Format("tflite", ".tflite")
MINDIR = Format("mindir", ".mindir")

FRAMEWORKS: Mapping[str, Format | str] = MappingProxyType(
    {
        "TF": TENSORFLOW,
        "TFLITE": TFLITE,
        "CAFFE": CAFFE,
        "MINDIR": MINDIR,
        "PYTORCH": PYTORCH,
        "MSLITE": MINDSPORE_LITE,
        "PADDLE": PADDLE,
        "OM": "Ascend offline models are not read; use the ONNX file they were made from",
        "KIRIN": "models of Kirin processors are not read; use the ONNX file they were made from",
        "THIRDPARTY": "models that another engine runs are not read; use the ONNX file they were made from",
        "ONNX": ONNX,
    }
)
"""Values of ``--fmk`` -> the format, or why it is refused."""

PADDLE_INFERENCE = Format("paddle.inference_model", ".pdmodel")
"""Writes only; :data:`PADDLE` reads and describes its files, too."""

FORMATS: Mapping[str, Format] = MappingProxyType(
    {"MINDIR_LITE": MINDSPORE_LITE, "ONNX": ONNX, "NAIVE_BUFFER": PADDLE, "PADDLE": PADDLE_INFERENCE}
)
"""Values of ``--saveType`` -> the format."""

UNAVAILABLE = {
    "MINDIR": "writing MindIR files is not supported: their readers are part of the MindSpore framework",
}
"""Known names of ``--saveType`` that are refused, with the reason."""


def output_format(name: str, options: FileOptions) -> OutputFormat:
    """The format of a ``--saveType`` name.

    Raises:
        UsageError: Unknown or not available; the reason is given.
        TargetError: The format cannot follow an option.
    """
    if name in FORMATS:
        return FORMATS[name].output_format(options)
    message = UNAVAILABLE.get(name) or f"this is no output format{did_you_mean(name, FORMATS)}"
    raise UsageError(message, where=f"--saveType={name}", hint=f"available: {', '.join(FORMATS)}")


def framework_of(path: Path) -> str | None:
    """Value of ``--fmk`` for files with this suffix and folders with such a file, ``None`` where neither says anything."""
    if is_model_folder(path):
        return next(name for name, f in readable().items() if f.is_folder(path))
    suffix = path.suffix
    return next(
        (name for name, f in readable().items() if suffix and suffix in (*f.suffixes, f.weight_suffix)),
        None,
    )


def is_model_folder(path: Path) -> bool:
    """Whether a folder is, by the names of its files, a model."""
    return any(known.is_folder(path) for known in readable().values())


def readable() -> Mapping[str, Format]:
    """Values of ``--fmk`` whose files are read -> the format."""
    return {name: known for name, known in FRAMEWORKS.items() if isinstance(known, Format)}


def models_in(folder: Path) -> Iterator[Path]:
    """Models in a folder and the folders in it, by their names; of a folder that is a model nothing but itself.

    A ``.json`` file, which may be anything, is one if its weights lie beside it.
    """
    for path in sorted(folder.iterdir()):
        framework = framework_of(path)
        if path.is_dir():
            yield from (path,) if framework else () if path.is_symlink() else models_in(path)
        elif framework and not holds_weights_only(path) and _is_told(path, framework):
            yield path


def _is_told(path: Path, framework: str) -> bool:
    return path.suffix != ".json" or bool(weight_files_beside(path, framework))


def holds_weights_only(path: Path) -> bool:
    """Whether a file is by its name the second one of a model."""
    return any(known.weight_suffix == path.suffix != "" for known in readable().values())


def weight_files_beside(model: Path, framework: str) -> list[Path]:
    """The second file of a model of a framework, if it has the model's name."""
    known = readable().get(framework)
    if known is None or not known.weight_suffix or not model.name:  # the working directory has no name
        return []
    beside = model.with_suffix(known.weight_suffix)
    return [beside] if beside != model and is_file(beside) else []


def by_suffix(path: Path) -> str | None:
    """Name of the written format whose files have this suffix."""
    return next((name for name, folder in FORMATS.items() if path.suffix == folder.suffix), None)
