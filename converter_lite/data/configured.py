"""The calibration data that ``[data_preprocess_param]`` describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from converter_lite.config.names import InputType
from converter_lite.data.dataset import Dataset, open_dataset
from converter_lite.data.files import list_files
from converter_lite.data.images import ImagePreprocess, is_picture
from converter_lite.data.inputs import InputSpec
from converter_lite.data.layout import Layout

if TYPE_CHECKING:
    from converter_lite.config.sections.data import DataPreprocessParam


def configured_dataset(
    data: DataPreprocessParam | None,
    specs: Sequence[InputSpec],
    *,
    input_format: Layout,
    workers: int,
    confined: bool = True,
) -> Dataset | None:
    """The data set of a configuration section, ``None`` when the section names none.

    Raises:
        DataError: The data are missing or do not fit the inputs.
    """
    if data is None or not data.calibrate_path or data.input_type is None:
        return None
    return open_dataset(
        data.calibrate_path,
        specs,
        picture_settings(data) if data.input_type is InputType.IMAGE else input_format,
        size=data.calibrate_size,
        workers=workers,
        confined=confined,
    )


def picture_settings(data: DataPreprocessParam) -> ImagePreprocess:
    """How a section prepares pictures.

    Raises:
        DataError: Its keys contradict each other.
    """
    return ImagePreprocess(
        image_to_format=data.image_to_format.value if data.image_to_format else None,
        normalize_mean=data.normalize_mean or None,
        normalize_std=data.normalize_std or None,
        resize_width=data.resize_width,
        resize_height=data.resize_height,
        resize_method=data.resize_method.value if data.resize_method else None,
        center_crop_width=data.center_crop_width,
        center_crop_height=data.center_crop_height,
    )


def check_folder(data: DataPreprocessParam, name: str, folder: Path, *, confined: bool) -> None:
    """Check what is known of the folder of an input without its model.

    Raises:
        DataError: It cannot be read, or does not have the files that the section wants.
    """
    accepts = is_picture if data.input_type is InputType.IMAGE else None
    list_files(folder, count=data.calibrate_size, input_name=name, accepts=accepts, confined=confined)
