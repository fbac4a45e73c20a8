"""An ONNX file as the source of a conversion."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.onnx.at_load import recognize_dequantizers
from converter_lite.formats.onnx.checks import DAMAGED, external_files
from converter_lite.formats.onnx.fake_quantize import spell_out_fake_quantize
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.onnx.reader import is_quantized, read_onnx
from converter_lite.formats.onnx.versions import fit_to_engine
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.graph import label
from converter_lite.passes.shapes import infer_shapes

QUARK = "com.amd.quark"
"""The domain of operators that only AMD Quark computes: blocks of numbers with a common exponent, and short floats."""


def read_source(files: ModelFiles) -> Source:
    """Read a model.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    path = files.path
    read = read_onnx(path, input_shapes=files.input_shapes, confined=files.confined)
    beside = external_files(read)
    model = fit_to_engine(read, path)
    _refuse_quark(model, str(path))
    size = sum(file.stat().st_size for file in (path, *beside))
    try:
        if spell_out_fake_quantize(model, str(path)):
            infer_shapes(model)
        return source_of(model, size, str(path), beside=beside)
    except MISFITS as error:
        raise ModelError(f"{DAMAGED}: {error}", where=str(path)) from error


def source_of(model: ir.Model, size: int, where: str, *, beside: tuple[Path, ...] = ()) -> Source:
    """A graph with the plan that its integers say, if it has any.

    Args:
        model: The graph, in which weights that are dequantized at load get a DequantizeLinear.
        size: Bytes of its files.
        where: Its file, for messages.
        beside: Files with large tensors.
    """
    has_qdq = is_quantized(model)
    is_planned = recognize_dequantizers(model) > 0 or has_qdq
    planned = (lambda: read_qdq(model.clone(), where=where)) if is_planned else None
    return Source(model, size, where, planned, has_qdq=has_qdq, beside=beside)


def _refuse_quark(model: ir.Model, where: str) -> None:
    found = [label(node) for node in model.graph if node.domain == QUARK]
    if found:
        raise ModelError(
            f"it is quantized with operators that only AMD Quark computes: {', '.join(found[:3])}",
            where=where,
            hint="quantize with integers of 8 or 16 bits (configuration A8W8, XINT8, A16W8), or start from the float model",
        )
