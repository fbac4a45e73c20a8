"""Resizes of TensorFlow for which tf2onnx writes others."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from converter_lite.formats.child import Refusal
from converter_lite.formats.tensorflow.child.resizes import (
    name_half_pixels,
    refuse_other_resizes,
    round_up_crops,
    state_sizes,
)


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


class Named:
    """A node as tf2onnx keeps it."""

    def __init__(self, **attributes: str) -> None:
        self.type = "Resize"
        self.found = attributes

    def get_attr(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(s=self.found[name].encode()) if name in self.found else None

    def set_attr(self, name: str, value: str) -> None:
        self.found[name] = value


def test_nearest_elements_between_centres_have_words_of_newer_operator_sets() -> None:
    mode = "coordinate_transformation_mode"
    nodes = [Named(**{mode: "tf_half_pixel_for_nn", "nearest_mode": "floor"}), Named(**{mode: "asymmetric"}), Named()]
    name_half_pixels(SimpleNamespace(get_nodes=lambda: nodes))
    found = [node.found for node in nodes]
    assert found == [{mode: "half_pixel", "nearest_mode": "round_prefer_ceil"}, {mode: "asymmetric"}, {}]


class Graph:
    """As much of a graph of tf2onnx as knows one Resize by factors."""

    def __init__(self, shape: list[int], factors: list[float]) -> None:
        rounded = [math.floor(size * float(np.float32(factor))) for size, factor in zip(shape, factors, strict=True)]
        self.shapes = {"x": shape, "y": rounded}
        known = SimpleNamespace(is_const=lambda: True, get_tensor_value=lambda as_list: np.array(factors, np.float32))
        self.node = SimpleNamespace(
            type="Resize", name="larger", input=["x", "roi", "factors"], inputs=[None, None, known], output=["y"]
        )

    def get_nodes(self) -> list[SimpleNamespace]:
        return [self.node]

    def get_shape(self, tensor: str) -> list[int]:
        return self.shapes[tensor]

    def set_shape(self, tensor: str, shape: list[int]) -> None:
        self.shapes[tensor] = shape

    def make_const(self, name: str, _: object) -> SimpleNamespace:
        return SimpleNamespace(output=[name])

    def make_node(self, _: str, __: object, name: str, **___: object) -> SimpleNamespace:
        return SimpleNamespace(output=[name])

    def replace_inputs(self, node: SimpleNamespace, inputs: list[str]) -> None:
        node.input = inputs


def test_a_result_has_the_size_that_the_factors_miss_by_rounding() -> None:
    """22 times float32(21 / 22) is below 21."""
    graph = Graph([-1, 1, 22, 4], [1, 1, 21 / 22, 2])
    assert graph.shapes["y"] == [-1, 1, 20, 8]
    state_sizes(graph)
    assert graph.node.input == ["x", "roi", "", "larger/sizes"]
    assert graph.shapes["y"] == [-1, 1, 21, 8]
