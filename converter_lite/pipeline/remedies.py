"""What helps when a result is not accurate enough, in the words of the command line and the configuration.

Users read messages where no documentation is installed, so hints name keys and commands, not pages.
"""

from __future__ import annotations

from converter_lite.quantization.choice import Choice
from converter_lite.quantization.settings import WIDE_BITS, DynamicSettings, FullSettings, WeightSettings

OTHER_METHODS = "activation_quant_method=KL, PERCENTILE or MSE in [full_quant_param]"
"""For activations with rare large values."""

_LOOK = "`converter_lite sensitivity` names the layers that do the damage"
_GATE = "--minCosine=X changes the gate"


def remedies(choice: Choice | None, *, is_real: bool) -> str:
    """The hint for a file that missed its quality gate.

    Args:
        choice: How it was quantized; ``None``: not at all.
        is_real: Whether there are calibration samples.
    """
    if choice is None:
        return _GATE
    goal = "" if choice.goal is not None else "target_cosine=X in [common_quant_param] leaves costly layers in float"
    return _joined(advice(choice, is_real=is_real), goal, _LOOK, _GATE)


def advice(choice: Choice, *, is_real: bool) -> str:
    """What makes the numbers better, whatever they are measured for; the arguments are those of :func:`remedies`."""
    return _joined(_of_data(choice, is_real=is_real), _of_kind(choice))


def _joined(*steps: str) -> str:
    return "; ".join(step for step in steps if step)


def _of_data(choice: Choice, *, is_real: bool) -> str:
    if is_real:
        return "make sure that samples are prepared as for the training (--preview=DIR shows pictures)"
    if isinstance(choice.settings, FullSettings):
        return ""
    return "give calibration data (calibrate_path in [data_preprocess_param])"


def _of_kind(choice: Choice) -> str:
    settings = choice.settings
    if isinstance(settings, WeightSettings):
        is_widest = settings.mixed is not None or settings.bits >= WIDE_BITS
        return "" if is_widest else "try a larger bit_num, or bit_num=0 for a width of each layer"
    if isinstance(settings, DynamicSettings):
        return "" if settings.weight_per_channel else "try quant_strategy=ALWC in [dynamic_quant_param]"
    if not settings.per_channel:
        return "try per_channel=true in [full_quant_param], where the device takes it"
    return f"try {OTHER_METHODS}" if settings.method == "MAX_MIN" else ""
