"""``.nb`` as an output format of a conversion (``--saveType=NAIVE_BUFFER``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import TargetError
from converter_lite.formats.paddle_nb.reader import read
from converter_lite.formats.paddle_nb.writer import NbOptions, check, write
from converter_lite.passes.io_types import IoTypes
from converter_lite.quantization.plan import QuantizedModel


@dataclass(frozen=True, slots=True)
class NbFormat:
    """Paddle-Lite files for one processor family.

    Attributes:
        target: ``arm``, ``x86`` or ``host``; ``--nbTarget``.
    """

    target: str = "arm"
    name: str = "NAIVE_BUFFER"
    suffix: str = ".nb"

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the target cannot express.

        Raises:
            TargetError: Nodes and reasons are named, all of them.
        """
        problems = check(model, self.target)
        if problems:
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise TargetError(f"{len(problems)} nodes cannot be written as .nb for {self.target}:\n{lines}")

    def write(self, quantized: QuantizedModel, path: Path, *, io_types: IoTypes, fp16: bool) -> list[Path]:
        """Write the model.

        Returns:
            The file.

        Raises:
            TargetError: The plan or the options cannot be expressed.
        """
        if fp16:
            raise TargetError("a .nb file has no float16 constants", where="--fp16=on", hint="use --fp16=off")
        if io_types != IoTypes("DEFAULT", "DEFAULT"):
            raise TargetError("inputs and outputs of a .nb file keep the model's types", where="--inputDataType")
        path.write_bytes(write(quantized, options=NbOptions(target=self.target)))
        return [path]

    def runnable(self, path: Path) -> bytes:
        """What the file says, as a serialized ONNX model.

        Raises:
            FormatError: The file is not valid.
        """
        from converter_lite.formats.onnx_qdq.writer import build

        return ir.to_proto(build(read(path.read_bytes(), where=str(path)))).SerializeToString()
