"""Weights that a plan stores as integers, the nodes that read each, and a width for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import CalibrationError
from converter_lite.kernels.params import QuantParams, QuantSpec, weight_params
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.storage import ONNX_STORAGE, Storage
from converter_lite.targets.operands import stored_weights

FloatArray = NDArray[np.float32]

TOO_SMALL = "its weight does not get smaller"


@dataclass(frozen=True, slots=True)
class WeightUse:
    """A weight, and the nodes that read it.

    Attributes:
        value: The initializer.
        nodes: Its readers, in graph order.
    """

    value: ir.Value
    nodes: tuple[ir.Node, ...]

    @property
    def name(self) -> str:
        """Name of the initializer."""
        return self.value.name or ""

    @property
    def array(self) -> FloatArray:
        """Float values."""
        return g.floats(self.value)


def weight_uses(model: ir.Model, plan: QuantPlan) -> list[WeightUse]:
    """Weights that the plan stores as integers, in graph order.

    Raises:
        CalibrationError: A weight is NaN or infinite; it is named.
    """
    uses = unchecked_uses(model, plan)
    refuse_broken(uses)
    return uses


def unchecked_uses(model: ir.Model, plan: QuantPlan) -> list[WeightUse]:
    """The same without checking the values."""
    readers: dict[str, tuple[ir.Value, list[ir.Node]]] = {}
    for node in g.all_nodes(model.graph):
        for weight in stored_weights(node) if plan.mode(node) is NodeMode.WEIGHT else ():
            readers.setdefault(weight.name or "", (weight, []))[1].append(node)
    return [WeightUse(value, tuple(nodes)) for value, nodes in readers.values()]


def refuse_broken(uses: Sequence[WeightUse]) -> None:
    """Refuse weights that cannot be quantized.

    Raises:
        CalibrationError: A weight is NaN or infinite; it is named.
    """
    for use in uses:
        if not np.isfinite(use.array).all():
            raise CalibrationError(
                "it holds NaN or infinite values", where=f"constant {use.name}", hint="repair the model's weights"
            )


def grid(use: WeightUse, bits: int, *, per_channel: bool, storage: Storage = ONNX_STORAGE) -> QuantParams:
    """Parameters of a weight; one scale for all where its readers' channels run along different axes."""
    axes = {storage.axis(node, use.value) if per_channel else None for node in use.nodes}
    axis, array = axes.pop() if len(axes) == 1 else None, use.array
    channels = 1 if axis is None else array.shape[axis]
    spec = storage.spec(QuantSpec(bits=bits, signed=True, axis=axis), channels=channels, elements=array.size)
    return weight_params(array, spec)


def assign(
    plan: QuantPlan,
    uses: Sequence[WeightUse],
    widths: dict[str, int],
    *,
    per_channel: bool,
    storage: Storage = ONNX_STORAGE,
) -> QuantPlan:
    """A copy of the plan with these widths; weights that would not get smaller stay float, with the reason."""
    plan = replace(plan, nodes=dict(plan.nodes), weights=dict(plan.weights))
    for use in uses:
        bits = widths[use.name]
        if storage.nbytes(use.nodes[0], use.value, bits, per_channel=per_channel) >= float_bytes(use):
            for node in use.nodes:
                plan.keep_float(node, TOO_SMALL)
        else:
            plan.weights[use.name] = grid(use, bits, per_channel=per_channel, storage=storage)
    return plan


def float_bytes(use: WeightUse) -> int:
    """Bytes of its values in float32."""
    return 4 * int(np.prod(g.static_shape(use.value) or (0,)))
