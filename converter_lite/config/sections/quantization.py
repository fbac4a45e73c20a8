"""Sections that say how a model is quantized."""

from __future__ import annotations

from dataclasses import dataclass

from converter_lite.config.keys import DYNAMIC, EVERY_TYPE, FULL, WEIGHT, Condition, Kind, Use, key, section
from converter_lite.config.names import (
    ActivationQuantMethod,
    BlockSize,
    DequantStrategy,
    DynamicQuantStrategy,
    QuantType,
    Rounding,
    TargetDevice,
    WeightQuantStrategy,
    Width,
)

_MIXED = Condition("common_quant_param", "bit_num", 0)
_AUTO_TUNE = Condition("mixed_bit_weight_quant_param", "auto_tune", True)
_BLOCK_USES = (Use(WEIGHT, when=(Condition("weight_quant_param", "block_size"),)),)
_AUTO_TUNE_USES = (Use(WEIGHT, when=(_MIXED, _AUTO_TUNE)),)
_PORTABLE_USES = (Use(FULL, (TargetDevice.CPU, TargetDevice.X86)), Use(DYNAMIC))
_CANCELLING = "With bias_correction errors of NEAREST cancel within a layer."
_FILTER_USES = (Use(WEIGHT), Use(FULL, (TargetDevice.ASCEND,)))
_SMOOTHED_USES = (Use(FULL, when=(Condition("full_quant_param", "equalization", True),)),)
_GOAL_USES = tuple(
    Use(quant_type, when=(Condition("common_quant_param", goal),))
    for quant_type in (WEIGHT, FULL, DYNAMIC)
    for goal in ("target_cosine", "target_error")
)


_LEARNED_USES = tuple(
    Use(quant_type, when=(Condition(section, "rounding", Rounding.LEARNED),))
    for quant_type, section in (
        (WEIGHT, "weight_quant_param"),
        (FULL, "full_quant_param"),
        (DYNAMIC, "dynamic_quant_param"),
    )
)


@dataclass(frozen=True, slots=True)
class CommonQuantParam:
    """``[common_quant_param]``."""

    quant_type: QuantType | None = key(
        Kind.CHOICE,
        None,
        "Kind of quantization. Required.",
        choices=QuantType,
    )
    bit_num: int = key(
        Kind.INTEGER,
        8,
        "Bits of a quantized weight. WEIGHT_QUANT: 1 to 16, or 0 to search the width of each layer (mixed bits); "
        "FULL_QUANT: 8, or 4 in ONNX files; DYNAMIC_QUANT: 8. WEIGHT_QUANT in .nb files: 8 or 16, in Paddle models: 8.",
        high=16,
    )
    min_quant_weight_size: int = key(
        Kind.INTEGER,
        0,
        "A weight is quantized only if it has more elements than this.",
        uses=_FILTER_USES,
    )
    min_quant_weight_channel: int = key(
        Kind.INTEGER,
        16,
        "A convolution weight is quantized only if it has more output channels than this (.nb files: 0 where it is not "
        "written, as in Paddle-Lite; FULL_QUANT for ASCEND: no limit where it is not written).",
        uses=_FILTER_USES,
    )
    skip_quant_node: tuple[str, ...] = key(
        Kind.NAMES,
        (),
        "Nodes that stay in float, separated by commas: names, patterns of names (`conv_*`), modules of PyTorch (`encoder.0`) or "
        "ONNX operators (Softmax); a name in single quotes may hold commas.",
        example="conv_1,add_8",
    )
    target_cosine: float | None = key(
        Kind.FLOAT,
        None,
        "Cosine with the float model that every output must reach on calibration samples. Layers that cost the most are "
        "left in float (16-bit weights with WEIGHT_QUANT) until it holds; --fp16=on stores the weights of these layers as "
        "float16.",
        high=1,
        example="0.99",
        is_ours=True,
    )
    target_error: float | None = key(
        Kind.FLOAT,
        None,
        "The same for the largest absolute error of any output value: detectors err in few values, which a cosine hardly "
        "shows. One sample in 1000 may exceed it, by the tail of the errors of up to 100 calibration samples.",
        example="0.1",
        is_ours=True,
    )
    max_float_nodes: int = key(
        Kind.INTEGER,
        0,
        "Layers that target_cosine and target_error may leave in float; 0 = no limit. Layers that stay in float with them, "
        "because integers no longer pay there, are not counted.",
        uses=_GOAL_USES,
        is_ours=True,
    )
    learn_seconds: int = key(
        Kind.INTEGER,
        300,
        "rounding=LEARNED: time to learn on two cores of a usual processor. The number of steps follows from it and from the "
        "size of the network, not from a clock, so the same input gives the same bytes.",
        low=1,
        uses=_LEARNED_USES,
        is_ours=True,
    )
    learn_seed: int = key(
        Kind.INTEGER,
        0,
        "rounding=LEARNED: seed of the order of the samples and of what is mirrored and cut.",
        uses=_LEARNED_USES,
        is_ours=True,
    )
    portable: bool = key(
        Kind.BOOLEAN,
        True,
        "ONNX: weights are chosen so that no integer kernel of an x86 processor can saturate, and the file gives the same "
        "numbers on all of them. false: the full grid, for processors that are known to have VNNI.",
        uses=_PORTABLE_USES,
        is_ours=True,
        formats=("ONNX",),
    )
    debug_info_save_path: str | None = key(
        Kind.TEXT,
        None,
        "Folder for the accuracy reports (CSV and report.html); it is made if missing. Not set: no reports.",
        example="quant_report",
    )
    enable_encode: bool = key(
        Kind.BOOLEAN,
        True,
        "Store weights in the smallest encoding that the output format has. May be false with 8 and 16 bits only.",
        uses=(Use(WEIGHT),),
        formats=("MINDIR_LITE",),
    )
    workspace: str | None = key(
        Kind.TEXT,
        None,
        "Folder for temporary models above 2 GB.",
        inert="tensors stay in their files, no temporary model is written",
        example="workspace",
    )


