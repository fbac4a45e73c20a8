"""Activation functions."""

from __future__ import annotations

import numpy as np

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.context import numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step, Translate


def _plain(name: str, **attributes: float | str) -> Translate:
    def translate(step: Step) -> None:
        step.finish(name, step.tensor("x"), **attributes)

    return translate


def _relu6(step: Step) -> None:
    value = step.tensor("x")
    step.finish("Clip", value, *(step.constant("bound", bound, numpy_type(value)) for bound in (0, 6)))


def _gelu(step: Step) -> None:
    approximate = step.word("approximate", "tanh" if step.operator == "GeLU" else "none", ("none", "tanh"))
    if approximate not in ("tanh", "none"):
        raise ModelError(f"the approximation '{approximate}'")
    step.finish("Gelu", step.tensor("x"), approximate=approximate)


def _fast_gelu(step: Step) -> None:
    """``x * sigmoid(1.702 x)``."""
    value = step.tensor("x")
    factor = step.constant("factor", 1.702, numpy_type(value))
    step.finish("Mul", value, step.emit("Sigmoid", step.emit("Mul", value, factor)))


def _silu(step: Step) -> None:
    value = step.tensor("x")
    step.finish("Mul", value, step.emit("Sigmoid", value))


def _softmax(name: str, axis: str) -> Translate:
    def translate(step: Step) -> None:
        value = step.tensor("x")
        if step.has("dtype"):
            value = step.converted(value, step.element("dtype"))
        if axis == "dim" and not step.has(axis):
            raise ModelError("it names no axis", hint="give the softmax its axis in the network")
        step.finish(name, value, axis=step.integer(axis, -1))

    return translate


def _softplus(step: Step) -> None:
    if step.number("beta", 1) != 1 or step.number("threshold", 20) < 20:
        raise ModelError(f"beta {step.number('beta', 1):g} and threshold {step.number('threshold', 20):g}")
    step.finish("Softplus", step.tensor("x"))


def _log_sigmoid(step: Step) -> None:
    step.finish("Neg", step.emit("Softplus", step.emit("Neg", step.tensor("x"))))


def _with_alpha(name: str, argument: str, default: float) -> Translate:
    def translate(step: Step) -> None:
        step.finish(name, step.tensor("x"), alpha=step.number(argument, default))

    return translate


def _shrink(*, soft: bool) -> Translate:
    def translate(step: Step) -> None:
        width = step.number("lambd", 0.5)
        step.finish("Shrink", step.tensor("x"), lambd=width, bias=width if soft else 0.0)

    return translate


def _prelu(step: Step) -> None:
    """A slope for each channel, or one for all."""
    value, slope = step.tensor("x"), step.tensor("weight")
    (count,), rank = step.shape("weight"), step.rank("x")
    if rank > 2 and count > 1:
        shape = step.ints("shape", [count, *(1,) * (rank - 2)])
        array = g.constant(slope)
        if array is not None:
            slope = step.constant("slope", array.reshape(count, *(1,) * (rank - 2)), array.dtype)
        else:
            slope = step.emit("Reshape", slope, shape)
    step.finish("PRelu", value, slope)


def _threshold(step: Step) -> None:
    value = step.tensor("x")
    limit, other = (step.constant(name, step.number(name), numpy_type(value)) for name in ("threshold", "value"))
    step.finish("Where", step.emit("Greater", value, limit), value, other)


def _glu(step: Step) -> None:
    value = step.tensor("x")
    axis = step.axis("axis", step.rank("x"), -1)
    size = step.shape("x")[axis]
    if size % 2:
        raise ModelError(f"{size} channels in two halves")
    first, second = step.emit_many("Split", [value, step.ints("sizes", np.full(2, size // 2))], 2, axis=axis)
    if step.operator == "Swiglu":
        step.finish("Mul", step.emit("Mul", first, step.emit("Sigmoid", first)), second)
    else:
        step.finish("Mul", first, step.emit("Sigmoid", second))


KINDS: dict[str, Kind] = {
    **{
        name: Kind(_plain(onnx_name), "x", onnx_name) for name, onnx_name in (("ReLU", "Relu"), ("HSwish", "HardSwish"))
    },
    **{name: Kind(_plain(name), "x", name) for name in ("Sigmoid", "Tanh", "Softsign", "Mish")},
    "HSigmoid": Kind(_plain("HardSigmoid", alpha=1 / 6, beta=0.5), "x", "HardSigmoid"),
    "ReLU6": Kind(_relu6, "x", "Clip"),
    "GeLU": Kind(_gelu, "x", "Gelu"),
    "GeluExt": Kind(_gelu, "x approximate", "Gelu"),
    "FastGeLU": Kind(_fast_gelu, "x", "Mul, Sigmoid"),
    "SiLU": Kind(_silu, "x", "Sigmoid, Mul"),
    "Softmax": Kind(_softmax("Softmax", "axis"), "x axis", "Softmax"),
    "LogSoftmax": Kind(_softmax("LogSoftmax", "axis"), "x axis", "LogSoftmax"),
    "LogSoftmaxExt": Kind(_softmax("LogSoftmax", "dim"), "x dim dtype", "LogSoftmax, Cast"),
    "Softplus": Kind(_softplus, "x", "Softplus"),
    "SoftplusExt": Kind(_softplus, "x beta threshold", "Softplus"),
    "LogSigmoid": Kind(_log_sigmoid, "x", "Neg, Softplus"),
    **dict.fromkeys(("Elu", "EluExt"), Kind(_with_alpha("Elu", "alpha", 1.0), "x alpha", "Elu")),
    "CeLU": Kind(_with_alpha("Celu", "alpha", 1.0), "x alpha", "Celu"),
    **dict.fromkeys(("SeLU", "SeLUExt"), Kind(_plain("Selu"), "x", "Selu")),
    "LeakyReLUExt": Kind(_with_alpha("LeakyRelu", "slope", 0.01), "x slope", "LeakyRelu"),
    "HShrink": Kind(_shrink(soft=False), "x lambd", "Shrink"),
    "SoftShrink": Kind(_shrink(soft=True), "x lambd", "Shrink"),
    "PReLU": Kind(_prelu, "x weight", "PRelu, Reshape"),
    "Threshold": Kind(_threshold, "x threshold value", "Greater, Where"),
    **dict.fromkeys(("GLU", "Swiglu"), Kind(_glu, "x axis", "Split, Sigmoid, Mul")),
}
