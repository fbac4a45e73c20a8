"""Text of single fields and rows."""

from __future__ import annotations

import csv
import io

import pytest

from converter_lite.reports.csv_rows import dims_field, name_field, number_field, row, statistics_fields
from converter_lite.reports.distribution import Distribution


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.0, "0"),
        (-0.9765625, "-0.976562"),
        (0.00434132, "0.00434132"),
        (1 / 230400, "4.34028e-06"),
        (1234567.0, "1.23457e+06"),
        (123456.0, "123456"),
        (0.9999996, "1"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_have_six_significant_digits_as_a_cpp_stream_prints_them(value: float, text: str) -> None:
    assert number_field(value) == text


@pytest.mark.parametrize("name", ["conv1", "model/a;b:0", "Conv 1", "a=b", "x-y", "'x'"])
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    assert name_field(name) == name


@pytest.mark.parametrize("name", ["a,b", 'say "x"', "two\nlines", "cr\rx"])
def test_names_that_would_break_a_row_read_back_unchanged(name: str) -> None:
    assert next(csv.reader(io.StringIO(row(["0", name_field(name), "1"]), newline=""))) == ["0", name, "1", ""]


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx", '=HYPERLINK("http://a","b")'])
def test_names_never_start_as_a_formula(name: str) -> None:
    read = next(csv.reader(io.StringIO(row([name_field(name)]), newline="")))
    assert read == [f"'{name}", ""]


def test_dims_are_followed_by_blanks() -> None:
    assert dims_field((32, 1, 1, 16)) == "32 1 1 16 "
    assert dims_field(()) == ""


def test_statistics_stand_in_the_order_of_the_header() -> None:
    values = Distribution(minimum=1, q1=2, median=3, q3=4, maximum=5, mean=6, deviation=7, sparsity=8)
    assert statistics_fields(values, clip=9, cosine=10) == [str(i) for i in range(1, 11)]
