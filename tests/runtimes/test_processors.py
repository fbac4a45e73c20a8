"""The same files and the same numbers on processors with and without VNNI.

The other kind is this processor with an onnxruntime that is told of no VNNI (:mod:`bench.without_vnni`), whose sums saturate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from bench.without_vnni import environment, missing
from tests.support import build_proto, normal

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("processor_child.py")

pytestmark = [pytest.mark.processors, pytest.mark.skipif(bool(missing()), reason=missing())]


def elsewhere(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python without VNNI."""
    line, there = [sys.executable, *command], {**os.environ, **environment()}
    return subprocess.run(line, cwd=cwd, env=there, capture_output=True, text=True, check=False, timeout=280)


def native(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=280)


def converted(config: str, model: Path, folder: Path, *flags: str) -> tuple[Path, Path]:
    """Folders with the results of this processor and of the other one."""
    (folder / "c.cfg").write_text(config, encoding="utf-8")
    for name, run in (("here", native), ("there", elsewhere)):
        (folder / name).mkdir()
        line = ["-m", "converter_lite", "--fmk=ONNX", f"--modelFile={model}", f"--outputFile={folder / name / 'm'}"]
        line += [f"--configFile={folder / 'c.cfg'}", f"--json={folder / name / 'm.json'}", "--threads=1", *flags]
        line += [f"--savePlan={folder / name / 'plan.json'}"]
        done = run(*line, cwd=ROOT)
        assert "CONVERT RESULT SUCCESS:0" in done.stdout, done.stdout + done.stderr
    return folder / "here", folder / "there"


def sample_config(name: str, pictures: int) -> str:
    text = (ROOT / "samples" / name).read_text(encoding="utf-8")
    return text.replace("calibrate_size=100", f"calibrate_size={pictures}")


def test_the_sample_becomes_the_same_files_for_all_formats(tmp_path: Path) -> None:
    here, there = converted(
        sample_config("full_quant.cfg", 8),
        ROOT / "samples" / "shapes.onnx",
        tmp_path,
        "--saveType=ONNX,MINDIR_LITE,NAIVE_BUFFER",
    )
    for suffix in (".onnx", ".ms"):
        assert (here / f"m{suffix}").read_bytes() == (there / f"m{suffix}").read_bytes(), suffix
    plans = [json.loads((folder / "plan.json").read_text(encoding="utf-8"))["NAIVE_BUFFER"] for folder in (here, there)]
    assert plans[0]["nodes"] == plans[1]["nodes"]
    files = [np.frombuffer((folder / "m.nb").read_bytes(), np.uint8) for folder in (here, there)]
    assert len(files[0]) == len(files[1])  # its biases are floats, whose last digits may differ
    assert np.count_nonzero(files[0] != files[1]) < 0.002 * len(files[0])


def test_a_file_for_arm_is_proven_in_arithmetic_that_does_not_saturate(tmp_path: Path) -> None:
    here, there = converted(
        sample_config("full_quant_arm.cfg", 4), ROOT / "samples" / "shapes.onnx", tmp_path, "--saveType=ONNX"
    )
    found = [json.loads((folder / "m.json").read_text(encoding="utf-8")) for folder in (here, there)]
    cosines = [[output["cosine"] for output in result["artefacts"][0]["accuracy"]] for result in found]
    assert cosines[0] == pytest.approx(cosines[1], abs=1e-5)


def test_files_give_the_same_numbers_with_and_without_saturating_kernels(tmp_path: Path) -> None:
    """Full and dynamic quantization of a network whose weights are large beside each other."""
    constants = {
        "w1": np.abs(normal(48, 64)) * 0.2,
        "w2": np.abs(normal(64, 16, seed=3)) * 0.2,
        "b": normal(64, seed=4),
    }
    text = "g (float[n,48] x) => (float[n,16] y) { a = MatMul(x, w1) c = Add(a, b) d = Relu(c) y = MatMul(d, w2) }"
    onnx.save(build_proto(text, **constants), tmp_path / "model.onnx")
    calibration = tmp_path / "x"
    calibration.mkdir()
    for index in range(8):
        np.abs(normal(1, 48, seed=10 + index)).tofile(calibration / f"{index}.bin")
    data = f"[data_preprocess_param]\ncalibrate_path=x:{calibration}\ncalibrate_size=8\ninput_type=BIN\n"
    arguments = []
    for kind in ("FULL_QUANT", "DYNAMIC_QUANT"):
        for portable in ("true", "false"):
            name = f"{kind}_{portable}"
            config = tmp_path / f"{name}.cfg"
            config.write_text(f"[common_quant_param]\nquant_type={kind}\nportable={portable}\n{data}", encoding="utf-8")
            line = ["-m", "converter_lite", "--fmk=ONNX", f"--modelFile={tmp_path / 'model.onnx'}", "--saveType=ONNX"]
            done = native(
                *line, f"--outputFile={tmp_path / name}", f"--configFile={config}", "--inputShape=x:1,48", cwd=ROOT
            )
            assert done.returncode == 0, done.stderr
            arguments += [str(tmp_path / f"{name}.onnx"), str(tmp_path / "feed.npz")]
    np.savez(tmp_path / "feed.npz", x=np.abs(normal(1, 48, seed=99)) * 2)
    here, there = _run(native, tmp_path / "here.npz", arguments), _run(elsewhere, tmp_path / "there.npz", arguments)
    assert there["saturates"], "the other onnxruntime has no saturating kernels: nothing is shown"
    for index in (0, 2):  # portable files
        reference = here[f"{index}/plain/0"]
        for found in (there[f"{index}/plain/0"], there[f"{index}/exact/0"]):
            np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-5)
    assert np.abs(there["1/plain/0"] - there["1/exact/0"]).max() > 0.01  # what portable=false may do


def _run(run: object, result: Path, arguments: list[str]) -> dict[str, NDArray[np.generic]]:
    done = run(str(CHILD), str(result), *arguments, cwd=ROOT)  # type: ignore[operator]
    assert result.exists(), done.stderr
    with np.load(result) as arrays:
        return dict(arrays)
