"""The tests of ``converter_lite.learning`` where there is PyTorch: in an environment of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cli.workshop import ini, write_bins
from tests.runtimes.device_files import RUNTIMES
from tests.runtimes.environments import interpreter
from tests.runtimes.parts import cosine
from tests.support import build_proto, normal, run

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/learning", "tests/docs/test_blocks.py::test_every_block_of_the_page_runs[finetune]")
pytestmark = pytest.mark.runtime

NETWORK = """g (float[1,3,12,12] x) => (float[1,10] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) b = Relu(a)
    c = Conv<pads=[1,1,1,1],group=16>(b, w2, b2) d = Relu(c) e = Conv(d, w3, b3) f = Relu(e)
    p = GlobalAveragePool(f) q = Flatten(p) y = Gemm<transB=1>(q, w4, b4) }"""

LEARNED = {
    "common_quant_param": {"quant_type": "FULL_QUANT", "learn_seconds": "3"},
    "full_quant_param": {"rounding": "LEARNED", "bias_correction": "false"},  # so that there is something to learn
    "data_preprocess_param": {"calibrate_path": "x:bins", "calibrate_size": "100", "input_type": "BIN"},
}


def test_what_needs_pytorch_passes_where_it_is() -> None:
    command = [str(interpreter("learn")), "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    environment["PYTHONPATH"] = str(ROOT)
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False, timeout=600)
    assert child.returncode == 0, child.stdout[-4000:] + child.stderr[-2000:]
    assert "skipped" not in child.stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_was_learnt_is_what_a_device_computes(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device's own library gives what the float network gives, as nearly as the file's proof says."""
    monkeypatch.chdir(tmp_path)
    shapes = {"w1": (16, 3, 3, 3), "w2": (16, 1, 3, 3), "w3": (24, 16, 1, 1), "w4": (10, 24)}
    constants = {n: normal(*s, seed=i) / np.float32(np.sqrt(np.prod(s[1:]))) for i, (n, s) in enumerate(shapes.items())}
    constants |= {f"b{i}": normal(size, seed=i) / 4 for i, size in enumerate((16, 16, 24, 10), 1)}
    model = build_proto(NETWORK, **constants)
    Path("model.onnx").write_bytes(model.SerializeToString())
    write_bins(Path("bins"), 100, (1, 3, 12, 12))
    Path("learned.cfg").write_text(ini(LEARNED), encoding="utf-8")
    save_type, processor, in_runtime = RUNTIMES[runtime]
    command = [str(interpreter("learn")), "-m", "converter_lite", "--fmk=ONNX", "--modelFile=model.onnx"]
    command += ["--outputFile=out", "--configFile=learned.cfg", "--inputDataFormat=NCHW", f"--saveType={save_type}"]
    command += [f"--nbTarget={processor}"] if processor else []
    child = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False, timeout=300
    )
    said = child.stdout + child.stderr
    assert child.returncode == 0, said
    assert "learnt: error" in said
    x = normal(1, 3, 12, 12, seed=50)
    found = in_runtime(Path("out.nb" if processor else "out.ms").read_bytes(), x, tmp_path)
    assert not isinstance(found, str), found
    assert cosine(found.ravel(), run(model.SerializeToString(), {"x": x})["y"].ravel()) > 0.999
