"""Running the cases: conversions in turns, then the accuracy and the latency of what they wrote."""

from __future__ import annotations

import filecmp
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

from bench import without_vnni
from bench.cases import CASES, IN_OPENVINO, TASKS, Case
from bench.figures import ACCURACY, BESIDE, EXACT, FLOAT, FLOAT_AGAIN, MASKED, OPENVINO, PRECISION, Figures, json_lines
from bench.goals import GOALS
from bench.process import ProcessRun, failure_reason, measure
from bench.programs import Invocation, NotInstalledError, Places, invocation, openvino_python, rebuilding
from converter_lite.execution.processor import WITHOUT_VNNI, processor_kind

Say = Callable[[str], None]

_PRECISE = {name for goal in GOALS if goal.metric == PRECISION for name in (goal.case, goal.peer)}


def run_cases(cases: Sequence[Case], places: Places, figures: Figures, *, repeats: int | None, say: Say) -> None:
    """Convert: wall seconds and peak memory of every case.

    Args:
        cases: What to run; cases of a group that follow one another are measured in turns.
        places: Folders.
        figures: Receives ``seconds`` and ``peak``, or the failure.
        repeats: At most so many turns; ``None``: as the cases say.
        say: Receives one line per process.
    """
    _warm_up(cases, places, say)
    for _, members in groupby(cases, key=lambda case: case.group or case.name):
        group = _invocations(list(members), places, figures)
        for turn in range(max((case.repeats for case, _ in group), default=0)):
            for case, call in group:
                if turn < min(case.repeats, repeats or case.repeats) and case.name not in figures.failures:
                    _record(case, measure(call.command, cwd=places.work, env=call.env), places, figures, say)


def _warm_up(cases: Sequence[Case], places: Places, say: Say) -> None:
    """Run each program once untimed: the first start reads it from the disk and compiles it, which is no figure of it."""
    for case in {case.program: case for case in reversed(cases) if case.task}.values():
        try:
            call = invocation(case, places)
        except NotInstalledError:
            continue
        run = measure(call.command, cwd=places.work, env=call.env)
        say(f"{case.program:24} warmed up in {run.seconds:.2f} s")


def _invocations(cases: Sequence[Case], places: Places, figures: Figures) -> list[tuple[Case, Invocation]]:
    group = []
    for case in cases:
        try:
            group.append((case, invocation(case, places)))
        except NotInstalledError as reason:
            figures.failures[case.name] = f"left out: {reason}"
    return group


def _record(case: Case, run: ProcessRun, places: Places, figures: Figures, say: Say) -> None:
    say(f"{case.name:24} status {run.status}  {run.seconds:6.2f} s  {run.peak_bytes / 2**20:6.0f} MiB")
    if run.status:
        figures.failures[case.name] = places.without_folders(failure_reason(run))
        return
    figures.add(case.name, "seconds", run.seconds)
    figures.add(case.name, "peak", float(run.peak_bytes))
    file = places.written(case)
    if file.is_file() and (case.name, "bytes") not in figures.values:
        figures.add(case.name, "bytes", float(file.stat().st_size))


def evaluate_results(cases: Sequence[Case], places: Places, figures: Figures, *, rounds: int, say: Say) -> None:
    """Accuracy, bytes and latency of all files of a task together, next to the float model."""
    for task in TASKS:
        candidates = [c for c in cases if c.task == task and c.evaluated and c.name not in figures.failures]
        written = [c for c in candidates if _can_be_evaluated(c, places, figures)]
        if written:
            say(f"evaluating {task}: {len(written)} models")
            figures.twins += [
                (a.name, b.name)
                for a, b in combinations(written, 2)
                if filecmp.cmp(places.result(a), places.result(b), shallow=False)
            ]
            with ThreadPoolExecutor(1) as pool:  # neither measures time
                pending = pool.submit(_run_precisely, task, [c for c in written if c.name in _PRECISE], places, figures)
                evaluated = _evaluate(task, written, places, figures)
                pending.result()
            _time(task, [c for c in evaluated if c.save_type == "ONNX"], places, figures, rounds)
            _time_in_openvino(task, [c for c in evaluated if c.name in IN_OPENVINO], places, figures, rounds)


def _can_be_evaluated(case: Case, places: Places, figures: Figures) -> bool:
    """Whether there is an ONNX file; other kinds of files are rebuilt as ONNX."""
    if case.save_type != "ONNX" and places.written(case).is_file():
        call = rebuilding(case, places)
        run = measure(call.command, cwd=places.work, env=call.env)
        if run.status:
            figures.failures[case.name] = places.without_folders(failure_reason(run))
    return places.result(case).is_file()


