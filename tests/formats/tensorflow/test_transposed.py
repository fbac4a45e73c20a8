"""Pads of transposed convolutions, as tf2onnx writes them and as ONNX allows them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from converter_lite.formats.tensorflow.child.transposed import state_output_padding


class Node:
    """A node of tf2onnx."""

    def __init__(self, kind: str, pads: list[int] | None) -> None:
        self.type = kind
        self.attributes = {} if pads is None else {"pads": pads}

    def get_attr(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(ints=self.attributes[name]) if name in self.attributes else None

    def set_attr(self, name: str, numbers: list[int]) -> None:
        self.attributes[name] = numbers


CASES = {
    "one more behind a window of two in steps of three": ([0, 0, -1, -1], [0, 0, 0, 0], [1, 1]),
    "two more behind a window of one in steps of three": ([-1, -1, -1, -1], [0, 0, 0, 0], [2, 2]),
    "more along one axis": ([-1, 2, -2, 2], [0, 2, 0, 2], [3, 0]),
    "a volume": ([0, 0, 0, -1, 1, 0], [0, 0, 0, 0, 1, 0], [1, 0, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_lies_behind_the_last_window_is_output_padding(name: str) -> None:
    pads, wanted, behind = CASES[name]
    node = Node("ConvTranspose", pads)
    state_output_padding(SimpleNamespace(get_nodes=lambda: [node]))
    assert node.attributes == {"pads": wanted, "output_padding": behind}


@pytest.mark.parametrize(
    ("kind", "pads"), [("ConvTranspose", [0, 1, 1, 1]), ("ConvTranspose", None), ("Pad", [-1, -1])]
)
def test_other_nodes_stay(kind: str, pads: list[int] | None) -> None:
    node = Node(kind, pads)
    before = dict(node.attributes)
    state_output_padding(SimpleNamespace(get_nodes=lambda: [node]))
    assert node.attributes == before
