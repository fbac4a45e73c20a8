"""Pictures: decoding them as OpenCV does, and the preprocessing chain of ``[data_preprocess_param]``.

The chain is decode, channel conversion, normalize, resize, centre crop, on float32. It is computed in the order resize
(only the rows and columns that the crop keeps), normalize, which gives the same numbers with less work: see
:func:`converter_lite.kernels.image.normalize`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import DataError
from converter_lite.kernels import image as kernels

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 1 << 26
"""Pixels (8192 x 8192) above which a picture is refused: decoded, it would take more than 200 MB."""

MAX_FILE = 1 << 30
"""Bytes of a picture file; uncompressed pictures of ``MAX_PIXELS`` take at most half of that."""

DECODERS = (
    *("BMP", "DIB", "GIF", "JPEG", "MPO", "JPEG2000", "PNG", "PPM", "SUN", "TGA", "TIFF", "WEBP", "PCX", "AVIF"),
)
"""Formats that Pillow may try: plain pictures. Others start programs (EPS), or choose the size while they decode (ICO, ICNS)."""

DAMAGED = (OSError, SyntaxError, ValueError, EOFError, RuntimeError)
"""What Pillow raises for damaged pictures; ``RuntimeError``: AVIF."""

MAX_SIDE = 65535
"""Largest value of the resize and crop keys."""

FORMATS = ("RGB", "BGR", "GRAY")
"""Values of ``image_to_format``."""

_SIGNATURES = (
    b"\xff\xd8\xff", b"\x89PNG\r\n", b"BM", b"GIF8", b"II*\x00", b"MM\x00*", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6",
)  # fmt: skip


@dataclass(frozen=True)
class ImagePreprocess:
    """Preprocessing of pictures; the attributes are the keys of ``[data_preprocess_param]``.

    Without ``normalize_mean`` and ``normalize_std`` the values 0..255 are fed as they are. Without ``image_to_format``
    the channels come in the order blue, green, red.

    Raises:
        DataError: A value is out of range, or a key lacks its partner.
    """

    image_to_format: str | None = None
    normalize_mean: tuple[float, ...] | None = None
    normalize_std: tuple[float, ...] | None = None
    resize_width: int | None = None
    resize_height: int | None = None
    resize_method: str | None = None
    center_crop_width: int | None = None
    center_crop_height: int | None = None

    def __post_init__(self) -> None:
        if self.image_to_format is not None and self.image_to_format not in FORMATS:
            raise DataError(f"'{self.image_to_format}' is not one of {', '.join(FORMATS)}", where="image_to_format")
        methods = [method.value for method in kernels.Interpolation]
        if self.resize_method is not None and self.resize_method not in methods:
            raise DataError(f"'{self.resize_method}' is not one of {', '.join(methods)}", where="resize_method")
        for key in ("resize_width", "resize_height", "center_crop_width", "center_crop_height"):
            value = getattr(self, key)
            if value is not None and not 1 <= value <= MAX_SIDE:
                raise DataError(f"{value} is not in 1..{MAX_SIDE}", where=key)
        self._check_partners()
        self._check_normalize()
        size, crop = self.resize_size, self.crop_size
        if size and crop and (crop[0] > size[0] or crop[1] > size[1]):
            raise DataError(
                f"the crop {crop[1]}x{crop[0]} (width x height) is larger than the resized picture {size[1]}x{size[0]}",
                where="center_crop_width, center_crop_height",
                hint="Make the crop smaller or resize_width and resize_height larger.",
            )

    def _check_partners(self) -> None:
        pairs = [("center_crop_width", "center_crop_height"), ("normalize_mean", "normalize_std")]
        if self.resize_method is not None:
            pairs += [("resize_width", "resize_height"), ("resize_method", "resize_width")]
        for first, second in pairs:
            present, missing = (first, second) if getattr(self, second) is None else (second, first)
            if getattr(self, present) is not None and getattr(self, missing) is None:
                raise DataError(f"{present} is given without {missing}", where=present, hint=f"Give {missing} too.")

    def _check_normalize(self) -> None:
        for key in ("normalize_mean", "normalize_std"):
            values = getattr(self, key)
            if values is None:
                continue
            if len(values) != self.channels:
                raise DataError(
                    f"{len(values)} value(s) for pictures of {self.channels} channel(s)",
                    where=key,
                    hint=f"Give {self.channels} value(s), or change image_to_format.",
                )
            if not np.all(np.isfinite(values)):
                raise DataError("a value is not finite", where=key)
        if self.normalize_std is not None and 0 in self.normalize_std:
            raise DataError("a standard deviation is 0", where="normalize_std", hint="Use 1 for no scaling.")

    @property
    def channels(self) -> int:
        """Channels of the preprocessed picture."""
        return 1 if self.image_to_format == "GRAY" else 3

    @property
    def resize_size(self) -> tuple[int, int] | None:
        """``(height, width)`` after resizing, or ``None`` when pictures are not resized."""
        if self.resize_method is None or self.resize_height is None or self.resize_width is None:
            return None
        return self.resize_height, self.resize_width

    @property
    def crop_size(self) -> tuple[int, int] | None:
        """``(height, width)`` of the centre crop, or ``None`` without one."""
        if self.center_crop_height is None or self.center_crop_width is None:
            return None
        return self.center_crop_height, self.center_crop_width

    @property
    def final_size(self) -> tuple[int, int] | None:
        """``(height, width)`` of every preprocessed picture; ``None`` when it is the picture's own."""
        return self.crop_size or self.resize_size


