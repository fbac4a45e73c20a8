"""Models at the edge of what can be converted: each ends with a file that is proven, or with a sentence that says why not."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike

from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Config, Workshop, changed, write_bins
from tests.support import build_proto, normal

DATA = FULL["data_preprocess_param"]
FOUR_BITS = changed(WEIGHT, common_quant_param={"bit_num": "4"}, data_preprocess_param=DATA)


def put(workshop: Workshop, graph: str, shape: tuple[int, ...], *, opset: int = 13, **constants: ArrayLike) -> None:
    """Make a model of the workshop, and samples of one shape."""
    proto = build_proto(graph, opset=opset, ir_version=8 if opset < 21 else 10, **constants)
    onnx.save(proto, workshop.model)
    write_bins(workshop.folder / "bins", 4, shape)


@pytest.mark.parametrize("config", [FULL, FOUR_BITS, changed(DYNAMIC, data_preprocess_param=DATA)])
@pytest.mark.parametrize(("shape", "shown"), [((0, 16), "[0,16]"), ((4, 0), "[4,0]")])
def test_an_input_without_values_is_named(
    workshop: Workshop, config: Config, shape: tuple[int, int], shown: str
) -> None:
    put(
        workshop,
        f"g (float[{shape[0]},{shape[1]}] x) => (float[{shape[0]},8] y) {{ y = MatMul(x, w) }}",
        shape,
        w=np.ones((shape[1], 8), np.float32),
    )
    assert f"input 'x': it has no values: its shape is {shown}" in workshop.fail(1, config=config)


@pytest.mark.parametrize("config", [FULL, FOUR_BITS, DYNAMIC])
def test_a_weight_without_values_is_no_defect(workshop: Workshop, config: Config) -> None:
    put(
        workshop,
        "g (float[4,16] x) => (float[4,0] y, float[4,8] z) { y = MatMul(x, w) z = MatMul(x, v) }",
        (4, 16),
        w=np.ones((16, 0), np.float32),
        v=normal(16, 8),
    )
    outcome = workshop.convert(config=config)
    assert outcome.status == (0 if config is FOUR_BITS else 1)
    assert (outcome.err == "") == (outcome.status == 0)


@pytest.mark.parametrize("config", [FULL, FOUR_BITS, WEIGHT])
def test_numbers_near_the_end_of_float32_make_no_noise(workshop: Workshop, config: Config) -> None:
    put(
        workshop,
        "g (float[4,16] x) => (float[4,16] y) { a = Mul(x, k) y = MatMul(a, w) }",
        (4, 16),
        k=np.float32(1e36).reshape(()),
        w=normal(16, 16) * 1e-3,
    )
    workshop.succeed("--inputDataFormat=NCHW", config=config)


def test_integers_of_eight_bits_load_at_every_operator_set(workshop: Workshop) -> None:
    """A pooling behind a quantized convolution: onnxruntime 1.31 moves the pair over it and cannot rewrite what it made."""
    for opset in (13, 20, 21):
        put(
            workshop,
            "g (float[1,3,8,8] x) => (float[1,c,h,w] y) { "
            "a = Conv(x, k, b) r = Relu(a) p = MaxPool<kernel_shape=[2,2]>(r) y = Softmax<axis=1>(p) }",
            (1, 8, 8, 3),
            opset=opset,
            k=normal(20, 3, 3, 3),
            b=normal(20),
        )
        for device in ("ARM", "X86", "ASCEND", "NVGPU"):
            outcome = workshop.convert(config=changed(FULL, full_quant_param={"target_device": device}))
            assert outcome.status == 0, (opset, device, outcome)


def test_outputs_whose_length_depends_on_values_are_compared_where_they_can(workshop: Workshop) -> None:
    put(
        workshop,
        "g (float[4,16] x) => (int64[2,found] y, float[4,16] r) { a = MatMul(x, w) r = Relu(a) y = NonZero(r) }",
        (4, 16),
        w=normal(16, 16),
    )
    outcome = workshop.convert("--json=r.json", config=FOUR_BITS)
    assert outcome.status == 0, outcome
    assert "WARNING output y has another length than that of the float model in" in outcome.err
    (warning,) = json.loads((workshop.folder / "r.json").read_text(encoding="utf-8"))["warnings"]
    assert warning.endswith("which are not compared")


REFUSALS = {
    "a sequence": (
        "g (seq(float[4,16]) s) => (float[4,16] y) { y = SequenceAt(s, i) }",
        "input 's': it is not a tensor",
    ),
    "text": ("g (string[4] s) => (string[4] y) { y = Identity(s) }", "input 's': it is not a tensor of numbers"),
    "a flat image": ("g (float[4,16] x) => (float[4,8] y) { y = GlobalAveragePool(x) }", "has 2 dimensions"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_models_that_cannot_be_run_are_refused_with_the_place(workshop: Workshop, name: str) -> None:
    graph, message = REFUSALS[name]
    put(workshop, graph, (4, 16), i=np.int64(0).reshape(()))
    assert message in workshop.fail(1)


def test_operators_of_unknown_domains_are_named(workshop: Workshop) -> None:
    put(workshop, "g (float[4,16] x) => (float[4,8] y) { a = MatMul(x, w) y = Relu(a) }", (4, 16), w=normal(16, 8))
    proto = onnx.load(workshop.model)
    proto.graph.node[1].CopyFrom(onnx.helper.make_node("Swirl", ["a"], ["y"], name="last", domain="of.mine"))
    proto.opset_import.append(onnx.helper.make_opsetid("of.mine", 1))
    onnx.save(proto, workshop.model)
    assert "last (Swirl) of of.mine" in workshop.fail(1, config=WEIGHT)


@pytest.mark.parametrize(
    ("graph", "config", "reason"),
    [
        ("g (double[4,16] x) => (double[4,8] y) { y = MatMul(x, w) }", WEIGHT, "its weight is double, not float32"),
        ("g (double[4,16] x) => (double[4,8] y) { y = MatMul(x, w) }", DYNAMIC, "its weight is double, not float32"),
        ("g (double[4,16] x) => (double[4,8] y) { y = MatMul(x, w) }", WEIGHT, "export the model in float32"),
        (
            "g (float[4,16] x) => (int64[4,16] y) { c = Sin(x) i = Cast<to=7>(c) y = Add(i, i) }",
            FULL,
            "choose another quant_type",
        ),
        ("g (float[4,16] x) => (float[4,16] x) { y = Relu(x) }", WEIGHT, "no node is left after optimization"),
        (
            "g (float[5,1,16] x, float[1,4,16] p, float[1,4,4] q) => (float[5,1,1,4] y) { y = RNN<hidden_size=4>(x, p, q) }",
            WEIGHT,
            "its weight is not constant",
        ),
    ],
)
def test_the_reason_why_nothing_is_quantized_is_the_right_one(
    workshop: Workshop, graph: str, config: Config, reason: str
) -> None:
    put(workshop, graph, (4, 16), **({"w": normal(16, 8).astype(np.float64)} if " w" in graph else {}))
    assert reason in workshop.fail(1, config=config)


@pytest.mark.parametrize("config", [FULL, FOUR_BITS, WEIGHT, DYNAMIC])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bias_that_is_not_finite_is_named(workshop: Workshop, config: Config, value: float) -> None:
    put(
        workshop,
        "g (float[4,16] x) => (float[4,8] y) { y = Gemm(x, w, b) }",
        (4, 16),
        w=normal(16, 8),
        b=np.array([1, 2, value, 4, 5, 6, 7, 8], np.float32),
    )
    assert "constant b: it holds NaN or infinite values" in workshop.fail(1, config=config)


def test_sizes_that_a_model_does_not_allow_are_blamed_on_the_flag(workshop: Workshop) -> None:
    put(workshop, "g (float[N,M] x) => (float[N,M] y) { s = Squeeze(x) y = Concat<axis=1>(s, s) }", (1, 4))
    assert "may not allow the sizes of --inputShape" in workshop.fail(1, "--inputShape=x:1,4")


@pytest.mark.parametrize("flags", [(), ("--inputShape=x:1,3,8,8",)])
def test_a_model_in_float64_that_the_runtime_cannot_compute_is_to_be_exported_in_float32(
    workshop: Workshop, flags: tuple[str, ...]
) -> None:
    graph = "g (double[N,3,8,8] x) => (double[N,4,8,8] y) { y = Conv(x, w) }"
    put(workshop, graph, (1, 3, 8, 8), w=normal(4, 3, 1, 1).astype(np.float64))
    message = workshop.fail(1, *flags)
    assert "export the model in float32" in message
    assert "--inputShape" not in message


@pytest.mark.parametrize("kind", ["NAIVE_BUFFER", "PADDLE"])
def test_one_tensor_as_two_outputs_is_named(workshop: Workshop, kind: str) -> None:
    proto = build_proto("g (float[2,8] x) => (float[2,8] y) { y = MatMul(x, w) }", w=normal(8, 8))
    proto.graph.output.append(proto.graph.output[0])
    onnx.save(proto, workshop.model)
    workshop.succeed("--saveType=ONNX")
    assert "two outputs are 'y'" in workshop.fail(1, f"--saveType={kind}")


@pytest.mark.parametrize("name", ["feed", "fetch"])
@pytest.mark.parametrize("kind", ["NAIVE_BUFFER", "PADDLE"])
def test_what_is_called_as_a_variable_of_every_file_is_named(workshop: Workshop, kind: str, name: str) -> None:
    put(workshop, f"g (float[2,8] {name}) => (float[2,8] y) {{ y = MatMul({name}, w) }}", (2, 8), w=normal(8, 8))
    message = workshop.fail(1, f"--saveType={kind}")
    assert "no input of" in message
    assert f"can be called '{name}'" in message
    put(workshop, f"g (float[2,8] x) => (float[2,8] {name}) {{ {name} = MatMul(x, w) }}", (2, 8), w=normal(8, 8))
    message = workshop.fail(1, f"--saveType={kind}")
    assert "no output of" in message
    assert f"can be called '{name}'" in message


@pytest.mark.parametrize("words", ["MatMul", "inner_*", "inner_mm"])
def test_nodes_in_loops_are_skipped_by_operator_pattern_and_name(workshop: Workshop, words: str) -> None:
    body = "b (int64 i, bool c, float[2,8] s) => (bool go, float[2,8] t) { go = Identity(c) t = MatMul(s, v) }"
    graph = f"g (float[2,8] x) => (float[2,8] y) {{ h = Gemm(x, w) y = Loop(times, yes, h) <body = {body}> }}"
    constants = {"w": normal(8, 8), "v": normal(8, 8), "times": np.array(2), "yes": np.array(True)}
    proto = build_proto(graph, **constants)
    proto.graph.node[1].attribute[0].g.node[1].name = "inner_mm"
    onnx.save(proto, workshop.model)
    config = changed(WEIGHT, common_quant_param={"skip_quant_node": words})
    assert "ONNX: 2 nodes quantized" in workshop.succeed("--saveType=ONNX", config=WEIGHT).out
    assert "ONNX: 1 node quantized" in workshop.succeed("--saveType=ONNX", config=config).out


@pytest.mark.parametrize("kind", ["NAIVE_BUFFER", "PADDLE"])
def test_models_without_inputs_are_named_before_any_work(workshop: Workshop, kind: str) -> None:
    onnx.save(build_proto("g () => (float[2,8] y) { y = RandomNormal<shape=[2,8]>() }"), workshop.model)
    assert "the model has no inputs" in workshop.fail(1, f"--saveType={kind}")


def test_a_dry_run_refuses_operators_that_the_conversion_would(workshop: Workshop) -> None:
    proto = build_proto("g (float[2,8] x) => (float[2,8] y) { h = Relu(x) y = MatMul(h, w) }", w=normal(8, 8))
    proto.graph.node[0].domain = "my.ops"
    proto.opset_import.append(onnx.helper.make_opsetid("my.ops", 1))
    onnx.save(proto, workshop.model)
    assert "my.ops" in workshop.fail(1, "--dryRun", config=WEIGHT)


@pytest.mark.parametrize("kind", ["NAIVE_BUFFER", "PADDLE"])
@pytest.mark.parametrize(
    ("element", "words"), [("int8", "input 'x' is int8"), ("uint64", "no tensors of type uint64, as 'x' is")]
)
def test_types_that_paddle_lacks_are_named_with_the_tensor(
    workshop: Workshop, element: str, words: str, kind: str
) -> None:
    onnx.save(build_proto(f"g ({element}[2,8] x) => (float[2,8] y) {{ y = Cast<to=1>(x) }}"), workshop.model)
    assert words in workshop.fail(1, f"--saveType={kind}")


@pytest.mark.parametrize("kind", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE"])
def test_pairs_in_a_model_without_weights_cut_off_what_is_beyond_their_grid(workshop: Workshop, kind: str) -> None:
    pair = "{0}_i = QuantizeLinear({0}, step, zero) {0}_q = DequantizeLinear({0}_i, step, zero)"
    text = f"g (float[1,6] x) => (float[1,6] y) {{ {pair.format('x')} e = Exp(x_q) {pair.format('e')} y = Neg(e_q) }}"
    put(workshop, text, (1, 6), step=np.float32(0.01), zero=np.int8(0))
    said = workshop.succeed(f"--saveType={kind}").out
    found = re.search(r"^  y +([\d.]+)", said, re.M)
    assert found is not None, said
    assert float(found[1]) > 0.9999
