"""Runs models on the labelled test pictures with plain onnxruntime, as an application on a device would.

    python samples/run_onnxruntime.py samples/shapes.onnx
    python samples/run_onnxruntime.py demo_output/shapes_int8.onnx --compare samples/shapes.onnx

Prints the top-1 accuracy of one model, or a table of several: the cosine is that against the first model's outputs
(with `--compare`: against that model's). Needs onnxruntime, NumPy and Pillow, and nothing of the converter.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL import Image

TEST_PICTURES = Path(__file__).parent / "test"


@dataclass(frozen=True)
class Run:
    """What a model answered to the pictures: logits `(pictures, classes)`, and how long one picture took."""

    model: Path
    logits: NDArray[np.float32]
    milliseconds: float
    size: int


def load_pictures(folder: Path = TEST_PICTURES) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Read the pictures of a folder in order of their names, each `<class index>_<class name>_<number>.<suffix>`.

    Returns:
        The pictures as the model wants them, `(pictures, 3, height, width)` RGB in -1..1, and their class indices.

    Raises:
        FileNotFoundError: The folder holds no pictures.
        ValueError: A file name does not start with a class index.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in {".jpg", ".jpeg", ".png"})
    if not paths:
        raise FileNotFoundError(f"{folder} holds no pictures (.jpg, .jpeg or .png)")
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB"), np.float32) for path in paths])
    labels = np.array([int(path.name.split("_")[0]) for path in paths], np.int64)
    return np.ascontiguousarray(((pixels - 127.5) / 127.5).transpose(0, 3, 1, 2)), labels


def run(model: Path, pictures: NDArray[np.float32], threads: int = 1) -> Run:
    """Run a model on the pictures one by one, as a camera would deliver them."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    session.run(None, {name: pictures[:1]})  # the first run also plans the memory: not counted
    started = time.perf_counter()
    logits = [session.run(None, {name: pictures[i : i + 1]})[0] for i in range(len(pictures))]
    seconds = time.perf_counter() - started
    return Run(model, np.concatenate(logits), 1000 * seconds / len(pictures), model.stat().st_size)


def top1(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the share of pictures whose highest logit is that of their class."""
    return float(np.mean(logits.argmax(axis=1) == labels))


def mean_cosine(logits: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Return the cosine similarity of each picture's logits to the reference's, averaged over the pictures."""
    a, b = logits.astype(np.float64), reference.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean((a * b).sum(axis=1) / np.maximum(norms, np.finfo(np.float64).tiny)))


def table(runs: Sequence[Run], labels: NDArray[np.int64]) -> str:
    """Return one line per run; the cosine is that against the first one."""
    width = max(len("model"), *(len(one.model.name) for one in runs))
    lines = [f"{'model':<{width}}    top-1   cosine  ms/picture     bytes"]
    for one in runs:
        cosine = mean_cosine(one.logits, runs[0].logits)
        figures = f"{top1(one.logits, labels):7.2%}  {cosine:7.5f}  {one.milliseconds:10.3f}  {one.size:8d}"
        lines.append(f"{one.model.name:<{width}}  {figures}")
    return "\n".join(lines)


def main() -> None:
    """Run the models named on the command line and print what they reach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.onnx")
    parser.add_argument(
        "--compare", type=Path, metavar="FLOAT.onnx", help="the model that the others are compared with"
    )
    parser.add_argument("--pictures", type=Path, default=TEST_PICTURES, help="folder of labelled pictures")
    parser.add_argument("--threads", type=int, default=1, help="threads of one inference (default: 1)")
    arguments = parser.parse_args()

    models = [arguments.compare, *arguments.models] if arguments.compare else arguments.models
    missing = [str(path) for path in (*models, arguments.pictures) if not path.exists()]
    if missing:
        sys.exit(f"not found: {', '.join(missing)}")
    pictures, labels = load_pictures(arguments.pictures)
    runs = [run(model, pictures, arguments.threads) for model in models]
    if len(runs) == 1:
        print(f"{runs[0].model}: top-1 {top1(runs[0].logits, labels):.2%} of {len(labels)} pictures")
    else:
        print(table(runs, labels))


if __name__ == "__main__":
    main()
