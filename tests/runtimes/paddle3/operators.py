"""Operators one by one, as Paddle's users write them; runs inside the environment of Paddle alone."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - everybody calls it so
from parts import FOUR, TABLE, THREE, A, B, Case, U, X, boo, by_name, f32, i32, i64, pos


def _setitem(x):
    y = paddle.zeros_like(x)
    y[:, 1:3] = x[:, 0:2]
    return y


def _setitem_t(x, v):
    y = x * 2
    y[0:2, -2:] = v
    return y


def _setitem_mask(x):
    y = x * 2
    y[y > 0] = 0.0
    return y


def _setitem_step(x):
    y = x * 2
    y[::2, 0] = 5.0
    return y


PLAIN = (
    *(
        "abs",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "exp",
        "expm1",
        "floor",
        "sin",
        "sinh",
        "square",
        "tan",
        "tanh",
        "round",
    ),
    *("sign", "trunc", "isnan", "isinf", "isfinite", "neg", "asinh"),
)
OF_POSITIVE = ("rsqrt", "sqrt", "log", "log10", "log1p", "log2", "reciprocal")
FUNCTIONS = (
    *(
        "relu",
        "relu6",
        "silu",
        "swish",
        "mish",
        "hardswish",
        "hardsigmoid",
        "hardtanh",
        "hardshrink",
        "softshrink",
        "selu",
    ),
    *("celu", "elu", "gelu", "leaky_relu", "softplus", "softsign", "tanhshrink", "log_sigmoid", "thresholded_relu"),
    *("sigmoid", "softmax", "log_softmax"),
)
ARITHMETIC = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin")
COMPARED = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
REDUCED = ("mean", "sum", "max", "min", "prod", "logsumexp", "amax", "amin")


UNARY = {
    **{name: Case(by_name(name), (U,)) for name in PLAIN},
    **{name: Case(by_name(name), (pos(3, 4),)) for name in OF_POSITIVE},
    **{f"F_{name}": Case(by_name(name, F), (U,)) for name in FUNCTIONS},
    "acos": Case(by_name("acos"), (np.clip(U / 4, -0.95, 0.95),)),
    "asin": Case(by_name("asin"), (np.clip(U / 4, -0.95, 0.95),)),
    "atanh": Case(by_name("atanh"), (np.clip(U / 4, -0.95, 0.95),)),
    "acosh": Case(by_name("acosh"), (pos(3, 4) + 1,)),
    "gelu_tanh": Case(lambda x: F.gelu(x, approximate=True), (U,)),
    "leaky_relu_alpha": Case(lambda x: F.leaky_relu(x, 0.3), (U,)),
    "elu_alpha": Case(lambda x: F.elu(x, 0.3), (U,)),
    "celu_alpha": Case(lambda x: F.celu(x, 0.3), (U,)),
    "selu_alpha": Case(lambda x: F.selu(x, 1.3, 1.5), (U,)),
    "hardsigmoid_slope": Case(lambda x: F.hardsigmoid(x, 0.3, 0.4), (U,)),
    "hardtanh_range": Case(lambda x: F.hardtanh(x, -0.5, 0.7), (U,)),
    "hardshrink_t": Case(lambda x: F.hardshrink(x, 0.9), (U,)),
    "softshrink_t": Case(lambda x: F.softshrink(x, 0.9), (U,)),
    "softplus_beta": Case(lambda x: F.softplus(x, beta=2.0, threshold=1.5), (U,)),
    "thresholded_relu_t": Case(lambda x: F.thresholded_relu(x, 0.3, 0.2), (U,)),
    "softmax_axis0": Case(lambda x: F.softmax(x, axis=0), (U,)),
    "log_softmax_axis1": Case(lambda x: F.log_softmax(x, axis=1), (f32(2, 3, 4),)),
    "prelu_one": Case(lambda x: F.prelu(x, paddle.to_tensor([0.2])), (X,)),
    "prelu_channel": Case(lambda x: F.prelu(x, paddle.to_tensor([0.2, 0.3, 0.4])), (X,)),
    "scale": Case(lambda x: paddle.scale(x, 2.0, 1.5), (U,)),
    "scale_before": Case(lambda x: paddle.scale(x, 2.0, 1.5, bias_after_scale=False), (U,)),
    "scale_int": Case(lambda x: x * 3 + 2, (i64(9, 3, 4),)),
    "scale_tensor": Case(lambda x, s: paddle.scale(x, s, 0.5), (U, np.array([1.7], np.float32))),
    "clip": Case(lambda x: paddle.clip(x, -0.5, 0.7), (U,)),
    "clip_min": Case(lambda x: paddle.clip(x, min=-0.5), (U,)),
    "clip_int": Case(lambda x: paddle.clip(x, 2, 5), (i64(9, 3, 4),)),
    "clip_tensor": Case(lambda x, a: paddle.clip(x, a, 1.0), (U, np.array([-0.3], np.float32))),
    "pow2": Case(lambda x: x**2, (U,)),
    "pow_f": Case(lambda x: x**1.7, (pos(3, 4),)),
    "pow_int": Case(lambda x: x**3, (i64(5, 3, 4),)),
    "rpow": Case(lambda x: 2.0**x, (U,)),
    "cast_i32": Case(lambda x: paddle.cast(x * 5, "int32"), (U,)),
    "cast_bool": Case(lambda x: paddle.cast(x, "bool"), (np.array([0.0, 1.5, -2.0], np.float32),)),
    "cast_f64": Case(lambda x: paddle.cast(x, "float64") * 2, (U,)),
    "cast_u8": Case(lambda x: paddle.cast(x * 20, "uint8"), (pos(3, 4),)),
    "assign": Case(lambda x: paddle.assign(x), (U,)),
    "logit": Case(lambda x: paddle.logit(x, 0.001), (np.clip(pos(3, 4) / 4, 0.01, 0.99),)),
    "stanh": Case(lambda x: paddle.stanh(x, 0.6, 1.6), (U,)),
    "logical_not": Case(lambda x: paddle.logical_not(x), (boo(3, 4),)),
    "bitwise_not": Case(lambda x: paddle.bitwise_not(x), (i32(9, 3, 4),)),
    "bitwise_not_bool": Case(lambda x: paddle.bitwise_not(x), (boo(3, 4),)),
    "glu": Case(lambda x: F.glu(x, axis=1), (U,)),
    "swiglu": Case(
        lambda x: (
            paddle.nn.functional.swiglu(x)
            if hasattr(paddle.nn.functional, "swiglu")
            else paddle.incubate.nn.functional.swiglu(x)
        ),
        (U,),
    ),
    "swiglu2": Case(lambda x, y: paddle.incubate.nn.functional.swiglu(x, y), (U, f32(3, 4, seed=4))),
    "maxout": Case(lambda x: F.maxout(x, 3, axis=1), (f32(2, 6, 4, 4),)),
    "nan_to_num": Case(lambda x: paddle.nan_to_num(x), (np.array([1, np.nan, np.inf, -np.inf], np.float32),)),
    "normalize": Case(lambda x: F.normalize(x, axis=1), (U,)),
    "dropout": Case(lambda x: F.dropout(x, 0.3, training=False), (U,)),
    "dropout_down": Case(lambda x: F.dropout(x, 0.3, training=False, mode="downscale_in_infer"), (U,)),
    "alpha_dropout": Case(lambda x: F.alpha_dropout(x, 0.3, training=False), (U,)),
}

BINARY = {
    **{name: Case(by_name(name), (A, B)) for name in ARITHMETIC},
    **{
        name: Case(by_name(name), (i64(3, 3, 4).astype(np.float32), i64(3, 3, 4, seed=1).astype(np.float32)))
        for name in COMPARED
    },
    **{f"{name}_i": Case(by_name(name), (i64(3, 3, 4), i64(3, 3, 4, seed=1))) for name in COMPARED},
    **{
        name: Case(by_name(name), (boo(3, 4), boo(3, 4, seed=1)))
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    **{name: Case(by_name(name), (i32(9, 3, 4), i32(9, 3, 4, seed=1))) for name in BITS},
    **{f"{name}_b": Case(by_name(name), (boo(3, 4), boo(3, 4, seed=1))) for name in BITS},
    "pow_t": Case(by_name("pow"), (pos(3, 4), B)),
    "broadcast": Case(lambda x, y: x + y, (f32(2, 3, 4), f32(4))),
    "broadcast2": Case(lambda x, y: x * y, (f32(2, 3, 4), f32(3, 1))),
    "add_scalar": Case(lambda x: x + 1.5, (A,)),
    "rsub": Case(lambda x: 1.0 - x, (A,)),
    "rdiv": Case(lambda x: 1.0 / x, (pos(3, 4),)),
    "div_scalar": Case(lambda x: x / 3.0, (A,)),
    "div_int": Case(lambda x, y: x / y, (i64(20, 3, 4), i64(9, 3, 4, lo=1))),
    "mod_f": Case(lambda x, y: paddle.mod(x, y), (f32(3, 4) * 5, f32(3, 4, seed=1) * 2)),
    "mod_i": Case(lambda x, y: paddle.mod(x, y), (i64(20, 3, 4, lo=-20), i64(9, 3, 4, lo=1))),
    "mod_i_neg": Case(lambda x, y: paddle.mod(x, y), (i64(20, 3, 4, lo=-20), -i64(9, 3, 4, lo=1))),
    "floordiv_f": Case(lambda x, y: paddle.floor_divide(x, y), (f32(3, 4) * 5, f32(3, 4, seed=1) * 2)),
    "floordiv_i": Case(lambda x, y: paddle.floor_divide(x, y), (i64(20, 3, 4, lo=-20), i64(9, 3, 4, lo=1))),
    "floordiv_scalar": Case(lambda x: x // 2, (i64(20, 3, 4, lo=-20),)),
    "equal_bool": Case(by_name("equal"), (boo(3, 4), boo(3, 4, seed=1))),
    "equal_scalar": Case(lambda x: x == 1.0, (i64(3, 3, 4).astype(np.float32),)),
    "where": Case(by_name("where"), (boo(3, 4), A, B)),
    "where_scalar": Case(lambda c, x: paddle.where(c, x, paddle.full_like(x, 0.5)), (boo(3, 4), A)),
    "masked_fill": Case(lambda x, m: paddle.masked_fill(x, m, -10000.0), (A, boo(3, 4))),
    "lerp": Case(lambda x, y: paddle.lerp(x, y, 0.3), (A, B)),
    "heaviside": Case(by_name("heaviside"), (A, B)),
    "add_n": Case(lambda x, y: paddle.add_n([x, y, x]), (A, B)),
    "dot": Case(by_name("dot"), (f32(5), f32(5, seed=1))),
    "dot2": Case(by_name("dot"), (f32(3, 5), f32(3, 5, seed=1))),
    "equal_all": Case(by_name("equal_all"), (i64(3, 3, 4), i64(3, 3, 4))),
    "hypot_like": Case(lambda x, y: paddle.sqrt(paddle.square(x) + paddle.square(y)), (A, B)),
    "cosine_similarity": Case(lambda x, y: F.cosine_similarity(x, y, axis=1), (A, B)),
    "floor_mod_scalar": Case(lambda x: x % 3, (i64(20, 3, 4, lo=-20),)),
}

REDUCTIONS = {
    **{f"{name}_all": Case(by_name(name), (THREE,)) for name in REDUCED},
    **{f"{name}_axis": Case(lambda x, n=name: getattr(paddle, n)(x, axis=1), (THREE,)) for name in REDUCED},
    **{
        f"{name}_axes": Case(lambda x, n=name: getattr(paddle, n)(x, axis=[0, 2], keepdim=True), (THREE,))
        for name in REDUCED
    },
    **{f"{name}_keep_all": Case(lambda x, n=name: getattr(paddle, n)(x, keepdim=True), (THREE,)) for name in REDUCED},
    **{
        f"{name}_int": Case(lambda x, n=name: getattr(paddle, n)(x, axis=-1), (i64(5, 2, 3, 4),))
        for name in ("sum", "max", "min", "prod")
    },
    **{f"{name}_all": Case(by_name(name), (boo(2, 3, 4),)) for name in ("any", "all")},
    **{
        f"{name}_axis": Case(lambda x, n=name: getattr(paddle, n)(x, axis=1), (boo(2, 3, 4),))
        for name in ("any", "all")
    },
    **{
        f"{name}_keep": Case(lambda x, n=name: getattr(paddle, n)(x, axis=[1, 2], keepdim=True), (boo(2, 3, 4),))
        for name in ("any", "all")
    },
    "sum_bool": Case(lambda x: paddle.sum(x), (boo(2, 3, 4),)),
    "sum_i32": Case(lambda x: paddle.sum(x, axis=1), (i32(5, 2, 3, 4),)),
    "std": Case(lambda x: paddle.std(x, axis=[1, 2], unbiased=False, keepdim=True), (THREE,)),
    "norm_fro": Case(lambda x: paddle.linalg.norm(x), (THREE,)),
    "norm_2": Case(lambda x: paddle.linalg.norm(x, p=2, axis=1, keepdim=True), (THREE,)),
    "norm_1": Case(lambda x: paddle.linalg.norm(x, p=1, axis=-1), (THREE,)),
    "norm_inf": Case(lambda x: paddle.linalg.norm(x, p=np.inf, axis=-1), (THREE,)),
    "norm_3": Case(lambda x: paddle.linalg.norm(x, p=3, axis=-1), (THREE,)),
    "norm_fro_axes": Case(lambda x: paddle.linalg.norm(x, p="fro", axis=[1, 2]), (THREE,)),
    "numel": Case(lambda x: paddle.numel(x), (THREE,)),
    "argmax": Case(lambda x: paddle.argmax(x, axis=1), (THREE,)),
    "argmax_keep": Case(lambda x: paddle.argmax(x, axis=-1, keepdim=True), (THREE,)),
    "argmax_flat": Case(lambda x: paddle.argmax(x), (THREE,)),
    "argmax_i32": Case(lambda x: paddle.argmax(x, axis=-1, dtype="int32"), (THREE,)),
    "argmin": Case(lambda x: paddle.argmin(x, axis=1), (THREE,)),
    "topk": Case(lambda x: paddle.topk(x, 2, axis=-1), (THREE,)),
    "topk_axis_small": Case(lambda x: paddle.topk(x, 2, axis=1, largest=False), (THREE,)),
    "topk_tensor": Case(lambda x, k: paddle.topk(x, k, axis=-1), (THREE, np.array([2], np.int64))),
    "argsort": Case(lambda x: paddle.argsort(x, axis=-1), (THREE,)),
    "argsort_desc": Case(lambda x: paddle.argsort(x, axis=1, descending=True), (THREE,)),
    "sort": Case(lambda x: paddle.sort(x, axis=-1), (THREE,)),
    "cumsum": Case(lambda x: paddle.cumsum(x, axis=1), (THREE,)),
    "cumsum_flat": Case(lambda x: paddle.cumsum(x), (THREE,)),
    "cumsum_i": Case(lambda x: paddle.cumsum(x, axis=1), (i64(5, 2, 3, 4),)),
    "kthvalue": Case(lambda x: paddle.kthvalue(x, 2, axis=-1), (THREE,)),
    "max_indices": Case(lambda x: paddle.max(x, axis=-1), (THREE,)),
}

SHAPES = {
    "reshape": Case(lambda x: x.reshape([2, -1, 5]), (FOUR,)),
    "reshape0": Case(lambda x: x.reshape([0, 0, -1]), (FOUR,), [[None, 3, 4, 5]]),
    "reshape_dyn": Case(lambda x: paddle.reshape(x, [paddle.shape(x)[0], -1, 5]), (FOUR,), [[None, 3, 4, 5]]),
    "flatten": Case(lambda x: paddle.flatten(x, 1), (FOUR,)),
    "flatten_mid": Case(lambda x: paddle.flatten(x, 1, 2), (FOUR,), [[None, 3, 4, 5]]),
    "flatten_mid_dyn": Case(lambda x: paddle.flatten(x, 1, 2), (FOUR,), [[None, 3, None, None]]),
    "flatten_all": Case(lambda x: paddle.flatten(x), (FOUR,)),
    "flatten_0": Case(lambda x: paddle.flatten(x, 0, 1), (FOUR,), [[None, 3, None, 5]]),
    "squeeze": Case(lambda x: paddle.squeeze(x, [1]), (f32(2, 1, 3, 1),)),
    "squeeze_all": Case(lambda x: paddle.squeeze(x), (f32(2, 1, 3, 1),)),
    "squeeze_not1": Case(lambda x: paddle.squeeze(x, [0, 1]), (f32(2, 1, 3, 1),)),
    "unsqueeze": Case(lambda x: paddle.unsqueeze(x, [0, 2]), (f32(2, 3),)),
    "unsqueeze_neg": Case(lambda x: paddle.unsqueeze(x, -1), (f32(2, 3),)),
    "transpose": Case(lambda x: paddle.transpose(x, [0, 2, 3, 1]), (FOUR,)),
    "t": Case(lambda x: x.t(), (f32(2, 3),)),
    "swapaxes": Case(lambda x: paddle.swapaxes(x, 1, 2), (FOUR,)),
    "moveaxis": Case(lambda x: paddle.moveaxis(x, 1, -1), (FOUR,)),
    "concat": Case(lambda x, y: paddle.concat([x, y, x], axis=1), (f32(2, 3), f32(2, 4))),
    "concat_neg": Case(lambda x, y: paddle.concat([x, y], axis=-1), (f32(2, 3), f32(2, 4))),
    "stack": Case(lambda x, y: paddle.stack([x, y], axis=1), (f32(2, 3), f32(2, 3, seed=1))),
    "stack_neg": Case(lambda x, y: paddle.stack([x, y], axis=-1), (f32(2, 3), f32(2, 3, seed=1))),
    "split": Case(lambda x: paddle.split(x, 2, axis=2), (FOUR,)),
    "split_sections": Case(lambda x: paddle.split(x, [1, -1], axis=2), (FOUR,)),
    "split_neg": Case(lambda x: paddle.split(x, [1, 4], axis=-1)[1], (FOUR,)),
    "chunk": Case(lambda x: paddle.chunk(x, 3, axis=1), (FOUR,)),
    "unbind": Case(lambda x: paddle.unbind(x, axis=1), (FOUR,)),
    "unstack": Case(lambda x: paddle.unstack(x, axis=0), (FOUR,)),
    "slice": Case(lambda x: x[:, 1:3, :, -2:], (FOUR,)),
    "slice_dec": Case(lambda x: x[:, 0], (FOUR,)),
    "slice_all": Case(lambda x: x[0, 1, 2, 3], (FOUR,)),
    "slice_neg": Case(lambda x: x[-1, ..., -2], (FOUR,)),
    "slice_tensor": Case(
        lambda x, i: x[:, i : i + 2] if False else paddle.slice(x, [1], [i], [i + 2]), (FOUR, np.array([1], np.int64))
    ),
    "strided": Case(lambda x: x[:, ::2, 1:4:2], (FOUR,)),
    "strided_neg": Case(lambda x: x[:, :, ::-1], (FOUR,)),
    "strided_neg2": Case(lambda x: x[:, :, :, 4:0:-2], (FOUR,)),
    "newaxis": Case(lambda x: x[:, None, :, 0], (FOUR,)),
    "expand": Case(lambda x: paddle.expand(x, [2, 3, 4]), (f32(3, 1),)),
    "expand_m1": Case(lambda x: paddle.expand(x, [2, -1, 4]), (f32(3, 1),)),
    "expand_dyn": Case(
        lambda x, y: paddle.expand(x, [paddle.shape(y)[0], 3, 4]), (f32(1, 3, 1), f32(5, 2)), [None, [None, 2]]
    ),
    "expand_as": Case(lambda x, y: paddle.expand_as(x, y), (f32(3, 1), f32(2, 3, 4))),
    "broadcast_to": Case(lambda x: paddle.broadcast_to(x, [2, 3, 4]), (f32(3, 1),)),
    "tile": Case(lambda x: paddle.tile(x, [2, 1, 3]), (f32(3, 2),)),
    "tile_short": Case(lambda x: paddle.tile(x, [3]), (f32(3, 2),)),
    "tile_number": Case(lambda x, y: paddle.tile(x, [paddle.shape(y)[0]]), (f32(), f32(5, 2)), [None, [None, 2]]),
    "tile_dyn": Case(lambda x, y: paddle.tile(x, [paddle.shape(y)[0], 1]), (f32(1, 3), f32(5, 2)), [None, [None, 2]]),
    "flip": Case(lambda x: paddle.flip(x, [1, -1]), (FOUR,)),
    "roll": Case(lambda x: paddle.roll(x, [1, -2], [1, 3]), (FOUR,)),
    "roll_open": Case(lambda x: paddle.roll(x, [4, -17], [2, 3]), (FOUR,), ((None,) * 4,)),
    "roll_flat": Case(lambda x: paddle.roll(x, 3), (FOUR,)),
    "rot90": Case(lambda x: paddle.rot90(x, 1, [2, 3]), (FOUR,)),
    "tril": Case(lambda x: paddle.tril(x, 1), (f32(4, 5),)),
    "triu": Case(lambda x: paddle.triu(x, -1), (f32(4, 5),)),
    "shape": Case(lambda x: paddle.shape(x), (FOUR,), [[None, 3, None, 5]]),
    "arange": Case(lambda x: x + paddle.arange(0, 8, 2, dtype="float32"), (f32(3, 4),)),
    "arange_dyn": Case(lambda x: paddle.arange(paddle.shape(x)[1]), (f32(3, 4),), [[None, None]]),
    "arange_f": Case(lambda x: x + paddle.arange(0.5, 2.5, 0.5), (f32(3, 4),)),
    "linspace": Case(lambda x: x + paddle.linspace(0, 1, 4), (f32(3, 4),)),
    "meshgrid": Case(lambda x, y: paddle.meshgrid(x, y), (f32(3), f32(4))),
    "full_like": Case(lambda x: paddle.full_like(x, 2.5) + x, (FOUR,)),
    "ones_like": Case(lambda x: paddle.ones_like(x) + x, (FOUR,)),
    "zeros_like_i": Case(lambda x: paddle.zeros_like(x, dtype="int64"), (FOUR,)),
    "full_dyn": Case(lambda x: paddle.full([paddle.shape(x)[0], 3], 1.5), (FOUR,), [[None, 3, 4, 5]]),
    "zeros_dyn": Case(lambda x: paddle.zeros([paddle.shape(x)[0], 3]), (FOUR,), [[None, 3, 4, 5]]),
    "eye": Case(lambda x: x + paddle.eye(4), (f32(4, 4),)),
    "one_hot": Case(lambda x: F.one_hot(x, 5), (i64(5, 3),)),
    "pad_const": Case(lambda x: F.pad(x, [1, 2, 0, 3], value=0.5), (FOUR,)),
    "pad_reflect": Case(lambda x: F.pad(x, [1, 2, 0, 3], mode="reflect"), (FOUR,)),
    "pad_rep": Case(lambda x: F.pad(x, [1, 2, 0, 3], mode="replicate"), (FOUR,)),
    "pad_circ": Case(lambda x: F.pad(x, [1, 2, 0, 3], mode="circular"), (FOUR,)),
    "pad_nd": Case(lambda x: F.pad(x, [0, 0, 1, 1, 2, 0, 0, 3], value=1.0), (FOUR,)),
    "pad_1d": Case(lambda x: F.pad(x, [1, 2], data_format="NCL"), (f32(2, 3, 4),)),
    "pad_3d": Case(lambda x: F.pad(x, [1, 2, 0, 1, 2, 0], data_format="NCDHW"), (f32(1, 2, 3, 4, 5),)),
    "pad_nhwc": Case(lambda x: F.pad(x, [1, 2, 0, 1], data_format="NHWC"), (FOUR,)),
    "zeropad2d": Case(lambda x: F.zeropad2d(x, [1, 2, 0, 1]), (FOUR,)),
    "pixel_shuffle": Case(lambda x: F.pixel_shuffle(x, 2), (f32(2, 8, 3, 3),)),
    "pixel_unshuffle": Case(lambda x: F.pixel_unshuffle(x, 2), (f32(2, 3, 4, 6),)),
    "channel_shuffle": Case(lambda x: F.channel_shuffle(x, 2), (f32(2, 8, 3, 3),)),
    "max_unpool": Case(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, 2, return_mask=True), 2, 2), (f32(2, 3, 6, 4),)),
    "fold": Case(lambda x: F.fold(x, [6, 5], [3, 2], 1, 1, 1), (f32(2, 18, 36),)),
    "diag": Case(lambda x: x + paddle.diag(x[0]), (f32(4, 4),)),
    "diag_above": Case(lambda x: paddle.diag(x, 2), (f32(4),)),
    "diag_below": Case(lambda x: paddle.diag(x, -1, 3.0), (f32(4),)),
    "diag_of": Case(lambda x: paddle.diag(x, 1), (f32(4, 5),)),
    "unfold": Case(lambda x: F.unfold(x, [3, 3], 1, 1, 1), (f32(2, 3, 6, 6),)),
    "repeat_interleave": Case(lambda x: paddle.repeat_interleave(x, 2, axis=1), (FOUR,)),
    "crop": Case(lambda x: paddle.crop(x, [1, 2, 2, 3], [0, 1, 1, 1]), (FOUR,)),
    "broadcast_tensors": Case(lambda x, y: paddle.broadcast_tensors([x, y]), (f32(3, 1), f32(2, 1, 4))),
    "temporal_shift": Case(lambda x: F.temporal_shift(x, 2, 0.25), (f32(4, 4, 3, 3),)),
    "setitem": Case(lambda x: _setitem(x), (f32(3, 4),)),
    "setitem_t": Case(lambda x, v: _setitem_t(x, v), (f32(3, 4), f32(2, 2))),
    "setitem_mask": Case(lambda x: _setitem_mask(x), (f32(3, 4),)),
    "setitem_step": Case(lambda x: _setitem_step(x), (f32(6, 4),)),
}

PICKED = {
    "gather": Case(lambda x, i: paddle.gather(x, i), (TABLE, i64(5, 3))),
    "gather_axis": Case(lambda x, i: paddle.gather(x, i, axis=1), (TABLE, i64(4, 3))),
    "gather_i32": Case(lambda x, i: paddle.gather(x, i), (TABLE, i32(5, 3))),
    "gather_0d": Case(lambda x, i: paddle.gather(x, i), (TABLE, np.array(2, np.int64))),
    "gather_neg": Case(lambda x, i: paddle.gather(x, i, axis=-1), (TABLE, i64(4, 3))),
    "gather_nd": Case(lambda x, i: paddle.gather_nd(x, i), (TABLE, i64(4, 3, 2))),
    "gather_nd1": Case(lambda x, i: paddle.gather_nd(x, i), (TABLE, i64(4, 3, 1))),
    "index_select": Case(lambda x, i: paddle.index_select(x, i, axis=1), (TABLE, i64(4, 3))),
    "index_sample": Case(lambda x, i: paddle.index_sample(x, i), (TABLE, i64(4, 5, 2))),
    "take_along_axis": Case(lambda x, i: paddle.take_along_axis(x, i, 1), (TABLE, i64(4, 5, 2))),
    "put_along_axis": Case(
        lambda x, i: paddle.put_along_axis(x, i, 1.5, 1), (TABLE, np.array([[0], [1], [2], [3], [0]]))
    ),
    "put_along_axis_add": Case(
        lambda x, i, v: paddle.put_along_axis(x, i, v, 1, reduce="add"),
        (TABLE, np.array([[0], [1], [2], [3], [0]]), f32(5, 1)),
    ),
    "scatter": Case(lambda x, i, u: paddle.scatter(x, i, u), (TABLE, np.array([3, 1], np.int64), f32(2, 4, seed=5))),
    "scatter_add": Case(
        lambda x, i, u: paddle.scatter(x, i, u, overwrite=False), (TABLE, np.array([3, 1], np.int64), f32(2, 4, seed=5))
    ),
    "scatter_nd_add": Case(
        lambda x, i, u: paddle.scatter_nd_add(x, i, u), (TABLE, np.array([[3], [1]], np.int64), f32(2, 4, seed=5))
    ),
    "scatter_nd": Case(
        lambda i, u: paddle.scatter_nd(i, u, [5, 4]), (np.array([[3], [1]], np.int64), f32(2, 4, seed=5))
    ),
    "nonzero": Case(lambda x: paddle.nonzero(x > 0), (TABLE,)),
    "masked_select": Case(lambda x, m: paddle.masked_select(x, m), (TABLE, boo(5, 4))),
    "bool_index": Case(lambda x: x[x > 0], (TABLE,)),
    "bool_index_rows": Case(lambda x: x[x[:, 0] > 0], (TABLE,)),
    "int_index": Case(lambda x, i: x[i], (TABLE, i64(5, 3))),
    "int_index2": Case(lambda x, i, j: x[i, j], (TABLE, i64(5, 3), i64(4, 3))),
    "int_index_mid": Case(lambda x, i: x[:, i], (TABLE, i64(4, 3))),
    "index_add": Case(lambda x, i, v: paddle.index_add(x, i, 0, v), (TABLE, np.array([3, 1]), f32(2, 4, seed=5))),
    "index_put": Case(lambda x, i, v: paddle.index_put(x, (i,), v), (TABLE, np.array([3, 1]), f32(2, 4, seed=5))),
    "embedding": Case(lambda i: F.embedding(i, paddle.to_tensor(f32(7, 4))), (i64(7, 2, 3),)),
    "embedding_pad": Case(lambda i: F.embedding(i, paddle.to_tensor(f32(7, 4)), padding_idx=2), (i64(7, 2, 3),)),
    "embedding_i32": Case(lambda i: F.embedding(i, paddle.to_tensor(f32(7, 4))), (i32(7, 2, 3),)),
    "sequence_mask": Case(lambda x: F.sequence_mask(x, maxlen=5, dtype="float32"), (i64(5, 3, lo=1),)),
    "where_idx": Case(lambda x: paddle.where(x > 0), (TABLE,)),
    "increment": Case(lambda x: paddle.increment(x, 2.0), (np.array([1.5], np.float32),)),
    "isin_like": Case(lambda x: paddle.isin(x, paddle.to_tensor([1, 2])), (i64(5, 3, 4),)),
    "tril_mask": Case(
        lambda x: paddle.where(paddle.tril(paddle.ones([4, 4], dtype="bool")), x, paddle.full_like(x, -1000000000.0)),
        (f32(4, 4),),
    ),
    "allgather_like_stack0": Case(lambda x: paddle.stack([x[i] for i in range(3)], axis=0), (TABLE,)),
}

PRODUCTS = {
    "matmul": Case(lambda x, y: paddle.matmul(x, y), (f32(2, 3, 4), f32(4, 5))),
    "matmul_t": Case(lambda x, y: paddle.matmul(x, y, transpose_y=True), (f32(2, 3, 4), f32(2, 5, 4))),
    "matmul_tx": Case(lambda x, y: paddle.matmul(x, y, transpose_x=True), (f32(4, 3), f32(4, 5))),
    "matmul_vec": Case(lambda x, y: paddle.matmul(x, y), (f32(3, 4), f32(4))),
    "matmul_vecvec": Case(lambda x, y: paddle.matmul(x, y), (f32(4), f32(4))),
    "matmul_vecmat": Case(lambda x, y: paddle.matmul(x, y, transpose_y=True), (f32(4), f32(3, 4))),
    "matmul_1d_t": Case(lambda x, y: paddle.matmul(x, y, transpose_x=True), (f32(4), f32(4, 3))),
    "bmm": Case(by_name("bmm"), (f32(2, 3, 4), f32(2, 4, 5))),
    "mv": Case(by_name("mv"), (f32(3, 4), f32(4))),
    "addmm": Case(lambda i, x, y: paddle.addmm(i, x, y, 0.5, 2.0), (f32(3, 5), f32(3, 4), f32(4, 5))),
    "outer": Case(by_name("outer"), (f32(3), f32(4))),
    "inner": Case(by_name("inner"), (f32(2, 3), f32(4, 3))),
    "einsum": Case(lambda x, y: paddle.einsum("bij,bjk->bik", x, y), (f32(2, 3, 4), f32(2, 4, 5))),
    "einsum2": Case(lambda x, y: paddle.einsum("bhqd,bhkd->bhqk", x, y), (f32(2, 2, 3, 4), f32(2, 2, 5, 4))),
    "baddbmm": Case(lambda i, x, y: paddle.baddbmm(i, x, y), (f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5))),
    "linear": Case(lambda x: F.linear(x, paddle.to_tensor(f32(4, 5)), paddle.to_tensor(f32(5))), (f32(2, 3, 4),)),
    "tensordot": Case(lambda x, y: paddle.tensordot(x, y, 1), (f32(2, 3, 4), f32(4, 5))),
    "multi_dot": Case(lambda a, b, c: paddle.linalg.multi_dot([a, b, c]), (f32(2, 3), f32(3, 4), f32(4, 5))),
    "sdpa": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        (f32(2, 5, 2, 4), f32(2, 5, 2, 4, seed=1), f32(2, 5, 2, 4, seed=2)),
    ),
    "sdpa_causal": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (f32(2, 5, 2, 4), f32(2, 5, 2, 4, seed=1), f32(2, 5, 2, 4, seed=2)),
    ),
    "cdist": Case(lambda x, y: paddle.cdist(x, y), (f32(3, 4), f32(5, 4, seed=1))),
}

RESIZED = {
    **{
        f"{mode}_{kind}{'_al' if aligned else ''}": Case(
            lambda x, mode=mode, aligned=aligned, how=how: F.interpolate(x, mode=mode, align_corners=aligned, **how),
            (value,),
        )
        for mode in ("nearest", "bilinear", "bicubic")
        for aligned in ((False, True) if mode != "nearest" else (False,))
        for kind, how, value in (
            ("scale", {"scale_factor": 2.0}, f32(1, 2, 5, 6)),
            ("size", {"size": [7, 9]}, f32(1, 2, 5, 6)),
            ("down", {"size": [3, 4]}, f32(1, 2, 8, 11)),
        )
    },
    **{
        f"grid_{mode}_{padding}": Case(
            lambda x, g, m=mode, p=padding: F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=True),
            (f32(1, 2, 5, 6), f32(1, 4, 4, 2)),
        )
        for mode in ("bilinear", "nearest")
        for padding in ("zeros", "border", "reflection")
    },
    "bilinear_mode1": Case(lambda x: F.interpolate(x, size=[7, 9], mode="bilinear", align_mode=1), (f32(1, 2, 5, 6),)),
    "bilinear_scale_mode1": Case(
        lambda x: F.interpolate(x, scale_factor=[2, 3], mode="bilinear", align_mode=1), (f32(1, 2, 5, 6),)
    ),
    "nearest_ratio": Case(lambda x: F.interpolate(x, size=(8, 74), mode="nearest"), (f32(1, 2, 14, 12),)),
    "nearest_frac": Case(lambda x: F.interpolate(x, scale_factor=1.5, mode="nearest"), (f32(1, 2, 5, 6),)),
    "bilinear_frac": Case(lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (f32(1, 2, 5, 6),)),
    "bilinear_half": Case(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), (f32(1, 2, 7, 6),)),
    "nearest_shape": Case(
        lambda x, y: F.interpolate(x, size=paddle.shape(y)[2:], mode="nearest"),
        (f32(1, 2, 5, 6), f32(1, 3, 10, 12)),
        [[None, 2, None, None], [None, 3, None, None]],
    ),
    "bilinear_shape": Case(
        lambda x, y: F.interpolate(x, size=paddle.shape(y)[2:], mode="bilinear"),
        (f32(1, 2, 5, 6), f32(1, 3, 10, 12)),
        [[None, 2, None, None], [None, 3, None, None]],
    ),
    "nearest_dyn": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (f32(1, 2, 5, 6),), [[None, 2, None, None]]
    ),
    "bilinear_dynsize": Case(
        lambda x: F.interpolate(x, size=[8, 8], mode="bilinear"), (f32(1, 2, 5, 6),), [[None, 2, None, None]]
    ),
    "nearest_list": Case(
        lambda x: F.interpolate(x, size=[paddle.shape(x)[2] * 2, paddle.shape(x)[3] * 2], mode="nearest"),
        (f32(1, 2, 5, 6),),
        [[None, 2, None, None]],
    ),
    "linear_1d": Case(lambda x: F.interpolate(x, scale_factor=2, mode="linear", data_format="NCW"), (f32(1, 2, 5),)),
    "trilinear": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear", data_format="NCDHW"), (f32(1, 2, 3, 4, 5),)
    ),
    "nearest_3d": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest", data_format="NCDHW"), (f32(1, 2, 3, 4, 5),)
    ),
    "upsample_nhwc": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest", data_format="NHWC"), (f32(1, 5, 6, 2),)
    ),
    "area": Case(lambda x: F.interpolate(x, size=[4, 3], mode="area"), (f32(1, 2, 8, 6),)),
    "grid_noalign": Case(lambda x, g: F.grid_sample(x, g, align_corners=False), (f32(1, 2, 5, 6), f32(1, 4, 4, 2))),
    "affine_grid": Case(lambda t: F.affine_grid(t, [1, 2, 4, 5], align_corners=True), (f32(1, 2, 3),)),
    "affine_grid_f": Case(lambda t: F.affine_grid(t, [1, 2, 4, 5], align_corners=False), (f32(1, 2, 3),)),
}

OPERATORS = {**UNARY, **BINARY, **REDUCTIONS, **SHAPES, **PICKED, **PRODUCTS, **RESIZED}
