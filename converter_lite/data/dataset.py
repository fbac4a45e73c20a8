"""Calibration samples from directories of pictures or BIN files (``[data_preprocess_param]``)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.files import FileList, fingerprint_files, list_files
from converter_lite.data.images import ImagePreprocess, is_picture
from converter_lite.data.inputs import InputSpec, check_names, format_shape
from converter_lite.data.layout import Layout
from converter_lite.data.sources import OpenedSource, Source, open_bins, open_images
from converter_lite.errors import DataError
from converter_lite.execution.ordered import map_ordered
from converter_lite.log import counted

MAX_WORKERS = 4
"""Default number of decoding threads; more would starve the inference that they feed."""


class Dataset(Protocol):
    """Samples that a model can be fed with, as often as wanted."""

    @property
    def names(self) -> list[str]:
        """The names of the samples, in order."""

    @property
    def notes(self) -> list[str]:
        """What the log should say about the data."""

    @property
    def warnings(self) -> list[str]:
        """What is probably wrong with the data, for warnings."""

    def __len__(self) -> int:
        """Samples in one pass."""

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        """One pass: for each sample every input by name, in the model's own layout, type and rank."""

    def fingerprint(self) -> str:
        """A hash that changes with the data and with how they are prepared."""

    def head(self, count: int) -> Dataset:
        """The first ``count`` samples."""

    def tail(self, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        """One pass over the samples from number ``start`` on."""


@dataclass(frozen=True)
class FileDataset:
    """Files as samples: file i of every input is used together. See :class:`Dataset`.

    Args:
        sources: One per model input, equally many files.
        stack: Files that make one sample, for a model with a fixed batch. The last sample is filled up from the first
            files, so that every file counts at least once.
        workers: Decoding threads; 1 or 0: samples are read in the thread that takes them.
        settings: What affects the content besides the files, for the fingerprint.
        log_notes: See :attr:`Dataset.notes`.
        log_warnings: See :attr:`Dataset.warnings`.
        length: Samples.
    """

    sources: tuple[Source, ...]
    stack: int
    workers: int
    settings: str
    log_notes: tuple[str, ...]
    log_warnings: tuple[str, ...]
    length: int

    @property
    def names(self) -> list[str]:
        """File names of the first input; of a stack the first and how many follow."""
        suffix = f" +{self.stack - 1}" if self.stack > 1 else ""
        return [self.sources[0].files[index * self.stack].name + suffix for index in range(self.length)]

    @property
    def notes(self) -> list[str]:
        """See :class:`Dataset`."""
        return list(self.log_notes)

    @property
    def warnings(self) -> list[str]:
        """See :class:`Dataset`."""
        return list(self.log_warnings)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return self.tail(0)

    def _sample(self, index: int) -> dict[str, NDArray[Any]]:
        return {source.spec.name: self._array(source, index) for source in self.sources}

    def _array(self, source: Source, index: int) -> NDArray[Any]:
        if self.stack == 1:
            return source.load(source.files[index])
        first = index * self.stack
        files = [source.files[number % len(source.files)] for number in range(first, first + self.stack)]
        arrays = [source.load(file) for file in files]
        for file, array in zip(files, arrays, strict=True):
            if array.shape != arrays[0].shape:
                raise DataError(
                    f"shape {format_shape(array.shape)} differs from {format_shape(arrays[0].shape)} "
                    f"of {files[0].name} in the same batch of {self.stack}",
                    where=str(file),
                    hint="Set resize_width, resize_height and resize_method.",
                )
        return np.concatenate(arrays)

    def fingerprint(self) -> str:
        """See :class:`Dataset`; reads the files once without decoding them."""
        used = min(self.length * self.stack, len(self.sources[0].files))
        pairs = ((source.spec.name, path) for source in self.sources for path in source.files[:used])
        return fingerprint_files(f"{self.settings} samples={self.length}x{self.stack}", pairs)

    def head(self, count: int) -> FileDataset:
        """See :class:`Dataset`."""
        return replace(self, length=min(count, self.length))

    def tail(self, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        """See :class:`Dataset`."""
        return map_ordered(self._sample, range(start, self.length), self.workers)

    def part(self, start: int, stop: int) -> FilePart:
        """Samples number ``start`` to ``stop - 1`` in a form that can be pickled, for a process that sees the same files."""
        numbers = range(start * self.stack, stop * self.stack)
        sources = tuple(
            replace(source, files=tuple(source.files[n % len(source.files)].absolute() for n in numbers))
            for source in self.sources
        )
        used = replace(self, sources=sources, workers=0, length=stop - start, log_notes=(), log_warnings=())
        return FilePart(used, tuple(_size(path) for source in sources for path in source.files))


@dataclass(frozen=True)
class FilePart:
    """Samples of a data set for another process; see :meth:`FileDataset.part`.

    Args:
        dataset: The samples, files with absolute paths.
        sizes: Bytes of all files on the machine that made the part; negative if a file is gone.
    """

    dataset: FileDataset
    sizes: tuple[int, ...]

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        """The samples.

        Raises:
            DataError: A file differs from the original one, or cannot be read.
        """
        files = [path for source in self.dataset.sources for path in source.files]
        other = next((path for path, size in zip(files, self.sizes, strict=True) if _size(path) != size), None)
        if other is not None:
            raise DataError(
                f"the file is missing or different on machine {platform.node()}",
                where=str(other),
                hint="Every machine of a cluster needs the same files at the same paths (a shared file system).",
            )
        return iter(self.dataset)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def open_dataset(
    entries: Sequence[tuple[str, str | Path]],
    inputs: Sequence[InputSpec],
    contents: ImagePreprocess | Layout,
    *,
    size: int | None,
    workers: int | None = None,
    confined: bool = True,
) -> FileDataset:
    """Check calibration directories against a model and open them.

    Args:
        entries: ``calibrate_path``: input name and directory, one per model input.
        inputs: Inputs of the model.
        contents: The preprocessing of pictures, or the layout of BIN files of four-dimensional inputs (``inputDataFormat``).
        size: ``calibrate_size``, files used of each directory; ``None`` = all.
        confined: Refuse links to files outside the directories.
        workers: Decoding threads; ``None`` = one per core, at most ``MAX_WORKERS``; 1 or 0: none of their own.

    Raises:
        DataError: Names, files, sizes or settings do not fit the model or each other.
    """
    directories = _match(entries, inputs)
    accepts = is_picture if isinstance(contents, ImagePreprocess) else None
    listed = {
        spec.name: list_files(
            directories[spec.name], count=size, input_name=spec.name, accepts=accepts, confined=confined
        )
        for spec in inputs
    }
    _check_counts(listed)
    opened = [
        open_bins(spec, listed[spec.name], contents)
        if isinstance(contents, Layout)
        else open_images(spec, listed[spec.name], contents)
        for spec in inputs
    ]
    kind = ("BIN", contents.value) if isinstance(contents, Layout) else ("IMAGE", contents)
    count, stack = len(opened[0].source.files), _stack(opened)
    notes = [note for item in listed.values() for note in item.notes]
    notes += [note for item in opened for note in item.notes]
    warnings = [warning for item in opened for warning in item.warnings]
    return FileDataset(
        sources=tuple(item.source for item in opened),
        stack=stack,
        workers=min(MAX_WORKERS, os.cpu_count() or 1) if workers is None else workers,
        settings=repr((*kind, tuple(map(str, inputs)))),
        log_notes=(*notes, *_stack_notes(count, stack)),
        log_warnings=(*warnings, *(_doubtful_keys(contents) if isinstance(contents, ImagePreprocess) else ())),
        length=-(-count // stack),
    )


def _match(entries: Sequence[tuple[str, str | Path]], inputs: Sequence[InputSpec]) -> dict[str, Path]:
    known = [spec.name for spec in inputs]
    check_names([name for name, _ in entries], known, key="calibrate_path")
    directories = {name: Path(directory) for name, directory in entries}
    if len(directories) != len(entries):
        names = [name for name, _ in entries]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"named more than once: {', '.join(twice)}", where="calibrate_path")
    missing = [name for name in known if name not in directories]
    if missing:
        raise DataError(
            f"no directory for the model input(s) {', '.join(missing)}",
            where="calibrate_path",
            hint="Add " + ",".join(f"{name}:DIRECTORY" for name in missing) + ".",
        )
    return directories


def _check_counts(listed: dict[str, FileList]) -> None:
    counts = {name: len(item.files) for name, item in listed.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise DataError(
            f"the inputs have different numbers of files ({text})",
            where="calibrate_path",
            hint=f"File i of every input makes sample i: set calibrate_size={min(counts.values())} or add files.",
        )


def _doubtful_keys(settings: ImagePreprocess) -> list[str]:
    if any(std < 0 for std in settings.normalize_std or ()):
        return ["normalize_std is negative: pictures become negatives of themselves"]
    return []


def _stack(opened: Sequence[OpenedSource]) -> int:
    stacks = {item.source.spec.name: item.stack for item in opened}
    if len(set(stacks.values())) == 1:
        return opened[0].stack
    text = ", ".join(f"{name}: {stack}" for name, stack in stacks.items())
    raise DataError(
        f"the inputs need different numbers of files for one sample ({text})",
        where="calibrate_path",
        hint="Give BIN files that hold whole input tensors with the model's batch size.",
    )


def _stack_notes(count: int, stack: int) -> list[str]:
    if stack == 1:
        return []
    filled = f"; the last batch is filled up with the first {stack - count % stack} file(s)" if count % stack else ""
    return [
        f"the model has a fixed batch of {stack}: {count} files make {counted(-(-count // stack), 'sample')}{filled}"
    ]
