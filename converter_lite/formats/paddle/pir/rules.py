"""PIR operations as the operators of older programs: names, operands by position -> slots, attributes.

An operand is written as

- ``X``: its variable goes into slot X; ``X*``: so do the variables of a list;
- ``@axis``: a constant becomes attribute ``axis``, ``#shape`` a list of numbers; with ``#shape:ShapeTensor`` what is computed
  at run time goes into the slot instead;
- ``-``: it says nothing about inference.

Source: the declarations of both kinds of operators in Paddle 3.3, and what 2.6 and 3.3 write for the same network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Rule:
    """An operator of older programs.

    Attributes:
        kind: Its name.
        operands: What each operand is.
        results: Slot of each result; ``*`` marks lists.
        renamed: Attribute here -> attribute there; empty drops it. Others keep their name.
        fixed: Attributes that the name of the operation stands for.
    """

    kind: str
    operands: tuple[str, ...] = ("X",)
    results: tuple[str, ...] = ("Out",)
    renamed: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


def _rule(kind: str, operands: str = "X", results: str = "Out", **renamed: str) -> Rule:
    return Rule(kind, tuple(operands.split()), tuple(results.split()), renamed)


def _with(rule: Rule, **fixed: Any) -> Rule:
    return replace(rule, fixed=fixed)


_SAME = """
abs acos acosh asin asinh assign atan atanh bitwise_not ceil celu channel_shuffle cos cosh elu erf exp expm1 flip
floor gelu log log10 log1p log2 log_softmax logical_not logit logsigmoid maxout pixel_shuffle pixel_unshuffle
reciprocal relu relu6 round rsqrt selu shuffle_channel sigmoid sign silu sin sinh softmax softplus softsign sqrt
square stanh swish tan tanh tanh_shrink temporal_shift thresholded_relu trunc
"""
"""Operations of one tensor that have the name and the attributes that they always had."""

_BINARY = {
    "add": "elementwise_add",
    "subtract": "elementwise_sub",
    "multiply": "elementwise_mul",
    "divide": "elementwise_div",
    "maximum": "elementwise_max",
    "minimum": "elementwise_min",
    "fmax": "elementwise_fmax",
    "fmin": "elementwise_fmin",
    "elementwise_pow": "elementwise_pow",
    "remainder": "elementwise_mod",
    "floor_divide": "elementwise_floordiv",
    "heaviside": "elementwise_heaviside",
    **{
        name: name
        for name in (
            *("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal", "equal_all"),
            *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bmm", "dot"),
        )
    },
}

_REDUCTIONS = ("mean", "sum", "max", "min", "prod")
_PLAIN_REDUCTIONS = ("all", "any", "amax", "amin")

_POOL = {"kernel_size": "ksize"}
_LAYOUT = {"data_format": "data_layout"}
_RESIZES = ("nearest", "linear", "bilinear", "trilinear", "bicubic")
_RESIZED = "X OutSize SizeTensor* Scale"

RULES: Mapping[str, Rule] = {
    **{name: _rule(name) for name in _SAME.split()},
    **{name: _rule(kind, "X Y") for name, kind in _BINARY.items()},
    **{name: _rule(f"reduce_{name}", "X #dim", keepdim="keep_dim", dtype="out_dtype") for name in _REDUCTIONS},
    **{name: _rule(f"reduce_{name}", axis="dim", keepdim="keep_dim") for name in _PLAIN_REDUCTIONS},
    **{f"{mode}_interp": _rule(f"{mode}_interp_v2", _RESIZED, **_LAYOUT) for mode in _RESIZES},
    **{name: _rule("assign") for name in ("memcpy_d2h", "memcpy_h2d", "print", "shadow_feed", "share_data")},
    "assign_out_": _rule("assign", "X -"),
    "depend": _rule("assign", "X -"),
    # Functions of one tensor whose attributes have other names.
    "clip": _rule("clip", "X @min:Min @max:Max"),
    "dropout": _rule("dropout", "X - @dropout_prob", "Out -", mode="dropout_implementation"),
    "hardshrink": _rule("hard_shrink"),
    "hardsigmoid": _rule("hard_sigmoid"),
    "hardswish": _rule("hard_swish"),
    "hardtanh": _rule("brelu"),
    "leaky_relu": _rule("leaky_relu", negative_slope="alpha"),
    "mish": _rule("mish", **{"lambda": "threshold"}),
    "pow": _rule("pow", y="factor"),
    "prelu": _rule("prelu", "X Alpha"),
    "rrelu": _rule("rrelu", "X", "Out -"),
    "scale": _rule("scale", "X @scale:ScaleTensor"),
    "softshrink": _rule("softshrink", threshold="lambda"),
    "swiglu": _rule("swiglu", "X Y"),
    "isfinite": _rule("isfinite_v2"),
    "isinf": _rule("isinf_v2"),
    "isnan": _rule("isnan_v2"),
    # Of several.
    "add_n": _rule("sum", "X*"),
    "lerp": _rule("lerp", "X Y Weight"),
    "masked_fill": _rule("masked_fill", "X Mask Value"),
    "where": _rule("where", "Condition X Y"),
    # Products.
    "addmm": _rule("addmm", "Input X Y", alpha="Alpha", beta="Beta"),
    "baddbmm": _rule("addmm", "Input X Y", alpha="Alpha", beta="Beta"),
    "bilinear": _rule("bilinear_tensor_product", "X Y Weight Bias"),
    "einsum": _rule("einsum", "Operands*", "Out - -"),
    "fc": _rule("fc", "Input W Bias"),
    "matmul": _rule("matmul_v2", "X Y", transpose_x="trans_x", transpose_y="trans_y"),
    "matmul_with_flatten": _rule("mul", "X Y"),
    "multi_dot": _rule("multi_dot", "X*"),
    "mv": _rule("mv", "X Vec"),
    # Convolutions and pooling.
    "conv2d": _rule("conv2d", "Input Filter", "Output"),
    "conv2d_transpose": _rule("conv2d_transpose", "Input Filter #output_size:OutputSize", "Output"),
    "conv2d_transpose_bias": _rule("conv2d_transpose", "Input Filter Bias #output_size:OutputSize", "Output"),
    "conv3d": _rule("conv3d", "Input Filter", "Output"),
    "conv3d_transpose": _rule("conv3d_transpose", "Input Filter", "Output"),
    "depthwise_conv2d": _rule("depthwise_conv2d", "Input Filter", "Output"),
    "depthwise_conv2d_transpose": _rule("depthwise_conv2d_transpose", "Input Filter #output_size:OutputSize", "Output"),
    "deformable_conv": _rule("deformable_conv", "Input Offset Filter Mask", "Output"),
    "max_pool2d_with_index": _rule("max_pool2d_with_index", "X", "Out Mask", **_POOL),
    "unpool": _rule("unpool", "X Indices #output_size:OutputSize", padding="paddings"),
    "pool2d": _rule("pool2d", "X #ksize", **_POOL),
    "pool3d": _rule("pool3d", "X", **_POOL),
    # Normalizations.
    "batch_norm_": _rule("batch_norm", "X Mean Variance Scale Bias", "Y - - - - -", **_LAYOUT),
    "sync_batch_norm_": _rule("batch_norm", "X Mean Variance Scale Bias", "Y - - - - -", **_LAYOUT),
    "group_norm": _rule("group_norm", "X Scale Bias", "Y - -", **_LAYOUT),
    "instance_norm": _rule("instance_norm", "X Scale Bias", "Y - -"),
    "layer_norm": _rule("layer_norm", "X Scale Bias", "Y - -"),
    "lrn": _rule("lrn", "X", "Out -"),
    "norm": _rule("norm", "X", "Out -"),
    "rms_norm": _rule("rms_norm", "X Scale", "Y -"),
    # Reductions of other kinds, and orders.
    "argmax": _rule("arg_max", "X @axis"),
    "argmin": _rule("arg_min", "X @axis"),
    "argsort": _rule("argsort", "X", "Out Indices"),
    "cumsum": _rule("cumsum", "X @axis"),
    "frobenius_norm": _rule("frobenius_norm", "X #dim"),
    "kthvalue": _rule("kthvalue", "X", "Out Indices"),
    "logsumexp": _rule("logsumexp"),
    "mean_all": _rule("mean"),
    "p_norm": _rule("p_norm"),
    "topk": _rule("top_k_v2", "X @k:K", "Out Indices"),
    # Shapes.
    "broadcast_tensors": _rule("broadcast_tensors", "X*", "Out*"),
    "concat": _rule("concat", "X* @axis:AxisTensor"),
    "crop": _rule("crop_tensor", "X #shape:Shape #offsets:Offsets"),
    "expand": _rule("expand_v2", "X #shape:Shape"),
    "expand_as": _rule("expand_as_v2", "X Y"),
    "flatten": _rule("flatten_contiguous_range"),
    "meshgrid": _rule("meshgrid", "X*", "Out*"),
    "numel": _rule("size", "Input"),
    "pad": _rule("pad", "X @pad_value"),
    "pad3d": _rule("pad3d", "X #paddings:Paddings", pad_value="value"),
    "repeat_interleave": _rule("repeat_interleave", repeats="Repeats", axis="dim"),
    "reshape": _rule("reshape2", "X #shape:Shape"),
    "reverse": _rule("flip", "X #axis"),
    "roll": _rule("roll", "X #shifts:ShiftsTensor"),
    "set_value": _rule("set_value", "Input #starts:StartsTensor #ends:EndsTensor #steps:StepsTensor"),
    "set_value_with_tensor": _rule(
        "set_value", "Input ValueTensor #starts:StartsTensor #ends:EndsTensor #steps:StepsTensor"
    ),
    "shape": _rule("shape", "Input"),
    "shape64": _with(_rule("shape", "Input"), wide=True),
    "slice": _rule("slice", "Input #starts:StartsTensor #ends:EndsTensor"),
    "split": _rule("split", "X #sections:SectionsTensor @axis:AxisTensor", "Out*"),
    "split_with_num": _rule("split", "X @axis:AxisTensor", "Out*"),
    "squeeze": _rule("squeeze2", "X #axes:AxesTensor"),
    "stack": _rule("stack", "X*", "Y"),
    "strided_slice": _rule("strided_slice", "Input #starts:StartsTensor #ends:EndsTensor #strides:StridesTensor"),
    "tile": _rule("tile", "X #repeat_times:RepeatTimes"),
    "transpose": _rule("transpose2", perm="axis"),
    "tril": _with(_rule("tril_triu"), lower=True),
    "triu": _with(_rule("tril_triu"), lower=False),
    "unbind": _rule("unbind", "X", "Out*"),
    "unfold": _rule("unfold", "X", "Y"),
    "fold": _rule("fold", "X", "Y"),
    "unsqueeze": _rule("unsqueeze2", "X #axes:AxesTensor"),
    "unstack": _rule("unstack", "X", "Y*"),
    # Picking and placing.
    "embedding": _rule("lookup_table_v2", "Ids W"),
    "gather": _rule("gather", "X Index @axis:Axis"),
    "gather_nd": _rule("gather_nd", "X Index"),
    "index_add": _rule("index_add", "X Index AddValue"),
    "index_put": _rule("index_put", "x indices* value", "out"),
    "index_sample": _rule("index_sample", "X Index"),
    "index_select": _rule("index_select", "X Index", axis="dim"),
    "masked_select": _rule("masked_select", "X Mask", "Y"),
    "nonzero": _rule("where_index", "Condition"),
    "one_hot": _rule("one_hot_v2", "X @depth:depth_tensor"),
    "put_along_axis": _rule("put_along_axis", "Input Index Value", "Result", axis="Axis", reduce="Reduce"),
    "sequence_mask": _rule("sequence_mask", "X @maxlen:MaxLenTensor", "Y"),
    "scatter": _rule("scatter", "X Ids Updates"),
    "scatter_nd_add": _rule("scatter_nd_add", "X Index Updates"),
    "take_along_axis": _rule("take_along_axis", "Input Index", "Result", axis="Axis"),
    # Constants, and what is made from shapes.
    "arange": _rule("range", "Start End Step"),
    "cast": _rule("cast", dtype="out_dtype"),
    "diag": _rule("diag_v2"),
    "eye": _rule("eye", "@num_rows @num_columns", "Out"),
    "full_batch_size_like": _rule("fill_constant_batch_size_like", "Input"),
    "full_like": _rule("fill_any_like", "X @value:ValueTensor"),
    "full_with_tensor": _rule("fill_constant", "@value:ValueTensor #shape:ShapeTensor"),
    "linspace": _rule("linspace", "Start Stop Num"),
    "ones_like": _with(_rule("fill_any_like"), value=1.0),
    "zeros_like": _with(_rule("fill_any_like"), value=0.0),
    # Pictures and boxes.
    "affine_grid": _rule("affine_grid", "Theta #output_shape:OutputShape", "Output"),
    "box_coder": _rule("box_coder", "PriorBox PriorBoxVar TargetBox", "OutputBox"),
    "grid_sample": _rule("grid_sampler", "X Grid", "Output"),
    "matrix_nms": _rule("matrix_nms", "BBoxes Scores", "Out Index RoisNum"),
    "multiclass_nms3": _rule("multiclass_nms3", "BBoxes Scores RoisNum", "Out Index NmsRoisNum"),
    "nms": _rule("nms", "Boxes", "KeepBoxesIdxs", threshold="iou_threshold"),
    "prior_box": _rule("prior_box", "Input Image", "Boxes Variances"),
    "roi_align": _rule("roi_align", "X ROIs RoisNum"),
    "yolo_box": _rule("yolo_box", "X ImgSize", "Boxes Scores"),
    # Recurrent networks.
    "rnn": _rule("rnn", "Input PreState* WeightList* SequenceLength -", "Out - State* -"),
    # Quantization.
    "dequantize_linear": _rule("dequantize_linear", "X Scale ZeroPoint - -", "Y - - -"),
    "fake_channel_wise_dequantize_max_abs": _rule("fake_channel_wise_dequantize_max_abs", "X Scales*"),
    "fake_channel_wise_quantize_dequantize_abs_max": _rule(
        "fake_channel_wise_quantize_dequantize_abs_max", "X", "Out OutScale"
    ),
    "fake_dequantize_max_abs": _rule("fake_dequantize_max_abs", "X Scale"),
    "fake_quantize_abs_max": _rule("fake_quantize_abs_max", "X", "Out OutScale"),
    "fake_quantize_dequantize_abs_max": _rule("fake_quantize_dequantize_abs_max", "X", "Out OutScale"),
    "fake_quantize_dequantize_moving_average_abs_max": _rule(
        "fake_quantize_dequantize_moving_average_abs_max", "X InScale - -", "Out - - -"
    ),
    "fake_quantize_moving_average_abs_max": _rule("fake_quantize_moving_average_abs_max", "X InScale - -", "Out - - -"),
    "fake_quantize_range_abs_max": _rule("fake_quantize_range_abs_max", "X InScale -", "Out - -"),
    "moving_average_abs_max_scale": _rule("moving_average_abs_max_scale", "X - -", "Out - - -"),
    "quantize_linear": _rule("quantize_linear", "X Scale ZeroPoint - -", "Y - - -"),
}
"""Operation without its dialect -> operator. An underscore at the end, which marks operations in place, is left out."""


def rule_of(name: str) -> Rule | None:
    """The rule of an operation of the dialect ``pd_op``."""
    return RULES.get(name) or RULES.get(name.removesuffix("_")) or RULES.get(f"{name}_")
