"""Running what a file becomes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.source import Source
from converter_lite.formats.tflite.importer.graph import to_quantized_model
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.tflite.case import Array
from tests.formats.tflite.files import File


def read(file: File | bytes) -> QuantizedModel:
    """A file as a float graph with its plan."""
    return to_quantized_model(file if isinstance(file, bytes) else file.bytes(), where="model.tflite")


def outputs(quantized: QuantizedModel, *feeds: Array) -> list[Array]:
    """What the graph gives, with its integers, in exact arithmetic."""
    model = Source.of(quantized, 0, "").model
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    named = {str(value.name): array for value, array in zip(model.graph.inputs, feeds, strict=True)}
    session = DEFAULT_ENGINE.session(proto.SerializeToString(), threads=1, optimize=False)
    return list(session.run(named).values())


def operators(quantized: QuantizedModel) -> Counter[str]:
    """How often each operator occurs."""
    return Counter(node.op_type for node in quantized.model.graph)


def on_grid(
    values: NDArray[np.floating], scale: float, zero: int, low: int = -128, high: int = 127
) -> NDArray[np.int64]:
    """Integers of real numbers."""
    return np.clip(np.rint(np.asarray(values, np.float64) / np.float32(scale)) + zero, low, high).astype(np.int64)


def reals(integers: Array, scale: float, zero: int) -> NDArray[np.float32]:
    """Real numbers of integers."""
    return ((integers.astype(np.int64) - zero) * np.float64(np.float32(scale))).astype(np.float32)
