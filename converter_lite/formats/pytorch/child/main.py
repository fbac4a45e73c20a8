"""The program: a file of PyTorch to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from converter_lite.formats.child import Answer, Request, forbid_programs, serve
from converter_lite.formats.pytorch.child.archive import EXPORTED, PICKLED, SCRIPTED, archive_of


def work() -> Callable[[Request, Path], Answer]:
    """Import the framework."""
    import onnxscript  # noqa: F401
    import torch
    import torch.export
    import torch.onnx  # noqa: F401

    return answer


def answer(request: Request, folder: Path) -> Answer:
    """Convert, after the kind of the file.

    Raises:
        Refusal: It is not a model, or it is not converted.
    """
    from converter_lite.formats.pytorch.child import exported, modules, scripted

    path = Path(request.model)
    archive = archive_of(path)
    if not request.unsafe:  # what can be seen in the file was refused before this process was started
        forbid_programs()
        path = archive.copy(folder / f"checked{path.suffix}")
    if archive.kind == EXPORTED:
        return exported.answer(path, request, folder)
    if archive.kind == SCRIPTED:
        return scripted.answer(path, archive, request, folder)
    assert archive.kind == PICKLED
    return modules.answer(path, request, folder)


if __name__ == "__main__":
    serve(("torch", "onnxscript"), work)
