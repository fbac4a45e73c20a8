"""Two-bit integers: newer than the oldest libraries that this package works with."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.engine import DEFAULT_ENGINE, Engine
from converter_lite.errors import ModelError
from converter_lite.formats.onnx_qdq.materialize import TWO_BITS_OPSET, TWO_BITS_TYPES
from converter_lite.passes.opset import minimal_ir_version


def narrowest_width(engine: Engine = DEFAULT_ENGINE) -> int:
    """Width of the narrowest integers that ONNX files written here can hold: 2 where ``onnx`` and the engine know them, else 4.

    A result has to be checked and run here before it is put into place, so that this decides, not what a device knows.
    """
    if True not in TWO_BITS_TYPES or onnx.defs.onnx_opset_version() < TWO_BITS_OPSET:
        return 4
    try:
        engine.session(_smallest_model(TWO_BITS_TYPES[True]), threads=1)
    except ModelError:
        return 4
    return 2


def _smallest_model(dtype: ir.DataType) -> bytes:
    """A DequantizeLinear of two-bit integers."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": TWO_BITS_OPSET}, name="two_bits")
    integers = g.add_tensor(graph, "integers", ir.Tensor(np.zeros((1, 4), dtype.numpy()), dtype=dtype, name="integers"))
    node = ir.node("DequantizeLinear", [integers, g.add_initializer(graph, "scale", np.ones((), np.float32))])
    output = node.outputs[0]
    output.name, output.dtype, output.shape = "reals", ir.DataType.FLOAT, ir.Shape([1, 4])
    graph.append(node)
    graph.outputs.append(output)
    model = ir.Model(graph, ir_version=minimal_ir_version(TWO_BITS_OPSET))
    return ir.to_proto(model).SerializeToString()
