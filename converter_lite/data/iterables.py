"""Calibration samples from Python: a sequence, a function that returns an iterator, or a generator."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.inputs import InputSpec, check_names, format_shape
from converter_lite.errors import DataError

Feed = dict[str, NDArray[Any]]
Samples = Iterable[Any] | Callable[[], Iterable[Any]]


class IterableDataset:
    """Samples of the caller's own. Satisfies ``Dataset`` of :mod:`converter_lite.data.dataset`.

    A sample is a dictionary by input name, a tuple or list in input order, or one array for a model with one input. A
    missing batch dimension is added. Integers become floats and narrower numbers wider ones where the input wants it.

    An iterator that can be read only once (a generator) is copied to a temporary file during the first pass, so that several
    passes are possible with the memory of one sample.

    Args:
        source: The samples; a function is called for every pass.
        inputs: Inputs of the model.
        limit: Samples used; ``None`` = all. Needed for endless sources.

    Raises:
        DataError: It is no such source; while iterating: a sample does not fit the inputs, or there is none.
    """

    def __init__(self, source: Samples, inputs: Sequence[InputSpec], *, limit: int | None = None) -> None:
        if isinstance(source, Mapping) or not (callable(source) or isinstance(source, Iterable)):
            raise DataError(
                f"samples are an iterable of them, or a function that makes one, not {type(source).__name__}",
                where="calibration data",
                hint="put a single sample in a list: [{'input': array}]",
            )
        self._inputs = tuple(inputs)
        self._limit = limit
        self._spool = _Spool(source, inputs) if isinstance(source, Iterator) else None
        self._source: Samples = self._spool or source
        self._length: int | None = None

    @property
    def names(self) -> list[str]:
        """``sample 1``, ``sample 2``, ..."""
        return [_name(index) for index in range(len(self))]

    @property
    def notes(self) -> list[str]:
        """No remarks."""
        return []

    @property
    def warnings(self) -> list[str]:
        """None."""
        return []

    def __len__(self) -> int:
        """Samples in one pass; counted in a separate pass if the source does not know."""
        if self._length is None:
            if isinstance(self._source, Sequence):
                count = len(self._source)
                self._length = count if self._limit is None else min(count, self._limit)
            else:
                self._length = sum(1 for _ in self._raw())
        return self._length

    def __iter__(self) -> Iterator[Feed]:
        index = -1
        for index, sample in enumerate(self._raw()):
            yield _feed(sample, self._inputs, _name(index))
        if index < 0:
            raise DataError("the data source gave no sample", where="calibration data", hint="Give at least one.")
        self._length = index + 1

    def _raw(self) -> Iterator[Any]:
        samples = self._source() if callable(self._source) else self._source
        return islice(iter(samples), self._limit)

    def fingerprint(self) -> str:
        """SHA-256 over names, types, shapes and values of every sample; takes one pass."""
        digest = hashlib.sha256()
        for feed in self:
            for name, array in feed.items():
                digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def head(self, count: int) -> IterableDataset:
        """The first ``count`` samples; shares the temporary file of a generator."""
        limit = count if self._limit is None else min(count, self._limit)
        dataset = IterableDataset((), self._inputs, limit=limit)
        dataset._source, dataset._spool = self._source, self._spool
        return dataset

    def tail(self, start: int) -> Iterator[Feed]:
        """One pass over the samples from number ``start`` on."""
        return islice(iter(self), start, None)


class _Spool:
    """An iterator that can be read again: its feeds are kept in a temporary file, which is deleted with this object."""

    def __init__(self, source: Iterator[Any], inputs: Sequence[InputSpec]) -> None:
        self._source = source
        self._inputs = tuple(inputs)
        self._starts: list[int] = []
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the object

    def __del__(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Feed]:
        position = 0
        while True:
            if position == len(self._starts):
                try:
                    sample = next(self._source)
                except StopIteration:
                    return
                self._keep(_feed(sample, self._inputs, _name(position)))
            yield self._read(position)
            position += 1

    def _keep(self, feed: Feed) -> None:
        start = self._file.seek(0, 2)
        for spec in self._inputs:
            np.lib.format.write_array(self._file, feed[spec.name], allow_pickle=False)
        self._starts.append(start)

    def _read(self, position: int) -> Feed:
        self._file.seek(self._starts[position])
        return {spec.name: np.lib.format.read_array(self._file, allow_pickle=False) for spec in self._inputs}


def _name(index: int) -> str:
    return f"sample {index + 1}"


def _array(value: Any, where: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(f"not an array: {error}", where=where, hint="Give arrays of numbers.") from error
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise DataError(f"not an array of numbers but of {array.dtype}", where=where, hint="Give arrays of numbers.")
    return array


def _feed(sample: Any, inputs: Sequence[InputSpec], where: str) -> Feed:
    named = _named(sample, inputs, where)
    feed = {spec.name: _fit(_array(named[spec.name], f"{where}, input '{spec.name}'"), spec, where) for spec in inputs}
    if not any(array.size or 0 in spec.shape for spec, array in zip(inputs, feed.values(), strict=True)) and inputs:
        shapes = ", ".join(format_shape(array.shape) for array in feed.values())
        raise DataError(f"the sample holds nothing (shape {shapes})", where=where, hint="Leave it out.")
    return feed


def _named(sample: Any, inputs: Sequence[InputSpec], where: str) -> dict[str, Any]:
    names = [spec.name for spec in inputs]
    if isinstance(sample, Mapping):
        check_names(map(str, sample), names, key=where)
        missing = [name for name in names if name not in sample]
        if missing:
            raise DataError(f"no value for the model input(s) {', '.join(missing)}", where=where)
        return dict(sample)
    if isinstance(sample, tuple) or (isinstance(sample, list) and (len(inputs) > 1 or _wraps_one(sample))):
        if len(sample) != len(inputs):
            raise DataError(
                f"{len(sample)} value(s) for {len(inputs)} model input(s) ({', '.join(names)})",
                where=where,
                hint="Give one value per input, without labels, or a dictionary by input name.",
            )
        return dict(zip(names, sample, strict=True))
    if len(inputs) != 1:
        raise DataError(
            f"one array for {len(inputs)} model inputs ({', '.join(names)})",
            where=where,
            hint="Give a tuple in this order or a dictionary by input name.",
        )
    return {names[0]: sample}


def _wraps_one(sample: list[Any]) -> bool:
    """Whether a list for a model with one input is a list of inputs (it holds arrays) and not the array itself."""
    return any(hasattr(value, "__array__") and np.ndim(value) > 0 for value in sample)


def _fit(array: NDArray[Any], spec: InputSpec, where: str) -> NDArray[Any]:
    place, given = f"{where}, input '{spec.name}'", array.shape
    if array.ndim == len(spec.shape) - 1 and spec.shape[0] in (None, 1):
        array = array[np.newaxis]
    fits = array.ndim == len(spec.shape) and all(
        want is None or want == got for want, got in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        raise DataError(
            f"shape {format_shape(given)}, the model wants {format_shape(spec.shape)}",
            where=place,
            hint=_shape_hint(array, spec, batch_was_added=array.ndim > len(given)),
        )
    made = _convert(array, spec.dtype, place)
    if made.dtype.kind == "f" and np.isnan(made).any():
        raise DataError("the sample holds NaN", where=place, hint="Leave it out, or correct how it was made.")
    return made


def _shape_hint(array: NDArray[Any], spec: InputSpec, *, batch_was_added: bool) -> str:
    if array.ndim == 4 == len(spec.shape):
        for axes, name in (((0, 3, 1, 2), "NHWC"), ((0, 2, 3, 1), "NCHW")):
            shape = tuple(array.shape[axis] for axis in axes)
            if all(want is None or want == got for want, got in zip(spec.shape, shape, strict=True)):
                own = tuple(axis - 1 for axis in axes[1:]) if batch_was_added else axes
                return f"The sample looks like {name}: transpose it with array.transpose{own}."
    if spec.shape and (spec.shape[0] or 1) > 1:
        return f"The model has a fixed batch: give {spec.shape[0]} samples at a time."
    return "Give samples in the model's own layout; the batch dimension may be left out."


def _convert(array: NDArray[Any], dtype: np.dtype, place: str) -> NDArray[Any]:
    if array.dtype == dtype:
        return np.asarray(array, order="C")  # ascontiguousarray would give a number an axis
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        allowed = not array.size or (int(array.min()) >= limits.min and int(array.max()) <= limits.max)
    else:
        allowed = dtype.kind not in "biu" or array.dtype.kind == "b"
    if not allowed:
        raise DataError(
            f"type {array.dtype} (values that {dtype} cannot hold), the model wants {dtype}",
            where=place,
            hint=f"Convert the sample with array.astype('{dtype}') where that is what you mean.",
        )
    return array.astype(dtype, order="C")
