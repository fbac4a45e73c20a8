"""The inputs that a model expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite.errors import DataError, ModelError, nearest


@dataclass(frozen=True)
class InputSpec:
    """One graph input.

    Args:
        name: Name in the graph.
        dtype: NumPy type of the tensor.
        shape: Dimensions in the model's own layout; ``None`` = not fixed.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"'{self.name}' {self.dtype} {format_shape(self.shape)}"


def format_shape(shape: Iterable[int | None]) -> str:
    """``[1,3,224,224]``, with ``?`` for a dimension that is not fixed."""
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"


def feed_values(model: ir.Model) -> list[ir.Value]:
    """Graph inputs that a caller must provide: those without a stored default."""
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]


def input_specs(model: ir.Model, fixed_shapes: Mapping[str, tuple[int, ...]] | None = None) -> list[InputSpec]:
    """The inputs of a model, in graph order.

    Args:
        model: The model.
        fixed_shapes: Shapes that the user fixed, by input name.

    Raises:
        ModelError: An input is not a tensor of numbers, or has neither a rank nor a fixed shape.
        DataError: A fixed shape names no input or contradicts the model.
    """
    fixed = dict(fixed_shapes or {})
    values = feed_values(model)
    check_names(fixed, [str(value.name) for value in values], key="inputShape")
    return [InputSpec(str(value.name), _dtype(value), _shape(value, fixed.get(str(value.name)))) for value in values]


def check_names(given: Iterable[str], known: Iterable[str], *, key: str) -> None:
    """Refuse names that are not inputs of the model, all in one message, each with its nearest input name.

    Raises:
        DataError: A name is unknown.
    """
    known = list(known)
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    parts = []
    for name in unknown:
        near = nearest(name, known)
        parts.append(f"'{name}'" + (f" (did you mean '{near}'?)" if near else ""))
    raise DataError(
        f"the model has no input {', '.join(parts)}", where=key, hint=f"Inputs of the model: {', '.join(known)}."
    )


def _dtype(value: ir.Value) -> np.dtype:
    is_tensor = value.type is None or isinstance(value.type, (ir.TensorType, ir.OptionalType))
    if not is_tensor or value.dtype is None or value.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        raise ModelError("it is not a tensor of numbers", where=f"input '{value.name}'")
    return np.dtype(value.dtype.numpy())


def _shape(value: ir.Value, fixed: tuple[int, ...] | None) -> tuple[int | None, ...]:
    if value.shape is None:
        if fixed is None:
            raise ModelError(
                f"input '{value.name}' has no shape in the model",
                where=f"input '{value.name}'",
                hint=f"Give one: --inputShape={value.name}:1,3,224,224",
            )
        return fixed
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    if fixed is None:
        return shape
    if len(fixed) != len(shape) or any(own is not None and own != want for own, want in zip(shape, fixed, strict=True)):
        raise DataError(
            f"shape {format_shape(fixed)} of input '{value.name}' does not fit the model's {format_shape(shape)}",
            where="inputShape",
            hint="Fix only the dimensions that the model leaves open.",
        )
    return fixed
