"""Pictures of prepared samples, as the model gets them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.inputs import InputSpec
from converter_lite.data.layout import model_layout
from converter_lite.preprocessing.doctor import Preparation
from converter_lite.preprocessing.normalization import PIXELS, View, guess
from converter_lite.runtime.engine import Feed
from converter_lite.system.files import transaction

SHOWN = 8
"""Most samples that are written."""


def picture(spec: InputSpec, feed: Feed, preparation: Preparation) -> NDArray[np.uint8]:
    """The first picture of a sample: ``(H, W, 3)`` or ``(H, W)``.

    The first channel of the tensor is shown as red and the last as blue, whatever the configuration calls them: natural colours
    mean that the model gets RGB. Numbers are converted back to pixels; those outside the range are clipped.

    Args:
        spec: Input with four dimensions and 1 or 3 channels.
        feed: The sample.
        preparation: How it was made; a normalization that is not known is guessed from the values (plain pixels if they fit no
            usual one).
    """
    array = feed[spec.name][:1].astype(np.float32)
    layout, used = model_layout(spec)[0], preparation.normalization
    if used is None:
        used = guess(float(array.min()), float(array.max()), channels=layout.split(array.shape)[2]) or PIXELS
    pixels = View(layout, used, blue_first=preparation.blue_first).pixels(array)[0]
    shown = np.clip(np.rint(np.nan_to_num(pixels)), 0, 255).astype(np.uint8)
    return shown[..., 0] if shown.shape[-1] == 1 else shown


def write_preview(folder: Path, specs: Sequence[InputSpec], feeds: Sequence[Feed], preparation: Preparation) -> int:
    """Write the first samples of every picture input as PNG; returns the number of files. See :func:`picture`.

    Raises:
        ConverterError: The folder cannot be written.
    """
    from PIL import Image

    with transaction(folder) as files:
        count = 0
        for number, spec in enumerate(specs):
            prefix = "" if len(specs) == 1 else f"input{number}_"
            for index, feed in enumerate(feeds[:SHOWN]):
                made = files.work / f"{prefix}{index:03}.png"
                Image.fromarray(picture(spec, feed, preparation)).save(made)
                files.add(made, folder / made.name)
                count += 1
        files.commit()
    return count
