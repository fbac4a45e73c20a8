"""Integer models in ONNX files: grids for which onnxruntime has kernels on every x86 processor, and the same real numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.base import FileOptions
from converter_lite.formats.onnx.flags import OnnxFlags
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.tflite.importer.graph import to_quantized_model
from converter_lite.passes.io_types import UNCHANGED_TYPES, IoTypes
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.runtime.engine import DEFAULT_ENGINE, Feed
from tests.formats.tflite import models
from tests.support import samples_of


def read() -> QuantizedModel:
    return to_quantized_model(models.convolutional(integers=True))


def options(choice: str = "auto", types: IoTypes = UNCHANGED_TYPES) -> FileOptions:
    return FileOptions(io_types=types, flags=OnnxFlags(uint8_weights=choice))


def write(folder: Path, choice: str) -> ir.Model:
    made = OnnxFormat(options(choice))
    made.write(made.adapt(read()), folder / "model.onnx")
    return ir.load(folder / "model.onnx")


def exact(model: ir.Model, feed: Feed) -> dict[str, Any]:
    """Outputs without integer kernels: what Q/DQ pairs mean."""
    return DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), optimize=False).run(feed)


def types_of(model: ir.Model, op_type: str, *, constant: bool) -> set[ir.DataType]:
    """Integer types of the zero points of activations, or of those of weights."""
    nodes = [node for node in model.graph if node.op_type == op_type]
    found = [node for node in nodes if (node.inputs[0].const_value is not None) == constant]  # type: ignore[union-attr]
    return {node.inputs[2].dtype for node in found if node.inputs[2] is not None} - {ir.DataType.INT32, None}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("choice", "weights"), [("auto", ir.DataType.UINT8), ("on", ir.DataType.UINT8), ("off", ir.DataType.INT8)]
)
def test_activations_become_uint8_and_weights_too_unless_they_shall_not(
    tmp_path: Path, choice: str, weights: ir.DataType
) -> None:
    model = write(tmp_path, choice)
    assert types_of(model, "QuantizeLinear", constant=False) == {ir.DataType.UINT8}
    assert weights in types_of(model, "DequantizeLinear", constant=True)
    assert choice != "off" or types_of(model, "DequantizeLinear", constant=True) == {weights}


def test_the_real_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    model = read()
    feeds = samples_of(model.model, 4)
    kept, written = qdq_model(model), write(tmp_path, "auto")
    for feed in feeds:
        found = exact(written, feed)
        for name, values in exact(kept, feed).items():
            np.testing.assert_array_equal(found[name], values)


def test_integers_that_are_asked_for_as_int8_stay_int8() -> None:
    model = read()
    adapted = OnnxFormat(options(types=IoTypes("INT8", "DEFAULT"))).adapt(model)
    assert adapted.plan.activations == model.plan.activations


def test_symmetric_integers_stay_int8() -> None:
    model = read()
    grids = model.plan.activations
    model.plan.activations = {
        name: replace(grid, zero_point=np.zeros_like(grid.zero_point)) for name, grid in grids.items()
    }
    adapted = OnnxFormat(options()).adapt(model)
    assert all(params.spec.signed for params in adapted.plan.activations.values())
