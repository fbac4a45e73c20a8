"""Flags of ``.nb`` files."""

from __future__ import annotations

from dataclasses import dataclass

from converter_lite.formats.flags import FormatFlags, flag


@dataclass(frozen=True, kw_only=True)
class NbFlags(FormatFlags):
    """The user's options for a ``.nb`` file.

    Attributes:
        nb_target: Processors that it is for: ``arm``, ``x86`` or ``host``.
        nb_fp16: A file for ARM computes in float16 where there are kernels for it.
        nb_meta_version: Layout of the file: 2, or 1 for libraries of release 2.7.
        nb_sparse_threshold: Share of zeros from which a 1x1 convolution for ARM becomes sparse; ``None`` leaves all dense.
        nb_protobuf: A folder with a model as Paddle stores it (``output_file`` is its program), instead of a ``.nb`` file.
    """

    nb_target: str = flag("arm", name="nbTarget", help="Processors of a .nb file.", choices=("arm", "x86", "host"))
    nb_fp16: bool = flag(
        False, name="nbFp16", help="on: a .nb file for arm computes in float16 where there are kernels for it."
    )
    nb_meta_version: int = flag(2)
    nb_sparse_threshold: float | None = flag(None)
    nb_protobuf: bool = flag(False)
