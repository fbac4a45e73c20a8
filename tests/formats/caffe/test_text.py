"""Protobuf's text format: every form of a value, and a sentence with the line for what is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, text_format

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats.caffe.text import LEAST_FIELDS, Message, parse


def test_fields_keep_their_order_and_their_lines() -> None:
    message = parse("a: 1 # one\n\nb {\n c: \"x\" }\nb: < c: 'y'; > a: 2, a: 0x10")
    assert message.integers("a") == [1, 2, 16]
    assert [group.text("c") for group in message.messages("b")] == ["x", "y"]
    assert [group.line for group in message.messages("b")] == [3, 5]


def test_a_list_is_a_field_that_repeats() -> None:
    message = parse("a: [1, -2] a: 3 b: [] c: [{ d: 1 }, < d: 2 >]")
    assert message.integers("a") == [1, -2, 3]
    assert message.integers("b") == []
    assert [group.integer("d") for group in message.messages("c")] == [1, 2]


def test_texts_are_joined_and_decoded_as_protobuf_does() -> None:
    text = r"""'a' "b\n\t\"\\" '\345\233\276\x41'"""
    expected = descriptor_pb2.FileDescriptorProto()
    text_format.Parse(f"name: {text}", expected)
    assert parse(f"name: {text}").text("name") == expected.name == 'ab\n\t"\\图A'


@pytest.mark.parametrize("text", ["1", "1.", ".5", "-2.5e-3", "1e5f", "+3", "1F", "0x1f"])
def test_numbers_are_those_of_float32(text: str) -> None:
    expected = float(int(text, 16)) if text.startswith("0x") else float(text.rstrip("fF"))
    assert parse(f"a: {text}").number("a") == float(np.float32(expected))


def test_there_are_numbers_that_are_none() -> None:
    message = parse("a: inf b: -inf c: nan")
    assert (message.number("a"), message.number("b")) == (math.inf, -math.inf)
    assert math.isnan(message.number("c"))


def test_an_absent_field_has_its_default() -> None:
    message = Message()
    assert message.number("a", 0.1) == float(np.float32(0.1))
    assert (message.integer("a", 3), message.flag("a", True), message.text("a", "t")) == (3, True, "t")
    assert message.word("a", "X", ("Y", "X")) == "X"
    assert message.message("a").fields == {}


def test_the_last_of_several_values_counts() -> None:
    message = parse("a: 1 a: 2 b: true b: false c: X c: Y")
    assert (message.integer("a"), message.flag("b", True), message.word("c", "X", ("X", "Y"))) == (2, False, "Y")


def test_a_word_may_be_given_by_its_number() -> None:
    message = parse("a: 1 b: 2")
    assert message.word("a", "X", ("X", "Y")) == "Y"
    assert message.word("b", "X", {"X": 1, "Y": 2}) == "Y"


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("a", 1, "a has no value"),
        ("a:\n", 1, "a has no value"),
        ("a: 1\nb {\n c: 1\n", 3, "the group that begins in line 2 has no end"),
        ("a: 1 }", 1, "'}' stands where a field should begin"),
        ('a: 1\nb: "x\ny"', 2, "makes no sense here"),
        ("a: [1 2]", 1, "a list has no end"),
        ("a: [1, ", 1, "a list has no value"),
        ("\n\n@", 3, "'@' makes no sense here"),
        ("[a.b]: 1", 1, "stands where a field should begin"),
        ("a: 1 2", 1, "'2' stands where a field should begin"),
        ("a { b: 1 >", 1, "'>' stands where a field should begin"),
        ("a {" * 40, 1, "too many groups of fields"),
    ],
)
def test_what_is_no_message_is_refused_with_its_line(text: str, line: int, sentence: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(text, where="net.prototxt")
    assert caught.value.where == f"net.prototxt line {line}"
    assert sentence in caught.value.message


def test_a_text_that_is_all_fields_is_refused() -> None:
    assert len(parse("a {}" * LEAST_FIELDS).fields["a"]) == LEAST_FIELDS
    with pytest.raises(FormatError, match="far more fields"):
        parse("a{}" * 3 * LEAST_FIELDS)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda m: m.integer("word"), "word is 'X', not a whole number"),
        (lambda m: m.integer("number"), "not a whole number"),
        (lambda m: m.integer("text"), "not a whole number"),
        (lambda m: m.size("less"), "less is -1"),
        (lambda m: m.size("more"), "more is 99999999999"),
        (lambda m: m.number("word"), "not a whole number"),
        (lambda m: m.number("large"), "which float32 does not hold"),
        (lambda m: m.flag("word", True), "not true or false"),
        (lambda m: m.text("word"), "not a text in quotes"),
        (lambda m: m.word("word", "A", ("A", "B")), "word is 'X'"),
        (lambda m: m.integer("group"), "group is a group of fields"),
        (lambda m: m.message("word"), "word is not a group of fields"),
        (lambda m: m.message("groups"), "groups is given 2 times"),
    ],
)
def test_a_value_of_another_kind_is_refused(ask: object, sentence: str) -> None:
    message = parse('word: X number: 1.5 text: "5" less: -1 more: 99999999999 large: 1e40 group {} groups {} groups {}')
    with pytest.raises(ModelError, match=sentence):
        ask(message)  # type: ignore[operator]
