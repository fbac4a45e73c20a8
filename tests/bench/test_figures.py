"""Reading what processes print, and comparing cases."""

from __future__ import annotations

import pytest

from bench.figures import Figures, json_lines, spread


def test_lines_that_are_no_json_objects_are_passed_over() -> None:
    assert json_lines('a warning\n{"cosine": 0.5}\n[W:onnxruntime] {}\n{"error": NaN}\n')[0] == {"cosine": 0.5}
    assert len(json_lines('{"cosine": 0.5}\nTraceback\n{"error": NaN}')) == 2


def test_a_ratio_is_the_median_of_the_turns() -> None:
    figures = Figures()
    figures.add("a", "seconds", 1.0, 20.0, 3.0)
    figures.add("b", "seconds", 2.0, 40.0, 2.0)
    assert figures.ratio("seconds", "a", "b") == 0.5


def test_turns_that_only_one_case_took_are_left_out_of_the_ratio() -> None:
    figures = Figures()
    figures.add("a", "seconds", 1.0, 100.0)
    figures.add("b", "seconds", 4.0)
    assert figures.ratio("seconds", "a", "b") == 0.25


@pytest.mark.parametrize(("above", "below"), [("a", "absent"), ("absent", "a")])
def test_there_is_no_ratio_to_something_that_was_not_measured(above: str, below: str) -> None:
    figures = Figures()
    figures.add("a", "seconds", 1.0)
    assert figures.ratio("seconds", above, below) is None


def test_the_spread_of_few_turns_is_their_extremes() -> None:
    assert spread([2.0, 1.0, 9.0]) == (1.0, 9.0)


def test_the_spread_of_many_turns_leaves_single_ones_out() -> None:
    low, high = spread([1.0] * 10 + [100.0])
    assert (low, high) == (1.0, 1.0)
