from typing import Any

import flatbuffers
import numpy as np
import pytest
from flatbuffers import number_types

from converter_lite.errors import FormatError
from converter_lite.formats.flatbuffer import Schema

FIELDS = "id:int=7 name:string weight:double next:Node tags:strings raw:bytes sizes:longs all:[Node]"

SCHEMA = Schema({"Node": FIELDS})


def node(builder: Any, number: int, name: str, *, weight: float = 0.0) -> int:
    text = builder.CreateString(name)
    builder.StartObject(8)
    builder.PrependInt32Slot(0, number, 7)
    builder.PrependUOffsetTRelativeSlot(1, text, 0)
    builder.PrependSlot(number_types.Float64Flags, 2, weight, 0.0)
    return int(builder.EndObject())


def test_the_bytes_are_those_of_the_builder_of_flatbuffers() -> None:
    builder = flatbuffers.Builder()
    children = [node(builder, 7, "a"), node(builder, 1, "ä", weight=0.5), node(builder, 2, "c", weight=2.5)]
    builder.StartVector(4, 3, 4)
    for child in reversed(children):
        builder.PrependUOffsetTRelative(child)
    everything = builder.EndVector()
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(7, everything, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"NODE")
    names = [{"id": 7, "name": "a"}, {"id": 1, "name": "ä", "weight": 0.5}, {"id": 2, "name": "c", "weight": 2.5}]
    schema = Schema({"Node": FIELDS}, identifier=b"NODE")
    assert schema.encode("Node", {"all": names}) == bytes(builder.Output())


def test_what_is_written_is_read_back() -> None:
    inner = {"id": 1, "name": "inner", "weight": 1.5, "tags": ["", "x"], "raw": b"123", "sizes": [1, -(2**40)]}
    value = {**inner, "next": inner, "all": [inner, {"id": 2, "weight": 0.0}]}
    read = SCHEMA.decode("Node", SCHEMA.encode("Node", value))
    for found in (read, read["next"], read["all"][0]):
        assert (found["id"], found["name"], found["weight"], found["tags"]) == (1, "inner", 1.5, ["", "x"])
        assert found["raw"].tobytes() == b"123"
        np.testing.assert_array_equal(found["sizes"], [1, -(2**40)])
    assert read["all"][1] == {"id": 2, "weight": 0.0}


def test_a_number_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(FormatError, match="Node: a number does not fit its field"):
        SCHEMA.encode("Node", {"id": 2**31})
