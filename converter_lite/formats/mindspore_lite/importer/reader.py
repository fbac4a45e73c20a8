"""``.ms`` file -> ONNX graph with its plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.container import MsModel, MsNode, from_bytes
from converter_lite.formats.mindspore_lite.importer import elementwise, general, image
from converter_lite.formats.mindspore_lite.importer.context import Importer
from converter_lite.formats.mindspore_lite.importer.elementwise import ImportNode
from converter_lite.quantization.plan import QuantizedModel

TABLE: dict[str, ImportNode] = {**elementwise.TABLE, **general.TABLE, **image.TABLE}
"""Operators of the format that can be written as ONNX."""


def read(data: bytes) -> MsModel:
    """Parse a file; weights stay encoded.

    Raises:
        FormatError: The file is damaged, or uses something unknown.
    """
    return from_bytes(data)


def to_quantized_model(
    data: bytes | MsModel, *, nchw_inputs: Collection[str] = (), input_types: Mapping[str, ir.DataType] | None = None
) -> QuantizedModel:
    """The graph in ONNX, with dequantized weights, and the plan that says what the file holds as integers.

    Args:
        data: The file, or what :func:`read` made of it.
        nchw_inputs: Names of inputs that are NHWC in the file and should be NCHW in the graph, as in the ONNX model that the file
            was made from.
        input_types: Element types of inputs that are not those of the file, by name: int64 where it has int32, float16
            where it has float32.

    Raises:
        FormatError: The file is damaged, or an operator has no counterpart; all of those are named.
    """
    model = read(data) if isinstance(data, bytes) else data
    unknown = sorted({node.op for node in model.nodes} - set(TABLE))
    if unknown:
        raise FormatError(f"operators without a counterpart in ONNX: {', '.join(unknown)}")
    size = len(data) if isinstance(data, bytes) else _data_size(model)
    ctx = Importer(model, file_size=size)
    for index in model.inputs:
        tensor = model.tensors[index]
        nchw = tensor.name in nchw_inputs and len(tensor.dims) == 4
        ctx.add_input(index, nchw=nchw, kind=(input_types or {}).get(tensor.name))
    for node in model.nodes:
        _import_node(ctx, node)
    return ctx.finish()


def _import_node(ctx: Importer, node: MsNode) -> None:
    ctx.start(node)
    try:
        TABLE[node.op](ctx, node)
    except (IndexError, ValueError, KeyError, OverflowError) as error:
        raise FormatError(f"the node does not fit its operator: {error}", where=ctx.where) from error


def _data_size(model: MsModel) -> int:
    return sum(len(t.data) for t in model.tensors if t.data is not None) + 1024
