"""Cases of the operator that ends a detector: boxes from anchors, of which the best ones are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from tests.formats.tflite.case import Case, Fed, Floats, normal, positive, single
from tests.formats.tflite.reference import sigmoid

DETECTION = "TFLite_Detection_PostProcess"

OPTIONS: dict[str, Any] = {
    "max_detections": 6,
    "max_classes_per_detection": 1,
    "detections_per_class": 100,
    "use_regular_nms": False,
    "nms_score_threshold": 0.4,
    "nms_iou_threshold": 0.3,
    "num_classes": 3,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def options(**changed: Any) -> bytes:
    return bytes(flexbuffers.Dumps({**OPTIONS, **changed}))


def overlap(a: Floats, b: Floats) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = np.prod(np.maximum(high - low, 0))
    return float(shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared))


def detected(encoded: Floats, scores: Floats, anchors: Floats, background: int) -> list[Floats]:
    at = encoded[0, :, :2] / 10 * anchors[:, 2:] + anchors[:, :2]
    half = np.exp(encoded[0, :, 2:] / 5) * anchors[:, 2:] / 2
    boxes = np.concatenate([at - half, at + half], 1).astype(np.float32)
    best = scores[0, :, background:].max(1)
    kept: list[int] = []
    for number in np.argsort(-best, kind="stable"):
        is_free = all(overlap(boxes[number], boxes[other]) <= np.float32(0.3) for other in kept)
        if best[number] >= np.float32(0.4) and is_free and len(kept) < 6:
            kept.append(int(number))
    results = [np.zeros((1, 6, 4), np.float32), np.zeros((1, 6), np.float32), np.zeros((1, 6), np.float32)]
    results[0][0, : len(kept)] = boxes[kept]
    results[1][0, : len(kept)] = scores[0, kept, background:].argmax(1)
    results[2][0, : len(kept)] = best[kept]
    return [*results, np.array([len(kept)], np.float32)]


def detections() -> Iterator[Case]:
    anchors = np.concatenate([positive(12, 2), 0.3 * positive(12, 2, seed=1)], 1)
    encoded = normal(1, 12, 4)
    for background in (0, 1):
        scores = sigmoid(normal(1, 12, 3 + background, seed=2)).astype(np.float32)
        expected = detected(encoded, scores, anchors, background)
        name = f"{DETECTION}{' with a background' if background else ''}"
        operands = [Fed(encoded), Fed(scores), anchors]
        yield single(name, "CUSTOM", operands, expected, custom_code=DETECTION, custom_options=options())


CASES = [*detections()]
