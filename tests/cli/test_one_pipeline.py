"""What only other formats had before ``.nb`` files went through the same quantizer and the same driver."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from converter_lite.cli.opt import cli as opt
from converter_lite.formats.paddle.format import NbFormat
from tests.cli.workshop import FULL, ROOT, WEIGHT, Outcome, Workshop, changed, command, model_proto
from tests.support import build, normal

NB = "--saveType=NAIVE_BUFFER"
SAMPLE = {
    "common_quant_param": {"quant_type": "FULL_QUANT"},
    "data_preprocess_param": {
        "calibrate_path": f"input:{ROOT}/samples/calibration",
        "calibrate_size": "16",
        "input_type": "IMAGE",
        "image_to_format": "RGB",
        "normalize_mean": "[127.5, 127.5, 127.5]",
        "normalize_std": "[127.5, 127.5, 127.5]",
        "resize_width": "64",
        "resize_height": "64",
        "resize_method": "LINEAR",
    },
}


def proven(workshop: Workshop) -> tuple[float, float]:
    """Cosine and largest error of the first output of the file."""
    result = json.loads((workshop.folder / "r.json").read_text())
    (artefact,) = result["artefacts"]
    (output,) = artefact["accuracy"]
    return float(output["cosine"]), float(output["max_error"])


@pytest.mark.parametrize(("key", "goal"), [("target_error", 0.05), ("target_cosine", 0.9999)])
def test_a_goal_is_reached_by_leaving_layers_in_float(key: str, goal: float, workshop: Workshop) -> None:
    config = changed(SAMPLE, common_quant_param={key: str(goal)})
    shown = workshop.succeed(NB, "--json=r.json", config=config, model=str(ROOT / "samples/shapes.onnx")).out
    cosine, error = proven(workshop)
    assert "nodes in float" in shown
    assert error <= goal if key == "target_error" else cosine >= goal


def test_a_goal_that_leaves_nothing_to_quantize_should_be_a_lower_one(workshop: Workshop) -> None:
    config = changed(SAMPLE, common_quant_param={"target_error": "0.000001"})
    told = workshop.fail(1, NB, config=config, model=str(ROOT / "samples/shapes.onnx"))
    assert "ask for a lower target_cosine or a larger target_error" in told


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("min_quant_weight_size", "500", "min_quant_weight_size=500 elements"),
        ("min_quant_weight_channel", "20", "min_quant_weight_channel=20 output channels"),
    ],
)
def test_small_weights_stay_float_as_the_log_says(key: str, value: str, reason: str, workshop: Workshop) -> None:
    (workshop.folder / "before").mkdir()
    workshop.succeed(NB, config=WEIGHT, output="before/out")
    shown = workshop.succeed(NB, "--savePlan=plan.json", config=changed(WEIGHT, common_quant_param={key: value})).out
    nodes = json.loads((workshop.folder / "plan.json").read_text())["NAIVE_BUFFER"]["nodes"]
    left = [name for name, node in nodes.items() if reason in node.get("reason", "")]
    assert left
    assert all(name in shown for name in left if "Conv" in nodes[name]["op_type"])
    assert (workshop.folder / "out.nb").read_bytes() != (workshop.folder / "before/out.nb").read_bytes()


def test_statistics_are_cached_and_used(workshop: Workshop) -> None:
    workshop.succeed(NB, "--cache=cache", config=FULL, output="first")
    (kept,) = (workshop.folder / "cache").iterdir()
    workshop.succeed(NB, "--cache=cache", config=FULL, output="second")
    assert (workshop.folder / "first.nb").read_bytes() == (workshop.folder / "second.nb").read_bytes()
    kept.write_bytes(b"damaged")
    assert "this statistics file cannot be used" in workshop.succeed(NB, "--cache=cache", config=FULL).err


def test_the_sensitivity_of_layers_is_that_of_the_rules_of_the_format(workshop: Workshop) -> None:
    workshop.succeed(NB, "--savePlan=plan.json", config=FULL)
    plan = json.loads((workshop.folder / "plan.json").read_text())["NAIVE_BUFFER"]["nodes"]
    done = command("sensitivity", "--modelFile=model.onnx", "--configFile=quant.cfg", NB, "--csv=layers.csv")
    assert done.status == 0, done
    with (workshop.folder / "layers.csv").open() as lines:
        layers = {row["Node"] for row in csv.DictReader(lines)}
    assert layers == {name for name, node in plan.items() if node["mode"] != "float"}


def test_inputs_of_matrix_products_are_smoothed(workshop: Workshop) -> None:
    scales = normal(1, 1, 64)
    scales[..., 3] *= 60  # a channel that is large in every row
    body = "s = Mul(x, scales) a = MatMul(s, w) y = Relu(a)"
    model = build(f"g (float[1,8,64] x) => (float[1,8,32] y) {{ {body} }}", scales=scales, w=normal(64, 32))
    ir.save(model, workshop.folder / "product.onnx")
    data = workshop.folder / "rows"
    data.mkdir()
    for index in range(4):
        normal(1, 8, 64, seed=index).tofile(data / f"{index}.bin")
    config = changed(FULL, data_preprocess_param={"calibrate_path": "x:rows"})
    workshop.succeed(NB, "--savePlan=plan.json", "--json=r.json", config=config, model="product.onnx")
    with_smoothing = proven(workshop)[0]
    plan = json.loads((workshop.folder / "plan.json").read_text())["NAIVE_BUFFER"]
    assert list(plan["smoothing"]) == ["s"]
    config = changed(config, full_quant_param={"equalization": "false"})
    workshop.succeed(NB, "--json=r.json", config=config, model="product.onnx", output="plain")
    assert with_smoothing > proven(workshop)[0]


def run_opt(*flags: str) -> Outcome:
    return command("--model_file=model.onnx", *flags, program=opt)


def test_a_file_of_opt_is_run_before_it_is_handed_out(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cosine 1.000000" in run_opt("--optimize_out=good").err

    def broken(self: NbFormat, path: Path, *, like: ir.Model) -> bytes:
        del self, path, like
        graph = model_proto()
        graph.graph.node.append(onnx.helper.make_node("Log", ["y"], ["z"]))
        graph.graph.node.append(onnx.helper.make_node("Sqrt", ["z"], ["nan"]))
        graph.graph.output[0].name = "nan"
        return graph.SerializeToString()

    monkeypatch.setattr(NbFormat, "runnable", broken)
    done = run_opt("--optimize_out=bad")
    assert (done.status, "NaN" in done.err) == (1, True), done
    assert not (workshop.folder / "bad.nb").exists()


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("target", ["arm", "x86"])
def test_opt_and_converter_lite_give_the_same_bytes_for_the_same_wish(
    target: str, bits: int, workshop: Workshop
) -> None:
    config = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": str(bits)}}
    workshop.succeed(NB, f"--nbTarget={target}", config=config, output="one")
    flags = ("--quant_model=true", f"--quant_type=QUANT_INT{bits}", f"--valid_targets={target}")
    assert run_opt("--optimize_out=other", *flags).status == 0
    assert (workshop.folder / "one.nb").read_bytes() == (workshop.folder / "other.nb").read_bytes()