def _evaluate(task: str, cases: list[Case], places: Places, figures: Figures) -> list[Case]:
    """Add the figures; a model that stops the evaluation is noted and the others are evaluated again.

    Returns:
        The cases that could be evaluated.
    """
    options = ["-m", "bench.accuracy", "--task", task, "--shared", str(places.shared)]
    while True:
        files = [str(places.result(case)) for case in cases]
        run = measure([sys.executable, *options, *files], cwd=places.work, env=_own_modules(places), timeout=1200)
        lines = json_lines(run.output)
        if not run.status:
            break
        if not lines or len(lines) > len(cases):
            raise RuntimeError(f"bench.accuracy {task} failed: {failure_reason(run)}")
        failed = cases[len(lines) - 1]
        figures.failures[failed.name] = f"its model does not run: {places.without_folders(failure_reason(run))}"
        cases = [case for case in cases if case is not failed]
    for_others = {case.name for case in cases if not case.is_for_x86}
    for name, line in zip([f"{task}/{FLOAT}", *(case.name for case in cases)], lines, strict=True):
        for metric, value in line.items():
            figures.add(name, metric, line[metric + EXACT] if name in for_others and metric in ACCURACY else value)
    figures.add(f"{task}/{FLOAT}", "bytes", float(places.model(task).stat().st_size))
    return cases


def _own_modules(places: Places) -> dict[str, str]:
    return {"PYTHONPATH": str(places.root)}


def _is_masked() -> bool:
    """Whether a processor with VNNI can be taken for one without."""
    return processor_kind() == "VNNI" and not without_vnni.missing()


def masked_on() -> str:
    """What figures without VNNI are measured on."""
    return f"masked, {WITHOUT_VNNI}" if _is_masked() else f"native, {processor_kind()}"


def _without_vnni(places: Places) -> dict[str, str]:
    return without_vnni.environment(places.root) if _is_masked() else _own_modules(places)


def _run_precisely(task: str, cases: list[Case], places: Places, figures: Figures) -> None:
    """With and without onnxruntime's way out of saturation, where it is one: as on a processor without VNNI."""
    if not cases:
        return
    files = {str(places.result(case)): case.name for case in cases}
    options = ["--task", task, "--data", str(places.shared / "data" / TASKS[task].data)]
    command = [sys.executable, "-m", "bench.precision", *options, *files]
    run = measure(command, cwd=places.work, env=_without_vnni(places), timeout=1200)
    if run.status:
        figures.failures[f"{task}/{PRECISION}"] = places.without_folders(failure_reason(run))
        return
    found = json_lines(run.output)[-1]
    if _is_masked() and not found["saturates"]:
        figures.failures[f"{task}/{PRECISION}"] = "onnxruntime without VNNI has no saturating kernels: nothing is shown"
        return
    for path, difference in found["differences"].items():
        figures.add(files[path], PRECISION, difference)


def _time(task: str, cases: list[Case], places: Places, figures: Figures, rounds: int) -> None:
    again = places.work / f"{FLOAT_AGAIN}_{task}.onnx"
    again.unlink(missing_ok=True)
    again.symlink_to(places.model(task))
    floats = {str(places.model(task)): f"{task}/{FLOAT}", str(again): f"{task}/{FLOAT_AGAIN}"}
    names = {**floats, **{str(places.result(c)): c.name for c in cases}}
    for metric, environment in (("latency", _own_modules(places)), (MASKED, _without_vnni(places))):
        for path, milliseconds in _turns(task, list(names), places, rounds, environment)["rounds"].items():
            figures.add(names[path], metric, *milliseconds)


def _time_in_openvino(task: str, cases: list[Case], places: Places, figures: Figures, rounds: int) -> None:
    """Both runtimes in turns."""
    if not cases:
        return
    names = {str(places.model(task)): f"{task}/{FLOAT}", **{str(places.result(c)): c.name for c in cases}}
    try:
        found = _turns(task, [*names], places, rounds, _own_modules(places), "--openvino", str(openvino_python(places)))
    except NotInstalledError as reason:
        figures.failures[f"{OPENVINO}{task}"] = f"left out: {reason}"
        return
    except RuntimeError as reason:
        figures.failures[f"{OPENVINO}{task}"] = places.without_folders(str(reason))
        return
    for path, milliseconds in found["rounds"].items():
        prefix = OPENVINO if path.startswith(OPENVINO) else BESIDE
        figures.add(prefix + names[path.removeprefix(OPENVINO)], "latency", *milliseconds)
    for path, cosine in found["cosines"].items():
        figures.add(OPENVINO + names[path], "cosine", cosine)
    for path, why in found["failures"].items():
        figures.failures[OPENVINO + names[path]] = places.without_folders(why)


def _turns(
    task: str, paths: list[str], places: Places, rounds: int, environment: dict[str, str], *flags: str
) -> dict[str, Any]:
    """What :mod:`bench.latency` prints.

    Raises:
        RuntimeError: A model does not run.
    """
    data: Path = places.shared / "data" / TASKS[task].data
    options = ["--task", task, "--data", str(data), "--rounds", str(rounds), *flags]
    command = [sys.executable, "-m", "bench.latency", *options, *paths]
    run = measure(command, cwd=places.work, env=environment, timeout=1200)
    if run.status:
        raise RuntimeError(f"bench.latency {task} failed: {failure_reason(run)}")
    return json_lines(run.output)[-1]


def select(names: Sequence[str]) -> list[Case]:
    """Cases whose name starts with one of ``names``; all of them where none is given."""
    return [case for case in CASES if not names or case.name.startswith(tuple(names))]
