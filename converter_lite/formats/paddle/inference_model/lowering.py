"""The translation from an ONNX graph to a program of Paddle itself.

Operators are those of the translation for Paddle-Lite, in Paddle's words (:mod:`.spelling`). Integers are said by pairs of
``quantize_linear`` and ``dequantize_linear`` on the data of an operator, and by ``dequantize_linear`` on its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.paddle.exporter.lowering import Lowering, Unsupported, dims
from converter_lite.formats.paddle.exporter.weights import StoredWeight, Transform
from converter_lite.formats.paddle.inference_model.shields import Shields
from converter_lite.formats.paddle.inference_model.spelling import SPELLINGS, complete
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, Target, choose
from converter_lite.formats.paddle.program import Attribute, Operator, Program, VarType, attr
from converter_lite.kernels.quantize import along_axis
from converter_lite.quantization.plan import NodeMode

LEVELS = 127
"""The largest integer; a scale of Paddle's is the real number that it stands for."""

VERSION = 2_006_002
"""The release whose operators are written."""

BITS = 8
"""Width of all integers."""


TIES_TO_EVEN = 0
"""How ``quantize_linear`` rounds."""

TURNED = ("Gemm", "MatMul")
"""ONNX operators whose integer weights are stored as (outputs, inputs): the passes for oneDNN take the scales of a square matrix
for those of its rows, and compute a product with a matrix of the other form as ``fc``, with scales of wrong columns."""

WEIGHT_AXES = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0, "MatMul": 0, "Gather": 1}
"""ONNX operator -> axis of the scales in its integer weight as Paddle stores it."""


SKIP = "skip_quant"
"""Attribute of operators that stay float."""

QUANTIZED_BY_ONEDNN = frozenset(
    {
        *("concat", "conv2d", "conv2d_transpose", "depthwise_conv2d", "matmul_v2", "pool2d", "prior_box"),
        *("elementwise_add", "elementwise_mul", "elementwise_sub", "nearest_interp", "nearest_interp_v2"),
        *("reshape2", "shape", "slice", "split", "transpose2"),
    }
)
"""Operators that Paddle's passes for oneDNN would compute with integers, with a neighbour's scale where they have none."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Integers of a tensor: the tensor's name, one step for all or one per channel, the axis of the channels."""

    name: str
    steps: NDArray[np.float32]
    axis: int


