"""What operations of PIR programs hold besides operands: attributes with their types, and results.

An attribute is written as ``name:type``, with ``=value`` where older operators may lack it. Operations that are not here are read
(:mod:`.rules`), but not written.

Source: what Paddle 3.3.1 makes of each operator that is written.
"""

from __future__ import annotations

from collections.abc import Mapping

_PLAIN = """
abs add assign clip concat cos divide elementwise_pow equal exp expand floor gather gather_nd greater_equal greater_than
hardswish less_equal less_than log logical_and logical_not logical_or logical_xor maximum minimum multiply nonzero not_equal
one_hot reciprocal relu relu6 remainder reshape round rsqrt scatter_nd_add shape sigmoid sign sin softsign split sqrt square
squeeze subtract tanh tile unsqueeze where erf ceil silu
"""

_RESIZED = "data_format:str=NCHW out_d:i32=-1 out_h:i32 out_w:i32 scale:f32s interp_method:str align_corners:bool align_mode:i32"

ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(_PLAIN.split(), ""),
    **dict.fromkeys(("bilinear_interp", "nearest_interp"), _RESIZED),
    **dict.fromkeys(("max", "mean", "min"), "keepdim:bool"),
    **dict.fromkeys(("tril", "triu"), "diagonal:i32"),
    **dict.fromkeys(("argmax", "argmin"), "keepdims:bool flatten:bool dtype:dtype"),
    "batch_norm_": "is_test:bool momentum:f32 epsilon:f32 data_format:str use_global_stats:bool trainable_statistics:bool=0",
    "cast": "dtype:dtype",
    "conv2d": "strides:i32s paddings:i32s padding_algorithm:str dilations:i32s groups:i32 data_format:str",
    "conv2d_transpose": "strides:i32s paddings:i32s output_padding:i32s padding_algorithm:str groups:i32 dilations:i32s "
    "data_format:str",
    "deformable_conv": "strides:i32s paddings:i32s dilations:i32s deformable_groups:i32 groups:i32 im2col_step:i32",
    "cumsum": "flatten:bool exclusive:bool reverse:bool",
    "depthwise_conv2d": "strides:i32s paddings:i32s padding_algorithm:str groups:i32 dilations:i32s data_format:str",
    "elu": "alpha:f32",
    "embedding": "padding_idx:i64 sparse:bool=0",
    "fake_channel_wise_dequantize_max_abs": "quant_bits:i32s quant_axis:i32 x_num_col_dims:i32",
    "fake_dequantize_max_abs": "max_range:f32",
    "fake_quantize_dequantize_moving_average_abs_max": "moving_rate:f32 bit_length:i32 is_test:bool round_type:i32",
    "flatten": "start_axis:i32 stop_axis:i32",
    "flip": "axis:i32s",
    "gelu": "approximate:bool",
    "grid_sample": "mode:str padding_mode:str align_corners:bool",
    "group_norm": "epsilon:f64 groups:i32 data_format:str",
    "hardsigmoid": "slope:f32 offset:f32",
    "instance_norm": "epsilon:f32",
    "layer_norm": "epsilon:f32 begin_norm_axis:i32",
    "leaky_relu": "negative_slope:f64",
    "log_softmax": "axis:i32",
    "matmul": "transpose_x:bool transpose_y:bool",
    "mish": "lambda:f32",
    "norm": "axis:i32 epsilon:f32 is_test:bool=0",
    "p_norm": "porder:f32 axis:i32 epsilon:f32 keepdim:bool asvector:bool",
    "pad3d": "mode:str pad_value:f64 data_format:str",
    "pixel_shuffle": "upscale_factor:i32 data_format:str",
    "pool2d": "strides:i64s paddings:i64s ceil_mode:bool exclusive:bool data_format:str pooling_type:str global_pooling:bool "
    "adaptive:bool padding_algorithm:str",
    "prelu": "data_format:str mode:str",
    "prod": "keepdim:bool reduce_all:bool",
    "rnn": "dropout_prob:f32 is_bidirec:bool input_size:i32 hidden_size:i32 num_layers:i32 mode:str seed:i32 is_test:bool",
    "scale": "bias:f32 bias_after_scale:bool",
    "slice": "axes:i64s infer_flags:i64s decrease_axis:i64s",
    "softmax": "axis:i32",
    "softplus": "beta:f64 threshold:f64",
    "strided_slice": "axes:i32s",
    "sum": "dtype:dtype keepdim:bool",
    "thresholded_relu": "threshold:f32 value:f32=0",
    "topk": "axis:i32 largest:bool sorted:bool",
    "transpose": "perm:i32s",
}
"""Operation -> its attributes."""

NONE = "NULL"
"""A result that is not made."""

RESULTS: Mapping[str, str] = {
    **dict.fromkeys(("group_norm", "layer_norm"), "Y Mean Variance"),
    "batch_norm_": f"Y MeanOut VarianceOut SavedMean SavedVariance {NONE}",
    "fake_quantize_dequantize_moving_average_abs_max": f"Out OutScale {NONE} {NONE}",
    "instance_norm": "Y SavedMean SavedVariance",
    "norm": "Out Norm",
    "rnn": "Out DropoutState State* Reserve",
}
"""Operation -> slots of its results, where it has more than its rule says."""
