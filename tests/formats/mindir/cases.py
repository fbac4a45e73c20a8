"""Every operator in every form: a node, what it is fed, and what it gives by MindSpore's documentation, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as images
from tests.formats.mindir.files import Described, Program, Type, Weight
from tests.support import normal, positive

Array = NDArray[Any]

X = normal(2, 3, 6, 7, seed=5)
Y = normal(2, 3, 6, 7, seed=6)


PARTS_READ = {
    "BatchNorm": 1,
    "BatchNormExt": 1,
    "LayerNorm": 1,
    "LayerNormV3": 1,
    "LayerNormExt": 1,
    "RmsNorm": 1,
    "GroupNorm": 1,
    "LSTM": 3,
}
"""Operators with parts in their results that nothing reads -> how many are translated."""


class Input:
    """The next array that the node is fed."""


IN = Input()


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes:
        operator: Its operator.
        arguments: Its inputs: ``IN``, weights, values, lists of inputs.
        expected: From the arrays that it is fed to what it gives: an array or a tuple of arrays.
        own: Attributes of its primitive.
        feed: What it is fed.
        version: Of the format.
        tolerance: Largest difference, relative to the largest number.
    """

    operator: str
    arguments: tuple[Any, ...]
    expected: Callable[..., Any]
    own: Mapping[str, Any] = field(default_factory=dict)
    feed: tuple[Array, ...] = (X,)
    version: int = 3
    tolerance: float = 1e-5

    def results(self) -> list[Array]:
        """What is expected, with the parts that are not translated."""
        found = self.expected(*self.feed)
        parts = [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]
        return [part.astype(np.float32) if part.dtype == np.float64 else part for part in parts]

    @property
    def parts(self) -> int:
        """How many parts the result of the graph has."""
        return len(self.read_results())

    def read_results(self) -> list[Array]:
        """What is expected of the graph."""
        return self.results()[: PARTS_READ.get(self.operator)]

    def content(self) -> bytes:
        """The file."""
        program, results = Program(version=self.version), self.results()
        names = iter([program.input(f"x{i}", array.dtype.name, array.shape) for i, array in enumerate(self.feed)])
        given = [self._argument(program, part, names) for part in self.arguments]
        described = tuple(Described(array.dtype.name, array.shape) for array in results)
        is_tuple = isinstance(self.expected(*self.feed), tuple)
        declared = described if is_tuple else described[0]
        node = program.node(self.operator, *given, own=self.own, declared=declared)
        if self.operator in PARTS_READ:
            parts = [program.node("TupleGetItem", node, index) for index in range(PARTS_READ[self.operator])]
            node = program.node("MakeTuple", *parts)
        return program.file(node)

    def _argument(self, program: Program, part: Any, names: Any) -> Any:
        if part is IN:
            return next(names)
        if isinstance(part, list):
            return program.node("MakeTuple", *(self._argument(program, inner, names) for inner in part))
        return part


def one(operator: str, expected: Callable[..., Any], *further: Any, **options: Any) -> Case:
    """A node with a tensor as its first argument."""
    return Case(operator, (IN, *further), expected, **options)


def two(operator: str, expected: Callable[..., Any], *further: Any, feed: tuple[Array, ...] = (X, Y[:, :, :1])) -> Case:
    """A node with two tensors as its first arguments."""
    return Case(operator, (IN, IN, *further), expected, feed=feed)


def f32(function: Callable[..., Any]) -> Callable[..., Any]:
    """In double precision, rounded once."""

    def computed(*arrays: Array) -> Array:
        return np.asarray(function(*(np.asarray(array, np.float64) for array in arrays)), np.float32)

    return computed


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def numbers(*arrays: Array) -> dict[str, tuple[Array, ...]]:
    return {"feed": arrays}


SLOPES = normal(3, seed=11)
WHOLE = np.random.default_rng(1).integers(-9, 9, (3, 4)).astype(np.int32)
DIVISORS = np.random.default_rng(2).integers(1, 5, (3, 4)).astype(np.int32)
SMALL = np.tanh(normal(2, 5, seed=8))
SOME = positive(2, 5, seed=9) + 1
FLAGS = (X > 0, Y > 0)

