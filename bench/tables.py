"""Figures as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from bench.cases import CASES, TASKS, Case
from bench.figures import BESIDE, EXACT, FLOAT, FLOAT_AGAIN, MASKED, OPENVINO, PRECISION, Figures, spread
from bench.goals import GOALS, MIB, Goal

ABSENT = "–"

_ACCURACY_COLUMNS = {
    "top-1": "top1",
    "top-1, exact": f"top1{EXACT}",
    "top-5": "top5",
    "cosine": "cosine",
    "cosine, exact": f"cosine{EXACT}",
    "least": "least",
    "largest error": "error",
    "largest error, exact": f"error{EXACT}",
}
"""Column -> metric."""

_HOW = {"ratio": "ours : peer", "speedup": "peer : ours", "lost": "peer − ours", "value": ""}


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose other columns are aligned to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)) + "\n"


def format_figure(metric: str, value: float | None) -> str:
    """A figure with its unit, or a dash where nothing was measured."""
    metric = metric.removesuffix(EXACT)
    if value is None:
        return ABSENT
    if metric in ("top1", "top5"):
        return f"{100 * value:.2f} %"
    if metric == "peak":
        return f"{value / MIB:.0f} MiB"
    if metric == "bytes":
        return f"{value:,.0f}"
    if metric == PRECISION:
        return f"{value:.4g}"
    digits, unit = {"seconds": (2, " s"), "latency": (2, " ms"), MASKED: (2, " ms"), "error": (4, "")}.get(
        metric, (5, "")
    )
    return f"{value:.{digits}f}{unit}"


def goal_tables(figures: Figures, goals: Sequence[Goal] = GOALS) -> str:
    """One table per topic: our figure, the peer's of the same run, the goal, whether it is met, and what it was measured on.

    Figures of accuracy have the exact ones beside them.
    """
    parts = []
    for topic in dict.fromkeys(goal.topic for goal in goals):
        of_topic = [goal for goal in goals if goal.topic == topic]
        with_exact = any(goal.is_of_accuracy for goal in of_topic)
        exact = ("ours, exact", "peer, exact") if with_exact else ("", "")
        header = ("what", "ours", exact[0], "peer", exact[1], "compared", "goal", "result", "measured on")
        rows = [header, *(_goal_row(goal, figures) for goal in of_topic)]
        if not with_exact:
            rows = [[*row[:2], row[3], *row[5:]] for row in rows]
        parts.append(f"### {topic}\n\n" + markdown_table(rows[0], rows[1:]))
    return "\n".join(parts)


def task_tables(figures: Figures, cases: Sequence[Case] = CASES) -> str:
    """One table per task with every model that was evaluated: the float model, ours, the peers'."""
    columns = {"model": "", **_ACCURACY_COLUMNS, "latency": "latency", "without VNNI": MASKED, "bytes": "bytes"}
    columns |= {"wall": "seconds", "peak memory": "peak"}
    header, (_, *metrics) = tuple(columns), tuple(columns.values())
    parts = []
    for task in TASKS:
        lines = [(FLOAT, f"{task}/{FLOAT}")]
        lines += [(_title(case), case.name) for case in cases if case.task == task and case.evaluated]
        rows = [
            [title, *(format_figure(metric, figures.median(name, metric)) for metric in metrics)]
            for title, name in lines
            if (name, "cosine") in figures.values
        ]
        if rows:
            parts.append(f"### {task}\n\n" + markdown_table(header, rows))
    return "\n".join(parts)


