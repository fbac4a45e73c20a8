"""Results of float16 kernels as a device holds them: computed in float32 here, then rounded to float16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.paddle.importer.context import Handler, Importer
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, RESULTS, Precision
from converter_lite.formats.paddle.program import Operator


def with_rounding(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Handlers whose results are rounded to float16 where the operator has a float16 kernel."""
    return {kind: partial(_rounded, handler) for kind, handler in handlers.items()}


def _rounded(handler: Handler, importer: Importer, op: Operator) -> None:
    handler(importer, op)
    parts = str(op.get(KERNEL_ATTRIBUTE, "")).split("/")
    if len(parts) != 5 or parts[3] != str(Precision.FP16.value) or parts[1] == "fp16_to_fp32":
        return
    for name in (name for slot in RESULTS for name in op.outputs.get(slot, ())):
        half = importer.compute("Cast", importer.value(name), hint=name, to=int(ir.DataType.FLOAT16))
        importer.finish(name, "Cast", half, to=int(ir.DataType.FLOAT))


def round_constants(parameters: dict[str, NDArray[Any]], operators: Sequence[Operator]) -> None:
    """Round the float constants that the library converts while loading. Integers with scales are not rounded again."""
    for op in operators:
        for name in {name for names in op.inputs.values() for name in names}:
            array = parameters.get(name)
            if array is not None and array.dtype == np.float32 and f"{name}_fp16" in op.attributes:
                with np.errstate(over="ignore"):
                    parameters[name] = array.astype(np.float16).astype(np.float32)
