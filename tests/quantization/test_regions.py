"""Nodes and regions that take longer in integers than in float."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.quantization.placement import decide_nodes
from converter_lite.quantization.plan import QuantPlan
from converter_lite.quantization.regions import TAKES_LONGER
from converter_lite.targets.devices import CPU
from converter_lite.targets.spec import TargetSpec
from tests.support import build, full, normal, random_feed, run

assert CPU.costs is not None
ALWAYS = replace(CPU, costs=replace(CPU.costs, shortest=0))
"""The device, for networks of few layers."""

MULTIPLIED = (
    "g (float[1,64,64,64] x) => (float[1,64,60,60] y) "
    "{ a = Conv<pads=[1,1,1,1]>(x, w1) b = Conv<group=64>(a, w2) r = Relu(b) y = Conv(r, w3) }"
)
MANY: dict[str, Any] = {"w1": normal(64, 64, 3, 3), "w2": normal(128, 1, 3, 3), "w3": normal(64, 128, 3, 3)}

WIDE: dict[str, Any] = {"w1": normal(64, 64, 1, 1), "w3": normal(64, 64, 1, 1)}


def planned(
    text: str, target: TargetSpec = ALWAYS, skip: frozenset[str] = frozenset(), **constants: Any
) -> tuple[dict[str, str], QuantPlan]:
    """Result -> mode of the node that makes it."""
    model = build(text, opset=14, **constants)
    plan = decide_nodes(model, target, skip)
    return {str(node.outputs[0].name): plan.mode(node).name for node in model.graph}, plan


def test_a_network_of_wide_layers_computes_in_integers() -> None:
    text = "g (float[1,64,40,40] x) => (float[1,64,40,40] y) { a = Conv(x, w1) r = Relu(a) y = Conv(r, w3) }"
    assert set(planned(text, **WIDE)[0].values()) == {"INTEGER"}


def test_single_channels_with_several_results_stay_float_and_their_weights_are_stored() -> None:
    modes, _ = planned(MULTIPLIED, **MANY)
    assert modes == {"a": "INTEGER", "b": "WEIGHT", "r": "FLOAT", "y": "INTEGER"}


@pytest.mark.parametrize(
    ("width", "mode"),
    [
        (4, "WEIGHT"),  # an integer kernel gathers the places of each group
        (8, "INTEGER"),  # about as fast, and stays between integers
        (32, "INTEGER"),
    ],
)
def test_narrow_groups_stay_float(width: int, mode: str) -> None:
    layers = (
        f"a = Conv<pads=[1,1,1,1]>(x, w1) r = Relu(a) b = Conv<group={128 // width}, pads=[1,1,1,1]>(r, w2) s = Relu(b) "
        "y = Conv<pads=[1,1,1,1]>(s, w3)"
    )
    weights = {"w1": normal(128, 64, 3, 3), "w2": normal(128, width, 3, 3), "w3": normal(64, 128, 3, 3)}
    modes, _ = planned(f"g (float[1,64,28,28] x) => (float[1,64,28,28] y) {{ {layers} }}", **weights)
    assert modes == {"a": "INTEGER", "r": modes["r"], "b": mode, "s": modes["s"], "y": "INTEGER"}


def test_a_long_kernel_over_a_single_channel_stays_float() -> None:
    layers = "a = Conv(x, w1) b = Conv<pads=[16,0,16,0]>(a, w2) y = Conv(b, w3) c = Conv(p, w4) q = Conv(c, w4)"
    weights = {"w1": normal(1, 64, 1, 1), "w2": normal(32, 1, 33, 1), "w3": normal(16, 32, 1, 1)}
    graph = "g (float[1,64,64,400] x, float[1,64,40,40] p) => (float[1,16,64,400] y, float[1,64,40,40] q)"
    modes, _ = planned(f"{graph} {{ {layers} }}", **weights, w4=normal(64, 64, 1, 1))
    assert (modes["b"], modes["q"]) == ("WEIGHT", "INTEGER")


@pytest.mark.parametrize(("width", "mode"), [(8, "WEIGHT"), (16, "WEIGHT"), (32, "INTEGER")])
def test_groups_save_between_float_functions_only_where_they_are_wide(width: int, mode: str) -> None:
    layers = (
        f"a = Tanh(x) b = Conv<group={128 // width}, pads=[1,1,1,1]>(a, w2) y = Tanh(b) c = Conv(p, w1) q = Conv(c, w1)"
    )
    weights = {"w1": normal(64, 64, 1, 1), "w2": normal(128, width, 3, 3)}
    graph = "g (float[1,128,28,28] x, float[1,64,40,40] p) => (float[1,128,28,28] y, float[1,64,40,40] q)"
    modes, _ = planned(f"{graph} {{ {layers} }}", **weights)
    assert (modes["b"], modes["q"]) == (mode, "INTEGER")


@pytest.mark.parametrize(
    ("inputs", "rows", "mode"),
    [
        (16, 1, "WEIGHT"),  # the kernel multiplies scales of 4,000 columns
        (256, 1, "INTEGER"),
        (64, 64, "INTEGER"),  # it does so once for all rows
    ],
)
def test_a_wide_product_of_few_inputs_stays_float(inputs: int, rows: int, mode: str) -> None:
    graph = f"g (float[1,64,40,40] p, float[{rows},{inputs}] x) => (float[1,64,40,40] q, float[{rows},4000] y)"
    modes, _ = planned(
        f"{graph} {{ c = Conv(p, w1) q = Conv(c, w1) y = MatMul(x, w) }}",
        w1=normal(64, 64, 1, 1),
        w=normal(inputs, 4000),
    )
    assert (modes["y"], modes["q"]) == (mode, "INTEGER")


def test_a_network_in_which_all_would_stay_float_stores_its_small_weights() -> None:
    text = "g (float[1,4,4,4] x) => (float[1,4,4,4] y) { a = Conv(x, w1) r = Relu(a) y = Conv(r, w3) }"
    modes, _ = planned(text, w1=normal(4, 4, 1, 1), w3=normal(4, 4, 1, 1))
    assert modes == {"a": "WEIGHT", "r": "FLOAT", "y": "WEIGHT"}


@pytest.mark.parametrize(("channels", "mode"), [(4, "WEIGHT"), (128, "FLOAT")])
def test_small_weights_are_stored_whatever_is_left_out(channels: int, mode: str) -> None:
    steps = "a = Conv(x, w1) r = Relu(a) y = Conv<pads=[1,1,1,1]>(r, w3)"
    text = f"g (float[1,4,9,9] x) => (float[1,{channels},9,9] y) {{ {steps} }}"
    weights = {"w1": normal(channels, 4, 1, 1), "w3": normal(channels, channels, 3, 3)}
    before, _ = planned(text, **weights)
    assert before["y"] == ("WEIGHT" if channels == 4 else "INTEGER")
    modes, _ = planned(text, skip=frozenset({"Conv_2"}), **weights)
    assert modes == {"a": mode, "r": "FLOAT", "y": "FLOAT"}


def test_a_run_that_is_the_call_of_the_runtime_is_quantized_as_it_was_asked() -> None:
    text = "g (float[1,8,9,9] x) => (float[1,8,9,9] y) { a = Conv(x, w) r = Relu(a) y = Conv(r, w) }"
    modes, _ = planned(text, CPU, w=normal(8, 8, 1, 1))
    assert set(modes.values()) == {"INTEGER"}


def test_a_product_behind_a_recurrent_layer_is_no_network_of_its_own() -> None:
    """The layer takes most of the time, and computes in float here."""
    text = (
        "g (float[8,1,40] x) => (float[1,12] y) "
        "{ a, h = LSTM<hidden_size=64>(x, w, r) b = Squeeze(h, first) y = Gemm<transB=1>(b, v) }"
    )
    weights = {"w": normal(1, 256, 40), "r": normal(1, 256, 64), "first": np.array([0]), "v": normal(12, 64)}
    assert planned(text, CPU, **weights)[0] == {"a": "WEIGHT", "b": "FLOAT", "y": "FLOAT"}


def test_products_of_data_that_would_all_stay_float_are_quantized_all_the_same() -> None:
    modes, _ = planned("g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, x) y = MatMul(a, x) }")
    assert set(modes.values()) == {"INTEGER"}


def test_their_weights_become_float_when_a_runtime_loads_the_file(tmp_path: Path) -> None:
    model = build(MULTIPLIED, opset=14, **MANY)
    path = tmp_path / "model.onnx"
    OnnxFormat().write(full(model, by_costs=True), path)
    nodes = onnx.load(path).graph.node
    (grouped,) = (node for node in nodes if any(a.name == "group" and a.i == 64 for a in node.attribute))
    assert [node.op_type for node in nodes if grouped.input[1] in node.output] == ["Mul"]
    feed = random_feed(model)
    reference, found = run(model, feed)["y"], run(path, feed)["y"]
    assert np.corrcoef(reference.ravel(), found.ravel())[0, 1] > 0.999


def test_what_stands_alone_between_float_nodes_pays_for_itself_or_stays_float() -> None:
    text = (
        "g (float[1,64,40,40] x) => (float[1,64,40,40] y) "
        "{ a = Conv(x, w1) h = HardSwish(a) b = Conv<group=64, pads=[1,1,1,1]>(h, w2) s = HardSwish(b) y = Conv(s, w3) }"
    )
    modes, plan = planned(text, w2=normal(64, 1, 3, 3), **WIDE)
    assert modes["b"] == "FLOAT"
    assert plan.nodes[next(n for n, d in plan.nodes.items() if d.reason == TAKES_LONGER)].op_type == "Conv"


def test_a_region_of_small_layers_becomes_float_as_a_whole() -> None:
    text = "g (float[1,8,9,9] x, float[1,64,40,40] p) => (float[1,8,9,9] y, float[1,64,40,40] q) {"
    text += "a = Conv(x, v1) r = Relu(a) b = Add(r, r) y = Conv(b, v2) c = Conv(p, w1) q = Conv(c, w3) }"
    small: dict[str, Any] = {"v1": normal(8, 8, 1, 1), "v2": normal(8, 8, 1, 1)}
    modes, _ = planned(text, **small, **WIDE)
    assert modes == dict.fromkeys("arby", "FLOAT") | dict.fromkeys("cq", "INTEGER")


@pytest.mark.parametrize(("axes", "mode"), [("N,32", "FLOAT"), ("N,M,32", "INTEGER")])
def test_only_samples_may_be_open(axes: str, mode: str) -> None:
    gemm = "Gemm" if axes.count(",") == 1 else "MatMul"
    text = f"g (float[{axes}] x, float[N,2000] p) => (float[{axes}] y, float[N,2000] q) {{ y = {gemm}(x, w) q = Gemm(p, v) }}"
    modes, _ = planned(text, w=normal(32, 32), v=normal(2000, 2000))
    assert modes == {"y": mode, "q": "INTEGER"}


def test_each_kind_of_convolution_has_a_cost() -> None:
    """Of a picture, in groups, and with a HardSwish that a float convolution computes with it."""
    text = (
        "g (float[1,3,40,40] x) => (float[1,64,40,40] y) {"
        "a = Conv(x, first) h = HardSwish(a) b = Conv<group=8>(h, grouped) s = HardSwish(b) y = Conv(s, last) }"
    )
    wide: dict[str, Any] = {"first": normal(48, 3, 1, 1), "grouped": normal(64, 6, 1, 1), "last": normal(64, 64, 1, 1)}
    modes, _ = planned(text, **wide)
    assert (modes["a"], modes["b"]) == ("FLOAT", "FLOAT")


def test_silu_behind_small_convolutions_keeps_them_float() -> None:
    """onnxruntime computes Sigmoid and Mul as one node in float, and as two in integers."""
    text = """g (float[1,16,96,96] x) => (float[1,16,96,96] y) {
        a = Conv(x, w1) s = Sigmoid(a) h = Mul(a, s) b = Conv(h, w2) t = Sigmoid(b) k = Mul(b, t)
        y = Conv<pads=[1,1,1,1]>(k, w3) }"""
    weights = {"w1": normal(16, 16, 1, 1), "w2": normal(16, 16, 1, 1), "w3": normal(16, 16, 3, 3)}
    modes, _ = planned(text, **weights)
    assert modes == {**dict.fromkeys("ashbtk", "FLOAT"), "y": "INTEGER"}
    assert ALWAYS.costs is not None
    free = replace(ALWAYS, costs=replace(ALWAYS.costs, gate=(0.0, 0.0)))
    assert set(planned(text, free, **weights)[0].values()) == {"INTEGER"}


@pytest.mark.parametrize(("shape", "kernel", "mode"), [("16,512", "3", "INTEGER"), ("16,16,32", "1,3", "WEIGHT")])
def test_float_convolutions_of_series_copy_what_each_place_reads(shape: str, kernel: str, mode: str) -> None:
    places = "16,n" if mode == "INTEGER" else "16,n,m"
    text = f"g (float[1,{shape}] x) => (float[1,{places}] y) {{ a = Tanh(x) b = Conv(a, w1) y = Conv(b, w2) }}"
    weight = (16, 16, *map(int, kernel.split(",")))
    modes, _ = planned(text, w1=normal(*weight), w2=normal(*weight))
    assert {modes["b"], modes["y"]} == {mode}


def test_products_that_have_many_results_for_their_depth_stay_float() -> None:
    text = "g (float[1,1024,16] x) => (float[1,1024,16] y) { a = MatMul(x, w1) b = Tanh(a) y = MatMul(b, w2) }"
    modes, _ = planned(text, w1=normal(16, 16), w2=normal(16, 16))
    assert modes == {"a": "WEIGHT", "b": "FLOAT", "y": "WEIGHT"}
    deep = "g (float[1,16,256] x) => (float[1,16,256] y) { a = MatMul(x, w1) b = Tanh(a) y = MatMul(b, w2) }"
    assert planned(deep, w1=normal(256, 256), w2=normal(256, 256))[0] == {"a": "INTEGER", "b": "FLOAT", "y": "INTEGER"}


def test_a_small_product_behind_a_pool_of_integers_stays_with_it() -> None:
    """In float, the pool would be float as well, and all of the picture dequantized."""
    text = """g (float[1,64,40,40] x) => (float[1,10] y) {
        a = Conv(x, w1) b = Conv(a, w1) r = Relu(b) p = GlobalAveragePool(r) f = Flatten(p) y = Gemm<transB=1>(f, last) }"""
    modes, _ = planned(text, w1=WIDE["w1"], last=normal(10, 64))
    assert modes == dict.fromkeys("abrpfy", "INTEGER")


def test_a_region_that_additions_in_float_part_is_judged_again() -> None:
    def block(data: str, result: str, name: str) -> str:
        layers = f"{name}t = Tanh({data}) {name}c = Conv({name}t, w1) {name}d = Conv<pads=[1,1,1,1]>({name}c, w2)"
        return f"{layers} {name}e = Conv({name}d, w3) {result} = Add({data}, {name}e)"

    layers = (
        f"a = Conv(x, w0) {block('a', 'p', 'f')} q = MaxPool<kernel_shape=[8,8], strides=[8,8]>(p) {block('q', 'r', 'g')} "
        'u = Resize<mode="nearest">(r, none, scales) z = Add(p, u) y = Conv(z, w0)'
    )
    weights = {"w0": normal(64, 64, 1, 1), "w1": normal(32, 64, 1, 1), "w2": normal(32, 32, 3, 3)}
    weights |= {"w3": normal(64, 32, 1, 1), "none": np.array([], np.float32), "scales": np.float32([1, 1, 8, 8])}
    modes, _ = planned(f"g (float[1,64,16,16] x) => (float[1,64,16,16] y) {{ {layers} }}", **weights)
    assert (modes["z"], modes["p"], modes["fd"]) == ("FLOAT", "FLOAT", "INTEGER")
    assert (modes["a"], modes["y"]) == ("WEIGHT", "WEIGHT")  # alone now, and worth no conversions


@pytest.mark.parametrize(
    ("channels", "mode"),
    [
        (3, "WEIGHT"),  # an integer kernel gathers each row of the kernel
        (8, "INTEGER"),
    ],
)
def test_a_large_kernel_over_a_picture_stays_float(channels: int, mode: str) -> None:
    graph = f"g (float[1,{channels},128,128] x, float[1,64,40,40] p) => (float[1,32,32,32] y, float[1,64,40,40] q)"
    weights = {"w1": normal(32, channels, 7, 7), "w2": normal(64, 64, 1, 1)}
    layers = "y = Conv<strides=[4,4], pads=[3,3,3,3]>(x, w1) c = Conv(p, w2) q = Conv(c, w2)"
    modes, _ = planned(f"{graph} {{ {layers} }}", **weights)
    assert (modes["y"], modes["q"]) == (mode, "INTEGER")


def test_pictures_that_float_convolutions_keep_in_blocks_are_put_in_order_for_integers() -> None:
    text = """g (float[1,64,20,20] x) => (float[1,128,20,20] y) {
        a = Conv<group=64, pads=[1,1,1,1]>(x, w1) b = Relu(a) c = Conv(b, w2) y = Tanh(c) }"""
    weights = {"w1": normal(64, 1, 3, 3), "w2": normal(128, 64, 1, 1)}
    assert ALWAYS.costs is not None
    free = replace(ALWAYS, costs=replace(ALWAYS.costs, reorder=(0.0, 0.0)))
    assert [planned(text, target, **weights)[0]["c"] for target in (ALWAYS, free)] == ["WEIGHT", "INTEGER"]


@pytest.mark.parametrize(("channels", "mode"), [(8, "WEIGHT"), (64, "INTEGER")])
def test_a_convolution_of_volumes_copies_what_each_place_reads(channels: int, mode: str) -> None:
    text = (
        f"g (float[1,{channels},4,8,8] x) => (float[1,64,d,h,v] y) {{ r = Relu(x) y = Conv<pads=[1,1,1,1,1,1]>(r, w) }}"
    )
    modes, _ = planned(text, w=normal(64, channels, 3, 3, 3))
    assert modes["y"] == mode


@pytest.mark.parametrize(
    ("before", "mode"),
    [
        ("a = Conv<pads=[1,1,1,1]>(x, w) r = Relu(a)", "INTEGER"),
        ("a = Conv<pads=[1,1,1,1]>(x, w) b = Conv<pads=[1,1,1,1]>(x, v) r = Add(a, b)", "INTEGER"),
        ("a = Conv<pads=[1,1,1,1]>(x, w) s = Sigmoid(a) r = Mul(a, s)", "INTEGER"),
        ("a = Conv<group=64>(x, multiplied) r = Relu(a)", "FLOAT"),
        ("r = Exp(x)", "FLOAT"),
    ],
    ids=["Relu", "Add", "SiLU", "a float convolution", "no convolution"],
)
def test_a_max_pool_computes_with_integers_behind_integer_convolutions(before: str, mode: str) -> None:
    channels = 128 if "multiplied" in before else 64
    text = f"g (float[1,64,40,40] x) => (float[1,64,38,38] y) {{ {before} "
    text += "m = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(r) y = Conv(m, u) }"
    weights = {"w": normal(64, 64, 3, 3), "v": normal(64, 64, 3, 3), "multiplied": normal(128, 1, 1, 1)}
    weights["u"] = normal(64, channels, 3, 3)
    modes, _ = planned(text, **{name: array for name, array in weights.items() if f", {name})" in text})
    assert modes["m"] == mode
    assert modes["y"] == "INTEGER"


@pytest.mark.parametrize(
    ("batch", "pool", "size", "mode"),
    [
        ("1", "kernel_shape=[2,2], strides=[2,2]", 20, "FLOAT"),
        ("1", "kernel_shape=[3,3], pads=[1,1,1,1]", 40, "FLOAT"),
        ("n", "kernel_shape=[2,2], strides=[2,2]", 20, "FLOAT"),
        ("1", "kernel_shape=[40,40]", 1, "INTEGER"),
        ("n", "kernel_shape=[40,40]", 1, "INTEGER"),
    ],
)
def test_averages_are_computed_in_float_unless_there_is_one_per_channel(
    batch: str, pool: str, size: int, mode: str
) -> None:
    text = f"g (float[{batch},64,40,40] x) => (float[{batch},512,{size},{size}] y) {{ a = Conv<pads=[1,1,1,1]>(x, w) "
    text += f"m = AveragePool<{pool}>(a) y = Conv(m, u) }}"
    modes, _ = planned(text, w=normal(64, 64, 3, 3), u=normal(512, 64, 1, 1))
    assert (modes["a"], modes["m"], modes["y"]) == ("INTEGER", mode, "INTEGER")


@pytest.mark.parametrize(("channels", "kernel"), [(1, 256), (4, 63), (12, 63)])
def test_few_single_channels_fill_no_vector(channels: int, kernel: int) -> None:
    """A filter of one channel for one result is computed by the same kernel, whatever its number of groups is called."""
    text = f"g (float[1,64,1,4000] x) => (float[1,64,1,{4001 - kernel}] y) {{ a = Conv(x, w) b = Conv<group={channels}>(a, v) "
    weights = {"w": normal(channels, 64, 1, 1), "v": normal(channels, 1, 1, kernel), "u": normal(64, channels, 1, 1)}
    modes, _ = planned(text + "y = Conv(b, u) }", **weights)
    assert modes["b"] != "INTEGER"
