"""Every operator that a ``.ms`` file can hold, one model each, in the released runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.format import rebuild
from converter_lite.formats.mindspore_lite.options import Compatibility, MsOptions
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.mindspore_lite.models import proto, weights_quantized
from tests.runtimes.conftest import Tally
from tests.runtimes.ms_case import Case
from tests.runtimes.ms_cases import FAMILIES
from tests.runtimes.ms_cases_sharing import sharing
from tests.runtimes.ms_runtime import PLATFORMS, Outcome, Platform

pytestmark = pytest.mark.runtime


def difference(case: Case, outcome: Outcome, reference: bytes) -> str:
    """What is wrong with an outcome, beside that of an ONNX model; empty if nothing is."""
    if outcome.error:
        return outcome.error
    for name, expected in DEFAULT_ENGINE.session(reference).run(case.feed).items():
        got = outcome.outputs[name]
        if got.shape != expected.shape:
            return f"{name}: shape {got.shape} instead of {expected.shape}"
        real = expected.astype(np.float64)
        error = float(np.abs(got.astype(np.float64) - real).max()) / max(1.0, float(np.abs(real).max()))
        if not error <= case.tolerance:
            return f"{name}: off by {error:.2g}, allowed {case.tolerance:.2g}"
    return ""


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_operators_compute_what_onnx_says(family, platform: Platform, tally: Tally, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    platform.skip_if_missing()
    cases = {case.name: case for case in family()}
    files = {name: (write(QuantizedModel(c.graph(), QuantPlan("CPU"))), c.feed) for name, c in cases.items()}
    outcomes = platform.run(files, tmp_path)
    wrong = {name: text for name, c in cases.items() if (text := difference(c, outcomes[name], c.model))}
    tally(f"MindSpore Lite 2.0.0, {platform.name}", "operators, float", tried=len(cases), wrong=len(wrong))
    assert wrong == {}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
def test_weights_expanded_at_load_are_right_for_all_nodes_that_share_them(platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing()
    wheel = MsOptions(compatibility=Compatibility.WHEEL)
    cases = {case.name: case for case in sharing()}
    graphs = {name: case.graph() for name, case in cases.items()}
    files = {name: write(weights_quantized(graph, 4), options=wheel) for name, graph in graphs.items()}
    outcomes = platform.run({name: (data, cases[name].feed) for name, data in files.items()}, tmp_path)
    held = {name: proto(rebuild(data, like=graphs[name]).model) for name, data in files.items()}
    wrong = {n: text for n, case in cases.items() if (text := difference(case, outcomes[n], held[n]))}
    assert wrong == {}
