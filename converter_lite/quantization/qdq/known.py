"""What the installed libraries know of ONNX, some of which is newer than they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.passes.opset import minimal_ir_version
from converter_lite.runtime.engine import Engine


def is_known(
    op_type: str,
    constants: Sequence[ir.TensorProtocol],
    *,
    opset: int,
    attributes: Mapping[str, int] | None = None,
    result: ir.DataType = ir.DataType.FLOAT,
    engine: Engine,
) -> bool:
    """Whether ``onnx`` has the operator set, and the engine computes an operator of it for these constants.

    Its output has the element type ``result`` and the shape of the first constant.

    A result has to be checked and run here before it is put into place, so the installed libraries decide, not the device.
    """
    node = ir.node(op_type, [None] * len(constants), attributes=dict(attributes or {}))
    node.outputs[0].dtype, node.outputs[0].shape = result, ir.Shape(constants[0].shape.numpy())
    return computes(node, constants, opset=opset, engine=engine)


def computes(node: ir.Node, constants: Sequence[ir.TensorProtocol], *, opset: int, engine: Engine) -> bool:
    """The same for a node with the type of its output, which may be of another domain than ONNX's; it gets the constants."""
    if onnx.defs.onnx_opset_version() < opset:
        return False
    graph = ir.Graph([], node.outputs, nodes=[], opset_imports={"": opset}, name=node.op_type)
    if node.domain:
        graph.opset_imports[node.domain] = 1
    for index, tensor in enumerate(constants):
        node.replace_input_with(index, g.add_tensor(graph, f"input_{index}", tensor))
    node.outputs[0].name = "result"
    graph.append(node)
    model = ir.Model(graph, ir_version=minimal_ir_version(opset))
    try:
        engine.session(ir.to_proto(model).SerializeToString(), threads=1)
    except ModelError:
        return False
    return True
