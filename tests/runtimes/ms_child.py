"""Runs .ms files in the released MindSpore Lite runtime: ``ms_child.py DIR``; started with that runtime's interpreter.

DIR holds ``<case>.ms`` and ``<case>.in.npz``; ``<case>.out.npz`` or ``<case>.error`` is written for each. Cases that
have either are left alone, so the parent starts the script again after a crash. ``<case>.running`` marks the one at work.
"""

import os
import sys

import mindspore_lite as mslite
import numpy as np


def run(folder, case, context):
    model = mslite.Model()
    model.build_from_file(os.path.join(folder, case + ".ms"), mslite.ModelType.MINDIR_LITE, context)
    given = np.load(os.path.join(folder, case + ".in.npz"))
    inputs = model.get_inputs()
    for tensor in inputs:
        array = given[tensor.name]
        shape = list(tensor.shape)
        if array.ndim == 4 and list(array.shape) != shape:
            array = array.transpose(0, 2, 3, 1)
        if list(array.shape) != shape:
            raise RuntimeError("input %s: shape %s does not fit %s" % (tensor.name, array.shape, shape))
        dtype = np.dtype(str(tensor.dtype).split(".")[-1].lower())
        tensor.set_data_from_numpy(np.ascontiguousarray(array, dtype=dtype))
    outputs = model.predict(inputs)
    arrays = dict((t.name, t.get_data_to_numpy().reshape(t.shape).copy()) for t in outputs)
    np.savez(os.path.join(folder, case + ".out.npz"), **arrays)


def main(folder):
    context = mslite.Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    for name in sorted(os.listdir(folder)):
        case = name[:-3]
        stem = os.path.join(folder, case)
        if not name.endswith(".ms") or os.path.exists(stem + ".out.npz") or os.path.exists(stem + ".error"):
            continue
        open(stem + ".running", "w").close()
        try:
            run(folder, case, context)
        except RuntimeError as error:
            with open(stem + ".error", "w") as file:
                file.write(str(error))
        os.remove(stem + ".running")


if __name__ == "__main__":
    main(sys.argv[1])
