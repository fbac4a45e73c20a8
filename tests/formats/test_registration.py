"""Joining tables."""

from __future__ import annotations

import pytest

from converter_lite.formats.registration import joined


def test_families_are_joined_in_order() -> None:
    assert list(joined({"b": 1}, {"a": 2})) == ["b", "a"]


def test_an_entry_of_two_families_is_an_error() -> None:
    with pytest.raises(ValueError, match="'a'"):
        joined({"a": 1}, {"b": 2}, {"a": 3})
