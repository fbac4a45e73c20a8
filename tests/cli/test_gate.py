"""The quality gate: when it holds, and what a miss does."""

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.log import shown_below
from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Workshop, changed, model_proto

DATA = {"data_preprocess_param": FULL["data_preprocess_param"]}

LOSSY = changed(FULL, full_quant_param={"per_channel": "true"})
"""Together with :func:`spoil`, far below the default gate."""


def spoil(workshop: Workshop) -> None:
    """A model whose first sample decides the range alone: the others vanish on its grid."""
    onnx.save(
        model_proto("g (float[N,3,8,8] x) => (float[N,20,8,8] y) { y = Conv<pads = [1,1,1,1]>(x, w_conv) }"),
        "model.onnx",
    )
    values = np.fromfile("bins/000.bin", np.float32)
    values[0] = 1e5
    values.tofile("bins/000.bin")


def test_the_default_gate_refuses_a_bad_result_and_names_the_output(workshop: Workshop) -> None:
    spoil(workshop)
    message = workshop.fail(1, config=LOSSY)
    assert "of output y is below the quality gate 0.95" in message
    assert "--minCosine" in message
    assert "converter_lite sensitivity" in message
    assert "docs/" not in message


def test_infinite_numbers_of_float16_are_said_to_be_that(workshop: Workshop) -> None:
    graph = "g (float[1,300] x) => (float[1,20] y) { c = MatMul(x, w) h = Mul(c, c) y = Mul(h, small) }"
    onnx.save(model_proto(graph, w=np.full((300, 20), 30, np.float32), small=np.float32(1e-4)), "model.onnx")
    workshop.succeed("--saveType=NAIVE_BUFFER", output="float32")
    message = workshop.fail(1, "--saveType=NAIVE_BUFFER", "--nbFp16=on")
    assert "output y: the written model gives NaN or infinite values\n  float16 holds numbers up to 65504" in message


def test_a_missed_gate_shows_the_whole_comparison(workshop: Workshop) -> None:
    spoil(workshop)
    out = workshop.convert(config=LOSSY).out.splitlines()
    (header,) = (index for index, line in enumerate(out) if line.split()[:2] == ["output", "cosine"])
    assert out[header - 2 : header] == [
        "out.onnx: below the quality gate",
        "  compared with the float model on 4 calibration samples, in exact arithmetic:",
    ]
    assert out[header + 1].split()[0] == "y"
    assert float(out[header + 1].split()[1]) < 0.95


