"""SSD's DetectionOutput, written out: decoded boxes, one NonMaxSuppression for all classes, the best of what is left.

Rows are in the order of Caffe: by class, the best first. Which of equal scores ``keep_top_k`` drops is open in Caffe; here those
of the later class.

Source: ``detection_output_layer.cpp`` and ``bbox_util.cpp`` of weiliu89/caffe, branch ssd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step

MOST_IMAGES = 16
"""Images of a batch, each of which gets nodes of its own."""

CODES = {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is detected.

    Attributes:
        images, priors, classes: How many there are.
        kept: Classes that are looked for, all but the background.
        shared: All classes have the same boxes.
        candidates: Boxes of a class that are compared with each other, the best ones.
        most: Boxes of an image that are kept, -1: all.
        overlap: Share of their union from which the worse one of two boxes is dropped.
        threshold: Least score; ``None``: any.
    """

    images: int
    priors: int
    classes: int
    kept: tuple[int, ...]
    shared: bool
    candidates: int
    most: int
    overlap: float
    threshold: float | None


def _detection_output(step: Step) -> None:
    settings = _settings(step)
    boxes = _decoded(step, settings)
    scores = step.emit(
        "Reshape",
        step.input(1),
        step.constant("scores", (settings.images, settings.priors, settings.classes), np.int64),
    )
    scores = step.emit("Transpose", scores, perm=[0, 2, 1])
    kept = step.constant("classes", settings.kept, np.int64)
    scores = step.emit("Gather", scores, kept, axis=1)
    if not settings.shared:
        boxes = step.emit("Gather", boxes, kept, axis=1)
    rows = []
    for image in range(settings.images):
        place = step.constant("image", image, np.int64)
        rows.append(
            _rows(step, settings, image, *(step.emit("Gather", value, place, axis=0) for value in (boxes, scores)))
        )
    found = rows[0] if len(rows) == 1 else step.emit("Concat", *rows, axis=0)
    found = step.emit("Concat", found, _nothing(step, settings, found), axis=0)
    step.finish("Reshape", found, step.constant("shape", (1, 1, -1, 7), np.int64))


def _settings(step: Step) -> Settings:
    parameters, suppression = step.parameters, step.parameters.message("nms_param")
    if suppression.number("eta", 1.0) != 1.0:
        raise ModelError(
            "its overlap falls with every box (eta)",
            hint="remove eta from nms_param, or cut the network before this layer",
        )
    unknown = [name for name in suppression.fields if name not in ("nms_threshold", "top_k", "eta")]
    if unknown:
        raise ModelError(f"nms_param has a field that is not known here: {unknown[0]}")
    if not parameters.flag("normalized_bbox", True):
        raise ModelError("its boxes are in pixels (normalized_bbox)")
    if len(step.layer.bottoms) > 3 and not parameters.flag("visualize", False):
        raise ModelError(f"its fourth bottom '{step.layer.bottoms[3]}' has a meaning that only a fork knows")
    images, priors, classes = step.shape()[0], step.shape(2)[-1] // 4, parameters.size("num_classes")
    shared, background = parameters.flag("share_location", True), parameters.integer("background_label_id", 0)
    kept = tuple(label for label in range(min(classes, 1 << 16)) if label != background)
    numbers = (("boxes", 0, 4 * (1 if shared else classes)), ("scores", 1, classes))
    for what, index, each in numbers:
        count = int(np.prod(np.array(step.shape(index), np.float64)))
        if count != images * priors * each:
            raise ModelError(f"{count} {what} for {images} images, {priors} priors and {classes} classes")
    if not kept or not priors or images > MOST_IMAGES:
        raise ModelError(
            f"{images} images with {priors} priors and {classes} classes",
            hint=f"--inputShape sets a batch of {MOST_IMAGES} at most" if images > MOST_IMAGES else "",
        )
    candidates, most = suppression.integer("top_k", -1), parameters.integer("keep_top_k", -1)
    overlap = suppression.number("nms_threshold", 0.3)
    if candidates < -1 or most < -1 or not candidates or not most or not overlap >= 0:
        raise ModelError(f"top_k {candidates}, keep_top_k {most}, nms_threshold {overlap:g}")
    limit = parameters.number("confidence_threshold") if parameters.has("confidence_threshold") else None
    candidates = priors if candidates == -1 else min(candidates, priors)
    return Settings(images, priors, classes, kept, shared, candidates, most, min(overlap, 1.0), limit)


