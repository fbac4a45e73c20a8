"""Random samples of the right types, for a proof where no calibration data are given."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.data.input_roles import Role, index_bound, role_of
from converter_lite.data.inputs import InputSpec, feed_values, input_specs
from converter_lite.data.open_sizes import USUAL_SIZES, OpenSizes
from converter_lite.errors import DataError
from converter_lite.graph import LENGTH, constant, int_attribute

MAX_BYTES = 1 << 30
"""Bytes of one input of a random sample; the largest inputs of known networks (3-D scans) have a quarter of it."""

SMALL_INTEGER = 4
"""Integers without a known bound are drawn from 1..SMALL_INTEGER-1: valid as lengths, indices and classes alike."""

SHOWN_VALUES = 8
"""Most values of an input that a note shows."""

_PASS_THROUGH = frozenset(
    {
        "Cast",
        "Identity",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Expand",
        "Tile",
        "Slice",
        "Clip",
        "Gather",
    }
)
"""Operators whose output holds the same integers as their first input."""

_MASK_USES = frozenset({"Where", "Equal", "Greater", "GreaterOrEqual", "Less", "Sub", "Mul", "Not", "And", "ReduceSum"})
"""Operators that read a mask (``(1 - mask) * -10000``, ``Where(mask, ...)``) rather than ids."""

_EMBEDDING_TABLES = {"EmbedLayerNormalization": {0: 2, 1: 4}, "Gather": {1: 0}}
"""Operator -> (input that holds row numbers -> input that holds the table)."""


_INDICES = frozenset({("Gather", 1), ("GatherElements", 1), ("ScatterElements", 1)})
"""Operator and input that hold indices: where the size of what they index is open, only 0 is one for certain."""


class _Kind(Enum):
    ROWS = "row numbers"
    MASK = "mask"
    PICTURE = "picture"
    NUMBERS = "numbers"


@dataclass(frozen=True)
class _Draw:
    """How one input is drawn: ``upper`` bounds integers from above (exclusive)."""

    spec: InputSpec
    shape: tuple[int, ...]
    kind: _Kind
    upper: int = 0
    role: Role | None = None

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        dtype = self.spec.dtype
        if self.role is not None:
            return self.role.array(self.shape, dtype)
        if dtype == np.bool_ or self.kind is _Kind.MASK:
            return np.ones(self.shape, dtype)
        if self.kind is _Kind.ROWS:
            return rng.integers(0, self.upper, self.shape).astype(dtype)
        if np.issubdtype(dtype, np.integer):
            low, high = (0, 256) if dtype == np.uint8 and len(self.shape) == 4 else (1, SMALL_INTEGER)
            return rng.integers(low, high, self.shape).astype(dtype)
        if self.kind is _Kind.PICTURE:
            return _picture(rng, self.shape).astype(dtype)
        return rng.standard_normal(self.shape, np.float32).astype(dtype)


@dataclass(frozen=True)
class RandomDataset:
    """Samples drawn from a seed; every pass gives the same ones. Satisfies ``Dataset``."""

    draws: tuple[_Draw, ...]
    seed: int
    count: int

    @property
    def names(self) -> list[str]:
        """``random 1``, ``random 2``, ..."""
        return [f"random {index + 1}" for index in range(self.count)]

    @property
    def notes(self) -> list[str]:
        """The shapes and values that were chosen, where the model leaves a choice."""
        chosen = [_chosen(draw) for draw in self.draws if draw.role is not None or None in draw.spec.shape]
        return [f"random samples: {'; '.join(chosen)} (--inputShape and --proofData give others)"] if chosen else []

    @property
    def warnings(self) -> list[str]:
        """None."""
        return []

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        for index in range(self.count):
            rng = np.random.default_rng([self.seed, index])
            yield {draw.spec.name: draw.sample(rng) for draw in self.draws}

    def fingerprint(self) -> str:
        """SHA-256 over what the samples are drawn from."""
        return hashlib.sha256(repr((self.draws, self.seed, self.count)).encode()).hexdigest()

    def head(self, count: int) -> RandomDataset:
        """The first ``count`` samples."""
        return replace(self, count=min(count, self.count))

    def tail(self, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        """One pass over the samples from number ``start`` on."""
        return islice(iter(self), start, None)


def _chosen(draw: _Draw) -> str:
    if draw.role is None:
        return f"{draw.spec.name} {list(draw.shape)}"
    values = [int(value) if value == int(value) else round(value, 3) for value in draw.role.values]
    return f"{draw.spec.name} = {values if len(values) <= SHOWN_VALUES else '...'}, {draw.role.what}"


def random_samples(
    model: ir.Model,
    count: int,
    *,
    seed: int = 0,
    fixed_shapes: Mapping[str, tuple[int, ...]] | None = None,
    sizes: OpenSizes = USUAL_SIZES,
) -> RandomDataset:
    """Random samples that the model can run on.

    Floats are standard normal; row numbers stay below the rows of what they index; axes, shapes, sizes and lengths are what
    the operator behind them takes (:mod:`converter_lite.data.input_roles`); masks and booleans are one; other integers are
    small. Open dimensions get one small size per symbolic name: batch 1, pictures 3x64x64, sequences 16; a name that is a sum of
    others gets their sum.

    Args:
        model: The model.
        count: Samples.
        seed: Same seed, same samples.
        fixed_shapes: Shapes that the user fixed, by input name.
        sizes: Of open dimensions.

    Raises:
        ModelError: An input is not a tensor of numbers.
        DataError: A fixed shape names no input or contradicts the model, or a sample would be too large.
    """
    values, specs = feed_values(model), input_specs(model, fixed_shapes)
    shapes = _shapes(values, specs, sizes)
    _refuse_huge(specs, shapes)
    draws = (_draw(value, spec, shape) for value, spec, shape in zip(values, specs, shapes, strict=True))
    return RandomDataset(tuple(draws), seed, count)


def with_pictures(drawn: RandomDataset) -> RandomDataset:
    """The same samples, with noise that has the spectrum of photographs for four-dimensional inputs of 1 or 3 channels."""
    draws = [replace(draw, kind=_Kind.PICTURE) if _holds_picture(draw) else draw for draw in drawn.draws]
    return replace(drawn, draws=tuple(draws))


def _holds_picture(draw: _Draw) -> bool:
    is_real = draw.kind is _Kind.NUMBERS and np.issubdtype(draw.spec.dtype, np.floating)
    return is_real and len(draw.shape) == 4 and bool({draw.shape[1], draw.shape[3]} & {1, 3})


def _picture(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Normalized pictures whose amplitudes fall with the frequency; channels share most of what they show.

    Source: Field, "Relations between the statistics of natural images", J. Opt. Soc. Am. A 4 (1987): amplitudes of 1/f.
    """
    axis = 1 if shape[1] in (1, 3) else 3
    batch, channels = shape[0], shape[axis]
    height, width = (size for i, size in enumerate(shape) if i not in (0, axis))
    noise = rng.standard_normal((batch, channels + 1, height, width))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = np.inf
    smooth = np.fft.irfft2(np.fft.rfft2(noise) / frequency, (height, width))
    mixed = smooth[:, :1] + 0.3 * smooth[:, 1:]
    spread = mixed.std(axis=(1, 2, 3), keepdims=True)
    normal = mixed / np.where(spread > 0, spread, 1)
    return np.moveaxis(normal, 1, axis)


