"""Groups of convolutions, as tf2onnx writes them and as the shapes of their filters say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from converter_lite.formats.tensorflow.child.grouped import state_groups


class Node:
    """A node of tf2onnx."""

    def __init__(self, kind: str, group: int | None) -> None:
        self.type = kind
        self.input = ["x", "w"]
        self.attributes = {} if group is None else {"group": group}

    def get_attr_value(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)

    def set_attr(self, name: str, number: int) -> None:
        self.attributes[name] = number


VOLUME = {"x": [2, 4, 5, 6, 7], "w": [6, 2, 3, 3, 3]}


def stated(kind: str, group: int | None, shapes: dict[str, list[int]]) -> dict[str, int]:
    node = Node(kind, group)
    state_groups(SimpleNamespace(get_nodes=lambda: [node], get_shape=shapes.get))
    return node.attributes


@pytest.mark.parametrize("group", [1, None])
def test_a_convolution_of_volumes_has_the_groups_of_its_filters(group: int | None) -> None:
    assert stated("Conv", group, VOLUME) == {"group": 2}


@pytest.mark.parametrize(
    ("kind", "group", "shapes"),
    [
        ("Conv", 4, VOLUME),
        ("Conv", 1, {"x": [2, 4, 5, 6, 7], "w": [6, 4, 3, 3, 3]}),
        ("Conv", 1, {"x": [2, -1, 5, 6, 7], "w": [6, 2, 3, 3, 3]}),
        ("Conv", 1, {"w": [6, 2, 3, 3, 3]}),
        ("ConvTranspose", 1, VOLUME),
    ],
)
def test_others_stay(kind: str, group: int, shapes: dict[str, list[int]]) -> None:
    assert stated(kind, group, shapes) == {"group": group}
