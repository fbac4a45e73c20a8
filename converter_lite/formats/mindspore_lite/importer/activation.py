"""Activation functions, alone and fused into other operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.container import MsNode
from converter_lite.formats.mindspore_lite.enums import ActivationType as Kind
from converter_lite.formats.mindspore_lite.importer.context import Importer

_PLAIN = {
    Kind.RELU: "Relu",
    Kind.SIGMOID: "Sigmoid",
    Kind.ABS: "Abs",
    Kind.SOFTSIGN: "Softsign",
    Kind.SOFTPLUS: "Softplus",
    Kind.TANH: "Tanh",
    Kind.SELU: "Selu",
    Kind.HSWISH: "HardSwish",
    Kind.SIGN: "Sign",
}


def activated(ctx: Importer, node: MsNode, value: ir.Value) -> ir.Value:
    """The activation that an operator computes on its own result."""
    kind = node.attributes.get("activation_type", 0)
    return value if kind == Kind.NONE else apply(ctx, node, kind, value, name=f"{node.name}_activation")


def apply(ctx: Importer, node: MsNode, kind: int, value: ir.Value, *, name: str = "") -> ir.Value:
    """One activation function.

    Raises:
        FormatError: The number is unknown.
    """
    if kind in _PLAIN:
        return ctx.add(_PLAIN[Kind(kind)], [value], name=name)
    make = _OTHERS.get(kind)
    if make is None:
        raise FormatError(f"activation {kind} is unknown", where=ctx.where)
    return make(ctx, node, value, name)


def _clip(low: float, high: float) -> Callable[[Importer, MsNode, ir.Value, str], ir.Value]:
    def make(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
        return clipped(ctx, value, low, high, name=name)

    return make


def clipped(ctx: Importer, value: ir.Value, low: float, high: float, *, name: str = "") -> ir.Value:
    """A Clip with constant bounds."""
    bounds = [ctx.initializer(np.array(b, np.float32), "bound", key=("bound", b)) for b in (low, high)]
    return ctx.add("Clip", [value, *bounds], name=name)


def _hard_tanh(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
    return clipped(ctx, value, float(node.attributes["min_val"]), float(node.attributes["max_val"]), name=name)


def _with_alpha(op: str) -> Callable[[Importer, MsNode, ir.Value, str], ir.Value]:
    def make(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
        return ctx.add(op, [value], name=name, alpha=float(node.attributes.get("alpha", 0.0)))

    return make


def _hard_sigmoid(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
    return ctx.add("HardSigmoid", [value], name=name, alpha=1 / 6, beta=0.5)


def _swish(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
    return ctx.add("Mul", [value, ctx.add("Sigmoid", [value])], name=name)


def _gelu(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
    return ctx.add("Gelu", [value], name=name, approximate="tanh" if node.attributes.get("approximate") else "none")


def _fast_gelu(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
    return ctx.add("Gelu", [value], name=name, approximate="tanh")


def _linear(ctx: Importer, node: MsNode, value: ir.Value, name: str) -> ir.Value:
    return value


_OTHERS: dict[int, Callable[[Importer, MsNode, ir.Value, str], ir.Value]] = {
    Kind.RELU6: _clip(0.0, 6.0),
    Kind.RELU1: _clip(-1.0, 1.0),
    Kind.HARD_TANH: _hard_tanh,
    Kind.ELU: _with_alpha("Elu"),
    Kind.LEAKY_RELU: _with_alpha("LeakyRelu"),
    Kind.THRESHOLD_RELU: _with_alpha("ThresholdedRelu"),
    Kind.HSIGMOID: _hard_sigmoid,
    Kind.SWISH: _swish,
    Kind.GELU: _gelu,
    Kind.FAST_GELU: _fast_gelu,
    Kind.LINEAR: _linear,
}
