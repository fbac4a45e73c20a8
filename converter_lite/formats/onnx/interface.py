"""Device tables for a network whose inputs or outputs are to be integers.

The table for the CPU leaves in float what only moves or adds up elements beside a float input or output (the Transpose of a
picture whose channels come last, the Reshape of an output), the results of matrix products, layers that read a picture, and
whatever takes longer in integers. Where the user asks for integers at the interface, as cameras and accelerators have them, these
rules give way, one after the other and only as far as it takes. Beside what has no integer kernel (the Softmax of a classifier),
the input is dequantized first, and the output is quantized last.
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from converter_lite.passes.io_types import IoTypes, computed_input, computed_output
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.placement import decide_nodes, quantized_tensors
from converter_lite.quantization.settings import FullSettings
from converter_lite.targets.operands import FLOAT_TYPES
from converter_lite.targets.spec import TargetSpec

INTEGERS = {"INT8": True, "UINT8": False}
"""Types of integers -> whether they have a sign."""

NOTE = (
    "{}: layers at the interface compute with integers that would be {} in float; without the flag they stay float, and the "
    "inputs or outputs with them"
)


FLOAT_NOTE = "{}: {} quantized at the interface of the file only, beside layers that compute with floats"


def with_integer_interface(choice: Choice, model: ir.Model, asked: IoTypes) -> Choice:
    """The choice with a device table under which what is asked for is quantized.

    Integers of the other sign are quantized, too, and refused with the type that would be right.

    Args:
        choice: Full quantization for a device of the tables; others are returned as they are.
        model: The graph that will be quantized.
        asked: Types of inputs and outputs.
    """
    target, settings = choice.target, choice.settings
    flags = {"inputDataType": asked.inputs, "outputDataType": asked.outputs}
    wanted = [f"--{flag}={kind}" for flag, kind in flags.items() if kind in INTEGERS]
    if not wanted or not isinstance(settings, FullSettings) or not isinstance(target, TargetSpec):
        return choice
    is_right = all(INTEGERS.get(kind, target.activation.signed) is target.activation.signed for kind in flags.values())
    names = _names(model, asked)
    with_ends = replace(target, integer_ends=frozenset(names))
    without_stem = replace(with_ends, float_stem=None)
    candidates = {
        "": target,
        "as fast or more accurate": with_ends,
        "as fast and more accurate": without_stem,
        "faster or more accurate": replace(without_stem, costs=None),
    }
    best, why, missing = target, "", list(names)
    for reason, candidate in candidates.items():
        quantized = quantized_tensors(model, decide_nodes(model, candidate, settings.skip), candidate)
        left = [name for name in names if name not in quantized]
        if not reason or len(left) < len(missing):
            best, why, missing = candidate, reason, left
        if not missing:
            break
    notes = [NOTE.format(", ".join(wanted), why)] if why else []
    if missing:
        ends = ", ".join(names[name] for name in missing)
        notes.append(FLOAT_NOTE.format(", ".join(wanted), f"{ends} {'are' if missing[1:] else 'is'}"))
    best = replace(best, grid_ends=frozenset(names))
    return replace(choice, target=best, decided=tuple(notes if is_right else ()))


def _names(model: ir.Model, asked: IoTypes) -> dict[str, str]:
    """The float32 inside of inputs that are read and outputs that are computed which are to be integers -> its end's name."""
    inputs = [value for value in model.graph.inputs if asked.inputs in INTEGERS and value.uses()]
    outputs = [value for value in model.graph.outputs if asked.outputs in INTEGERS and value.producer() is not None]
    ends = [(computed_input(value), value) for value in inputs] + [(computed_output(value), value) for value in outputs]
    return {str(inner.name): str(value.name) for inner, value in ends if inner.dtype in FLOAT_TYPES}
