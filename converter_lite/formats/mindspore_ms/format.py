"""Reading a written file back for its proof."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.formats.mindspore_ms import permutation as pm
from converter_lite.formats.mindspore_ms.reader import read, to_quantized_model
from converter_lite.graph import static_shape
from converter_lite.quantization.plan import QuantizedModel


def rebuild(data: bytes, *, like: ir.Model) -> QuantizedModel:
    """The content of a file with the interface of the model that it was written from.

    Inputs that the file has in NHWC and ``like`` in NCHW become NCHW again, so that both take the same samples.

    Raises:
        FormatError: The file is not valid.
    """
    model = read(data)
    shapes = {value.name: static_shape(value) for value in like.graph.inputs}
    turned = []
    for index in model.inputs:
        tensor = model.tensors[index]
        shape = shapes.get(tensor.name)
        if shape is not None and len(shape) == 4 and tensor.dims != shape and tensor.dims == pm.permute(shape, pm.NHWC):
            turned.append(tensor.name)
    return to_quantized_model(data, nchw_inputs=turned)
