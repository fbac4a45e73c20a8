"""The program: a file of TensorFlow or Keras to ONNX, or its description."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from converter_lite.formats.child import Answer, Refusal, Request, forbid_programs, serve

SAVED_MODEL = "saved_model.pb"

KERAS_ENDINGS = (".keras", ".h5", ".hdf5")


def work() -> Callable[[Request, Path], Answer]:
    """Import the framework."""
    import tensorflow  # noqa: F401
    import tf2onnx  # noqa: F401

    return answer


def answer(request: Request, folder: Path) -> Answer:
    """Do what is asked, after the kind of the file.

    Raises:
        Refusal: It is not a model, or it is not converted.
    """
    from converter_lite.formats.tensorflow.child import frozen, keras_files, saved_model

    if not request.unsafe:
        forbid_programs()
    path = Path(request.model)
    if path.name == SAVED_MODEL:
        path = path.parent
    if path.is_dir():
        if not (path / SAVED_MODEL).is_file():
            raise Refusal(f"the folder has no {SAVED_MODEL}", "give the folder of a SavedModel, or a file")
        return saved_model.answer(path, request, folder)
    if path.suffix in KERAS_ENDINGS:
        return keras_files.answer(path, request, folder)
    return frozen.answer(path, request, folder)


if __name__ == "__main__":
    serve(("tensorflow", "tf2onnx"), work)
