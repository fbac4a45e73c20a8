"""One small ONNX model per operator and attribute variant that a ``.ms`` file can hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from onnx import helper

from tests.runtimes.ms_case import IMAGE, Case, build, case, const, ints, values, whole
from tests.runtimes.ms_cases_forms import biases, clamps, crops, numbers, pictures, powers, slices, whole_numbers
from tests.runtimes.ms_cases_sharing import sharing
from tests.runtimes.ms_cases_tensors import constant_results, gathers, labels, many_axes, scatters, shapes
from tests.support import is_since


def convolutions() -> Iterator[Case]:
    x = values()
    plain = {"kernel_shape": [3, 3]}
    for name, shape, attributes in (
        ("3x3", (5, 4, 3, 3), {}),
        ("1x1", (5, 4, 1, 1), {}),
        ("pads", (5, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("uneven_pads", (5, 4, 3, 3), {"pads": [0, 1, 2, 3]}),
        ("strides", (5, 4, 3, 3), {"strides": [2, 2]}),
        ("uneven_strides_and_pads", (5, 4, 3, 3), {"strides": [2, 1], "pads": [0, 1, 2, 3]}),
        ("uneven_strides", (5, 4, 3, 3), {"strides": [1, 2]}),
        ("dilations", (5, 4, 3, 3), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        ("same_upper", (5, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ("same_lower", (5, 4, 2, 2), {"auto_pad": "SAME_LOWER"}),
        ("valid", (5, 4, 3, 3), {"auto_pad": "VALID"}),
        ("grouped", (6, 2, 3, 3), {"group": 2}),
        ("depthwise", (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        ("depthwise_multiplier", (8, 1, 3, 3), {"group": 4}),
        ("depthwise_stride", (4, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
        ("flat_kernel", (5, 4, 1, 3), {}),
    ):
        yield case(f"conv_{name}", "Conv", x, const(shape), const(shape[:1], 2), **attributes)
    for kernel, dilation, stride in ((7, 1, 1), (7, 2, 1), (7, 2, 2), (7, 2, 3), (3, 4, 1)):
        around = {"kernel_shape": [kernel] * 2, "dilations": [dilation] * 2, "strides": [stride] * 2}
        around |= {"pads": [(kernel - 1) * dilation // 2] * 4, "group": 14}
        name = f"conv_depthwise_{kernel}_{dilation}_{stride}_of_two_rows"
        yield case(name, "Conv", values((1, 14, 2, 9)), const((14, 1, kernel, kernel)), const((14,), 2), **around)
    yield case("conv_without_bias", "Conv", x, const((5, 4, 3, 3)), **plain)
    yield case("conv_variable_bias", "Conv", x, const((5, 4, 3, 3)), values((5,), 2), **plain)
    single = values((1, 4, 9, 8))
    for name, filters, attributes in (
        ("correlation", (4, 1, 4, 3), {"group": 4}),
        ("groups", (6, 2, 3, 2), {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1]}),
        ("pixels", (5, 4, 1, 1), {}),
    ):
        yield case(f"conv_computed_filters_{name}", "Conv", single, values(filters, 2), **attributes)
    yield case("conv_1d_computed_filters", "Conv", values((1, 4, 9)), values((5, 4, 3), 2), const((5,), 2))
    yield case("conv_1d_variable_bias", "Conv", values((2, 4, 9)), const((5, 4, 3)), values((5,), 2))
    yield case("deconv_variable_bias", "ConvTranspose", x, const((4, 5, 3, 3)), values((5,), 2), **plain)
    for name, shape, pads, dilation in (
        ("point", (5, 4, 1, 1), 1, 1),
        ("wide", (5, 4, 3, 3), 3, 1),
        ("apart", (5, 4, 2, 2), 1, 2),
    ):
        around = {"pads": [pads] * 4, "dilations": [dilation] * 2}  # windows that hold nothing but padding
        yield case(f"conv_outside_{name}", "Conv", values((1, 4, 1, 3)), const(shape), const((5,), 2), **around)
    yield case("conv_1d", "Conv", values((2, 4, 9)), const((5, 4, 3)), const((5,), 2), pads=[1, 1], strides=[2])
    yield case("conv_1d_depthwise", "Conv", values((1, 4, 9)), const((4, 1, 3)), group=4, dilations=[2])
    yield case("conv_batch", "Conv", values((3, 4, 5, 5)), const((2, 4, 3, 3)))
    for name, shape, attributes in (
        ("plain", (4, 5, 3, 3), {}),
        ("strides", (4, 5, 3, 3), {"strides": [2, 2]}),
        ("pads", (4, 5, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("output_padding", (4, 5, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ("depthwise", (4, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
        ("dilations", (4, 5, 3, 3), {"dilations": [2, 2]}),
        ("dilated_depthwise", (4, 1, 3, 3), {"group": 4, "dilations": [5, 1], "pads": [8, 1, 8, 1]}),
        ("same_upper", (4, 5, 4, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ("output_shape", (4, 5, 4, 4), {"strides": [2, 2], "output_shape": [14, 12]}),
    ):
        yield case(
            f"deconv_{name}", "ConvTranspose", x, const(shape), const((4 if "dep" in name else 5,), 2), **attributes
        )
    for name, shape, groups in (("grouped", (4, 3, 3, 3), 2), ("one_output_per_group", (4, 1, 3, 3), 2)):
        bias, strides = const((shape[1] * groups,), 2), {"strides": [2, 1], "pads": [1, 0, 1, 1]}
        yield case(f"deconv_{name}", "ConvTranspose", x, const(shape), bias, group=groups, **strides)
    yield case("deconv_grouped_1d", "ConvTranspose", values((2, 4, 6)), const((4, 3, 3)), group=2, strides=[2])
    yield case("deconv_1d", "ConvTranspose", values((1, 4, 6)), const((4, 3, 3)), strides=[2])


def products() -> Iterator[Case]:
    x = values((3, 8))
    for name, attributes, w in (
        ("plain", {}, (8, 5)),
        ("trans_b", {"transB": 1}, (5, 8)),
        ("alpha_beta", {"alpha": 0.5, "beta": 2.0}, (8, 5)),
    ):
        yield case(f"gemm_{name}", "Gemm", x, const(w), const((5,), 2), **attributes)
    yield case("gemm_trans_a", "Gemm", values((8, 3)), const((8, 5)), const((5,), 2), transA=1)
    yield case("gemm_without_bias", "Gemm", x, const((8, 5)))
    yield case("gemm_scalar_bias", "Gemm", x, const((8, 5)), const((1,), 2))
    yield case("gemm_matrix_bias", "Gemm", x, const((8, 5)), const((3, 5), 2))
    yield case("gemm_variable", "Gemm", x, values((8, 5), 1), values((5,), 2))
    yield case("matmul_constant", "MatMul", x, const((8, 5)))
    yield case("matmul_variable", "MatMul", x, values((8, 5), 1))
    yield case("matmul_3d", "MatMul", values((2, 3, 8)), const((8, 5)))
    yield case("matmul_5d", "MatMul", values((1, 2, 2, 3, 8)), const((8, 5)))
    yield case("matmul_batched", "MatMul", values((2, 3, 4, 8)), values((2, 3, 8, 5), 1))
    yield case("matmul_constant_batch", "MatMul", values((2, 4, 8)), const((2, 8, 5)))
    yield case("matmul_constant_left", "MatMul", const((4, 8)), values((8, 5)))
    yield case("einsum_heads", "Einsum", values((1, 3, 4, 5)), values((1, 6, 3, 5), 1), equation="bhqd,bkhd->bhqk")
    yield case("einsum_maps", "Einsum", values((2, 3, 4, 5)), values((2, 6, 4, 5), 1), equation="bchw,bdhw->bcd")
    yield case("einsum_constant", "Einsum", values((2, 3, 8)), const((8, 2, 5)), equation="btd,dhk->bhtk")
    heads = (values((2, 3, 4, 5)), values((2, 5, 3, 2), 1), const((3, 2, 6)))
    yield case("einsum_of_three", "Einsum", *heads, equation="bhij,bjhd,hdm->bim")
    yield case("matmul_vector", "MatMul", values((3, 8)), values((8,), 1))
    yield case("matmul_vector_left", "MatMul", values((8,)), const((8, 5)))
    yield case("matmul_vector_by_stack", "MatMul", values((8,)), values((3, 8, 5), 1))
    yield case("matmul_of_vectors", "MatMul", values((8,)), values((8,), 1))
    yield case("matmul_broadcast", "MatMul", values((2, 1, 4, 8)), values((2, 3, 8, 5), 1))


def volumes() -> Iterator[Case]:
    x = values((2, 4, 6, 5, 7))
    yield case("conv_3d", "Conv", x, const((6, 4, 3, 2, 3)), const((6,)), pads=[1, 0, 1, 1, 0, 1])
    yield case("conv_3d_groups", "Conv", x, const((6, 2, 3, 2, 3)), group=2, strides=[2, 1, 2], dilations=[2, 1, 1])
    yield case("deconv_3d", "ConvTranspose", x, const((4, 6, 3, 2, 3)), const((6,)), strides=[2, 2, 2])
    padded = {"strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1], "output_padding": [1, 0, 0]}
    yield case("deconv_3d_padded", "ConvTranspose", x, const((4, 6, 3, 2, 3)), **padded)


def pools() -> Iterator[Case]:
    x = values()
    for op, short in (("MaxPool", "max"), ("AveragePool", "avg")):
        yield case(f"{short}_pool", op, x, kernel_shape=[2, 2])
        yield case(f"{short}_pool_strides", op, x, kernel_shape=[3, 3], strides=[2, 2])
        yield case(f"{short}_pool_pads", op, x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        yield case(f"{short}_pool_uneven", op, x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1])
        yield case(f"{short}_pool_ceil", op, x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        yield case(f"{short}_pool_same", op, x, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        yield case(f"{short}_pool_1d", op, values((1, 4, 9)), kernel_shape=[3], strides=[2])
    yield case("avg_pool_include", "AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    yield case(
        "max_pool_dilated", "MaxPool", x, kernel_shape=[2, 3], dilations=[3, 2], strides=[1, 2], pads=[0, 2, 1, 1]
    )
    beyond = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    if is_since("onnxruntime", 1, 25):  # 1.19 counts what lies behind the padding, too
        yield case("avg_pool_include_ceil", "AveragePool", values((2, 4, 8, 9)), pads=[1, 1, 1, 1], **beyond)
        yield case("avg_pool_include_ceil_uneven", "AveragePool", values((2, 4, 7, 8)), pads=[0, 1, 1, 0], **beyond)
    yield case("global_average", "GlobalAveragePool", x)
    yield case("global_max", "GlobalMaxPool", x)
    yield case("global_average_3d", "GlobalAveragePool", values((1, 4, 9)))


def activations() -> Iterator[Case]:
    x = values(low=-8.0, high=8.0)
    yield case("tanh", "Tanh", x, tolerance=2e-4)
    for op in ("Relu", "Sigmoid", "Softplus", "HardSwish", "HardSigmoid", "Elu", "LeakyRelu"):
        yield case(op.lower(), op, x)
    for op in ("Selu", "Softsign", "ThresholdedRelu"):
        yield case(op.lower(), op, x)
    yield case("softplus_of_large_numbers", "Softplus", np.array([-200.0, 0.0, 87.5, 88.5, 130.0], np.float32))
    yield case("mish", "Mish", x, opset=18, tolerance=2e-4)
    yield case("gelu", "Gelu", x, opset=20, tolerance=1e-4)
    yield case("gelu_tanh", "Gelu", x, opset=20, approximate="tanh", tolerance=1e-3)
    yield case("elu_alpha", "Elu", x, alpha=0.3)
    yield case("leaky_alpha", "LeakyRelu", x, alpha=0.3)
    yield case("hard_sigmoid_sixth", "HardSigmoid", x, alpha=1 / 6)
    yield case("selu_own", "Selu", x, alpha=1.2, gamma=2.0)
    yield case("celu", "Celu", x, alpha=0.4)
    yield case("log_sum_exp", "ReduceLogSumExp", values((2, 3, 4)), (np.array([1, -1]),), opset=18, keepdims=0)
    yield case("log_sum_exp_17", "ReduceLogSumExp", values((2, 3, 4)), axes=[1, -1], keepdims=0)
    yield case("relu6", "Clip", x, (np.float32(0),), (np.float32(6),))
    yield case("clip", "Clip", x, (np.float32(-1.5),), (np.float32(2.5),))
    yield case("clip_low", "Clip", x, (np.float32(-1.5),))
    yield case("clip_high", "Clip", x, None, (np.float32(2.5),))
    ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.3, 7.7, 8388609.0], np.float32)
    yield case("round_ties", "Round", ties)
    yield case("pow_whole_exponents", "Pow", values((3, 4), low=0.5), whole((3, 4), 4))
    yield case("pow_exponent_per_column", "Pow", values((2, 3, 4), low=0.5), values((4,), 1))
    yield case("pow_base_of_lower_rank", "Pow", values((4,), low=0.5), values((3, 4), 1))
    yield case("clip_variable", "Clip", x, np.float32(-1.0), np.float32(1.0))
    yield case("prelu_channels", "PRelu", x, const((4, 1, 1)))
    yield case("prelu_one", "PRelu", x, const((1,)))
    yield case("prelu_matrix", "PRelu", values((3, 5)), const((5,)))


def followed() -> Iterator[Case]:
    """An operator and the activation behind it, which the file may give to the operator."""
    x, limits = values((2, 4, 7, 6), low=-9.0, high=9.0), {"low": np.float32(0), "six": np.float32(6)}
    for op, shape in itertools.product(("Add", "Sub", "Mul", "Div"), ((2, 4, 7, 6), (4, 1, 1))):
        other = {"o": values(shape, 1, low=0.5)}
        feed = {"x": x} if len(shape) < 4 else {"x": x, **other}
        constants = {**limits, **other} if len(shape) < 4 else limits
        for behind, bounds in (("Relu", []), ("Clip", ["low", "six"])):
            nodes = [
                helper.make_node(op, ["x", "o"], ["m"], name="first"),
                helper.make_node(behind, ["m", *bounds], ["y0"], name="second"),
            ]
            model = build(nodes, feed, {name: np.asarray(array) for name, array in constants.items()})
            yield Case(f"{op.lower()}_{len(shape)}_{behind.lower()}", model, feed)


def arithmetic() -> Iterator[Case]:
    x, y = values(), values(seed=1)
    for op in ("Add", "Sub", "Mul", "Div"):
        yield case(f"{op.lower()}_equal", op, x, values(seed=1, low=0.5))
        yield case(f"{op.lower()}_channel", op, x, const((4, 1, 1), low=0.5))
        yield case(f"{op.lower()}_scalar", op, x, (np.float32(1.5),))
        yield case(f"{op.lower()}_constant_left", op, const(IMAGE, low=0.5), values(low=0.5))
        yield case(f"{op.lower()}_lower_rank", op, x, values((7, 6), 1, low=0.5))
        yield case(f"{op.lower()}_int", op, whole((3, 4), 9), whole((3, 4), 5) + 1)
    yield case("add_broadcast_both", "Add", values((1, 4, 1, 6)), values((1, 1, 7, 1), 1))
    for op in ("Max", "Min", "Sum", "Mean"):
        yield case(f"{op.lower()}_two", op, x, y)
        yield case(f"{op.lower()}_three", op, x, y, values(seed=3))
    yield case("max_scalar", "Max", x, (np.float32(0.3),))
    for op in ("Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sin", "Erf", "Sign"):
        yield case(op.lower(), op, x)
    yield case("cos", "Cos", x, tolerance=2e-3)
    yield case("tan", "Tan", values(low=-1.0, high=1.0), tolerance=2e-3)
    yield case("log", "Log", values(low=0.1))
    yield case("sqrt", "Sqrt", values(low=0.0))
    yield case("reciprocal", "Reciprocal", values(low=0.5))
    yield case("neg_int", "Neg", whole((3, 4), 9))
    yield case("abs_int", "Abs", whole((3, 4), 9) - 5)
    yield case("pow_two", "Pow", x, (np.float32(2),))
    yield case("pow_three", "Pow", x, (np.float32(3),))
    yield case("pow_half", "Pow", values(low=0.1), (np.float32(0.5),))
    yield case("pow_other", "Pow", values(low=0.1), (np.float32(1.7),), tolerance=1e-4)
    yield case("pow_variable", "Pow", values(low=0.1), values(seed=1), tolerance=1e-4)
    yield case("mod_int", "Mod", whole((3, 4), 9), whole((3, 4), 4) + 1)
    yield case("fmod", "Mod", x, (np.float32(0.7),), fmod=1)


def comparisons() -> Iterator[Case]:
    x, y = values((3, 4)), values((3, 4), 1)
    i, j = whole((3, 4), 3), whole((3, 4), 3, 1)
    b, c = i > 1, j > 1
    for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
        yield case(f"{op.lower()}_float", op, x, y)
        yield case(f"{op.lower()}_int", op, i, j)
        yield case(f"{op.lower()}_scalar", op, x, (np.float32(0.1),))
    yield case("equal_bool", "Equal", b, c)
    for op in ("And", "Or", "Xor"):
        yield case(op.lower(), op, b, c)
    yield case("and_broadcast", "And", b, c[:1])
    yield case("not", "Not", b)
    yield case("where", "Where", b, x, y)
    yield case("where_scalar", "Where", b, x, (np.float32(-3),))
    yield case("where_broadcast", "Where", b[:1], x, y)
    yield case("where_int", "Where", b, i, j)
    yield case("where_image", "Where", whole(IMAGE, 2) > 0, values(), (np.float32(0),))
    large = (1, 6, 20, 30)
    for name, shape in (("number", ()), ("row", (30,)), ("channels", (6, 1, 1)), ("all", large)):
        yield case(f"where_of_a_{name}", "Where", whole(large, 2) > 0, values(large), (values(shape, 1),))
    yield case("where_constant_mask", "Where", (whole((6, 20, 1), 2) > 0,), values(large), (np.float32(-7),))
    yield case("where_of_constants", "Where", whole(large, 2) > 0, (np.float32(0),), (values((30,)),))
    yield case("upper_triangle", "Trilu", x, (np.int64(1),))
    yield case("lower_triangle_of_ints", "Trilu", whole((2, 5, 6), 9), upper=0)
    yield case("is_nan", "IsNaN", np.where(x > 0, x, np.float32("nan")))
    yield case("is_infinite", "IsInf", np.where(x > 0, x, np.float32("-inf")))


def _norm(op: str) -> Case:
    """A reduction of a tensor that another node reads afterwards."""
    nodes = [
        helper.make_node("Relu", ["x0"], ["r"], name="first"),
        helper.make_node(op, ["r"], ["total"], name="reduced", axes=[1]),
        helper.make_node("Add", ["total", "one"], ["positive"], name="shifted"),
        helper.make_node("Div", ["r", "positive"], ["y0"], name="quotient"),
    ]
    feed = {"x0": values()}
    return Case(f"{op.lower()}_of_what_is_read_again", build(nodes, feed, {"one": np.array(1, np.float32)}), feed)


def reductions() -> Iterator[Case]:
    x = values()
    for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        yield case(f"{op.lower()}_spatial", op, x, axes=[2, 3])
        yield case(f"{op.lower()}_dropped", op, x, axes=[1], keepdims=0)
    for axes in ([1], [2], [1, 3]):
        yield case(f"reducemax_negative_{len(axes)}_{axes[0]}", "ReduceMax", -values(low=0.1), axes=axes)
        yield case(f"reducemin_positive_{len(axes)}_{axes[0]}", "ReduceMin", values(low=0.1), axes=axes)
    for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare"):
        yield _norm(op)
    yield case("reduce_sum", "ReduceSum", x, ints(-1))
    yield case("reduce_sum_all", "ReduceSum", x, keepdims=0)
    yield case("reduce_log_sum", "ReduceLogSum", values(low=0.1), axes=[2])
    yield case("softmax", "Softmax", values((3, 8)))
    yield case("softmax_channels", "Softmax", x, axis=1)
    yield case("softmax_width", "Softmax", x, axis=-1)
    yield case("softmax_old", "Softmax", values((3, 8)), opset=11)
    yield case("log_softmax", "LogSoftmax", values((3, 8)))
    yield case("log_softmax_middle", "LogSoftmax", values((3, 8, 2)), axis=1)
    for op in ("ArgMax", "ArgMin"):
        yield case(op.lower(), op, x, axis=1)
        yield case(f"{op.lower()}_dropped", op, values((3, 8)), axis=-1, keepdims=0)
        for shape, axis in (((7,), 0), ((2, 3, 4, 2, 3), 2), ((2, 3, 4, 2, 3), 4)):
            for keep in (0, 1):
                yield case(f"{op.lower()}_of_{len(shape)}_{axis}_{keep}", op, values(shape), axis=axis, keepdims=keep)
    yield case("topk", "TopK", values((3, 8)), ints(3), outputs=2)
    yield case("topk_smallest", "TopK", values((3, 8)), ints(3), outputs=2, largest=0)
    yield case("topk_axis", "TopK", values((2, 8, 3)), ints(2), outputs=2, axis=1)
    yield case("cumsum", "CumSum", values((3, 8)), (np.array(1),))
    yield case("cumsum_reverse", "CumSum", values((3, 8)), (np.array(0),), reverse=1, exclusive=1)


def normalizations() -> Iterator[Case]:
    x = values()
    four = [const((4,), i, 0.5, 1.5) for i in range(4)]
    yield case("batch_norm", "BatchNormalization", x, *four)
    yield case("batch_norm_epsilon", "BatchNormalization", x, *four, epsilon=0.1)
    yield case("batch_norm_matrix", "BatchNormalization", values((3, 4)), *four)
    yield case("layer_norm", "LayerNormalization", values((2, 3, 8)), const((8,)), const((8,), 2))
    deep = (2, 3, 2, 4, 5)
    yield case("layer_norm_deep", "LayerNormalization", values(deep), const(deep[3:]), const(deep[3:], 2), axis=3)
    yield case("layer_norm_of_one", "LayerNormalization", 100 * values((9, 1)), const((1,)), const((1,), 2))
    yield case("layer_norm_epsilon", "LayerNormalization", values((3, 8)), const((8,)), epsilon=0.1)
    yield case("layer_norm_axis", "LayerNormalization", values((2, 3, 8)), const((3, 8)), const((3, 8), 2), axis=1)
    yield case("instance_norm", "InstanceNormalization", x, const((4,)), const((4,), 2))
    yield case("instance_norm_epsilon", "InstanceNormalization", x, const((4,)), const((4,), 2), epsilon=0.1)
    yield case("group_norm", "GroupNormalization", x, const((4,)), const((4,), 2), num_groups=2, opset=21)
    yield case("mean_variance", "MeanVarianceNormalization", x, tolerance=1e-4)
    yield case("lp_norm", "LpNormalization", values((3, 8)))
    yield case("lp_norm_one", "LpNormalization", x, axis=1, p=1)
    yield case("lrn", "LRN", x, size=3)
    for size in (1, 3, 5, 7):
        yield case(f"lrn_of_5_by_{size}", "LRN", values((2, 5, 3, 4)), size=size, alpha=0.3)
    yield case("lrn_attributes", "LRN", x, size=5, alpha=0.05, beta=0.5, bias=2.0)


def resizes() -> Iterator[Case]:
    x = values()
    none = None
    double = (np.array([1, 1, 2, 2], np.float32),)
    for transform in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        mode = {"coordinate_transformation_mode": transform}
        yield case(f"resize_linear_{transform}", "Resize", x, none, double, mode="linear", **mode)
        yield case(f"resize_linear_down_{transform}", "Resize", x, none, none, ints(1, 4, 3, 4), mode="linear", **mode)
        yield case(f"resize_cubic_{transform}", "Resize", x, none, double, mode="cubic", **mode)
        wider = {"antialias": 1, "opset": 19, **mode}
        yield case(f"resize_wider_{transform}", "Resize", x, none, none, ints(1, 4, 3, 4), mode="linear", **wider)
        yield case(f"resize_nearest_{transform}", "Resize", x, none, none, ints(1, 4, 9, 5), mode="nearest", **mode)
    wider = {"mode": "cubic", "antialias": 1, "opset": 19}
    yield case("resize_wider_cubic", "Resize", x, none, none, ints(1, 4, 3, 4), **wider)
    yield case("resize_cubic_within", "Resize", x, none, double, mode="cubic", exclude_outside=1)
    tie = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": "round_prefer_ceil"}
    yield case("resize_to_a_tie", "Resize", values((1, 3, 12, 2)), none, none, ints(1, 3, 14, 15), opset=19, **tie)
    for nearest in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        yield case(f"resize_{nearest}", "Resize", x, none, none, ints(1, 4, 9, 11), nearest_mode=nearest)
    if is_since("onnxruntime", 1, 25):  # 1.19 takes the element below
        ties = {"nearest_mode": "round_prefer_ceil"}
        yield case("resize_down_to_ties", "Resize", values((1, 3, 28, 2)), none, none, ints(1, 3, 2, 2), **ties)
    yield case("resize_nearest_double", "Resize", x, none, double)
    scales = (np.array([1, 1, 1.3, 0.7], np.float32),)
    yield case("resize_fraction", "Resize", x, none, scales, mode="linear")
    yield case("resize_3d", "Resize", values((1, 3, 8)), none, (np.array([1, 1, 2], np.float32),), mode="linear")


def recurrent() -> Iterator[Case]:
    x = values((5, 2, 4))
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for name, directions, attributes in (
            ("forward", 1, {}),
            ("reverse", 1, {"direction": "reverse"}),
            ("both", 2, {"direction": "bidirectional"}),
        ):
            w, r, b = (
                const((directions, gates * 3, 4)),
                const((directions, gates * 3, 3), 2),
                const((directions, gates * 6), 3),
            )
            outputs = 3 if op == "LSTM" else 2
            yield case(
                f"{op.lower()}_{name}", op, x, w, r, b, outputs=outputs, hidden_size=3, tolerance=5e-4, **attributes
            )
    w, r, b = const((1, 9, 4)), const((1, 9, 3), 2), const((1, 18), 3)
    yield case(
        "gru_linear_before_reset", "GRU", x, w, r, b, outputs=2, hidden_size=3, linear_before_reset=1, tolerance=5e-4
    )
    w, r, b = const((1, 12, 4)), const((1, 12, 3), 2), const((1, 24), 3)
    state = values((1, 2, 3), 7), values((1, 2, 3), 8)
    yield case("lstm_initial", "LSTM", x, w, r, b, None, *state, outputs=3, hidden_size=3, tolerance=5e-4)
    for rows, hidden, direction in (
        (1, 16, "forward"),
        (1, 16, "bidirectional"),
        (1, 5, "forward"),
        (3, 7, "bidirectional"),
    ):
        count = 1 + (direction == "bidirectional")
        x = values((6, rows, 9))
        w, r = const((count, 4 * hidden, 9), low=-0.3, high=0.3), const((count, 4 * hidden, hidden), 2, -0.3, 0.3)
        state = values((count, rows, hidden), 7), values((count, rows, hidden), 8)
        attributes = {"hidden_size": hidden, "direction": direction}
        yield case(f"lstm_{rows}x{hidden}_{direction}", "LSTM", x, w, r, outputs=3, tolerance=5e-4, **attributes)
        yield case(
            f"lstm_{rows}x{hidden}_{direction}_initial",
            "LSTM",
            x,
            w,
            r,
            const((count, 8 * hidden), 3),
            None,
            *state,
            outputs=1,
            tolerance=5e-4,
            **attributes,
        )


def grids() -> Iterator[Case]:
    for batch, mode, version in ((1, "bilinear", 16), (2, "linear", 20)):
        for padding, corners in (("zeros", 0), ("border", 1)):
            given = (values((batch, 3, 5, 7)), values((batch, 4, 6, 2), 1, low=-1.3, high=1.3))
            attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
            yield case(f"grid_sample_{batch}_{padding}", "GridSample", *given, opset=version, **attributes)
    given = (values((2, 3, 5, 7)), values((2, 4, 6, 2), 1, low=-1.9, high=1.9))
    for mode, padding, corners in (("nearest", "zeros", 0), ("nearest", "reflection", 1), ("linear", "reflection", 0)):
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners, "opset": 20}
        yield case(f"grid_sample_{mode}_{padding}", "GridSample", *given, **attributes)
    for batch, *sizes in ((1, 4, 6), (2, 3, 4, 5)):
        theta, size = values((batch, len(sizes), len(sizes) + 1)), np.array([batch, 3, *sizes])
        yield case(f"affine_grid_{len(sizes)}", "AffineGrid", theta, (size,), opset=20)


FAMILIES = (
    convolutions,
    products,
    volumes,
    pools,
    activations,
    followed,
    arithmetic,
    comparisons,
    reductions,
    shapes,
    constant_results,
    many_axes,
    gathers,
    labels,
    scatters,
    normalizations,
    resizes,
    grids,
    recurrent,
    biases,
    clamps,
    crops,
    numbers,
    slices,
    pictures,
    powers,
    whole_numbers,
    sharing,
)


def all_cases() -> dict[str, Case]:
    """Every case by name."""
    cases = [c for family in FAMILIES for c in family()]
    names = [c.name for c in cases]
    assert len(set(names)) == len(names)
    return {c.name: c for c in cases}