COMMON = section(
    CommonQuantParam,
    "What to quantize, for every quantization type.",
    EVERY_TYPE,
)


@dataclass(frozen=True, slots=True)
class WeightQuantParam:
    """``[weight_quant_param]``."""

    dequant_strategy: DequantStrategy | None = key(
        Kind.CHOICE,
        None,
        "ON_THE_FLY: weights become float at every run, which takes less memory and more time. Not set: once, when a "
        "runtime loads the file.",
        choices=DequantStrategy,
        formats=("ONNX",),
    )
    per_channel: bool = key(
        Kind.BOOLEAN,
        True,
        "true: one scale per output channel; false: one scale per layer.",
    )
    bias_correction: bool = key(
        Kind.BOOLEAN,
        True,
        "Correct the mean and the variance that rounding changes.",
    )
    quant_strategy: WeightQuantStrategy = key(
        Kind.CHOICE,
        WeightQuantStrategy.MAX_MIN,
        "MAX_MIN: the grid spans the extremes of the weight; GPTQ: the same with rounding=ADAPTIVE.",
        choices=WeightQuantStrategy,
    )
    rounding: Rounding | None = key(
        Kind.CHOICE,
        None,
        f"{Rounding.meanings()} {_CANCELLING} Not set: ADAPTIVE with less than 8 bits where there are samples.",
        choices=Rounding,
        example="ADAPTIVE",
        is_ours=True,
    )
    block_size: BlockSize | None = key(
        Kind.CHOICE,
        None,
        "Neighbours in the sums of a matrix product (MatMul, Gemm), or in a row of a table (Gather), that share a scale: "
        "more scales, smaller errors. With bit_num 4 or 8, for ONNX files. Not set: a scale per output channel.",
        choices=BlockSize,
        example="32",
        is_ours=True,
    )
    symmetric: bool = key(
        Kind.BOOLEAN,
        True,
        "false: blocks have zero points too.",
        uses=_BLOCK_USES,
        is_ours=True,
    )
    eight_bit_node: tuple[str, ...] = key(
        Kind.NAMES,
        (),
        "Nodes whose blocks have 8 bits whatever bit_num is, as in skip_quant_node: embeddings (`Gather`), the output head.",
        uses=_BLOCK_USES,
        example="Gather,lm_head",
        is_ours=True,
    )
    accuracy_level: int | None = key(
        Kind.INTEGER,
        None,
        "Products and tables with blocks become operators of onnxruntime (MatMulNBits, GatherBlockQuantized) with this "
        "level: 1 computes in float, 4 rounds activations to int8. Not set: standard operators.",
        high=4,
        uses=_BLOCK_USES,
        example="4",
        is_ours=True,
    )
    update_mindir: bool = key(
        Kind.BOOLEAN,
        True,
        "Update a MindIR model in place.",
        inert="the input model is never changed",
    )
    max_segments: int = key(
        Kind.INTEGER,
        1,
        "Segments in which the original quantizes a model.",
        low=1,
        inert="tensors are processed one by one whatever the size of the model",
    )


WEIGHTS = section(
    WeightQuantParam,
    "Weight quantization with a fixed number of bits.",
    (Use(WEIGHT),),
)


@dataclass(frozen=True, slots=True)
class MixedBitWeightQuantParam:
    """``[mixed_bit_weight_quant_param]``."""

    init_scale: float = key(
        Kind.FLOAT,
        0.02,
        "Relative error that each layer may have: larger gives smaller files and larger errors.",
        high=1,
    )
    auto_tune: bool = key(
        Kind.BOOLEAN,
        False,
        "Search the smallest file with an output cosine of 0.995. With calibration data and neither this nor init_scale "
        "written: of 0.99.",
    )
    use_cv_data: bool = key(
        Kind.BOOLEAN,
        False,
        "Search on drawn pictures where there is no calibration data; those of one or three channels look like noise "
        "with the spectrum of photographs.",
        uses=_AUTO_TUNE_USES,
    )
    max_iterations: int = key(
        Kind.INTEGER,
        40,
        "Networks that the search tries at most.",
        low=40,
        uses=_AUTO_TUNE_USES,
    )


