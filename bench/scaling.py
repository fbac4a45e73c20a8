"""Processor time of a conversion against nodes and samples: ``python -m bench.scaling``. Writes ``bench/SCALING.md``."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.machine import machine_lines
from bench.programs import Places
from bench.tables import markdown_table

ROOT = Path(__file__).resolve().parents[1]

NODES = (500, 1_000, 2_000, 4_000, 10_000)
SAMPLES = (8, 32, 128)
CALIBRATION, SAMPLE_NODES = 4, 500
"""Samples of the chains with many nodes; nodes of the chain with many samples."""

HOW = """\
Chains of equal groups of nodes: Conv and Relu (16 channels, 16 x 16), or MatMul, Add and Tanh (8 x 16, whose integers are
for ARM: on this kind of processor floats are faster). Seconds of processor time of
the whole command, one thread. *Growth* is the time per node (per sample) of the last size, divided by that of the first: 1 is
linear, the ratio of the sizes would be quadratic. The bars show milliseconds per node (per sample): equal bars are linear.
The goal, 10 s for 10,000 nodes, is reached in float only ([where the time goes](../docs/decisions/0032-long-graphs.md)).
"""

WIDTH = 50
"""Characters of the longest bar."""


def chain(kind: str, nodes: int) -> onnx.ModelProto:
    """A model of about so many nodes in a row."""
    rng = np.random.default_rng(0)
    made, constants, name = [], [], "x"
    shape, step = ([1, 16, 16, 16], 2) if kind == "Conv" else ([1, 8, 16], 3)
    for index in range(nodes // step):
        weight, bias = f"w{index}", f"b{index}"
        size, spread = ((16, 16, 3, 3), 0.118) if kind == "Conv" else ((16, 16), 0.25)
        constants.append(numpy_helper.from_array((rng.standard_normal(size) * spread).astype(np.float32), weight))
        if kind == "Conv":
            made.append(helper.make_node("Conv", [name, weight], [f"c{index}"], f"conv{index}", pads=[1, 1, 1, 1]))
            made.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"], f"relu{index}"))
        else:
            constants.append(numpy_helper.from_array(rng.standard_normal(16).astype(np.float32), bias))
            made.append(helper.make_node("MatMul", [name, weight], [f"c{index}"], f"product{index}"))
            made.append(helper.make_node("Add", [f"c{index}", bias], [f"d{index}"], f"sum{index}"))
            made.append(helper.make_node("Tanh", [f"d{index}"], [f"r{index}"], f"tanh{index}"))
        name = f"r{index}"
    interface = [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, shape) for value in ("x", name)]
    graph = helper.make_graph(made, "chain", interface[:1], interface[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def seconds(folder: Path, kind: str, nodes: int, *, samples: int) -> float:
    """Processor time of a conversion; without samples in float."""
    onnx.save(chain(kind, nodes), folder / "model.onnx")
    line = [sys.executable, "-m", "converter_lite", "--fmk=ONNX", "--saveType=ONNX", "--threads=1", "--minCosine=0"]
    line += ["--quiet", f"--modelFile={folder / 'model.onnx'}", f"--outputFile={folder / 'out'}"]
    if samples:
        line.append(f"--configFile={_configuration(folder, kind, samples)}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _configuration(folder: Path, kind: str, samples: int) -> Path:
    data = folder / f"{kind}_{samples}"
    data.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    for index in range(samples):
        size = 4096 if kind == "Conv" else 128
        rng.standard_normal(size).astype(np.float32).tofile(data / f"{index}.bin")
    path = folder / "full.cfg"
    path.write_text(
        "[common_quant_param]\nquant_type=FULL_QUANT\n[full_quant_param]\n"
        f"target_device={'CPU' if kind == 'Conv' else 'ARM'}\n[data_preprocess_param]\n"
        f"calibrate_path=x:{data}\ncalibrate_size={samples}\ninput_type=BIN\n",
        encoding="utf-8",
    )
    return path


Measured = Mapping[str, Mapping[int, float]]
"""What was converted -> nodes or samples -> seconds."""


def measure(folder: Path, sizes: Sequence[int]) -> Iterator[tuple[str, int, float]]:
    """Chains of both kinds, in float and with integers: the name of a row, nodes and seconds."""
    for kind in ("Conv", "MatMul"):
        for samples in (0, CALIBRATION):
            for nodes in sizes:
                taken = seconds(folder, kind, nodes, samples=samples)
                yield f"{kind}, {'FULL_QUANT' if samples else 'float'}", nodes, taken


def table(measured: Measured, unit: str) -> str:
    """Seconds and growth; a size that a row lacks was not measured."""
    sizes = sorted({size for row in measured.values() for size in row})
    lines = []
    for name, row in measured.items():
        growth = (row[max(row)] / max(row)) / (row[min(row)] / min(row))
        lines.append((name, *(f"{row[size]:.1f}" if size in row else "" for size in sizes), f"{growth:.2f}"))
    return markdown_table((unit, *(f"{size:,}" for size in sizes), "growth"), lines)


def plot(measured: Measured, unit: str) -> str:
    """Milliseconds per node or sample, as bars of text."""
    lines = []
    for name, row in measured.items():
        each = {size: seconds * 1000 / size for size, seconds in row.items()}
        lines.append(f"{name}, ms per {unit}")
        for size, value in each.items():
            lines.append(f"{size:>8,} {'#' * max(round(value / max(each.values()) * WIDTH), 1)} {value:.1f}")
    return "\n".join(["```text", *lines, "```", ""])


def page(machine: Sequence[str], by_nodes: Measured, by_samples: Measured) -> str:
    """The report."""
    head = ["# Time against nodes and samples\n", "Made by `make bench-scaling`; not edited by hand.\n"]
    parts = [table(by_nodes, "nodes"), plot(by_nodes, "node"), table(by_samples, "samples"), plot(by_samples, "sample")]
    return "\n".join([*head, *machine, f"\n{HOW}", *parts])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/SCALING.md", help="the report")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="lengths of the chains")
    options = parser.parse_args()
    by_nodes: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench_scaling_") as name:
        folder = Path(name)
        machine = machine_lines(Places(ROOT, folder, folder, ROOT / ".runtimes"))
        for row, nodes, taken in measure(folder, options.nodes):
            print(f"{row}, {nodes:,} nodes: {taken:.1f} s", flush=True)
            by_nodes.setdefault(row, {})[nodes] = taken
        found = {count: seconds(folder, "Conv", SAMPLE_NODES, samples=count) for count in SAMPLES}
        load = f"- load average when the run ended: {os.getloadavg()[0]:.1f}"
    by_samples = {f"Conv, FULL_QUANT, {SAMPLE_NODES} nodes": found}
    options.output.write_text(page([*machine, load], by_nodes, by_samples), encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
