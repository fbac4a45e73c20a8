"""A device as a table: which operators it computes in integers, on which grids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.targets.operands import (
    RECURRENT,
    has_short_columns,
    is_recurrent,
    is_small,
    operator,
    stored_axis,
    stored_weights,
)
from converter_lite.targets.operators import Role
from converter_lite.targets.policy import Capability, KernelCosts, StemLimits
from converter_lite.targets.rules import refusal


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Integer abilities of one device; a :class:`~converter_lite.targets.policy.Policy`.

    Attributes:
        name: As in ``target_device``.
        activation: Grid of activations (per tensor).
        between: Grid of activations between layers, where it is narrower than that of the network's inputs and outputs.
        weight: Grid of weights; its axis is filled in per operator.
        per_channel: Default of the ``per_channel`` key.
        per_channel_operators: Operators that may have one weight scale per output channel.
        quantize_bias: Biases become int32 with scale ``s_input * s_weight``; otherwise they stay float.
        integer: Operators with integer kernels that are used.
        unused: Operators whose integer kernels are not used -> why.
        attributes: operator -> attribute -> values for which the integer kernel exists.
        averaged: Most elements that an integer average adds up without overflow; ``None``: any number.
        keeps_grid: Averages whose integer kernel gives the grid of its input. Means over whole pictures stay float then.
        weight_only: Operators without integer kernels whose weights are stored as integers all the same.
        stored_per_channel: Those of them that may have a scale per channel.
        shared_below: Columns of a product's weight share one scale where they have fewer elements than this: parameters
            of their own would take more space than integers save.
        float_output: Weighted operators whose integer kernel can give float results.
        float_addend: An Add reads the addend that comes straight from a convolution in float (one kernel).
        only_between_weighted: Operators without weights are quantized only between quantized neighbours,
            where they save a conversion; elsewhere they stay float.
        integer_ends: Inputs and outputs of the network that are asked for as integers, and count as quantized neighbours.
        grid_ends: Those that are quantized even if no neighbour is.
        float_small_numbers: Divisions and what computes divisors and arguments of logarithms stay float.
        float_stem: The layers that read a picture stay float within these limits; ``None``: they are treated like others.
        costs: Nodes stay float where integers take longer by this; ``None``: it was not measured.
        bias_correction: Whether the device takes corrected biases.
        pairs_saturate: Kernels may add two products of a weighted sum in saturating 16 bits
            (:mod:`converter_lite.kernels.pairs`): weights are chosen so that they never do.
        note: Where the rules come from.
    """

    name: str
    activation: QuantSpec
    weight: QuantSpec
    per_channel: bool
    per_channel_operators: frozenset[str]
    quantize_bias: bool
    integer: frozenset[str]
    unused: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, tuple[object, ...]]] = field(default_factory=dict)
    averaged: int | None = None
    keeps_grid: frozenset[str] = frozenset()
    weight_only: frozenset[str] = frozenset()
    stored_per_channel: frozenset[str] = frozenset({"Gather", *RECURRENT})
    shared_below: int = 2
    float_output: frozenset[str] = frozenset()
    float_addend: bool = False
    only_between_weighted: bool = True
    integer_ends: frozenset[str] = frozenset()
    grid_ends: frozenset[str] = frozenset()
    float_small_numbers: bool = True
    float_stem: StemLimits | None = None
    costs: KernelCosts | None = None
    bias_correction: bool = True
    pairs_saturate: bool = False
    between: QuantSpec | None = None
    note: str = ""

    def capability(self, node: ir.Node) -> Capability:
        """What the device can do with a node."""
        weight = next(iter(stored_weights(node)), None)
        has_axis = node.op_type in self.stored_per_channel | self.per_channel_operators
        axis = stored_axis(node, weight) if weight is not None and has_axis else None
        if weight is not None and has_short_columns(node, weight, self.shared_below):
            axis = None
        is_stored = weight is not None and node.op_type in self.weight_only
        return Capability(
            integer=self._missing_kernel(node) or refusal(node),
            stored="" if is_stored and not (is_recurrent(node) and is_small(node)) else "its weight stays float",
            weight=self.weight if axis is None else replace(self.weight, axis=axis),
            activation=self.activation if self.between is None or _reads_input(node) else self.between,
        )

    def computed(self, producer: ir.Node, grid: QuantParams) -> QuantParams:
        """What the file says."""
        del producer
        return grid

    def _missing_kernel(self, node: ir.Node) -> str:
        if operator(node) is None or node.op_type not in self.integer:
            return self.unused.get(node.op_type, f"{self.name} has no integer kernel for {node.op_type}")
        for name, allowed in self.attributes.get(node.op_type, {}).items():
            given = g.attribute(node, name)
            given = given.decode() if isinstance(given, bytes) else given
            if given is not None and given not in allowed:
                return f"{self.name} has no integer kernel for {node.op_type} with {name}={given}"
        if node.op_type == "GlobalAveragePool" and node.op_type in self.keeps_grid:
            return "the integer mean of a picture would have the grid of the picture, which is too coarse for it"
        if self.averaged is not None and node.op_type in ("AveragePool", "GlobalAveragePool"):
            elements = _averaged_elements(node)
            if elements is None or elements > self.averaged:
                return f"integer averages of more than {self.averaged} elements overflow on {self.name}"
        return ""


def _reads_input(node: ir.Node) -> bool:
    """Whether a node reads an input of the network, or values of one that were only moved."""
    value = g.input_at(node, 0)
    while value is not None and (producer := value.producer()) is not None:
        entry = operator(producer)
        if entry is None or entry.role is not Role.SAME:
            return False
        value = producer.inputs[0]
    return value is not None and not g.is_constant(value)


def _averaged_elements(node: ir.Node) -> int | None:
    """Elements of a pooling window, where they are known."""
    shape = g.static_shape(node.inputs[0])
    window = shape[2:] if node.op_type == "GlobalAveragePool" and shape else g.ints_attribute(node, "kernel_shape")
    return math.prod(window) if window else None