UNARY: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "Abs": (np.abs, X),
    "Neg": (np.negative, X),
    "Exp": (np.exp, X),
    "Sign": (np.sign, X),
    "Floor": (np.floor, X),
    "Ceil": (np.ceil, X),
    "Rint": (np.rint, X),
    "Sin": (np.sin, X),
    "Cos": (np.cos, X),
    "Tan": (np.tan, SMALL),
    "Asin": (np.arcsin, SMALL),
    "ACos": (np.arccos, SMALL),
    "Atan": (np.arctan, X),
    "Sinh": (np.sinh, SMALL),
    "Cosh": (np.cosh, SMALL),
    "Asinh": (np.arcsinh, X),
    "Acosh": (np.arccosh, SOME),
    "Atanh": (np.arctanh, SMALL),
    "Log": (np.log, SOME),
    "Log1p": (np.log1p, SOME),
    "Expm1": (np.expm1, X),
    "Sqrt": (np.sqrt, SOME),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), SOME),
    "Reciprocal": (lambda x: 1 / x, SOME),
    "Inv": (lambda x: 1 / x, SOME),
    "Square": (np.square, X),
    "Erf": (erf, X),
    "Erfc": (lambda x: 1 - erf(x), X),
    "Trunc": (np.trunc, X * 3),
    "ReLU": (lambda x: np.maximum(x, 0), X),
    "ReLU6": (lambda x: np.clip(x, 0, 6), X * 4),
    "Sigmoid": (sigmoid, X),
    "Tanh": (np.tanh, X),
    "HSigmoid": (lambda x: np.clip((x + 3) / 6, 0, 1), X * 3),
    "HSwish": (lambda x: x * np.clip((x + 3) / 6, 0, 1), X * 3),
    "SiLU": (lambda x: x * sigmoid(x), X),
    "Mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), X),
    "GeLU": (lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), X),
    "FastGeLU": (lambda x: x * sigmoid(1.702 * x), X),
    "Softplus": (lambda x: np.log1p(np.exp(x)), X),
    "Softsign": (lambda x: x / (1 + np.abs(x)), X),
    "LogSigmoid": (lambda x: -np.log1p(np.exp(-x)), X),
    "SeLU": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), X),
    "SeLUExt": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), X),
    "StopGradient": (lambda x: x, X),
    "Identity": (lambda x: x, X),
    "Copy": (lambda x: x, X),
    "Clone": (lambda x: x, X),
    "Contiguous": (lambda x: x, X),
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "TensorAdd": np.add,
    "Sub": np.subtract,
    "Subs": np.subtract,
    "Mul": np.multiply,
    "Muls": np.multiply,
    "Div": np.divide,
    "Divs": np.divide,
    "RealDiv": np.divide,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Mod": np.fmod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}

COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}


def softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