def openvino_table(figures: Figures, cases: Sequence[Case] = CASES) -> str:
    """Cosine with the exact result, and latency in OpenVINO beside onnxruntime and the float model, or why there is none."""
    rows = []
    for task in TASKS:
        plain = f"{task}/{FLOAT}"
        lines = [(FLOAT, plain), *((_title(case), case.name) for case in cases if case.task == task)]
        rows += [
            [
                f"{task}, {title}",
                format_figure("cosine", figures.median(f"{OPENVINO}{name}", "cosine")),
                format_figure("latency", figures.median(f"{OPENVINO}{name}", "latency")),
                format_figure("latency", figures.median(f"{BESIDE}{name}", "latency")),
                _ratio_text(figures.ratios("latency", f"{OPENVINO}{name}", f"{BESIDE}{name}")),
                _ratio_text(figures.ratios("latency", f"{OPENVINO}{name}", f"{OPENVINO}{plain}")),
            ]
            for title, name in lines
            if (f"{OPENVINO}{name}", "latency") in figures.values
        ]
    header = (
        "model",
        "cosine with exact",
        "OpenVINO",
        "onnxruntime",
        "OpenVINO : onnxruntime",
        "in OpenVINO, file : float",
    )
    missing = [
        f"- {name.removeprefix(OPENVINO)}: {why}\n" for name, why in figures.failures.items() if OPENVINO in name
    ]
    return (markdown_table(header, rows) if rows else "Not measured.\n") + "".join(missing)


def noise_line(figures: Figures) -> str:
    """How far a model's latency is from its own: what a latency ratio can be off by."""
    pairs = ((task, figures.ratio("latency", f"{task}/{FLOAT_AGAIN}", f"{task}/{FLOAT}")) for task in TASKS)
    shown = ", ".join(f"{task} {ratio:.3f}" for task, ratio in pairs if ratio is not None)
    return f"Noise of the latency ratios, the float model against itself: {shown or ABSENT}.\n"


def twin_list(figures: Figures, cases: Sequence[Case] = CASES) -> str:
    """Cases that wrote the same bytes; their rows are one result, and differences between them are noise."""
    titles = {case.name: f"{case.task}, {case.title}" for case in cases}
    return "".join(f"- {titles[a]} = {titles[b]}\n" for a, b in figures.twins)


def failure_list(figures: Figures, cases: Sequence[Case] = CASES) -> str:
    """What gave no figures, with the reason."""
    return "".join(
        f"- {case.task + ', ' if case.task else ''}{_title(case)}: {figures.failures[case.name]}\n"
        for case in cases
        if case.name in figures.failures
    ) + "".join(
        f"- {task}, session.x64quantprecision: {figures.failures[key]}\n"
        for task, key in ((task, f"{task}/{PRECISION}") for task in TASKS)
        if key in figures.failures
    )


def _title(case: Case) -> str:
    return f"**{case.title}**" if case.is_ours else case.title


def _goal_row(goal: Goal, figures: Figures) -> list[str]:
    value = goal.measured(figures)
    sign = "≥" if goal.at_least else "≤"
    compared, limit = "", f"{sign} {format_figure(goal.metric, goal.limit)}"
    if goal.how == "lost":
        compared, limit = _points_text(value), f"{sign} {100 * goal.limit:.1f} points"
    elif goal.how != "value":
        shown = ABSENT if value is None else f"{value:.2f}"
        turns = goal.turns(figures)
        between = " ({:.2f}–{:.2f})".format(*spread(turns)) if len(turns) > 1 else " (one turn)" if turns else ""
        compared, limit = f"{_HOW[goal.how]} = {shown}{between}", f"{sign} {goal.limit:.2f}"
    met = goal.is_met(figures)
    result = {True: "met", False: "**missed**", None: "not measured"}[met]
    cells = [
        format_figure(metric, figures.median(case, metric))
        if case and (metric == goal.metric or goal.is_of_accuracy)
        else ""
        for case in (goal.case, goal.peer)
        for metric in (goal.metric, f"{goal.metric}{EXACT}")
    ]
    return [goal.title, *cells, compared, limit, result, goal.measured_on(figures)]


def _ratio_text(ratios: Sequence[float]) -> str:
    return "{:.2f} ({:.2f}–{:.2f})".format(statistics.median(ratios), *spread(ratios)) if ratios else ABSENT


def _points_text(value: float | None) -> str:
    return ABSENT if value is None else f"{100 * value:+.2f} points"
