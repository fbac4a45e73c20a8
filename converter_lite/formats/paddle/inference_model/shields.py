"""Copies between operators that Paddle's passes, or oneDNN's kernels, would compute wrong together.

Measured with 2.6.2 and 3.3.1 (``docs/formats/paddle_inference.md``): results are silently wrong, or the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
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

DECONVOLUTIONS = frozenset({"conv2d_transpose", "depthwise_conv2d_transpose"})
"""Those whose results 2.6.2 cannot make integers of where there is more than one picture: the process ends."""

PLAIN = frozenset(
    {
        *("cast", "cumsum", "expand_v2", "gather", "instance_norm", "matmul_v2", "pad3d", "reshape2"),
        *("slice", "squeeze2", "tile", "transpose2", "unsqueeze2", "where"),
    }
)
"""Operators whose results have their elements in the order of their axes, whatever they read."""

QUANTIZATION = frozenset({"quantize_linear", "dequantize_linear"})
"""Operators that passes for integers take away. They compute the grid behind a ``scale`` from the one in front of it and the
factor: with a negative one, integers behind it get the wrong sign."""

MATRIX = 2
"""Axes of a matrix."""

SWAPPED = 2
"""Axes that a transposition may move which becomes a part of an integer product."""


@dataclass(slots=True)
class Shields:
    """What has been written, as far as it matters for the operators that follow.

    Attributes:
        parameters: Names of constants.
        like: A new variable of the type and shape of another, named after it and a word.
        sizes: Dimensions of a variable, none if its rank is not known.
        _activated: Results of activations.
        _blocked: What may lie with its channels in blocks.
        _deconvolved: What may lie as a transposed convolution gave it.
        _products: Results of products of matrices.
        _reshaped: Reshaped variables, and whether what was reshaped lay in blocks.
        _turned: Those of them that were transposed so that an integer product takes both steps as its own, and the same.
    """

    parameters: Container[str]
    like: Callable[..., str]
    sizes: Callable[[str], tuple[int, ...]]
    _activated: set[str] = field(default_factory=set)
    _blocked: set[str] = field(default_factory=set)
    _deconvolved: set[str] = field(default_factory=set)
    _products: set[str] = field(default_factory=set)
    _reshaped: dict[str, bool] = field(default_factory=dict)
    _turned: dict[str, bool] = field(default_factory=dict)

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
        is_fused_right = not self._turned.get(name, True)  # floats, in any order of the axes
        if kind == "matmul_v2" and not is_fused_right and (made := self.ordered(name)) is not None:
            return made
        if is_first and (
            (kind in ACTIVATIONS and name in self._activated)
            or (kind in COMPUTED_FIRST and name in self.parameters)
            or (kind == "scale" and (name in self._products or operator.get("scale") < 0 or operator.get("bias")))
        ):
            return self._assigned(name)
        return None

    def _assigned(self, name: str) -> Operator:
        return Operator("assign", {"X": [name]}, {"Out": [self.like(name)]}, {})

    def ordered(self, name: str, *, by_product: bool = True) -> Operator | None:
        """What puts the elements of a tensor in the order of its axes; ``None`` where whoever reads it needs none.

        Args:
            name: The tensor.
            by_product: A product of matrices reads it; otherwise it only becomes integers.
        """
        if by_product and name in self._turned:
            return self._assigned(name)
        size = self.sizes(name)
        is_read_wrong = name in self._blocked if by_product else name in self._deconvolved and size[:1] != (1,)
        if not is_read_wrong or len(size) <= MATRIX:
            return None
        outputs = {"Out": [self.like(name)], "XShape": [self.like(name, "xshape")]}
        return Operator("reshape2", {"X": [name]}, outputs, {"shape": ints([0] * len(size))})

    def note(self, operator: Operator) -> None:
        """Remember an operator that was written."""
        read = {name for names in operator.inputs.values() for name in names}
        made = {name for names in operator.outputs.values() for name in names}
        if operator.type in ACTIVATIONS or (operator.type in QUANTIZATION and read & self._activated):
            self._activated |= made
        if operator.type == "matmul_v2":
            self._products |= made
        if operator.type == "reshape2":
            self._reshaped |= dict.fromkeys(made, not read.isdisjoint(self._blocked))
        if operator.type == "transpose2":
            (source,) = operator.inputs["X"]
            if source in self._reshaped and (self._reshaped[source] or not _is_swap(operator.get("axis"))):
                self._turned |= dict.fromkeys(made, self._reshaped[source])
        if operator.type in BLOCKED or (operator.type not in PLAIN and read & self._blocked):
            self._blocked |= made
        if operator.type in DECONVOLUTIONS or (operator.type not in PLAIN | BLOCKED and read & self._deconvolved):
            self._deconvolved |= made


def _is_swap(order: Sequence[int]) -> bool:
    """Whether two axes change their places, and no others."""
    return sum(place != axis for place, axis in enumerate(order)) == SWAPPED
