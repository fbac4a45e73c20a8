"""A setting crossed with a model, written as ONNX and run by somebody else beside the exact result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from tests.cli.workshop import SUCCESS, Config, command, ini, write_bins
from tests.runtimes.conftest import Tally
from tests.runtimes.ov_runtime import Arrays, Case
from tests.runtimes.parts import cosine, run_exactly
from tests.runtimes.test_settings import FLAGS, MODELS
from tests.support import build_proto, normal

LOST = 0.001
"""What the cosine with the float model may fall below that of the exact result: sums in another order move integers."""


@dataclass(frozen=True)
class Judge:
    """A runtime: what the table at the end calls it, and what runs files in it."""

    name: str
    run_cases: Callable[[Sequence[Case], Path], list[list[Arrays]]]

    def __call__(self, model: str, config: Config, tally: Tally, folder: Path) -> None:
        """Convert one of ``MODELS`` in the working directory ``folder``, and see what the runtime makes of it."""
        graph, opset, shape, constants = MODELS[model]
        plain, feed = build_proto(graph, opset=opset, **constants), {"x": normal(*shape, seed=77)}
        onnx.save(plain, "model.onnx")
        write_bins(folder / "bins", 16, shape if len(shape) < 4 else (1, *shape[2:], shape[1]))
        Path("quant.cfg").write_text(ini(config), encoding="utf-8")
        outcome = command(*FLAGS, "--saveType=ONNX")
        assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
        tally(self.name, "settings of whole conversions")
        written = onnx.load("out.onnx")
        ((found,),) = self.run_cases([Case(written, [feed])], folder)
        wanted = run_exactly(plain, feed)["y"]
        assert cosine(found["y"], wanted) >= cosine(run_exactly(written, feed)["y"], wanted) - LOST
