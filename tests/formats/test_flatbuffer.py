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


def test_texts_and_short_vectors_that_are_equal_are_written_once() -> None:
    one, many = ([{"name": "a name of a tensor", "sizes": [1, 3, 224, 224]}] * count for count in (1, 11))
    table = len(SCHEMA.encode("Node", {"all": [{}] * 11})) - len(SCHEMA.encode("Node", {"all": [{}]}))
    grown = len(SCHEMA.encode("Node", {"all": many})) - len(SCHEMA.encode("Node", {"all": one}))
    assert grown <= table + 10 * 12
    long = np.arange(100)
    assert len(SCHEMA.encode("Node", {"all": [{"sizes": long}] * 2})) > 1600
    one, two = (len(SCHEMA.encode("Node", {"tags": ["the name of an argument"] * count})) for count in (1, 2))
    assert two >= one + 28  # texts in vectors stay apart
    read = SCHEMA.decode("Node", SCHEMA.encode("Node", {"all": many}))["all"]
    assert all(item["name"] == "a name of a tensor" and item["sizes"].tolist() == [1, 3, 224, 224] for item in read)


def test_tables_that_are_equal_are_written_once_where_the_schema_says_so() -> None:
    schema = Schema({"Node": FIELDS}, shared=("Node",))
    same, other = {"id": 1, "sizes": np.arange(2), "tags": ["x"], "next": {"weight": 0.5}}, {"id": 1, "weight": -0.5}
    alone = len(schema.encode("Node", {"all": [same, other]}))
    data = schema.encode("Node", {"all": [same, dict(same), other, same]})
    assert len(data) - alone == 8
    assert len(SCHEMA.encode("Node", {"all": [same, same]})) > len(schema.encode("Node", {"all": [same, same]})) + 16
    read = schema.decode("Node", data)["all"]
    assert [(item["id"], item["weight"], len(item.get("tags", ()))) for item in read] == [
        (1, 0.0, 1),
        (1, 0.0, 1),
        (1, -0.5, 0),
        (1, 0.0, 1),
    ]


def test_a_number_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(FormatError, match="Node: a number does not fit its field"):
        SCHEMA.encode("Node", {"id": 2**31})
