"""PyTorch's exports of 2017 and 2018 with inputs and outputs, for operator sets up to 6; they come with the package of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from converter_lite.formats.onnx.reader import read_onnx
from tests.onnx_nodes import Array, NodeCase

RECORDS = sorted(
    path.parent
    for kind in ("pytorch-converted", "pytorch-operator")
    for path in (Path(onnx.__file__).parent / "backend/test/data" / kind).glob("*/model.onnx")
)
"""Their folders."""


def record(folder: Path) -> NodeCase:
    """The model of a folder with its first inputs and outputs."""
    model = read_onnx(folder / "model.onnx").graph
    data = folder / "test_data_set_0"
    feed = {str(value.name): _tensor(data / f"input_{number}.pb") for number, value in enumerate(model.inputs)}
    results = {str(value.name): _tensor(data / f"output_{number}.pb") for number, value in enumerate(model.outputs)}
    return NodeCase(folder.name, (folder / "model.onnx").read_bytes(), feed, results)


def _tensor(path: Path) -> Array:
    array: np.ndarray[Any, Any] = numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    return array
