"""Sizes of tensors, as constants where they are known, as values of the graph where they depend on the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.contents import Number, Numbers, Size, numbers_of
from converter_lite.formats.paddle.importer.context import Importer
from converter_lite.formats.paddle.program import Operator


def integers(importer: Importer, values: object, hint: str) -> ir.Value:
    """A constant list of int64."""
    return importer.add_constant(hint, [int(v) for v in values])  # type: ignore[attr-defined]


def known(importer: Importer, value: ir.Value) -> list[int]:
    """All dimensions, -1 where they are unknown.

    Raises:
        ModelError: Their number is unknown.
    """
    importer.rank(value)
    return importer.shape(value) or []


def sizes(importer: Importer, value: ir.Value, first: int = 0, behind: int | None = None) -> ir.Value:
    """Dimensions ``first`` to ``behind`` as an int64 vector."""
    found = importer.shape(value)
    if found is not None and all(size >= 0 for size in found[first:behind]):
        return integers(importer, found[first:behind], "sizes")
    if behind is None:
        return importer.compute("Shape", value, start=first)
    return importer.compute("Shape", value, start=first, end=behind)


def as_vector(importer: Importer, value: ir.Value) -> ir.Value:
    """A tensor of integers as an int64 vector: a number becomes a list of one."""
    wide = value if value.dtype == ir.DataType.INT64 else importer.compute("Cast", value, to=int(ir.DataType.INT64))
    if value.shape is not None and len(value.shape) == 1:
        return wide
    return importer.compute("Reshape", wide, importer.add_constant("shape", [-1]))


def vector(importer: Importer, names: Sequence[str]) -> ir.Value:
    """Integers that are computed at run time as one int64 vector: one tensor, or several numbers."""
    parts = [as_vector(importer, importer.value(name)) for name in names]
    made = parts[0] if len(parts) == 1 else importer.compute("Concat", *parts, axis=0)
    found = numbers_of(made, importer.contents)
    if found is None or None in found or made.const_value is not None:
        return made
    return _put_together(importer, found)


def _put_together(importer: Importer, numbers: Numbers) -> ir.Value:
    """Numbers, and sizes that are known at run time, as one int64 vector, whatever the program did to get them."""
    runs: list[list[Number]] = []
    for number in numbers:
        if runs and _follows(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [_part(importer, run) for run in runs]
    return parts[0] if len(parts) == 1 else importer.compute("Concat", *parts, axis=0)


def _follows(before: Number, number: Number) -> bool:
    if isinstance(before, Size) and isinstance(number, Size):
        return before.shape is number.shape and before.place + 1 == number.place
    return isinstance(before, int) and isinstance(number, int)


def _part(importer: Importer, run: Sequence[Number]) -> ir.Value:
    first, last = run[0], run[-1]
    if not isinstance(first, Size) or not isinstance(last, Size):
        return integers(importer, run, "sizes")
    if (importer.shape(first.shape) or [])[:1] == [len(run)]:
        return first.shape
    limits = (importer.add_constant("part", [number]) for number in (first.place, last.place + 1, 0))
    return importer.compute("Slice", first.shape, *limits)


def list_of(importer: Importer, op: Operator, attribute: str, *slots: str) -> ir.Value:
    """A list of integers: of the first slot that is used, else of the attribute."""
    for slot in slots:
        if op.inputs.get(slot):
            return vector(importer, op.inputs[slot])
    return integers(importer, op.get(attribute, ()), attribute)


def constant_list(importer: Importer, op: Operator, attribute: str, *slots: str) -> list[int]:
    """The same where the graph is made for these numbers.

    Raises:
        ModelError: They are computed at run time.
    """
    for slot in slots:
        if op.inputs.get(slot):
            found = [_constant(importer, name) for name in op.inputs[slot]]
            if any(numbers is None for numbers in found):
                raise ModelError(f"its {attribute} are computed at run time")
            return [number for numbers in found for number in numbers or ()]
    return [int(number) for number in op.get(attribute, ())]


def constant_number(importer: Importer, op: Operator, attribute: str, slot: str, default: int) -> int:
    """One integer, from a slot or an attribute.

    Raises:
        ModelError: It is computed at run time.
    """
    name = op.input(slot)
    if name is None:
        return int(op.get(attribute, default))
    found = _constant(importer, name)
    if found is None or len(found) != 1:
        raise ModelError(f"its {attribute} is computed at run time")
    return found[0]


def _constant(importer: Importer, name: str) -> list[int] | None:
    """The integers that a variable holds: a constant, or known sizes."""
    array = importer.array(name)
    if array is not None:
        return [int(number) for number in array.reshape(-1)]
    found = numbers_of(importer.value(name), importer.contents) or (None,)
    numbers = [number for number in found if isinstance(number, int)]
    return numbers if len(numbers) == len(found) else None


def scalar(importer: Importer, value: ir.Value) -> ir.Value:
    """A tensor of one element without dimensions."""
    if value.shape is not None and len(value.shape) == 0:
        return value
    return importer.compute("Reshape", value, importer.add_constant("shape", np.zeros(0, np.int64)))


def like(importer: Importer, value: ir.Value, number: float, hint: str = "number") -> ir.Value:
    """A constant of the same element type as a tensor."""
    dtype = value.dtype.numpy().type if value.dtype is not None else np.float32
    return importer.add_constant(hint, number, dtype)
