"""The inputs that a model expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite.errors import DataError, ModelError, nearest
from converter_lite.graph import ints_attribute

_CHANNELS_SECOND = frozenset(
    {
        "AveragePool",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "DepthToSpace",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "GroupNormalization",
        "InstanceNormalization",
        "LRN",
        "MaxPool",
        "SpaceToDepth",
    }
)
"""Operators for which the second axis is that of the channels."""

_KEEP_AXES = frozenset(
    {
        "Add",
        "Cast",
        "Clip",
        "DequantizeLinear",
        "Div",
        "Identity",
        "Mul",
        "Neg",
        "Pad",
        "QuantizeLinear",
        "Relu",
        "Resize",
        "Sub",
    }
)
"""Operators between a picture and its first layer that leave axes where they are."""

_TO_SECOND, _PICTURE_RANK = (0, 3, 1, 2), 4


@dataclass(frozen=True)
class InputSpec:
    """One graph input.

    Args:
        name: Name in the graph.
        dtype: NumPy type of the tensor.
        shape: Dimensions in the model's own layout; ``None`` = not fixed.
        channels_last: Where the first layers of a picture have its channels; ``None`` = they do not tell.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | None, ...]
    channels_last: bool | None = None

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
    shapes = [_shape(value, fixed.get(str(value.name))) for value in values]
    return [
        InputSpec(str(value.name), _dtype(value), shape, channels_last(value) if len(shape) == _PICTURE_RANK else None)
        for value, shape in zip(values, shapes, strict=True)
    ]


def channels_last(picture: ir.Value) -> bool | None:
    """Whether the first layers move the last axis to the second place, as those of TensorFlow do, or read it as it is.

    ``None`` where they do not tell, or not all say the same.
    """
    found, values = set(), {picture: None}
    for value in (waiting := list(values)):
        for node, index in value.uses():
            if node.op_type in _CHANNELS_SECOND and index == 0:
                found.add(False)
            elif node.op_type == "Transpose" and ints_attribute(node, "perm") == _TO_SECOND:
                found.add(True)
            elif node.op_type in _KEEP_AXES and node.outputs[0] not in values:
                values[node.outputs[0]] = None
                waiting.append(node.outputs[0])
    return found.pop() if len(found) == 1 else None


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
