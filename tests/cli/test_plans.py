"""--savePlan and --plan."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Config, Workshop, changed, model_proto
from tests.support import normal

RESIDUAL = """
g (float[N,3,8,8] x) => (float[N,20,8,8] y) {
    a = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv)
    r = Relu(a)
    b = Conv<pads = [1,1,1,1]>(r, w_second)
    s = Add(b, r)
    y = Relu(s)
}
"""


def saved(workshop: Workshop, name: str = "plan.json") -> Any:
    return json.loads((workshop.folder / name).read_text(encoding="utf-8"))


def store(workshop: Workshop, plan: Any, name: str = "plan.json") -> None:
    (workshop.folder / name).write_text(json.dumps(plan), encoding="utf-8")


CONFIGS = {
    "full": FULL,
    "per layer": changed(FULL, full_quant_param={"per_channel": "false"}),
    "nvgpu": changed(FULL, full_quant_param={"target_device": "NVGPU"}),
    "dsp": changed(FULL, full_quant_param={"target_device": "DSP"}),
    "ascend": changed(FULL, full_quant_param={"target_device": "ASCEND"}),
    "weight 8": WEIGHT,
    "weight 4": changed(WEIGHT, common_quant_param={"bit_num": "4"}),
    "dynamic": DYNAMIC,
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_saved_plan_gives_the_same_bytes(workshop: Workshop, config: dict[str, dict[str, str]]) -> None:
    workshop.succeed("--savePlan=plan.json", config=config)
    workshop.succeed("--plan=plan.json", "--savePlan=again.json", config=config, output="second")
    assert (workshop.folder / "second.onnx").read_bytes() == (workshop.folder / "out.onnx").read_bytes()
    assert saved(workshop) == saved(workshop, "again.json")


def test_a_saved_plan_of_a_network_that_stays_float_by_its_costs_gives_the_same_bytes(workshop: Workshop) -> None:
    steps = "".join(f"r{i} = Relu(y{i}) y{i + 1} = Conv<pads=[1,1,1,1]>(r{i}, v{i})" for i in range(6))
    weights: dict[str, Any] = {f"v{i}": normal(8, 8, 3, 3, seed=i) for i in range(6)}
    text = f"g (float[1,3,8,8] x) => (float[1,8,8,8] y6) {{ y0 = Conv(x, w) {steps} }}"
    onnx.save(model_proto(text, w=normal(8, 3, 1, 1), **weights), "model.onnx")
    for index in range(60):  # more than layers are fitted to
        normal(1, 3, 8, 8, seed=index).tofile(f"bins/{index:03}.bin")
    config = changed(FULL, data_preprocess_param={"calibrate_size": "60"})
    said = workshop.succeed("--savePlan=plan.json", config=config)
    assert "all nodes compute with floats" in said.err
    for key in ("activation_quant_method", "activation_bits", "portable", "--cache"):
        assert key in said.err  # without effect, and not without a word
    workshop.succeed("--plan=plan.json", config=config, output="second")
    assert Path("second.onnx").read_bytes() == Path("out.onnx").read_bytes()


@pytest.mark.parametrize("config", [FULL, DYNAMIC], ids=["full", "dynamic"])
def test_keys_that_are_said_to_have_no_effect_have_none(workshop: Workshop, config: Config) -> None:
    steps = "".join(f"r{i} = Relu(y{i}) y{i + 1} = MatMul(r{i}, v{i})" for i in range(6))
    weights: dict[str, Any] = {f"v{i}": normal(64, 64, seed=i) for i in range(6)}
    onnx.save(
        model_proto(
            f"g (float[3,64] x) => (float[3,64] y6) {{ y0 = MatMul(x, w) {steps} }}", w=normal(64, 64), **weights
        ),
        "model.onnx",
    )
    for path in (workshop.folder / "bins").iterdir():
        np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32).tofile(path)
    data = changed(config, data_preprocess_param={**FULL["data_preprocess_param"]})
    said = workshop.succeed("--savePlan=plan.json", config=data).said
    line = next(line for line in said.splitlines() if "all nodes compute with floats" in line)
    values = {
        "activation_quant_method": ("full_quant_param", "KL"),
        "activation_bits": ("full_quant_param", "4"),
        "portable": ("common_quant_param", "false"),
        "quant_strategy": ("dynamic_quant_param", "ACWL"),
        "smoothing": ("dynamic_quant_param", "false"),
    }
    named = [key for key in values if key in line]
    assert len(named) > 2
    for key in named:
        section, value = values[key]
        workshop.succeed(config=changed(data, **{section: {key: value}}), output="other")
        assert Path("other.onnx").read_bytes() == Path("out.onnx").read_bytes(), key
    workshop.succeed("--plan=plan.json", config=data, output="again")
    assert Path("again.onnx").read_bytes() == Path("out.onnx").read_bytes()


@pytest.mark.parametrize("config", [FULL, WEIGHT], ids=["full", "weight"])
def test_a_saved_plan_of_all_formats_gives_the_same_bytes(workshop: Workshop, config: Config) -> None:
    save_type = "--saveType=ONNX,MINDIR_LITE,NAIVE_BUFFER"
    text = "g (float[1,3,8,8] x) => (float[1,64,8,8] y) { a = Conv<pads=[1,1,1,1]>(x, w) r = Relu(a) y = Conv(r, v) }"
    onnx.save(model_proto(text, w=normal(16, 3, 3, 3), v=normal(64, 16, 1, 1)), "model.onnx")
    workshop.succeed(save_type, "--savePlan=plan.json", config=config)
    workshop.succeed(save_type, "--plan=plan.json", config=config, output="second")
    for suffix in (".onnx", ".ms", ".nb"):
        assert Path(f"second{suffix}").read_bytes() == Path(f"out{suffix}").read_bytes(), suffix


@pytest.mark.parametrize("used", [FULL, WEIGHT, DYNAMIC], ids=["full", "weight", "dynamic"])
@pytest.mark.parametrize("made", [FULL, WEIGHT, DYNAMIC], ids=["full", "weight", "dynamic"])
def test_a_plan_of_another_quant_type_is_refused(workshop: Workshop, made: Config, used: Config) -> None:
    workshop.succeed("--savePlan=plan.json", config=made, output="first")
    if made is used:
        workshop.succeed("--plan=plan.json", config=used)
    else:
        assert "plan.json: ONNX: the plan is for another quant_type" in workshop.fail(
            2, "--plan=plan.json", config=used
        )


@pytest.mark.parametrize("device", ["CPU", "NVGPU", "ASCEND", "DSP"])
def test_a_saved_plan_of_a_residual_network_gives_the_same_bytes(workshop: Workshop, device: str) -> None:
    onnx.save(model_proto(RESIDUAL, w_second=normal(20, 20, 3, 3, seed=5)), workshop.model)
    config = changed(FULL, full_quant_param={"target_device": device})
    workshop.succeed("--savePlan=plan.json", config=config)
    workshop.succeed("--plan=plan.json", "--savePlan=again.json", config=config, output="second")
    assert (workshop.folder / "second.onnx").read_bytes() == (workshop.folder / "out.onnx").read_bytes()
    assert saved(workshop) == saved(workshop, "again.json")


def test_a_plan_says_which_inputs_of_an_integer_node_stay_float(workshop: Workshop) -> None:
    onnx.save(model_proto(RESIDUAL, w_second=normal(20, 20, 3, 3, seed=5)), workshop.model)
    workshop.succeed("--savePlan=plan.json", config=changed(FULL, full_quant_param={"target_device": "NVGPU"}))
    assert saved(workshop)["ONNX"]["nodes"]["node_s"]["float_inputs"] == [0]


def test_a_plan_holds_one_plan_for_each_output_format(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL)
    plan = saved(workshop)
    assert list(plan) == ["ONNX"]
    assert set(plan["ONNX"]) == {"target", "nodes", "activations", "weights"}
    assert set(plan["ONNX"]["nodes"]) == {f"node_{name}" for name in ("conv_out", "relu_out", "pooled", "flat", "y")}


def test_a_plan_goes_into_a_folder_that_is_missing(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plans/new/plan.json", config=FULL)
    assert saved(workshop, "plans/new/plan.json")["ONNX"]["target"] == "CPU"


def test_a_node_edited_to_float_is_written_in_float(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=WEIGHT)
    plan = saved(workshop)
    plan["ONNX"]["nodes"]["node_conv_out"].update(mode="float", reason="by hand")
    del plan["ONNX"]["weights"]["w_conv"]
    store(workshop, plan)
    out = workshop.succeed("--plan=plan.json", config=WEIGHT, output="edited").out
    assert "1 x by hand" in out
    weights = {tensor.name: tensor.data_type for tensor in onnx.load("edited.onnx").graph.initializer}
    assert weights["w_conv"] == onnx.TensorProto.FLOAT
    assert onnx.TensorProto.FLOAT not in {kind for name, kind in weights.items() if name.startswith("w_fc_quantized")}


def test_a_full_plan_edited_to_float_is_respected(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL)
    plan = saved(workshop)
    plan["ONNX"]["nodes"]["node_y"] = {"op_type": "Gemm", "mode": "float", "reason": "by hand"}
    store(workshop, plan)
    workshop.succeed("--plan=plan.json", config=FULL, output="edited")
    graph = onnx.load("edited.onnx").graph
    gemm = next(node for node in graph.node if node.op_type == "Gemm")
    assert gemm.input[1] == "w_fc"


def test_an_edited_scale_is_the_scale_of_the_file(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL)
    plan = saved(workshop)
    plan["ONNX"]["activations"]["x"]["scale"] = 0.0625
    store(workshop, plan)
    workshop.succeed("--plan=plan.json", "--minCosine=0.5", config=FULL, output="edited")
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load("edited.onnx").graph.initializer}
    assert tensors["x_scale"] == np.float32(0.0625)


def spoil_nothing_quantized(plan: Any) -> None:
    for node in plan["nodes"].values():
        node.update(mode="float", reason="by hand")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda plan: plan["nodes"].update(node_z=plan["nodes"].pop("node_y")), "no node is called 'node_z'"),
        (lambda plan: plan["activations"].update(xx=plan["activations"].pop("x")), "no tensor is called 'xx'"),
        (lambda plan: plan["weights"].update(w=plan["weights"].pop("w_fc")), "no constant is called 'w'"),
        (lambda plan: plan["weights"]["w_conv"]["scale"].pop(), "scale"),
        (lambda plan: plan["weights"]["w_conv"].update(axis=1), "axis 1"),
        (lambda plan: plan["weights"]["w_conv"].update(axis=9), "axis 9"),
        (lambda plan: plan["activations"]["x"].update(scale=0), "scale"),
        (lambda plan: plan["activations"]["x"].update(scale=-0.5), "scale"),
        (lambda plan: plan["activations"]["x"].update(scale="wide"), "wide"),
        (lambda plan: plan["activations"]["x"].update(scale=1e400), "scale"),
        (lambda plan: plan["activations"]["x"].update(scale=float("nan")), "scale"),
        (lambda plan: plan["activations"]["x"].update(zero_point=500), "zero_point"),
        (lambda plan: plan["activations"]["x"].update(zero_point=10**30), "usable plan"),
        (lambda plan: plan["activations"]["x"].update(bits=99), "bits"),
        (lambda plan: plan["activations"]["x"].update(bits=None), "usable plan"),
        (lambda plan: plan["activations"]["x"].update(colour="red"), "colour"),
        (lambda plan: plan["activations"].update(x=None), "usable plan"),
        (lambda plan: plan["nodes"]["node_y"].update(mode="int7"), "int7"),
        (lambda plan: plan["nodes"]["node_y"].update(mode="float"), "reason"),
        (lambda plan: plan["nodes"].update(node_y=[]), "usable plan"),
        (lambda plan: plan.update(nodes=None), "usable plan"),
        (lambda plan: plan.update(comment=""), "comment"),
        (lambda plan: plan.pop("weights"), "weights"),
        (lambda plan: plan.update(target="NVGPU"), "NVGPU"),
        (lambda plan: plan.update(target="ABACUS"), "ABACUS"),
    ],
)
def test_a_spoilt_plan_is_refused_with_the_place(workshop: Workshop, edit: Any, message: str) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    plan = saved(workshop)
    edit(plan["ONNX"])
    store(workshop, plan)
    assert message in workshop.fail(2, "--plan=plan.json", config=FULL)


@pytest.mark.parametrize("edit", [lambda nodes: nodes.pop("node_y"), lambda nodes: nodes.clear()])
def test_a_plan_that_misses_nodes_is_never_a_defect(workshop: Workshop, edit: Any) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    plan = saved(workshop)
    edit(plan["ONNX"]["nodes"])
    store(workshop, plan)
    assert workshop.convert("--plan=plan.json", config=FULL).status in (0, 1, 2)


@pytest.mark.parametrize("section", ["activations", "weights"])
def test_a_plan_that_misses_parameters_is_never_a_defect(workshop: Workshop, section: str) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    original = saved(workshop)
    for name in original["ONNX"][section]:
        plan = saved(workshop)
        del plan["ONNX"][section][name]
        store(workshop, plan, "edited.json")
        assert workshop.convert("--plan=edited.json", config=FULL).status in (0, 1, 2), name


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '{"MINDIR_LITE": {}}', '{"ONNX": []}', "[" * 100_000, "\0\xff"]
)
def test_a_file_that_is_no_plan_is_refused_by_name(workshop: Workshop, text: str) -> None:
    (workshop.folder / "plan.json").write_bytes(text.encode("latin-1"))
    assert "plan.json" in workshop.fail(2, "--plan=plan.json", config=FULL)


def test_a_plan_of_another_model_is_refused(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    proto = model_proto()
    for node in proto.graph.node:
        node.name = f"other_{node.name}"
    onnx.save(proto, workshop.model)
    assert "no node is called 'node_conv_out'" in workshop.fail(2, "--plan=plan.json", config=FULL)


def test_a_plan_of_another_quantization_type_is_refused(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    assert "plan.json" in workshop.fail(2, "--plan=plan.json", config=WEIGHT)
    workshop.succeed("--savePlan=plan.json", config=DYNAMIC, output="first")
    assert "plan.json" in workshop.fail(2, "--plan=plan.json", config=FULL)


def test_a_plan_in_which_everything_is_float_is_refused(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    plan = saved(workshop)
    spoil_nothing_quantized(plan["ONNX"])
    store(workshop, plan)
    assert "nothing would be quantized: 5 x by hand" in workshop.fail(1, "--plan=plan.json", config=FULL)


def test_a_missing_plan_is_named(workshop: Workshop) -> None:
    assert "absent.json: the plan cannot be read: No such file" in workshop.fail(2, "--plan=absent.json", config=FULL)


@pytest.mark.parametrize("flag", ["--savePlan=plan.json", "--plan=plan.json"])
def test_a_float_conversion_has_no_plan(workshop: Workshop, flag: str) -> None:
    (workshop.folder / "plan.json").write_text('{"ONNX": {}}', encoding="utf-8")
    assert "plan.json" in workshop.fail(2, flag)


def test_a_dry_run_has_no_plan_to_save(workshop: Workshop) -> None:
    assert "--savePlan" in workshop.fail(2, "--dryRun", "--savePlan=plan.json", config=FULL)


def test_a_dry_run_checks_the_plan_too(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    workshop.succeed("--plan=plan.json", "--dryRun", config=FULL)
    plan = saved(workshop)
    plan["ONNX"]["nodes"]["node_z"] = plan["ONNX"]["nodes"].pop("node_y")
    store(workshop, plan)
    assert "node_z" in workshop.fail(2, "--plan=plan.json", "--dryRun", config=FULL)


def test_a_plan_that_cannot_be_saved_leaves_no_model(workshop: Workshop) -> None:
    (workshop.folder / "file").write_text("", encoding="utf-8")
    workshop.fail(1, "--savePlan=file/plan.json", config=FULL)


def test_the_plan_file_of_a_run_is_not_overwritten(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL, output="first")
    assert "overwrite" in workshop.fail(2, "--plan=plan.json", "--savePlan=./plan.json", config=FULL)


def test_paths_may_hold_blanks_and_letters_of_any_script(workshop: Workshop) -> None:
    Path("mit Leerzeichen").mkdir()
    workshop.succeed("--savePlan=mit Leerzeichen/план.json", config=FULL, output="mit Leerzeichen/模型")
    assert Path("mit Leerzeichen/模型.onnx").is_file()


def test_a_plan_without_the_integers_that_are_asked_for_at_the_interface_is_refused_by_name(workshop: Workshop) -> None:
    workshop.succeed("--savePlan=plan.json", config=FULL)
    said = workshop.fail(2, "--plan=plan.json", "--outputDataType=UINT8", config=FULL)
    assert "the plan does not quantize y, which is to be integers" in said
    assert "layers at the interface" not in said  # the plan decides


def test_a_plan_gives_integers_at_an_interface_that_floats_read_too(workshop: Workshop) -> None:
    graph = "g (float[N,3,8,8] x) => (float[N,20,8,8] y, float[N,3,8,8] z) { y = Conv<pads = [1,1,1,1]>(x, w_conv) z = Exp(x) }"
    onnx.save(model_proto(graph), workshop.model)
    config = changed(FULL, full_quant_param={"target_device": "ARM"})
    workshop.succeed("--savePlan=plan.json", config=config)
    workshop.succeed("--plan=plan.json", "--inputDataType=INT8", config=config)
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT8