MIXED_BITS = section(
    MixedBitWeightQuantParam,
    "Weight quantization with a width per layer (bit_num=0).",
    (Use(WEIGHT, when=(_MIXED,)),),
)


@dataclass(frozen=True, slots=True)
class FullQuantParam:
    """``[full_quant_param]``; ``per_channel`` is ``None`` if the file does not set it: the target decides."""

    activation_quant_method: ActivationQuantMethod = key(
        Kind.CHOICE,
        ActivationQuantMethod.MAX_MIN,
        f"How the range of an activation is found. {ActivationQuantMethod.meanings()}",
        choices=ActivationQuantMethod,
        aliases=(("RemovalOutlier", "REMOVAL_OUTLIER"),),
    )
    bias_correction: bool = key(
        Kind.BOOLEAN,
        True,
        "Correct the mean error of each output channel in the bias.",
    )
    per_channel: bool | None = key(
        Kind.BOOLEAN,
        None,
        "true: one scale per output channel of a weight; false: one scale per layer. Not set: true, false for DSP and X86.",
        example="true",
    )
    activation_bits: Width = key(
        Kind.CHOICE,
        Width.EIGHT,
        "Bits of the activations that layers with integers read; inputs and outputs of the network always have 8. "
        "With 4, activation_quant_method is MSE where it is not set.",
        choices=Width,
        formats=("ONNX",),
        is_ours=True,
    )
    target_device: TargetDevice = key(
        Kind.CHOICE,
        TargetDevice.CPU,
        "Device whose rules decide what is quantized and how.",
        choices=TargetDevice,
    )
    equalization: bool = key(
        Kind.BOOLEAN,
        True,
        "Rescale channels between neighbouring layers and before matrix products and convolutions, so that weights and "
        "activations use their grids evenly.",
        is_ours=True,
    )
    rounding: Rounding | None = key(
        Kind.CHOICE,
        None,
        f"{Rounding.meanings()} {_CANCELLING} Not set: ADAPTIVE with bias_correction and one scale per layer, or "
        "with less than 8 bits.",
        choices=Rounding,
        example="NEAREST",
        is_ours=True,
    )
    smooth_alpha: float = key(
        Kind.FLOAT,
        0.7,
        "Share of the spread between the channels of an activation that equalization and smoothing move into the "
        "weights behind it, where those have a scale per channel.",
        high=1,
        uses=_SMOOTHED_USES,
    )
    enable_smooth_shift: bool = key(
        Kind.BOOLEAN,
        False,
        "Centre activations before smoothing.",
        inert="activations are scaled only (smooth_alpha, equalization): their grids follow an offset anyway, and centred "
        "channels made a transformer less accurate",
    )


FULLY = section(
    FullQuantParam,
    "Full quantization: weights and activations.",
    (Use(FULL),),
)


@dataclass(frozen=True, slots=True)
class DynamicQuantParam:
    """``[dynamic_quant_param]``."""

    quant_strategy: DynamicQuantStrategy = key(
        Kind.CHOICE,
        DynamicQuantStrategy.ALWC,
        "ALWC: activations per layer, weights per channel; ACWL: activations per row, weights per layer.",
        choices=DynamicQuantStrategy,
    )
    smoothing: bool = key(
        Kind.BOOLEAN,
        True,
        "ALWC: spread between channels moves into the weights (without calibration data behind normalizations only); with "
        "data tensors with a few large rows get a scale per row. Both where that lowers the estimated noise.",
        is_ours=True,
    )
    rounding: Rounding | None = key(
        Kind.CHOICE,
        None,
        f"{Rounding.meanings()} Not set: ADAPTIVE where there are samples.",
        choices=Rounding,
        is_ours=True,
    )
    attention_operator: bool = key(
        Kind.BOOLEAN,
        True,
        "ONNX: attentions are written as one operator, which is faster. It belongs to operator set 23: "
        "false for runtimes older than onnxruntime 1.24.",
        formats=("ONNX",),
        is_ours=True,
    )
    recurrent_operator: bool = key(
        Kind.BOOLEAN,
        True,
        "ONNX: LSTMs of some size are written as onnxruntime's DynamicQuantizeLSTM, which computes with integers; false for "
        "other runtimes: only their weights are stored as integers.",
        formats=("ONNX",),
        is_ours=True,
    )


DYNAMICALLY = section(
    DynamicQuantParam,
    "Dynamic quantization: weights now, activations while the model runs.",
    (Use(DYNAMIC),),
)
