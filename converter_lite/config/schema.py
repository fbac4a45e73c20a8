"""The table of all sections and keys.

Parser, messages, templates, the documentation's tables and the tests are made from ``SECTIONS``. A new key is one row here and
one attribute in :mod:`converter_lite.config.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from converter_lite.config.keys import Condition, Key, Kind, Section, Use
from converter_lite.config.names import (
    ActivationQuantMethod,
    DequantStrategy,
    DynamicQuantStrategy,
    ExportPrecisionMode,
    ImageFormat,
    InputType,
    Provider,
    QuantType,
    ResizeMethod,
    Rounding,
    Switch,
    TargetDevice,
    WeightQuantStrategy,
)

WEIGHT = QuantType.WEIGHT_QUANT
FULL = QuantType.FULL_QUANT
DYNAMIC = QuantType.DYNAMIC_QUANT

_IMAGES = Condition("data_preprocess_param", "input_type", InputType.IMAGE)
_MIXED = Condition("common_quant_param", "bit_num", 0)
_AUTO_TUNE = Condition("mixed_bit_weight_quant_param", "auto_tune", True)
_ON_THE_FLY = Condition("weight_quant_param", "dequant_strategy", DequantStrategy.ON_THE_FLY)

EVERY_CONVERSION: tuple[Use, ...] = ()
"""Uses of sections that have an effect without quantization, too."""

_EVERY_TYPE = (Use(WEIGHT), Use(FULL), Use(DYNAMIC))
_IMAGE_USES = tuple(Use(quant_type, when=(_IMAGES,)) for quant_type in QuantType)
_AUTO_TUNE_USES = (Use(WEIGHT, when=(_MIXED, _AUTO_TUNE)),)
_PORTABLE_USES = (Use(FULL, (TargetDevice.CPU, TargetDevice.X86)), Use(DYNAMIC))
_CANCELLING = "With bias_correction errors of NEAREST cancel within a layer."
_FILTER_USES = (Use(WEIGHT), Use(FULL, (TargetDevice.ASCEND,)))

_COMMON = Section(
    "common_quant_param",
    "What to quantize, for every quantization type.",
    (
        Key("quant_type", Kind.CHOICE, None, "Kind of quantization. Required.", choices=QuantType),
        Key(
            "bit_num",
            Kind.INTEGER,
            8,
            "Bits of a quantized weight. WEIGHT_QUANT: 1 to 16, or 0 to search the width of each layer (mixed bits); "
            "FULL_QUANT and DYNAMIC_QUANT: 8.",
            high=16,
        ),
        Key(
            "min_quant_weight_size",
            Kind.INTEGER,
            0,
            "A weight is quantized only if it has more elements than this.",
            uses=_FILTER_USES,
        ),
        Key(
            "min_quant_weight_channel",
            Kind.INTEGER,
            16,
            "A convolution weight is quantized only if it has more output channels than this (.nb files: 0 where it is not "
            "written, as in Paddle-Lite).",
            uses=_FILTER_USES,
        ),
        Key(
            "skip_quant_node",
            Kind.NAMES,
            (),
            "Nodes that stay in float, separated by commas: names, patterns of names (`conv_*`) or ONNX operators (Softmax); "
            "a name in single quotes may hold commas.",
            example="conv_1,add_8",
        ),
        Key(
            "target_cosine",
            Kind.FLOAT,
            None,
            "Cosine with the float model that every output must reach on calibration samples. Layers that cost the most are "
            "left in float (16-bit weights with WEIGHT_QUANT) until it holds; --fp16=on stores the weights of these layers as "
            "float16.",
            high=1,
            example="0.99",
            is_ours=True,
        ),
        Key(
            "target_error",
            Kind.FLOAT,
            None,
            "The same for the largest absolute error of any output value: detectors err in few values, which a cosine hardly "
            "shows.",
            example="0.1",
            is_ours=True,
        ),
        Key(
            "max_float_nodes",
            Kind.INTEGER,
            0,
            "Layers that target_cosine and target_error may leave in float; 0 = no limit.",
            is_ours=True,
        ),
        Key(
            "portable",
            Kind.BOOLEAN,
            True,
            "ONNX: weights are chosen so that no integer kernel of an x86 processor can saturate, and the file gives the same "
            "numbers on all of them. false: the full grid, for processors that are known to have VNNI.",
            uses=_PORTABLE_USES,
            is_ours=True,
            formats=("ONNX",),
        ),
        Key(
            "debug_info_save_path",
            Kind.TEXT,
            None,
            "Folder for the accuracy reports (CSV and report.html); it is made if missing. Not set: no reports.",
            example="quant_report",
        ),
        Key(
            "enable_encode",
            Kind.BOOLEAN,
            True,
            "Store weights in the smallest encoding that the output format has. May be false with 8 and 16 bits only.",
            uses=(Use(WEIGHT),),
            formats=("MINDIR_LITE",),
        ),
        Key(
            "workspace",
            Kind.TEXT,
            None,
            "Folder for temporary models above 2 GB.",
            inert="tensors stay in their files, no temporary model is written",
            example="workspace",
        ),
    ),
    _EVERY_TYPE,
)

_WEIGHT = Section(
    "weight_quant_param",
    "Weight quantization with a fixed number of bits.",
    (
        Key(
            "dequant_strategy",
            Kind.CHOICE,
            None,
            "ON_THE_FLY: weights become float at every run, which takes less memory and more time. Not set: once, when a "
            "runtime loads the file.",
            choices=DequantStrategy,
            formats=("ONNX",),
        ),
        Key("per_channel", Kind.BOOLEAN, True, "true: one scale per output channel; false: one scale per layer."),
        Key("bias_correction", Kind.BOOLEAN, True, "Correct the mean and the spread that rounding changes."),
        Key(
            "quant_strategy",
            Kind.CHOICE,
            WeightQuantStrategy.MAX_MIN,
            "MAX_MIN: the grid spans the extremes of the weight; GPTQ: the same with rounding=ADAPTIVE.",
            choices=WeightQuantStrategy,
        ),
        Key(
            "rounding",
            Kind.CHOICE,
            None,
            f"{Rounding.meanings()} {_CANCELLING} Not set: ADAPTIVE with less than 8 bits where there are samples.",
            choices=Rounding,
            example="ADAPTIVE",
            is_ours=True,
        ),
        Key(
            "update_mindir",
            Kind.BOOLEAN,
            True,
            "Update a MindIR model in place.",
            inert="the input model is never changed",
        ),
        Key(
            "max_segments",
            Kind.INTEGER,
            1,
            "Segments in which the original quantizes a model.",
            low=1,
            inert="tensors are processed one by one whatever the size of the model",
        ),
    ),
    (Use(WEIGHT),),
)

_MIXED_BIT = Section(
    "mixed_bit_weight_quant_param",
    "Weight quantization with a width per layer (bit_num=0).",
    (
        Key(
            "init_scale",
            Kind.FLOAT,
            0.02,
            "Relative error that each layer may have: larger gives smaller files and larger errors.",
            high=1,
        ),
        Key(
            "auto_tune",
            Kind.BOOLEAN,
            False,
            "Search the smallest file with an output cosine of 0.995. With calibration data and neither this nor init_scale "
            "written: of 0.99.",
        ),
        Key(
            "use_cv_data",
            Kind.BOOLEAN,
            False,
            "Search on drawn pictures where there is no calibration data; those of one or three channels look like noise "
            "with the spectrum of photographs.",
            uses=_AUTO_TUNE_USES,
        ),
        Key(
            "max_iterations", Kind.INTEGER, 40, "Networks that the search tries at most.", low=40, uses=_AUTO_TUNE_USES
        ),
    ),
    (Use(WEIGHT, when=(_MIXED,)),),
)

_FULL = Section(
    "full_quant_param",
    "Full quantization: weights and activations.",
    (
        Key(
            "activation_quant_method",
            Kind.CHOICE,
            ActivationQuantMethod.MAX_MIN,
            f"How the range of an activation is found. {ActivationQuantMethod.meanings()}",
            choices=ActivationQuantMethod,
            aliases=(("RemovalOutlier", "REMOVAL_OUTLIER"),),
        ),
        Key("bias_correction", Kind.BOOLEAN, True, "Correct the mean error of each output channel in the bias."),
        Key(
            "per_channel",
            Kind.BOOLEAN,
            None,
            "true: one scale per output channel of a weight; false: one scale per layer. Not set: true, false for DSP.",
            example="true",
        ),
        Key(
            "target_device",
            Kind.CHOICE,
            TargetDevice.CPU,
            "Device whose rules decide what is quantized and how.",
            choices=TargetDevice,
        ),
        Key(
            "equalization",
            Kind.BOOLEAN,
            True,
            "Rescale channels between neighbouring layers and before matrix products, so that weights and activations use "
            "their grids evenly.",
            is_ours=True,
        ),
        Key(
            "rounding",
            Kind.CHOICE,
            None,
            f"{Rounding.meanings()} {_CANCELLING} Not set: ADAPTIVE with one scale per layer and bias_correction.",
            choices=Rounding,
            example="NEAREST",
            is_ours=True,
        ),
        Key(
            "smooth_alpha",
            Kind.FLOAT,
            0.7,
            "Share of the spread between the channels of an activation that equalization and smoothing move into the "
            "weights behind it.",
            high=1,
        ),
        Key(
            "enable_smooth_shift",
            Kind.BOOLEAN,
            False,
            "Centre activations before smoothing.",
            inert="activations are scaled only (smooth_alpha, equalization): their grids follow an offset anyway, and centred "
            "channels made a transformer less accurate",
        ),
    ),
    (Use(FULL),),
)

_DATA = Section(
    "data_preprocess_param",
    "Calibration data. FULL_QUANT needs them; other types use them for bias correction, rounding and the accuracy table.",
    (
        Key(
            "calibrate_path",
            Kind.DIRECTORIES,
            (),
            "Model input and folder of its samples; one pair per input, separated by commas. The last colon of a pair "
            "separates; a folder in single quotes may hold colons and commas. Relative folders start at the working "
            "directory.",
            example="input:samples/calibration",
        ),
        Key("calibrate_size", Kind.INTEGER, None, "Number of samples, 1 to 65535; 100 to 500 are usual.", low=1),
        Key(
            "input_type",
            Kind.CHOICE,
            None,
            "IMAGE: pictures; BIN: raw bytes of the input tensor, in the order that inputDataFormat says.",
            choices=InputType,
        ),
        Key(
            "image_to_format",
            Kind.CHOICE,
            None,
            "Channel order that the model expects. Not set: BGR.",
            choices=ImageFormat,
            uses=_IMAGE_USES,
            example="RGB",
        ),
        Key(
            "normalize_mean",
            Kind.NUMBERS,
            (),
            "Normalization comes first: (pixel - mean) / std, with pixels 0 to 255; three numbers, one for GRAY.",
            uses=_IMAGE_USES,
            example="[127.5, 127.5, 127.5]",
        ),
        Key(
            "normalize_std",
            Kind.NUMBERS,
            (),
            "As many numbers as normalize_mean, none of them 0.",
            uses=_IMAGE_USES,
            example="[127.5, 127.5, 127.5]",
        ),
        Key("resize_width", Kind.INTEGER, None, "Width after resizing.", low=1, uses=_IMAGE_USES, example="64"),
        Key("resize_height", Kind.INTEGER, None, "Height after resizing.", low=1, uses=_IMAGE_USES, example="64"),
        Key(
            "resize_method",
            Kind.CHOICE,
            None,
            "Interpolation, half-pixel centres, without antialiasing.",
            choices=ResizeMethod,
            uses=_IMAGE_USES,
        ),
        Key(
            "center_crop_width",
            Kind.INTEGER,
            None,
            "Width of the middle part that is cut out after resizing.",
            low=1,
            uses=_IMAGE_USES,
            example="64",
        ),
        Key(
            "center_crop_height",
            Kind.INTEGER,
            None,
            "Height of the middle part.",
            low=1,
            uses=_IMAGE_USES,
            example="64",
        ),
    ),
    _EVERY_TYPE,
    together=(
        ("normalize_mean", "normalize_std"),
        ("resize_width", "resize_height", "resize_method"),
        ("center_crop_width", "center_crop_height"),
    ),
)

_DYNAMIC = Section(
    "dynamic_quant_param",
    "Dynamic quantization: weights now, activations while the model runs.",
    (
        Key(
            "quant_strategy",
            Kind.CHOICE,
            DynamicQuantStrategy.ALWC,
            "ALWC: activations per layer, weights per channel; ACWL: activations per row, weights per layer.",
            choices=DynamicQuantStrategy,
        ),
        Key(
            "smoothing",
            Kind.BOOLEAN,
            True,
            "ALWC: spread between channels moves into the weights (without calibration data behind normalizations only); with "
            "data tensors with a few large rows get a scale per row. Both where that lowers the estimated noise.",
            is_ours=True,
        ),
        Key(
            "rounding",
            Kind.CHOICE,
            None,
            f"{Rounding.meanings()} Not set: ADAPTIVE where there are samples.",
            choices=Rounding,
            is_ours=True,
        ),
        Key(
            "attention_operator",
            Kind.BOOLEAN,
            True,
            "ONNX: attentions are written as one operator, which is faster. It belongs to operator set 23: "
            "false for runtimes older than onnxruntime 1.24.",
            formats=("ONNX",),
            is_ours=True,
        ),
    ),
    (Use(DYNAMIC),),
)

_ASCEND = Section(
    "ascend_context",
    "Ascend devices: full quantization with target_device=ASCEND, or weights with dequant_strategy=ON_THE_FLY.",
    (
        Key("provider", Kind.CHOICE, None, "Graph engine of the device.", choices=Provider),
        Key(
            "input_shape",
            Kind.SHAPES,
            (),
            "Shape of each input, separated by semicolons; -1 is a dimension that varies.",
            example="input:[-1,3,64,64]",
        ),
        Key(
            "dynamic_dims",
            Kind.DIM_RANGES,
            (),
            "Sizes that the varying dimensions may take: one bracket per combination, a~b for a range.",
            example="[1~4],[8],[16]",
        ),
    ),
    (Use(FULL, (TargetDevice.ASCEND,)), Use(WEIGHT, when=(_ON_THE_FLY,))),
    is_quantization=False,
    foreign_keys=dict.fromkeys(
        (
            *("input_format", "output_type", "precision_mode", "op_select_impl_mode", "fusion_switch_config_file_path"),
            *("insert_op_config_file_path", "dynamic_batch_size", "dynamic_image_size", "buffer_optimize", "device_id"),
            *(
                "rank_id",
                "rank_table_file",
                "om_file_path",
                "aoe_mode",
                "profiling_path",
                "dump_path",
                "custom_opp_path",
            ),
            *(
                "plugin_custom_ops",
                "enable_custom_fusion_pattern",
                "disable_custom_fusion_pattern",
                "input_shape_vector",
            ),
            *("parameter_as_refdata", "variable_weights_file", "max_weight_batch"),
        ),
        "concerns the device runtime: no effect here",
    )
    | {
        "stream_label_file": "says on which stream of the device a node runs, which no file that is written here can hold: "
        "no effect",
    },
)

_TRANSFORM = Section(
    "transform_quant_param",
    "Models that are quantized already.",
    (
        Key(
            "export_precision_mode",
            Kind.CHOICE,
            ExportPrecisionMode.QUANT,
            "QUANT: keep them quantized; FLOAT32: write the real numbers that their integers stand for, and compute in float.",
            choices=ExportPrecisionMode,
        ),
    ),
    EVERY_CONVERSION,
    is_quantization=False,
)

_REGISTRY = Section(
    "registry",
    "Rewrites of the graph.",
    (
        Key("disable_fusion", Kind.CHOICE, Switch.OFF, "on: as `--optimize=none`.", choices=Switch),
        Key(
            "fusion_blacklists",
            Kind.NAMES,
            (),
            "Rewrites that are left out, separated by commas; ours (`-v` prints them) or those of the original.",
            example="ConvBatchNormFusion",
        ),
    ),
    EVERY_CONVERSION,
    is_quantization=False,
    foreign_keys={
        "plugin_path": "plugins are libraries for the original's own parsers and operators, which do not run here: no effect"
    },
)

SECTIONS: tuple[Section, ...] = (_COMMON, _WEIGHT, _MIXED_BIT, _FULL, _DATA, _DYNAMIC, _ASCEND, _TRANSFORM, _REGISTRY)

_DEVICE_ONLY = "the section sets up a device's own compiler or runtime, which reads its own file: no effect here"

FOREIGN_SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "micro_param": "no C code is generated: models are written as files for the runtimes",
        "model_param": "the section is not about quantization: no effect",
        "third_party_model": "the section is not about quantization: no effect",
        **dict.fromkeys(
            ("cpu_option_cfg_param", "graph_kernel_param", "gpu_context", "acl_option_cfg_param"), _DEVICE_ONLY
        ),
        **dict.fromkeys(
            ("acl_init_options", "acl_build_options", "aoe_global_options", "aoe_tuning_options"), _DEVICE_ONLY
        ),
        **dict.fromkeys(("ge_global_options", "ge_session_options", "ge_graph_options"), _DEVICE_ONLY),
    }
)
"""Sections of the original that are not about quantization: known, accepted, and why they have no effect."""


def find_section(name: str) -> Section | None:
    """The section of this name."""
    return next((section for section in SECTIONS if section.name == name), None)


def sections_with(key: str) -> tuple[str, ...]:
    """Names of the sections that have a key of this name."""
    return tuple(section.name for section in SECTIONS if section.find(key))