ARITHMETIC: dict[str, Case] = {
    **{name: one(name, f32(function), feed=(x,)) for name, (function, x) in UNARY.items()},
    **{name: two(name, f32(function)) for name, function in BINARY.items()},
    **{name: two(name, function) for name, function in COMPARED.items()},
    "Add of a number": one("Add", lambda x: x + np.float32(1.5), 1.5),
    "Sub from a constant": Case("Sub", (np.asarray(2, np.float32), IN), lambda x: 2 - x),
    "AddExt": two("AddExt", lambda x, y: x + 2 * y, 2, feed=(X, Y)),
    "SubExt": two("SubExt", lambda x, y: x - np.float32(0.5) * y, 0.5, feed=(X, Y)),
    "AddScalar": one("AddScalar", lambda x: x + 3, 1.5, 2),
    "SubScalar": one("SubScalar", lambda x: x - 2, 2.0, 1),
    "Div of whole numbers": two("Div", lambda x, y: (x / y).astype(np.float32), feed=(WHOLE, DIVISORS)),
    "FloorDiv of whole numbers": two("FloorDiv", np.floor_divide, feed=(WHOLE, DIVISORS)),
    "FloorMod of whole numbers": two("FloorMod", np.mod, feed=(WHOLE, DIVISORS)),
    "DivMod": two("DivMod", f32(np.divide), None),
    "DivMod down": two("DivMod", f32(np.floor_divide), 2),
    "DivMod towards zero": two("DivMod", f32(lambda x, y: np.trunc(x / y)), 1),
    "DivMods towards zero": one("DivMods", lambda x: np.trunc(x / 2).astype(np.int32), 2, 1, feed=(WHOLE,)),
    "Pow": two("Pow", f32(np.power), feed=(SOME, SMALL)),
    "PowTensorScalar": one("PowTensorScalar", f32(lambda x: x**3), 3.0),
    "PowScalarTensor": Case("PowScalarTensor", (2.0, IN), f32(lambda x: 2.0**x)),
    "AddN": Case("AddN", ([IN, IN, IN],), lambda x, y, z: x + y + z, feed=(X, Y, X)),
    "AccumulateNV2": Case("AccumulateNV2", ([IN, IN],), lambda x, y: x + y, feed=(X, Y)),
    "Addcmul": Case(
        "Addcmul", (IN, IN, IN, np.asarray(0.5, np.float32)), lambda x, y, z: x + y * z / 2, feed=(X, Y, X)
    ),
    "Lerp": Case("Lerp", (IN, IN, np.asarray(0.25, np.float32)), lambda x, y: x * 0.75 + y / 4, feed=(X, Y)),
    "Addcdiv": Case(
        "Addcdiv",
        (IN, IN, IN, np.asarray(0.5, np.float32)),
        lambda x, y, z: x + y / z / 2,
        feed=(X, Y, positive(*X.shape)),
    ),
    "RemainderTensorTensor": two("RemainderTensorTensor", np.mod, feed=(WHOLE, -DIVISORS)),
    "RemainderTensorScalar": one("RemainderTensorScalar", lambda x: np.mod(x, 4), 4, feed=(WHOLE,)),
    "RemainderScalarTensor": Case("RemainderScalarTensor", (7, IN), lambda x: np.mod(7, x), feed=(DIVISORS,)),
    "Round": one("Round", np.rint, 0, feed=(X * 3,)),
    "LogicalNot": one("LogicalNot", np.logical_not, feed=FLAGS[:1]),
    "LogicalAnd": two("LogicalAnd", np.logical_and, feed=FLAGS),
    "LogicalOr": two("LogicalOr", np.logical_or, feed=FLAGS),
    "LogicalXor": two("LogicalXor", np.logical_xor, feed=FLAGS),
    "IsNan": one("IsNan", np.isnan, feed=(np.array([1, np.nan, np.inf], np.float32),)),
    "IsInf": one("IsInf", np.isinf, feed=(np.array([1, np.nan, -np.inf], np.float32),)),
    "IsFinite": one("IsFinite", np.isfinite, feed=(np.array([1, np.nan, -np.inf], np.float32),)),
    "Select": Case("Select", (IN, IN, IN), np.where, feed=(X > 0, X, Y)),
    "SelectV2": Case("SelectV2", (IN, IN, IN), np.where, feed=(X > 0, X, Y)),
    "MaskedFill": Case(
        "MaskedFill", (IN, IN, np.asarray(-1, np.float32)), lambda x, m: np.where(m, np.float32(-1), x), feed=(X, X > 0)
    ),
    "MaskedFillScalar": Case(
        "MaskedFillScalar", (IN, IN, -1.0), lambda x, m: np.where(m, np.float32(-1), x), feed=(X, X > 0)
    ),
    "ClampScalar": one("ClampScalar", lambda x: np.clip(x, np.float32(-0.5), np.float32(0.7)), -0.5, 0.7),
    "ClampScalar from below": one("ClampScalar", lambda x: np.maximum(x, np.float32(0.1)), 0.1, None),
    "ClampTensor": Case("ClampTensor", (IN, IN, None), np.maximum, feed=(X, Y)),
    "ClampTensor to both": Case(
        "ClampTensor", (IN, IN, IN), lambda x, y, z: np.minimum(np.maximum(x, y), z), feed=(X, Y - 1, Y + 1)
    ),
    "Hardtanh": one("Hardtanh", lambda x: np.clip(x, np.float32(-0.5), np.float32(0.7)), -0.5, 0.7),
    "Cast": one("Cast", lambda x: x.astype(np.int32), 34, feed=(X * 5,)),
    "Cast to a type": one("Cast", lambda x: x.astype(np.float32), Type("float32"), feed=(WHOLE,), version=1),
    "Cast to itself": one("Cast", lambda x: x, 43),
    "ZerosLike": one("ZerosLike", np.zeros_like),
    "OnesLike": one("OnesLike", np.ones_like),
    "ZerosLikeExt": one("ZerosLikeExt", lambda x: np.zeros(x.shape, np.int32), 34),
    "OnesLikeExt": one("OnesLikeExt", np.ones_like, None),
    "FullLike": one("FullLike", lambda x: np.full_like(x, 2.5), 2.5, None),
}

