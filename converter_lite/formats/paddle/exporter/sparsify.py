"""``--sparse_model``: 1x1 convolutions of a file for ARM whose weights are mostly zeros become ``sparse_conv2d``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.program import Block, NbFile, Operator, Variable, attr, var_type
from converter_lite.formats.paddle.sparse import LARGEST_OFFSET, SLOTS, SparseWeight, encode, zero_share

KERNELS = {
    "conv2d/def/4/1/1": "sparse_conv2d/def/4/1/1",
    "conv2d/fp32_out/4/2/1": "sparse_conv2d/int8_fp32_out/4/2/1",
    "conv2d/int8_out/4/2/1": "sparse_conv2d/int8_int8_out/4/2/1",
}
"""Kernel of a dense convolution -> that of the sparse one."""

ACTIVATIONS = ("relu", "relu6", "leaky_relu", "hard_swish")
"""Fused functions that the sparse kernels apply; they silently ignore others."""


@dataclass(slots=True)
class Sparsity:
    """What became sparse.

    Attributes:
        weights: Variables whose weights were replaced.
        candidates: How many 1x1 convolutions there are.
        sparse: How many of them became sparse.
        paired: How many of these are stored in pairs of rows.
        reasons: Why the others stay dense -> how many.
        dense_bytes: Bytes of the replaced weights.
        sparse_bytes: Bytes of what replaces them.
    """

    weights: set[str] = field(default_factory=set)
    candidates: int = 0
    sparse: int = 0
    paired: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    dense_bytes: int = 0
    sparse_bytes: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        dense = "; ".join(f"{count} x {reason}" for reason, count in self.reasons.most_common(3))
        if not self.sparse:
            return (
                f"--sparse_model: no convolution is sparse, the file is dense: {dense or 'it has none of size 1x1'}",
            )
        made = (
            f"--sparse_model: {self.sparse} of {self.candidates} 1x1 convolutions are sparse, {self.sparse_bytes} bytes "
            f"of weights instead of {self.dense_bytes}"
        )
        notes = [f"{made}; {dense}" if dense else made]
        notes.append("a sparse file computes right for this input size only, and for one picture at a time")
        if self.paired:
            notes.append(
                f"the file needs Paddle-Lite 2.11 or newer: weights of {self.paired} sparse convolutions are stored in pairs"
                " of rows, which 2.10 takes for single ones without an error"
            )
        return tuple(notes)


def sparsify(file: NbFile, threshold: float) -> Sparsity:
    """Make the convolutions of ``file`` sparse (in place) that have enough zeros and that the sparse kernels compute.

    Args:
        file: For ARM, as the writer built it.
        threshold: Least share of zeros in a weight, 0 to 1.
    """
    found = Sparsity()
    block = file.program.main
    dims = {variable.name: variable.dims for variable in block.variables}
    made: dict[tuple[str, int], tuple[dict[str, list[str]], SparseWeight]] = {}
    for op in block.operators:
        name = op.input("Filter")
        weight = file.parameters.get(str(name))
        if op.type != "conv2d" or name is None or weight is None or weight.shape[2:] != (1, 1):
            continue
        found.candidates += 1
        picture = dims.get(str(op.input("Input")), ())
        reason = _density(weight, threshold) or _obstacle(op, weight, picture)
        if reason:
            found.reasons[reason] += 1
            continue
        pixels = picture[2] * picture[3]
        if (name, pixels) not in made:
            made[name, pixels] = _store(file, name, weight, pixels)
            found.sparse_bytes += sum(file.parameters[slot[0]].nbytes for slot in made[name, pixels][0].values())
        _replace(op, *made[name, pixels])
        found.sparse += 1
        found.paired += made[name, pixels][1].paired
        found.dense_bytes += 0 if name in found.weights else weight.nbytes
        found.weights.add(name)
    _drop_unused(file, block, found.weights)
    return found


def _obstacle(op: Operator, weight: NDArray[Any], picture: tuple[int, ...]) -> str:
    """Why the sparse kernels do not compute a 1x1 convolution; empty when they do."""
    kernel = str(op.get(KERNEL_ATTRIBUTE))
    if op.get("groups") != 1 or op.get("strides") != (1, 1) or any(op.get("paddings")):
        return "it has groups, strides or paddings"
    if op.get("quantize_weight_bits"):
        return "its weight is integer and its kernel float"
    if kernel not in KERNELS or weight.dtype not in (np.float32, np.int8):
        return f"there is no sparse kernel beside {kernel}"
    kind = op.get("act_type", "") if op.get("with_act") else ""
    if kind not in ("", *ACTIVATIONS) or (kind == "leaky_relu" and "int8_out" in kernel):
        return f"the sparse kernel does not compute its {kind}"
    if len(picture) != 4 or min(picture[2:]) < 1:
        return "its input size is not fixed (--inputShape fixes it)"
    if picture[0] > 1:
        return "the sparse kernels compute one picture at a time"
    if weight.shape[1] * picture[2] * picture[3] * weight.itemsize > LARGEST_OFFSET:
        return "its input is too large"
    return ""


def _density(weight: NDArray[Any], threshold: float) -> str:
    """Why the values of a weight do not make it sparse; empty when they do."""
    if zero_share(weight[:, :, 0, 0]) < np.float32(threshold):
        return f"less than {threshold:g} of its weights can be left out"
    return "" if weight.any() else "its weights are all zero"


def _store(file: NbFile, name: str, weight: NDArray[Any], pixels: int) -> tuple[dict[str, list[str]], SparseWeight]:
    """Add the stored parts of a weight; returns the input slots for them, too."""
    stored = encode(weight[:, :, 0, 0], pixels)
    taken = {variable.name for variable in file.program.main.variables}
    prefix, count = name, 1
    while any(f"{prefix}_{end}" in taken for end in SLOTS.values()):
        prefix, count = f"{name}_{count}", count + 1
    slots = {}
    for (slot, end), array in zip(SLOTS.items(), (stored.values, stored.ends, stored.steps), strict=True):
        variable = f"{prefix}_{end}"
        slots[slot] = [variable]
        file.parameters[variable] = array
        file.program.main.variables.append(
            Variable(variable, dtype=var_type(array.dtype), dims=array.shape, persistable=True)
        )
    return slots, stored


def _replace(op: Operator, slots: dict[str, list[str]], stored: SparseWeight) -> None:
    op.type = "sparse_conv2d"
    del op.inputs["Filter"]
    op.inputs.update(slots)
    op.attributes |= {
        KERNEL_ATTRIBUTE: attr(KERNELS[op.get(KERNEL_ATTRIBUTE)]),
        "first_ic": attr(stored.first),
        "flag_semi": attr(int(stored.paired)),
    }


def _drop_unused(file: NbFile, block: Block, names: set[str]) -> None:
    """Remove dense weights that nothing reads any more."""
    read = {name for op in block.operators for used in op.inputs.values() for name in used}
    for name in names - read:
        del file.parameters[name]
    block.variables = [variable for variable in block.variables if variable.name not in names - read]
