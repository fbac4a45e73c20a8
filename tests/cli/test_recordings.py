"""``compare`` with outputs that another runtime recorded, ``inspect --kernels`` with what TensorRT says of an engine."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from converter_lite.analysis.recorded import tensor_bytes
from tests.cli.workshop import FULL, Workshop, command
from tests.support import build_proto, normal, run

SAMPLES = [{"x": np.random.default_rng(seed).standard_normal((1, 3, 8, 8), np.float32)} for seed in range(3)]


def polygraphy(array: NDArray[Any], *, lazy: bool = False) -> dict[str, Any]:
    """An array in Polygraphy's JSON."""
    content = io.BytesIO()
    np.save(content, array)
    plain = {"array": base64.b64encode(content.getvalue()).decode(), "polygraphy_class": "ndarray"}
    return {"values": plain, "polygraphy_class": "LazyArray"} if lazy else plain


@pytest.fixture
def recorded(workshop: Workshop) -> Workshop:
    """Inputs and the outputs of the quantized model, in both forms."""
    workshop.succeed(config=FULL)
    outputs = [run(Path("out.onnx"), sample) for sample in SAMPLES]
    for folder, arrays in (("inputs", SAMPLES), ("outputs", outputs)):
        Path(folder).mkdir()
        for index, sample in enumerate(arrays):
            np.savez(Path(folder) / f"{index}.npz", **sample)  # type: ignore[arg-type]
    inputs = [{name: polygraphy(array) for name, array in sample.items()} for sample in SAMPLES]
    Path("inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    iterations = [
        {"outputs": {name: polygraphy(array, lazy=True) for name, array in sample.items()}, "runtime": 0.1}
        for sample in outputs
    ]
    runs = {"lst": [["trt-runner", iterations]], "polygraphy_class": "RunResults"}
    Path("outputs.json").write_text(json.dumps(runs), encoding="utf-8")
    return workshop


@pytest.mark.parametrize("inputs", ["inputs", "inputs.json"])
@pytest.mark.parametrize("outputs", ["outputs", "outputs.json"])
def test_recorded_outputs_are_compared(recorded: Workshop, inputs: str, outputs: str) -> None:
    made = command("compare", "model.onnx", outputs, f"--inputs={inputs}", "--json=c.json", "--csv=c.csv")
    assert (made.status, made.err) == (0, "")
    data = json.loads(Path("c.json").read_text(encoding="utf-8"))
    (layer,) = data["layers"]
    assert (data["samples"], layer["tensor"], layer["is_output"]) == (3, "y", True)
    assert 0.99 < layer["accumulated"]["cosine"] < 1
    assert len(Path("c.csv").read_text(encoding="utf-8").splitlines()) == 2
    assert command("compare", "model.onnx", outputs, f"--inputs={inputs}", "--minCosine=1").status == 1


@pytest.mark.parametrize("kind", ["inputs", "inputs.json", "sets"])
def test_outputs_of_numbered_samples_are_in_the_order_of_their_numbers(workshop: Workshop, kind: str) -> None:
    onnx.save(build_proto("g (float[1] x) => (float[1] y) { y = Add(x, x) }"), "twice.onnx")
    Path("inputs").mkdir()
    Path("outputs").mkdir()
    samples = [np.array([number + 1], np.float32) for number in range(12)]
    for number, sample in enumerate(samples):
        np.savez(f"inputs/{number}.npz", x=sample)
        np.savez(f"outputs/{number}.npz", y=2 * sample)
        Path(f"sets/test_data_set_{number}").mkdir(parents=True)
        Path(f"sets/test_data_set_{number}/input_0.pb").write_bytes(tensor_bytes("x", sample))
    Path("inputs.json").write_text(json.dumps([{"x": polygraphy(sample)} for sample in samples]), encoding="utf-8")
    made = command("compare", "twice.onnx", "outputs", f"--inputs={kind}", "--json=c.json")
    assert (made.status, made.err) == (0, "")
    (layer,) = json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"]
    assert layer["accumulated"]["max_error"] == 0


def test_one_file_holds_one_sample(recorded: Workshop) -> None:
    made = command("compare", "model.onnx", "outputs/1.npz", "--inputs=inputs/1.npz")
    assert "1 recorded sample, 1 tensor" in made.out


def test_recorded_outputs_that_find_nothing_have_no_cosine(workshop: Workshop) -> None:
    graph = "g (float[1,4] x) => (float[1,4] y) { a = Add(x, b) y = Sigmoid(a) }"
    onnx.save(build_proto(graph, b=np.full(4, -16, np.float32)), "quiet.onnx")
    np.savez("in.npz", x=np.ones((1, 4), np.float32))
    np.savez("zeros.npz", y=np.zeros((1, 4), np.float32))
    made = command("compare", "quiet.onnx", "zeros.npz", "--inputs=in.npz", "--minCosine=0.9", "--json=c.json")
    assert (made.status, made.err) == (0, "")
    assert "y: 1 sample without a cosine, because neither model finds anything" in made.out
    assert json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"][0]["empty"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("outputs",), "it does not say for which samples"),
        (("outputs", "--inputs=inputs/0.npz"), "there are outputs for 3 samples, and 1 sample"),
        (("inputs", "--inputs=inputs"), "the float model has no tensor called x"),
        (("broken.json", "--inputs=inputs"), "it does not hold arrays as Polygraphy writes them"),
        (("other.npz", "--inputs=inputs/0.npz"), "'y' of sample 1 is float32 [2,5], in the float model float32 [1,5]"),
        (("texts.npz", "--inputs=inputs/0.npz"), "'y' of sample 1 is <U3 [1,5], in the float model float32 [1,5]"),
        (("outputs", "--inputs=inputs", "--extract-worst=1", "--outputDir=d"), "no second model to extract from"),
    ],
)
def test_what_does_not_belong_together_is_refused(recorded: Workshop, arguments: tuple[str, ...], said: str) -> None:
    Path("broken.json").write_text('{"lst": [["a", [{"outputs": {"y": {"array": "AAAA"}}}]]]}', encoding="utf-8")
    np.savez("other.npz", y=np.zeros((2, 5), np.float32))
    np.savez("texts.npz", y=np.full((1, 5), "yes"))
    made = command("compare", "model.onnx", *arguments)
    assert made.status in (1, 2)
    assert said in made.err


