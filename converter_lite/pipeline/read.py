"""Model files of every framework as one thing: what the model computes, and the plan that it came with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats.onnx.reader import fix_input_shapes, is_quantized, read_onnx
from converter_lite.formats.onnx.versions import fit_to_engine
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.plan import QuantizedModel, QuantPlan


@dataclass(slots=True)
class Source:
    """A model as it was read.

    Attributes:
        model: What it computes, as ONNX; quantized models with their QuantizeLinear and DequantizeLinear pairs.
        bytes: Size of its files.
        is_quantized: Whether it holds integers already.
        where: Its file, for messages.
    """

    model: ir.Model
    bytes: int
    is_quantized: bool
    where: str
    _planned: QuantizedModel | None = None

    def graph(self, *, pairs: bool) -> QuantizedModel:
        """A copy as a float graph with its plan.

        Args:
            pairs: Quantize/dequantize pairs may stay in the graph, if they are how the model was read.

        Raises:
            ModelError: The model computes with integers in a way that cannot be taken back to float.
        """
        if self._planned is not None:
            planned = self._planned
            return QuantizedModel(planned.model.clone(), planned.plan, dict(planned.q_weights))
        if pairs or not self.is_quantized:
            return QuantizedModel(self.model.clone(), QuantPlan("FLOAT"))
        from converter_lite.formats.onnx.qdq import read_qdq

        return read_qdq(self.model.clone(), where=self.where)


def read_source(request: ConvertRequest, *, static_shapes: Mapping[str, Sequence[int]]) -> Source:
    """Read the model of a request.

    Args:
        request: Framework and files.
        static_shapes: Shapes to build into the graph.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    path = request.model_file
    if request.fmk == "ONNX":
        model = read_onnx(path, input_shapes=static_shapes, confined=not request.allow_external_paths)
        model = fit_to_engine(model, path)
        return Source(model, _onnx_bytes(path, model), is_quantized(model), str(path))
    if request.fmk == "MSLITE":
        quantized, size = _read_ms(path), path.stat().st_size
        if static_shapes:
            fix_input_shapes(quantized.model, static_shapes)
    elif path.suffix == ".nb":
        quantized, size = _read_nb(path, static_shapes), path.stat().st_size
    else:
        from converter_lite.formats.paddle.inference_model.reader import locate, read_paddle

        quantized = read_paddle(
            path,
            request.weight_file,
            input_shapes=static_shapes or None,
            confined=not request.allow_external_paths,
        )
        size = _paddle_bytes(*locate(path, request.weight_file))
    return _from_plan(quantized, size, str(path))


def _from_plan(quantized: QuantizedModel, size: int, where: str) -> Source:
    from converter_lite.quantization.qdq.build import qdq_model

    if not quantized.plan.quantized_nodes:
        return Source(quantized.model, size, False, where)
    copy = QuantizedModel(quantized.model.clone(), quantized.plan, dict(quantized.q_weights))
    return Source(qdq_model(copy), size, True, where, quantized)


def _read_ms(path: Path) -> QuantizedModel:
    from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model

    try:
        return to_quantized_model(_bytes(path))
    except FormatError as error:
        where = f"{path}: {error.where}" if error.where else str(path)
        raise FormatError(error.message, where=where, hint=error.hint) from error


def _read_nb(path: Path, static_shapes: Mapping[str, Sequence[int]]) -> QuantizedModel:
    from converter_lite.formats.paddle.nb.reader import read

    return read(_bytes(path), where=str(path), input_shapes=static_shapes)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(path)) from error


def _onnx_bytes(path: Path, model: ir.Model) -> int:
    external = {
        tensor.path
        for value in model.graph.initializers.values()
        if isinstance(tensor := value.const_value, ir.ExternalTensor)
    }
    return path.stat().st_size + sum(Path(p).stat().st_size for p in external)


def _paddle_bytes(program: Path, parameters: Path | None) -> int:
    if parameters is not None:
        return program.stat().st_size + parameters.stat().st_size
    return sum(file.stat().st_size for file in program.parent.iterdir() if file.is_file())
