"""--inputDataType, --outputDataType, --fp16 and --inputShape: what the written file takes and gives."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import open_file
from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Config, Workshop, changed, model_proto, write_bins
from tests.support import normal

CONV = "g (float[N,3,8,8] x) => (float[N,20,8,8] y) { c = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv) y = Relu(c) }"
PLAIN = "g (float[N,3,8,8] x) => (float[N,20,8,8] y) { y = Conv<pads = [1,1,1,1]>(x, w_conv, b_conv) }"

FLOATS = {"FLOAT": np.float32, "FLOAT16": np.float16, "DEFAULT": np.float32}
CONFIGS: dict[str, Config | None] = {"float": None, "full": FULL, "weight": WEIGHT, "dynamic": DYNAMIC}


def device(name: str) -> Config:
    return changed(FULL, full_quant_param={"target_device": name})


def sample() -> np.ndarray:
    return np.fromfile("bins/000.bin", np.float32).reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)


def run(path: str, feed: dict[str, Any]) -> dict[str, np.ndarray]:
    return open_file(DEFAULT_ENGINE, Path(path)).run(feed)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("inputs", FLOATS)
@pytest.mark.parametrize("outputs", FLOATS)
def test_inputs_and_outputs_have_the_float_type_that_is_asked_for(
    workshop: Workshop, config: Config | None, inputs: str, outputs: str
) -> None:
    workshop.succeed(f"--inputDataType={inputs}", f"--outputDataType={outputs}", config=config)
    given = run("out.onnx", {"x": sample().astype(FLOATS[inputs])})["y"]
    assert given.dtype == FLOATS[outputs]
    assert cosine(given, run("model.onnx", {"x": sample()})["y"]) > 0.99


@pytest.mark.parametrize(
    ("target", "kind", "dtype"),
    [("CPU", "UINT8", np.uint8), ("NVGPU", "INT8", np.int8), ("DSP", "UINT8", np.uint8), ("ARM", "INT8", np.int8)],
)
def test_an_integer_input_takes_the_integers_of_the_plan(
    workshop: Workshop, target: str, kind: str, dtype: Any
) -> None:
    workshop.succeed(f"--inputDataType={kind}", "--savePlan=plan.json", config=device(target))
    grid = json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]["activations"]["x"]
    limits = np.iinfo(dtype)
    integers = np.clip(np.rint(sample() / grid["scale"]) + grid["zero_point"], limits.min, limits.max).astype(dtype)
    assert cosine(run("out.onnx", {"x": integers})["y"], run("model.onnx", {"x": sample()})["y"]) > 0.99


@pytest.mark.parametrize("graph", [CONV, PLAIN])
@pytest.mark.parametrize(
    ("target", "kind", "dtype"), [("CPU", "UINT8", np.uint8), ("DSP", "UINT8", np.uint8), ("ARM", "INT8", np.int8)]
)
def test_an_integer_output_gives_the_integers_of_the_plan(
    workshop: Workshop, graph: str, target: str, kind: str, dtype: Any
) -> None:
    onnx.save(model_proto(graph), workshop.model)
    flags = (f"--outputDataType={kind}", "--savePlan=plan.json", "--json=result.json")
    workshop.succeed(*flags, config=device(target))
    grid = json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]["activations"]["y"]
    integers = run("out.onnx", {"x": sample()})["y"]
    assert integers.dtype == dtype
    real = (integers.astype(np.float32) - grid["zero_point"]) * np.float32(grid["scale"])
    expected = run("model.onnx", {"x": sample()})["y"]
    assert cosine(real, expected) > 0.99
    proof = json.loads(Path("result.json").read_text(encoding="utf-8"))["artefacts"][0]["accuracy"][0]
    assert proof["sqnr"] > 20
    assert float(np.abs(real - expected).max()) <= proof["max_error"] + 1e-4


ENDS = {
    "channels last": "(float[1,8,8,3] x) => (float[1,8,8,20] y) { t = Transpose<perm=[0,3,1,2]>(x) "
    "c = Conv<pads=[1,1,1,1]>(t, w_conv, b_conv) r = Relu(c) y = Transpose<perm=[0,2,3,1]>(r) }",
    "a product": "(float[1,8,8,3] x) => (float[1,10] y) { t = Transpose<perm=[0,3,1,2]>(x) "
    "c = Conv<pads=[1,1,1,1]>(t, w_conv, b_conv) r = Relu(c) f = Flatten(r) y = MatMul(f, v) }",
}


@pytest.mark.parametrize("graph", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(("target", "kind", "dtype"), [("CPU", "UINT8", np.uint8), ("NVGPU", "INT8", np.int8)])
def test_what_moves_elements_and_products_have_integers_at_the_interface(
    workshop: Workshop, graph: str, target: str, kind: str, dtype: Any
) -> None:
    onnx.save(model_proto(f"g {graph}", v=normal(1280, 10)), workshop.model)
    flags = (f"--inputDataType={kind}", f"--outputDataType={kind}", "--savePlan=plan.json", "--inputDataFormat=NHWC")
    workshop.succeed(*flags, config=device(target))
    grids = json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]["activations"]
    limits, feed = np.iinfo(dtype), np.fromfile("bins/000.bin", np.float32).reshape(1, 8, 8, 3)
    integers = np.clip(np.rint(feed / grids["x"]["scale"]) + grids["x"]["zero_point"], limits.min, limits.max)
    given = run("out.onnx", {"x": integers.astype(dtype)})["y"]
    assert given.dtype == dtype
    real = (given.astype(np.float32) - grids["y"]["zero_point"]) * np.float32(grids["y"]["scale"])
    assert cosine(real, run("model.onnx", {"x": feed})["y"]) > 0.99


STEM = "a = Conv<strides=[2,2]>(x, w) r = Relu(a) b = Conv(r, v) s = Relu(b) "
"""A network that reads a picture, with a layer behind it that is worth computing with integers."""


def save_network_of_pictures(workshop: Workshop, ending: str) -> None:
    """The stem and what follows it, with samples."""
    text = f"g (float[1,3,64,64] x) => (float[1,256,32,32] y) {{ {STEM} {ending} }}"
    weights = {"w": normal(16, 3, 1, 1), "v": normal(256, 16, 1, 1), "u": normal(256, 256, 1, 1)}
    onnx.save(model_proto(text, **weights), workshop.model)
    for index in range(4):
        normal(1, 3, 64, 64, seed=index).tofile(f"bins/{index:03}.bin")


def test_layers_that_read_a_picture_compute_with_integers_where_the_input_is_to_be_integers(workshop: Workshop) -> None:
    save_network_of_pictures(workshop, "y = Conv(s, u)")
    said = workshop.succeed("--savePlan=plan.json", config=FULL).out
    assert "x" not in json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]["activations"], said
    said = workshop.succeed("--inputDataType=UINT8", config=FULL).said
    assert "--inputDataType=UINT8: layers at the interface compute with integers" in said
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8


def test_layers_that_take_longer_compute_with_integers_where_the_input_is_to_be_integers(workshop: Workshop) -> None:
    steps = "".join(f"r{i} = Relu(y{i}) y{i + 1} = MatMul(r{i}, v)" for i in range(6))
    text = f"g (float[3,64] x) => (float[3,64] y6) {{ y0 = MatMul(x, v) {steps} }}"
    onnx.save(model_proto(text, v=normal(64, 64)), workshop.model)
    for index in range(4):
        normal(3, 64, seed=index).tofile(f"bins/{index:03}.bin")
    assert "all nodes compute with floats" in workshop.succeed(config=FULL).said
    assert "faster or more accurate in float" in workshop.succeed("--inputDataType=UINT8", config=FULL).said
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    assert "it is quantized to UINT8" in workshop.fail(1, "--inputDataType=INT8", config=FULL)


def test_ends_beside_floats_are_quantized_at_the_interface(workshop: Workshop) -> None:
    """Scores behind a Softmax, another name of them, and an input that floats read as well."""
    text = (
        "g (float[1,3,8,8] x) => (float[1,6] p, float[1,6] q, float[1,3,8,8] e) "
        "{ c = Conv(x, w) a = GlobalAveragePool(c) f = Flatten(a) p = Softmax(f) q = Identity(p) e = Erf(x) }"
    )
    onnx.save(model_proto(text, w=normal(6, 3, 8, 8)), workshop.model)
    flags = ("--inputDataType=UINT8", "--outputDataType=UINT8")
    said = workshop.succeed(*flags, "--savePlan=plan.json", config=FULL).said
    assert "p, q, e are quantized at the interface of the file only" in said
    written, plan = Path("out.onnx").read_bytes(), json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]
    graph = onnx.load_from_string(written).graph
    assert {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)} == {onnx.TensorProto.UINT8}
    assert plan["ends"] == ["e", "p", "q", "x"]
    grid, real = plan["activations"]["x"], sample()
    integers = np.clip(np.rint(real / np.float32(grid["scale"])) + grid["zero_point"], 0, 255)
    wanted, given = run("model.onnx", {"x": real}), run("out.onnx", {"x": integers.astype(np.uint8)})
    for name, expected in wanted.items():
        step, zero = plan["activations"][name]["scale"], plan["activations"][name]["zero_point"]
        numbers = (given[name].astype(np.float32) - zero) * step
        assert np.max(np.abs(numbers - expected)) < 0.03 * np.max(np.abs(expected)) + step, name
    workshop.succeed(*flags, "--plan=plan.json", config=FULL)
    assert Path("out.onnx").read_bytes() == written


def test_integers_of_the_other_sign_are_refused_at_ends_beside_floats(workshop: Workshop) -> None:
    onnx.save(model_proto(CONV.replace("y = Relu(c)", "y = Erf(c)")), workshop.model)
    assert "use --outputDataType=UINT8" in workshop.fail(1, "--outputDataType=INT8", config=FULL)


def test_integers_of_the_other_sign_are_refused_with_the_right_type(workshop: Workshop) -> None:
    said = workshop.fail(1, "--inputDataType=INT8", config=FULL)
    assert "it is quantized to UINT8" in said
    assert "use --inputDataType=UINT8" in said


def test_an_integer_interface_leaves_no_node_without_reader(workshop: Workshop) -> None:
    onnx.save(model_proto(CONV), workshop.model)
    workshop.succeed("--inputDataType=UINT8", "--outputDataType=UINT8", config=FULL)
    graph = onnx.load("out.onnx").graph
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    assert [node.name for node in graph.node if not read & set(node.output)] == []
    assert [tensor.name for tensor in graph.initializer if tensor.name not in read] == []


@pytest.mark.parametrize(
    ("flag", "config"),
    [
        ("--inputDataType=INT8", None),
        ("--inputDataType=INT8", FULL),
        ("--inputDataType=UINT8", WEIGHT),
        ("--outputDataType=UINT8", None),
        ("--outputDataType=INT8", FULL),
        ("--inputDataType=INT32", FULL),
        ("--inputDataType=INT64", None),
    ],
)
def test_a_type_that_an_input_or_output_cannot_have_is_refused(
    workshop: Workshop, flag: str, config: Config | None
) -> None:
    message = workshop.fail(1, flag, config=config)
    assert flag.split("=")[1] in message
    assert "input x" in message or "output y" in message


def test_integer_inputs_take_other_integers_and_keep_float_ones(workshop: Workshop) -> None:
    graph = "g (int64[1,6] ids) => (float[1,6,4] y) { e = Gather(table, ids) y = MatMul(e, w) }"
    onnx.save(model_proto(graph, table=normal(30, 8), w=normal(8, 4)), workshop.model)
    ids = np.array([[3, 1, 29, 0, 4, 4]])
    workshop.succeed("--inputDataType=INT32")
    np.testing.assert_allclose(
        run("out.onnx", {"ids": ids.astype(np.int32)})["y"], run("model.onnx", {"ids": ids})["y"], rtol=1e-4, atol=1e-5
    )
    workshop.succeed("--inputDataType=FLOAT16", output="same")
    run("same.onnx", {"ids": ids})


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_float_constants_can_be_stored_in_half_the_space(workshop: Workshop, config: Config | None) -> None:
    onnx.save(model_proto(w_conv=normal(64, 3, 3, 3), b_conv=normal(64), w_fc=normal(5, 64)), workshop.model)
    if config is DYNAMIC:
        config = changed(DYNAMIC, common_quant_param={"skip_quant_node": "conv_out"})
    workshop.succeed(config=config, output="whole")
    workshop.succeed("--fp16=on", config=config)
    kinds = {tensor.name: tensor.data_type for tensor in onnx.load("out.onnx").graph.initializer}
    if config is None or "skip_quant_node" in config.get("common_quant_param", {}):
        assert onnx.TensorProto.FLOAT16 in kinds.values()
        assert Path("out.onnx").stat().st_size < 0.75 * Path("whole.onnx").stat().st_size
    assert cosine(run("out.onnx", {"x": sample()})["y"], run("model.onnx", {"x": sample()})["y"]) > 0.99


def test_layers_that_a_goal_leaves_in_float_can_be_stored_in_half_the_space(workshop: Workshop) -> None:
    onnx.save(model_proto(w_conv=normal(24, 3, 3, 3), b_conv=normal(24), w_fc=normal(5, 24)), workshop.model)
    config = changed(FULL, common_quant_param={"target_cosine": "0.9999999", "max_float_nodes": "1"})
    workshop.succeed(config=config, output="whole")
    outcome = workshop.succeed("--fp16=on", config=config)
    assert re.search(
        r"1 node in float( \(and \d+ more .+\))?, judged on 4 samples; .+ with skip_quant_node=", outcome.out
    )
    kinds = [tensor.data_type for tensor in onnx.load("out.onnx").graph.initializer]
    assert onnx.TensorProto.FLOAT16 in kinds
    assert Path("out.onnx").stat().st_size < Path("whole.onnx").stat().st_size
    assert cosine(run("out.onnx", {"x": sample()})["y"], run("model.onnx", {"x": sample()})["y"]) > 0.99


def test_a_fixed_input_shape_is_the_shape_of_the_file(workshop: Workshop) -> None:
    workshop.succeed("--inputShape=x:3,3,8,8")
    shape = onnx.load("out.onnx").graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [3, 3, 8, 8]
    assert run("out.onnx", {"x": np.zeros((3, 3, 8, 8), np.float32)})["y"].shape == (3, 5)


def test_without_a_shape_dimensions_stay_dynamic(workshop: Workshop) -> None:
    workshop.succeed(config=FULL)
    assert run("out.onnx", {"x": np.zeros((5, 3, 8, 8), np.float32)})["y"].shape == (5, 5)


def test_an_input_name_with_a_colon_can_be_shaped(workshop: Workshop) -> None:
    proto = model_proto()
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "serving:0"
    onnx.save(proto, workshop.model)
    workshop.succeed("--inputShape=serving:0:2,3,8,8")
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


ASCEND = device("ASCEND")


def test_ascend_fixes_static_shapes(workshop: Workshop) -> None:
    workshop.succeed(
        "--optimize=ascend_oriented", config=changed(ASCEND, ascend_context={"input_shape": "x:[1,3,8,8]"})
    )
    shape = onnx.load("out.onnx").graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [1, 3, 8, 8]


def test_ascend_keeps_dynamic_dimensions_and_calibrates_with_the_given_shape(workshop: Workshop) -> None:
    context = {"input_shape": "x:[-1,3,8,8]", "dynamic_dims": "[1~4],[8]"}
    workshop.succeed("--inputShape=x:1,3,8,8", config=changed(ASCEND, ascend_context=context))
    shape = onnx.load("out.onnx").graph.input[0].type.tensor_type.shape
    assert [(dim.dim_param, dim.dim_value) for dim in shape.dim] == [("N", 0), ("", 3), ("", 8), ("", 8)]
    assert run("out.onnx", {"x": np.zeros((8, 3, 8, 8), np.float32)})["y"].shape == (8, 5)


@pytest.mark.parametrize(
    ("flags", "context", "message"),
    [
        ((), {"input_shape": "xx:[1,3,8,8]"}, "did you mean x?"),
        ((), {"input_shape": "x:[1,3,8]"}, "4 dimensions"),
        ((), {"input_shape": "x:[1,3,8,9]"}, "is 8, not 9"),
        ((), {"input_shape": "x:1,3"}, "input_shape"),
        (("--inputShape=x:5,3,8,8",), {"input_shape": "x:[-1,3,8,8]", "dynamic_dims": "[1~4],[8]"}, "dynamic_dims"),
        (("--inputShape=x:2,3,8,8",), {"input_shape": "x:[1,3,8,8]"}, "does not fit"),
        (("--inputShape=xx:1,3,8,8",), {"input_shape": "x:[-1,3,8,8]", "dynamic_dims": "[1~4]"}, "'xx'"),
        ((), {"input_shape": "x:[-1,3,8,8]", "dynamic_dims": "[4~1]"}, "dynamic_dims"),
        ((), {"input_shape": "x:[-1,3,8,8]", "dynamic_dims": "[1,2]"}, "dynamic_dims"),
        ((), {"dynamic_dims": "[1]"}, "input_shape"),
    ],
)
def test_ascend_shapes_that_do_not_fit_are_refused(
    workshop: Workshop, flags: tuple[str, ...], context: dict[str, str], message: str
) -> None:
    assert message in workshop.fail(2, *flags, config=changed(ASCEND, ascend_context=context))


def test_ascend_context_without_the_target_is_warned_about(workshop: Workshop) -> None:
    said = workshop.succeed(config=changed(FULL, ascend_context={"input_shape": "x:[1,3,8,8]"})).err
    assert "WARNING" in said
    assert "ascend_context" in said
    shape = onnx.load("out.onnx").graph.input[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == "N"


def test_single_numbers_and_inputs_that_nothing_reads_are_integers_as_well(workshop: Workshop) -> None:
    text = "g (float[1,3,8,8] x, float s, float[1,4] u) => (float[1,6,6,6] y) { c = Conv(x, w) y = Mul(c, s) }"
    onnx.save(model_proto(text, w=normal(6, 3, 3, 3)), workshop.model)
    for index in range(4):
        for name, shape in (("s", ()), ("u", (1, 4))):
            Path(name).mkdir(exist_ok=True)
            np.abs(normal(*shape, seed=index)).astype(np.float32).tofile(f"{name}/{index:03}.bin")
    config = changed(FULL, data_preprocess_param={"calibrate_path": "x:bins,s:s,u:u"})
    workshop.succeed("--inputDataType=UINT8", "--savePlan=plan.json", config=config)
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]
    assert plan["ends"] == ["s", "x"]
    inputs = onnx.load("out.onnx").graph.input
    assert {value.type.tensor_type.elem_type for value in inputs} == {onnx.TensorProto.UINT8}


def test_an_output_that_layers_read_has_eight_bits_beside_narrower_activations(workshop: Workshop) -> None:
    text = "g (float[1,3,8,8] x) => (float[1,6,6,6] c, float[1,6,6,6] y) { c = Conv(x, w) y = Conv(c, v) }"
    onnx.save(model_proto(text, w=normal(6, 3, 3, 3), v=normal(6, 6, 1, 1)), workshop.model)
    config = changed(FULL, full_quant_param={"activation_bits": "4"})
    workshop.succeed("--outputDataType=UINT8", "--savePlan=plan.json", config=config)
    outputs = onnx.load("out.onnx").graph.output
    assert {value.type.tensor_type.elem_type for value in outputs} == {onnx.TensorProto.UINT8}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("g (float[1,3,8,8] x) => (float[1,6,6,6] c, float[6,3,3,3] w) { c = Conv(x, w) }", "w"),
        ("g (float[1,3,8,8] x) => (float[1,6,6,6] c, double[1,6,6,6] d) { c = Conv(x, w) d = Cast<to=11>(c) }", "d"),
    ],
)
def test_outputs_that_cannot_be_quantized_are_refused_by_name(workshop: Workshop, text: str, name: str) -> None:
    onnx.save(model_proto(text, w=normal(6, 3, 3, 3)), workshop.model)
    said = workshop.fail(1, "--outputDataType=UINT8", config=FULL)
    assert f"output {name}: the output cannot have type UINT8: it is not quantized" in said


SOFT = "g (float16[N,3,8,8] x) => (float16[N,20,1,1] y) { c = Conv(x, w_conv) p = GlobalAveragePool(c) y = Softmax<axis = 1>(p) }"
BESIDE = (
    "g (float16[N,3,8,8] x) => (float16[N,20,6,6] y, float16[N,3,8,8] z) { c = Conv(x, w_conv) y = Relu(c) z = Exp(x) }"
)


@pytest.mark.parametrize("graph", [SOFT, BESIDE])
@pytest.mark.parametrize(("target", "kind"), [("CPU", "UINT8"), ("ARM", "INT8"), ("NVGPU", "INT8")])
def test_a_model_in_float16_takes_and_gives_integers(workshop: Workshop, graph: str, target: str, kind: str) -> None:
    """The Casts between float16 and what is quantized go with the ends."""
    onnx.save(model_proto(graph, w_conv=normal(20, 3, 3, 3).astype(np.float16)), workshop.model)
    write_bins(workshop.folder / "halves", 4, (1, 8, 8, 3), dtype="float16")
    config = changed(device(target), data_preprocess_param={"calibrate_path": "x:halves"})
    flags = (f"--inputDataType={kind}", f"--outputDataType={kind}", "--savePlan=plan.json", "--json=result.json")
    assert "float32 is quantized" not in workshop.succeed(*flags, config=config).said
    proto = onnx.load("out.onnx")
    wanted = onnx.TensorProto.DataType.Value(kind)
    ends = [value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)]
    assert ends == [wanted] * len(ends)
    assert "Cast" not in {node.op_type for node in proto.graph.node}
    accuracy = json.loads(Path("result.json").read_text(encoding="utf-8"))["artefacts"][0]["accuracy"]
    assert min(output["cosine"] for output in accuracy) > 0.999
    workshop.succeed(*flags[:2], "--plan=plan.json", config=config, output="again")
    assert Path("again.onnx").read_bytes() == Path("out.onnx").read_bytes()


def test_the_note_about_an_end_in_float16_names_the_end(workshop: Workshop) -> None:
    onnx.save(model_proto(SOFT, w_conv=normal(20, 3, 3, 3).astype(np.float16)), workshop.model)
    write_bins(workshop.folder / "halves", 4, (1, 8, 8, 3), dtype="float16")
    config = changed(FULL, data_preprocess_param={"calibrate_path": "x:halves"})
    assert "y is quantized at the interface" in workshop.succeed("--outputDataType=UINT8", config=config).said
