"""Resizes of TensorFlow for which tf2onnx writes others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from converter_lite.formats.child import Refusal
from converter_lite.formats.tensorflow.child.resizes import refuse_other_resizes, round_up_crops


def refuse(
    given: list[int | None], wanted: list[int] | None, kind: str = "ResizeArea", *, align_corners: bool = False
) -> None:
    """The check of one node of a graph."""
    picture = SimpleNamespace(shape=SimpleNamespace(as_list=lambda: [1, *given, 3]))
    node = SimpleNamespace(type=kind, name="smaller", inputs=[picture, wanted], get_attr=lambda _: align_corners)
    refuse_other_resizes([node], lambda tensor: None if tensor is None else np.array(tensor))


@pytest.mark.parametrize(
    ("given", "wanted", "align_corners"),
    [
        ([9, 7], [4, 3], False),
        ([4, 4], [8, 6], False),
        ([None, 4], [8, 8], False),
        ([4, 4], None, False),
        ([4, 4], [8, 8], True),
    ],
)
def test_averages_of_areas_are_refused_by_name(
    given: list[int | None], wanted: list[int] | None, align_corners: bool
) -> None:
    with pytest.raises(Refusal, match=r"ResizeArea \(node smaller\)"):
        refuse(given, wanted, align_corners=align_corners)


def test_a_cubic_function_as_before_tensorflow_2_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match=r"half_pixel_centers \(node smaller\)"):
        refuse([4, 4], [8, 8], "ResizeBicubic")


def test_crops_take_the_upper_of_two_equally_near_elements() -> None:
    crops = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "nearest"}
    nodes = [
        onnx.helper.make_node("Resize", ["x"], ["y"], **attributes)
        for attributes in (crops, crops | {"mode": "linear"}, {"mode": "nearest"})
    ]
    round_up_crops(nodes)
    found = [[a.s for a in node.attribute if a.name == "nearest_mode"] for node in nodes]
    assert found == [[b"round_prefer_ceil"], [], []]
    onnx.checker.check_attribute(nodes[0].attribute[-1])


def test_elements_that_are_repeated_and_other_resizes_are_kept() -> None:
    refuse([4, 4], [8, 12])
    refuse([9, 7], [4, 3], "ResizeBilinear")
