"""Models of int8 in the interpreter, and the files that they become in the runtimes of these.

The interpreter has three sets of kernels, which round sums in different ways; of the outputs of ResNet-8, 81 % are within a step
of each other in two of them. Floats that are rounded half to even are those of its default kernels; the fixed-point numbers of
MindSpore Lite's kernels are those of one of the others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from converter_lite.formats.tflite.importer.graph import to_quantized_model
from tests.cli.workshop import command
from tests.runtimes import ms_runtime, paddle
from tests.runtimes.conftest import Tally
from tests.runtimes.litert_runtime import Array, Results, run_file, skip_if_missing
from tests.runtimes.paddle_arm import run_on_arm
from tests.runtimes.test_litert_models import content, feeds_of
from tests.support import MODELS, shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

FILES = ("ad01_int8", "kws_int8", "resnet8_int8")
FIXED_POINT = ("BUILTIN_WITHOUT_DEFAULT_DELEGATES", "BUILTIN_REF")
RUNS, FEW = 24, 4

NEAR = 1.01
"""A step, and what its rounding takes."""


def files_and_feeds(name: str, count: int, kind: str, *flags: str) -> tuple[bytes, list[list[Array]], Path]:
    """The model, what it is fed, and the file that the command line makes of it in the working directory."""
    skip_if_missing()
    data = content(name)
    feeds = feeds_of(to_quantized_model(data), count)
    if name == "resnet8_int8":
        with np.load(MODELS.parent / "cifar10_eval.npz") as arrays:
            feeds = [[picture[None].astype(np.float32)] for picture in arrays["images"][:count]]
    path = shared_model(f"frameworks/tflite/{name}.tflite")
    outcome = command("--fmk=TFLITE", f"--modelFile={path}", "--outputFile=out", f"--saveType={kind}", *flags)
    assert outcome.status == 0, outcome
    return data, feeds, Path({"MINDIR_LITE": "out.ms", "NAIVE_BUFFER": "out.nb", "ONNX": "out.onnx"}[kind])


def share_of_near(found: list[list[Array]], expected: Results) -> float:
    """How many of the outputs are within a step of the interpreter's."""
    steps = [
        np.abs(array.reshape(other.array.shape) - other.array).reshape(-1) / other.scale
        for mine, theirs in zip(found, expected, strict=True)
        for array, other in zip(mine, theirs, strict=True)
    ]
    return float((np.concatenate(steps) < NEAR).mean())


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_nb_file_for_x86_gives_the_integers(name: str, tmp_path: Path, tally: Tally) -> None:
    paddle.require("2.13rc0")
    data, feeds, file = files_and_feeds(name, RUNS, "NAIVE_BUFFER", "--nbTarget=x86")
    cases = [paddle.Case(file.read_bytes(), feed) for feed in feeds]
    found = [each if isinstance(each, list) else [] for each in paddle.run_cases("2.13rc0", cases, tmp_path)]
    near = share_of_near(found, run_file(data, feeds, tmp_path))
    tally("Paddle-Lite 2.13rc0, x86", "int8 of TensorFlow Lite", tried=RUNS, wrong=int(near < 0.999))
    assert near >= 0.999


@pytest.mark.slow
@pytest.mark.usefixtures("nb_arm")
@pytest.mark.parametrize("name", FILES)
def test_a_nb_file_for_arm_gives_the_integers(name: str, tmp_path: Path, tally: Tally) -> None:
    data, feeds, file = files_and_feeds(name, FEW, "NAIVE_BUFFER")
    found = [run_on_arm(file.read_bytes(), feed, tmp_path / str(number)) for number, feed in enumerate(feeds)]
    assert all(isinstance(each, list) for each in found), found
    near = share_of_near([list(each) for each in found], run_file(data, feeds, tmp_path))
    tally("Paddle-Lite 2.12, arm", "int8 of TensorFlow Lite", tried=FEW, wrong=int(near < 0.999))
    assert near >= 0.999


@pytest.mark.parametrize("name", FILES)
def test_a_ms_file_gives_the_integers_of_one_set_of_kernels(name: str, tmp_path: Path, tally: Tally) -> None:
    ms_runtime.PLATFORMS[0].skip_if_missing()
    data, feeds, file = files_and_feeds(name, RUNS, "MINDIR_LITE")
    graph = to_quantized_model(data).model.graph
    taken, given = (str(values[0].name) for values in (graph.inputs, graph.outputs))
    cases = {f"{number:03}": (file.read_bytes(), {taken: feed[0]}) for number, feed in enumerate(feeds)}
    outcomes = ms_runtime.run_x86(cases, tmp_path)
    found = [[outcomes[number].outputs[given]] for number in cases]
    near = max(share_of_near(found, run_file(data, feeds, tmp_path, kernels=kernels)) for kernels in FIXED_POINT)
    tally("MindSpore Lite 2.0, x86", "int8 of TensorFlow Lite", tried=RUNS, wrong=int(near < 0.999))
    assert near >= 0.999


@pytest.mark.parametrize("name", FILES)
def test_an_onnx_file_gives_the_integers_of_the_interpreter(name: str, tmp_path: Path, tally: Tally) -> None:
    """On every processor: activations are uint8 on the same grid, and weights that could saturate are uint8, too."""
    data, feeds, file = files_and_feeds(name, RUNS, "ONNX")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (taken,) = session.get_inputs()
    near = share_of_near([session.run(None, {taken.name: feed[0]}) for feed in feeds], run_file(data, feeds, tmp_path))
    tally("LiteRT", "int8 in onnxruntime", tried=RUNS, wrong=int(near < 0.999))
    assert near >= 0.999
