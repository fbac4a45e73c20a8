"""Inputs that become constants, with a value that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import UsageError, did_you_mean

FLAG = "--inputValue"

HINT = "where an input decides which branch of an If is taken, --inputValue=NAME:NUMBER leaves one of them"


def fix_input_values(model: ir.Model, values: Mapping[str, Sequence[float]]) -> None:
    """Replace inputs by constants, in place.

    Args:
        model: The graph.
        values: Input name -> its elements in order, or one number for all of them. An open size is 1.

    Raises:
        UsageError: An input is unknown or the last one, has another number of elements, or a type that cannot hold a value.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    for name, numbers in values.items():
        if name not in inputs:
            known = ", ".join(inputs)
            raise UsageError(
                f"the model has no input '{name}'{did_you_mean(name, inputs)}", where=FLAG, hint=f"its inputs: {known}"
            )
        value = inputs.pop(name)
        array = _array(value, numbers)
        value.const_value, value.shape = ir.tensor(array, name=name), ir.Shape(array.shape)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    if values and not model.graph.inputs:
        raise UsageError("no input would be left", where=FLAG, hint="leave one out")


def _array(value: ir.Value, numbers: Sequence[float]) -> NDArray[np.generic]:
    shape = [size if isinstance(size, int) else 1 for size in value.shape or ()]
    if len(numbers) not in (1, prod(shape)):
        raise UsageError(
            f"input '{value.name}' of shape {shape} has {prod(shape)} elements, not {len(numbers)}",
            where=FLAG,
            hint="give one number for all of them, or each",
        )
    dtype = value.dtype or ir.DataType.FLOAT
    if dtype is ir.DataType.STRING:
        raise UsageError(f"input '{value.name}' holds texts", where=FLAG, hint="only numbers can be given")
    given = np.array(numbers, np.float64)
    with np.errstate(all="ignore"):
        array = given.astype(dtype.numpy())
    held = array.astype(np.float64)
    if not np.all(held == given if dtype.is_integer() or dtype is ir.DataType.BOOL else np.isfinite(held)):
        named = ", ".join(f"{number:g}" for number in numbers[:3])
        raise UsageError(f"input '{value.name}' is {dtype.name.lower()} and cannot be {named}", where=FLAG)
    return np.full(shape, array[0]) if array.size == 1 else array.reshape(shape)
