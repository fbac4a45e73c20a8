"""Processor time of a conversion against nodes and samples: ``python -m bench.scaling``. Writes ``bench/SCALING.md``."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
Chains of equal groups of nodes: Conv and Relu (4 channels, 8 x 8), or MatMul, Add and Tanh (8 x 16). Seconds of processor time of
the whole command, one thread. *Growth* is the time per node (per sample) of the last size, divided by that of the first: 1 is
linear, the ratio of the sizes would be quadratic. The bars show milliseconds per node (per sample): equal bars are linear.
"""

WIDTH = 50
"""Characters of the longest bar."""


def chain(kind: str, nodes: int) -> onnx.ModelProto:
    """A model of about so many nodes in a row."""
    rng = np.random.default_rng(0)
    made, constants, name = [], [], "x"
    shape, step = ([1, 4, 8, 8], 2) if kind == "Conv" else ([1, 8, 16], 3)
    for index in range(nodes // step):
        weight, bias = f"w{index}", f"b{index}"
        size = (4, 4, 3, 3) if kind == "Conv" else (16, 16)
        constants.append(numpy_helper.from_array((rng.standard_normal(size) * 0.25).astype(np.float32), weight))
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
        size = 256 if kind == "Conv" else 128
        rng.standard_normal(size).astype(np.float32).tofile(data / f"{index}.bin")
    path = folder / "full.cfg"
    path.write_text(
        "[common_quant_param]\nquant_type=FULL_QUANT\n[data_preprocess_param]\n"
        f"calibrate_path=x:{data}\ncalibrate_size={samples}\ninput_type=BIN\n",
        encoding="utf-8",
    )
    return path


def rows(folder: Path, sizes: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """A line per chain and kind of conversion."""
    for kind in ("Conv", "MatMul"):
        for samples in (0, CALIBRATION):
            found = []
            for nodes in sizes:
                found.append(seconds(folder, kind, nodes, samples=samples))
                print(f"{kind}, {nodes} nodes, {samples} samples: {found[-1]:.1f} s", flush=True)
            yield _row(f"{kind}, {'FULL_QUANT' if samples else 'float'}", sizes, found)


def plot(rows: list[tuple[str, ...]], sizes: tuple[int, ...], unit: str) -> str:
    """Milliseconds per node or sample of the rows of a table, as bars of text."""
    lines = []
    for name, *times, _ in rows:
        each = [float(time) * 1000 / size for time, size in zip(times, sizes, strict=True)]
        lines.append(f"{name}, ms per {unit}")
        for size, value in zip(sizes, each, strict=True):
            lines.append(f"{size:>8,} {'#' * max(round(value / max(each) * WIDTH), 1)} {value:.1f}")
    return "\n".join(["```text", *lines, "```", ""])


def _row(name: str, sizes: tuple[int, ...], found: list[float]) -> tuple[str, ...]:
    growth = (found[-1] / sizes[-1]) / (found[0] / sizes[0])
    return (name, *(f"{value:.1f}" for value in found), f"{growth:.2f}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/SCALING.md", help="the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_scaling_") as name:
        folder = Path(name)
        machine = machine_lines(Places(ROOT, folder, folder, ROOT / ".runtimes"))
        by_nodes = list(rows(folder, NODES))
        found = [seconds(folder, "Conv", SAMPLE_NODES, samples=count) for count in SAMPLES]
        load = f"- load average when the run ended: {os.getloadavg()[0]:.1f}"
    by_samples = [_row(f"Conv, FULL_QUANT, {SAMPLE_NODES} nodes", SAMPLES, found)]
    tables = [
        markdown_table(("nodes", *(f"{size:,}" for size in NODES), "growth"), by_nodes),
        plot(by_nodes, NODES, "node"),
        markdown_table(("samples", *map(str, SAMPLES), "growth"), by_samples),
        plot(by_samples, SAMPLES, "sample"),
    ]
    head = ["# Time against nodes and samples\n", "Made by `make bench-scaling`; not edited by hand.\n"]
    options.output.write_text("\n".join([*head, *machine, load, f"\n{HOW}", *tables]), encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
