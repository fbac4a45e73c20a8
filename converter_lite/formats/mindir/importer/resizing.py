"""Images in another size."""

from __future__ import annotations

from typing import Any

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.step import Kind, Step


def _resize(step: Step) -> None:
    """To a size; which place of the image a place of the result is, the two flags say.

    MindSpore takes the weights of cubic interpolation from a table of 1024 places, which are off by up to 0.0015.
    """
    size = step.integers("size")
    align, centres = step.flag("align_corners", False), step.flag("half_pixel_centers", False)
    if align and centres:
        raise ModelError("align_corners and half_pixel_centers exclude each other")
    place = "align_corners" if align else "half_pixel" if centres else "asymmetric"
    if step.operator == "ResizeBicubic":
        weights = {"cubic_coeff_a": -0.5, "exclude_outside": 1} if centres else {"cubic_coeff_a": -0.75}
        _resized(step, list(size), mode="cubic", coordinate_transformation_mode=place, **weights)
    elif step.operator.startswith("ResizeBilinear"):
        _resized(step, list(size), mode="linear", coordinate_transformation_mode=place)
    else:
        nearest = "floor" if place == "asymmetric" else "round_prefer_ceil"
        _resized(step, list(size), mode="nearest", coordinate_transformation_mode=place, nearest_mode=nearest)


def _upsample(step: Step) -> None:
    """To a size, or by factors."""
    image = step.shape("x")[2:]
    if step.has("output_size"):
        size = list(step.integers("output_size"))
    else:
        scales = step.get("scales")
        factors = scales if isinstance(scales, tuple) else (scales,)
        if len(factors) != len(image) or not all(isinstance(factor, int | float) for factor in factors):
            raise ModelError(f"the factors {factors!r:.60}")
        size = [int(pixels * float(factor)) for pixels, factor in zip(image, factors, strict=True)]
        if any(pixels * float(factor) != new for pixels, factor, new in zip(image, factors, size, strict=True)):
            raise ModelError(f"the factors {list(factors)} of {list(image)} pixels give no whole number")
    if step.operator.startswith("UpsampleNearest"):
        options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        place = "align_corners" if step.flag("align_corners", False) else "half_pixel"
        options = {"mode": "linear", "coordinate_transformation_mode": place}
    _resized(step, size, **options)


def _resize_line(step: Step) -> None:
    """A row of numbers; which place of it a place of the result is, a word says."""
    place = step.word("coordinate_transformation_mode", "align_corners", PLACES)
    if place not in PLACES[1:]:
        raise ModelError(f"coordinate_transformation_mode '{place}'")
    _resized(step, list(step.integers("size")), mode="linear", coordinate_transformation_mode=place)


def _resized(step: Step, size: list[int], **options: Any) -> None:
    shape = step.shape("x")
    if len(shape) != 2 + len(size) or min(size) < 1:
        raise ModelError(f"{list(shape)} in the size {size}")
    step.finish("Resize", step.tensor("x"), None, None, step.ints("sizes", [*shape[:2], *size]), **options)


def _grid_sample(step: Step) -> None:
    mode = step.word("interpolation_mode", "bilinear", ("bilinear", "nearest", "bicubic"))
    padding = step.word("padding_mode", "zeros", ("zeros", "border", "reflection"))
    if mode not in MODES or padding not in ("zeros", "border", "reflection"):
        raise ModelError(f"interpolation_mode '{mode}', padding_mode '{padding}'")
    step.finish(
        "GridSample",
        step.tensor("x"),
        step.tensor("grid"),
        mode=MODES[mode],
        padding_mode=padding,
        align_corners=int(step.flag("align_corners", False)),
    )


PLACES = ("asymmetric", "align_corners", "half_pixel")
"""In the order of their numbers in newer files."""

MODES = {"bilinear": "linear", "nearest": "nearest"}

_FLAGS = "align_corners half_pixel_centers"

KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBilinearV2", "ResizeNearestNeighborV2"),
        Kind(_resize, f"x size {_FLAGS}", "Resize"),
    ),
    "ResizeBicubic": Kind(_resize, f"x size {_FLAGS}", "Resize"),
    "ResizeLinear1D": Kind(_resize_line, "x size coordinate_transformation_mode", "Resize"),
    "GridSampler2D": Kind(_grid_sample, "x grid interpolation_mode padding_mode align_corners", "GridSample"),
    **dict.fromkeys(
        ("UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D"),
        Kind(_upsample, "x output_size scales", "Resize"),
    ),
    **dict.fromkeys(
        ("UpsampleLinear1D", "UpsampleBilinear2D", "UpsampleTrilinear3D"),
        Kind(_upsample, "x output_size scales align_corners", "Resize"),
    ),
}
