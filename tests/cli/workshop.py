"""A folder with a small model, data and configurations, and the command to use them with."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from PIL import Image

from converter_lite.cli.converter_lite import cli
from tests.support import build_proto, normal

ROOT = Path(__file__).resolve().parents[2]

SUCCESS = "CONVERT RESULT SUCCESS:0"

FULL = {
    "common_quant_param": {"quant_type": "FULL_QUANT"},
    "data_preprocess_param": {"calibrate_path": "x:bins", "calibrate_size": "4", "input_type": "BIN"},
}
WEIGHT = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "min_quant_weight_channel": "0"}}
DYNAMIC = {"common_quant_param": {"quant_type": "DYNAMIC_QUANT"}}

GRAPH = """
g (float[N,3,8,8] x) => (float[N,5] y) {
    conv_out = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv)
    relu_out = Relu(conv_out)
    pooled = GlobalAveragePool(relu_out)
    flat = Flatten(pooled)
    y = Gemm<transB = 1>(flat, w_fc, b_fc)
}
"""

Config = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Results, and warnings or errors."""
        return self.out + self.err

    @property
    def errors(self) -> str:
        """What is said on standard error and is no warning."""
        return "".join(line for line in self.err.splitlines(keepends=True) if not line.startswith("WARNING "))

    @property
    def last_line(self) -> str:
        return self.out.splitlines()[-1] if self.out else ""


def command(*arguments: str, program: click.Command = cli) -> Outcome:
    """A command in this process. It always ends with an exit status, never with another exception."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        program.main(list(arguments))
    assert isinstance(ended.value.code, int)
    outcome = Outcome(ended.value.code, out.getvalue(), err.getvalue())
    assert "Traceback" not in outcome.err + outcome.out
    return outcome


def environment(**variables: str) -> dict[str, str]:
    """Variables of a child process that finds the package."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}


def child(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``python -m converter_lite`` in a process of its own."""
    line = [sys.executable, "-m", "converter_lite", *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=environment(**variables), timeout=120, check=False)


def ini(config: Config) -> str:
    """An INI file."""
    sections = (
        f"[{name}]\n" + "".join(f"{key}={text}\n" for key, text in keys.items()) for name, keys in config.items()
    )
    return "\n".join(sections)


def changed(config: Config, **sections: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The configuration with other or more keys."""
    merged = {name: dict(keys) for name, keys in config.items()}
    for name, keys in sections.items():
        merged.setdefault(name, {}).update(keys)
    return merged


def model_proto(graph: str = GRAPH, **constants: np.ndarray) -> onnx.ModelProto:
    """The small network, nodes named after their outputs."""
    weights = {"w_conv": normal(20, 3, 3, 3), "b_conv": normal(20), "w_fc": normal(5, 20), "b_fc": normal(5)}
    proto = build_proto(graph, **{name: array for name, array in {**weights, **constants}.items() if name in graph})
    for node in proto.graph.node:
        node.name = f"node_{node.output[0]}"
    return proto


def write_bins(folder: Path, count: int, shape: Sequence[int], *, seed: int = 0, dtype: str = "float32") -> None:
    """``count`` files of random numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for index in range(count):
        rng.normal(size=shape).astype(dtype).tofile(folder / f"{index:03}.bin")


def write_pictures(folder: Path, count: int, *, width: int = 8, height: int = 8) -> None:
    """``count`` colour noise pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for index in range(count):
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:03}.png")


class Workshop:
    """The working directory of a test: ``model.onnx``, ``bins/`` with four samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = folder / "model.onnx"
        onnx.save(model_proto(), self.model)
        write_bins(folder / "bins", 4, (1, 8, 8, 3))

    def convert(
        self, *flags: str, config: Config | str | None = None, model: str = "model.onnx", output: str = "out"
    ) -> Outcome:
        """Run the command on the model; ``config`` is written to ``quant.cfg``. ONNX is written unless a flag says more."""
        required = ["--fmk=ONNX", f"--modelFile={model}", f"--outputFile={output}"]
        if not any(flag.startswith("--saveType") for flag in flags):
            required.append("--saveType=ONNX")
        if config is not None:
            (self.folder / "quant.cfg").write_text(config if isinstance(config, str) else ini(config), encoding="utf-8")
            required.append("--configFile=quant.cfg")
        return command(*required, *flags)

    def succeed(
        self, *flags: str, config: Config | str | None = None, model: str = "model.onnx", output: str = "out"
    ) -> Outcome:
        """:meth:`convert` that has to work."""
        outcome = self.convert(*flags, config=config, model=model, output=output)
        assert (outcome.status, outcome.last_line, outcome.errors) == (0, SUCCESS, ""), outcome
        return outcome

    def fail(
        self,
        status: int,
        *flags: str,
        config: Config | str | None = None,
        model: str = "model.onnx",
        output: str = "out",
    ) -> str:
        """:meth:`convert` that has to fail with this status, and to leave nothing new; returns the message."""
        before = self.content()
        outcome = self.convert(*flags, config=config, model=model, output=output)
        assert (outcome.status, outcome.last_line) == (status, f"CONVERT RESULT FAILED:{status}"), outcome
        assert outcome.errors.startswith("ERROR "), outcome
        assert {**self.content(), "quant.cfg": b""} == {**before, "quant.cfg": b""}
        return outcome.err

    def content(self) -> dict[str, bytes | None]:
        """Every file with its bytes, every folder with ``None``."""
        found = sorted(self.folder.rglob("*"))
        return {str(p.relative_to(self.folder)): p.read_bytes() if p.is_file() else None for p in found}


def full_quant_of_pictures(name: str, size: int, order: str) -> Path:
    """A configuration in this folder for full quantization, with a folder of pictures for the input ``name``."""
    write_pictures(Path("pictures"), 8, width=size, height=size)
    data = {
        "calibrate_path": f"{name}:pictures",
        "calibrate_size": "8",
        "input_type": "IMAGE",
        "image_to_format": order,
    }
    data |= {"normalize_mean": "[127, 127, 127]", "normalize_std": "[64, 64, 64]"}
    path = Path("quant.cfg")
    path.write_text(ini({**FULL, "data_preprocess_param": data}), encoding="utf-8")
    return path
