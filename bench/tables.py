"""Figures as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from bench.cases import CASES, TASKS, Case
from bench.figures import BESIDE, FLOAT, FLOAT_AGAIN, OPENVINO, Figures, spread
from bench.goals import GOALS, MIB, Goal

ABSENT = "–"

_HOW = {"ratio": "ours : peer", "speedup": "peer : ours", "lost": "peer − ours", "value": ""}


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose other columns are aligned to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)) + "\n"


def format_figure(metric: str, value: float | None) -> str:
    """A figure with its unit, or a dash where nothing was measured."""
    if value is None:
        return ABSENT
    if metric in ("top1", "top5"):
        return f"{100 * value:.2f} %"
    if metric == "peak":
        return f"{value / MIB:.0f} MiB"
    if metric == "bytes":
        return f"{value:,.0f}"
    digits, unit = {"seconds": (2, " s"), "latency": (2, " ms"), "error": (4, "")}.get(metric, (5, ""))
    return f"{value:.{digits}f}{unit}"


def goal_tables(figures: Figures, goals: Sequence[Goal] = GOALS) -> str:
    """One table per topic: our figure, the peer's of the same run, the goal, and whether it is met."""
    parts = []
    for topic in dict.fromkeys(goal.topic for goal in goals):
        rows = [_goal_row(goal, figures) for goal in goals if goal.topic == topic]
        header = ("what", "ours", "peer", "compared", "goal", "result")
        parts.append(f"### {topic}\n\n" + markdown_table(header, rows))
    return "\n".join(parts)


def task_tables(figures: Figures, cases: Sequence[Case] = CASES) -> str:
    """One table per task with every model that was evaluated: the float model, ours, the peers'."""
    metrics = ("top1", "top5", "cosine", "least", "error", "latency", "bytes", "seconds", "peak")
    header = ("model", "top-1", "top-5", "cosine", "least", "largest error", "latency", "bytes", "wall", "peak memory")
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
    """Latency in OpenVINO beside onnxruntime and the float model, or why there is none."""
    rows = []
    for task in TASKS:
        plain = f"{task}/{FLOAT}"
        lines = [(FLOAT, plain), *((_title(case), case.name) for case in cases if case.task == task)]
        rows += [
            [
                f"{task}, {title}",
                format_figure("latency", figures.median(f"{OPENVINO}{name}", "latency")),
                format_figure("latency", figures.median(f"{BESIDE}{name}", "latency")),
                _ratio_text(figures.ratios("latency", f"{OPENVINO}{name}", f"{BESIDE}{name}")),
                _ratio_text(figures.ratios("latency", f"{OPENVINO}{name}", f"{OPENVINO}{plain}")),
            ]
            for title, name in lines
            if (f"{OPENVINO}{name}", "latency") in figures.values
        ]
    header = ("model", "OpenVINO", "onnxruntime", "OpenVINO : onnxruntime", "in OpenVINO, file : float")
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
    peer = format_figure(goal.metric, figures.median(goal.peer, goal.metric)) if goal.peer else ""
    return [
        goal.title,
        format_figure(goal.metric, figures.median(goal.case, goal.metric)),
        peer,
        compared,
        limit,
        result,
    ]


def _ratio_text(ratios: Sequence[float]) -> str:
    return "{:.2f} ({:.2f}–{:.2f})".format(statistics.median(ratios), *spread(ratios)) if ratios else ABSENT


def _points_text(value: float | None) -> str:
    return ABSENT if value is None else f"{100 * value:+.2f} points"
