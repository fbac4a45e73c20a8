"""What an ARM library of release 2.12 demands of a file, rule by rule, found without running it.

Such a library checks little: a missing attribute is a crash, one of another type is read as zero, a wrong combination
gives wrong numbers. So the rules are checked here. Source: docs/formats/paddle_nb.md, operators and ARM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, exists
from converter_lite.formats.paddle.program import AttrType, NbFile, Operator, VarType
from tests.formats.paddle.half_rules import precision_violations

RELEASE_2_12 = "2"
TYPES = {
    "L": AttrType.LONGS,
    "i": AttrType.INT,
    "f": AttrType.FLOAT,
    "s": AttrType.STRING,
    "b": AttrType.BOOLEAN,
    "l": AttrType.LONG,
    "I": AttrType.INTS,
    "F": AttrType.FLOATS,
}
_WINDOW = "strides:I paddings:I dilations:I groups:i padding_algorithm?:s data_format?:s"
_ACTIVATION = (
    "with_act?:b act_type?:s fuse_brelu_threshold?:f leaky_relu_alpha?:f"
    " hard_swish_threshold?:f hard_swish_scale?:f hard_swish_offset?:f"
)
_INT8 = "enable_int8?:b bit_length?:i Input0_scale?:F"
_WEIGHT_ONLY = "quantization_type?:s quantize_weight_bits?:i"
_CONV = f"{_WINDOW} {_ACTIVATION} {_INT8} Filter0_scale?:F Output0_scale?:F"
_SLICE = "axes:I starts:I ends:I infer_flags:I decrease_axis:I"
_RESIZE = "scale:F out_h:i out_w:i align_corners:b align_mode:i interp_method:s data_layout:s"
_REDUCE = "dim:I keep_dim:b reduce_all:b"
_COMPARE = "axis:i force_cpu:b"

ATTRIBUTES: dict[str, str] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), f"{_CONV} {_WEIGHT_ONLY}"),
    "conv2d_transpose": f"{_CONV} output_padding?:I output_size?:I",
    "sparse_conv2d": f"{_CONV} first_ic:i flag_semi:i",
    "fc": f"in_num_col_dims:i activation_type?:s alpha?:f {_INT8} W0_scale?:F Out0_scale?:F {_WEIGHT_ONLY}",
    "matmul": "transpose_X:b transpose_Y:b alpha:f",
    **dict.fromkeys(("lookup_table", "lookup_table_v2"), f"padding_idx:l {_WEIGHT_ONLY}"),
    **{f"elementwise_{kind}": "axis:i" for kind in ("add", "sub", "mul", "div", "max", "min", "pow", "mod")},
    **{f"fusion_elementwise_{kind}_activation": "axis:i act_type:s" for kind in ("add", "sub", "mul", "div")},
    **{f"fusion_elementwise_{kind}_activation": "axis:i act_type:s" for kind in ("max", "min")},
    **dict.fromkeys(("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"), _COMPARE),
    **{f"logical_{kind}": "" for kind in ("and", "or", "not", "xor")},
    **dict.fromkeys(("relu", "sigmoid", "tanh", "exp", "log", "abs", "floor", "reciprocal", "sqrt", "square"), ""),
    **dict.fromkeys(
        ("sin", "cos", "erf", "assign", "shape", "gather_nd", "scatter_nd_add", "where", "where_index"), ""
    ),
    **dict.fromkeys(("relu6", "thresholded_relu", "mish"), "threshold:f"),
    **dict.fromkeys(("leaky_relu", "elu"), "alpha:f"),
    "clip": "min:f max:f",
    "prelu": "mode:s",
    "hard_sigmoid": "slope:f offset:f",
    "hard_swish": "threshold:f scale:f offset:f",
    "scale": "scale:f bias:f bias_after_scale:b",
    "softplus": "beta:f threshold:f",
    "gelu": "approximate?:b",
    "swish": "beta:f",
    **dict.fromkeys(("softmax", "log_softmax", "concat", "gather", "flatten2", "stack"), "axis:i"),
    "batch_norm": "is_test:b use_global_stats:b epsilon:f momentum:f data_layout:s",
    "instance_norm": "epsilon:f",
    "layer_norm": "epsilon:f begin_norm_axis:i",
    "group_norm": "epsilon:f groups:i data_layout:s",
    "norm": "axis:i epsilon:f",
    "lrn": "n:i alpha:f beta:f k:f norm_region:s",
    "p_norm": "axis:i porder:f epsilon:f keepdim:b asvector:b",
    "pool2d": "pooling_type:s ksize:I strides:I paddings:I global_pooling:b exclusive:b adaptive:b ceil_mode:b"
    " padding_algorithm?:s",
    "split": "axis:i num:i sections:I",
    "slice": _SLICE,
    "strided_slice": f"{_SLICE} strides:I",
    **dict.fromkeys(("reshape2", "expand_v2"), "shape:I"),
    "flatten_contiguous_range": "start_axis:i stop_axis:i",
    **dict.fromkeys(("squeeze2", "unsqueeze2"), "axes:I"),
    **dict.fromkeys(("transpose2", "flip"), "axis:I"),
    "cast": "in_dtype:i out_dtype:i",
    "tile": "repeat_times:I",
    "fill_constant": "shape:L dtype:i value:f str_value:s force_cpu:b",
    "pad2d": "mode:s pad_value:f paddings:I data_format:s",
    "pad3d": "mode:s value:f paddings:I data_format:s",
    "pixel_shuffle": "upscale_factor:i",
    "one_hot_v2": "depth:i dtype:i allow_out_of_range:b",
    "grid_sampler": "align_corners:b mode:s padding_mode:s",
    "tril_triu": "diagonal:i lower:b",
    "top_k_v2": "k:i axis:i largest:b sorted:b",
    "cumsum": "axis:i flatten:b exclusive:b reverse:b",
    **dict.fromkeys(("nearest_interp_v2", "bilinear_interp_v2"), _RESIZE),
    **{f"reduce_{kind}": _REDUCE for kind in ("mean", "sum", "max", "min", "prod")},
    "arg_max": "axis:l keepdims:b dtype:i flatten:b",
    "rnn": "mode:s hidden_size:i input_size:i num_layers:i is_bidirec:b dropout_prob:f seed:i is_test:b",
    **dict.fromkeys(("calib", "calib_once"), "scale?:f"),
    **dict.fromkeys(("feed", "fetch"), "col:i"),
}
"""Operator -> the attributes that it asks for, with their types; those with a question mark may be missing."""

OUTPUTS = {
    **dict.fromkeys(("reshape2", "flatten2", "flatten_contiguous_range", "transpose2"), ("XShape",)),
    **dict.fromkeys(("squeeze2", "unsqueeze2"), ("XShape",)),
    **dict.fromkeys(("layer_norm", "group_norm"), ("Mean", "Variance")),
    "instance_norm": ("SavedMean", "SavedVariance"),
    "norm": ("Norm",),
    "rnn": ("State", "DropoutState", "Reserve"),
}
"""Outputs that have to be named although nothing reads them."""

DEQUANTIZED = {"conv2d": "Filter", "depthwise_conv2d": "Filter", "fc": "W", "lookup_table": "W"}
"""Operators whose integer weights the library turns into floats, and the slot."""

CHANNEL_AXIS = {"conv2d": 0, "depthwise_conv2d": 0, "fc": 1, "lookup_table": 1}
ON_EVERY_CONVOLUTION = ("relu", "relu6", "leaky_relu")
MOVES_INTEGERS = ("transpose2", "reshape2", "flatten_contiguous_range")
"""Operators that take int8 data without computing with them."""


def violations(file: NbFile) -> list[str]:
    """Every rule that a file breaks, with the operator."""
    found = list(_variables(file))
    for index, op in enumerate(file.program.main.operators):
        rules = (_attributes(op), _kernel(op), _outputs(op), _fusion(file, op), _weights(file, op), _int8(file, op))
        found.extend(f"{index} {op.type}: {problem}" for rule in (*rules, _sparse(file, op)) for problem in rule)
    return [*found, *precision_violations(file)]


def _names(slots: dict[str, list[str]]) -> Iterator[str]:
    for names in slots.values():
        yield from names


def _variables(file: NbFile) -> Iterator[str]:
    block = file.program.main
    declared = {variable.name: variable for variable in block.variables}
    if len(declared) != len(block.variables):
        yield "a variable is declared twice"
    persistable = {name for name, variable in declared.items() if variable.persistable}
    if persistable != {*file.parameters, "feed", "fetch"}:
        yield "persistable variables are not the parameters and the borders"
    written = {*file.parameters, "feed"}
    for op in block.operators:
        for name in (*_names(op.inputs), *_names(op.outputs)):
            if name not in declared:
                yield f"{name} is not declared"
        for name in _names(op.inputs):
            if name not in written:
                yield f"{op.type} reads {name} before it is written"
        written.update(_names(op.outputs))
    for kind in ("feed", "fetch"):
        columns = [op.get("col") for op in block.operators if op.type == kind]
        if not columns or columns != list(range(len(columns))):
            yield f"columns of {kind} are {columns}"
    if any(array.ndim == 0 for array in file.parameters.values()):
        yield "a parameter has no dimensions"


def _attributes(op: Operator) -> Iterator[str]:
    if op.type not in ATTRIBUTES:
        yield "nothing is known about this operator"
        return
    known = dict(entry.split(":") for entry in ATTRIBUTES[op.type].split())
    for name, letter in known.items():
        attribute = op.attributes.get(name.removesuffix("?"))
        if attribute is None and not name.endswith("?"):
            yield f"{name} is missing"
        elif attribute is not None and attribute.type is not TYPES[letter]:
            yield f"{name} is {attribute.type.name}"
    allowed = {name.removesuffix("?") for name in known} | {KERNEL_ATTRIBUTE}
    for name, attribute in op.attributes.items():
        if name.endswith("_quant_scale") and attribute.type is AttrType.FLOATS:
            continue
        if name.endswith("_fp16") and name.removesuffix("_fp16") in _names(op.inputs):
            continue
        if name not in allowed:
            yield f"nothing asks for {name}"


def _kernel(op: Operator) -> Iterator[str]:
    key = str(op.get(KERNEL_ATTRIBUTE))
    if not exists(op.type, key, RELEASE_2_12):
        yield f"release 2.12 has no kernel {key}"
    if key.split("/")[2] not in ("1", "4"):
        yield f"{key} is not for ARM"


def _outputs(op: Operator) -> Iterator[str]:
    for slot in OUTPUTS.get(op.type, ()):
        if op.output(slot) is None:
            yield f"output {slot} is not named"


def _sparse(file: NbFile, op: Operator) -> Iterator[str]:
    """The kernel takes one picture of one size in steps of one pixel, and leaves out functions that it does not know."""
    if op.type != "sparse_conv2d":
        return
    if op.get("groups") != 1 or op.get("strides") != (1, 1) or any(op.get("paddings")):
        yield "groups, strides and paddings are ignored"
    kind = op.get("act_type") if op.get("with_act") else None
    if kind not in (None, *ON_EVERY_CONVOLUTION, "hard_swish"):
        yield f"{kind} is left out"
    if kind == "leaky_relu" and "int8_int8_out" in op.get(KERNEL_ATTRIBUTE):
        yield "its slope is divided by the scale of the output"
    dims = next(variable.dims for variable in file.program.main.variables if variable.name == op.input("Input"))
    if dims[0] > 1 or min(dims[2:]) < 1:
        yield f"one picture of one size is computed, not {dims}"
    for slot in ("OcNonZeros", "Diffs"):
        if file.parameters[op.inputs[slot][0]].dtype != np.int32:
            yield f"{slot} is not int32"


def _fusion(file: NbFile, op: Operator) -> Iterator[str]:
    kind = op.get("act_type") if op.get("with_act") else None
    if kind and "conv2d" in op.type and op.type != "sparse_conv2d":
        filters = file.parameters[op.inputs["Filter"][0]]
        is_depthwise = op.get("groups") == len(filters) > 1
        allowed = kind in ON_EVERY_CONVOLUTION or (kind == "hard_swish" and op.type == "conv2d" and not is_depthwise)
        if not allowed:
            yield f"{kind} is not applied there"
    if op.get("enable_int8") and op.type == "depthwise_conv2d" and kind in ("relu", "relu6"):
        window = [op.get(name) for name in ("strides", "dilations", "paddings")]
        if window == [(1, 1), (1, 1), (0,) * 4] and file.parameters[op.inputs["Filter"][0]].shape[2:] == (3, 3):
            yield f"{kind} compares with a register that holds anything"
    if op.get("act_type") and "conv2d" in op.type and not op.get("with_act"):
        yield "act_type without with_act does nothing"
    if op.type == "relu6" and op.get("threshold") != 6.0:
        yield "it clips at 6 whatever the threshold is"
    if op.type.startswith("fusion_elementwise") and op.get("act_type") != "relu":
        yield f"{op.get('act_type')} is not applied there"
    if op.type == "fc" and op.get("activation_type"):
        if op.input("Bias") is None:
            yield "an activation without a bias is dropped"
        if op.get("activation_type") not in ("relu", "relu6"):
            yield f"{op.get('activation_type')} is not applied there"


def _explains(op: Operator) -> bool:
    """Whether the weight of an operator is dequantized for it, in place and so for all that read it."""
    return f"{op.input(DEQUANTIZED[op.type])}_quant_scale" in op.attributes


def _weights(file: NbFile, op: Operator) -> Iterator[str]:
    """Integers that are to be dequantized: only where that happens, along the right axis, explained once."""
    explained = [name for name in op.attributes if name.endswith("_quant_scale")]
    if op.get("enable_int8"):
        if explained or op.get("quantize_weight_bits"):
            yield "weights are explained as integers and as floats at once"
        return
    integers = {n for n in _names(op.inputs) if _stored(file, n) in ("int8", "int16")}
    slot = DEQUANTIZED.get(op.type)
    readers = Counter(n for other in file.program.main.operators for n in _names(other.inputs))
    ready = {
        o.input(DEQUANTIZED[o.type]) for o in file.program.main.operators if o.type in DEQUANTIZED and _explains(o)
    }
    for name in integers:
        if op.type == "rnn" and name in ready:
            continue
        if slot is None or name != op.input(slot):
            yield f"{name} is not dequantized there"
        elif f"{name}_quant_scale" in op.attributes:
            scales = op.get(f"{name}_quant_scale")
            if len(scales) != file.parameters[name].shape[CHANNEL_AXIS[op.type]]:
                yield f"{name} has {len(scales)} scales"
            if op.get("quantize_weight_bits") != 8 * file.parameters[name].dtype.itemsize:
                yield f"{name} is not of {op.get('quantize_weight_bits')} bits"
        elif readers[name] < 2:
            yield f"{name} is explained by nothing"
    others = [o for o in file.program.main.operators if o is not op]
    for name in explained:
        if any(name in other.attributes for other in others):
            yield f"{name} is given twice, and dequantized twice"


def _stored(file: NbFile, name: str) -> str:
    return file.parameters[name].dtype.name if name in file.parameters else ""


def _int8(file: NbFile, op: Operator) -> Iterator[str]:
    kinds = {v.name: v.dtype for v in file.program.main.variables if not v.persistable}
    alias, _, precision = str(op.get(KERNEL_ATTRIBUTE)).split("/")[1:4]
    takes_int8 = op.get("enable_int8", False) or alias == "int8_to_fp32"
    gives_int8 = alias in ("int8_out", "int8out", "int8_int8_out", "fp32_to_int8")
    if op.type in MOVES_INTEGERS:
        return
    if "int8" in alias and op.type.startswith("calib") and op.get("scale") is None:
        yield "scale is missing"
    data = [name for slot in ("Input", "X") for name in op.inputs.get(slot, ())]
    for name in data:
        if name in kinds and (kinds[name] == VarType.INT8) != bool(takes_int8):
            yield f"{name} has the wrong precision"
    for name in (op.output("Output"), op.output("Out")):
        if name in kinds and (kinds[name] == VarType.INT8) != gives_int8:
            yield f"{name} is declared with the wrong precision"
    if not op.get("enable_int8"):
        return
    if precision != "2":
        yield "its kernel does not compute with integers"
    yield from _scales(file, op, gives_int8=gives_int8)


def _scales(file: NbFile, op: Operator, *, gives_int8: bool) -> Iterator[str]:
    slot = "W" if op.type == "fc" else "Filter"
    weight = file.parameters[(op.inputs.get(slot) or op.inputs["NonZeroWeights"])[0]]
    if weight.dtype != np.int8 or int(weight.min()) < -127:
        yield "its weight is not int8 within 127"
    channels = weight.shape[-1] if op.type == "fc" else weight.shape[0]
    if op.type == "conv2d_transpose":
        channels = weight.shape[1] * op.get("groups", 1)
    if op.type == "sparse_conv2d":
        channels = len(file.parameters[op.inputs["OcNonZeros"][0]])
    if len(op.get(f"{slot}0_scale", ())) != channels:
        yield "its weight has another number of scales than channels"
    out = "Out0_scale" if op.type == "fc" else "Output0_scale"
    if len(op.get("Input0_scale", ())) != 1 or (gives_int8 and len(op.get(out, ())) != 1):
        yield "a scale of its data is missing, and would be 1"
    if op.type == "conv2d_transpose" and op.get("groups") != 1:
        yield "transposed convolutions with groups are wrong"
    if op.type == "fc" and op.get("activation_type") not in ("", "relu"):
        yield "integers know no other function than relu"
    bias = op.input("Bias")
    if bias is not None and _stored(file, bias) != "float32":
        yield "its bias is not float32"
