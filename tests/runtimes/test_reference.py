"""Settings crossed with models, and devices, written as ONNX and computed by ONNX's own reference implementation.

It follows the text of the standard, one operator at a time in NumPy, and shares nothing with the runtime that the proof uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import version_converter
from onnx.reference import ReferenceEvaluator

from tests.cli.workshop import Config, changed
from tests.runtimes.conftest import Tally
from tests.runtimes.onnx_settings import results
from tests.runtimes.ov_runtime import Arrays, Case
from tests.runtimes.settings_networks import MODELS
from tests.runtimes.test_settings import FULL, SETTINGS, USUAL

pytestmark = pytest.mark.once

KNOWN, NEWER = 19, 21
"""The reference has QuantizeLinear from this operator set on; files with older ones are brought to the newer one by ``onnx``."""

SAME = 1e-5
"""Largest difference, in multiples of the output's largest value: sums in another order (largest found: 6e-7)."""

ONE_STEP = {("sound", "DSP"): 0.01}
"""Where a sum lies between two integers of the output and falls to the other side: a step, in the same multiples."""


@pytest.mark.parametrize("device", ["ARM", "DSP", "NVGPU", "X86"])
@pytest.mark.parametrize("model", MODELS)
def test_integers_for_a_device_are_those_of_the_standard(
    model: str, device: str, tally: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = changed(FULL, full_quant_param={"target_device": device})
    judge(model, config, tally, tmp_path, ONE_STEP.get((model, device), SAME))


@pytest.mark.parametrize(
    "setting", [name for name in SETTINGS if name.startswith(("weights", "dynamic")) or "bits" in name]
)
@pytest.mark.parametrize("model", USUAL)
def test_stored_weights_are_those_of_the_standard(
    model: str, setting: str, tally: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    judge(model, SETTINGS[setting].config, tally, tmp_path)


def judge(model: str, config: Config, tally: Tally, folder: Path, allowed: float = SAME) -> None:
    tally("ONNX's reference", "settings of whole conversions")
    r = results(model, config, run_cases, folder)
    np.testing.assert_allclose(r.found, r.exact, rtol=0, atol=allowed * float(np.abs(r.exact).max()))


def run_cases(cases: Sequence[Case], _: Path) -> list[list[Arrays]]:
    """Outputs of each feed of each case, by name; each model is one that ``onnx`` finds valid."""
    found = []
    for case in cases:
        onnx.checker.check_model(case.model, full_check=True)
        names = [value.name for value in case.model.graph.output]
        reference = ReferenceEvaluator(_known(case.model))
        with np.errstate(all="ignore"):  # it computes both sides of a choice
            found.append([dict(zip(names, reference.run(None, dict(feed)), strict=True)) for feed in case.feeds])
    return found


def _known(model: onnx.ModelProto) -> onnx.ModelProto:
    version = next(entry.version for entry in model.opset_import if not entry.domain)
    return model if version >= KNOWN else version_converter.convert_version(model, NEWER)
