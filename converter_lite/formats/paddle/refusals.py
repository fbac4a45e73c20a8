"""What neither of Paddle's file formats has."""

from __future__ import annotations

from collections.abc import Iterable

from converter_lite.errors import ConfigError, UsageError
from converter_lite.passes.io_types import IoTypes
from converter_lite.quantization.blocks import refuse_onnx_only
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.settings import DynamicSettings


def refuse_other_types(asked: IoTypes, file: str) -> None:
    """Inputs and outputs keep the model's types; real numbers are FLOAT.

    Raises:
        UsageError: Others are asked for.
    """
    for kind, word in (("input", asked.inputs), ("output", asked.outputs)):
        if word not in ("DEFAULT", "FLOAT"):
            raise UsageError(
                f"{kind}s of {file} keep the model's types, and cannot become {word}",
                where=f"--{kind}DataType={word}",
                hint="leave it at DEFAULT, or use --saveType=ONNX",
            )


def refuse_choice(choice: Choice, devices: Iterable[str], file: str) -> None:
    """Integers are those of certain devices, and scales are computed before the file is written.

    Raises:
        ConfigError: The configuration names another device, or asks for dynamic quantization.
    """
    if choice.target.name not in devices:
        raise ConfigError(
            f"{file} cannot follow the rules of {choice.target.name}",
            where="[full_quant_param] target_device",
            hint="use --saveType=ONNX, or leave the key out",
        )
    refuse_onnx_only(choice.settings, file)
    if isinstance(choice.settings, DynamicSettings):
        raise ConfigError(f"{file} has no dynamic quantization", hint="use WEIGHT_QUANT or FULL_QUANT")
