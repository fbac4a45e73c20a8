"""Results as a page: ``python -m bench.zoo.page FOLDER`` writes ``bench/ZOO.md``."""

from __future__ import annotations

import argparse
import os
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from bench.machine import machine_lines
from bench.programs import Places
from bench.tables import ABSENT, markdown_table
from bench.zoo.cases import CASES, FORMATS, PEERS, SETTINGS, Case
from bench.zoo.running import ROOT, Made, Result, networks, results

MIB = 1 << 20

WORSE_BY, SLOWER = 0.002, 0.95
"""Cosine below onnxruntime's, and speed against float, from which a network is listed."""

SPEEDS = ("speed", "without")
"""Columns: with what the processor has, and without VNNI."""

MANY = 12
"""Networks with the same reason from which they are counted, not named."""

PEER_OF = {
    "full.onnx": "ort_static",
    "dynamic.onnx": "ort_dynamic",
    "weight8.onnx": "nearest_8",
    "weight4.onnx": "nearest_4",
}
"""Case -> what it is compared with: onnxruntime's quantizer that does the same, or plain rounding."""

HOW = """\
Networks of torchvision, timm and transformers (few layers, small pictures) and some made here, with random weights and
statistics of batch normalizations from samples. *Form*: the exporter (`trace`: PyTorch's older one, `dynamo`: the present
one), the operator set, weights in a file of their own, float16. Full quantization is calibrated with 8 samples; cosines are
the mean over 4 others of the least of any output, *exact* in arithmetic that no kernel saturates, *native* as onnxruntime
computes here; *nearest* are weights rounded to nearest, each channel between its extremes. *Centred* (exact) is after the mean
of the float model's outputs over the samples is taken away: a network that was not trained says nearly the same to every sample.
For `.ms` and `.nb` it is the cosine of the proof, which is on random inputs where there are no samples. *Speed*: processor time
of the float model divided by that of the file, one thread, in turns; *without* VNNI, by an onnxruntime that is told of none.
*Size* is that of the file divided by the float model's. A dash: not run yet, or no such figure. *Seconds* are processor time of
the whole command, *MiB* its peak memory.
"""

Found = Mapping[tuple[str, str], Result]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/ZOO.md")
    options = parser.parse_args()
    found = results(options.folder / "results.jsonl")
    made = list(networks(options.folder, []))
    machine = machine_lines(Places(ROOT, options.folder, options.folder, ROOT / ".runtimes"))
    commits = ", ".join(sorted({result["commit"] for result in found.values()}))
    head = ["# The zoo\n", "Made by `make zoo`; not edited by hand.\n", *machine[:3], f"- commits: {commits}"]
    head.append(f"- load average when the page was made: {os.getloadavg()[0]:.1f}\n\n{HOW}")
    parts = [summary(made, found), *families(made, found), *lists(found)]
    options.output.write_text("\n".join([*head, *parts]), encoding="utf-8")
    print(f"written: {options.output}")


def summary(made: list[Made], found: Found) -> str:
    """A line per case."""
    rows = []
    for case in CASES:
        own = [result for made_ in made if (result := found.get((made_.folder.name, case.name)))]
        if own:
            verdicts = Counter(result["verdict"] for result in own)
            counts = [str(verdicts[verdict]) for verdict in ("ok", "refused", "defect")]
            rows.append([case.name, str(len(own)), *counts, *_medians(own)])
    header = ("case", "tried", "ok", "refused", "defect", "cosine", "centred", *SPEEDS, "size", "seconds", "MiB")
    return f"{len(made)} networks. Figures are medians.\n\n" + markdown_table(header, rows)


def _medians(own: list[Result]) -> list[str]:
    columns = zip(*(_figures(result) for result in own if result["verdict"] == "ok"), strict=True)
    known = [[value for value in values if value is not None] for values in columns]
    formats = ("{:.5f}", "{:.4f}", "{:.2f}", "{:.2f}", "{:.2f}", "{:.1f}", "{:.0f}")
    return [
        text.format(statistics.median(values)) if values else ABSENT
        for text, values in zip(formats, known or [[]] * len(formats), strict=True)
    ]


def _figures(result: Result) -> tuple[float | None, ...]:
    """Cosine, centred cosine, speed, speed without VNNI, size, seconds, MiB."""
    size = result["bytes"] / result["float_bytes"] if "bytes" in result else None
    cosine = result.get("exact", result.get("proof"))
    peak = result["peak"] / MIB
    speeds = result.get("speedup"), result.get("speedup_without")
    return cosine, result.get("exact_centred"), *speeds, size, result["processor_seconds"], peak


