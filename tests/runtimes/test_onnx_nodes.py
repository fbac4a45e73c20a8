"""ONNX's own tests of single operators: what can be written runs in the released runtimes and gives onnxruntime's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import ConverterError
from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.format import NbFormat
from converter_lite.pipeline.prepare import optimized
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.onnx_nodes import Array, NodeCase, node_cases, problem
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_runtime import PLATFORMS, Platform
from tests.runtimes.paddle import Case, require, run_cases
from tests.runtimes.paddle_arm import ARM64, run_on_arm

pytestmark = pytest.mark.runtime

TIES = {f"test_argmax_{kind}_example" for kind in ("no_keepdims", "keepdims", "negative_axis_keepdims")}
"""Of equal elements Paddle-Lite 2.12 takes the last one (docs/formats/paddle_nb.md)."""

FED_INDICES = {
    "test_gather_negative_indices",
    "test_gather_elements_negative_indices",
    "test_scatter_elements_with_negative_indices",
}
"""Negative indices that come as an input: runtimes do not know them, and the converter does not see them."""

EDGES = {f"test_mod_float_edge_cases_fmod_0_float{bits}" for bits in (16, 32, 64)}
"""Remainders of infinite divisors, and zeros with a sign."""


def written(case: NodeCase, made: MsFormat | NbFormat, folder: Path) -> tuple[bytes, list[str]] | None:
    """The file and its inputs; ``None`` where the format refuses the operator."""
    path = folder / "node.onnx"
    path.write_bytes(case.model)
    try:
        source = read_onnx(path, input_shapes={name: array.shape for name, array in case.feed.items()})
        graph, _ = optimized(source, made.requirements)
        made.check(graph)
        out = folder / f"node{made.suffix}"
        made.write(QuantizedModel(graph, QuantPlan("FLOAT")), out)
    except ConverterError:
        return None
    return out.read_bytes(), [str(value.name) for value in graph.graph.inputs]


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_nodes_in_mindspore_lite(platform: Platform, tally: Tally, tmp_path: Path) -> None:
    platform.skip_if_missing()
    cases = {f"c{number}": case for number, case in enumerate(node_cases())}
    files = {key: made for key, case in cases.items() if (made := written(case, MsFormat(), tmp_path)) is not None}
    work = tmp_path / "run"
    work.mkdir()
    found = platform.run({key: (data, cases[key].feed) for key, (data, _) in files.items()}, work)
    wrong = {}
    for key in files:
        case, outcome = cases[key], found[key]
        texts = (
            [problem(outcome.outputs[name], array) for name, array in case.results.items()] if not outcome.error else []
        )
        if outcome.error or any(texts):
            wrong[case.name] = outcome.error or next(filter(None, texts))
    counts = {"tried": len(cases), "refused": len(cases) - len(files), "wrong": len(wrong)}
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "ONNX node tests", **counts)
    assert wrong.keys() <= FED_INDICES | EDGES, wrong
    assert len(files) > 780


@pytest.mark.parametrize("release", ["2.12", "2.13rc0"])
def test_nodes_in_paddle_lite(release: str, tally: Tally, tmp_path: Path) -> None:
    """Truth values cannot be fed or fetched in Python."""
    require(release)
    cases = [
        case
        for case in node_cases()
        if not any(array.dtype == bool for array in (*case.feed.values(), *case.results.values()))
    ]
    files = for_paddle(cases, "x86", tmp_path)
    work = tmp_path / "run"
    work.mkdir()
    found = run_cases(release, list(files.values()), work)
    wrong = wrong_results(cases, dict(zip(files, found, strict=True)))
    counts = {"tried": len(cases), "refused": len(cases) - len(files), "wrong": len(wrong)}
    tally(f"Paddle-Lite {release}, x86", "ONNX node tests", **counts)
    assert wrong.keys() <= FED_INDICES | TIES, wrong
    assert len(files) > 640


@pytest.mark.usefixtures("nb_arm")
def test_nodes_in_paddle_lite_on_arm(tally: Tally, tmp_path: Path) -> None:
    cases = node_cases()
    files = for_paddle(cases, "arm", tmp_path)
    found = {name: run_on_arm(case.data, case.inputs, tmp_path / name) for name, case in files.items()}
    wrong = wrong_results(cases, found)
    tally(ARM64, "ONNX node tests", tried=len(cases), refused=len(cases) - len(files), wrong=len(wrong))
    assert wrong.keys() <= FED_INDICES | TIES, wrong
    assert len(files) > 640


def for_paddle(cases: Iterable[NodeCase], target: str, folder: Path) -> dict[str, Case]:
    """Files of what is not refused, with their feeds as the library takes them."""
    made = {}
    for case in cases:
        file = written(case, NbFormat(target), folder)
        if file is None:
            continue
        data, names = file
        feed = [case.feed[name] for name in names]
        feed = [array.astype(np.float32) if array.dtype in (np.float16, np.float64) else array for array in feed]
        made[case.name] = Case(data, feed, len(case.results))
    return made


def wrong_results(cases: Iterable[NodeCase], found: Mapping[str, Sequence[Array] | str]) -> dict[str, str]:
    """Name -> what is wrong with the results."""
    wrong = {}
    for case in (case for case in cases if case.name in found):
        outputs = found[case.name]
        if isinstance(outputs, str):
            wrong[case.name] = outputs
            continue
        texts = [problem(array, wanted) for array, wanted in zip(outputs, case.results.values(), strict=True)]
        if any(texts):
            wrong[case.name] = next(filter(None, texts))
    return wrong
