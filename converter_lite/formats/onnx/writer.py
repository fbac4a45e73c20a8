"""Writes a graph as an ONNX file, and reads it back for the proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import FormatError
from converter_lite.formats.onnx.metadata import drop_metadata
from converter_lite.log import Log
from converter_lite.quantization.qdq.heads import KNOWN_RANK
from converter_lite.runtime.serializing import constant_bytes

SINGLE_FILE_LIMIT = 1_000_000_000
"""Bytes of constants above which they go into a second file: one protobuf message ends at 2 GiB, and making it takes three times
its size in memory."""

EXTERNAL_FROM = 1024
"""Constants of at least this many bytes go into the second file."""

PRODUCER = "converter_lite"


def save(model: ir.Model, path: Path, log: Log | None = None, *, keep_metadata: bool = False) -> list[Path]:
    """Write a graph; constants beyond ``SINGLE_FILE_LIMIT`` go to ``<path>.data``. The same graph gives the same bytes.

    Shapes of inner tensors are left out: readers infer them, and with them onnxruntime picks a fused Add+LayerNormalization
    kernel that is ten times slower than the two (measured, 1.31). Ranks stay where a faster kernel needs them.

    Args:
        model: The graph; its name of the producer is set.
        path: The file.
        log: Shows progress if a second file is written: large constants are rounded meanwhile.
        keep_metadata: Write what exporters noted about nodes and tensors, too (:func:`drop_metadata`).

    Returns:
        The files, the model first.
    """
    model.producer_name, model.producer_version = PRODUCER, None
    ranked = {str(v.name) for node in model.graph for v in node.outputs if v.meta.get(KNOWN_RANK)}
    if constant_bytes(model) <= SINGLE_FILE_LIMIT:
        g.load_constants(model)
        _put(ir.to_proto(model), path, ranked, keep_metadata=keep_metadata)
        return [path]
    data = path.with_name(path.name + ".data")
    progress = None if log is None else _Progress(log)
    ir.save(model, path, external_data=data.name, size_threshold_bytes=EXTERNAL_FROM, callback=progress)
    if progress is not None:
        progress.end()
    _put(onnx.load(path, load_external_data=False), path, ranked, keep_metadata=keep_metadata)
    return [path, data]


class _Progress:
    """Called before each constant that is written to the second file."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._steps: Iterator[int] = iter(())
        self._started = False

    def __call__(self, _tensor: ir.TensorProtocol, place: ir.external_data.CallbackInfo) -> None:
        if not self._started:
            self._started = True
            self._steps = iter(self._log.track(range(place.total), "writing constants", place.total))
        next(self._steps, None)

    def end(self) -> None:
        next(self._steps, None)


def _put(proto: onnx.ModelProto, path: Path, ranked: set[str], *, keep_metadata: bool) -> None:
    """Write a message without shapes of inner tensors; ``ranked`` ones keep their number of axes."""
    kept = [info for info in proto.graph.value_info if info.name in ranked and info.type.tensor_type.HasField("shape")]
    for info in kept:
        for dim in info.type.tensor_type.shape.dim:
            dim.Clear()
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    for imported in proto.opset_import:
        if not imported.domain:
            imported.ClearField("domain")
    if not keep_metadata:
        drop_metadata(proto)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def check(path: Path) -> None:
    """Read a written file back through ONNX's checker.

    Raises:
        FormatError: The file is not valid ONNX; the checker's reason is given.
    """
    try:
        if _is_beyond_the_checker(path):
            return
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise FormatError(
            f"the written file is not valid: {str(error).strip().splitlines()[0]}", where=str(path)
        ) from error


def _is_beyond_the_checker(path: Path) -> bool:
    """The checker knows standard operators, and outputs whose rank is known; other files are verified by running them."""
    proto = onnx.load(path, load_external_data=False)
    if any(entry.domain not in ("", "ai.onnx", "ai.onnx.ml") for entry in proto.opset_import):
        return True
    tensors = (value.type.tensor_type for value in proto.graph.output if value.type.HasField("tensor_type"))
    return not all(tensor.HasField("shape") for tensor in tensors)
