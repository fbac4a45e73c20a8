"""Signs of zeros in front of Keras' argmax."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from converter_lite.formats.tensorflow.child.zeros import drop_signs_of_zeros

ARGMAX = {
    "bits": ("Bitcast", ["x"]),
    "sign": ("BitwiseAnd", ["bits", "lowest"]),
    "negative": ("Less", ["sign", "zero"]),
    "zero_of_x": ("Equal", ["x", "zero_float"]),
    "negative_zero": ("LogicalAnd", ["zero_of_x", "negative"]),
    "moved": ("SelectV2", ["negative_zero", "tiny", "x"]),
}


def dropped(**changed: tuple[str, list[str]]) -> SimpleNamespace:
    """What becomes of the choice."""
    nodes = [SimpleNamespace(name=n, op=op, input=list(given)) for n, (op, given) in (ARGMAX | changed).items()]
    drop_signs_of_zeros(SimpleNamespace(node=nodes))
    return next(node for node in nodes if node.name == "moved")


def test_a_number_in_the_place_of_a_negative_zero_is_left_out() -> None:
    moved = dropped()
    assert (moved.op, moved.input) == ("Identity", ["x"])


@pytest.mark.parametrize(
    "changed",
    [
        {"zero_of_x": ("Equal", ["y", "zero_float"])},
        {"bits": ("Bitcast", ["y"])},
        {"bits": ("Cast", ["x"])},
        {"negative_zero": ("LogicalOr", ["zero_of_x", "negative"])},
        {"zero_of_x": ("Greater", ["x", "zero_float"])},
        {"moved": ("SelectV2", ["given", "tiny", "x"])},
    ],
)
def test_other_choices_stay(changed: dict[str, tuple[str, list[str]]]) -> None:
    assert dropped(**changed).op == "SelectV2"