def load_image(path: Path, settings: ImagePreprocess, *, planar: bool) -> NDArray[np.float32]:
    """Decode and preprocess one picture.

    Args:
        path: The file.
        settings: Preprocessing.
        planar: Return ``(C, H, W)`` instead of ``(H, W, C)``.

    Raises:
        DataError: The file is not a readable picture, is too large, or is smaller than the crop.
    """
    return preprocess(decode(path), settings, planar=planar, where=str(path))


def preprocess(
    picture: NDArray[np.uint8], settings: ImagePreprocess, *, planar: bool, where: str = "picture"
) -> NDArray[np.float32]:
    """The chain behind decoding, on an RGB picture ``(H, W, 3)``; contiguous result.

    Raises:
        DataError: The crop is larger than the picture.
    """
    if settings.image_to_format == "GRAY":
        picture = kernels.gray(picture)
    elif settings.image_to_format != "RGB":
        picture = picture[..., ::-1]
    height, width = settings.resize_size or picture.shape[:2]
    crop_height, crop_width = settings.crop_size or (height, width)
    if crop_height > height or crop_width > width:
        raise DataError(
            f"the picture is {width}x{height} (width x height), smaller than the crop {crop_width}x{crop_height}",
            where=where,
            hint="Set resize_width, resize_height and resize_method, or make center_crop_width and _height smaller.",
        )
    window = kernels.center_window(height, width, crop_height, crop_width)
    return _finish(_resized(picture, settings, window), settings, planar)


def _resized(picture: NDArray[np.uint8], settings: ImagePreprocess, window: kernels.Window) -> NDArray[Any]:
    size = settings.resize_size
    if size is None or settings.resize_method is None:
        return picture[window.top : window.top + window.height, window.left : window.left + window.width]
    method = kernels.Interpolation(settings.resize_method)
    return kernels.resize(np.ascontiguousarray(picture), height=size[0], width=size[1], method=method, window=window)


def _finish(picture: NDArray[Any], settings: ImagePreprocess, planar: bool) -> NDArray[np.float32]:
    height, width, channels = picture.shape
    result = np.empty((channels, height, width) if planar else (height, width, channels), np.float32)
    view = result.transpose(1, 2, 0) if planar else result
    if settings.normalize_mean is None or settings.normalize_std is None:
        view[...] = picture
    else:
        kernels.normalize(picture, settings.normalize_mean, settings.normalize_std, out=view)
    return result


def decode(path: Path) -> NDArray[np.uint8]:
    """RGB ``(H, W, 3)`` as OpenCV's ``imread`` gives it by default (there in the order BGR).

    The EXIF orientation is applied, alpha is dropped, palettes and gray are expanded, the high byte of 16 bits is kept.

    Raises:
        DataError: The file cannot be read, is not a picture, is damaged, or has more than ``MAX_PIXELS`` pixels or
            ``MAX_FILE`` bytes.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        if path.stat().st_size > MAX_FILE:
            raise _too_large(path, f"{path.stat().st_size} bytes")
        with Image.open(io.BytesIO(path.read_bytes()), formats=_decoders()) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise _too_large(path, f"{picture.width}x{picture.height} pixels")
            return _to_rgb(_upright(picture), path)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(path, str(error)) from error
    except UnidentifiedImageError as error:
        raise DataError(
            "this is not a picture of a known format",
            where=str(path),
            hint="Keep only pictures in the directory, or set input_type=BIN for raw tensors.",
        ) from error
    except DAMAGED as error:
        raise DataError(
            f"the picture cannot be read: {error}", where=str(path), hint="Replace or remove the file."
        ) from error


def _decoders() -> list[str]:
    """Those of :data:`DECODERS` that this Pillow has."""
    from PIL import Image

    Image.init()
    return [name for name in DECODERS if name in Image.OPEN]


def _too_large(path: Path, detail: str) -> DataError:
    return DataError(
        f"the picture is too large: {detail}; at most {MAX_PIXELS} pixels and {MAX_FILE} bytes are read",
        where=str(path),
        hint="Scale the picture down or remove it.",
    )


def _upright(picture: Image.Image) -> Image.Image:
    from PIL import ExifTags, ImageOps

    if picture.getexif().get(ExifTags.Base.Orientation, 1) == 1:
        return picture
    return ImageOps.exif_transpose(picture)


def _to_rgb(picture: Image.Image, path: Path) -> NDArray[np.uint8]:
    if picture.mode == "RGB":
        return np.asarray(picture)
    if picture.mode == "CMYK" and picture.format in ("JPEG", "MPO"):
        # Pillow returns the four colours inverted; OpenCV computes with them as they are stored.
        return kernels.cmyk_to_rgb(255 - np.asarray(picture))
    if picture.mode.startswith("I"):
        values = np.asarray(picture)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise DataError("the picture has more than 16 bits per value", where=str(path), hint="Save it with 8 bits.")
        return np.repeat((values >> 8).astype(np.uint8)[..., np.newaxis], 3, axis=2)
    if picture.mode == "F":
        raise DataError("the picture has floating-point values", where=str(path), hint="Save it with 8 bits.")
    return np.asarray(picture.convert("RGB"))


def is_picture(path: Path) -> bool:
    """Whether the first bytes of a file are those of a picture; the rest of it is not read.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(12)
        return head.startswith(_SIGNATURES) or head[8:12] == b"WEBP" or _pillow_knows(path)
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", where=str(path)) from error


def _pillow_knows(path: Path) -> bool:
    from PIL import Image, UnidentifiedImageError

    try:
        Image.open(path, formats=_decoders()).close()
    except UnidentifiedImageError:
        return False
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError, *DAMAGED):
        return True  # a damaged one; decoding it reports what is wrong
    return True