def families(made: list[Made], found: Found) -> Iterator[str]:
    """Tables of each family: what became of every case, and the figures of those that have any."""
    for family in dict.fromkeys(one.about["family"] for one in made):
        own = [one for one in made if one.about["family"] == family]
        yield f"## {family[0].upper()}{family[1:]}\n"
        modes = [
            mode for mode in SETTINGS if any((o.folder.name, f"{mode}.{s}") in found for o in own for s in FORMATS)
        ]
        rows = [[one.folder.name, one.about["form"], *(_told(one, mode, found) for mode in modes)] for one in own]
        yield markdown_table(("network", "form", *(f"{mode}: {', '.join(FORMATS)}" for mode in modes)), rows)
        figures = [_row(one, case, found) for one in own for case in CASES if _has_figures(one, case, found)]
        header = ("network", "case", "exact", "native", "centred", *SPEEDS, "size", "seconds", "MiB")
        yield markdown_table(header, figures)


def _told(one: Made, mode: str, found: Found) -> str:
    told = (found.get((one.folder.name, f"{mode}.{suffix}"), {}).get("verdict", ABSENT) for suffix in FORMATS)
    return ", ".join(told)


def _has_figures(one: Made, case: Case, found: Found) -> bool:
    result = found.get((one.folder.name, case.name))
    return result is not None and result["verdict"] == "ok" and case.mode != "float"


def _row(one: Made, case: Case, found: Found) -> list[str]:
    result = found[one.folder.name, case.name]
    cosine, *others = _figures(result)
    texts = zip(
        ("{:.5f}", "{:.5f}", "{:.4f}", "{:.2f}", "{:.2f}", "{:.2f}", "{:.1f}", "{:.0f}"),
        (cosine, result.get("native"), *others),
        strict=True,
    )
    return [one.folder.name, case.name, *(ABSENT if value is None else text.format(value) for text, value in texts)]


def lists(found: Found) -> Iterator[str]:
    """What was refused and why, defects, and where a file is worse than it should be."""
    ours = {key: result for key, result in found.items() if key[1] not in PEERS}
    for verdict, title in (("defect", "Defects"), ("refused", "Refused")):
        yield _list(title, _by_reason({key: result for key, result in ours.items() if result["verdict"] == verdict}))
    compared = sum((network, PEER_OF.get(case, "")) in found for network, case in found)
    yield _list(
        f"Cosine lower than that of onnxruntime or of plain rounding by more than {WORSE_BY}, of {compared} compared",
        _worse(found),
    )
    for title, key in (("Slower than float", "speedup"), ("Slower than float without VNNI", "speedup_without")):
        lines = (f"{n}, {c}: {r[key]:.2f}" for (n, c), r in ours.items() if (r.get(key) or 1) < SLOWER)
        yield _list(title, lines)
    lines = (f"{n}, {c}: {r['bytes']:,} against {r['float_bytes']:,}" for (n, c), r in ours.items() if _grows(r))
    yield _list("Larger than the float model", lines)


def _by_reason(found: Found) -> Iterator[str]:
    """A line per network and case, or per case and reason where many networks have it."""
    names: dict[tuple[str, str], list[str]] = {}
    for (network, case), result in found.items():
        names.setdefault((case, _reason(result)), []).append(network)
    for (case, reason), networks_ in names.items():
        who = networks_ if len(networks_) <= MANY else [f"{len(networks_)} networks"]
        yield from (f"{one}, {case}: {reason}" for one in who)


def _reason(result: Result) -> str:
    """The error, and the first node that it names."""
    lines = [line.strip() for line in result.get("output", "").splitlines()]
    named = [after for line, after in pairwise(lines) if line.startswith("ERROR")]
    return f"{result['why'].rstrip(':')}: {named[0]}" if named else str(result["why"])


def _grows(result: Result) -> bool:
    return bool(result.get("bytes", 0) > result["float_bytes"] and result["verdict"] == "ok")


def _worse(found: Found) -> Iterator[str]:
    for (network, case), result in found.items():
        peer = found.get((network, PEER_OF.get(case, "")), {})
        if "exact" in peer and "exact" in result and result["exact"] < peer["exact"] - WORSE_BY:
            yield f"{network}, {case}: {result['exact']:.5f} against {peer['exact']:.5f}"


def _list(title: str, lines: Iterable[str]) -> str:
    found = sorted(lines)
    return f"## {title}\n\n" + ("".join(f"- {line}\n" for line in found) if found else "None.\n")


if __name__ == "__main__":
    main()
