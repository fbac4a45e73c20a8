"""``python -m bench``: run our tool and the peers on the shared models and write ``bench/RESULTS.md``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figures
from bench.goals import GOALS
from bench.machine import machine_lines
from bench.measuring import evaluate_results, masked_on, run_cases, select
from bench.programs import Places
from bench.tables import failure_list, goal_tables, noise_line, openvino_table, task_tables, twin_list
from converter_lite.execution.processor import processor_kind

ROOT = Path(__file__).resolve().parents[1]

HOW = """\
Every conversion is a process of its own, measured from start to end: wall time and the largest resident memory. Cases
that are compared ran in turns (A B A B ...) after each program ran once untimed; a figure is the median over the
turns, a ratio the median of the ratios turn by turn, with its spread in brackets (extremes; quartiles for latency): a
goal inside the spread is neither safely met nor safely missed. Latency is the time of one sample with one thread; all models of
a task ran in turns in one process. Accuracy is measured against the float model on evaluation data that calibration
never sees. Absolute times depend on what else the machine did; ratios count. *Cosine* is the mean over samples and
outputs, *least* the smallest one. Bold rows are ours.

*Exact*: the same figure in exact arithmetic. int8 weights with which a kernel of a processor without VNNI could saturate are
handed to the runtime as uint8 around 128, and all samples run once more. A file without such weights is exact by construction:
the figure is the same one. `.ms` and `.nb` files and those for DSP are for other processors, and only judged in exact
arithmetic. *Measured on*: *native* is the processor above as it is; *masked* is the same with an onnxruntime that is told of no
VNNI (`bench/without_vnni.py`): for latencies without VNNI, and for a few samples per file with and without
`session.x64quantprecision=1`, which changes nothing where VNNI is used.
"""

IN_OPENVINO = """\
Latency of our files in both runtimes, in turns, each in a process of its own; one thread each. OpenVINO computes in the
types of the file (`EXECUTION_MODE_HINT=ACCURACY`). *Cosine with exact*: mean cosine of its outputs with those of onnxruntime in
exact arithmetic, for the samples that are timed.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the results, and say where they are.

    Returns:
        Exit status: 0 when the file is written, 2 when the shared models are not there.
    """
    options = _parser().parse_args(arguments)
    if not (options.shared / "tools/evaluate.py").is_file():
        print(f"{options.shared} holds no models and data; name their folder with --shared", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench_") as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        places = Places(ROOT, options.shared.resolve(), work.resolve(), options.runtimes.resolve())
        options.output.write_text(_measured(options, places))
    print(f"written: {options.output}")
    return 0


def _measured(options: argparse.Namespace, places: Places) -> str:
    start = time.perf_counter()
    machine, cases = machine_lines(places), select(options.only)
    figures = Figures(processor=processor_kind(), masked_on=masked_on())

    def say(line: str) -> None:
        print(f"[{time.perf_counter() - start:5.0f} s] {line}", flush=True)

    run_cases(cases, places, figures, repeats=1 if options.quick else None, say=say)
    evaluate_results(cases, places, figures, rounds=15 if options.quick else 25, say=say)
    seconds = time.perf_counter() - start
    command = "make bench" + (" BENCH_OPTIONS=--quick" if options.quick else "")
    return "\n".join(
        (
            "# Results\n",
            f"Made by `{command}` in {seconds / 60:.0f} minutes; not edited by hand.\n",
            *machine,
            "\n" + HOW,
            "## Goals\n",
            goal_tables(figures, [goal for goal in GOALS if goal.case in {case.name for case in cases}]),
            noise_line(figures),
            "## All models, by task\n",
            task_tables(figures, cases),
            "## In OpenVINO\n",
            IN_OPENVINO,
            openvino_table(figures, cases),
            "## Same bytes\n",
            twin_list(figures, cases) or "None.\n",
            "## Without figures\n",
            failure_list(figures, cases) or "Nothing.\n",
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--shared", type=Path, default=ROOT.parent / "shared", help="folder with models, data and tools"
    )
    parser.add_argument("--runtimes", type=Path, default=ROOT / ".runtimes", help="environments of the device tools")
    parser.add_argument("--work", type=Path, help="keep the converted models in this folder")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/RESULTS.md", help="the report")
    parser.add_argument("--quick", action="store_true", help="one turn of each case and few latency rounds")
    parser.add_argument("--only", nargs="*", default=[], metavar="PREFIX", help="only cases whose name starts so")
    return parser


if __name__ == "__main__":
    sys.exit(main())