def test_a_gate_is_not_passed_by_outputs_that_nothing_is_compared_with(workshop: Workshop) -> None:
    text = "g (float[1,8] x) => (float[1,{}] y) {{ m = MatMul(x, w) y = Relu(m) }}"
    for name, size in (("ours", 6), ("theirs", 5)):
        onnx.save(build_proto(text.format(size), w=normal(8, size)), f"{name}.onnx")
    np.savez("in.npz", x=np.ones((1, 8), np.float32))
    np.savez("inner.npz", m=normal(8, 6).sum(axis=0, keepdims=True))
    for other in ("theirs.onnx", "inner.npz"):
        line = ("compare", "ours.onnx", other, "--inputs=in.npz")
        assert command(*line).status == 0
        made = command(*line, "--minCosine=0.9")
        assert made.status == 1
        assert "there is nothing to compare output y with, so that it does not reach 0.9" in made.err


def tensor(datatype: str) -> list[dict[str, Any]]:
    return [{"Name": "t", "Dimensions": [1, 8], "Format/Datatype": datatype}]


INT8 = "Thirty-two wide channel vectorized row major Int8 format."
LAYERS = {
    "Layers": [
        {
            "Name": "in copy",
            "LayerType": "Reformat",
            "Inputs": tensor("Row major linear FP32"),
            "Outputs": tensor(INT8),
        },
        {"Name": "conv + relu", "LayerType": "CaskConvolution", "Inputs": tensor(INT8), "Outputs": tensor(INT8)},
        {"Name": "deconv", "LayerType": "CaskDeconvolution", "Inputs": tensor("Half"), "Outputs": tensor("Half")},
        {"Name": "fc", "LayerType": "gemm", "Inputs": tensor(INT8), "Outputs": tensor("Float")},
        {"Name": "flat", "LayerType": "NoOp", "Inputs": tensor("Float"), "Outputs": tensor("Float")},
    ],
    "Bindings": ["x", "y"],
}
PROFILE = [{"count": 7}] + [
    {"name": name, "timeMs": 7 * ms, "averageMs": ms, "percentage": 1.0}
    for name, ms in (("in copy", 0.01), ("conv + relu", 0.06), ("deconv", 0.02), ("fc", 0.01))
]


def test_a_tensorrt_engine_is_looked_into(workshop: Workshop) -> None:
    Path("layers.json").write_text(json.dumps(LAYERS), encoding="utf-8")
    Path("profile.json").write_text(json.dumps(PROFILE), encoding="utf-8")
    made = command("inspect", "--kernels", "layers.json", "--profile=profile.json")
    assert made.status == 0
    cells = [line.split("  ") for line in made.out.splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in cells]
    assert ["conv + relu", "CaskConvolution", "int8", "int8", "integer", "60.0"] in rows
    assert ["deconv", "CaskDeconvolution", "float16", "float16", "float", "20.0"] in rows
    assert made.out.splitlines()[-1] == (
        "2 of 3 convolutions and matrix products compute in integers; "
        "time: integer 70%, float 20%, conversion 10%, none 0%"
    )
    assert "compute in integers" in command("inspect", "--kernels", "layers.json").out


@pytest.mark.parametrize("content", [{"Layers": ["conv + relu", "fc"]}, PROFILE])
def test_an_engine_without_details_says_how_to_get_them(workshop: Workshop, content: object) -> None:
    Path("names.json").write_text(json.dumps(content), encoding="utf-8")
    made = command("inspect", "--kernels", "names.json")
    assert made.status == 0
    assert "--profilingVerbosity=detailed" in made.out


@pytest.mark.parametrize(
    ("layers", "profile", "said"),
    [
        ("[]", None, "the profile has no layer"),
        ("{}", None, "this is no list of layers"),
        ("nothing", None, "it is no JSON"),
        ('{"Layers": [3]}', None, "a layer has no name"),
        ('{"Layers": ["other"]}', json.dumps(PROFILE), "the profile names none of these layers"),
        ('{"Layers": ["other"]}', '[{"name": "a", "averageMs": "b"}]', "this is no profile of trtexec"),
    ],
)
def test_other_files_are_refused(workshop: Workshop, layers: str, profile: str | None, said: str) -> None:
    Path("layers.json").write_text(layers, encoding="utf-8")
    flags = []
    if profile is not None:
        Path("profile.json").write_text(profile, encoding="utf-8")
        flags.append("--profile=profile.json")
    made = command("inspect", "--kernels", "layers.json", *flags)
    assert made.status == 1
    assert said in made.err


def test_a_profile_belongs_to_layers(workshop: Workshop) -> None:
    assert command("inspect", "model.onnx", "--profile=p.json").status == 2
    assert command("inspect", "--kernels", "model.onnx", "--profile=p.json").status == 2
