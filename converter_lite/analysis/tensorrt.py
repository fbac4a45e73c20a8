"""What a TensorRT engine computes with: the layers that ``trtexec --exportLayerInfo`` lists, the times of ``--exportProfile``.

Source: files of trtexec 8.4 to 10, as TensorRT's documentation shows them. A layer has its name, ``LayerType`` and the
``Format/Datatype`` of inputs and outputs if the engine was built with ``--profilingVerbosity=detailed``, else its name alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter_lite.analysis.kernels import Arithmetic
from converter_lite.errors import DataError
from converter_lite.system.files import read_regular

TYPES = (
    ("int8", r"int8|i8"),
    ("int4", r"int4"),
    ("float8", r"fp8|e4m3|float8"),
    ("bfloat16", r"bf16|bfloat16"),
    ("float16", r"fp16|half|float16"),
    ("float32", r"fp32|float|float32|tf32"),
    ("int32", r"int32"),
    ("int64", r"int64"),
    ("bool", r"bool"),
)
"""Element types and the words for them in descriptions such as "Thirty-two wide channel vectorized row major Int8 format"."""

INTEGERS = ("int8", "int4")
CONVERSIONS = ("reformat", "quantize", "cast")
MOVERS = ("shuffle", "noop", "constant", "concat", "slice", "gather", "shape", "copy")
PRODUCTS = ("conv", "gemm", "matrixmultiply", "matmul", "fullyconnected")
"""Parts of layer types, in small letters: borders between types, what only moves data, layers that multiply."""


@dataclass(frozen=True, slots=True)
class EngineLayer:
    """A layer of an engine.

    Attributes:
        name: As TensorRT calls it, made from the names of the nodes.
        kind: Type of the layer, empty where the file does not say.
        reads, writes: Element types of the first input and output, empty where the file does not say.
        arithmetic: What it computes with, ``None`` where the file does not say.
        microseconds: Mean time of a run, ``None`` without a profile.
    """

    name: str
    kind: str
    reads: str
    writes: str
    arithmetic: Arithmetic | None
    microseconds: float | None

    @property
    def multiplies(self) -> bool:
        """Whether it is a convolution or a matrix product."""
        return any(word in self.kind.lower() for word in PRODUCTS) and self.arithmetic is not Arithmetic.CONVERSION


def read_engine(path: Path, profile: Path | None = None) -> list[EngineLayer]:
    """The layers of an engine.

    Args:
        path: What ``--exportLayerInfo`` or ``--exportProfile`` wrote.
        profile: What ``--exportProfile`` wrote, if ``path`` is the other one.

    Raises:
        DataError: A file is none of them, or they are of different engines.
    """
    content = _load(path)
    times = _times(_load(profile), profile) if profile is not None else {}
    if isinstance(content, list) and profile is None:
        return [EngineLayer(name, "", "", "", None, time) for name, time in _times(content, path).items()]
    layers = content.get("Layers") if isinstance(content, dict) else None
    if not isinstance(layers, list) or not layers:
        raise DataError(
            "this is no list of layers",
            where=str(path),
            hint="give what trtexec --exportLayerInfo or --exportProfile wrote",
        )
    found = [_layer({"Name": layer} if isinstance(layer, str) else layer, times, path) for layer in layers]
    if times and not any(layer.microseconds is not None for layer in found):
        raise DataError("the profile names none of these layers", where=str(profile), hint="both are of one engine")
    return found


def _load(path: Path) -> Any:
    try:
        return json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is no JSON"
        raise DataError(f"the file cannot be read: {reason}", where=str(path)) from error


def _times(content: Any, path: Path) -> dict[str, float]:
    """Layer -> mean microseconds; the first entry counts the runs."""
    try:
        rows = [row for row in content if "averageMs" in row]
        times = {str(row["name"]): 1000 * float(row["averageMs"]) for row in rows}
    except (TypeError, KeyError, ValueError) as error:
        raise DataError("this is no profile of trtexec", where=str(path)) from error
    if not times:
        raise DataError("the profile has no layer", where=str(path), hint="give what trtexec --exportProfile wrote")
    return times


def _layer(layer: Any, times: Mapping[str, float], path: Path) -> EngineLayer:
    try:
        name, kind = str(layer["Name"]), str(layer.get("LayerType", ""))
        reads, writes = _type(layer.get("Inputs")), _type(layer.get("Outputs"))
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError("a layer has no name", where=str(path)) from error
    word = kind if kind.lower() not in ("", "myelin", "kgen") else f"{kind} {layer.get('ParameterType', '')}".strip()
    return EngineLayer(name, word, reads, writes, _arithmetic(kind, reads), times.get(name))


def _type(values: Any) -> str:
    """Element type of the first of some tensors."""
    if not isinstance(values, list) or not values:
        return ""
    text = str(values[0].get("Format/Datatype", "")).lower()
    return next((name for name, words in TYPES if re.search(rf"\b({words})\b", text)), "")


def _arithmetic(kind: str, reads: str) -> Arithmetic | None:
    word = kind.lower()
    if any(part in word for part in CONVERSIONS):
        return Arithmetic.CONVERSION
    if any(part in word for part in MOVERS):
        return Arithmetic.NONE
    if not reads:
        return None
    return Arithmetic.INTEGER if reads in INTEGERS else Arithmetic.FLOAT


def table(layers: Sequence[EngineLayer]) -> Iterator[Sequence[str]]:
    """Rows of the table, the head first."""
    yield ("layer", "type", "reads", "writes", "computes with", "us")
    for layer in layers:
        time = "-" if layer.microseconds is None else f"{layer.microseconds:.1f}"
        arithmetic = "-" if layer.arithmetic is None else layer.arithmetic.value
        yield (layer.name, layer.kind or "-", layer.reads or "-", layer.writes or "-", arithmetic, time)


def summary(layers: Sequence[EngineLayer]) -> str:
    """One sentence about layers that multiply and about the time."""
    if all(layer.arithmetic is None for layer in layers):
        return "the file does not say what layers compute with: build the engine with --profilingVerbosity=detailed"
    products = [layer for layer in layers if layer.multiplies]
    integer = sum(layer.arithmetic is Arithmetic.INTEGER for layer in products)
    said = f"{integer} of {len(products)} convolutions and matrix products compute in integers"
    total = sum(layer.microseconds or 0 for layer in layers)
    if not total:
        return said
    shares = ", ".join(
        f"{kind.value} {sum(layer.microseconds or 0 for layer in layers if layer.arithmetic is kind) / total:.0%}"
        for kind in Arithmetic
    )
    return f"{said}; time: {shares}"
