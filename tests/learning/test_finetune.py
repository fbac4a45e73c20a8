"""Quantization-aware training: modules of PyTorch and back, and ``converter_lite finetune``."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from PIL import Image

pytest.importorskip("torch", reason="tests/runtimes/test_learning.py runs these where PyTorch is")

import torch
from click.testing import CliRunner

import converter_lite
from converter_lite.cli import finetune as command
from converter_lite.errors import ConverterError, DataError, ModelError, UsageError
from converter_lite.learning.aware import QuantAware, augmented, fingerprint
from converter_lite.learning.finetune import Training, check_lesson, finetune, read_checkpoint
from converter_lite.log import Log
from converter_lite.quantization.plan import QuantizedModel
from tests.support import build, full, normal, run, written

torch.set_num_threads(1)

NETWORK = """g (float[n,3,8,8] x) => (float[n,2] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) b = Relu(a) c = GlobalAveragePool(b) d = Flatten(c)
    e = Gemm<transB=1>(d, w2, b2) y = Softmax(e) }"""

CONFIG = """[common_quant_param]
quant_type=FULL_QUANT
[data_preprocess_param]
calibrate_path=x:{folder}/flat
calibrate_size=4
input_type=IMAGE
image_to_format=RGB
normalize_mean=[127.5, 127.5, 127.5]
normalize_std=[127.5, 127.5, 127.5]
"""


WITHOUT_SOFTMAX = NETWORK.replace("e = Gemm", "y = Gemm").replace("y = Softmax(e)", "")


def network(text: str = NETWORK, **more: Any) -> ir.Model:
    shapes = {"w1": (6, 3, 3, 3), "b1": (6,), "w2": (2, 6), "b2": (2,)}
    constants = {name: normal(*shape, seed=i) * 0.3 for i, (name, shape) in enumerate(shapes.items())}
    return build(text, **{**constants, **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Red and blue noise in folders, some of it flat beside them, a model and a configuration."""
    rng = np.random.default_rng(0)
    ir.save(network(), tmp_path / "model.onnx")
    (tmp_path / "model.cfg").write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    for number in range(16):
        pixels = rng.integers(0, 100, (8, 8, 3), dtype=np.uint8)
        pixels[..., 2 * (number % 2)] += 60
        paths = [tmp_path / "data" / f"{'red' if number % 2 == 0 else 'blue'}" / f"{number}.png"]
        for path in [*paths, *([tmp_path / "flat" / f"{number}.png"] if number < 4 else [])]:
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return tmp_path


def aware(folder: Path) -> torch.nn.Module:
    return converter_lite.quant_aware(folder / "model.onnx", folder / "model.cfg")


