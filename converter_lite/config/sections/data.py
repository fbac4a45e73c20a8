"""The section on calibration data."""

from __future__ import annotations

from dataclasses import dataclass

from converter_lite.config.keys import EVERY_TYPE, Condition, Kind, Use, key, section
from converter_lite.config.names import ImageFormat, InputType, QuantType, ResizeMethod

_IMAGES = Condition("data_preprocess_param", "input_type", InputType.IMAGE)
_IMAGE_USES = tuple(Use(quant_type, when=(_IMAGES,)) for quant_type in QuantType)


@dataclass(frozen=True, slots=True)
class DataPreprocessParam:
    """``[data_preprocess_param]``; ``calibrate_path`` holds (input name, directory), directories as written."""

    calibrate_path: tuple[tuple[str, str], ...] = key(
        Kind.DIRECTORIES,
        (),
        "Model input and folder of its samples; one pair per input, separated by commas. The last colon of a pair "
        "separates; a folder in single quotes may hold colons and commas. Relative folders start at the working "
        "directory.",
        example="input:samples/calibration",
    )
    calibrate_size: int | None = key(
        Kind.INTEGER,
        None,
        "Number of samples, 1 to 65535; 100 to 500 are usual.",
        low=1,
    )
    input_type: InputType | None = key(
        Kind.CHOICE,
        None,
        "IMAGE: pictures; BIN: raw bytes of the input tensor, in the order that inputDataFormat says.",
        choices=InputType,
    )
    image_to_format: ImageFormat | None = key(
        Kind.CHOICE,
        None,
        "Channel order that the model expects. Not set: BGR.",
        choices=ImageFormat,
        uses=_IMAGE_USES,
        example="RGB",
    )
    normalize_mean: tuple[float, ...] = key(
        Kind.NUMBERS,
        (),
        "Normalization comes first: (pixel - mean) / std, with pixels 0 to 255; three numbers, one for GRAY.",
        uses=_IMAGE_USES,
        example="[127.5, 127.5, 127.5]",
    )
    normalize_std: tuple[float, ...] = key(
        Kind.NUMBERS,
        (),
        "As many numbers as normalize_mean, none of them 0.",
        uses=_IMAGE_USES,
        example="[127.5, 127.5, 127.5]",
    )
    resize_width: int | None = key(
        Kind.INTEGER,
        None,
        "Width after resizing.",
        low=1,
        uses=_IMAGE_USES,
        example="64",
    )
    resize_height: int | None = key(
        Kind.INTEGER,
        None,
        "Height after resizing.",
        low=1,
        uses=_IMAGE_USES,
        example="64",
    )
    resize_method: ResizeMethod | None = key(
        Kind.CHOICE,
        None,
        "Interpolation, half-pixel centres, without antialiasing.",
        choices=ResizeMethod,
        uses=_IMAGE_USES,
    )
    center_crop_width: int | None = key(
        Kind.INTEGER,
        None,
        "Width of the middle part that is cut out after resizing.",
        low=1,
        uses=_IMAGE_USES,
        example="64",
    )
    center_crop_height: int | None = key(
        Kind.INTEGER,
        None,
        "Height of the middle part.",
        low=1,
        uses=_IMAGE_USES,
        example="64",
    )


DATA = section(
    DataPreprocessParam,
    "Calibration data. FULL_QUANT needs them; other types use them for bias correction, rounding and the accuracy table.",
    EVERY_TYPE,
    together=(
        ("normalize_mean", "normalize_std"),
        ("resize_width", "resize_height", "resize_method"),
        ("center_crop_width", "center_crop_height"),
    ),
)
