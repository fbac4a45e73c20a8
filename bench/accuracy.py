"""Accuracy of models against their float model: ``python -m bench.accuracy`` prints JSON, a line for each model.

Every model runs in the runtime as it is, and once more in a form that no integer kernel saturates with, where that is another.
Pictures and sentences are those of the evaluation script beside the shared data.
"""

from __future__ import annotations

import argparse
import json
import runpy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from bench.cases import TASKS
from bench.figures import EXACT
from bench.samples import Feed, calibration_feeds
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import exact_message

PICTURES = ("fastestdet",)
"""Tasks that the evaluation script does not know: judged on the pictures of the others."""

Run = Callable[[Feed], Sequence[NDArray[Any]]]
Outputs = list[NDArray[np.float32]]


def main() -> None:
    """Print the figures of each model: those of the runtime as it is, and the exact ones with ``EXACT`` behind their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("models", type=Path, nargs="*")
    arguments = parser.parse_args()
    feeds, labels = _samples(arguments.task, arguments.shared)
    model = arguments.shared / "data/models" / TASKS[arguments.task].model
    reference = _outputs(as_it_is(model), feeds)
    for path in (model, *arguments.models):
        found = compared(_outputs(as_it_is(path), feeds), reference, labels)
        run = exact(path)
        exactly = found if run is None else compared(_outputs(run, feeds), reference, labels)
        print(json.dumps({**found, **{metric + EXACT: value for metric, value in exactly.items()}}), flush=True)


def as_it_is(path: Path) -> Run:
    """The file in onnxruntime with one thread and no other option."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(None, _as_asked(feed, session.get_inputs()))


def exact(path: Path) -> Run | None:
    """The file with sums that no kernel saturates; ``None`` where it has only such ones as it is."""
    changed = exact_message(path)
    if changed is None:
        return None
    session = changed.session(DEFAULT_ENGINE, threads=1)
    inputs = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()
    return lambda feed: list(session.run(_as_asked(feed, inputs)).values())


def _as_asked(feed: Feed, inputs: Sequence[Any]) -> Feed:
    """The feed under the names of a file's inputs, in its layout: models of other frameworks and ``.ms`` files have their own."""
    found = {}
    for given, placed in zip(inputs, feed.values(), strict=True):
        array = feed.get(given.name, placed)
        turns = (
            array.ndim == 4 and array.shape[1] in (1, 3) and given.shape[1] not in (1, 3) and given.shape[3] in (1, 3)
        )
        found[given.name] = array.transpose(0, 2, 3, 1) if turns else array
    return found


def _samples(task: str, shared: Path) -> tuple[list[Feed], NDArray[np.int64] | None]:
    """Model inputs, and the classes of pictures that have one."""
    if task in PICTURES:
        folder = shared / "data/imagenet_eval"
        return list(calibration_feeds(task, folder, len(list(folder.iterdir())))), None
    _, samples, labels = runpy.run_path(str(shared / "tools/evaluate.py"))["samples"](task)
    return [dict(zip(TASKS[task].inputs, sample, strict=True)) for sample in samples], labels


def _outputs(run: Run, feeds: Iterable[Feed]) -> list[Outputs]:
    return [flat(run(feed)) for feed in feeds]


def flat(outputs: Sequence[NDArray[Any]]) -> Outputs:
    """Outputs of one sample in the form that is compared."""
    return [np.asarray(array, np.float32).ravel() for array in outputs]


def compared(
    found: list[Outputs], reference: list[Outputs], labels: NDArray[np.int64] | None = None
) -> dict[str, float]:
    """Figures of :data:`bench.figures.ACCURACY`; those of classes only where there are ``labels``."""
    pairs = [(a, b) for one, other in zip(found, reference, strict=True) for a, b in zip(one, other, strict=True)]
    cosines = [float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30)) for a, b in pairs]
    error = max(float(np.abs(a - b).max()) for a, b in pairs)
    figures = {"cosine": float(np.mean(cosines)), "least": min(cosines), "error": error}
    if labels is None:
        return figures
    order = np.array([np.argsort(-outputs[0])[:5] for outputs in found])
    return {
        "top1": float((order[:, 0] == labels).mean()),
        "top5": float((order == labels[:, None]).any(1).mean()),
        **figures,
    }


if __name__ == "__main__":
    main()
