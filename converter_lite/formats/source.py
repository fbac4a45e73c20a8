"""A model as it was read from a file of any format: what it computes, and the plan that it came with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.quantization.clamps import computed_in_float
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.qdq import build
from converter_lite.system.encryption import Key, decrypted
from converter_lite.system.files import read_regular


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What is to be read.

    Attributes:
        path: The model.
        weights: Its parameters, if they are in a separate file; ``None`` looks beside the model.
        input_shapes: Shapes to build into the graph.
        confined: Refuse files outside the folder of the model.
        allow_unsafe: Code that a file holds may run, in a framework's own process.
        key: Of an encrypted model; ``None`` for others.
    """

    path: Path
    weights: Path | None
    input_shapes: Mapping[str, Sequence[int]]
    confined: bool
    allow_unsafe: bool = False
    key: Key | None = None

    def content(self) -> bytes:
        """The bytes of the model.

        Raises:
            ModelError: The file cannot be read.
            FormatError: The key is not that of the file.
        """
        try:
            data = read_regular(self.path)
        except OSError as error:
            raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(self.path)) from error
        return data if self.key is None else decrypted(data, self.key, str(self.path))


@dataclass(slots=True)
class Source:
    """A model as it was read.

    Attributes:
        model: What it computes, as ONNX; quantized models with QuantizeLinear and DequantizeLinear.
        bytes: Size of its files.
        where: Its file, for messages.
        planned: Gives a quantized model as a float graph with its plan; ``None`` for float models.
        has_qdq: The file itself holds them.
        beside: Files with large tensors of the model.
    """

    model: ir.Model
    bytes: int
    where: str
    planned: Callable[[], QuantizedModel] | None = None
    has_qdq: bool = False
    beside: tuple[Path, ...] = ()

    @classmethod
    def of(cls, quantized: QuantizedModel, size: int, where: str) -> Source:
        """A model that was read as a float graph with its plan."""

        def copy() -> QuantizedModel:
            return QuantizedModel(quantized.model.clone(), quantized.plan, dict(quantized.q_weights))

        if not quantized.plan.holds_integers:
            return cls(quantized.model, size, where)
        return cls(build.qdq_model(copy()), size, where, copy)

    @property
    def is_quantized(self) -> bool:
        """Whether it holds integers already."""
        return self.planned is not None

    def in_float(self) -> Source:
        """The same model with the real numbers that its integers stand for, which computes in float.

        Raises:
            ModelError: The model computes with integers in a way that cannot be taken back to float.
        """
        return Source(computed_in_float(self.graph(keep_qdq=False)), self.bytes, self.where)

    def graph(self, *, keep_qdq: bool) -> QuantizedModel:
        """A copy as a float graph with its plan.

        Args:
            keep_qdq: QuantizeLinear and DequantizeLinear may stay in the graph, if the file itself holds them.

        Raises:
            ModelError: The model computes with integers in a way that cannot be taken back to float.
        """
        if self.planned is None or (keep_qdq and self.has_qdq):
            return QuantizedModel(self.model.clone(), QuantPlan("FLOAT"))
        return self.planned()
