"""Models that are newer than the runtime that proves them."""

from __future__ import annotations

import logging
from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.graph import opset
from converter_lite.passes.opset import change_opset, changed_operators, minimal_ir_version
from converter_lite.passes.widening import replace_bfloat16
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine

SURE_OPSET, SURE_IR_VERSION = 21, 10
"""What the oldest supported onnxruntime, 1.19, loads."""

_log = logging.getLogger(__name__)


def fit_to_engine(model: ir.Model, path: Path, engine: Engine = DEFAULT_ENGINE) -> ir.Model:
    """The model as the engine can run it: in float32 instead of bfloat16, and with operator set and file version that it knows.

    New operator sets mostly allow more element types in otherwise unchanged operators, so a lower one is equivalent. Exporters
    write the newest file version that their library knows, whatever the operator set.

    Args:
        model: As :func:`~converter_lite.formats.onnx.reader.read_onnx` gives it; it may be changed in place.
        path: Its file, for messages.
        engine: Runs calibration and proof.

    Raises:
        ModelError: An operator cannot be expressed in an operator set that the engine loads.
    """
    if replace_bfloat16(model):
        _log.warning("bfloat16 becomes float32, in inputs and outputs too: onnxruntime has no kernels for it on CPUs")
    version = opset(model)
    if (version <= SURE_OPSET and model.ir_version <= SURE_IR_VERSION) or _loads(engine, version, model.ir_version):
        return model
    newer = range(version, SURE_OPSET, -1)
    newest = next((v for v in newer if _loads(engine, v, minimal_ir_version(v))), min(version, SURE_OPSET))
    if newest < version:
        model = _lowered(model, newest, path)
        _log.warning(
            "operator set %d is newer than the runtime here, the model is taken as one of operator set %d",
            version,
            newest,
        )
    model.ir_version = minimal_ir_version(newest)
    return model


def _lowered(model: ir.Model, target: int, path: Path) -> ir.Model:
    version, changed = opset(model), changed_operators(model, target)
    try:
        return change_opset(model, target)
    except ModelError as error:
        raise ModelError(
            f"operator set {version} is newer than the newest that the installed onnxruntime loads, {target}, "
            f"and these operators are not the same there: {', '.join(changed)}",
            where=str(path),
            hint=f"install a newer onnxruntime, or export with operator set {target}",
        ) from error


def _loads(engine: Engine, version: int, ir_version: int) -> bool:
    """Whether the engine loads a trivial model at these versions."""
    source = ir.val("x", ir.DataType.FLOAT, [1])
    node = ir.node("Identity", [source])
    output = node.outputs[0]
    output.name, output.dtype, output.shape = "y", ir.DataType.FLOAT, ir.Shape([1])
    graph = ir.Graph([source], [output], nodes=[node], opset_imports={"": version}, name="versions")
    try:
        engine.session(ir.to_proto(ir.Model(graph, ir_version=ir_version)).SerializeToString(), threads=1)
    except ModelError:
        return False
    return True
