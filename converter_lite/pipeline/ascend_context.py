"""``[ascend_context]``: shapes of an Ascend model whose inputs have dynamic dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from converter_lite.config.names import QuantType, TargetDevice
from converter_lite.config.sections.surroundings import AscendContext
from converter_lite.config.settings import QuantizationConfig
from converter_lite.config.shapes import DYNAMIC_DIM
from converter_lite.errors import ConfigError, UsageError, did_you_mean
from converter_lite.passes.input_shapes import fix_input_shapes


def effective_context(config: QuantizationConfig | None) -> AscendContext | None:
    """The section, if it gives shapes and applies to this quantization (otherwise the parser warns that it has no effect)."""
    if config is None or not config.ascend_context.input_shape:
        return None
    quant_type = config.common_quant_param.quant_type
    is_full = quant_type is QuantType.FULL_QUANT and config.full_quant_param.target_device is TargetDevice.ASCEND
    is_weight = quant_type is QuantType.WEIGHT_QUANT and config.weight_quant_param.dequant_strategy is not None
    return config.ascend_context if is_full or is_weight else None


def apply_ascend_context(
    model: ir.Model, context: AscendContext, calibration_shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Fix the static dimensions that ``input_shape`` gives; dimensions of -1 stay dynamic in the result.

    Args:
        model: Changed in place.
        context: The section.
        calibration_shapes: ``--inputShape``: the shapes of the calibration samples, which must lie within ``dynamic_dims``.

    Raises:
        ConfigError: An input is unknown, a rank or a fixed size differs, or a calibration size is outside its range.
        UsageError: ``calibration_shapes`` names no input.
    """
    known = {value.name or "" for value in model.graph.inputs}
    for name in calibration_shapes:
        if name not in known:
            raise UsageError(f"the model has no input {name!r}{did_you_mean(name, known)}", where="--inputShape")
    for name, dims in context.input_shape:
        if name not in known:
            raise ConfigError(
                f"the model has no input called {name!r}{did_you_mean(name, known)}",
                where="[ascend_context] input_shape",
            )
        given = calibration_shapes.get(name)
        if given is not None:
            _check(name, dims, given)
    if context.input_shape:
        fix_input_shapes(model, dict(context.input_shape))
    sizes = [
        given[i]
        for name, dims in context.input_shape
        if (given := calibration_shapes.get(name)) is not None
        for i, size in enumerate(dims)
        if size == DYNAMIC_DIM
    ]
    if (
        sizes
        and context.dynamic_dims
        and not any(
            all(r.low <= size <= r.high for r, size in zip(gear, sizes, strict=False)) for gear in context.dynamic_dims
        )
    ):
        raise ConfigError(
            f"the calibration size {sizes} is in none of the ranges of dynamic_dims",
            where="[ascend_context] dynamic_dims",
            hint="change --inputShape or the ranges",
        )


def _check(name: str, dims: tuple[int, ...], given: tuple[int, ...]) -> None:
    if len(dims) != len(given) or any(d not in (DYNAMIC_DIM, size) for d, size in zip(dims, given, strict=False)):
        raise ConfigError(
            f"--inputShape {list(given)} of {name} does not fit {list(dims)}", where="[ascend_context] input_shape"
        )
