"""``compare``, ``sensitivity``, ``inspect --kernels`` and ``--preview`` as commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.cli.workshop import (
    FULL,
    GRAPH,
    WEIGHT,
    Outcome,
    Workshop,
    changed,
    command,
    ini,
    model_proto,
    write_bins,
    write_pictures,
)
from tests.formats.caffe.networks import layer, net, save
from tests.formats.tflite.models import convolutional
from tests.support import build_proto, normal, since

SMALL = changed(FULL, data_preprocess_param={"calibrate_size": "3"})


@pytest.fixture
def converted(workshop: Workshop) -> Workshop:
    """The small network in all three formats, and its configuration."""
    workshop.succeed("--saveType=ONNX,MINDIR_LITE,NAIVE_BUFFER", config=FULL)
    return workshop


def passed(outcome: Outcome) -> str:
    assert (outcome.status, outcome.errors) == (0, ""), outcome
    return outcome.said


@pytest.mark.parametrize("suffix", [".onnx", ".ms", ".nb"])
def test_compare_reads_every_format_and_writes_what_it_says(converted: Workshop, suffix: str) -> None:
    out = passed(
        command("compare", "model.onnx", f"out{suffix}", "--configFile=quant.cfg", "--csv=c.csv", "--json=c.json")
    )
    data = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert (data["status"], data["samples"], data["real_samples"], data["first_broken"]) == (0, 4, True, None)
    assert data["layers"][-1]["tensor"] == "y"
    assert data["layers"][-1]["accumulated"]["cosine"] > 0.99
    assert len(Path("c.csv").read_text(encoding="utf-8").splitlines()) == 1 + len(data["layers"])
    assert "no layer breaks" in out


def test_sizes_that_a_quantized_onnx_file_has_fixed_need_not_be_given(workshop: Workshop) -> None:
    graph = "g (float[N,T,64] x, float[N,T,64] z) => (float[N,T,64] y) { a = MatMul(x, w) y = Add(a, z) }"
    onnx.save(build_proto(graph, w=normal(64, 64)), "open.onnx")
    Path("weight.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    files = ("--fmk=ONNX", "--modelFile=open.onnx", "--outputFile=out", "--saveType=ONNX", "--configFile=weight.cfg")
    assert command(*files, "--inputShape=x:2,5,64;z:2,5,64").status == 0
    outcome = command("compare", "open.onnx", "out.onnx", "--json=c.json")
    assert outcome.status == 0, outcome
    assert json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"][-1]["accumulated"]["cosine"] > 0.99


@pytest.mark.parametrize("flags", [("--saveType=ONNX,MINDIR_LITE",), ("--saveType=ONNX,MINDIR_LITE", "--fp16=on")])
def test_layers_of_float16_are_compared(workshop: Workshop, flags: tuple[str, ...]) -> None:
    graph = GRAPH.replace("float[", "float16[")
    proto = model_proto(graph)
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype("f2"), tensor.name))
    onnx.save(proto, "model.onnx")
    write_bins(Path("bins"), 4, (1, 8, 8, 3), dtype="float16")
    for config in (None, FULL):
        workshop.succeed(*flags, config=config)
        for file in ("out.onnx", "out.ms"):
            line = ("compare", "model.onnx", file, "--json=c.json", "--extract-worst=1", "--outputDir=worst")
            passed(command(*line, "--configFile=quant.cfg") if config else command(*line))
            layers = json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"]
            assert len(layers) > 2
            assert min(layer["accumulated"]["cosine"] for layer in layers) > 0.9999


BRANCH = """g (float[1,8] x, float s, bool c) => (float[1,20] y) {
    h = MatMul(x, w1) r = Relu(h) t = Mul(r, s)
    y = If (c) <
        then_branch = a () => (float[1,20] m) { m = MatMul(t, w2) },
        else_branch = b () => (float[1,20] k) { k = Add(t, t) }
    > }"""
KNOWN = """g (float[N,20] x) => (float[20] y) {
    p = Pad(x, pads) q = MatMul(p, w1) sizes = Shape(p) n = Gather(sizes, zero) c = Equal(n, one)
    z = If (c) <
        then_branch = a () => (float[20] m) { m = Squeeze(p) },
        else_branch = b () => (float[N,20] k) { k = Identity(p) }
    > y = Add(z, q) }"""


@pytest.mark.parametrize(
    ("graph", "flags", "layers"), [(BRANCH, (), {"r", "t", "y"}), (KNOWN, ("--inputShape=x:1,20",), {"m", "q", "y"})]
)
def test_layers_around_branches_are_compared_and_cut_out(
    workshop: Workshop, graph: str, flags: tuple[str, ...], layers: set[str]
) -> None:
    """A number as an input, tensors that a branch reads from around it, and a branch that is known once sizes are."""
    constants = {"w1": normal(8, 20), "w2": normal(20, 20)} if graph is BRANCH else {"w1": normal(20, 20)}
    if graph is KNOWN:
        constants |= {"pads": np.zeros(4, np.int64), "zero": np.array(0), "one": np.array(1)}
    onnx.save(build_proto(graph, opset=17, **constants), "branch.onnx")
    workshop.succeed(config=WEIGHT, model="branch.onnx")
    line = ("compare", "branch.onnx", "out.onnx", *flags, "--extract-worst=9", "--outputDir=worst", "--json=c.json")
    assert "not cut out" not in passed(command(*line))
    assert layers <= {layer["tensor"] for layer in json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"]}
    parts = [path for path in Path("worst").iterdir() if path.is_dir()]
    assert len(parts) >= len(layers)
    for part in parts:
        line = ("compare", f"{part}/float/model.onnx", f"{part}/quantized/model.onnx", f"--inputs={part}/float")
        assert "1 layer compared" in passed(command(*line))


SIGNAL = """g (float[1,8,64] x) => (float[1,5] y) {
    c1 = Conv<pads = [1,1]>(x, w1, b1) r1 = Relu(c1) c2 = Conv<pads = [1,1]>(r1, w2, b2) r2 = Relu(c2)
    pooled = GlobalAveragePool(r2) flat = Flatten(pooled) y = MatMul(flat, w3)
}"""


def test_layers_of_one_dimensional_convolutions_are_compared_and_cut_out(workshop: Workshop) -> None:
    """MindSpore Lite computes them as pictures of one row, and keeps what is between them with the channels last."""
    weights = {"w1": normal(16, 8, 3, seed=1) / 5, "w2": normal(16, 16, 3, seed=2) / 7, "w3": normal(16, 5, seed=3)}
    onnx.save(build_proto(SIGNAL, **weights, b1=normal(16, seed=4), b2=normal(16, seed=5)), "signal.onnx")
    write_bins(Path("bins"), 4, (1, 8, 64))
    workshop.succeed("--saveType=MINDIR_LITE", config=FULL, model="signal.onnx")
    line = ("compare", "signal.onnx", "out.ms", "--configFile=quant.cfg", "--json=c.json")
    passed(command(*line, "--extract-worst=9", "--outputDir=worst"))
    layers = json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"]
    assert [layer["tensor"] for layer in layers] == ["r1", "r2", "pooled", "flat", "y"]
    assert min(layer[kind]["cosine"] for layer in layers for kind in ("accumulated", "local")) > 0.999
    parts = [path for path in Path("worst").iterdir() if path.is_dir()]
    assert len(parts) == len(layers)
    for part in parts:
        line = ("compare", f"{part}/float/model.onnx", f"{part}/quantized/model.onnx", f"--inputs={part}/float")
        assert "1 layer compared" in passed(command(*line))


def test_kernels_of_a_model_that_does_not_run_on_every_size_are_shown_with_sizes(workshop: Workshop) -> None:
    graph = "g (float[N,T] x) => (float[N,40] y) { y, rest = Split<axis=1>(x, parts) }"
    onnx.save(build_proto(graph, opset=17, parts=np.array([40, 24])), "open.onnx")
    refused = command("inspect", "--kernels", "open.onnx")
    assert (refused.status, refused.err.splitlines()[-1]) == (1, "  give the sizes that it runs on with --inputShape")
    assert "Split" in passed(command("inspect", "--kernels", "open.onnx", "--inputShape=x:1,64"))
    assert "has no effect without --kernels" in command("inspect", "open.onnx", "--inputShape=x:1,64").err


def operators_of_integers() -> None:
    """``float.onnx`` with two products, each with a Relu, and ``integer.onnx``, as onnxruntime's quantizer writes it.

    The grids do the Relus, and the products are in another order.
    """
    graph = "g (float[4,8] x) => (float[4,6] y) { a = Gemm(x, w, v) r = Relu(a) c = Gemm(x, u, v) d = Relu(c) y = Add(r, d) }"
    weights = {"w": normal(8, 6, seed=1), "u": normal(8, 6, seed=2), "v": np.zeros(6, np.float32)}
    onnx.save(build_proto(graph, opset=17, **weights), "float.onnx")
    grids = {"x": (0.04, 128), "a": (0.06, 0), "c": (0.06, 0), "y": (0.1, 0)}
    constants = {f"{name}_scale": np.float32(scale) for name, (scale, _) in grids.items()}
    constants |= {f"{name}_zero": np.uint8(zero) for name, (_, zero) in grids.items()}
    constants |= {f"{name}_int": np.rint(weights[name] / 0.03).clip(-127, 127).astype(np.int8) for name in "wu"}
    constants |= {"scale": np.float32(0.03), "zero": np.int8(0)}
    nodes = [("QuantizeLinear", ["x", "x_scale", "x_zero"], "x_quantized", "")]
    for name, weight in (("c", "u"), ("a", "w")):
        inputs = [
            "x_quantized",
            "x_scale",
            "x_zero",
            f"{weight}_int",
            "scale",
            "zero",
            "",
            f"{name}_scale",
            f"{name}_zero",
        ]
        nodes.append(("QGemm", inputs, f"{name}_quantized", "com.microsoft"))
    terms = [f"{name}_{part}" for name in "ac" for part in ("quantized", "scale", "zero")]
    nodes.append(("QLinearAdd", [*terms, "y_scale", "y_zero"], "y_quantized", "com.microsoft"))
    nodes.append(("DequantizeLinear", ["y_quantized", "y_scale", "y_zero"], "y", ""))
    proto = onnx.load("float.onnx")
    del proto.graph.node[:], proto.graph.initializer[:]
    for kind, inputs, output, domain in nodes:
        proto.graph.node.append(onnx.helper.make_node(kind, inputs, [output], f"make_{output}", domain=domain))
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, "integer.onnx")


def test_files_with_the_integer_operators_of_onnxruntime_are_compared(workshop: Workshop) -> None:
    operators_of_integers()
    passed(command("compare", "float.onnx", "integer.onnx", "--json=c.json"))
    layers = json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"]
    assert [layer["tensor"] for layer in layers] == ["r", "d", "y"]
    assert min(layer["local"]["cosine"] for layer in layers) > 0.99


def test_compare_without_data_says_that_samples_are_random(converted: Workshop) -> None:
    out = passed(command("compare", "model.onnx", "out.onnx", "--samples=2"))
    assert "WARNING there are no data, so random samples are used" in out
    assert "2 random samples" in out


def test_what_compare_cuts_out_can_be_compared_again(converted: Workshop) -> None:
    passed(command("compare", "model.onnx", "out.ms", "--configFile=quant.cfg", "--extract-worst=2", "--outputDir=w"))
    parts = sorted(path for path in Path("w").iterdir() if path.is_dir())
    assert len(parts) == 2
    for part in parts:
        out = passed(
            command("compare", f"{part}/float/model.onnx", f"{part}/quantized/model.onnx", f"--inputs={part}/float")
        )
        assert "1 layer compared" in out


def test_compare_fails_below_the_gate_and_still_writes(converted: Workshop) -> None:
    outcome = command(
        "compare", "model.onnx", "out.onnx", "--minCosine=1", "--csv=c.csv", "--json=c.json", "--samples=2"
    )
    assert outcome.status == 1
    assert "below 1" in outcome.err
    assert Path("c.csv").is_file()
    found = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert (found["status"], len(found["layers"])) == (
        1,
        len(Path("c.csv").read_text(encoding="utf-8").splitlines()) - 1,
    )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("model.onnx", "out.txt"), 2, "does not end with .ms, .onnx, .nb"),
        (("out.ms", "out.onnx"), 2, "the float model comes first"),
        (("absent.cfg", "out.onnx"), 2, "does not end with"),
        (("out.onnx", "model.onnx"), 2, "the float model comes first"),
        (("model.onnx", "absent.ms"), 1, "does not exist"),
        (("model.onnx", "out.onnx", "--extract-worst=1"), 2, "belong together"),
        (("model.onnx", "out.onnx", "--order=best"), 2, "worst, graph"),
        (("model.onnx", "out.onnx", "--samples=0"), 2, "--samples"),
        (("model.onnx", "out.onnx", "--csv=out.onnx"), 2, "overwrite an input"),
        (("model.onnx", "out.onnx", "--inputs=absent"), 1, "no recorded samples"),
        (("model.onnx", "out.onnx", "--inputs=out.onnx"), 1, "cannot be read: they are no .npz file of numbers"),
        (("model.onnx", "out.onnx", "--breakBelow=2"), 2, "--breakBelow"),
    ],
)
def test_compare_refuses_what_makes_no_sense(
    converted: Workshop, arguments: tuple[str, ...], status: int, words: str
) -> None:
    outcome = command("compare", *arguments, "--json=r.json")
    assert (outcome.status, outcome.out) == (status, ""), outcome
    assert words in outcome.err
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["status"] == status


@pytest.mark.parametrize("sizes", ["N,3,9,8", "3,8,8"])
def test_compare_names_an_input_of_another_shape(workshop: Workshop, sizes: str) -> None:
    for name, shape in (("model.onnx", "N,3,8,8"), ("other.onnx", sizes)):
        onnx.save(build_proto(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}"), name)
    outcome = command("compare", "model.onnx", "other.onnx")
    assert outcome.status == 1
    assert f"its input 'x' has the shape [{sizes}], that of the float model [N,3,8,8]" in outcome.err


def test_sensitivity_prints_ranks_and_the_line_for_a_goal(workshop: Workshop) -> None:
    Path("quant.cfg").write_text(ini(SMALL), encoding="utf-8")
    arguments = ("sensitivity", "--modelFile=model.onnx", "--configFile=quant.cfg", "--csv=s.csv", "--json=s.json")
    passed(command(*arguments))
    reached = json.loads(Path("s.json").read_text(encoding="utf-8"))["quantized"]["cosine"]
    out = passed(command(*arguments, f"--targetCosine={1 - (1 - reached) / 1.2}"))
    data = json.loads(Path("s.json").read_text(encoding="utf-8"))
    assert data["skip_quant_node"] in out
    assert data["is_reached"]
    assert {layer["operator"] for layer in data["layers"]} >= {"Conv", "Gemm"}
    assert all(use["node"] or use["kernel"] for use in data["kernels"])


def test_sensitivity_that_misses_its_goal_still_says_what_each_layer_costs(workshop: Workshop) -> None:
    Path("quant.cfg").write_text(ini(WEIGHT) + "[micro_param]\nenable_micro=true\n", encoding="utf-8")
    flags = ("--modelFile=model.onnx", "--configFile=quant.cfg", "--targetCosine=0.99999999999999", "--json=s.json")
    outcome = command("sensitivity", *flags)
    assert outcome.status == 1
    assert "WARNING" in outcome.err
    assert "micro_param" in outcome.err
    assert "full_quant_param" not in outcome.err
    found = json.loads(Path("s.json").read_text(encoding="utf-8"))
    assert found["status"] == 1
    assert float(found["error"].split("; ")[1].split()[0]) == pytest.approx(found["reached"]["cosine"], abs=1e-9)
    assert {layer["operator"] for layer in found["layers"]} >= {"Conv", "Gemm"}


def test_sensitivity_measures_layers_in_loops_and_of_float16(workshop: Workshop) -> None:
    body = "b (int64 i, bool c, float[2,8] s) => (bool go, float[2,8] t) { go = Identity(c) t = MatMul(s, inner) }"
    graph = f"g (float[2,8] x) => (float[2,8] y) {{ h = MatMul(x, outer) y = Loop(times, yes, h) <body = {body}> }}"
    weights = {"inner": normal(8, 8, seed=1) / 3, "outer": normal(8, 8, seed=2) / 3}
    onnx.save(build_proto(graph, opset=17, times=np.array(2), yes=np.array(True), **weights), "loop.onnx")
    Path("weights.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    passed(command("sensitivity", "--modelFile=loop.onnx", "--configFile=weights.cfg", "--json=s.json"))
    layers = json.loads(Path("s.json").read_text(encoding="utf-8"))["layers"]
    assert [layer["operator"] for layer in layers] == ["MatMul", "MatMul"]

    half = build_proto(
        "g (float16[2,8] x) => (float16[2,8] y) { y = MatMul(x, w) }", opset=17, w=weights["inner"].astype("f2")
    )
    onnx.save(half, "half.onnx")
    passed(command("sensitivity", "--modelFile=half.onnx", "--configFile=weights.cfg", "--json=s.json"))
    assert len(json.loads(Path("s.json").read_text(encoding="utf-8"))["layers"]) == 1


def test_sensitivity_of_weights_without_data_says_what_it_measures_on(workshop: Workshop) -> None:
    Path("quant.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    out = passed(command("sensitivity", "--modelFile=model.onnx", "--configFile=quant.cfg"))
    assert "WARNING layers are measured on random samples" in out


@pytest.mark.parametrize("framework", ["TFLITE", "CAFFE"])
def test_models_of_other_frameworks_are_analysed(workshop: Workshop, framework: str) -> None:
    Path("weights.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    if framework == "TFLITE":
        model = Path("net.tflite")
        model.write_bytes(convolutional())
    else:
        model = Path("net.prototxt")
        convolution = layer("Convolution", "convolution_param { num_output: 8 kernel_size: 3 }")
        save(Path(), net(convolution, 1, 4, 6, 6), {"convolution": [normal(8, 4, 3, 3), normal(8)]})
    flags = (f"--fmk={framework}", f"--modelFile={model}", "--configFile=weights.cfg")
    assert "Conv" in passed(command("sensitivity", *flags))
    passed(command(*flags, "--outputFile=other", "--saveType=MINDIR_LITE"))
    assert "no layer breaks" in passed(command("compare", str(model), "other.ms"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--configFile=quant.cfg",), "--modelFile"),
        (("--modelFile=model.onnx", "--configFile=quant.cfg", "--fmk=OM"), "--fmk"),
        (("--modelFile=model.onnx",), "--configFile"),
        (("--modelFile=model.onnx", "--configFile=quant.cfg", "--targetCosine=1"), "--targetCosine"),
        (("--modelFile=model.onnx", "--configFile=quant.cfg", "--saveType=MINDIR"), "--saveType"),
    ],
)
def test_sensitivity_refuses_wrong_usage(workshop: Workshop, arguments: tuple[str, ...], words: str) -> None:
    Path("quant.cfg").write_text(ini(SMALL), encoding="utf-8")
    outcome = command("sensitivity", *arguments)
    assert outcome.status == 2
    assert words in outcome.err


@since("onnxruntime", 1, 20, reason="has fewer integer kernels")
def test_inspect_shows_integer_kernels_of_onnx_files_only(converted: Workshop) -> None:
    out = passed(command("inspect", "--kernels", "out.onnx"))
    assert "QLinearConv" in out
    assert "2 of 2 layers with weights compute in integers" in out
    outcome = command("inspect", "--kernels", "out.ms")
    assert outcome.status == 2
    assert "onnxruntime" in outcome.err


def test_a_preview_is_written_beside_the_conversion(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 3)
    data = {"calibrate_path": "x:pictures", "input_type": "IMAGE", "image_to_format": "RGB"}
    workshop.succeed("--preview=seen", config=changed(FULL, data_preprocess_param=data | {"calibrate_size": "3"}))
    assert sorted(path.name for path in Path("seen").iterdir()) == ["000.png", "001.png", "002.png"]
    with Image.open("seen/000.png") as shown, Image.open("pictures/000.png") as source:
        assert np.array_equal(np.asarray(shown), np.asarray(source))


def test_a_preview_needs_samples(workshop: Workshop) -> None:
    assert "no samples to show" in workshop.fail(2, "--preview=seen", config=WEIGHT)


@pytest.mark.parametrize("threads", [1, 2])  # with two, they are looked at beside other work
def test_equal_samples_are_a_warning(workshop: Workshop, threads: int) -> None:
    first = (workshop.folder / "bins/000.bin").read_bytes()
    for path in (workshop.folder / "bins").iterdir():
        path.write_bytes(first)
    said = workshop.succeed(f"--threads={threads}", "--savePlan=plan.json", config=FULL).err
    assert said.count("WARNING input 'x': all of the first 4 samples are equal") == 1
    planned = workshop.succeed(f"--threads={threads}", "--plan=plan.json", config=FULL).err
    assert planned.count("WARNING input 'x': all of the first 4 samples are equal") == 1


@pytest.mark.parametrize("command_line", ["compare model.onnx out.onnx", "sensitivity --modelFile=model.onnx"])
@pytest.mark.parametrize("path", ["model.onnx", "quant.cfg", "bins/000.bin"])
def test_a_result_is_never_written_over_what_it_was_refused_for(
    converted: Workshop, command_line: str, path: str
) -> None:
    before = Path(path).read_bytes()
    outcome = command(*command_line.split(), "--configFile=quant.cfg", f"--json={path}")
    assert outcome.status == 2
    assert Path(path).read_bytes() == before
