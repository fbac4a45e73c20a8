"""Pictures resized and sampled, and boxes: see :mod:`tests.formats.paddle.pir_cases`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.paddle import references as ref
from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_cases import PICTURE, VOLUME, Case, all_of, simple
from tests.formats.paddle.pir_models import PirProgram

Array = NDArray[Any]


def resized(kind: str, sizes: Sequence[int], x: Array, want: Array, **attributes: Any) -> Case:
    rule = f"{kind}_interp"
    usual = {"data_format": "NCHW", "interp_method": kind, "align_corners": False, "align_mode": 0, "scale": []}
    given = {**usual, **dict(zip(("out_w", "out_h", "out_d"), [*sizes][::-1], strict=False)), **attributes}
    return Case(rule, lambda p, v: p.op(rule, v, 0, 0, 0, **given), [x], [want])


STRIP = random(1, 2, 5, 6, seed=34)

PICTURES = {
    "nearest_interp": resized("nearest", (10, 12), STRIP, np.repeat(np.repeat(STRIP, 2, 2), 2, 3)),
    "nearest_interp of corners": resized(
        "nearest",
        (3, 4),
        random(1, 1, 5, 7),
        ref.resize(random(1, 1, 5, 7), (3, 4), "nearest", lambda i, a, b: round(ref.corners(i, a, b) + 1e-6)),
        align_corners=True,
    ),
    "nearest_interp by a factor": resized(
        "nearest", (-1, -1), STRIP, ref.resize(STRIP, (7, 9), "nearest", ref.plain), scale=[1.5, 1.5]
    ),
    "nearest_interp with channels last": resized(
        "nearest",
        (10, 12),
        np.moveaxis(STRIP, 1, -1).copy(),
        np.moveaxis(np.repeat(np.repeat(STRIP, 2, 2), 2, 3), 1, -1),
        data_format="NHWC",
    ),
    "nearest_interp to a size that is computed": Case(
        "nearest_interp",
        lambda p, x, n: p.op(
            "nearest_interp", x, n, 0, 0, out_h=-1, out_w=-1, scale=[], align_corners=False, align_mode=0
        ),
        [STRIP, np.array([10, 12], np.int32)],
        [np.repeat(np.repeat(STRIP, 2, 2), 2, 3)],
        [(-1, 2, -1, -1)],
    ),
    "nearest_interp to sizes that are computed": Case(
        "nearest_interp",
        lambda p, x, n: p.op(
            "nearest_interp",
            x,
            0,
            p.combine(n, p.full(12, "int64", ())),
            0,
            out_h=-1,
            out_w=-1,
            scale=[],
            align_corners=False,
        ),
        [STRIP, np.array(10)],
        [np.repeat(np.repeat(STRIP, 2, 2), 2, 3)],
    ),
    "bilinear_interp": resized("bilinear", (7, 4), STRIP, ref.resize(STRIP, (7, 4), "linear", ref.half_pixel)),
    "bilinear_interp of corners": resized(
        "bilinear", (7, 9), STRIP, ref.resize(STRIP, (7, 9), "linear", ref.corners), align_corners=True
    ),
    "bilinear_interp from the corner": resized(
        "bilinear", (7, 9), STRIP, ref.resize(STRIP, (7, 9), "linear", ref.plain), align_mode=1
    ),
    "bicubic_interp": resized("bicubic", (7, 9), STRIP, ref.resize(STRIP, (7, 9), "cubic", ref.half_pixel)),
    "linear_interp": resized("linear", (9,), STRIP[0], ref.resize(STRIP[0], (9,), "linear", ref.half_pixel)),
    "trilinear_interp": resized(
        "trilinear", (8, 7, 6), VOLUME, ref.resize(VOLUME, (8, 7, 6), "linear", ref.half_pixel)
    ),
    "pixel_shuffle": simple(
        "pixel_shuffle",
        [random(1, 8, 2, 3)],
        random(1, 8, 2, 3).reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
        upscale_factor=2,
        data_format="NCHW",
    ),
    "pixel_unshuffle": simple(
        "pixel_unshuffle",
        [random(1, 2, 4, 6)],
        random(1, 2, 4, 6).reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3),
        downscale_factor=2,
        data_format="NCHW",
    ),
    **{
        rule: simple(rule, [PICTURE], PICTURE.reshape(2, 2, 2, 7, 6).swapaxes(1, 2).reshape(2, 4, 7, 6), **{key: 2})
        for rule, key in (("channel_shuffle", "groups"), ("shuffle_channel", "group"))
    },
    "temporal_shift": Case(
        "temporal_shift",
        lambda p, x: p.op("temporal_shift", x, seg_num=2, shift_ratio=0.25, data_format="NCHW"),
        [PICTURE],
        [
            np.stack(
                [
                    np.stack([0 * PICTURE[0, 0], PICTURE[1, 1], *PICTURE[0, 2:]]),
                    np.stack([PICTURE[0, 0], 0 * PICTURE[1, 1], *PICTURE[1, 2:]]),
                ]
            )
        ],
    ),
    "grid_sample": simple(
        "grid_sample",
        [STRIP, np.clip(random(1, 3, 4, 2), -1.2, 1.2)],
        ref.sampled(
            STRIP[0],
            (np.clip(random(1, 3, 4, 2), -1.2, 1.2)[0, ..., 1] + 1) / 2 * 4,
            (np.clip(random(1, 3, 4, 2), -1.2, 1.2)[0, ..., 0] + 1) / 2 * 5,
        )[None],
        mode="bilinear",
        padding_mode="zeros",
        align_corners=True,
    ),
    "affine_grid": Case(
        "affine_grid",
        lambda p, t: p.op("affine_grid", t, p.ints(1, 2, 3, 4), align_corners=True),
        [random(1, 2, 3)],
        [
            (
                np.stack([*np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)), np.ones((3, 4))], -1).reshape(
                    -1, 3
                )
                @ random(1, 2, 3)[0].T
            ).reshape(1, 3, 4, 2)
        ],
    ),
}

RNG = np.random.default_rng(35)
LOW = RNG.random((2, 12, 2)) * 20
BOXES = np.concatenate([LOW, LOW + RNG.random((2, 12, 2)) * 20 + 2], 2).astype(np.float32)
SCORES = RNG.random((2, 3, 12)).astype(np.float32)


def suppressed(boxes: Array, scores: Array, *, normalized: bool = True, **changed: Any) -> Case:
    settings: dict[str, Any] = {"score_threshold": 0.2, "nms_top_k": 100, "keep_top_k": 100, "nms_threshold": 0.3}
    settings |= {"background_label": -1, **changed}
    want = ref.multiclass_nms(boxes, scores, closed=0.0 if normalized else 1.0, **settings)

    def build(p: PirProgram, b: int, s: int) -> list[int]:
        return all_of(p.op("multiclass_nms3", b, s, 0, results=3, normalized=normalized, nms_eta=1.0, **settings), 3)

    return Case("multiclass_nms3", build, [boxes, scores], want)


def decayed(*, gaussian: bool = False, threshold: float = 0.1, most: int | None = None) -> Case:
    def build(p: PirProgram, b: int, s: int) -> list[int]:
        numbers = {
            "score_threshold": threshold,
            "nms_top_k": -1 if most is None else most,
            "keep_top_k": 9,
            "post_threshold": 0.05,
            "gaussian_sigma": 2.0,
        }
        flags = {"use_gaussian": gaussian, "background_label": -1, "normalized": True}
        return all_of(p.op("matrix_nms", b, s, results=3, **numbers, **flags), 3)

    want = ref.matrix_nms(BOXES[:1], SCORES[:1], gaussian=gaussian, keep=9, threshold=threshold, most=most)
    return Case("matrix_nms", build, [BOXES[:1], SCORES[:1]], want)


def remaining() -> Array:
    kept: list[int] = []
    for place, box in enumerate(BOXES[0]):
        if all(ref.overlap(box, BOXES[0, other]) <= 0.3 for other in kept):
            kept.append(place)
    return np.array(kept)


NMS = simple("nms", [BOXES[0]], remaining(), threshold=0.3)

HEAD, PICTURE_SIZE = random(1, 18, 3, 4, seed=36), np.array([[96, 128]], np.int32)
REGIONS = np.array([[0.5, 1, 9, 10], [2, 2, 7, 9.5]], np.float32)
PRIORS, TARGETS = BOXES[0, :5], random(2, 5, 4, seed=37)
VARIANCES = np.array([0.1, 0.1, 0.2, 0.2], np.float32)


def decoded() -> Array:
    sides, moved = PRIORS[:, 2:] - PRIORS[:, :2], TARGETS * VARIANCES
    center = moved[..., :2] * sides + (PRIORS[:, :2] + PRIORS[:, 2:]) / 2
    half = np.exp(moved[..., 2:]) * sides / 2
    return np.concatenate([center - half, center + half], -1)


def priors() -> list[Array]:
    """3 x 3 places of a picture of 12 x 12; sides 4 x 4, 4 x 2 and 2 x 4 around √2, and √(4·8)."""
    sides = [(4, 4), (4 * 2**0.5, 4 / 2**0.5), (4 / 2**0.5, 4 * 2**0.5), (32**0.5, 32**0.5)]
    made = np.zeros((3, 3, 4, 4))
    for row, column, place in np.ndindex(3, 3, 4):
        middle, half = np.array([column + 0.5, row + 0.5]) * 4, np.array(sides[place]) / 2
        made[row, column, place] = np.concatenate([middle - half, middle + half]) / 12
    return [np.clip(made, 0, 1), np.broadcast_to(VARIANCES, made.shape)]


YOLO = simple(
    "yolo_box",
    [HEAD, PICTURE_SIZE],
    *ref.yolo_boxes(HEAD, (96, 128), (10, 13, 16, 30), 4, 0.3),
    results=2,
    anchors=[10, 13, 16, 30],
    class_num=4,
    conf_thresh=0.3,
    downsample_ratio=32,
    clip_bbox=True,
    scale_x_y=1.0,
    iou_aware=False,
)


DETECTED = {
    "multiclass_nms3": suppressed(BOXES, SCORES),
    "multiclass_nms3 of the best": suppressed(BOXES, SCORES, keep_top_k=5),
    "multiclass_nms3 of few candidates": suppressed(BOXES, SCORES, nms_top_k=3),
    "multiclass_nms3 with a background": suppressed(BOXES, SCORES, background_label=1),
    "multiclass_nms3 of pixels": suppressed(np.round(BOXES), SCORES, normalized=False),
    "matrix_nms": decayed(),
    "matrix_nms by a Gaussian": decayed(gaussian=True),
    "matrix_nms of the best": decayed(most=4),
    "matrix_nms of few": decayed(threshold=0.8, most=9),
    "matrix_nms of none": decayed(threshold=2.0),
    "nms": NMS,
    "nms of an open number of boxes": replace(NMS, open=[(-1, 4)]),
    "nms of no boxes": simple("nms", [BOXES[0, :0]], remaining()[:0], threshold=0.3),
    "yolo_box": YOLO,
    "yolo_box of an open grid": replace(YOLO, open=[(-1, HEAD.shape[1], -1, -1)]),
    "prior_box": Case(
        "prior_box",
        lambda p, x, i: all_of(
            p.op(
                "prior_box",
                x,
                i,
                results=2,
                min_sizes=[4.0],
                max_sizes=[8.0],
                aspect_ratios=[2.0],
                variances=VARIANCES.tolist(),
                flip=True,
                clip=True,
            ),
            2,
        ),
        [random(1, 2, 3, 3), random(1, 3, 12, 12)],
        priors(),
    ),
    "box_coder": Case(
        "box_coder",
        lambda p, b, t: p.op(
            "box_coder",
            b,
            0,
            t,
            code_type="decode_center_size",
            box_normalized=True,
            axis=0,
            variance=VARIANCES.tolist(),
        ),
        [PRIORS, TARGETS],
        [decoded()],
    ),
    "roi_align": Case(
        "roi_align",
        lambda p, x, b, n: p.op(
            "roi_align", x, b, n, pooled_height=2, pooled_width=2, spatial_scale=0.5, sampling_ratio=2, aligned=True
        ),
        [PICTURE[:1], REGIONS, np.array([2], np.int32)],
        [ref.roi_align(PICTURE[:1], REGIONS, 2, 0.5, 2, 0.5)],
    ),
}

CASES_OF_PICTURES: Mapping[str, Case] = {**PICTURES, **DETECTED}
