"""What the written files of both formats have in common when they are proven."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.program import NbFile
from converter_lite.graph import Names, add_initializer, constant, input_at
from converter_lite.passes.scalars import take_scalars
from converter_lite.passes.taken_types import take_types
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan


def proof_model(quantized: QuantizedModel, like: ir.Model, *, ends_at_127: bool = False) -> bytes:
    """A file that was read back, as a serialized ONNX model that takes the samples of ``like``.

    Args:
        quantized: What the file holds.
        like: The model that it was made from.
        ends_at_127: Floats that become integers end at -127 on the device.
    """
    from converter_lite.passes.opset import declare_21
    from converter_lite.quantization.qdq.build import qdq_model
    from converter_lite.quantization.qdq.materialize import required_opset

    if required_opset(quantized.plan) == 21:
        declare_21(quantized.model)
    model = qdq_model(quantized)
    if ends_at_127:
        _end_at_127(model, quantized.plan)
    take_types(model, like)  # files have float16 and double inputs as float32
    take_scalars(model, like)
    return ir.to_proto(model).SerializeToString()


def _end_at_127(model: ir.Model, plan: QuantPlan) -> None:
    """A Clip in front of each QuantizeLinear, whose integers end at -128, but of those that integer kernels are fused with."""
    names = Names(model.graph)
    for node in [node for node in model.graph if node.op_type == "QuantizeLinear"]:
        value, scale, zero_point = node.inputs[0], constant(node.inputs[1]), constant(input_at(node, 2))
        maker = value.producer() if value is not None else None
        if value is None or scale is None or scale.size != 1 or zero_point is None or zero_point.dtype != np.int8:
            continue
        is_fused = maker is not None and plan.mode(maker) is NodeMode.INTEGER and len(value.uses()) == 1
        if np.any(zero_point) or is_fused:
            continue
        low = add_initializer(model.graph, f"{value.name}_lowest", np.asarray(-127 * scale, np.float32), names=names)
        clip = ir.node("Clip", [value, low], name=f"{value.name}_ends_at_127")
        clip.outputs[0].name, clip.outputs[0].shape, clip.outputs[0].dtype = clip.name, value.shape, ir.DataType.FLOAT
        model.graph.insert_before(node, clip)
        node.replace_input_with(0, clip.outputs[0])


def refuse_nan(file: NbFile) -> None:
    """Refuse constants that hold NaN.

    Raises:
        ModelError: One does.
    """
    for name, array in file.parameters.items():
        if array.dtype.kind == "f" and array.size and np.isnan(array.min()):  # a minimum is NaN if any element is
            raise ModelError("the constant holds NaN", where=name, hint="the model is damaged, or was trained badly")
