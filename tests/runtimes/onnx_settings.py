"""A setting crossed with a model, written as ONNX and run by somebody else beside the exact result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from tests.cli.workshop import SUCCESS, Config, command, ini, write_bins
from tests.runtimes.ov_runtime import Arrays, Case
from tests.runtimes.parts import run_exactly
from tests.runtimes.settings_networks import MODELS
from tests.runtimes.test_settings import FLAGS
from tests.support import build_proto, normal


@dataclass(frozen=True)
class Results:
    """What a runtime makes of a file, what the file says, and what the float model says."""

    found: NDArray[Any]
    exact: NDArray[Any]
    wanted: NDArray[Any]


def results(
    model: str, config: Config, run_cases: Callable[[Sequence[Case], Path], list[list[Arrays]]], folder: Path
) -> Results:
    """Convert one of ``MODELS`` in the working directory ``folder``, and run the file."""
    graph, opset, shape, constants = MODELS[model]
    plain, feed = build_proto(graph, opset=opset, **constants), {"x": normal(*shape, seed=77)}
    onnx.save(plain, "model.onnx")
    write_bins(folder / "bins", 16, shape if len(shape) < 4 else (1, *shape[2:], shape[1]))
    Path("quant.cfg").write_text(ini(config), encoding="utf-8")
    outcome = command(*FLAGS, "--saveType=ONNX")
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    written = onnx.load("out.onnx")
    ((found,),) = run_cases([Case(written, [feed])], folder)
    return Results(found["y"], run_exactly(written, feed)["y"], run_exactly(plain, feed)["y"])
