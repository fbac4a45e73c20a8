"""The format as the conversion uses it: check, write, and read back for the proof."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from converter_lite.formats.mindspore_ms import permutation as pm
from converter_lite.formats.mindspore_ms.options import MsOptions
from converter_lite.formats.mindspore_ms.reader import read, to_quantized_model
from converter_lite.formats.mindspore_ms.writer import check, refusal, write
from converter_lite.graph import static_shape
from converter_lite.quantization.plan import QuantizedModel


class MsFormat:
    """MindSpore Lite files.

    Attributes:
        options: Choices of the writer.
        notes: What the last file holds otherwise than planned.
    """

    name = "MINDIR_LITE"
    suffix = ".ms"

    def __init__(self, options: MsOptions | None = None) -> None:
        self.options = options or MsOptions()
        self.notes: list[str] = []

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the format cannot express, before any other work.

        Raises:
            TargetError: It cannot; all nodes and reasons are named.
        """
        problems = check(model, options=self.options)
        if problems:
            raise refusal(problems)

    def write(self, quantized: QuantizedModel, path: Path) -> list[Path]:
        """Write the model.

        Returns:
            The written file.

        Raises:
            TargetError: Nodes cannot be expressed.
            FormatError: The file would be larger than 2 GiB.
        """
        self.notes = []
        path.write_bytes(write(quantized, options=self.options, notes=self.notes))
        return [path]

    def runnable(self, path: Path, *, like: ir.Model) -> bytes:
        """What the written file says as an ONNX model with the inputs of ``like``.

        Raises:
            FormatError: The file is not valid.
        """
        from converter_lite.formats.onnx_qdq.writer import build

        model = build(rebuild(path.read_bytes(), like=like))
        return ir.serde.serialize_model(model).SerializeToString()


def rebuild(data: bytes, *, like: ir.Model) -> QuantizedModel:
    """The content of a file with the interface of the model that it was written from.

    Inputs that the file has in NHWC and ``like`` in NCHW become NCHW again, and narrowed integers int64, so that both
    take the same samples.

    Raises:
        FormatError: The file is not valid.
    """
    model = read(data)
    inputs = {value.name: value for value in like.graph.inputs}
    turned, narrowed = [], []
    for index in model.inputs:
        tensor = model.tensors[index]
        value = inputs.get(tensor.name)
        shape = static_shape(value)
        if shape is not None and len(shape) == 4 and tensor.dims != shape and tensor.dims == pm.permute(shape, pm.NHWC):
            turned.append(tensor.name)
        if value is not None and value.dtype is ir.DataType.INT64:
            narrowed.append(tensor.name)
    return to_quantized_model(data, nchw_inputs=turned, int64_inputs=narrowed)
