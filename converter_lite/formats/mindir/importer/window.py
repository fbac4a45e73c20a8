"""Windows that slide over an image: their sizes, strides and padding, which MindSpore writes in several ways."""

from __future__ import annotations

from collections.abc import Sequence

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.context import MISSING, Held
from converter_lite.formats.mindir.importer.step import Step


def sizes(step: Step, name: str, count: int, default: Held = MISSING) -> list[int]:
    """One number for each of so many axes: all of them, one for all, or behind those of batch and channels.

    Raises:
        ModelError: There are others.
    """
    numbers = list(step.integers(name, default))
    if len(numbers) == 1:
        numbers *= count
    if len(numbers) == count + 2 and numbers[:2] == [1, 1]:
        numbers = numbers[2:]
    if len(numbers) != count or min(numbers) < 1:
        raise ModelError(f"its argument '{name}' is {numbers}, no {count} sizes")
    return numbers


def same_pads(
    shape: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Padding with which there are ``size / stride`` windows, rounded up; the larger half is at the end."""
    begins, ends = [], []
    for size, length, stride, dilation in zip(shape, kernel, strides, dilations, strict=True):
        needed = max((-(-size // stride) - 1) * stride + dilation * (length - 1) + 1 - size, 0)
        begins.append(needed // 2)
        ends.append(needed - needed // 2)
    return [*begins, *ends]


def paired_pads(step: Step, name: str, count: int) -> list[int]:
    """Padding as ONNX has it, from the numbers of begin and end axis by axis, or one for each axis.

    Raises:
        ModelError: There are others.
    """
    numbers = list(step.integers(name, 0))
    if len(numbers) == 1:
        numbers *= 2 * count
    elif len(numbers) == count:
        numbers = [number for number in numbers for _ in range(2)]
    if len(numbers) != 2 * count or min(numbers) < 0:
        raise ModelError(f"its argument '{name}' is {numbers}, no padding of {count} axes")
    return [*numbers[::2], *numbers[1::2]]


PAD_MODES = ("pad", "same", "valid")
"""In the order of their numbers in newer files."""


LAYOUTS = ("nchw", "nhwc", *("of weights",) * 12, "ncdhw")
"""The same."""


def check_layout(step: Step, name: str = "format") -> None:
    """Refuse images whose channels are last.

    Raises:
        ModelError: They are.
    """
    layout = step.word(name, "NCHW", LAYOUTS)
    if layout not in ("nchw", "ncdhw", "nc", "defaultformat"):
        raise ModelError(f"the axes have the order {layout.upper()}", hint="build the network for NCHW")
