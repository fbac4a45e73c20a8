"""Goals and tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cases import CASES, IN_OPENVINO, OURS, TASKS, Case
from bench.figures import EXACT, FLOAT, MASKED, PRECISION, Figures
from bench.goals import GOALS, Goal
from bench.programs import PROGRAMS, Places, config_text
from bench.tables import failure_list, format_figure, goal_tables, noise_line, openvino_table, task_tables, twin_list


def _figures(**values: float) -> Figures:
    figures = Figures()
    for case, value in values.items():
        figures.add(case, "top1", value)
        figures.add(case, "seconds", value)
    return figures


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_case_names_a_program_and_a_task_that_exist() -> None:
    assert {case.program for case in CASES} <= set(PROGRAMS)
    assert {case.task for case in CASES} <= {*TASKS, ""}


def test_every_goal_compares_cases_that_exist() -> None:
    known = {case.name for case in CASES} | {f"{task}/{FLOAT}" for task in TASKS} | {""}
    assert {name for goal in GOALS for name in (goal.case, goal.peer)} <= known


def test_a_goal_that_compares_has_a_peer() -> None:
    assert all(goal.peer for goal in GOALS if goal.how != "value")


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal("t", "w", "a", "seconds", 2.0), 2.0, True),
        (Goal("t", "w", "a", "seconds", 1.9), 2.0, False),
        (Goal("t", "w", "a", "seconds", 2.1, at_least=True), 2.0, False),
        (Goal("t", "w", "a", "seconds", 0.5, "b", "ratio"), 0.5, True),
        (Goal("t", "w", "a", "seconds", 2.0, "b", "speedup", at_least=True), 2.0, True),
        (Goal("t", "w", "a", "top1", 1.0, "b", "lost"), 2.0, False),
    ],
)
def test_a_goal_is_judged_by_its_own_comparison(goal: Goal, value: float, met: bool) -> None:
    figures = _figures(a=2.0, b=4.0)
    assert goal.measured(figures) == value
    assert goal.is_met(figures) is met


def test_a_figure_that_is_missing_is_neither_met_nor_missed() -> None:
    goal = Goal("Speed", "row", "a", "seconds", 1.0)
    assert goal.is_met(Figures()) is None
    assert "| row | – |  |  | ≤ 1.00 s | not measured | native, VNNI |" in goal_tables(
        Figures(processor="VNNI"), [goal]
    )


def test_a_missed_goal_stands_out() -> None:
    goal = Goal("Speed", "row", "a", "seconds", 0.5, "b", "ratio")
    expected = "| row | 3.00 s | 4.00 s | ours : peer = 0.75 (one turn) | ≤ 0.50 | **missed** |"
    assert expected in goal_tables(_figures(a=3.0, b=4.0), [goal])


def test_a_ratio_shows_how_far_its_turns_are_apart() -> None:
    figures = Figures()
    figures.add("a", "seconds", 1.0, 3.0, 2.0)
    figures.add("b", "seconds", 2.0, 2.0, 2.0)
    goal = Goal("Speed", "row", "a", "seconds", 1.2, "b", "ratio")
    assert "ours : peer = 1.00 (0.50–1.50) | ≤ 1.20 | met |" in goal_tables(figures, [goal])


def test_points_lost_are_percentage_points() -> None:
    goal = Goal("Accuracy", "row", "a", "top1", 0.015, "b", "lost")
    expected = "| row | 80.25 % | – | 82.50 % | – | +2.25 points | ≤ 1.5 points | **missed** |"
    assert expected in goal_tables(_figures(a=0.8025, b=0.825), [goal])


def test_figures_of_accuracy_have_exact_ones_beside_them() -> None:
    figures = _figures(a=0.80, b=0.60)
    figures.add("a", f"top1{EXACT}", 0.80)
    figures.add("b", f"top1{EXACT}", 0.79)
    table = goal_tables(figures, [Goal("Accuracy", "row", "a", "top1", 0.7, "b", at_least=True)])
    assert "| what | ours | ours, exact | peer | peer, exact |" in table
    assert "| row | 80.00 % | 80.00 % | 60.00 % | 79.00 % |" in table


def test_other_figures_in_a_table_of_accuracy_have_no_exact_ones() -> None:
    goals = [Goal("T", "one", "a", "top1", 0.7), Goal("T", "two", "a", "seconds", 3.0)]
    assert "| two | 2.00 s |  |  |  |  | ≤ 3.00 s | met |" in goal_tables(_figures(a=2.0), goals)


@pytest.mark.parametrize(
    ("goal", "processor"),
    [
        (Goal("t", "w", "mb_best", "cosine", 1.0), "native, VNNI"),
        (Goal("t", "w", "mb_ms_w8", "cosine", 1.0), "exact"),
        (Goal("t", "w", "mb_dsp", "cosine", 1.0), "exact"),
        (Goal("t", "w", "mb_ms_w8", "seconds", 1.0), "native, VNNI"),
        (Goal("t", "w", "mb_best", PRECISION, 0.0), "masked, AVX2"),
    ],
)
def test_a_goal_says_what_it_was_measured_on(goal: Goal, processor: str) -> None:
    assert goal.measured_on(Figures(processor="VNNI", masked_on="masked, AVX2")) == processor


def test_every_file_of_ours_for_x86_is_to_give_the_same_numbers_with_precise_kernels() -> None:
    files = {case.name for case in CASES if case.is_ours and case.task and case.evaluated and case.is_for_x86}
    assert {goal.case for goal in GOALS if goal.metric == PRECISION} == files


def test_a_goal_of_0_is_met_by_0_alone() -> None:
    goal = Goal("t", "w", "a", "seconds", 0.0)
    assert [goal.is_met(_figures(a=value)) for value in (0.0, 1e-12, float("nan"))] == [True, False, False]


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("peak", 512 * 2.0**20, "512 MiB"),
        ("bytes", 2754347.0, "2,754,347"),
        ("latency", 1.234, "1.23 ms"),
        ("cosine", 0.9968, "0.99680"),
        ("top1", None, "–"),
    ],
)
def test_figures_have_units(metric: str, value: float | None, text: str) -> None:
    assert format_figure(metric, value) == text


def test_only_evaluated_models_are_listed() -> None:
    cases = [Case("a", "first", OURS, "resnet8"), Case("b", "second", "nncf", "resnet8")]
    figures = Figures()
    figures.add("resnet8/float", "cosine", 1.0)
    figures.add("a", "cosine", 0.99)
    table = task_tables(figures, cases)
    assert "| **first** |" in table
    assert "second" not in table
    figures.add("a", MASKED, 12.5)
    lines = [line.split(" | ") for line in task_tables(figures, cases).splitlines() if line.startswith("| ")]
    header, first = lines[0], next(line for line in lines if "**first**" in line[0])
    assert first[header.index("without VNNI")] == "12.50 ms"


def test_what_failed_is_listed_with_its_reason() -> None:
    cases = [Case("b", "second", "nncf", "resnet8")]
    assert failure_list(Figures(failures={"b": "left out: no network"}), cases) == (
        "- resnet8, second: left out: no network\n"
    )


def test_cases_that_wrote_the_same_bytes_are_reported() -> None:
    cases = [Case("a", "first", OURS, "resnet8"), Case("b", "second", "nncf", "resnet8")]
    assert twin_list(Figures(twins=[("a", "b")]), cases) == "- resnet8, first = resnet8, second\n"


def test_latency_in_openvino_stands_beside_onnxruntime_and_the_float_model() -> None:
    figures = Figures()
    for name, value in {"openvino/resnet8/float": 4.0, "beside/resnet8/float": 2.0}.items():
        figures.add(name, "latency", value, value)
    figures.add("openvino/a", "latency", 1.0, 1.0)
    figures.add("beside/a", "latency", 2.0, 0.5)
    figures.add("openvino/a", "cosine", 0.9999)
    table = openvino_table(figures, [Case("a", "first", OURS, "resnet8"), Case("b", "second", "nncf", "resnet8")])
    assert "| resnet8, float | – | 4.00 ms | 2.00 ms | 2.00 (2.00–2.00) | 1.00 (1.00–1.00) |" in table
    assert "| resnet8, **first** | 0.99990 | 1.00 ms | 1.25 ms | 1.25 (0.50–2.00) | 0.25 (0.25–0.25) |" in table
    assert "second" not in table


def test_openvino_that_is_not_there_is_reported() -> None:
    table = openvino_table(Figures(failures={"openvino/resnet8": "no network"}), [])
    assert table == "Not measured.\n- resnet8: no network\n"


def test_cases_that_are_timed_in_openvino_exist() -> None:
    assert set(IN_OPENVINO) <= {case.name for case in CASES}


def test_noise_is_the_latency_of_the_float_model_against_itself() -> None:
    figures = Figures()
    figures.add("resnet8/float", "latency", 2.0, 2.0)
    figures.add("resnet8/float_again", "latency", 2.1, 2.1)
    assert "resnet8 1.050." in noise_line(figures)


@pytest.mark.parametrize("case", [c for c in CASES if c.program == OURS and c.task], ids=lambda case: case.name)
def test_every_configuration_has_the_data_that_its_case_asks_for(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = config_text(case, tmp_path_factory.getbasetemp() if case.samples else None)
    assert ("[data_preprocess_param]" in text) is bool(case.samples)
    assert text.startswith("[common_quant_param]\nquant_type=")


def test_reasons_name_files_without_the_folders_of_the_run() -> None:
    places = Places(Path("/r"), Path("/s"), Path("/r/jobs"), Path("/r/.runtimes"))
    assert places.without_folders("ERROR /r/jobs/a.cfg:3 /s/m.onnx /r/x") == "ERROR a.cfg:3 m.onnx x"
