"""Sections on what surrounds quantization: a device's compiler, models that came quantized, rewrites of the graph."""

from __future__ import annotations

from dataclasses import dataclass

from converter_lite.config.keys import EVERY_CONVERSION, FULL, WEIGHT, Condition, Kind, Use, key, section
from converter_lite.config.names import DequantStrategy, ExportPrecisionMode, Provider, Switch, TargetDevice
from converter_lite.config.shapes import DimRange, InputShape

_ON_THE_FLY = Condition("weight_quant_param", "dequant_strategy", DequantStrategy.ON_THE_FLY)


@dataclass(frozen=True, slots=True)
class AscendContext:
    """``[ascend_context]``; each entry of ``dynamic_dims`` gives one range per dynamic dimension of ``input_shape``."""

    provider: Provider | None = key(
        Kind.CHOICE,
        None,
        "Graph engine of the device.",
        choices=Provider,
    )
    input_shape: tuple[InputShape, ...] = key(
        Kind.SHAPES,
        (),
        "Shape of each input, separated by semicolons; -1 is a dimension that varies.",
        example="input:[-1,3,64,64]",
    )
    dynamic_dims: tuple[tuple[DimRange, ...], ...] = key(
        Kind.DIM_RANGES,
        (),
        "Sizes that the varying dimensions may take: one bracket per combination, a~b for a range.",
        example="[1~4],[8],[16]",
    )


ASCEND = section(
    AscendContext,
    "Ascend devices: full quantization with target_device=ASCEND, or weights with dequant_strategy=ON_THE_FLY.",
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


@dataclass(frozen=True, slots=True)
class TransformQuantParam:
    """``[transform_quant_param]``."""

    export_precision_mode: ExportPrecisionMode = key(
        Kind.CHOICE,
        ExportPrecisionMode.QUANT,
        "QUANT: keep them quantized; FLOAT32: write the real numbers that their integers stand for, and compute in float.",
        choices=ExportPrecisionMode,
    )


TRANSFORM = section(
    TransformQuantParam,
    "Models that are quantized already.",
    EVERY_CONVERSION,
    is_quantization=False,
)


@dataclass(frozen=True, slots=True)
class Registry:
    """``[registry]``."""

    disable_fusion: Switch = key(
        Kind.CHOICE,
        Switch.OFF,
        "on: as `--optimize=none`.",
        choices=Switch,
    )
    fusion_blacklists: tuple[str, ...] = key(
        Kind.NAMES,
        (),
        "Rewrites that are left out, separated by commas; ours (`-v` prints them) or those of the original.",
        example="ConvBatchNormFusion",
    )


REGISTRY = section(
    Registry,
    "Rewrites of the graph.",
    EVERY_CONVERSION,
    is_quantization=False,
    foreign_keys={
        "plugin_path": "plugins are libraries for the original's own parsers and operators, which do not run here: no effect"
    },
)
