"""The time of a written file beside the float model. No test depends on real time: the clock is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter_lite.pipeline.prove import _is_of_floats
from converter_lite.pipeline.speed import LEAST_ROUNDS, ROUNDS, Speed, compare_speed, slow_kinds
from converter_lite.runtime.engine import KernelRun
from tests.cli.workshop import FULL, WEIGHT, Workshop
from tests.support import build


class Timed:
    """A session whose runs take given times on a clock that it moves."""

    def __init__(self, clock: list[float], times: list[float]) -> None:
        self.output_names: list[str] = []
        self.runs = 0
        self._clock, self._times = clock, times

    def run(self, feed: Any) -> dict[str, Any]:
        del feed
        self._clock[0] += self._times[min(self.runs, len(self._times) - 1)]
        self.runs += 1
        return {}


def compared(reference: list[float], file: list[float], *, until_clear: bool = False) -> tuple[Speed, Timed]:
    clock = [0.0]
    first, second = Timed(clock, reference), Timed(clock, file)
    speed = compare_speed(first, second, ({}, {}), until_clear=until_clear, clock=lambda: clock[0])
    assert first.runs == second.runs
    return speed, first


def test_the_median_counts_and_the_first_run_does_not() -> None:
    speed, session = compared([9.0e-3, 4e-3, 4e-3, 7e-3, 4e-3], [5.0e-3, 2e-3])
    assert (round(speed.float_ms, 6), round(speed.file_ms, 6), round(speed.speedup, 6)) == (4, 2, 2)
    assert session.runs == ROUNDS + 1


def test_slow_models_run_a_few_times_only() -> None:
    _, session = compared([1.0], [2.0])
    assert session.runs == LEAST_ROUNDS + 1


def test_no_more_runs_than_it_takes_to_see_which_one_is_faster() -> None:
    _, clear = compared([8e-3], [3e-3], until_clear=True)
    assert clear.runs == LEAST_ROUNDS + 1
    _, asked = compared([8e-3], [3e-3])
    assert asked.runs == ROUNDS + 1
    _, close = compared([8e-3, 8e-3, 3e-3, 8e-3], [3e-3], until_clear=True)
    assert close.runs == ROUNDS + 1, "one run that was as fast as the other model's: not clear"
    _, short = compared([8e-5], [3e-5], until_clear=True)
    assert short.runs == ROUNDS + 1, "too short to tell from the calls themselves"


@pytest.mark.parametrize(
    ("before", "after", "slower"), [(4, 5, True), (4, 4.1, False), (4, 2, False), (0.1, 0.5, False)]
)
def test_a_file_is_slower_if_that_is_more_than_chance(before: float, after: float, slower: bool) -> None:
    assert Speed(before, after).is_slower == slower


def kernel(node: str, kind: str, microseconds: int) -> KernelRun:
    return KernelRun(node, kind, (), (), microseconds)


def test_the_kinds_of_kernels_that_cost_time_are_named_with_their_slowest_nodes() -> None:
    reference = [kernel("a", "Conv", 500), kernel("b", "Sigmoid", 20)]
    file = [kernel("a", "QLinearConv", 200), kernel("b1", "QuantizeLinear", 30), kernel("b2", "QuantizeLinear", 90)]
    file += [kernel("b3", "QuantizeLinear", 10), kernel("b", "Sigmoid", 10)]
    said = slow_kinds(reference, file)
    assert said == "QLinearConv +0.20 ms (a); QuantizeLinear +0.13 ms (b2, b1, ...)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Relu(x)", True),
        ("q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)", False),
        ("y = com.microsoft.Gelu(x)", False),
    ],
)
def test_only_a_model_of_floats_is_timed_in_the_session_of_the_proof(body: str, expected: bool) -> None:
    model = build(f"g (float[2,3] x) => (float[2,3] y) {{ {body} }}", s=np.float32(0.1), z=np.uint8(128))
    assert _is_of_floats(model) is expected


def test_the_result_says_how_fast_the_file_is(workshop: Workshop) -> None:
    outcome = workshop.succeed("--json=r.json", config=FULL)
    speed = json.loads(Path("r.json").read_text())["artefacts"][0]["speed"]
    assert set(speed) == {"float_ms", "file_ms", "speedup"}
    assert min(speed.values()) > 0
    assert "times as fast as the float model" in outcome.out
    assert "times as fast" not in workshop.succeed().out


def test_a_slower_file_is_a_warning_that_names_kernels(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("converter_lite.pipeline.prove.compare_speed", lambda *_, **__: Speed(2, 3))
    outcome = workshop.succeed(config=FULL)
    assert "ONNX: 3 ms a sample, slower than the float model (2 ms): " in outcome.err
    assert " ms (" in outcome.err.partition("slower than the float model (2 ms): ")[2]


def test_a_file_for_another_device_is_timed_here_only_for_a_gate(workshop: Workshop) -> None:
    config = {**FULL, "full_quant_param": {"target_device": "KIRIN"}}
    assert "times as fast" not in workshop.succeed(config=config).out
    assert "times as fast" in workshop.succeed("--minSpeedup=0.001", config=config).out


def test_a_gate_for_the_speed_refuses_the_file_and_leaves_nothing(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("converter_lite.pipeline.prove.compare_speed", lambda *_, **__: Speed(3, 2))
    workshop.succeed("--minSpeedup=1.5", config=WEIGHT, output="fast")
    before = workshop.content()
    outcome = workshop.convert("--minSpeedup=1.6", "--json=r.json", config=WEIGHT, output="slow")
    assert outcome.status == 1
    assert "1.50000 times as fast as the float model, less than the gate 1.6" in outcome.err
    assert json.loads(Path("r.json").read_text())["speed"] == {"float_ms": 3, "file_ms": 2, "speedup": 1.5}
    assert {name for name in workshop.content() if name not in before} <= {"r.json", "quant.cfg"}


@pytest.mark.parametrize("text", ["0", "-1", "fast", "inf", "nan"])
def test_other_words_than_a_ratio_are_refused(workshop: Workshop, text: str) -> None:
    outcome = workshop.convert(f"--minSpeedup={text}", config=WEIGHT)
    assert (outcome.status, "--minSpeedup" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("flag", "why"), [("--saveType=NAIVE_BUFFER", "does not name ONNX"), ("--dryRun", "a dry run")]
)
def test_the_gate_says_where_it_has_no_effect(workshop: Workshop, flag: str, why: str) -> None:
    outcome = workshop.succeed("--minSpeedup=2", flag, config=WEIGHT)
    assert "--minSpeedup=2.0 has no effect" in outcome.out + outcome.err
    assert why in outcome.out + outcome.err
