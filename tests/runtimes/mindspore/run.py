"""Runs MindIR files in MindSpore: ``run.py DIR``; started with the interpreter of its environment.

DIR holds ``<case>.mindir`` and ``<case>.in.npz``; ``<case>.out.npz`` or ``<case>.error`` is written for each. The error is there
while a case is at work, so that the parent can start the script again after a crash.
"""

import sys
from pathlib import Path

import mindspore
import numpy as np
from mindspore import Tensor, nn

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError)


def flat(value):
    if isinstance(value, (tuple, list)):
        return [part for inner in value for part in flat(inner)]
    return [value.asnumpy()]


def run(path):
    network = nn.GraphCell(mindspore.load(str(path)))
    with np.load(path.with_suffix(".in.npz")) as given:
        feed = [Tensor(given[f"x{index}"]) for index in range(len(given.files))]
    return flat(network(*feed))


def main(folder):
    mindspore.set_context(mode=mindspore.GRAPH_MODE, device_target="CPU")
    for path in sorted(folder.glob("*.mindir")):
        error, output = path.with_suffix(".error"), path.with_suffix(".out.npz")
        if error.exists() or output.exists():
            continue
        error.write_text("the process died")
        try:
            results = run(path)
        except REFUSALS as problem:
            error.write_text(str(problem))
            continue
        np.savez(output, **{f"y{index}": array for index, array in enumerate(results)})
        error.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
