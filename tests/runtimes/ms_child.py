"""Runs .ms files in the released MindSpore Lite runtime: ``ms_child.py DIR``; started with that runtime's interpreter.

DIR holds ``<case>.ms`` and ``<case>.in.npz``; ``<case>.out.npz`` or ``<case>.error`` is written for each. Cases that
have either are left alone, so the parent starts the script again after a crash. ``<case>.running`` marks the one at work.
"""

import sys
from pathlib import Path

import mindspore_lite as mslite
import numpy as np


def arranged(array, shape):
    """The array in the layout of the file's input; its batch may be another one, for which the file is resized."""
    if array.ndim == 4 and list(array.shape[1:]) != shape[1:]:
        array = array.transpose(0, 2, 3, 1)
    if list(array.shape[1:]) != shape[1:]:
        raise RuntimeError(f"shape {array.shape} does not fit {shape}")
    return array


def run(stem, context):
    model = mslite.Model()
    model.build_from_file(stem + ".ms", mslite.ModelType.MINDIR_LITE, context)
    given = np.load(stem + ".in.npz")
    inputs = model.get_inputs()
    arrays = {tensor.name: arranged(given[tensor.name], list(tensor.shape)) for tensor in inputs}
    if any(list(arrays[tensor.name].shape) != list(tensor.shape) for tensor in inputs):
        model.resize(inputs, [list(arrays[tensor.name].shape) for tensor in inputs])
    for tensor in inputs:
        dtype = np.dtype(str(tensor.dtype).split(".")[-1].lower())
        tensor.set_data_from_numpy(np.ascontiguousarray(arrays[tensor.name], dtype=dtype))
    outputs = model.predict(inputs)
    np.savez(stem + ".out.npz", **{t.name: t.get_data_to_numpy().reshape(t.shape).copy() for t in outputs})


def main(folder):
    context = mslite.Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    for path in sorted(folder.glob("*.ms")):
        stem = str(path)[: -len(".ms")]
        mark, error_file = Path(stem + ".running"), Path(stem + ".error")
        if error_file.exists() or Path(stem + ".out.npz").exists():
            continue
        mark.touch()
        try:
            run(stem, context)
        except RuntimeError as error:
            error_file.write_text(str(error))
        mark.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
