"""MediaPipe's operators for landmarks against plain NumPy; its own runtime gave the same numbers for its face mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from converter_lite.errors import ModelError
from tests.formats.tflite.case import Case, Fed, Floats, normal, positive, single
from tests.formats.tflite.running import outputs, read

MATRIX, CUT, MOVED = "Landmarks2TransformMatrix", "TransformTensorBilinear", "TransformLandmarks"
OPTIONS: dict[str, Any] = {
    "subset_idxs": [3, 0, 5, 7, 1],
    "left_rotation_idx": 2,
    "right_rotation_idx": 6,
    "target_rotation_radians": 0.0,
    "output_height": 6,
    "output_width": 8,
    "scale_x": 1.5,
    "scale_y": 1.25,
}


def packed(options: dict[str, Any]) -> bytes:
    """A map whose lists are vectors of one type."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            builder.Key(name)
            if isinstance(value, list):
                builder.TypedVectorFromElements(value)
            else:
                builder.Add(value)
    return bytes(builder.Finish())


def custom(kind: str, operands: list[Any], expected: Floats, options: dict[str, Any] | None = None) -> Case:
    data = b"" if options is None else packed(options)
    return single("", "CUSTOM", operands, expected, custom_code=kind, custom_options=data, tolerance=1e-5)


def check(case: Case) -> None:
    (found,) = outputs(read(case.data), *case.feeds)
    (expected,) = case.expected
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=case.tolerance * max(1.0, np.abs(expected).max()))


def rotation(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def matrix_of(landmarks: Floats, options: dict[str, Any]) -> Floats:
    """Shift to the middle, turn back, scale, and count from the middle of the part."""
    points = landmarks[0, :, :2].astype(np.float64)
    x, y = points[options["right_rotation_idx"]] - points[options["left_rotation_idx"]]
    angle = options["target_rotation_radians"] - np.arctan2(y, x)
    turned = points[options["subset_idxs"]] @ rotation(angle).T
    high, low = turned.max(0), turned.min(0)
    size = np.array([options["output_width"], options["output_height"]])
    part = rotation(-angle) @ np.diag((high - low) * [options["scale_x"], options["scale_y"]] / size)
    whole = np.eye(4)
    whole[:2, :2] = part
    whole[:2, 3] = rotation(-angle) @ ((high + low) / 2) - part @ (size / 2)
    return whole[None].astype(np.float32)


@pytest.mark.parametrize("angle", [0.0, 0.4, -2.0])
def test_the_matrix_of_landmarks(angle: float) -> None:
    landmarks, options = 20 * positive(1, 8, 3), OPTIONS | {"target_rotation_radians": angle}
    check(custom(MATRIX, [Fed(landmarks)], matrix_of(landmarks, options), options))


def cut_out(picture: Floats, matrix: Floats, height: int, width: int) -> Floats:
    made = np.zeros((1, height, width, picture.shape[3]), np.float32)
    tall, wide = picture.shape[1:3]
    for down in range(height):
        for right in range(width):
            x, y = (matrix[0] @ [right + 0.5, down + 0.5, 0, 1])[:2] - 0.5
            if not (0 <= x <= wide - 1 and 0 <= y <= tall - 1):
                continue
            left, top = min(int(x), wide - 2), min(int(y), tall - 2)
            rows = picture[0, top : top + 2, left : left + 2]
            upper, lower = rows[:, 0] * (1 - x + left) + rows[:, 1] * (x - left)
            made[0, down, right] = upper * (1 - y + top) + lower * (y - top)
    return made


@pytest.mark.parametrize("turn", [0.0, 0.3])
def test_a_part_of_a_picture(turn: float) -> None:
    """Some of its places are beside the picture."""
    matrix = np.eye(4, dtype=np.float32)[None]
    matrix[0, :2, :2] = 0.9 * rotation(turn)
    matrix[0, :2, 3] = 3.2, -0.7
    picture = normal(1, 7, 9, 3)
    expected = cut_out(picture, matrix, 6, 8)
    assert 10 < np.count_nonzero(expected[..., 0]) < 46
    check(custom(CUT, [Fed(picture), Fed(matrix)], expected, {"output_height": 6, "output_width": 8}))


@pytest.mark.parametrize("numbers", [2, 3])
def test_landmarks_that_a_matrix_moves(numbers: int) -> None:
    points, matrix = normal(1, 5, numbers), normal(1, 4, 4, seed=1)
    expected = points.copy()
    expected[0, :, :2] = points[0, :, :2] @ matrix[0, :2, :2].T + matrix[0, :2, 3]
    check(custom(MOVED, [Fed(points), Fed(matrix)], expected))


POINTS, SHAPE = normal(1, 8, 3), normal(1, 4, 4)


@pytest.mark.parametrize(
    ("kind", "operands", "options", "message"),
    [
        (MATRIX, [POINTS], {"subset": [1, 2]}, "not those of version 2"),
        (MATRIX, [POINTS], OPTIONS | {"subset_idxs": [8, 1]}, "make no sense for 8 landmarks"),
        (MATRIX, [POINTS], OPTIONS | {"subset_idxs": 5}, "not those of version 2"),
        (MATRIX, [POINTS], OPTIONS | {"scale_x": 0.0}, "make no sense"),
        (MATRIX, [POINTS], OPTIONS | {"scale_x": "wide"}, "not those of version 2"),
        (MATRIX, [POINTS], OPTIONS | {"left_rotation_idx": 2.5}, "not those of version 2"),
        (MATRIX, [POINTS], None, "no map"),
        (MATRIX, [normal(1, 8, 2)], OPTIONS, "three numbers each"),
        (CUT, [normal(1, 7, 9, 3), SHAPE], {"mode": "bilinear"}, "no size"),
        (CUT, [normal(1, 7, 9, 3), SHAPE], OPTIONS | {"output_width": 1 << 20}, "make no sense"),
        (CUT, [normal(1, 1, 9, 3), SHAPE], OPTIONS, "two pixels and more"),
        (CUT, [normal(1, 7, 9, 3), normal(1, 3, 3)], OPTIONS, "four rows and columns"),
        (MOVED, [POINTS, SHAPE], {"dimensions": 3}, "only version 2"),
    ],
)
def test_other_forms_are_refused(
    kind: str, operands: list[Floats], options: dict[str, Any] | None, message: str
) -> None:
    case = custom(kind, [Fed(operand) for operand in operands], normal(1, 4, 4), options)
    with pytest.raises(ModelError, match=message):
        read(case.data)
