"""Outputs in another layout, and quantized models that are written as floats, in the runtimes of the devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.formats.onnx.source import read_source
from converter_lite.formats.source import ModelFiles
from tests.cli.workshop import command, ini, write_bins
from tests.formats.onnx import foreign
from tests.runtimes.conftest import Tally
from tests.runtimes.device_files import RUNTIMES, Array
from tests.runtimes.test_settings import FULL, cosine, outputs
from tests.support import build_proto, normal, run

pytestmark = pytest.mark.runtime

PICTURES = """g (float[1,3,10,12] x) => (float[1,6,10,12] y) {
    a = Conv<pads=[1,1,1,1]>(x, w, b)
    y = Relu(a)
}"""


def computed(runtime: str, x: Array, folder: Path, *flags: str) -> Array:
    """What a device gives for the file that the command makes of ``model.onnx``."""
    save_type, processor, in_runtime = RUNTIMES[runtime]
    target = [f"--nbTarget={processor}"] if processor else []
    outcome = command(
        "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", f"--saveType={save_type}", *target, *flags
    )
    assert outcome.status == 0, outcome
    Path("run").mkdir()
    found = in_runtime(Path("out.nb" if processor else "out.ms").read_bytes(), x, folder / "run")
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", ["float", "full"])
def test_outputs_have_the_layout_that_was_asked_for(
    kind: str, runtime: str, tally: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(build_proto(PICTURES, w=normal(6, 3, 3, 3, seed=1) / 5, b=normal(6, seed=2)), "model.onnx")
    write_bins(tmp_path / "bins", 16, (1, 10, 12, 3))
    Path("quant.cfg").write_text(ini(FULL), encoding="utf-8")
    x = normal(1, 3, 10, 12, seed=7)
    wanted = outputs(Path("model.onnx"), x).transpose(0, 2, 3, 1)
    config = ["--configFile=quant.cfg"] if kind == "full" else []
    found = computed(runtime, x, tmp_path, "--outputDataFormat=NHWC", *config)
    near = cosine(found.reshape(wanted.shape), wanted)
    tally(runtime, "outputs in another layout", wrong=int(near < 0.999))
    assert near >= (0.999 if config else 0.999999)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", ["uint8, scale of a Constant node", "a transposed weight"])
def test_a_quantized_model_is_written_as_floats(
    name: str, runtime: str, tally: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = foreign.CASES[name]
    onnx.save(foreign.model(case), "model.onnx")
    source = read_source(ModelFiles(Path("model.onnx"), None, {}, confined=True))
    x = foreign.feed(case)["x"]
    wanted = run(source.in_float().model, {"x": x})["y"]
    Path("f.cfg").write_text("[transform_quant_param]\nexport_precision_mode=FLOAT32\n", encoding="utf-8")
    found = computed(runtime, x, tmp_path, "--configFile=f.cfg").reshape(wanted.shape)
    near = float(np.abs(found - wanted).max()) <= 1e-4 * float(np.abs(wanted).max())
    tally(runtime, "quantized models written as floats", wrong=int(not near))
    assert near
