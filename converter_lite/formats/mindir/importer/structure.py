"""What a program needs around its operators: weights, tuples, side effects, shapes, numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import rank_of
from converter_lite.formats.mindir.importer.context import Held
from converter_lite.formats.mindir.importer.step import Kind, Step, Translate
from converter_lite.formats.mindir.program import MONAD


def _first(step: Step) -> None:
    """Gives its first argument: a weight, a value behind a side effect."""
    step.give(step.get(step.kind.arguments.split()[0]))


def _nothing(step: Step) -> None:
    step.give(MONAD)


def _tuple(step: Step) -> None:
    step.give(step.given)


def _item(step: Step) -> None:
    held, index = step.get("input"), step.integer("index")
    if not isinstance(held, tuple) or not -len(held) <= index < len(held):
        raise ModelError(f"it takes part {index} of {len(held) if isinstance(held, tuple) else 'no tuple'}")
    step.give(held[index])


def _shape(step: Step) -> None:
    """Sizes as numbers; those that are known at run time only as tensors."""
    step.give(sizes_of(step, step.tensor("input")))


def sizes_of(step: Step, value: ir.Value) -> tuple[Held, ...]:
    """The sizes of a value."""
    rank_of(value)
    assert value.shape is not None
    return tuple(size if isinstance(size, int) else _size(step, value, axis) for axis, size in enumerate(value.shape))


def _size(step: Step, value: ir.Value, axis: int) -> ir.Value:
    zero_d = step.ints("axis", 0)
    return step.emit("Gather", step.emit("Shape", value, start=axis, end=axis + 1), zero_d, axis=0)


def _shape_tensor(step: Step) -> None:
    value = step.tensor("input")
    shape = g.static_shape(value)
    if shape is not None:
        step.give(step.ints("sizes", shape))
    else:
        step.finish("Shape", value)


def _rank(step: Step) -> None:
    step.give(step.rank("input"))


def _count(step: Step) -> None:
    step.give(int(np.prod(step.shape("input"))))


def _scalar(function: Callable[[float, float], float], onnx_name: str) -> Translate:
    def translate(step: Step) -> None:
        first, second = step.get("x"), step.get("y")
        if isinstance(first, ir.Value) or isinstance(second, ir.Value):
            like = first if isinstance(first, ir.Value) else second
            step.finish(onnx_name, step.as_tensor(first, "x", like), step.as_tensor(second, "y", like))
            return
        step.give(function(first, second))

    return translate


def _tensor_of(step: Step) -> None:
    """A number or a tuple of numbers as a tensor."""
    given = step.get("dtype", None)
    value = step.tensor("input")
    if given is None or value.dtype == step.element("dtype"):
        step.give(value)
    elif value.const_value is not None:
        step.give(step.constant("tensor", value.const_value.numpy(), step.element("dtype").numpy()))
    else:
        step.finish("Cast", value, to=int(step.element("dtype")))


_PASSED = "x ..."

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("Load", "Depend"), Kind(_first, _PASSED, "nothing")),
    **dict.fromkeys(("StopGradient", "Identity", "Copy", "Clone", "Contiguous"), Kind(_first, "x", "nothing")),
    "UpdateState": Kind(_nothing, "...", "nothing"),
    **dict.fromkeys(("MakeTuple", "make_tuple", "MakeList", "make_list"), Kind(_tuple, "...", "nothing")),
    **dict.fromkeys(
        ("TupleGetItem", "tuple_getitem", "ListGetItem", "list_getitem"), Kind(_item, "input index", "nothing")
    ),
    "Shape": Kind(_shape, "input", "Shape, Gather, or constants"),
    **dict.fromkeys(("TensorShape", "DynamicShape"), Kind(_shape_tensor, "input", "Shape, or a constant")),
    "Rank": Kind(_rank, "input", "nothing"),
    "Size": Kind(_count, "input", "nothing"),
    **dict.fromkeys(
        ("ScalarToTensor", "TupleToTensor", "ListToTensor"), Kind(_tensor_of, "input dtype", "Cast, or a constant")
    ),
    "ScalarAdd": Kind(_scalar(operator.add, "Add"), "x y", "Add, or nothing"),
    "ScalarSub": Kind(_scalar(operator.sub, "Sub"), "x y", "Sub, or nothing"),
    "ScalarMul": Kind(_scalar(operator.mul, "Mul"), "x y", "Mul, or nothing"),
    "ScalarFloorDiv": Kind(_scalar(operator.floordiv, "Div"), "x y", "Div, or nothing"),
}
