"""Files of PyTorch, beside what PyTorch computes for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import ConverterError, ModelError, UsageError
from converter_lite.formats.pytorch.source import PYTORCH
from converter_lite.graph import find_nodes
from tests.cli.workshop import command
from tests.runtimes.conftest import Tally
from tests.runtimes.framework_runtime import Framework, assert_same_numbers, read
from tests.support import run, shared_model

pytestmark = pytest.mark.runtime

FRAMEWORK = Framework("torch", "torch_child.py")
ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTORCH.variable, str(FRAMEWORK.interpreter()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of every kind and their numbers."""
    folder = tmp_path_factory.mktemp("torch")
    FRAMEWORK.make(str(folder))
    return folder


MODELS: dict[str, dict[str, tuple[int, ...]]] = {
    "mobilenet.pt2": {},
    "recurrent.pt2": {},
    "projected.pt2": {},
    "projected.pt": {"rows": (1, 5, 6)},
    "unchanged.pt2": {},
    "scripted.pt": {"ids": (2, 3), "x": (2, 4), "times": (3,)},
    "written.pt": {"x": (2, 4, 3)},
    "written.pt2": {},
    "half.pt": {"input": (2, 4)},
    "double.pt": {"input": (2, 4)},
    "traced.jit": {"picture": (1, 3, 32, 32)},
    "quantized.pt2": {},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_the_numbers_of_pytorch(name: str, made: Path, tally: Tally) -> None:
    source = read("PYTORCH", made / name, MODELS[name])
    assert_same_numbers(source.model, made / f"{name}.npz")
    tally("PyTorch", "PYTORCH")


def test_open_sizes_are_those_that_were_given(made: Path) -> None:
    model = read("PYTORCH", made / "mobilenet.pt2", {"picture": (2, 3, 64, 64)}).model
    assert [value.shape.numpy() for value in model.graph.inputs if value.shape is not None] == [(2, 3, 64, 64)]


def test_a_program_goes_into_every_format_with_the_same_bytes(made: Path, tmp_path: Path) -> None:
    flags = (f"--modelFile={made / 'mobilenet.pt2'}", f"--outputFile={tmp_path / 'out'}", ALL)
    outcome = command("--fmk=PYTORCH", *flags)
    assert outcome.status == 0, outcome.err
    first = (tmp_path / "out.onnx").read_bytes()
    assert command("--fmk=PYTORCH", *flags).status == 0
    assert (tmp_path / "out.onnx").read_bytes() == first
    assert b"torch_child" not in first  # paths of the machine that exported it


@pytest.mark.parametrize("name", ["first.0", "first.1", "conv2d", "first", "first.0.weight"])
def test_a_layer_with_a_folded_normalization_has_the_names_of_both_modules_and_of_its_node(
    name: str, made: Path
) -> None:
    model = read("PYTORCH", made / "mobilenet.pt2", {"picture": (2, 3, 64, 64)}).model
    found = {node.op_type: node for node in find_nodes(model.graph, name)}
    assert found["Conv"].inputs[1] is not None
    assert found["Conv"].inputs[1].name == "first.0.weight"
    assert len(found) == (2 if name == "first" else 1)


def test_a_quantized_program_keeps_its_scales(made: Path) -> None:
    quantized = read("PYTORCH", made / "quantized.pt2").graph(keep_qdq=False)
    assert [float(params.scale) for params in quantized.plan.activations.values()] == [0.03125]
    (params,) = quantized.plan.weights.values()
    assert params.scale == pytest.approx(np.linspace(0.002, 0.006, 6, dtype=np.float32))


REFUSED = {
    "branch.pt": "depends on the values of a tensor",
    "listed.pt": "makes a tensor of a list of numbers",
    "number.pt2": "its output 1 is not a tensor, but always 3",
    "at_run_time.pt2": "its activations are quantized at run time",
    "counter.pt2": "it changes its buffers when it is called (seen)",
    "writes.pt": "its code calls torch.save",
    "state.pth": "weights only (a state dict)",
    "network.pt": "runs whatever code",
    "bomb.pt": "runs whatever code",
    "old.pt": "runs whatever code",
    "sample.pt2": "data/sample_inputs/model.pt would run",
    "weights.pt2": "stored as a pickle",
    "target.pt2": "torch.hub.os.system",
    "size.pt2": "a size that is more than an expression",
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_would_run_code_or_cannot_be_recorded_are_refused(name: str, made: Path) -> None:
    shapes: dict[str, tuple[int, ...]] = {"x": (2,)} if name in ("branch.pt", "listed.pt", "writes.pt") else {}
    with pytest.raises(ConverterError) as refused:
        read("PYTORCH", made / name, shapes)
    assert REFUSED[name] in refused.value.message
    assert not (made / "executed").exists()


def test_a_trace_with_attention_as_one_operator_is_refused_with_what_to_call(made: Path) -> None:
    with pytest.raises(ConverterError, match="_transformer_encoder_layer_fwd") as refused:
        read("PYTORCH", made / "fused.pt", {"src": (1, 3, 8)})
    assert "set_fastpath_enabled(False)" in refused.value.hint


def test_a_pickled_network_is_read_if_the_user_trusts_it(made: Path) -> None:
    model = read("PYTORCH", made / "network.pt", {"input": (1, 2)}, unsafe=True).model
    assert [node.op_type for node in model.graph] == ["Gemm"]
    with pytest.raises(ModelError, match="weights or other data"):
        read("PYTORCH", made / "state.pth", unsafe=True)
    with pytest.raises(ModelError, match=r"it changes its buffers when it is called \(seen\)"):
        read("PYTORCH", made / "counter.pth", {"x": (2,)}, unsafe=True)


def test_what_a_script_does_not_say_is_asked_for(made: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read("PYTORCH", made / "scripted.pt", {"x": (2, 4)})
    assert "(ids, times)" in refused.value.message
    assert "--inputShape='ids:1,...;times:" in refused.value.hint


@pytest.mark.shared
def test_the_shared_detector_of_speech_gives_the_numbers_of_pytorch_call_after_call(
    tmp_path: Path, tally: Tally
) -> None:
    path = shared_model("frameworks/pytorch/silero_vad.jit")
    FRAMEWORK.make(str(tmp_path), str(path))
    flags = (f"--modelFile={path}", f"--outputFile={tmp_path / 'vad'}", "--inputShape=x:1,512;sr:16000", ALL)
    outcome = command("--fmk=PYTORCH", *flags)
    assert outcome.status == 0, outcome.err
    state = {"_context": np.zeros((1, 64), np.float32), "_state": np.zeros((2, 1, 128), np.float32)}
    for number in range(3):
        with np.load(tmp_path / f"call{number}.npz") as arrays:
            found = run(tmp_path / "vad.onnx", {"x": arrays["in_x"], **state})
            np.testing.assert_allclose(found["output"], arrays["out_output"], rtol=0, atol=1e-5)
        state = {name: found[f"{name}_next"] for name in state}
    tally("PyTorch", "PYTORCH")
