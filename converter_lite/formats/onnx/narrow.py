"""Two-bit integers, which the oldest supported libraries lack."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.quantization.qdq.known import is_known
from converter_lite.quantization.qdq.materialize import TWO_BITS_OPSET, TWO_BITS_TYPES
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine


def narrowest_width(engine: Engine = DEFAULT_ENGINE) -> int:
    """Width of the narrowest integers of the files written here: 2 where ``onnx`` and the engine know them, else 4."""
    dtype = TWO_BITS_TYPES.get(True)
    if dtype is None:
        return 4
    constants = (ir.Tensor(np.zeros((1, 4), dtype.numpy()), dtype=dtype), ir.Tensor(np.ones((), np.float32)))
    return 2 if is_known("DequantizeLinear", constants, opset=TWO_BITS_OPSET, engine=engine) else 4
