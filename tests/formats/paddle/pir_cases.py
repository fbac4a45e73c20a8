"""Every operation of PIR that is read: a small program, what it is fed, and what NumPy says about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.paddle import references as ref
from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_models import Dtype, PirProgram

Array = NDArray[Any]
Build = Callable[..., "int | Sequence[int]"]


@dataclass(frozen=True)
class Case:
    """A program that is built from a :class:`PirProgram` and the values of its inputs.

    Attributes:
        rule: The operation.
        build: Adds the operations; returns the values that are outputs.
        feed: Inputs in order.
        want: Outputs.
        open: Shapes with which inputs are declared, if they are not those of the feed.
    """

    rule: str
    build: Build
    feed: Sequence[Array]
    want: Sequence[Array]
    open: Sequence[Sequence[int] | None] = ()

    def program(self) -> PirProgram:
        """The program."""
        made = PirProgram()
        shapes = [*self.open, *[None] * len(self.feed)]
        given = [
            made.input(f"x{place}", array.shape if shapes[place] is None else shapes[place] or (), str(array.dtype))
            for place, array in enumerate(self.feed)
        ]
        found = self.build(made, *given)
        for value in [found] if isinstance(found, int) else found:
            made.output(value)
        return made


def simple(rule: str, feed: Sequence[Array], *want: Array, results: int = 1, **attributes: Any) -> Case:
    """Inputs are the operands."""
    return Case(rule, lambda p, *x: all_of(p.op(rule, *x, results=results, **attributes), results), feed, want)


def all_of(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def unary(rule: str, function: Callable[[Array], Array], x: Array | None = None, **attributes: Any) -> Case:
    x = WAVES if x is None else x
    return simple(rule, [x], np.asarray(function(x)), **attributes)


WAVES = random(3, 4) * 2
POSITIVE = np.abs(random(3, 4)) + np.float32(0.1)
INSIDE = np.clip(random(3, 4) / 4, -0.95, 0.95)
PICTURE = random(2, 4, 7, 6, seed=3)
CUBE = random(2, 3, 4, seed=4)
LONG, VOLUME = random(2, 3, 8, seed=31), random(1, 2, 4, 5, 6, seed=24)
ONE, OTHER = random(3, 4, seed=5), random(3, 4, seed=6)
COUNTS = np.random.default_rng(7).integers(-9, 9, (3, 4)) * (np.arange(12).reshape(3, 4) % 5 > 0)
ODD = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)
DIVISORS = np.random.default_rng(8).integers(1, 5, (3, 4)) * np.array([1, -1, 1, -1])
TRUTH, OTHER_TRUTH = random(3, 4, seed=9) > 0, random(3, 4, seed=10) > 0


def celu(x: Array) -> Array:
    return np.maximum(x, 0) + np.minimum(0, 0.5 * (np.exp(x / 0.5) - 1))


def log_softmax(x: Array) -> Array:
    return np.log(ref.softmax(x, 1))


def softplus(x: Array) -> Array:
    return np.where(x * 2 > 1.5, x, np.log1p(np.exp(2 * x)) / 2)


def selu(x: Array) -> Array:
    return 1.3 * np.where(x > 0, x, 1.5 * (np.exp(x) - 1))


FUNCTIONS = {
    **{
        name: unary(name, getattr(np, name)) for name in ("abs", "ceil", "cos", "cosh", "exp", "expm1", "floor", "sign")
    },
    **{name: unary(name, getattr(np, name)) for name in ("sin", "sinh", "square", "tan", "tanh", "trunc")},
    **{name: unary(name, getattr(np, name), ODD) for name in ("isfinite", "isinf", "isnan")},
    **{
        name: unary(name, getattr(np, name), POSITIVE)
        for name in ("log", "log10", "log1p", "log2", "reciprocal", "sqrt")
    },
    **{name: unary(name, getattr(np, f"arc{name[1:]}"), INSIDE) for name in ("acos", "asin", "asinh", "atan", "atanh")},
    "acosh": unary("acosh", np.arccosh, POSITIVE + 1),
    "assign": unary("assign", np.copy),
    **{f"{name}": unary(name, np.copy) for name in ("memcpy_d2h", "memcpy_h2d", "print", "shadow_feed", "share_data")},
    "assign_out_": simple("assign_out_", [ONE, OTHER], ONE),
    "depend": simple("depend", [ONE, OTHER], ONE),
    "bitwise_not": unary("bitwise_not", np.invert, COUNTS),
    "bitwise_not of truth": unary("bitwise_not", np.invert, TRUTH),
    "logical_not": unary("logical_not", np.invert, TRUTH),
    "celu": unary("celu", celu, alpha=0.5),
    "elu": unary("elu", lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1)), alpha=0.5),
    "erf": unary("erf", ref.erf),
    "gelu": unary("gelu", lambda x: x * (1 + ref.erf(x / math.sqrt(2))) / 2, approximate=False),
    "gelu by tanh": unary(
        "gelu", lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2, approximate=True
    ),
    "hardshrink": unary("hardshrink", lambda x: np.where(np.abs(x) > 0.9, x, 0), threshold=0.9),
    "hardsigmoid": unary("hardsigmoid", lambda x: np.clip(0.3 * x + 0.4, 0, 1), slope=0.3, offset=0.4),
    "hardswish": unary("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hardtanh": unary("hardtanh", lambda x: np.clip(x, -0.5, 0.7), t_min=-0.5, t_max=0.7),
    "leaky_relu": unary("leaky_relu", lambda x: np.where(x > 0, x, 0.3 * x), negative_slope=0.3),
    "log_softmax": unary("log_softmax", log_softmax, axis=1),
    "logit": unary("logit", lambda x: np.log(x / (1 - x)), np.clip(POSITIVE / 4, 0.01, 0.9), eps=1e-3),
    "logsigmoid": unary("logsigmoid", lambda x: np.log(ref.sigmoid(x))),
    "mish": unary("mish", lambda x: x * np.tanh(np.log1p(np.exp(x))), lambda_=20.0),
    "pow": unary("pow", lambda x: x**1.7, POSITIVE, y=1.7),
    "relu": unary("relu", lambda x: np.maximum(x, 0)),
    "relu in place": unary("relu_", lambda x: np.maximum(x, 0)),
    "relu6": unary("relu6", lambda x: np.clip(x, 0, 6), WAVES * 4),
    "round": unary("round", np.rint, decimals=0),
    "round to a digit": unary("round", lambda x: np.round(x, 1), decimals=1),
    "rsqrt": unary("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    "selu": unary("selu", selu, scale=1.3, alpha=1.5),
    "sigmoid": unary("sigmoid", ref.sigmoid),
    "silu": unary("silu", lambda x: x * ref.sigmoid(x)),
    "softmax": unary("softmax", lambda x: ref.softmax(x, 0), axis=0),
    "softplus": unary("softplus", lambda x: np.log1p(np.exp(x)), beta=1.0, threshold=20.0),
    "softplus with beta": unary("softplus", softplus, beta=2.0, threshold=1.5),
    "softshrink": unary("softshrink", lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.9, 0), threshold=0.9),
    "softsign": unary("softsign", lambda x: x / (1 + np.abs(x))),
    "stanh": unary("stanh", lambda x: 1.6 * np.tanh(0.6 * x), scale_a=0.6, scale_b=1.6),
    "swish": unary("swish", lambda x: x * ref.sigmoid(x)),
    "tanh_shrink": unary("tanh_shrink", lambda x: x - np.tanh(x)),
    "thresholded_relu": unary("thresholded_relu", lambda x: np.where(x > 0.3, x, 0), threshold=0.3, value=0.0),
    "thresholded_relu with value": unary(
        "thresholded_relu", lambda x: np.where(x > 0.3, x, 0.2), threshold=0.3, value=0.2
    ),
    "rrelu": Case(
        "rrelu",
        lambda p, x: p.op("rrelu", x, results=2, lower=0.2, upper=0.4, is_test=True),
        [WAVES],
        [np.where(WAVES > 0, WAVES, 0.3 * WAVES)],
    ),
    "swiglu": simple("swiglu", [ONE, OTHER], ONE * ref.sigmoid(ONE) * OTHER),
    "swiglu of halves": simple("swiglu", [ONE], ONE[:, :2] * ref.sigmoid(ONE[:, :2]) * ONE[:, 2:]),
    "maxout": simple("maxout", [PICTURE], PICTURE.reshape(2, 2, 2, 7, 6).max(axis=2), groups=2, axis=1),
    "clip": Case("clip", lambda p, x: p.op("clip", x, p.full(-0.5), p.full(0.7)), [WAVES], [np.clip(WAVES, -0.5, 0.7)]),
    "clip of integers": Case(
        "clip",
        lambda p, x: p.op("clip", x, p.full(-3, "int64"), p.full(4, "int64")),
        [COUNTS],
        [np.clip(COUNTS, -3, 4)],
    ),
    "clip to what is computed": Case(
        "clip",
        lambda p, x, low: p.op("clip", x, low, p.full(3.4028234663852886e38)),
        [WAVES, np.array([0.3], np.float32)],
        [np.maximum(WAVES, np.float32(0.3))],
    ),
    "dropout": Case(
        "dropout",
        lambda p, x: p.op("dropout", x, 0, p.full(0.3), results=2, is_test=True, mode="upscale_in_train"),
        [WAVES],
        [WAVES],
    ),
    "dropout that scales now": Case(
        "dropout",
        lambda p, x: p.op("dropout", x, 0, p.full(0.25), results=2, is_test=True, mode="downgrade_in_infer"),
        [WAVES],
        [WAVES * 0.75],
    ),
    "prelu": Case(
        "prelu",
        lambda p, x: p.op(
            "prelu", x, p.parameter("a", np.arange(4, dtype=np.float32)), data_format="NCHW", mode="channel"
        ),
        [PICTURE],
        [np.where(PICTURE > 0, PICTURE, PICTURE * np.arange(4).reshape(1, 4, 1, 1))],
    ),
    "scale": Case(
        "scale", lambda p, x: p.op("scale", x, p.full(2.0), bias=1.5, bias_after_scale=True), [WAVES], [WAVES * 2 + 1.5]
    ),
    "scale behind the bias": Case(
        "scale",
        lambda p, x: p.op("scale", x, p.full(2.0), bias=1.5, bias_after_scale=False),
        [WAVES],
        [(WAVES + 1.5) * 2],
    ),
    "scale by what is computed": Case(
        "scale",
        lambda p, x, s: p.op("scale", x, s, bias=0.5, bias_after_scale=True),
        [WAVES, np.array([1.7], np.float32)],
        [WAVES * np.float32(1.7) + 0.5],
    ),
    "cast": simple("cast", [WAVES], WAVES.astype(np.int32), dtype=Dtype("int32")),
    "cast to truth": simple("cast", [COUNTS], COUNTS != 0, dtype=Dtype("bool")),
}


def both(rule: str, function: Callable[[Array, Array], Array], one: Array = ONE, other: Array = OTHER) -> Case:
    return simple(rule, [one, other], np.asarray(function(one, other)))


COMPARED = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_equal": np.greater_equal,
}
WITH_NAN = np.where(TRUTH, ONE, np.float32(np.nan))

ARITHMETIC = {
    **{name: both(name, getattr(np, name)) for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")},
    "add of a row": both("add", np.add, CUBE, random(4)),
    "fmax": both("fmax", np.fmax, WITH_NAN),
    "fmin": both("fmin", np.fmin, ONE, WITH_NAN),
    "fmax of integers": both("fmax", np.fmax, COUNTS, DIVISORS),
    "elementwise_pow": both("elementwise_pow", np.power, POSITIVE),
    "remainder": both("remainder", np.mod, COUNTS, DIVISORS),
    "remainder of floats": both("remainder", np.mod, ONE * 5, OTHER * 2),
    "floor_divide": both("floor_divide", np.floor_divide, COUNTS, DIVISORS),
    "floor_divide of floats": both("floor_divide", np.floor_divide, ONE * 5, OTHER * 2),
    "heaviside": both("heaviside", np.heaviside, np.where(TRUTH, ONE, np.float32(0))),
    **{name: both(name, function, COUNTS, COUNTS[::-1]) for name, function in COMPARED.items()},
    "equal of truth": both("equal", np.equal, TRUTH, OTHER_TRUTH),
    "equal_all": both("equal_all", np.array_equal, COUNTS, COUNTS.copy()),
    "equal_all of others": both("equal_all", np.array_equal, COUNTS, DIVISORS),
    **{
        f"{name}": both(name, getattr(np, name), TRUTH, OTHER_TRUTH)
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    "logical_and of numbers": both("logical_and", np.logical_and, COUNTS, COUNTS[::-1]),
    **{name: both(name, getattr(np, name), COUNTS, DIVISORS) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{
        f"{n} of truth": both(n, getattr(np, n), TRUTH, OTHER_TRUTH)
        for n in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    "lerp": simple("lerp", [ONE, OTHER, np.array(0.3, np.float32)], ONE + 0.3 * (OTHER - ONE)),
    "masked_fill": simple("masked_fill", [ONE, TRUTH, np.array(-7, np.float32)], np.where(TRUTH, -7, ONE)),
    "where": simple("where", [TRUTH, ONE, OTHER], np.where(TRUTH, ONE, OTHER)),
    "add_n": Case("add_n", lambda p, x, y: p.op("add_n", p.combine(x, y, x)), [ONE, OTHER], [ONE + OTHER + ONE]),
}

LEFT, RIGHT, BATCH = random(3, 4, seed=11), random(4, 5, seed=12), random(2, 4, 5, seed=13)

PRODUCTS = {
    "matmul": simple("matmul", [LEFT, RIGHT], LEFT @ RIGHT, transpose_x=False, transpose_y=False),
    "matmul transposed": simple(
        "matmul", [LEFT.T.copy(), RIGHT.T.copy()], LEFT @ RIGHT, transpose_x=True, transpose_y=True
    ),
    "matmul with a vector": simple(
        "matmul", [LEFT, RIGHT[:, 0].copy()], LEFT @ RIGHT[:, 0], transpose_x=False, transpose_y=True
    ),
    "matmul_with_flatten": simple(
        "matmul_with_flatten",
        [BATCH, random(20, 3)],
        BATCH.reshape(2, 20) @ random(20, 3),
        x_num_col_dims=1,
        y_num_col_dims=1,
    ),
    "fc": simple(
        "fc",
        [LEFT, RIGHT, random(5)],
        np.maximum(LEFT @ RIGHT + random(5), 0),
        in_num_col_dims=1,
        activation_type="relu",
        padding_weights=False,
    ),
    "bmm": both("bmm", np.matmul, BATCH, random(2, 5, 3)),
    "mv": both("mv", np.matmul, LEFT, RIGHT[:, 0].copy()),
    "multi_dot": Case(
        "multi_dot",
        lambda p, x, y, z: p.op("multi_dot", p.combine(x, y, z)),
        [LEFT, RIGHT, random(5, 2)],
        [LEFT @ RIGHT @ random(5, 2)],
    ),
    "dot": both("dot", lambda x, y: (x * y).sum(-1)),
    "addmm": simple("addmm", [random(3, 5), LEFT, RIGHT], 0.5 * random(3, 5) + 2 * LEFT @ RIGHT, beta=0.5, alpha=2.0),
    "baddbmm": simple(
        "baddbmm",
        [random(2, 4, 3), BATCH, random(2, 5, 3)],
        random(2, 4, 3) + BATCH @ random(2, 5, 3),
        beta=1.0,
        alpha=1.0,
    ),
    "bilinear": simple(
        "bilinear",
        [LEFT, random(3, 4), random(2, 4, 4), random(1, 2)],
        np.einsum("bi,bj,kij->bk", LEFT, random(3, 4), random(2, 4, 4)) + random(1, 2),
    ),
    "einsum": Case(
        "einsum",
        lambda p, x, y: p.op("einsum", p.combine(x, y), results=3, equation="bij,bik->bjk"),
        [BATCH, random(2, 4, 3)],
        [np.einsum("bij,bik->bjk", BATCH, random(2, 4, 3))],
    ),
}


def reduced(rule: str, function: Callable[..., Array], x: Array = CUBE, **attributes: Any) -> dict[str, Case]:
    """With the axes as an operand: one, several that stay, all."""
    return {
        rule: Case(
            rule, lambda p, v: p.op(rule, v, p.ints(1), keepdim=False, **attributes), [x], [function(x, axis=1)]
        ),
        f"{rule} that keeps": Case(
            rule,
            lambda p, v: p.op(rule, v, p.ints(0, -1), keepdim=True, **attributes),
            [x],
            [function(x, axis=(0, 2), keepdims=True)],
        ),
        f"{rule} of all": Case(
            rule, lambda p, v: p.op(rule, v, p.ints(), keepdim=False, **attributes), [x], [np.asarray(function(x))]
        ),
    }


def named(rule: str, function: Callable[..., Array], x: Array = CUBE) -> dict[str, Case]:
    """With the axes as an attribute."""
    return {
        rule: simple(rule, [x], function(x, axis=1), axis=[1], keepdim=False),
        f"{rule} of all": simple(rule, [x], np.asarray(function(x)), axis=[], keepdim=False),
    }


SMALL_COUNTS = np.random.default_rng(14).integers(0, 5, (2, 3, 4)).astype(np.int32)
ANY = random(2, 3, 4, seed=15) > 0.8


def norm(order: float) -> Callable[[Array], Array]:
    return lambda x: np.linalg.norm(x.astype(np.float64), ord=order, axis=1)


REDUCTIONS = {
    **reduced("mean", np.mean),
    **reduced("sum", np.sum),
    **reduced("max", np.max),
    **reduced("min", np.min),
    **reduced("prod", np.prod),
    "sum of int32": Case(
        "sum",
        lambda p, x: p.op("sum", x, p.ints(1), keepdim=False, dtype=Dtype("Undefined(ALL_DTYPE)")),
        [SMALL_COUNTS],
        [SMALL_COUNTS.sum(axis=1, dtype=np.int64)],
    ),
    "sum of truth": Case(
        "sum", lambda p, x: p.op("sum", x, p.ints(), keepdim=False), [ANY], [np.asarray(ANY.sum(dtype=np.int64))]
    ),
    "sum as float": Case(
        "sum",
        lambda p, x: p.op("sum", x, p.ints(1), keepdim=False, dtype=Dtype("float32")),
        [SMALL_COUNTS],
        [SMALL_COUNTS.sum(axis=1).astype(np.float32)],
    ),
    **named("amax", np.max),
    **named("amin", np.min),
    **named("any", np.any, ANY),
    **named("all", np.all, ~ANY),
    "logsumexp": simple(
        "logsumexp", [CUBE], np.log(np.exp(CUBE).sum(axis=1)), axis=[1], keepdim=False, reduce_all=False
    ),
    "mean_all": simple("mean_all", [CUBE], np.asarray(CUBE.mean())),
    **{
        f"p_norm {order}" if order != 2 else "p_norm": unary(
            "p_norm", norm(order), ONE, porder=float(order), axis=1, keepdim=False, asvector=False
        )
        for order in (1, 2, 3, math.inf, -math.inf)
    },
    "p_norm of all": unary(
        "p_norm", lambda x: np.asarray(np.linalg.norm(x)), ONE, porder=2.0, axis=-1, keepdim=False, asvector=True
    ),
    "frobenius_norm": Case(
        "frobenius_norm",
        lambda p, x: p.op("frobenius_norm", x, p.ints(1, 2), keep_dim=False, reduce_all=False),
        [CUBE],
        [np.sqrt((CUBE**2).sum(axis=(1, 2)))],
    ),
    "argmax": Case(
        "argmax",
        lambda p, x: p.op("argmax", x, p.full(1, "int64"), keepdims=False, flatten=False, dtype=Dtype("int64")),
        [CUBE],
        [CUBE.argmax(axis=1)],
    ),
    "argmax of all": Case(
        "argmax",
        lambda p, x: p.op("argmax", x, p.full(0, "int64"), keepdims=False, flatten=True, dtype=Dtype("int64")),
        [CUBE],
        [np.asarray(CUBE.argmax())],
    ),
    "argmin as int32": Case(
        "argmin",
        lambda p, x: p.op("argmin", x, p.full(-1, "int64"), keepdims=True, flatten=False, dtype=Dtype("int32")),
        [CUBE],
        [CUBE.argmin(axis=-1, keepdims=True).astype(np.int32)],
    ),
    "argsort": simple("argsort", [CUBE], np.sort(CUBE, 1), np.argsort(CUBE, 1), results=2, axis=1, descending=False),
    "argsort that falls": simple(
        "argsort", [CUBE], -np.sort(-CUBE, 2), np.argsort(-CUBE, 2), results=2, axis=-1, descending=True
    ),
    "cumsum": Case(
        "cumsum",
        lambda p, x: p.op("cumsum", x, p.full(1, "int32"), flatten=False, exclusive=False, reverse=False),
        [CUBE],
        [np.cumsum(CUBE, 1)],
    ),
    "cumsum of all": Case(
        "cumsum", lambda p, x: p.op("cumsum", x, p.full(0, "int32"), flatten=True), [CUBE], [np.cumsum(CUBE)]
    ),
    "kthvalue": simple(
        "kthvalue", [CUBE], np.sort(CUBE, -1)[..., 1], np.argsort(CUBE, -1)[..., 1], results=2, k=2, axis=-1
    ),
    "topk": Case(
        "topk",
        lambda p, x: all_of(p.op("topk", x, p.full(2, "int32"), results=2, axis=-1, largest=True, sorted=True), 2),
        [CUBE],
        [-np.sort(-CUBE, -1)[..., :2], np.argsort(-CUBE, -1)[..., :2]],
    ),
    "topk that is computed": Case(
        "topk",
        lambda p, x, k: all_of(p.op("topk", x, k, results=2, axis=1, largest=False, sorted=True), 2),
        [CUBE, np.array([2])],
        [np.sort(CUBE, 1)[:, :2], np.argsort(CUBE, 1)[:, :2]],
    ),
}

CASES_OF_FUNCTIONS: Mapping[str, Case] = {**FUNCTIONS, **ARITHMETIC, **PRODUCTS, **REDUCTIONS}
"""Name -> case; those with the same first words are variants of one operation."""