def _refuse_huge(specs: Sequence[InputSpec], shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuse samples that are too large: a few bytes of a file can ask for any size."""
    for spec, shape in zip(specs, shapes, strict=True):
        size = math.prod(shape) * spec.dtype.itemsize
        if size > MAX_BYTES:
            raise DataError(
                f"a sample of input '{spec.name}' {list(shape)} has {size} bytes, more than {MAX_BYTES}",
                hint="fix smaller sizes with --inputShape, or give calibration data",
            )


def _shapes(values: Sequence[ir.Value], specs: Sequence[InputSpec], usual: OpenSizes) -> list[tuple[int, ...]]:
    sizes: dict[str, int] = {}
    for value, spec in zip(values, specs, strict=True):
        for symbol, size in zip(_symbols(value, spec), spec.shape, strict=True):
            if symbol is not None and size is not None:
                sizes[symbol] = size
    names = {symbol for value, spec in zip(values, specs, strict=True) for symbol in _symbols(value, spec) if symbol}
    for value, spec in zip(values, specs, strict=True):
        for axis, symbol in enumerate(_symbols(value, spec)):
            if symbol is not None and not _terms(symbol, names):
                sizes.setdefault(symbol, usual.size(spec.shape, axis))
    for symbol in sorted(names, key=len):
        terms = _terms(symbol, names)
        if terms:
            sizes.setdefault(symbol, sum(int(t) if t.isdigit() else sizes.get(t, usual.length) for t in terms))
    result = []
    for value, spec in zip(values, specs, strict=True):
        shape = []
        for axis, symbol in enumerate(_symbols(value, spec)):
            size = spec.shape[axis]
            if size is None:
                chosen = usual.size(spec.shape, axis)
                size = chosen if symbol is None else sizes.setdefault(symbol, chosen)
            shape.append(size)
        result.append(tuple(shape))
    return result


def _symbols(value: ir.Value, spec: InputSpec) -> list[str | None]:
    if value.shape is None:
        return [None] * len(spec.shape)
    return [None if isinstance(size, int) else size.value for size in value.shape]


def _terms(symbol: str, known: Collection[str]) -> list[str]:
    """The sizes that a size is the sum of, by its name: ``past + sequence``, ``total_sequence_length``; empty for others."""
    if "+" in symbol:
        terms = [term.strip() for term in symbol.split("+")]
        return terms if all(term.isidentifier() or term.isdigit() for term in terms) else []
    if "total" not in symbol.lower():
        return []
    past = [name for name in known if "past" in name.lower() and "+" not in name]
    new = [name for name in known if name not in past and "seq" in name.lower() and "+" not in name and name != symbol]
    return [past[0], new[0]] if len(past) == len(new) == 1 else []


def _draw(value: ir.Value, spec: InputSpec, shape: tuple[int, ...]) -> _Draw:
    role = _role(value, shape)
    if role is not None:
        return _Draw(spec, shape, _Kind.NUMBERS, role=role)
    if not np.issubdtype(spec.dtype, np.integer):
        is_mask = "mask" in spec.name.lower()
        return _Draw(spec, shape, _Kind.MASK if is_mask else _Kind.NUMBERS)
    rows, operators = _uses(value)
    if rows:
        return _Draw(spec, shape, _Kind.ROWS, min(rows))
    if "mask" in spec.name.lower() or (len(shape) > 1 and operators and operators <= _MASK_USES):
        return _Draw(spec, shape, _Kind.MASK)
    return _Draw(spec, shape, _Kind.NUMBERS)


def _role(value: ir.Value, shape: tuple[int, ...]) -> Role | None:
    """What the first operator that is no Cast or Identity requires of the value."""
    pending = [value]
    while pending:
        for use in pending.pop().uses():
            role = role_of(use.node, use.idx, shape)
            if role is not None:
                return role
            if use.node.op_type in ("Cast", "Identity"):
                pending.append(use.node.outputs[0])
    return None


def _uses(value: ir.Value) -> tuple[list[int], set[str]]:
    """Rows of every constant table that the value indexes, and the operators that use it otherwise."""
    rows: list[int] = []
    operators: set[str] = set()
    pending, seen = [(value, 0)], {value}
    while pending:
        current, added = pending.pop()
        rows += [current.meta[LENGTH] - added] if LENGTH in current.meta else []
        for use in current.uses():
            node = use.node
            table = _EMBEDDING_TABLES.get(node.op_type, {}).get(use.idx)
            size = None if table is None else _table_rows(node.inputs[table], int_attribute(node, "axis", 0))
            size = size or index_bound(node, use.idx) or (1 if (node.op_type, use.idx) in _INDICES else None)
            is_moved, offset = node.op_type in _PASS_THROUGH and use.idx == 0, _offset(node, use.idx)
            if size is not None:
                rows.append(size - added)
            elif is_moved or offset:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                pending += [(output, added + offset) for output in fresh]
            if size is None and not is_moved and node.op_type != "Shape":
                operators.add(node.op_type)
    return [size for size in rows if size > 0], operators


def _offset(node: ir.Node, position: int) -> int:
    """The largest number of the constant that a node adds to row numbers (a table for several features); 0 for other nodes."""
    other = node.inputs[1 - position] if node.op_type == "Add" else None
    numbers = constant(other) if other is not None else None
    if numbers is None or not numbers.size or not np.issubdtype(numbers.dtype, np.integer):
        return 0
    return max(int(numbers.max()), 0)


def _table_rows(table: ir.Value | None, axis: int) -> int | None:
    """Rows of a constant table, also behind ``Cast`` or ``DequantizeLinear``; ``None`` for computed ones."""
    while table is not None and table.const_value is None:
        producer = table.producer()
        if producer is None or producer.op_type not in {"Cast", "Identity", "DequantizeLinear"}:
            return None
        table = producer.inputs[0]
    if table is None or table.const_value is None:
        return None
    shape = table.const_value.shape
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    return size if isinstance(size, int) else None
