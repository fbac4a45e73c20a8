"""Every operator that a ``.ms`` file can hold, one model each, in the released runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.engine import DEFAULT_ENGINE
from converter_lite.formats.mindspore_ms.writer import write
from converter_lite.graph import assign_names
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.runtimes.ms_case import Case
from tests.runtimes.ms_cases import FAMILIES
from tests.runtimes.ms_runtime import PLATFORMS, Outcome, Platform

pytestmark = pytest.mark.runtime


def file_of(case: Case) -> bytes:
    model = ir.serde.deserialize_model(onnx.load_from_string(case.model))
    assign_names(model)
    return write(QuantizedModel(model, QuantPlan("CPU")))


def difference(case: Case, outcome: Outcome) -> str:
    """What is wrong with an outcome; empty if nothing is."""
    if outcome.error:
        return outcome.error
    for name, expected in DEFAULT_ENGINE.session(case.model).run(case.feed).items():
        got = outcome.outputs[name]
        if got.shape != expected.shape:
            return f"{name}: shape {got.shape} instead of {expected.shape}"
        reference = expected.astype(np.float64)
        error = float(np.abs(got.astype(np.float64) - reference).max()) / max(1.0, float(np.abs(reference).max()))
        if not error <= case.tolerance:
            return f"{name}: off by {error:.2g}, allowed {case.tolerance:.2g}"
    return ""


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_operators_compute_what_onnx_says(family, platform: Platform, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    platform.skip_if_missing()
    cases = {case.name: case for case in family()}
    outcomes = platform.run({name: (file_of(case), case.feed) for name, case in cases.items()}, tmp_path)
    wrong = {name: text for name, case in cases.items() if (text := difference(case, outcomes[name]))}
    assert wrong == {}
