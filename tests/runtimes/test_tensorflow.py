"""Files of TensorFlow and Keras, beside what TensorFlow computes for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.tensorflow.source import TENSORFLOW
from tests.cli.workshop import command
from tests.runtimes.conftest import Tally
from tests.runtimes.framework_runtime import Framework, assert_same_numbers, read
from tests.support import shared_model

pytestmark = pytest.mark.runtime

FRAMEWORK = Framework("tensorflow", "tf_child.py")
ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"

SHARED: dict[str, dict[str, tuple[int, ...]]] = {
    "fc_layers_frozen.pb": {},
    "kws_saved_model": {},
    "lstm_frozen.pb": {"X": (3, 784)},
}


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TENSORFLOW.variable, str(FRAMEWORK.interpreter()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of every kind and their numbers."""
    folder = tmp_path_factory.mktemp("tensorflow")
    FRAMEWORK.make(str(folder))
    return folder


def transposes(found: object) -> int:
    return sum(node.op_type == "Transpose" for node in found)  # type: ignore[attr-defined]


MODELS: dict[str, dict[str, tuple[int, ...]]] = {
    "cnn.keras": {},
    "two.h5": {},
    "attention.keras": {},
    "grouped.keras": {},
    "loops.pb": {},
    "functions.pb": {"x": (16, 5)},
    "apart.pb": {},
    "aware.pb": {},
    "module": {},
    "loop.pb": {"x": (4, 5)},
    "old": {"features": (4, 5)},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_the_numbers_of_tensorflow(name: str, made: Path, tally: Tally) -> None:
    source = read("TF", made / name, MODELS[name])
    assert_same_numbers(source.model, made / f"{name}.npz")
    tally("TensorFlow", "TF")
    if name == "cnn.keras":  # pictures come in NHWC: one Transpose for the input, and none between layers
        assert transposes(source.model.graph) == 1


def test_a_network_of_quantization_aware_training_keeps_its_steps(made: Path, tmp_path: Path) -> None:
    plan = read("TF", made / "aware.pb", {}).graph(keep_qdq=False).plan
    assert sorted(params.scale.size for params in plan.weights.values() if params.spec.bits == 8) == [1, 1, 8]
    outcome = command("--fmk=TF", f"--modelFile={made / 'aware.pb'}", f"--outputFile={tmp_path / 'out'}", ALL)
    assert outcome.status == 0, outcome.err
    model = onnx.load(tmp_path / "out.onnx")
    assert max(np.prod(tensor.dims) for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT) == 8


def test_a_keras_model_goes_into_every_format(made: Path, tmp_path: Path) -> None:
    flags = (f"--modelFile={made / 'cnn.keras'}", f"--outputFile={tmp_path / 'out'}", ALL)
    outcome = command("--fmk=TF", *flags)
    assert outcome.status == 0, outcome.err
    first = (tmp_path / "out.onnx").read_bytes()
    assert command("--fmk=TF", *flags).status == 0
    assert (tmp_path / "out.onnx").read_bytes() == first
    compared = command("compare", str(made / "cnn.keras"), str(tmp_path / "out.ms"), "--shown=0")
    assert compared.status == 0, compared.err
    assert "classes" in compared.out


REFUSED = {
    "writes.pb": "WriteFile",
    "lambda.h5": "layer lambda is a Lambda",
    "only.weights.h5": "weights without the network",
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_hold_code_or_no_network_are_refused(name: str, made: Path) -> None:
    with pytest.raises(ModelError) as refused:
        read("TF", made / name)
    assert REFUSED[name] in refused.value.message
    assert not (made / "executed").exists()
    assert ("--allowUnsafeModels" in refused.value.hint) is (name != "only.weights.h5")


def test_lowered_loops_are_refused_with_the_way_to_freeze_them(made: Path) -> None:
    with pytest.raises(ModelError, match="TensorListReserve") as refused:
        read("TF", made / "lowered.pb")
    assert "lower_control_flow=False" in refused.value.hint


def test_code_in_a_file_runs_if_the_user_trusts_it(made: Path) -> None:
    model = read("TF", made / "lambda.keras", unsafe=True).model
    assert [node.op_type for node in model.graph] == ["Add"]


def test_shapes_that_are_missing_or_do_not_fit_are_named(made: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read("TF", made / "loop.pb")
    assert refused.value.hint == "give it: --inputShape=x:1,..."
    wrong = (("q", "no input 'q'"), ("picture", "?x16x12x3, not 1x2"))
    for name, message in wrong:
        with pytest.raises(UsageError) as refused:
            read("TF", made / "cnn.keras", {name: (1, 2)})
        assert message in refused.value.message


@pytest.mark.parametrize("kind", ["noise.pb", "half.pb", "half.keras", "noise.h5", "no saved model"])
def test_damaged_files_are_one_error(kind: str, made: Path, tmp_path: Path) -> None:
    path = tmp_path / kind
    if kind == "no saved model":
        path.mkdir()
    elif kind.startswith("noise"):
        path.write_bytes(bytes(range(256)) * 8)
    elif kind == "empty.pb":
        path.write_bytes(b"")
    else:
        whole = {".pb": "loop.pb", ".keras": "cnn.keras", ".h5": "two.h5"}[path.suffix]
        content = (made / whole).read_bytes()
        path.write_bytes(content[: len(content) // 2])
    outcome = command("--fmk=TF", f"--modelFile={path}", f"--outputFile={tmp_path / 'out'}")
    assert outcome.status == 1
    assert outcome.err.startswith(f"ERROR {path}: ")
    assert len(outcome.err.splitlines()) <= 2, outcome.err
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("name", ["cnn.keras", "loop.pb", "module"])
def test_inspect_shows_what_a_file_holds(name: str, made: Path) -> None:
    outcome = command("inspect", str(made / name))
    assert outcome.status == 0, outcome.err
    expected = {
        "cnn.keras": "depthwise_conv2d",
        "loop.pb": "halves:1",
        "module": "largest",
    }
    assert expected[name] in outcome.out


@pytest.mark.shared
@pytest.mark.parametrize("name", SHARED)
def test_shared_models_give_the_numbers_of_tensorflow(name: str, tmp_path: Path, tally: Tally) -> None:
    inner = f"{name}/saved_model.pb" if name == "kws_saved_model" else name
    path = shared_model(f"frameworks/tensorflow/{inner}")
    path = path.parent if path.name == "saved_model.pb" else path
    FRAMEWORK.make(str(tmp_path), str(path))
    source = read("TF", path, SHARED[name])
    assert_same_numbers(source.model, tmp_path / f"{name}.npz")
    assert transposes(source.model.graph) == 0
    tally("TensorFlow", "TF")
