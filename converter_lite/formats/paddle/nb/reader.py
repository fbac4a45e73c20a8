"""A ``.nb`` file as a graph with its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats.paddle.importer.graph import to_quantized_model
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, Target
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.program import NbFile
from converter_lite.quantization.plan import QuantizedModel


def read(
    data: bytes, *, where: str = "", input_shapes: Mapping[str, Sequence[int]] | None = None, rounded: bool = False
) -> QuantizedModel:
    """Graph and plan of a file, written by this program or by an ``opt`` from 2.7 on.

    Operators with float16 kernels compute in float32 in the graph. ``rounded`` rounds their constants and results to float16,
    which is the least that a device loses, and shows where values leave the range of float16.

    Raises:
        FormatError: The file is damaged, or holds an operator that cannot be translated.
    """
    return to_graph(parse(data, where=where), where=where, input_shapes=input_shapes, rounded=rounded)


def to_graph(
    file: NbFile, *, where: str = "", input_shapes: Mapping[str, Sequence[int]] | None = None, rounded: bool = False
) -> QuantizedModel:
    """Graph and plan of a parsed file; see :func:`read`.

    Raises:
        FormatError: It holds an operator that cannot be translated.
    """
    try:
        return to_quantized_model(
            file.program.copy(),
            file.parameters,
            target=target_name(file),
            where=where,
            input_shapes=input_shapes,
            rounded=rounded,
        )
    except ModelError as error:
        raise FormatError(error.message, where=error.where, hint=error.hint) from None


def target_name(file: NbFile) -> str:
    """``arm`` or ``x86`` by the kernels of the file, ``host`` when it has neither."""
    numbers = set()
    for operator in file.program.main.operators:
        parts = str(operator.get(KERNEL_ATTRIBUTE, "")).split("/")
        if len(parts) == 5:
            numbers.add(parts[2])
    for target in (Target.ARM, Target.X86):
        if str(target.value) in numbers:
            return target.name.lower()
    return Target.HOST.name.lower()
