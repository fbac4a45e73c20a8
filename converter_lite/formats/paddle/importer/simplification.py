"""Rewrites of a Paddle program before it becomes a graph: normalizations and biases are folded into the operator before them.

This is done here and not on the graph so that integer weights keep their integers: a normalization scales the steps of the
channels, and flips the sign of those whose factor is negative.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle.importer.images import PLANAR
from converter_lite.formats.paddle.program import Operator, Program, floats
from converter_lite.kernels.quantize import along_axis

Parameters = dict[str, NDArray[Any]]

CONVOLUTIONS = ("conv2d", "depthwise_conv2d")

FOLDABLE = 1e15
"""Magnitude from which numbers are not folded: products of two of them overflow float32."""


def simplify(program: Program, parameters: Parameters) -> tuple[Program, Parameters]:
    """The same function with fewer operators: identities removed, parameters reshaped, batch_norm and bias folded in."""
    parameters = dict(parameters)
    operators = _reshape_parameters(_without_identities(program.main.operators), parameters)
    operators = _fold_into_convolutions(operators, parameters)
    main = program.main
    block = type(main)(main.index, main.parent, list(main.variables), operators, main.forward)
    return Program([block, *program.blocks[1:]], program.version), parameters


def _without_identities(operators: list[Operator]) -> list[Operator]:
    """Drop operators that copy, unless a copy is all that stands between an input and an output."""
    written = Counter(name for op in operators for names in op.outputs.values() for name in names)
    renamed: dict[str, str] = {}
    fed = {op.output("Out") for op in operators if op.type == "feed"}
    fetched = {op.input("X") for op in operators if op.type == "fetch"}
    kept: list[Operator] = []
    producers: dict[str, Operator] = {}
    for op in operators:
        inputs = {slot: [renamed.get(name, name) for name in names] for slot, names in op.inputs.items()}
        attributes = dict(op.attributes) if op.type in CONVOLUTIONS else op.attributes  # of others nothing is changed
        copy = Operator(op.type, inputs, {s: list(n) for s, n in op.outputs.items()}, attributes)
        source, result = copy.input("X"), copy.output("Out")
        if source and result and _is_identity(op) and written[result] == 1 and written[source] <= 1:
            if result not in fetched:
                renamed[result] = source
                continue
            producer = producers.get(source)
            if producer is not None and source not in fed and source not in fetched:
                _rename_output(producer, source, result)
                _rename_inputs(kept, source, result)
                renamed |= {name: result for name, target in renamed.items() if target == source}
                renamed[source] = result
                producers[result] = producer
                continue
        kept.append(copy)
        producers.update({name: copy for names in copy.outputs.values() for name in names})
    return kept


def _reshape_parameters(operators: list[Operator], parameters: Parameters) -> list[Operator]:
    """Reshape parameters beforehand. One that nothing else reads keeps its name."""
    readers = Counter(name for op in operators for names in op.inputs.values() for name in names)
    writers = Counter(name for op in operators for names in op.outputs.values() for name in names)
    kept: list[Operator] = []
    renamed: dict[str, str] = {}
    for op in operators:
        op.inputs = {slot: [renamed.get(name, name) for name in names] for slot, names in op.inputs.items()}
        name, result = op.input("X"), op.output("Out")
        array = parameters.get(name or "")
        reshaped = None if array is None or writers[str(result)] != 1 else _reshaped(op, array)
        if name is None or result is None or reshaped is None:
            kept.append(op)
        elif readers[name] > 1:
            parameters[result] = reshaped
        else:
            parameters[name] = reshaped
            renamed[result] = name
    return kept


def _reshaped(op: Operator, array: NDArray[Any]) -> NDArray[Any] | None:
    """A parameter as an operator reshapes it; ``None`` if that is not all it does, or its shape is computed."""
    if any(op.inputs.get(slot) for slot in ("Shape", "ShapeTensor", "AxesTensor", "AxesTensorList")):
        return None
    if op.type in ("reshape", "reshape2") and 0 not in op.get("shape", (0,)):
        return array.reshape(op.get("shape"))
    if op.type in ("unsqueeze", "unsqueeze2") and _are_places(op.get("axes", ())):
        return np.expand_dims(array, op.get("axes"))
    return None


def _are_places(axes: tuple[int, ...]) -> bool:
    """Whether inserting axes one by one and all at once are the same."""
    return len(axes) == 1 or (len(axes) > 1 and min(axes) >= 0 and list(axes) == sorted(set(axes)))


def _is_identity(op: Operator) -> bool:
    if op.type == "scale":
        plain = not op.inputs.get("ScaleTensor") and not op.get("activation_type") and not op.get("fuse_scaleact")
        return plain and op.get("scale", 1.0) == 1.0 and op.get("bias", 0.0) == 0.0
    if op.type == "dropout" and op.get("is_test", True):
        return bool(op.get("dropout_implementation", "") == "upscale_in_train" or op.get("dropout_prob", 0.5) == 0)
    return op.type == "assign"


def _rename_output(op: Operator, old: str, new: str) -> None:
    op.outputs = {slot: [new if name == old else name for name in names] for slot, names in op.outputs.items()}


def _rename_inputs(operators: list[Operator], old: str, new: str) -> None:
    for op in operators:
        op.inputs = {slot: [new if name == old else name for name in names] for slot, names in op.inputs.items()}


def _fold_into_convolutions(operators: list[Operator], parameters: Parameters) -> list[Operator]:
    readers = Counter(name for op in operators for names in op.inputs.values() for name in names)
    writers = Counter(name for op in operators for names in op.outputs.values() for name in names)
    producers: dict[str, Operator] = {}
    kept: list[Operator] = []
    for op in operators:
        source = op.input("X")
        producer = producers.get(source or "")
        if source is not None and producer is not None and readers[source] == 1 and writers[source] == 1:
            folded = _fold_batch_norm(producer, op, parameters, readers) or _fold_bias(producer, op, parameters)
            if folded is not None:
                producer.outputs["Output"] = [folded]
                producers[folded] = producer
                continue
        kept.append(op)
        output = op.output("Output")
        if op.type in CONVOLUTIONS and output is not None and not op.get("with_act") and not op.get("fuse_relu"):
            producers[output] = op
    return kept


def _fold_batch_norm(conv: Operator, op: Operator, parameters: Parameters, readers: Counter[str]) -> str | None:
    """Fold a normalization; returns the name of its result, or ``None`` if that cannot be done."""
    weight = conv.input("Filter")
    arrays = [parameters.get(op.input(slot) or "") for slot in ("Scale", "Bias", "Mean", "Variance")]
    if op.type != "batch_norm" or weight is None or readers[weight] != 1 or any(a is None for a in arrays):
        return None
    if _is_planar(op) != _is_planar(conv):
        return None
    numbers = [array.astype(np.float32, copy=False) for array in arrays if array is not None]
    filters = parameters.get(weight)
    if filters is None or any(array.shape != filters.shape[:1] for array in numbers):
        return None
    if not all(np.all(np.abs(array) < FOLDABLE) for array in (*numbers, filters)):  # NaN is not below it either
        return None
    scale, bias, mean, variance = (array.astype(np.float64) for array in numbers)
    spread = variance + float(op.get("epsilon", 1e-5))
    if not np.all(spread > 1e-30):
        return None
    factor = scale / np.sqrt(spread)
    before = parameters.get(conv.input("Bias") or "", np.zeros(scale.shape))
    shifted = (before - mean) * factor + bias
    if np.abs(factor).max(initial=0) > FOLDABLE or not np.all(np.abs(shifted) < FOLDABLE):
        return None
    _scale_filters(conv, weight, parameters, factor)
    _set_bias(conv, parameters, f"{weight}.bias", shifted.astype(np.float32))
    return op.output("Y")


def _scale_filters(conv: Operator, weight: str, parameters: Parameters, factor: NDArray[np.float64]) -> None:
    """Multiply output channels: floats directly; integers keep their magnitude, their steps take the factor."""
    filters = parameters[weight]
    if filters.dtype.kind == "f":
        spread = along_axis(factor, filters.ndim, 0)
        parameters[weight] = (filters.astype(np.float64) * spread).astype(np.float32)
        return
    signs = np.where(factor < 0, -1, 1).astype(np.int32)
    turned = np.clip(filters.astype(np.int32) * along_axis(signs, filters.ndim, 0), -127, 127).astype(filters.dtype)
    steps = np.broadcast_to(np.asarray(conv.get("Filter0_scale", (1.0,)), np.float64), factor.shape)
    scaled = (steps * np.abs(factor)).astype(np.float32)
    dead = scaled <= np.finfo(np.float32).tiny  # a channel that the normalization switches off
    turned[dead] = 0
    parameters[weight] = turned
    conv.attributes["Filter0_scale"] = floats(np.where(dead, np.float32(1), scaled))


def _fold_bias(conv: Operator, op: Operator, parameters: Parameters) -> str | None:
    """Fold the addition of a constant per channel; returns the name of its result, or ``None``."""
    vector = parameters.get(op.input("Y") or "")
    filters = parameters.get(conv.input("Filter") or "")
    if op.type != "elementwise_add" or vector is None or filters is None or op.get("act_type"):
        return None
    if not _is_planar(conv):
        return None
    channels = filters.shape[0]
    aligned = (vector.ndim == 1 and op.get("axis", -1) == 1) or vector.shape in ((1, channels, 1, 1), (channels, 1, 1))
    if vector.size != channels or not aligned:
        return None
    before = parameters.get(conv.input("Bias") or "", np.zeros(channels, np.float32))
    name = str(op.input("Y")) if conv.input("Bias") is None else f"{op.input('Y')}.sum"
    _set_bias(conv, parameters, name, (before + vector.reshape(-1)).astype(np.float32))
    return op.output("Out")


def _is_planar(op: Operator) -> bool:
    return str(op.get("data_layout" if op.type == "batch_norm" else "data_format", "NCHW")) in PLANAR


def _set_bias(conv: Operator, parameters: Parameters, name: str, bias: NDArray[np.float32]) -> None:
    parameters[name] = bias
    conv.inputs["Bias"] = [name]