ACTIVATION: dict[str, Case] = {
    "GeluExt": one("GeluExt", f32(lambda x: x / 2 * (1 + erf(x / math.sqrt(2)))), 0),
    "GeluExt by tanh": one("GeluExt", f32(UNARY["GeLU"][0]), 1),
    "Elu": one("Elu", f32(lambda x: np.where(x > 0, x, np.expm1(x))), 1.0),
    "Elu in an old file": one("Elu", f32(lambda x: np.where(x > 0, x, np.expm1(x))), own={"alpha": 1.0}, version=1),
    "EluExt": one("EluExt", f32(lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))), 0.5),
    "CeLU": one("CeLU", f32(lambda x: np.maximum(x, 0) + np.minimum(0, 0.5 * np.expm1(x / 0.5))), 0.5),
    "LeakyReLUExt": one("LeakyReLUExt", f32(lambda x: np.where(x > 0, x, 0.1 * x)), 0.1),
    "HShrink": one("HShrink", lambda x: np.where(np.abs(x) > np.float32(0.3), x, np.float32(0)), 0.3),
    "SoftShrink": one("SoftShrink", f32(lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0)), 0.3),
    "Softmax": one("Softmax", f32(lambda x: images.softmax(x, 1)), (1,)),
    "Softmax in an old file": one("Softmax", f32(lambda x: images.softmax(x, -1)), own={"axis": (-1,)}, version=1),
    "LogSoftmax": one("LogSoftmax", f32(lambda x: np.log(images.softmax(x, 2))), 2),
    "LogSoftmaxExt": one("LogSoftmaxExt", f32(lambda x: np.log(images.softmax(x, 1))), 1, None),
    "SoftplusExt": one("SoftplusExt", f32(softplus), 1, 20),
    "PReLU": one("PReLU", lambda x: np.where(x > 0, x, x * SLOPES.reshape(3, 1, 1)), Weight(normal(3, seed=11))),
    "PReLU with one slope": one(
        "PReLU", lambda x: np.where(x > 0, x, x * np.float32(0.2)), Weight(np.array([0.2], np.float32))
    ),
    "PReLU with slopes of a node": Case(
        "PReLU", (IN, IN), lambda x, w: np.where(x > 0, x, x * w.reshape(3, 1, 1)), feed=(X, normal(3, seed=1))
    ),
    "Threshold": one("Threshold", lambda x: np.where(x > np.float32(0.1), x, np.float32(2)), 0.1, 2.0),
    "GLU": one("GLU", f32(lambda x: x[:, :, :3] * sigmoid(x[:, :, 3:])), 2),
    "Swiglu": one("Swiglu", f32(lambda x: x[:, :, :3] * sigmoid(x[:, :, :3]) * x[:, :, 3:]), 2),
}

A, B = normal(3, 4, seed=1), normal(4, 5, seed=2)
AA, BB = normal(2, 3, 4, seed=3), normal(2, 4, 5, seed=4)
BIAS = normal(5, seed=7)

LINEAR: dict[str, Case] = {
    "MatMul": two("MatMul", np.matmul, False, False, feed=(A, B)),
    "MatMul transposed": Case("MatMul", (IN, Weight(B.T.copy()), False, True), lambda x: x @ B, feed=(A,)),
    "MatMul, the first one transposed": two("MatMul", lambda x, y: x.T @ y, True, False, feed=(A.T.copy(), B)),
    "MatMul in an old file": Case(
        "MatMul",
        (IN, Weight(B.T.copy())),
        lambda x: x @ B,
        own={"transpose_a": False, "transpose_b": True},
        feed=(A,),
        version=1,
    ),
    "BatchMatMul": two("BatchMatMul", np.matmul, False, False, feed=(AA, BB)),
    "BatchMatMul transposed": two(
        "BatchMatMul", lambda x, y: x @ y.swapaxes(1, 2), False, True, feed=(AA, BB.swapaxes(1, 2).copy())
    ),
    "MatMulExt": two("MatMulExt", np.matmul, feed=(AA, B)),
    "BatchMatMulExt": two("BatchMatMulExt", np.matmul, feed=(AA, BB)),
    "Mm": two("Mm", np.matmul, feed=(A, B)),
    "Mv": two("Mv", np.matmul, feed=(A, B[:, 0].copy())),
    "Dot": two("Dot", np.dot, feed=(B[:, 0].copy(), B[:, 1].copy())),
    "Dense": Case("Dense", (IN, Weight(B.T.copy()), Weight(BIAS)), lambda x: x @ B + BIAS, feed=(AA,)),
    "Dense without bias": Case("Dense", (IN, Weight(B.T.copy()), None), lambda x: x @ B, feed=(A,)),
    "Addmm": Case(
        "Addmm", (IN, IN, IN, 0.5, 2.0), lambda x, y, z: x / 2 + 2 * (y @ z), feed=(normal(3, 5, seed=5), A, B)
    ),
    "Baddbmm": Case("Baddbmm", (IN, IN, IN, 1, 1), lambda x, y, z: x + y @ z, feed=(normal(2, 3, 5, seed=5), AA, BB)),
    "BiasAdd": Case("BiasAdd", (IN, Weight(SLOPES), 0), lambda x: x + SLOPES.reshape(3, 1, 1)),
    "BiasAdd to rows": Case("BiasAdd", (IN, Weight(BIAS), 0), lambda x: x + BIAS, feed=(normal(2, 5, seed=1),)),
    "BiasAdd of a node": Case("BiasAdd", (IN, IN, 0), lambda x, b: x + b.reshape(3, 1, 1), feed=(X, SLOPES)),
    "BiasAdd in an old file": Case(
        "BiasAdd", (IN, Weight(SLOPES)), lambda x: x + SLOPES.reshape(3, 1, 1), own={"format": "NCHW"}, version=1
    ),
    "Einsum": Case("Einsum", ([IN, IN],), np.matmul, own={"equation": "bij,bjk->bik"}, feed=(AA, BB)),
    "Outer": two("Outer", np.outer, feed=(SLOPES, BIAS)),
}
