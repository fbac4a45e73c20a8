"""What learning gains: ``python -m bench.learned SHARED`` where PyTorch is, a conversion for each row and seed.

Each row is converted without learning and with ``rounding=LEARNED`` from each seed, in processes of their own. The written files
are judged on evaluation data, which nothing is chosen on; ``.ms`` and ``.nb`` files by what they say, in exact arithmetic. Prints
a line of JSON for each file, and the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.cases import BEST_MOBILENET, OURS, Case, Ini, full, weight
from bench.figures import EXACT, json_lines
from bench.process import ProcessRun, failure_reason, measure
from bench.programs import Places, invocation, rebuilding

ROOT = Path(__file__).resolve().parents[1]

ROWS = (
    Case("mb_w4", "MobileNet, weights 4 bits", OURS, "mobilenet", ini=weight(4)),
    Case("mb_w3", "MobileNet, weights 3 bits", OURS, "mobilenet", ini=weight(3)),
    Case("mb_w4a8", "MobileNet, weights 4 bits, activations 8", OURS, "mobilenet"),
    Case("mb_tensor", "MobileNet, one scale per weight", OURS, "mobilenet", ini=full(per_channel="false")),
    Case("mb_dsp", "MobileNet, DSP", OURS, "mobilenet", ini=full(target_device="DSP")),
    Case("mb_full", "MobileNet, FULL per channel", OURS, "mobilenet", ini=BEST_MOBILENET),
    Case("uf_full", "UltraFace, FULL", OURS, "ultraface", ini=full()),
    Case("r8_w4", "ResNet-8, weights 4 bits", OURS, "resnet8", ini=weight(4), samples=200),
    Case("r8_w4a8", "ResNet-8, weights 4 bits, activations 8", OURS, "resnet8", samples=200),
    Case("ml_full", "MiniLM, FULL", OURS, "minilm", ini=full(), samples=64),
    Case("fd_full", "FastestDet, FULL", OURS, "fastestdet", ini=full()),
    Case("mb_ms_w4", "MobileNet, weights 4 bits, .ms", OURS, "mobilenet", ini=weight(4), save_type="MINDIR_LITE"),
    Case("uf_ms", "UltraFace, FULL, .ms", OURS, "ultraface", ini=full(), save_type="MINDIR_LITE"),
    Case("uf_nb", "UltraFace, FULL, .nb", OURS, "ultraface", ini=full(), save_type="NAIVE_BUFFER"),
)
"""Without a configuration: FULL_QUANT with integers of 4 bits."""

SECTIONS = {"WEIGHT_QUANT": "weight_quant_param", "FULL_QUANT": "full_quant_param"}

FIGURES = {"top1" + EXACT: "top-1, share", "cosine" + EXACT: "cosine", "error" + EXACT: "largest error"}


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its figures on evaluation data, what the command took, and what its log says of learning."""

    figures: Mapping[str, float]
    seconds: float
    peak: int
    said: str


def configured(case: Case, **common: str) -> Ini:
    """The configuration of a row; ``common`` are keys of learning, none: without it."""
    ini = {name: dict(keys) for name, keys in (case.ini or full()).items()}
    if not case.ini:
        ini["common_quant_param"]["bit_num"] = "4"
    if common:
        section = SECTIONS[ini["common_quant_param"]["quant_type"]]
        ini.setdefault(section, {})["rounding"] = "LEARNED"
        ini["common_quant_param"] |= common
    return ini


def converted(case: Case, places: Places) -> Found:
    """Convert, and judge what was written."""
    own = {"PYTHONPATH": str(places.root)}
    run = _checked(case, measure(invocation(case, places).command, cwd=places.root, env=own, timeout=7200))
    if case.save_type != "ONNX":
        _checked(case, measure(rebuilding(case, places).command, cwd=places.root, env=own))
    judge = [sys.executable, "-m", "bench.accuracy", "--task", case.task, "--shared", str(places.shared)]
    judged = _checked(case, measure([*judge, str(places.result(case))], cwd=places.root, timeout=1200))
    said = " ".join(line for line in run.output.splitlines() if "learnt" in line or "learning gained" in line)
    return Found(json_lines(judged.output)[1], run.processor_seconds, run.peak_bytes, said)


def _checked(case: Case, run: ProcessRun) -> ProcessRun:
    if run.status:
        raise SystemExit(f"{case.name}: {failure_reason(run)}")
    return run


def spread(values: Sequence[float]) -> str:
    """Median and extremes; one value alone as it is."""
    text = f"{median(values):.4f}"
    return text if len(values) == 1 else f"{text} ({min(values):.4f} to {max(values):.4f})"


def lines(case: Case, places: Places, seconds: int, seeds: Sequence[int]) -> Iterator[str]:
    """A line of the table for each figure of a row."""
    plain = converted(replace(case, ini=configured(case)), places)
    print(json.dumps({"row": case.name, **plain.figures}), flush=True)
    learnt = []
    for seed in seeds:
        ini = configured(case, learn_seconds=str(seconds), learn_seed=str(seed))
        found = converted(replace(case, name=f"{case.name}_{seed}", ini=ini), places)
        learnt.append(found)
        took = {"processor_seconds": round(found.seconds), "MiB": found.peak >> 20, "said": found.said}
        print(json.dumps({"row": case.name, "seed": seed, **found.figures, **took}), flush=True)
    for key, title in FIGURES.items():
        if key in plain.figures:
            values = [found.figures[key] for found in learnt]
            yield f"| {case.title} | {title} | {plain.figures[key]:.4f} | {spread(values)} |"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path)
    parser.add_argument("rows", nargs="*", help="names of rows; all without")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--learn-seconds", type=int, default=300)
    parser.add_argument("--work", type=Path, default=Path("learned"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    places = Places(ROOT, options.shared.resolve(), options.work.resolve(), ROOT / ".runtimes")
    table = ["| row | figure | not learnt | learnt: median (extremes) |", "|---|---|---|---|"]
    for case in ROWS:
        if not options.rows or case.name in options.rows:
            table += lines(case, places, options.learn_seconds, range(options.seeds))
    print("\n".join(table))


if __name__ == "__main__":
    main()
