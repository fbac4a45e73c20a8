"""Quantized models of other tools: what becomes of them, in the runtimes of the devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.format import NbFormat
from tests.formats.onnx import foreign
from tests.runtimes.conftest import Tally
from tests.runtimes.device_files import RUNTIMES, Array, written_for
from tests.runtimes.test_settings import cosine
from tests.support import exact_session

pytestmark = pytest.mark.runtime

CASES = {**foreign.CASES, **foreign.DYNAMIC}
LEAST = {("integer operators, pictures", "MINDIR_LITE"): 0.998}
"""Cosine, where it is not 0.9999: an average of sixteen integers is often half a step, and the device rounds away from zero."""


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", CASES)
def test_a_file_gives_the_numbers_of_the_model(
    name: str, runtime: str, tally: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case, (save_type, processor, run) = CASES[name], RUNTIMES[runtime]
    proto = foreign.model(case)
    onnx.save(foreign.four_bits(proto) if "m4" in case.graph else proto, "model.onnx")
    path = written_for(runtime)
    x = foreign.feed(case)["x"]
    kind = NbFormat(processor) if processor else MsFormat()
    like = read_onnx(Path("model.onnx"))
    claimed: Array = exact_session(kind.runnable(path, like=like)).run({"x": x})["y"]
    Path("run").mkdir()
    found = run(path.read_bytes(), x, tmp_path / "run")
    assert not isinstance(found, str), found
    near, least = cosine(found, claimed), LEAST.get((name, save_type), 0.9999)
    tally(runtime, "quantized models of other tools", wrong=int(near < least))
    assert near >= least
    assert np.isfinite(found).all()