def test_a_loop_of_ones_own_trains_a_module_that_is_written(folder: Path) -> None:
    module = aware(folder)
    x = torch.from_numpy(normal(8, 3, 8, 8, seed=3))
    labels = torch.arange(8) % 2
    optimizer = torch.optim.Adam(module.parameter_groups(0.003))
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.nll_loss(module(x).clamp(min=1e-6).log(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    graph, plan = converter_lite.convert(module)
    again = QuantizedModel(graph, plan)  # nothing but graph and plan
    with torch.no_grad():
        expected = module.eval()(x).numpy()
    step = max(float(params.scale) for params in plan.activations.values())
    np.testing.assert_allclose(run(written(again), {"x": x.numpy()})["y"], expected, rtol=0, atol=2 * step)
    result = converter_lite.convert(module, folder / "out")
    np.testing.assert_allclose(run(folder / "out.onnx", {"x": x.numpy()})["y"], expected, rtol=0, atol=2 * step)
    assert result.artefacts[0].accuracy[0].name == "y"


def test_biases_of_zero_learn() -> None:
    module = QuantAware(full(network(b1=np.zeros(6, np.float32))))
    groups = module.parameter_groups(0.003)
    rate = next(group["lr"] for group in groups if group["params"][0] is module.biases["b1"])
    weight = (normal(6, 3, 3, 3, seed=0) * 0.3).astype(np.float64)
    assert rate == pytest.approx(0.003 * 2 * np.sqrt((weight**2).sum((1, 2, 3)).mean()))
    optimizer = torch.optim.Adam(groups)
    module(torch.from_numpy(normal(8, 3, 8, 8)))[:, 0].sum().backward()
    optimizer.step()
    assert bool((module.biases["b1"] != 0).any())


def test_a_module_of_other_data_is_not_written(folder: Path) -> None:
    module = aware(folder)
    Image.new("RGB", (8, 8), "white").save(folder / "flat/0.png")
    with pytest.raises(DataError, match="another model, configuration or calibration data"):
        converter_lite.convert(module, folder / "out")
    assert not list(folder.glob("out*"))


def test_attributes_and_integers_belong_to_the_start_too() -> None:
    start = full(network())
    moved = {name: start.integers(name).copy() for name in ("w1",)}
    moved["w1"].flat[0] -= np.sign(moved["w1"].flat[0])
    others = [
        full(network(NETWORK.replace("pads=[1,1,1,1]", 'auto_pad="SAME_UPPER"'))),
        replace(start, q_weights={**start.q_weights, **moved}),
    ]
    assert fingerprint(start) == fingerprint(full(network()))
    assert fingerprint(start) not in [fingerprint(other) for other in others]


def test_what_quantizes_nothing_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="there is nothing to train"):
        converter_lite.quant_aware(folder / "model.onnx")


def test_a_module_has_the_grids_of_one_format(folder: Path) -> None:
    """The default of a request names two formats, of which the second was refused once the module was trained."""
    request = converter_lite.ConvertRequest(folder / "model.onnx", folder / "out", config_file=folder / "model.cfg")
    with pytest.raises(UsageError, match="MINDIR_LITE and ONNX; a module is trained for the grids of one format"):
        converter_lite.quant_aware(request)


def arguments(folder: Path, **flags: str) -> list[str]:
    usual = {
        "modelFile": folder / "model.onnx",
        "configFile": folder / "model.cfg",
        "outputFile": folder / "out",
        "data": folder / "data",
        "epochs": "4",
        "batchSize": "8",
        "learningRate": "0.003",
        "minCosine": "0",
        "threads": "1",
    }
    return [f"--{name}={value}" for name, value in {**usual, **flags}.items()]


def finetuned(folder: Path, *more: str, **flags: str) -> tuple[int, str]:
    done = CliRunner().invoke(command.finetune_command, [*arguments(folder, **flags), *more], standalone_mode=False)
    return done.return_value, done.output


def test_the_command_trains_and_a_resumed_run_gives_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = finetuned(folder, validation=str(folder / "data"))
    assert status == 0 and "CONVERT RESULT SUCCESS" in text, text
    losses = [float(line.split()[3].rstrip(",")) for line in text.splitlines() if line.startswith("epoch")]
    assert len(losses) == 4 and losses[-1] < losses[0]
    assert text.count(", validation ") == 4
    expected = (folder / "out.onnx").read_bytes()
    (folder / "out.onnx").unlink()
    assert resumed(folder, monkeypatch) == expected


def resumed(folder: Path, monkeypatch: pytest.MonkeyPatch, **flags: str) -> bytes:
    """The file of a run that was interrupted after two epochs and went on."""
    from converter_lite.learning.finetune import _Lesson

    usual = _Lesson._epoch

    def interrupted(lesson: _Lesson, log: Log) -> tuple[float, float]:
        if lesson.done == 2:
            raise KeyboardInterrupt
        return usual(lesson, log)

    state = str(folder / "state.pt")
    with monkeypatch.context() as patched:
        patched.setattr(_Lesson, "_epoch", interrupted)
        status, text = finetuned(folder, checkpoint=state, **flags)
    assert status == 130, text
    assert f"{state} holds epoch 2; --resume goes on from there" in text
    assert not list(folder.glob("out*"))
    status, text = finetuned(folder, "--resume", checkpoint=state, **flags)
    assert status == 0 and "going on after epoch 2" in text, text
    return (folder / "out.onnx").read_bytes()


def test_a_run_resumed_between_two_repairs_gives_the_same_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights leave their grids and are brought back after every eighth step; an epoch has six."""
    ir.save(network(WITHOUT_SOFTMAX), folder / "model.onnx")
    flags = {"batchSize": "3", "learningRate": "0.02", "epochs": "12"}
    assert finetuned(folder, **flags)[0] == 0
    expected = (folder / "out.onnx").read_bytes()
    (folder / "out.onnx").unlink()
    assert resumed(folder, monkeypatch, **flags) == expected


def test_pictures_that_pass_one_at_a_time_are_one_step(folder: Path) -> None:
    text = WITHOUT_SOFTMAX.replace("[n,", "[1,").replace("d = Flatten(c)", "d = Reshape(c, s)")
    ir.save(network(text, s=np.array([1, 6])), folder / "model.onnx")
    status, said = finetuned(folder)
    assert status == 0 and "CONVERT RESULT SUCCESS" in said, said


def test_any_number_of_passes_leads_to_a_gradient(folder: Path) -> None:
    module = aware(folder)
    x = torch.from_numpy(normal(2, 3, 8, 8))
    optimizer = torch.optim.Adam(module.parameter_groups(0.003))
    for _ in range(9):
        loss = (module(x) - module(x.flip(3)) + module(x.flip(2))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert int(module.state_dict()["_changes"]) == 8


def test_an_interruption_before_an_epoch_is_kept_promises_no_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from converter_lite.learning.finetune import _Lesson

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Lesson, "_save", interrupted)
    status, text = finetuned(folder, checkpoint=str(folder / "state.pt"))
    assert status == 130 and "epoch 1/4" in text and "--resume" not in text


def test_other_checkpoints_are_refused(folder: Path) -> None:
    state = folder / "state.pt"
    status, text = finetuned(folder, "--resume", checkpoint=str(state))
    assert status == 1 and "there is no such checkpoint" in text and "quantized" not in text
    assert finetuned(folder, checkpoint=str(state), epochs="1")[0] == 0
    (folder / "out.onnx").unlink()
    status, text = finetuned(folder, "--resume", checkpoint=str(state))
    assert status == 1 and "the checkpoint was made with epochs=1, not 4" in text
    (folder / "data/red/0.png").rename(folder / "data/blue/0.png")
    status, text = finetuned(folder, "--resume", checkpoint=str(state), epochs="1")
    assert status == 1 and "the checkpoint was made with other pictures or labels" in text
    (folder / "data/blue/0.png").rename(folder / "data/red/0.png")
    Image.new("RGB", (8, 8), "white").save(folder / "flat/0.png")
    status, text = finetuned(folder, "--resume", checkpoint=str(state), epochs="1")
    assert status == 1 and "the checkpoint is of another model" in text
    state.write_bytes(state.read_bytes()[:-200])
    status, text = finetuned(folder, "--resume", checkpoint=str(state))
    assert status == 1 and "it is damaged" in text
    assert not list(folder.glob("out*"))


class Stranger:
    def __reduce__(self) -> tuple[object, ...]:
        return (open, (str(self.path), "w"))

    path = Path("absent")


def test_nothing_in_a_checkpoint_is_executed(folder: Path) -> None:
    Stranger.path = folder / "made_by_a_stranger"
    torch.save({"version": Stranger()}, folder / "state.pt")
    (folder / "plain").write_bytes(pickle.dumps(Stranger()))
    os.mkfifo(folder / "pipe")
    for name in ("state.pt", "plain", "pipe"):
        with pytest.raises(DataError, match="this is no checkpoint"):
            read_checkpoint(folder / name)
    assert not Stranger.path.exists()


def test_mistakes_are_one_error_each(folder: Path) -> None:
    rows = [f"{path},{int(path.parent.name == 'red')}\n" for path in sorted(folder.glob("data/*/*.png"))]
    (folder / "rows.csv").write_text("".join(rows), encoding="utf-8")
    for flags, status, message in (
        ({"data": str(folder / "absent")}, 1, "there is no such folder or CSV file"),
        ({"data": str(folder / "flat")}, 1, "it has no folders"),
        ({"epochs": "0"}, 2, "'0' is not a number from 1"),
        ({"learningRate": "fast"}, 2, "'fast' is not a number above 0"),
        ({"learningRate": "1e30"}, 2, "the loss is not finite any more"),
        ({"augment": "turn"}, 2, "'turn' is not one of all, crop, none"),
        ({"distill": "-0.5"}, 2, "'-0.5' is not a number from 0 to 1"),
        ({"configFile": ""}, 2, "--configFile: must be given"),
        ({"checkpoint": str(folder / "model.onnx")}, 2, "the output would overwrite an input"),
        ({"checkpoint": str(folder / "rows.csv"), "data": str(folder / "rows.csv")}, 2, "would overwrite an input"),
        ({"json": str(folder / "rows.csv"), "validation": str(folder / "rows.csv")}, 2, "would overwrite an input"),
        ({"checkpoint": str(folder / "out.onnx")}, 2, "the output would overwrite another output"),
    ):
        found, text = finetuned(folder, **flags)
        assert (found, text.count("ERROR")) == (status, 1) and message in text, text
    assert (folder / "rows.csv").read_text(encoding="utf-8") == "".join(rows)
    assert finetuned(folder, "--resume")[0] == 2
    assert not list(folder.glob("out*"))


def test_other_networks_than_classifiers_of_pictures_are_refused(folder: Path) -> None:
    model = build("g (float[n,4] x) => (float[n,4] y) { y = MatMul(x, w) }", w=normal(4, 4))
    with pytest.raises(ConverterError, match="this is no classifier of pictures"):
        finetune(full(model), None, Training(folder), Log())
    places = build(
        """g (float[n,3,16,16] x) => (int64[n,2] y) {
        a = Conv(x, w) b = GlobalAveragePool(a) c = Flatten(b) v, y = TopK(c, k) }""",
        w=normal(2, 3, 3, 3),
        k=np.array([2]),
    )
    with pytest.raises(ConverterError, match="one output with a real number for each class"):
        check_lesson(places, Training(folder / "data"))


def test_a_checkpoint_of_pictures_that_were_prepared_differently_is_refused(folder: Path) -> None:
    """Weights alone need no samples, so that nothing else of the network shows how pictures are prepared."""
    text = "[common_quant_param]\nquant_type=WEIGHT_QUANT\nmin_quant_weight_channel=0\nmin_quant_weight_size=0\n"
    text += "[data_preprocess_param]\nnormalize_std=[{0},{0},{0}]\nnormalize_mean=[0,0,0]\n"
    for std, status in ((64, 0), (255, 1)):
        (folder / "weights.cfg").write_text(text.format(std), encoding="utf-8")
        flags = {"configFile": str(folder / "weights.cfg"), "checkpoint": str(folder / "state.pt"), "epochs": "1"}
        found, said = finetuned(folder, *(("--resume",) if status else ()), **flags)
        assert found == status, said
        assert "has no effect" not in said
    assert "or they were prepared differently" in said


def test_what_cannot_be_trained_is_refused_before_a_sample_is_read(folder: Path) -> None:
    """The pixels of a broken picture for calibration are not reached."""
    broken = folder / "flat/0.png"
    broken.write_bytes(broken.read_bytes()[:60])
    status, text = finetuned(folder)
    assert status == 1 and "0.png" in text, text
    assert "it has no folders" in finetuned(folder, data=str(folder / "flat"))[1]
    assert "it has no folders" in finetuned(folder, validation=str(folder / "flat"))[1]
    for body, message in (
        ("c = Hardmax(b) y = Flatten(c)", "no gradients of Hardmax"),
        ("y = Relu(b)", "no classifier"),
    ):
        rank = ",p,q" if body == "y = Relu(b)" else ""
        text = f"g (float[n,3,8,8] x) => (float[n,m{rank}] y) {{ a = Conv(x, w1) b = Relu(a) {body} }}"
        ir.save(build(text, w1=normal(6, 3, 3, 3)), folder / "model.onnx")
        assert message in finetuned(folder)[1]
    ir.save(
        build("g (float[n,4] x) => (float[n,4] y) { a = MatMul(x, w) y = Hardmax(a) }", w=normal(4, 4)),
        folder / "h.onnx",
    )
    with pytest.raises(ModelError, match="no gradients of Hardmax"):
        converter_lite.quant_aware(folder / "h.onnx", folder / "model.cfg")


@pytest.mark.parametrize("axis", [1, 3])
def test_augmented_pictures_are_moved_and_mirrored_only_where_that_is_asked_for(axis: int) -> None:
    ramp = torch.arange(16.0).expand(32, 3, 16, 16).movedim(1, axis)
    for kind in ("all", "crop"):
        rows = augmented(ramp, axis, kind, torch.Generator().manual_seed(0)).movedim(axis, 1)[:, 0, 0]
        steps = rows.diff(dim=1)
        assert bool((steps >= 0).all()) == (kind == "crop")
        assert steps.abs().max() == 1 and len({tuple(row.tolist()) for row in rows}) > 3
    assert augmented(ramp, axis, "none", torch.Generator()) is ramp


def test_without_pytorch_it_is_one_sentence(folder: Path) -> None:
    program = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'torch' else find(name, *more)\n"
        "import converter_lite\n"
        "try: converter_lite.quant_aware('model.onnx')\n"
        "except converter_lite.ConverterError as error: print(error)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout.splitlines() == [
        "quant_aware: quantization-aware training needs torch, which is not installed",
        "  pip install 'converter-lite[learn]'",
    ]
