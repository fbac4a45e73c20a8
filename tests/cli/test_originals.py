"""Words of the original's configuration beyond the common ones: what each does to a conversion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.data.random_samples import random_samples, with_pictures
from converter_lite.passes.pipeline import RULE_NAMES
from converter_lite.passes.vendor_names import OUR_RULES, WITHOUT_COUNTERPART
from converter_lite.quantization.plan import load_plans
from tests.cli.workshop import FULL, WEIGHT, Workshop, changed, command, model_proto
from tests.support import build, random_feed, run

BATCHNORM = """
g (float[1,3,8,8] x) => (float[1,20,8,8] y) {
    conv_out = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv)
    y = BatchNormalization(conv_out, b_conv, b_conv, b_conv, variance)
}
"""

TO_FLOAT = {"transform_quant_param": {"export_precision_mode": "FLOAT32"}}


def kinds(path: str) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_a_quantized_model_becomes_a_float_one(workshop: Workshop) -> None:
    workshop.succeed(config=FULL, output="int8")
    made = workshop.succeed(config=TO_FLOAT, model="int8.onnx", output="float")
    assert "the real numbers that its integers stand for" in made.out
    assert not kinds("float.onnx") & {"QuantizeLinear", "DequantizeLinear"}
    feed = {"x": np.fromfile("bins/000.bin", np.float32).reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)}
    (before,), (after,) = (run(Path(name), feed).values() for name in ("int8.onnx", "float.onnx"))
    assert 0 < np.abs(before - after).max() < 0.02 * np.abs(before).max()


def test_what_integers_clamped_at_zero_stays_clamped_in_float(workshop: Workshop) -> None:
    body = "conv_out = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv) y = Relu(conv_out)"
    onnx.save(model_proto(f"g (float[1,3,8,8] x) => (float[1,20,8,8] y) {{ {body} }}"), "model.onnx")
    workshop.succeed(config=changed(FULL, full_quant_param={"target_device": "DSP"}), output="int8")
    workshop.succeed(config=TO_FLOAT, model="int8.onnx", output="float")
    assert "Relu" not in kinds("int8.onnx")
    assert run(Path("float.onnx"), random_feed(ir.load("float.onnx")))["y"].min() == 0


def test_a_quantized_model_can_be_quantized_anew(workshop: Workshop) -> None:
    workshop.succeed(config=FULL, output="int8")
    assert "export_precision_mode=FLOAT32" in workshop.fail(1, config=FULL, model="int8.onnx", output="again")
    anew = changed(FULL, transform_quant_param={"export_precision_mode": "FLOAT32"})
    workshop.succeed(
        "--savePlan=plan.json",
        config=changed(anew, full_quant_param={"target_device": "ARM"}),
        model="int8.onnx",
        output="again",
    )
    assert load_plans(Path("plan.json"), ["ONNX"])["ONNX"].target == "ARM"


def test_on_the_fly_without_a_type_is_for_quantized_models(workshop: Workshop) -> None:
    config = {"weight_quant_param": {"dequant_strategy": "ON_THE_FLY"}}
    assert "set quant_type=WEIGHT_QUANT" in workshop.fail(2, config=config)
    workshop.succeed(config=FULL, output="int8")
    assert workshop.convert(config=config, model="int8.onnx").status == 0
    assert "QuantizeLinear" in kinds("out.onnx")


@pytest.mark.parametrize("registry", [{"disable_fusion": "on"}, {"fusion_blacklists": "ConvBatchNormFusion"}])
def test_a_fusion_is_left_out(workshop: Workshop, registry: dict[str, str]) -> None:
    onnx.save(model_proto(BATCHNORM, variance=np.full(20, 2, np.float32)), "model.onnx")
    workshop.succeed(output="fused")
    workshop.succeed(config={"registry": registry})
    assert kinds("fused.onnx") == {"Conv"}
    assert kinds("out.onnx") == {"Conv", "BatchNormalization"}


@pytest.mark.parametrize("registry", [{}, {"disable_fusion": "on"}])
def test_leaving_a_fusion_out_where_none_is_done_is_warned_about(workshop: Workshop, registry: dict[str, str]) -> None:
    flags = [] if registry else ["--optimize=none"]
    outcome = workshop.convert(*flags, config={"registry": {"fusion_blacklists": "ConvBatchNormFusion", **registry}})
    assert (
        "fusion_blacklists: has no effect with " + ("disable_fusion=on" if registry else "--optimize=none")
        in outcome.err
    )
    outcome = workshop.convert(config={"registry": {"fusion_blacklists": "ConvBatchNormFusion"}})
    assert "has no effect" not in outcome.err


SIZES = """g (float[2,12] x) => (float[3,8] y) {
    c = Cast<to=1>(sizes) d = Mul(c, two) s = Cast<to=7>(d) z = Reshape(x, s) y = Relu(z) }"""
"""A shape that is known when constants are computed."""


@pytest.mark.parametrize("config", [None, {"registry": {"disable_fusion": "on"}}])
def test_a_format_that_refuses_what_was_not_optimized_says_so(
    workshop: Workshop, config: dict[str, dict[str, str]] | None
) -> None:
    onnx.save(model_proto(SIZES, sizes=np.array([1.5, 4], np.float64), two=np.float32(2)), "model.onnx")
    workshop.succeed("--saveType=MINDIR_LITE")
    flags = ["--optimize=none"] if config is None else []
    outcome = workshop.convert("--saveType=MINDIR_LITE", *flags, config=config)
    assert outcome.status == 1
    assert "--optimize=general (and disable_fusion=off) makes such nodes constant" in outcome.err
    assert "after optimization (none)" in outcome.out


def test_a_fusion_that_does_not_exist_is_a_mistake(workshop: Workshop) -> None:
    message = workshop.fail(2, config={"registry": {"fusion_blacklists": "ConvBatchnormFusion"}})
    assert "no rewrite is called 'ConvBatchnormFusion'; did you mean ConvBatchNormFusion?" in message
    made = workshop.convert(config={"registry": {"fusion_blacklists": "FFNFusion"}})
    assert made.status == 0
    assert "no rewrite here does what FFNFusion does: no effect" in made.out + made.err


def test_every_name_of_the_original_means_rules_that_exist() -> None:
    assert {rule for rules in OUR_RULES.values() for rule in rules} <= RULE_NAMES
    assert not WITHOUT_COUNTERPART & OUR_RULES.keys()


@pytest.mark.parametrize(
    ("words", "skipped"),
    [
        ("node_conv*", {"node_conv_out"}),
        ("*", {"node_conv_out", "node_y"}),
        ("node_?", {"node_y"}),
        ("Gemm", {"node_y"}),
        ("Conv,node_y", {"node_conv_out", "node_y"}),
    ],
)
def test_nodes_are_skipped_by_pattern_and_by_operator(workshop: Workshop, words: str, skipped: set[str]) -> None:
    config = changed(FULL, common_quant_param={"skip_quant_node": words})
    made = workshop.convert("--dryRun", "--json=made.json", "-v", config=config)
    said = {line.split()[0] for line in made.out.splitlines() if "named in skip_quant_node" in line}
    if words == "*":
        assert (made.status, "or name fewer nodes in skip_quant_node" in made.err) == (1, True)
    else:
        assert {name for name in said if name.startswith("node_")} & {"node_conv_out", "node_y"} == skipped, made.out


def test_a_pattern_without_a_match_is_a_mistake(workshop: Workshop) -> None:
    config = changed(FULL, common_quant_param={"skip_quant_node": "layer*"})
    assert "no node or tensor matches 'layer*'" in workshop.fail(2, config=config)


def test_a_quoted_list_of_names_is_one_name(workshop: Workshop) -> None:
    config = changed(FULL, common_quant_param={"skip_quant_node": "'Conv,Gemm'"})
    message = workshop.fail(2, config=config)
    assert "no node or tensor is called 'Conv,Gemm'; without quotes these are several names" in message


def test_kirin_gets_a_plan_and_an_onnx_model(workshop: Workshop) -> None:
    config = changed(FULL, full_quant_param={"target_device": "KIRIN"})
    workshop.succeed("--savePlan=plan.json", config=config)
    plan = load_plans(Path("plan.json"), ["ONNX"])["ONNX"]
    assert plan.target == "KIRIN"
    assert {plan.activations["x"].spec.signed, plan.weights["w_conv"].spec.symmetric} == {False, True}
    assert "saveType=ONNX" in workshop.fail(2, "--saveType=MINDIR_LITE", config=config, output="other")


def test_drawn_pictures_are_smooth_and_judge_a_search(workshop: Workshop) -> None:
    model = build(
        "g (float[1,3,32,32] x, float[1,7] z) => (float[1,3,32,32] y, float[1,7] w) { y = Relu(x) w = Relu(z) }"
    )
    plain = random_samples(model, 1)
    (drawn,) = with_pictures(plain)
    (noise,) = plain
    assert drawn["z"].shape == noise["z"].shape
    steps = [float(np.square(np.diff(sample["x"])).mean() / sample["x"].var()) for sample in (drawn, noise)]
    assert steps[0] < 0.8 < 1.5 < steps[1]
    search = {"common_quant_param": {"bit_num": "0"}, "mixed_bit_weight_quant_param": {"auto_tune": "true"}}
    config = changed(WEIGHT, **search)
    losses = [line for line in workshop.convert("-v", config=config).out.splitlines() if " lose " in line]
    with_data = changed(config, mixed_bit_weight_quant_param={"use_cv_data": "true"})
    others = [line for line in workshop.convert("-v", config=with_data).out.splitlines() if " lose " in line]
    assert len(losses) == len(others) == 2
    assert not set(losses) & set(others)
    data = {"calibrate_path": "x:bins", "calibrate_size": "4", "input_type": "BIN"}
    made = workshop.convert(config=changed(with_data, data_preprocess_param=data), output="own")
    assert "use_cv_data: has no effect: the search measures on the calibration samples" in made.out + made.err


@pytest.mark.parametrize("save_type", ["ONNX", "MINDIR_LITE", "NAIVE_BUFFER"])
def test_outputs_get_the_layout_that_is_asked_for(workshop: Workshop, save_type: str) -> None:
    graph = "g (float[1,3,8,6] x) => (float[1,20,8,6] y) { y = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv) }"
    onnx.save(model_proto(graph), "model.onnx")
    workshop.succeed("--outputDataFormat=NHWC", f"--saveType={save_type}")
    if save_type == "ONNX":
        feed = random_feed(ir.load("model.onnx"))
        (before,), (after,) = (run(Path(name), feed).values() for name in ("model.onnx", "out.onnx"))
        assert np.allclose(before.transpose(0, 2, 3, 1), after)


@pytest.mark.parametrize(("layout", "said"), [("NCHW", "ONNX models have this layout"), ("NHWC", "four dimensions")])
def test_a_layout_that_changes_nothing_is_remarked_on(workshop: Workshop, layout: str, said: str) -> None:
    made = workshop.convert(f"--outputDataFormat={layout}")
    assert made.status == 0
    assert f"--outputDataFormat={layout} has no effect" in made.out + made.err
    assert said in made.out + made.err


def test_a_layout_needs_a_model_whose_layout_is_known(workshop: Workshop) -> None:
    workshop.succeed("--saveType=MINDIR_LITE", "--inputShape=x:1,3,8,8")
    assert command(
        "--fmk=MSLITE", "--modelFile=out.ms", "--outputFile=again", "--outputDataFormat=NCHW"
    ).err.startswith("ERROR --outputDataFormat: a .ms file does not say how its outputs are laid out")
