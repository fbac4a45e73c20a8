"""What the written files of both formats have in common when they are proven."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.program import NbFile
from converter_lite.quantization.plan import QuantizedModel


def proof_model(quantized: QuantizedModel, like: ir.Model) -> bytes:
    """A file that was read back, as a serialized ONNX model that takes the samples of ``like``."""
    from converter_lite.quantization.qdq.build import qdq_model

    model = qdq_model(quantized)
    _take_types(model, like)
    return ir.to_proto(model).SerializeToString()


def _take_types(model: ir.Model, like: ir.Model) -> None:
    """Make the inputs of ``model`` take the samples of ``like``: files have float16 and double inputs as float32."""
    wanted = {value.name: value.dtype for value in like.graph.inputs}
    for value in model.graph.inputs:
        dtype = wanted.get(value.name)
        if value.dtype is not ir.DataType.FLOAT or dtype not in (ir.DataType.FLOAT16, ir.DataType.DOUBLE):
            continue
        cast = ir.node("Cast", [value], attributes={"to": ir.DataType.FLOAT.value}, name=f"{value.name}_as_float")
        cast.outputs[0].name, cast.outputs[0].shape, cast.outputs[0].dtype = cast.name, value.shape, value.dtype
        for node, position in list(value.uses()):
            if node is not cast:
                node.replace_input_with(position, cast.outputs[0])
        model.graph.insert_before(next(iter(model.graph)), cast)
        value.dtype = dtype


def refuse_nan(file: NbFile) -> None:
    """Refuse constants that hold NaN.

    Raises:
        ModelError: One does.
    """
    for name, array in file.parameters.items():
        if array.dtype.kind == "f" and array.size and np.isnan(array.min()):  # a minimum is NaN if any element is
            raise ModelError("the constant holds NaN", where=name, hint="the model is damaged, or was trained badly")
