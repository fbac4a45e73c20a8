"""A graph with its plan as the bytes of a ``.nb`` file."""

from __future__ import annotations

from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.quantization.plan import QuantizedModel


def write(quantized: QuantizedModel, *, options: NbOptions | None = None) -> bytes:
    """Bytes of the file; the same graph and plan give the same bytes.

    Raises:
        TargetError: A node cannot be expressed; all such nodes are named.
        FormatError: The model is larger than the format allows.
    """
    options = options or NbOptions()
    return serialize(build(quantized, options=options))