def test_a_missed_gate_leaves_its_figures_in_the_json_result(workshop: Workshop) -> None:
    spoil(workshop)
    assert workshop.convert("--json=r.json", config=LOSSY).status == 1
    (accuracy,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["accuracy"]
    assert accuracy["name"] == "y"
    assert accuracy["cosine"] < 0.95


@pytest.mark.parametrize("cosine", [0.94, 0.949996, 0.94999999999])
def test_the_cosine_of_a_missed_gate_is_reported_in_enough_digits(cosine: float) -> None:
    text = shown_below(cosine, 0.95)
    assert float(text) < 0.95
    assert len(text) >= 7


@pytest.mark.parametrize("flag", ["--minCosine=0", "--minCosine=-1"])
def test_a_gate_of_zero_lets_a_bad_result_pass(workshop: Workshop, flag: str) -> None:
    spoil(workshop)
    workshop.succeed(flag, config=LOSSY)


def test_a_gate_that_is_asked_for_replaces_the_default(workshop: Workshop) -> None:
    assert "quality gate 1" in workshop.fail(1, "--minCosine=1", config=FULL)
    workshop.succeed("--minCosine=0.99", config=FULL)


def test_weights_of_one_scale_are_gated_like_others(workshop: Workshop) -> None:
    spoil(workshop)
    per_layer = changed(FULL, full_quant_param={"per_channel": "false"})
    assert "quality gate 0.95" in workshop.fail(1, config=per_layer)
    workshop.succeed("--minCosine=0", config=per_layer)


def test_a_target_without_scales_per_channel_is_gated_like_others(workshop: Workshop) -> None:
    spoil(workshop)
    dsp = changed(FULL, full_quant_param={"target_device": "DSP"})
    assert "quality gate 0.95" in workshop.fail(1, config=dsp)


@pytest.mark.parametrize("bits", range(1, 17))
def test_weights_of_every_width_are_corrected_on_samples(workshop: Workshop, bits: int) -> None:
    config = changed({**WEIGHT, **DATA}, common_quant_param={"bit_num": str(bits)})
    assert "4 calibration samples" in workshop.succeed(config=config).out


def test_weights_of_few_bits_are_gated_when_asked(workshop: Workshop) -> None:
    config = changed({**WEIGHT, **DATA}, common_quant_param={"bit_num": "2"})
    workshop.succeed(config=config)
    assert "quality gate 0.999" in workshop.fail(1, "--minCosine=0.999", config=config)


def test_random_data_gate_only_when_asked(workshop: Workshop) -> None:
    config = changed(WEIGHT, common_quant_param={"bit_num": "8"})
    assert "random samples" in workshop.succeed(config=config).out
    assert "quality gate 1" in workshop.fail(1, "--minCosine=1", config=config)


def test_an_output_that_is_no_longer_finite_is_refused_whatever_the_gate(workshop: Workshop) -> None:
    onnx.save(
        model_proto(
            "g (float[N,3,8,8] x) => (float[N,20,8,8] y) {"
            " c = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv) shifted = Relu(c) one = Add(shifted, tiny) y = Div(one, one) }",
            tiny=np.full(1, 1e-30, np.float32),
        ),
        "model.onnx",
    )
    outcome = workshop.convert("--minCosine=-1", config=FULL)
    if outcome.status:
        assert "NaN or infinite" in outcome.err
    else:
        assert "nan" not in outcome.out


def test_dynamic_weights_of_one_scale_are_gated_like_others(workshop: Workshop) -> None:
    weight = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    weight[:, 0] *= 1e4
    onnx.save(
        model_proto(
            "g (float[1,8] x) => (float[1,15] y) { p = MatMul(x, w) y = Slice(p, one, end, one) }",
            w=weight,
            one=np.array([1]),
            end=np.array([16]),
        ),
        "model.onnx",
    )
    for path in (workshop.folder / "bins").iterdir():
        np.random.default_rng(1).normal(size=8).astype(np.float32).tofile(path)
    config = {**DYNAMIC, **DATA}
    workshop.succeed(config=config)
    per_layer = changed(config, dynamic_quant_param={"quant_strategy": "ACWL"})
    assert "quality gate 0.95" in workshop.fail(1, config=per_layer)
    workshop.succeed("--minCosine=0", config=per_layer)


CHANNELS = 48
"""Enough that integers pay on every processor."""


def save_chain(workshop: Workshop, layers: int) -> None:
    """Convolutions of which the first reads a channel that it ignores, and that hides the others on their common grid."""
    rng = np.random.default_rng(0)
    shape, names = (CHANNELS, CHANNELS, 3, 3), ["x", *(f"t{i}" for i in range(layers - 1)), "y"]
    weights = {f"w{i}": rng.normal(size=shape).astype(np.float32) / np.float32(20) for i in range(layers)}
    weights["w0"][:, 0] = 0.0
    nodes = " ".join(f"{b} = Conv<pads = [1,1,1,1]>({a}, w{i})" for i, (a, b) in enumerate(itertools.pairwise(names)))
    graph = f"g (float[N,{CHANNELS},16,16] x) => (float[N,{CHANNELS},16,16] y) {{ {nodes} }}"
    onnx.save(model_proto(graph, **weights), "model.onnx")
    for path in (workshop.folder / "bins").iterdir():
        values = rng.normal(size=(CHANNELS, 16, 16)).astype(np.float32)
        values[0] *= 1e4
        values.tofile(path)


@pytest.mark.parametrize("save_type", ["ONNX", "MINDIR_LITE", "NAIVE_BUFFER", "PADDLE"])
def test_what_costs_most_stays_float_where_the_default_gate_is_missed(workshop: Workshop, save_type: str) -> None:
    save_chain(workshop, layers=5)
    flags = (f"--saveType={save_type}", "--inputDataFormat=NCHW", f"--inputShape=x:1,{CHANNELS},16,16")
    outcome = workshop.succeed(*flags, "--json=r.json", "--savePlan=p.json", config=FULL)
    assert (
        "of output y is below the quality gate 0.95: the layers that cost the most accuracy are left out" in outcome.err
    )
    assert "1 node at most" in outcome.err
    assert "the same again with skip_quant_node=node_t0" in outcome.out
    (artefact,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert artefact["accuracy"][0]["cosine"] > 0.99
    nodes = json.loads(Path("p.json").read_text(encoding="utf-8"))[save_type]["nodes"]
    assert {name for name, node in nodes.items() if node["mode"] == "float"} == {"node_t0"}
    assert "left in float to reach cosine 0.975" in nodes["node_t0"]["reason"]


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        (("--minCosine=0.95",), {}),  # a demand on the file as it is configured
        ((), {"full_quant_param": {"target_device": "DSP"}}),  # integers only
        (("--plan=p.json",), {}),  # the user decided
    ],
)
def test_a_file_is_refused_where_nothing_may_be_left_out(
    workshop: Workshop, flags: tuple[str, ...], keys: dict[str, dict[str, str]]
) -> None:
    save_chain(workshop, layers=5)
    layout = ("--inputDataFormat=NCHW",)
    workshop.succeed("--minCosine=0", "--savePlan=p.json", *layout, config=FULL)
    assert "quality gate 0.95" in workshop.fail(1, *flags, *layout, config=changed(FULL, **keys))


def test_a_file_is_refused_where_a_quarter_of_the_nodes_is_none(workshop: Workshop) -> None:
    save_chain(workshop, layers=3)
    assert "quality gate 0.95" in workshop.fail(1, "--inputDataFormat=NCHW", config=FULL)


def test_without_a_gate_nothing_is_left_out(workshop: Workshop) -> None:
    save_chain(workshop, layers=5)
    outcome = workshop.succeed("--minCosine=0", "--inputDataFormat=NCHW", config=FULL)
    assert "left out" not in outcome.said
