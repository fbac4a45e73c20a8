"""Runs all cases on all networks: ``python -m bench.zoo.running FOLDER [NAMES] [--case=full.onnx]``.

Each conversion is a process with an end to its time and memory. Results are lines of JSON in ``FOLDER/results.jsonl``; a run that
was broken off goes on, and ``--again`` repeats what failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bench import without_vnni
from bench.figures import json_lines
from bench.process import ProcessRun, failure_reason, measure
from bench.zoo.cases import CASES, FORMATS, PEERS, SIZELESS, Case, configuration
from converter_lite.execution.processor import processor_kind

ROOT = Path(__file__).resolve().parents[2]
SECONDS, BYTES = 300, 12 << 30
"""End of a conversion's time, and of the memory that it asks for."""

REFUSED = (1, 2)
"""Exit statuses of a conversion that says why it is not done: for the model, and for what was asked."""

TIMES = ("float_ms", "speedup", "speedup_without")
"""The last one: without VNNI, where that can be tried here."""

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """A network that was exported."""

    folder: Path
    about: dict[str, Any]

    @property
    def model(self) -> Path:
        """Its ONNX file."""
        return self.folder / "model.onnx"

    @property
    def bytes(self) -> int:
        """Its size, with the weights beside it."""
        return sum(path.stat().st_size for path in self.folder.glob("model.onnx*"))

    @property
    def shapes(self) -> str:
        """As ``--inputShape`` takes them; single numbers have none."""
        return ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in self.about["shapes"].items() if shape)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="patterns of networks")
    parser.add_argument("--case", action="append", default=[], help="patterns of cases: full.*, *.onnx")
    parser.add_argument("--again", action="store_true", help="repeat what did not succeed")
    options = parser.parse_args()
    record = options.folder / "results.jsonl"
    there = {
        (result["network"], result["case"])
        for result in results(record).values()
        if not options.again or result["verdict"] == "ok"
    }
    for case in chosen(options.case):
        for made in networks(options.folder, options.names):
            if (made.folder.name, case.name) in there:
                continue
            result = run(made, case)
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{made.folder.name:20} {case.name:14} {result['verdict']:8} {result.get('why', '')}", flush=True)


def chosen(patterns: Sequence[str]) -> list[Case]:
    """Cases that one of the patterns names; without any, all."""
    return [case for case in CASES if not patterns or any(fnmatch(case.name, pattern) for pattern in patterns)]


def networks(folder: Path, patterns: Sequence[str]) -> Iterator[Made]:
    """Exported networks that one of the patterns names."""
    for path in sorted(folder.glob("*/about.json")):
        if not patterns or any(fnmatch(path.parent.name, pattern) for pattern in patterns):
            yield Made(path.parent, json.loads(path.read_text(encoding="utf-8")))


def results(record: Path) -> dict[tuple[str, str], Result]:
    """The last result of each network and case."""
    lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    return {(result["network"], result["case"]): result for result in map(json.loads, lines)}


def run(made: Made, case: Case) -> Result:
    """Convert, and measure what was written."""
    with tempfile.TemporaryDirectory(prefix="zoo_") as name:
        work = Path(name)
        _samples(made, work)
        took = measure(_limited(_command(made, case, work)), cwd=work, env=_environment(), timeout=SECONDS)
        written = work / f"out.{case.suffix}"
        found = {
            "network": made.folder.name,
            "case": case.name,
            "commit": _commit(),
            "status": took.status,
            "seconds": round(took.seconds, 2),
            "processor_seconds": round(took.processor_seconds, 2),
            "peak": took.peak_bytes,
            "float_bytes": made.bytes,
            **_said(work / "out.json"),
        }
        if not took.status and case.mode not in SIZELESS:
            found["bytes"] = sum(path.stat().st_size for path in work.glob(f"out.{case.suffix}*"))
        if not took.status and case.suffix == "onnx" and case.mode != "float":
            judged = _judged(made, written, work)
            found |= {key: value for key, value in judged.items() if case.mode not in SIZELESS or key not in TIMES}
        return found | _verdict(found, took, case)


def _samples(made: Made, work: Path) -> None:
    command = [sys.executable, "-m", "bench.zoo.samples", made.folder, work]
    subprocess.run(command, check=True, env={**os.environ, **_environment()})


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def _command(made: Made, case: Case, work: Path) -> list[str]:
    if case.is_peer:
        program = f"bench.peers.{case.mode.partition('_')[0] if case.mode in SIZELESS else case.mode}"
        line = [sys.executable, "-m", program, "--task", "zoo", "--samples", "8", *PEERS[case.mode]]
        return [
            *line,
            "--model",
            str(made.model),
            "--output",
            str(work / "out.onnx"),
            "--data",
            str(work / "samples.npz"),
        ]
    line = [
        sys.executable,
        "-m",
        "converter_lite",
        "--fmk=ONNX",
        f"--modelFile={made.model}",
        f"--outputFile={work / 'out'}",
    ]
    line += [f"--saveType={FORMATS[case.suffix]}", f"--json={work / 'out.json'}", "--threads=1", "--minCosine=0"]
    if made.about["open"] and (case.suffix != "onnx" or case.mode == "full"):
        line.append(f"--inputShape={made.shapes}")
    if case.mode != "float":
        config = work / "config.cfg"
        config.write_text(configuration(case.mode, list(made.about["shapes"]), work), encoding="utf-8")
        line.append(f"--configFile={config}")
        line.append("--inputDataFormat=NCHW")
    return line


def _limited(command: list[str]) -> list[str]:
    return ["sh", "-c", f'ulimit -v {BYTES >> 10}; exec "$@"', "sh", *command]


def _said(path: Path) -> Result:
    """What the conversion says of itself: accuracy in exact arithmetic, and how fast the file is beside the float model."""
    if not path.is_file():
        return {}
    said = json.loads(path.read_text(encoding="utf-8"))
    artefacts = said.get("artefacts") or [{}]
    outputs = artefacts[0].get("accuracy") or []
    return {
        "proof": min((output["cosine"] for output in outputs), default=None),
        "warnings": len(said.get("warnings", ())),
    }


def _judged(made: Made, written: Path, work: Path) -> Result:
    line = [sys.executable, "-m", "bench.zoo.judging", str(made.model), str(written), str(work / "proof.npz")]
    took = measure(_limited(line), cwd=work, env=_environment(), timeout=SECONDS)
    if took.status:
        return {"judge": failure_reason(took)}
    found: Result = json_lines(took.output)[-1]
    if processor_kind() != "VNNI" or without_vnni.missing():
        return found
    environment = {**_environment(), **without_vnni.environment(ROOT)}
    again = measure(_limited([*line, "--times"]), cwd=work, env=environment, timeout=SECONDS)
    return found | {"speedup_without": None if again.status else json_lines(again.output)[-1]["speedup"]}


def _verdict(found: Result, took: ProcessRun, case: Case) -> Result:
    """``ok``, ``refused`` with the reason, or ``defect``."""
    if not took.status:
        wrong = found.get("judge")
        return {"verdict": "defect", "why": wrong} if wrong else {"verdict": "ok"}
    why = failure_reason(took).removeprefix("ERROR").strip(" :")
    is_told = took.status in REFUSED and (case.is_peer or "Traceback" not in took.output)
    return {"verdict": "refused" if is_told else "defect", "why": why, "output": took.output[-2000:]}


def _commit() -> str:
    line = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
