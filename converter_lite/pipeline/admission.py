"""Which models a configuration can be for, and what is done to them before anything else."""

from __future__ import annotations

from converter_lite.config.names import ExportPrecisionMode
from converter_lite.config.settings import QuantizationConfig
from converter_lite.errors import ConfigError, ModelError, UsageError
from converter_lite.formats.source import Source
from converter_lite.log import Log
from converter_lite.passes.input_values import FLAG, fix_input_values
from converter_lite.passes.output_layout import change_output_layout
from converter_lite.passes.pipeline import settle
from converter_lite.pipeline.ascend_context import apply_ascend_context, effective_context
from converter_lite.pipeline.request import CHANNELS_LAST, ConvertRequest


def admitted(
    source: Source, request: ConvertRequest, config: QuantizationConfig | None, log: Log
) -> tuple[Source, QuantizationConfig | None]:
    """The model as it is to be converted, and the configuration that then holds.

    Args:
        source: As it was read; its graph is changed in place.
        request: Says whether a model that cannot be quantized is an error.
        config: ``None`` for a float conversion.
        log: Hears of what has no effect.

    Raises:
        ModelError: It is quantized already, and is to be quantized.
        ConfigError: It is not, and only a quantized one could be meant.
        UsageError: Its outputs cannot get another layout, or its inputs not the values that were given.
    """
    if config is not None:
        source = _in_wanted_precision(source, config, log)
    if request.input_value:
        _check_fixed_inputs(request, config)
        _fix_values(source, request)
    _lay_out(source, request, log)
    if source.is_quantized and config is not None and config.common_quant_param.quant_type is not None:
        if request.quantize_if_possible:
            log.warning("the model is quantized already and stays as it is")
            return source, None
        raise ModelError(
            "the model is quantized already",
            where=source.where,
            hint="start from the float model, convert without a quantization section, or set "
            "[transform_quant_param] export_precision_mode=FLOAT32",
        )
    context = effective_context(config)
    if context is not None:
        apply_ascend_context(source.model, context, request.input_shape)
    return source, config


def _in_wanted_precision(source: Source, config: QuantizationConfig, log: Log) -> Source:
    if config.transform_quant_param.export_precision_mode is ExportPrecisionMode.FLOAT32:
        if source.is_quantized:
            log.info("the model is written with the real numbers that its integers stand for")
            return source.in_float()
        log.warning(
            f"{config.location('transform_quant_param', 'export_precision_mode')}: has no effect: the model is not quantized"
        )
    is_bare = config.common_quant_param.quant_type is None and config.given("weight_quant_param", "dequant_strategy")
    if is_bare and not source.is_quantized:
        raise ConfigError(
            "the model is not quantized, and there is no quant_type",
            where=config.location("weight_quant_param", "dequant_strategy"),
            hint="set quant_type=WEIGHT_QUANT in [common_quant_param]",
        )
    return source


def _check_fixed_inputs(request: ConvertRequest, config: QuantizationConfig | None) -> None:
    """Refuse samples and sizes for inputs whose values were given."""
    folders = config.data_preprocess_param.calibrate_path if config is not None and config.data_preprocess_param else ()
    given = {"calibrate_path": [name for name, _ in folders], "--inputShape": list(request.input_shape)}
    for where, names in given.items():
        for name in (name for name in names if name in request.input_value):
            raise UsageError(f"input '{name}' has the value of {FLAG}", where=where, hint="leave it out, here or there")


def _fix_values(source: Source, request: ConvertRequest) -> None:
    """Make constants of the inputs whose values were given."""
    if source.is_quantized:
        raise UsageError(
            "the inputs of a model that is quantized already stay", where=FLAG, hint="start from the float model"
        )
    fix_input_values(source.model, request.input_value)
    settle(
        source.model
    )  # onnxruntime 1.32 ends the process where it finds the condition of an If to be constant itself


def _lay_out(source: Source, request: ConvertRequest, log: Log) -> None:
    """Give the outputs the layout that was asked for."""
    wanted = request.output_data_format
    if not wanted:
        return
    flag = f"--outputDataFormat={wanted}"
    if wanted == ("NHWC" if request.fmk in CHANNELS_LAST else "NCHW"):
        log.warning(f"{flag} has no effect: {request.fmk} models have this layout")
    elif source.is_quantized:
        raise UsageError(
            "the outputs of a model that is quantized already keep their layout",
            where=flag,
            hint="start from the float model",
        )
    elif not change_output_layout(source.model, wanted):
        log.warning(f"{flag} has no effect: no output is known to have four dimensions")
