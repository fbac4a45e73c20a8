"""Copies between operators that Paddle's passes, or oneDNN's kernels, would compute wrong together.

Measured with 2.6.2 and 3.3.1 (``docs/formats/paddle_inference.md``): results are silently wrong, or the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from converter_lite.formats.paddle.program import Operator, ints

ACTIVATIONS = frozenset(
    {
        *(
            "abs",
            "clip",
            "elu",
            "exp",
            "gelu",
            "hard_sigmoid",
            "hard_swish",
            "leaky_relu",
            "log",
            "mish",
            "relu",
            "relu6",
        ),
        *("sigmoid", "softplus", "sqrt", "square", "swish", "tanh"),
    }
)
"""Operators that become a part of a convolution in front of them: of two in a row, only the second is then computed."""

COMPUTED_FIRST = frozenset({"concat", "matmul_v2"})
"""Operators whose first input passes follow to the operator that made it: a constant there ends the process."""

BLOCKED = frozenset({"conv2d", "conv2d_transpose", "conv3d", "depthwise_conv2d", "depthwise_conv2d_transpose"})
"""Operators whose results oneDNN keeps with channels in blocks, which its products of matrices do not read."""

PLAIN = frozenset(
    {
        *("cast", "cumsum", "expand_v2", "gather", "instance_norm", "layer_norm", "matmul_v2", "pad3d", "reshape2"),
        *("slice", "squeeze2", "tile", "transpose2", "unsqueeze2", "where"),
    }
)
"""Operators whose results have their elements in the order of their axes, whatever they read."""

QUANTIZATION = frozenset({"quantize_linear", "dequantize_linear"})
"""Operators that passes for integers take away."""


@dataclass(slots=True)
class Shields:
    """What has been written, as far as it matters for the operators that follow.

    Attributes:
        parameters: Names of constants.
        like: A new variable of the type and shape of another, named after it and a word.
        rank: Number of axes of a variable, 0 if it is not known.
    """

    parameters: Container[str]
    like: Callable[..., str]
    rank: Callable[[str], int]
    _activated: set[str] = field(default_factory=set)
    _blocked: set[str] = field(default_factory=set)

    def copies(self, operator: Operator) -> Iterator[Operator]:
        """Operators to be written in front of one, whose inputs are changed to their results."""
        for slot, names in operator.inputs.items():
            read = list(names)
            for place, name in enumerate(names):
                if made := self._copy(operator, slot, place, name):
                    read[place] = made.outputs["Out"][0]
                    yield made
            operator.inputs = {**operator.inputs, slot: read}

    def _copy(self, operator: Operator, slot: str, place: int, name: str) -> Operator | None:
        kind, is_first = operator.type, slot == "X" and place == 0
        if kind == "matmul_v2" and name in self._blocked:
            outputs = {"Out": [self.like(name)], "XShape": [self.like(name, "xshape")]}
            return Operator("reshape2", {"X": [name]}, outputs, {"shape": ints([0] * self.rank(name))})
        if is_first and (
            (kind in ACTIVATIONS and name in self._activated) or (kind in COMPUTED_FIRST and name in self.parameters)
        ):
            return Operator("assign", {"X": [name]}, {"Out": [self.like(name)]}, {})
        return None

    def note(self, operator: Operator) -> None:
        """Remember an operator that was written."""
        read = {name for names in operator.inputs.values() for name in names}
        made = {name for names in operator.outputs.values() for name in names}
        if operator.type in ACTIVATIONS or (operator.type in QUANTIZATION and read & self._activated):
            self._activated |= made
        if operator.type in BLOCKED or (operator.type not in PLAIN and read & self._blocked):
            self._blocked |= made
