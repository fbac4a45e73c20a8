"""Samples of the shared tasks, prepared as the evaluation script prepares its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Feed = dict[str, NDArray[Any]]


def calibration_feeds(task: str, folder: Path, limit: int) -> Iterator[Feed]:
    """Model inputs by name, one sample at a time, in the order of the file names.

    Args:
        task: Name of a task in :data:`bench.cases.TASKS`.
        folder: Pictures, or a folder per input with BIN files; or an ``.npz`` file with an array ``number/input`` each.
        limit: At most this many samples.
    """
    if folder.suffix == ".npz":
        return _stored_feeds(folder, limit)
    if task == "minilm":
        return _token_feeds(folder, limit)
    return ({_INPUTS[task]: _picture(task, path)} for path in sorted(folder.iterdir())[:limit])


_INPUTS = {"mobilenet": "input", "ultraface": "input", "resnet8": "input_1", "fastestdet": "input.1"}


def _picture(task: str, path: Path) -> NDArray[np.float32]:
    """Shapes: (1, 3, 224, 224), (1, 3, 240, 320), (1, 3, 352, 352) or (1, 32, 32, 3)."""
    picture = Image.open(path).convert("RGB")
    if task == "resnet8":
        return np.asarray(picture, np.float32)[None]
    if task == "mobilenet":
        picture = picture.resize((256, 256), Image.Resampling.BILINEAR).crop((16, 16, 240, 240))
        pixels = (np.asarray(picture, np.float32) - 127.5) / 127.5
    elif task == "fastestdet":
        pixels = np.asarray(picture.resize((352, 352), Image.Resampling.BILINEAR), np.float32) / 255
    else:
        picture = picture.resize((320, 240), Image.Resampling.BILINEAR)
        pixels = (np.asarray(picture, np.float32) - 127) / 128
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def _token_feeds(folder: Path, limit: int) -> Iterator[Feed]:
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    for path in sorted((folder / inputs[0]).iterdir())[:limit]:
        yield {name: np.fromfile(folder / name / path.name, np.int64)[None] for name in inputs}


def _stored_feeds(path: Path, limit: int) -> Iterator[Feed]:
    with np.load(path) as arrays:
        names = [name.removeprefix("0/") for name in arrays.files if name.startswith("0/")]
        for index in range(min(limit, len(arrays.files) // len(names))):
            yield {name: arrays[f"{index}/{name}"] for name in names}
