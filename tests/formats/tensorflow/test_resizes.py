"""Resizes of TensorFlow that average areas, for which tf2onnx picks single elements."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from converter_lite.formats.child import Refusal
from converter_lite.formats.tensorflow.child.resizes import refuse_areas


def refuse(
    given: list[int | None], wanted: list[int] | None, kind: str = "ResizeArea", *, align_corners: bool = False
) -> None:
    """The check of one node of a graph."""
    picture = SimpleNamespace(shape=SimpleNamespace(as_list=lambda: [1, *given, 3]))
    node = SimpleNamespace(type=kind, name="smaller", inputs=[picture, wanted], get_attr=lambda _: align_corners)
    refuse_areas([node], lambda tensor: None if tensor is None else np.array(tensor))


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


def test_elements_that_are_repeated_and_other_resizes_are_kept() -> None:
    refuse([4, 4], [8, 12])
    refuse([9, 7], [4, 3], "ResizeBilinear")
