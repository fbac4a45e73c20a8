"""Reading the evaluation script's lines, and comparing cases."""

from __future__ import annotations

import pytest

from bench.figures import Figures, parse_evaluation, spread


def test_a_line_with_labels_gives_all_figures() -> None:
    line = "m.onnx top1 0.8025  top5 0.9575  cos 0.98094 (least 0.50020)  err 0.5896  1.95 ms  2754347 bytes\n"
    assert parse_evaluation(line) == [
        {
            "top1": 0.8025,
            "top5": 0.9575,
            "cosine": 0.98094,
            "least": 0.5002,
            "error": 0.5896,
            "milliseconds": 1.95,
            "bytes": 2754347.0,
        }
    ]


def test_a_line_without_labels_has_no_top1() -> None:
    (figures,) = parse_evaluation("u.onnx cos 1.00000 (least 1.00000)  err 1e-06  4.20 ms  1220755 bytes")
    assert "top1" not in figures
    assert figures["error"] == 1e-6


def test_a_cosine_that_is_not_a_number_is_kept_as_such() -> None:
    (figures,) = parse_evaluation("u.onnx cos nan (least nan)  err nan  4.20 ms  10 bytes")
    assert figures["cosine"] != figures["cosine"]


def test_warnings_between_the_lines_are_passed_over() -> None:
    assert parse_evaluation("2026 [W:onnxruntime] cos of something\nTraceback (most recent call last):\n") == []


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