def _priors(step: Step, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Boxes and variances ``(priors, 1, 4)``."""
    stored = step.input(2).const_value
    if stored is None:
        raise ModelError(f"its priors '{step.layer.bottoms[2]}' are known at run time only")
    boxes, variances = stored.numpy().reshape(2, count, 1, 4)
    return boxes, variances


def _decoded(step: Step, settings: Settings) -> ir.Value:
    """Corners of the boxes: ``(images, priors, 4)``, or ``(images, classes, priors, 4)`` where each class has its own."""
    parameters = step.parameters
    code = parameters.word("code_type", "CORNER", CODES)
    priors, variances = _priors(step, settings.priors)
    low, high = priors[..., :2], priors[..., 2:]
    size = high - low
    if code != "CORNER" and not np.all(size > 0):
        raise ModelError("a prior box is empty")
    classes = 1 if settings.shared else settings.classes
    target = (settings.images, settings.priors, classes, 4)
    value = step.emit("Reshape", step.input(), step.constant("offsets", target, np.int64))
    if not parameters.flag("variance_encoded_in_target", False):
        value = step.emit("Mul", value, step.constant("variances", _short(variances)))
    if code == "CENTER_SIZE":
        halves = step.constant("halves", [2, 2], np.int64)
        move, grow = step.emit_many("Split", [value, halves], 2, axis=3)
        centre = step.emit(
            "Add", step.emit("Mul", move, step.constant("sizes", size)), step.constant("centres", (low + high) / 2)
        )
        half = step.emit("Mul", step.emit("Exp", grow), step.constant("half_sizes", size / 2))
        value = step.emit("Concat", step.emit("Sub", centre, half), step.emit("Add", centre, half), axis=3)
    else:
        if code == "CORNER_SIZE":
            value = step.emit("Mul", value, step.constant("sizes", np.concatenate([size, size], 2)))
        value = step.emit("Add", value, step.constant("priors", priors))
    if parameters.flag("clip", False):  # of OpenCV
        value = step.emit("Clip", value, step.constant("lowest", 0.0), step.constant("highest", 1.0))
    if settings.shared:
        return step.emit("Reshape", value, step.constant("boxes", (settings.images, settings.priors, 4), np.int64))
    return step.emit("Transpose", value, perm=[0, 2, 1, 3])


def _short(variances: NDArray[np.float32]) -> NDArray[np.float32]:
    """The variances of one box, if all have the same."""
    return variances[:1] if np.all(variances == variances[:1]) else variances


def _rows(step: Step, settings: Settings, image: int, boxes: ir.Value, scores: ir.Value) -> ir.Value:
    """Rows ``(found, 7)`` of one image: image, class, score, corners.

    Args:
        step: The layer.
        settings: What is detected.
        image: Its number.
        boxes: ``(priors, 4)`` or ``(classes, priors, 4)``.
        scores: ``(classes, priors)``.
    """
    count = step.constant("candidates", [settings.candidates], np.int64)
    best, places = step.emit_many("TopK", [scores, count], 2, axis=1, largest=1, sorted=1)
    if settings.shared:
        near = step.emit("Gather", boxes, places, axis=0)
    else:
        deep = step.emit("Unsqueeze", places, step.constant("last", [2], np.int64))
        near = step.emit("GatherND", boxes, deep, batch_dims=1)
    limits = [step.constant("most", [settings.candidates], np.int64), step.constant("overlap", [settings.overlap])]
    if settings.threshold is not None:
        limits.append(step.constant("threshold", [settings.threshold]))
    one = step.emit("Unsqueeze", best, step.constant("middle", [1], np.int64))
    found = step.emit("NonMaxSuppression", _ordered(step, near), one, *limits)
    pairs = step.emit("Gather", found, step.constant("pair", [0, 2], np.int64), axis=1)
    score = step.emit("GatherND", best, pairs)
    if -1 < settings.most < settings.candidates * len(settings.kept):
        pairs, score = _best(step, settings.most, pairs, score)
    labels = np.array([[image, label] for label in settings.kept], np.float32)
    label = step.emit("Gather", step.constant("labels", labels), _column(step, pairs), axis=0)
    column = step.emit("Unsqueeze", score, step.constant("column", [1], np.int64))
    return step.emit("Concat", label, column, step.emit("GatherND", near, pairs), axis=1)


def _ordered(step: Step, boxes: ir.Value) -> ir.Value:
    """Boxes whose corners are in order.

    A box that ends before it begins is empty in Caffe, and overlaps nothing; ONNX would turn its corners round. Here it
    becomes one without area, only for the comparison.
    """
    if step.parameters.word("code_type", "CORNER", CODES) == "CENTER_SIZE":
        return boxes
    low, high = step.emit_many("Split", [boxes, step.constant("halves", [2, 2], np.int64)], 2, axis=2)
    return step.emit("Concat", low, step.emit("Max", low, high), axis=2)


def _column(step: Step, pairs: ir.Value) -> ir.Value:
    """The classes of ``(found, 2)`` pairs."""
    return step.emit("Gather", pairs, step.constant("first", 0, np.int64), axis=1)


def _best(step: Step, most: int, pairs: ir.Value, score: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The best rows in the order in which they were."""
    count = step.emit("Min", step.emit("Shape", score), step.constant("keep", [most], np.int64))
    _, places = step.emit_many("TopK", [score, count], 2, axis=0, largest=1, sorted=1)
    in_order, _ = step.emit_many("TopK", [places, count], 2, axis=0, largest=0, sorted=1)
    return step.emit("Gather", pairs, in_order, axis=0), step.emit("Gather", score, in_order, axis=0)


def _nothing(step: Step, settings: Settings, rows: ir.Value) -> ir.Value:
    """Rows that Caffe gives where it finds nothing at all: for each image one of its number and -1."""
    fake = np.full((settings.images, 7), -1, np.float32)
    fake[:, 0] = np.arange(settings.images)
    count = step.emit("Shape", rows, end=1)
    is_empty = step.emit(
        "Cast", step.emit("Equal", count, step.constant("zero", [0], np.int64)), to=int(ir.DataType.INT64)
    )
    end = step.emit("Mul", is_empty, step.constant("images", [settings.images], np.int64))
    starts = step.constant("start", [0], np.int64)
    return step.emit("Slice", step.constant("nothing", fake), starts, end, starts)


KINDS: dict[str, Kind] = {
    "DetectionOutput": Kind(
        _detection_output,
        "Exp, Mul, Add, TopK, Gather, NonMaxSuppression, GatherND and others",
        "detection_output_param",
        "num_classes share_location background_label_id nms_param save_output_param code_type keep_top_k "
        "variance_encoded_in_target confidence_threshold visualize visualize_threshold save_file clip normalized_bbox",
        bottoms=(3, 4),
    ),
}
