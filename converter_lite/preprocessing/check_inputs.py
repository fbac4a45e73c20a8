"""The check of a conversion's samples before they are used."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from converter_lite.data.inputs import input_specs
from converter_lite.data.remember import RememberingDataset
from converter_lite.errors import ModelError
from converter_lite.preprocessing.doctor import LOOKED_AT, examine, is_picture, preparation_of
from converter_lite.preprocessing.pictures import write_preview
from converter_lite.runtime.context import RunContext

if TYPE_CHECKING:
    from converter_lite.config.sections.data import DataPreprocessParam


def check_inputs(
    model: ir.Model,
    dataset: RememberingDataset,
    data: DataPreprocessParam | None,
    *,
    samples: int | None = None,
    preview: Path | None,
    context: RunContext,
) -> None:
    """Warn about samples unlike those that the model was trained on, and show them.

    Args:
        model: Optimized float graph.
        dataset: Prepared samples.
        data: How they were prepared, ``None`` if they come from the caller.
        samples: How many samples may be looked at; ``None``: as many as the check wants.
        preview: Folder for pictures of the first ones.
        context: Runs the model; its log receives the warnings, nothing where all is well.

    Raises:
        ConverterError: The folder of the pictures cannot be written.
    """
    log = context.log
    with log.stage("load samples"):
        feeds = dataset.head(LOOKED_AT if samples is None else samples)
    preparation = preparation_of(data)
    # calibration meets the same error of the runtime, and values that are not finite, and names the tensor
    with log.stage("input check"), contextlib.suppress(ModelError), np.errstate(all="ignore"):
        for finding in examine(model, feeds, preparation=preparation, samples=len(dataset), context=context):
            log.warning(finding.message)
    if preview is None:
        return
    pictures = [spec for spec in input_specs(model) if is_picture(spec, feeds[0])]
    if not pictures:
        log.warning("--preview: no input of the model is a picture")
        return
    count = write_preview(preview, pictures, feeds, preparation)
    log.info(f"{preview}: {count} prepared samples as pictures; the first channel is shown as red")
