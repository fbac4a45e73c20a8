"""Cases, results and the page of the zoo; its networks need PyTorch and are made by ``make zoo``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.process import ProcessRun
from bench.zoo import judging, page
from bench.zoo.cases import CASES, Case
from bench.zoo.running import _verdict, chosen, networks, results, run
from tests.support import build_proto, normal


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A folder with one small network."""
    folder = tmp_path / "small"
    folder.mkdir()
    proto = build_proto("g (float[N,8] x) => (float[N,4] y) { p = MatMul(x, w) y = Relu(p) }", w=normal(8, 4))
    onnx.save(proto, folder / "model.onnx")
    np.savez(folder / "samples.npz", **{f"{index}/x": normal(1, 8, seed=index) for index in range(12)})
    about = {"name": "small", "family": "tables", "form": "trace 13", "shapes": {"x": [1, 8]}, "open": True}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
    return tmp_path


def test_patterns_choose_cases() -> None:
    assert [case.name for case in chosen(["full.*", "ort_dynamic"])] == [
        "full.onnx",
        "full.ms",
        "full.nb",
        "ort_dynamic",
    ]
    assert len({case.name for case in chosen([])}) == len(CASES)


def test_a_conversion_is_measured_and_judged_and_shown(zoo: Path) -> None:
    (made,) = networks(zoo, [])
    result = run(made, Case("full"))
    assert result["verdict"] == "ok", result
    assert result["exact"] > 0.99
    assert result["speedup"] > 0
    (zoo / "results.jsonl").write_text(json.dumps(result) + "\n", encoding="utf-8")
    found = results(zoo / "results.jsonl")
    text = "\n".join([page.summary([made], found), *page.families([made], found), *page.lists(found)])
    assert "| full.onnx | 1 | 1 | 0 | 0 |" in text
    assert "## Defects\n\nNone." in text


@pytest.mark.parametrize(
    ("status", "output", "verdict"),
    [
        (1, "ERROR no", "refused"),
        (2, "ERROR no", "refused"),
        (3, "ERROR a defect", "defect"),
        (-9, "", "defect"),
        (1, "Traceback\nX: y", "defect"),
    ],
)
def test_only_a_told_refusal_is_one(status: int, output: str, verdict: str) -> None:
    assert _verdict({}, ProcessRun(status, 1.0, 1, output), Case("float"))["verdict"] == verdict


def test_outputs_are_compared_without_what_all_samples_share() -> None:
    common = np.full(4, 100.0, np.float32)
    reference = [[common + normal(4, seed=index)] for index in range(4)]
    other = [[common + normal(4, seed=9)] for _ in range(4)]
    assert judging.cosine(reference, other) > 0.999
    assert judging.cosine(*judging._centred(reference, other)) < 0.9
    assert judging.cosine(*judging._centred(reference, reference)) == pytest.approx(1)
