"""How each ONNX operator takes part in integer computation. A property of operators; what a device supports is in its table.

Source: ONNX operator specification (which inputs are data, weight, bias, selectors).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """What quantization means for an operator."""

    WEIGHTED = "weighted"
    """Data times constant weight plus bias; the output has a range of its own."""
    ARITHMETIC = "arithmetic"
    """Every listed input is data; the output has a range of its own."""
    SAME = "same"
    """The output holds values of its first input; both share one set of parameters."""
    FIXED = "fixed"
    """The output range is known from the mathematics (Softmax, Sigmoid, Tanh)."""
    CLAMP = "clamp"
    """Relu and Clip: the output grid's saturation does their work if the range allows it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Roles of an operator's inputs.

    Attributes:
        role: See :class:`Role`.
        data: Positions of data inputs; empty = all of them.
        weight: Position of the constant weight, or ``None``.
        bias: Position of the bias, or ``None``.
        fixed_range: Real range of the output for ``Role.FIXED``.
    """

    role: Role
    data: tuple[int, ...] = (0,)
    weight: int | None = None
    bias: int | None = None
    fixed_range: tuple[float, float] | None = None


_SAME = Operator(Role.SAME)
_OWN_RANGE = Operator(Role.ARITHMETIC)
_ALL_INPUTS = Operator(Role.ARITHMETIC, data=())

OPERATORS: dict[str, Operator] = {
    "Conv": Operator(Role.WEIGHTED, weight=1, bias=2),
    "ConvTranspose": Operator(Role.WEIGHTED, weight=1, bias=2),
    "Gemm": Operator(Role.WEIGHTED, weight=1, bias=2),
    "MatMul": Operator(Role.WEIGHTED, weight=1),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Concat", "Max", "Min"), _ALL_INPUTS),
    **dict.fromkeys(
        ("AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum", "LeakyRelu", "HardSwish", "Gelu", "Elu"),
        _OWN_RANGE,
    ),
    "PRelu": _OWN_RANGE,
    "InstanceNormalization": _OWN_RANGE,
    "LayerNormalization": _OWN_RANGE,
    "Relu": Operator(Role.CLAMP),
    "Clip": Operator(Role.CLAMP),
    "Softmax": Operator(Role.FIXED, fixed_range=(0.0, 1.0)),
    "Sigmoid": Operator(Role.FIXED, fixed_range=(0.0, 1.0)),
    "HardSigmoid": Operator(Role.FIXED, fixed_range=(0.0, 1.0)),
    "Tanh": Operator(Role.FIXED, fixed_range=(-1.0, 1.0)),
    **dict.fromkeys(
        ("MaxPool", "GlobalMaxPool", "ReduceMax", "Resize", "Pad", "Reshape", "Transpose", "Squeeze", "Unsqueeze"),
        _SAME,
    ),
    **dict.fromkeys(("Flatten", "Slice", "Gather", "Expand", "Tile", "Split", "DepthToSpace", "SpaceToDepth"), _SAME),
}

WEIGHTED = tuple(name for name, operator in OPERATORS.items() if operator.role is Role.WEIGHTED)
