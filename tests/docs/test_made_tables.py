"""The tables of operators on the pages are those that the code makes."""

from __future__ import annotations

from importlib import import_module

import pytest

from converter_lite.formats.documentation import Page

MAKERS = ("caffe", "mindir", "paddle", "paddle.inference_model", "tflite")


@pytest.mark.parametrize("maker", MAKERS)
def test_the_page_is_up_to_date(maker: str) -> None:
    name = f"converter_lite.formats.{maker}.documentation"
    page = import_module(name).PAGE
    assert isinstance(page, Page)
    assert f"operators:begin (made by python -m {name})" in page.text()
    assert page.up_to_date() == page.text(), f"python -m {name}"


def test_a_row_that_is_missing_makes_a_difference() -> None:
    page = import_module("converter_lite.formats.caffe.documentation").PAGE
    assert Page(page.name, page.lines[:-1]).up_to_date() != page.text()
