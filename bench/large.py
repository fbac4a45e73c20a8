"""A model that is larger than memory, converted to 8-bit weights: ``python -m bench.large [--gigabytes=8] [--work=FOLDER]``.

Writes ``bench/LARGE.md``. The work folder needs one and a half times the model's size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.large_model import DATA
from bench.machine import machine_lines
from bench.process import ProcessRun, failure_reason, measure
from bench.programs import Places
from bench.tables import markdown_table

ROOT = Path(__file__).resolve().parents[1]

CONFIGURATION = """[common_quant_param]
quant_type=WEIGHT_QUANT
bit_num=8
min_quant_weight_size=0
min_quant_weight_channel=0
"""

MEMORY_GOAL = 3e9
"""Bytes."""

SPEED_GOAL = 2.0
"""Wall time of the conversion over that of the same reading and writing alone: beyond it the disk is not what it waits for."""

CHUNK = 1 << 23
TIMEOUT = 4 * 3600

HOW = """\
The model is made of random numbers, its weights in a file of their own. *Own memory* is what the process holds beside pages of
mapped files, which the system takes back when it needs them; it is looked at every 20 ms. *Disk alone* is what reading the
model's weights twice (to round them, and for the proof), writing the result and reading it back takes without computing anything,
in the same folder, just before the conversion. The page cache held nothing of these files at the start of either.
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One conversion of a large model.

    Attributes:
        run: Its process.
        report: Its JSON result.
        disk_seconds: The same reading and writing alone.
    """

    run: ProcessRun
    report: dict[str, Any]
    disk_seconds: float


def forget(*paths: Path) -> None:
    """Put files on the disk and out of the page cache."""
    for path in paths:
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_seconds(data: Path, scratch: Path) -> float:
    """Read ``data``, write a quarter of it to ``scratch``, then read both, each from and to the disk."""
    forget(data)
    start = time.perf_counter()
    _read(data)
    left = data.stat().st_size // 4
    with scratch.open("wb") as stream, data.open("rb") as source:
        while left > 0 and (block := source.read(min(CHUNK, left))):
            stream.write(block)
            left -= len(block)
        stream.flush()
        os.fsync(stream.fileno())
    seconds = time.perf_counter() - start
    forget(data, scratch)
    start = time.perf_counter()
    _read(data)
    _read(scratch)
    seconds += time.perf_counter() - start
    scratch.unlink()
    forget(data)
    return seconds


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as stream:
        while stream.read(CHUNK):
            pass


def convert_large(work: Path, gigabytes: float) -> Measured:
    """Make the model in ``work``, convert it, and delete both again.

    Raises:
        RuntimeError: The model could not be made, or not be converted.
    """
    folder = work / "large"
    config, result = work / "weight.cfg", work / "large_result.json"
    config.write_text(CONFIGURATION)
    try:
        _checked(
            measure([sys.executable, "-m", "bench.large_model", str(folder), str(gigabytes)], cwd=ROOT, timeout=TIMEOUT)
        )
        seconds = disk_seconds(folder / DATA, work / "scratch")
        command = [sys.executable, "-m", "converter_lite", "--fmk=ONNX", f"--modelFile={folder / 'large.onnx'}"]
        command += [f"--outputFile={folder / 'int8'}", f"--configFile={config}", "--saveType=ONNX", f"--json={result}"]
        run = _checked(measure(command, cwd=ROOT, timeout=TIMEOUT, own_memory=True))
        return Measured(run, json.loads(result.read_text()), seconds)
    finally:
        for path in (*folder.glob("*"), work / "scratch"):
            path.unlink(missing_ok=True)


def _checked(run: ProcessRun) -> ProcessRun:
    if run.status != 0:
        raise RuntimeError(failure_reason(run))
    return run


def rows(measured: Measured) -> Iterable[tuple[str, str, str, str]]:
    """What, figure, goal, result."""
    run, (artefact,) = measured.run, measured.report["artefacts"]
    (accuracy,) = artefact["accuracy"]
    ratio = run.seconds / measured.disk_seconds
    stages = ", ".join(f"{name} {s:.0f}" for name, s in measured.report["seconds"].items() if s >= 0.5)
    yield "model read", f"{measured.report['model_bytes'] / 1e9:.2f} GB", "", ""
    yield "result", f"{artefact['bytes'] / 1e9:.2f} GB", "", ""
    yield (
        "own memory, peak",
        f"{run.own_bytes / 1e9:.2f} GB",
        f"≤ {MEMORY_GOAL / 1e9:.0f} GB",
        _met(run.own_bytes <= MEMORY_GOAL),
    )
    yield "resident memory with mapped files, peak", f"{run.peak_bytes / 1e9:.2f} GB", "", ""
    yield "wall", f"{run.seconds:.0f} s", "", ""
    yield "disk alone", f"{measured.disk_seconds:.0f} s", "", ""
    yield "wall : disk alone", f"{ratio:.2f}", f"≤ {SPEED_GOAL:.0f}", _met(ratio <= SPEED_GOAL)
    yield "processor", f"{run.processor_seconds:.0f} s", "", ""
    yield "read from the disk", f"{run.read_bytes / 1e9:.1f} GB", "", ""
    yield "written to the disk", f"{run.written_bytes / 1e9:.1f} GB", "", ""
    yield "stages, seconds", stages, "", ""
    proof = f"cosine {accuracy['cosine']:.6f}, {accuracy['sqnr']:.1f} dB on {artefact['samples']} random samples"
    yield "proof, block by block", proof, "", ""


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=8.0, help="10**9 bytes of weights")
    parser.add_argument("--work", type=Path, help="an empty folder on the disk to be measured")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/LARGE.md", help="the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_large_", dir=options.work) as folder:
        work = Path(folder)
        machine = machine_lines(Places(ROOT, work, work, ROOT / ".runtimes"))
        table = markdown_table(("what", "figure", "goal", "result"), rows(convert_large(work, options.gigabytes)))
    head = ["# A model larger than memory\n", "Made by `make bench-large`; not edited by hand.\n"]
    options.output.write_text("\n".join([*head, *machine, f"\n{HOW}", table]))
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
