"""Parts of files that were made to do harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.errors import ConverterError
from tests.support import normal, traced_peak

VALUES = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]


def peak_of(work: Callable[..., object], *arguments: object) -> int:
    """Most bytes that Python and NumPy held while a call was refused."""

    def refused() -> None:
        with pytest.raises(ConverterError):
            work(*arguments)

    return traced_peak(refused)


def save_graph(path: Path, nodes: list[onnx.NodeProto], **more: object) -> Path:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", VALUES[:1], VALUES[1:])
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, **more).SerializeToString())
    return path


def stolen_tensor() -> TensorProto:
    tensor = numpy_helper.from_array(normal(4), "c")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    return tensor