@dataclass(slots=True)
class InferenceLowering(Lowering):
    """One translation.

    Attributes:
        wide: Weights of more than 8 bits, stored as floats.
    """

    wide: list[str] = field(default_factory=list)
    _restored: dict[str, str] = field(default_factory=dict)
    _rounded: dict[tuple[ir.Value, float], str] = field(default_factory=dict)
    _constants: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _turned: set[str] = field(default_factory=set)
    _shields: Shields = field(init=False)

    def __post_init__(self) -> None:
        """Nothing has been written yet."""
        self._shields = Shields(self.parameters, self.like, lambda name: self._variables[name].dims)

    @property
    def runtime(self) -> str:
        """Paddle itself."""
        return "Paddle"

    @property
    def absorbs(self) -> bool:
        """Paddle's own operators absorb nothing."""
        return False

    def weight(self, node: ir.Node, value: ir.Value | None, transform: Transform) -> StoredWeight:
        """A weight as floats: where the plan has integers, these are stored, and an operator makes them floats."""
        is_turned = node.op_type in TURNED and self.mode(node) is not NodeMode.FLOAT
        stored = super(InferenceLowering, self).weight(node, value, turned(transform) if is_turned else transform)
        name, array, axis = stored.name, self.parameters[stored.name], WEIGHT_AXES.get(node.op_type, 0)
        if array.dtype == np.int16:
            steps = along_axis(np.asarray(stored.scales, np.float32), array.ndim, axis)
            self.parameters[name] = (array * steps).astype(np.float32)
            self.wide.append(name)
        elif array.dtype == np.int8:
            if name not in self._restored:
                self._variables[name].dtype = VarType.INT8
                grid = _Grid(name, np.asarray(stored.scales, np.float32), axis)
                self._restored[name] = self._dequantize(name, array.shape, grid)
            name = self._restored[name]
        if is_turned:
            self._turned.add(name)
        return StoredWeight(name, stored.scales)

    def int8_input(self, value: ir.Value) -> tuple[str, float]:
        """Variable that holds ``value`` as floats on its grid, and the step of that.

        Raises:
            Unsupported: The plan has no symmetric 8-bit parameters for the tensor.
        """
        step = self.activation_scale(value)
        if (value, step) not in self._rounded:
            name, grid = self._ordered(value), _Grid(str(value.name), np.asarray([step], np.float32), -1)
            rounded = self.temporary(f"{value.name}.quantized", dims(value))
            self._append("quantize_linear", name, rounded, grid)
            self._rounded[value, step] = self._dequantize(rounded, dims(value), grid)
        return self._rounded[value, step], step

    def _ordered(self, value: ir.Value) -> str:
        """A tensor whose integers are to be read, in an order in which oneDNN reads them right."""
        name, by_product = self.tensor(value), any(use.node.op_type in TURNED for use in value.uses())
        copy = self._shields.ordered(name, by_product=by_product)
        if copy is None:
            return name
        self._write(copy)
        return copy.outputs["Out"][0]

    def int8_output(self, value: ir.Value) -> bool:
        """Results are floats: where they are read as integers, that stands before the reader."""
        del value
        return False

    def _dequantize(self, name: str, shape: tuple[int, ...], grid: _Grid) -> str:
        result = self.temporary(f"{name}.dequantized", shape)
        self._append("dequantize_linear", name, result, grid)
        return result

    def _append(self, operator: str, source: str, result: str, grid: _Grid) -> None:
        if grid.name not in self._constants:
            scale = self.parameter(f"{grid.name}@scale", largest(grid.steps))
            zero_point = self.parameter(f"{grid.name}@zero_point", np.zeros(grid.steps.shape, np.int32))
            self._constants[grid.name] = {"Scale": [scale], "ZeroPoint": [zero_point]}
        attributes = {"quant_axis": attr(grid.axis), "bit_length": attr(BITS), "round_type": attr(TIES_TO_EVEN)}
        self._write(Operator(operator, {"X": [source], **self._constants[grid.name]}, {"Y": [result]}, attributes))

    def emit(
        self,
        operator: str,
        inputs: Mapping[str, list[str]],
        outputs: Mapping[str, list[str]],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        dtype: str = "float32",
        alias: str | None = None,
    ) -> Operator:
        """Append an operator in Paddle's words; kernels are chosen by Paddle.

        Raises:
            Unsupported: No library of Paddle-Lite computes it on such data: nor was Paddle tried.
        """
        if all(choose(operator, target, dtype=dtype, alias=alias) is None for target in Target):
            raise Unsupported(f"{operator} on {dtype} data is not known to be right in Paddle")
        made = Operator(operator, dict(inputs), dict(outputs), dict(attributes or {}))
        if not self._turned.isdisjoint(inputs.get("W", ())):
            made.attributes["trans_y"] = attr(True)
        is_integer, spelling = bool(made.get("enable_int8")), SPELLINGS.get(operator)
        written = [made] if spelling is None else spelling(made, self.like)
        for place, each in enumerate(written):
            complete(each)
            for copy in self._shields.copies(each):
                self._write(copy)
            self._write(each, is_integer=is_integer and place == 0)
        return made

    def _write(self, operator: Operator, *, is_integer: bool = False) -> None:
        if operator.type in QUANTIZED_BY_ONEDNN and not is_integer:
            operator.attributes[SKIP] = attr(1)
        self._shields.note(operator)
        self.operators.append(operator)

    def program(self) -> Program:
        """The finished program, without the names of kernels that only Paddle-Lite looks for.

        Paddle loads no file without parameters: where there is none, an unused one is added.
        """
        if not self.parameters:
            self.parameter("unused", np.zeros(1, np.float32))
        made = super(InferenceLowering, self).program()
        for operator in made.main.operators:
            operator.attributes.pop(KERNEL_ATTRIBUTE, None)
        return Program(made.blocks, VERSION)


def turned(transform: Transform) -> Transform:
    """The transformation of a matrix, and its transposition."""
    return replace(transform, name=f"{transform.name}.nk", apply=lambda array: np.transpose(transform.apply(array)))


def largest(steps: NDArray[np.float32]) -> NDArray[np.float32]:
    """What Paddle calls the scale: the number that the largest integer stands for.

    Of the float32 numbers around the product, one that gives the step again when it is divided; for one step of about 128
    there is none, and the step that is read differs in its last bit.
    """
    product = steps * np.float32(LEVELS)
    for candidate in (np.nextafter(product, np.float32(0)), np.nextafter(product, np.float32(np.inf))):
        fits = (candidate / np.float32(LEVELS) == steps) & (product / np.float32(LEVELS) != steps)
        product = np.where(fits, candidate, product)
    return product.astype(np.float32, copy=False)
