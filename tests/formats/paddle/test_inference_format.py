"""``--saveType=PADDLE``: programs of Paddle itself, float and quantized, read back as the same function with the same plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.calibration.context import CalibrationContext
from converter_lite.config import config_from_mapping
from converter_lite.errors import ConfigError, ConverterError, ModelError, TargetError, UsageError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.paddle.format import NbFormat
from converter_lite.formats.paddle.inference_model.files import read_program
from converter_lite.formats.paddle.inference_model.format import InferenceFormat
from converter_lite.formats.paddle.inference_model.lowering import SKIP, largest
from converter_lite.formats.paddle.inference_model.policy import InferencePolicy
from converter_lite.formats.paddle.inference_model.reader import load, read_paddle
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.policy import PaddleStorage
from converter_lite.formats.paddle.program import Program
from converter_lite.formats.registry import output_format
from converter_lite.kernels.params import params_from_range
from converter_lite.passes.io_types import IoTypes
from converter_lite.quantization.choice import Choice, choose
from converter_lite.quantization.full import computed_grids, quantize_full
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.settings import FullSettings, WeightSettings
from converter_lite.quantization.stem import stem
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.formats.paddle.inference_models import linear_quantized_model, save
from tests.formats.paddle.models import random, small_network
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.test_nb_operators import CASES, mismatch
from tests.support import Samples, assert_same_outputs, build, is_since, random_feed, run, samples_of

Maker = Callable[[], ir.Model]

FORMAT = InferenceFormat()
ACTIVATION = InferencePolicy().activation

READ_BACK = [case for case in CASES[::3] if is_since("onnxruntime", 1, 25) or "through UINT8" not in case.name]
"""Older ones have no Equal of bytes (tried: 1.19)."""


def words() -> ir.Model:
    """A table, two layers of which one has a square matrix, a product of activations."""
    return build(
        """g (int64[1,6] ids) => (float[1,6,6] y) {
            rows = Gather(table, ids)
            a = MatMul(rows, square)
            b = Add(a, bias)
            c = Relu(b)
            d = MatMul(c, wide)
            e = Transpose<perm=[0,2,1]>(d)
            y = MatMul(d, e)
        }""",
        table=random(20, 16),
        square=random(16, 16, seed=4),
        bias=random(16, seed=5),
        wide=random(16, 24, seed=6),
    )


def upsampled() -> ir.Model:
    return build(
        "g (float[1,4,6,6] x) => (float[1,4,12,12] y) { y = ConvTranspose<strides=[2,2]>(x, w) }",
        w=random(4, 4, 2, 2),
    )


def full(model: ir.Model, samples: Samples | None = None) -> QuantizedModel:
    """Integers for all that Paddle computes with integers."""
    settings = FullSettings(bias_correction=False, equalization=False)
    found = samples or samples_of(model)
    return quantize_full(model.clone(), InferencePolicy(), settings, samples=found, context=CalibrationContext())


@pytest.mark.parametrize(
    ("nodes", "is_finer"),
    [
        ("a = Conv(x, w) b = Clip(a, zero, six)", True),
        ("a = Conv(x, w) b = Relu(a)", True),
        ("b = Relu(x)", True),
        ("b = Clip(x, zero, six)", False),
        ("a = Conv(x, w) b = Clip(a, zero, two)", False),
        ("b = Conv(x, w)", False),
    ],
)
def test_biases_are_corrected_for_the_steps_of_onednn(nodes: str, is_finer: bool) -> None:
    """The file keeps 127 steps; the runtime has 255 where it knows that nothing is negative."""
    limits = {"zero": np.float32(0), "two": np.float32(2), "six": np.float32(6)}
    graph = f"g (float[1,4,6,6] x) => (float[1,4,6,6] y) {{ {nodes} y = Conv(b, v) }}"
    model = build(graph, w=random(4, 4, 1, 1), v=random(4, 4, 1, 1, seed=2), **limits)
    plan = full(model).plan
    assert plan.activations["b"].spec.qmax == 127
    found = computed_grids(model, plan, InferencePolicy())
    assert set(found) == ({"b"} if is_finer else set())
    if is_finer:
        assert (found["b"].spec.qmin, found["b"].spec.qmax) == (0, 255)
        np.testing.assert_allclose(found["b"].scale * 255, plan.activations["b"].scale * 127, rtol=1e-6)
    corrected = quantize_full(
        model.clone(), InferencePolicy(), FullSettings(), samples=samples_of(model), context=CalibrationContext()
    )
    assert corrected.plan.activations["b"].spec.qmax == 127


def weights(model: ir.Model) -> QuantizedModel:
    policy = InferencePolicy(weights_only=True)
    settings = WeightSettings(8, storage=PaddleStorage(widths=(8,), measured=(8,), precise_share=0.0, policy=policy))
    return quantize_weights(model.clone(), settings, target="paddle", context=RunContext())


def written(quantized: QuantizedModel, folder: Path) -> Path:
    path = folder / "made.pdmodel"
    made = FORMAT.write(quantized, path)
    assert made.files == [path, folder / "made.pdiparams"]
    return path


def program(path: Path) -> Program:
    return load(path, path.with_suffix(".pdiparams"))[0]


@pytest.mark.parametrize("case", READ_BACK, ids=lambda case: case.name)
def test_a_written_model_reads_back_as_the_same_function(case: NbCase, tmp_path: Path) -> None:
    path = written(QuantizedModel(case.model, QuantPlan("paddle")), tmp_path)
    again = run(read_paddle(path).model, case.feed)
    wanted = list(run(case.model, case.feed).values())
    given = [array.reshape(array.shape or (1,)) for array in again.values()]
    assert mismatch(given, wanted, case.tolerance) == ""


@pytest.mark.parametrize("make", [small_network, words])
@pytest.mark.parametrize("quantize", [full, weights])
def test_a_quantized_model_reads_back_with_its_integers_and_scales(
    make: Maker, quantize: Callable[[ir.Model], QuantizedModel], tmp_path: Path
) -> None:
    quantized: QuantizedModel = quantize(make())
    again = read_paddle(written(quantized, tmp_path))
    assert sorted(_steps(again)) == pytest.approx(sorted(_steps(quantized)), rel=2e-7)
    assert _integers(again) == _integers(quantized)
    before, after = (_steps_of_activations(found) for found in (quantized, again))
    assert after == pytest.approx(before, rel=2e-7)
    modes = [[node.mode for node in found.plan.nodes.values()] for found in (quantized, again)]
    for mode in (NodeMode.INTEGER, NodeMode.WEIGHT):
        assert modes[0].count(mode) == modes[1].count(mode)


def _steps(quantized: QuantizedModel) -> list[float]:
    return [float(step) for params in quantized.plan.weights.values() for step in np.atleast_1d(params.scale)]


def _steps_of_activations(quantized: QuantizedModel) -> dict[str, float]:
    read = {
        str(v.name) for n in quantized.model.graph if quantized.plan.mode(n) is NodeMode.INTEGER for v in n.inputs if v
    }
    return {name: float(p.scale) for name, p in quantized.plan.activations.items() if name in read}


def _integers(quantized: QuantizedModel) -> list[list[int]]:
    """All integers of each weight, sorted: a matrix may be turned."""
    return sorted(sorted(quantized.integers(name).ravel().tolist()) for name in quantized.plan.weights)


@pytest.mark.parametrize("make", [small_network, words])
def test_the_proof_computes_what_the_plan_says(make: Maker, tmp_path: Path) -> None:
    model: ir.Model = make()
    quantized = full(model)
    proof = ir.from_proto(_loaded(FORMAT.runnable(written(quantized, tmp_path), like=model)))
    assert_same_outputs(qdq_model(quantized), proof, *samples_of(model, 3), rtol=1e-5)


def _loaded(data: bytes | Path) -> onnx.ModelProto:
    assert isinstance(data, bytes)
    return onnx.load_model_from_string(data)


def test_integer_convolutions_stand_between_operators_of_quantization(tmp_path: Path) -> None:
    operators = program(written(full(small_network()), tmp_path)).main.operators
    makers = {name: op for op in operators for names in op.outputs.values() for name in names}
    convolutions = [op for op in operators if op.type in ("conv2d", "depthwise_conv2d")]
    assert len(convolutions) == 3
    for op in convolutions:
        assert "Bias" not in op.inputs
        restored, weight = (makers[str(op.input(slot))] for slot in ("Input", "Filter"))
        rounded = makers[str(restored.input("X"))]
        assert [restored.type, rounded.type, weight.type] == [
            *("dequantize_linear", "quantize_linear", "dequantize_linear")
        ]
        assert restored.input("Scale") == rounded.input("Scale")
        assert [weight.get("quant_axis"), rounded.get("quant_axis")] == [0, -1]
        assert {each.get("bit_length") for each in (restored, rounded, weight)} == {8}
    kinds = [op.type for op in operators]
    assert (
        kinds.count("elementwise_add") == 5
    )  # three biases (one convolution has none but the plan adds it), a sum, a layer
    assert not any(name in op.attributes for op in operators for name in (KERNEL_ATTRIBUTE, "with_act", "enable_int8"))


def test_operators_that_stay_float_say_so(tmp_path: Path) -> None:
    operators = program(written(full(small_network()), tmp_path)).main.operators
    marked = {op.type for op in operators if op.get(SKIP) == 1}
    assert marked == {"elementwise_add", "pool2d"}
    assert not any(op.get(SKIP) for op in operators if op.type in ("conv2d", "depthwise_conv2d"))


def test_integer_matrices_are_stored_with_a_row_for_each_output(tmp_path: Path) -> None:
    path = written(full(words()), tmp_path)
    found, parameters = load(path, path.with_suffix(".pdiparams"))
    shapes = {array.shape for array in parameters.values() if array.dtype == np.int8}
    assert shapes == {(16, 16), (24, 16)}
    products = [op for op in found.main.operators if op.type == "matmul_v2"]
    assert [op.get("trans_y") for op in products] == [True, True, False]
    assert {op.get("quant_axis") for op in found.main.operators if op.input("X") in parameters} == {0}


def test_tables_are_integers_only_beside_float_nodes() -> None:
    modes = {node.op_type: node for node in full(words()).plan.nodes.values()}
    assert modes["Gather"].mode is NodeMode.FLOAT
    table = next(node for node in words().graph if node.op_type == "Gather")
    assert "passes for integers" in InferencePolicy().capability(table).stored
    assert {node.mode for node in weights(words()).plan.nodes.values() if node.op_type == "Gather"} == {NodeMode.WEIGHT}


def test_the_layers_behind_a_picture_stay_float_up_to_narrow_pointwise_ones() -> None:
    """A third of MobileNet's divergence in oneDNN comes from them (docs/formats/paddle_inference.md)."""
    model = build(
        """g (float[1,3,12,12] x) => (float[n,c,h,w] y) {
            a = Conv(x, w1) b = Conv<group=24>(a, w2) c = Conv(b, w3) d = Conv<group=48>(c, w4) e = Conv(d, w5) y = Conv(e, w6)
        }""",
        w1=random(24, 3, 3, 3),
        w2=random(24, 1, 3, 3),
        w3=random(48, 24, 1, 1),
        w4=random(48, 1, 3, 3),
        w5=random(96, 48, 1, 1),
        w6=random(26_000, 96, 1, 1),
    )
    assert [node.outputs[0].name for node in stem(model, InferencePolicy().float_stem)] == ["a", "b", "c", "d"]


def test_transposed_convolutions_stay_float() -> None:
    (node,) = upsampled().graph
    for policy in (InferencePolicy(), InferencePolicy(weights_only=True)):
        assert policy.capability(node).integer
        assert policy.capability(node).stored


@pytest.mark.parametrize("turned", ["", "<transB=1>"])
def test_weights_of_a_single_row_stay_float(turned: str) -> None:
    """oneDNN of 3.3.1 gives numbers of somewhere else for them."""
    model = build(
        f"g (float[4,1] x) => (float[4,6] y) {{ y = Gemm{turned}(x, w) }}", w=random(*((6, 1) if turned else (1, 6)))
    )
    (node,) = model.graph
    found = InferencePolicy().capability(node)
    assert "single row" in found.integer
    assert "single row" in found.stored


def test_reasons_name_paddle() -> None:
    reasons = [node.reason for node in full(small_network()).plan.nodes.values()]
    assert any("Paddle has no integer kernel" in reason for reason in reasons)
    assert not any("Paddle-Lite" in reason for reason in reasons)


def test_a_scale_gives_its_step_again() -> None:
    steps = np.exp(np.random.default_rng(1).uniform(-12, 12, 20000)).astype(np.float32)
    again = largest(steps) / np.float32(127)
    assert np.mean(again == steps) > 0.99
    assert np.all(np.abs(again - steps) <= np.spacing(steps))
    read = np.random.default_rng(2).uniform(0.01, 50, 2000).astype(np.float32) / np.float32(127)
    assert np.array_equal(largest(read) / np.float32(127), read)  # what a file gave goes back as it was


def test_a_model_without_parameters_gets_one(tmp_path: Path) -> None:
    model = build("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    path = written(QuantizedModel(model, QuantPlan("paddle")), tmp_path)
    assert path.with_suffix(".pdiparams").stat().st_size > 0
    assert_same_outputs(model, read_paddle(path).model, random_feed(model))


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        path = written(full(small_network()), tmp_path / name)
        made.append([path.read_bytes(), path.with_suffix(".pdiparams").read_bytes()])
    assert made[0] == made[1]


def test_a_quantized_model_of_paddle_goes_through_unchanged(tmp_path: Path) -> None:
    theirs = read_paddle(save(tmp_path / "model", *linear_quantized_model()))
    ours = read_paddle(written(FORMAT.adapt(theirs), tmp_path))
    assert [p.scale.tolist() for p in ours.plan.weights.values()] == [
        p.scale.tolist() for p in theirs.plan.weights.values()
    ]
    assert {float(p.scale) for p in ours.plan.activations.values()} <= {
        float(p.scale) for p in theirs.plan.activations.values()
    }


def test_integers_that_paddle_lacks_become_float_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    quantized = full(small_network())
    unsigned = replace(ACTIVATION, signed=False, narrow_range=False, symmetric=False)
    name = next(iter(quantized.plan.activations))
    quantized.plan.activations[name] = params_from_range(0.0, 1.0, unsigned)
    adapted = FORMAT.adapt(quantized)
    before, after = ([n.mode for n in q.plan.nodes.values()].count(NodeMode.INTEGER) for q in (quantized, adapted))
    assert after < before


def test_the_forecast_is_the_size(tmp_path: Path) -> None:
    quantized = full(small_network())
    path = written(quantized, tmp_path)
    size = sum(file.stat().st_size for file in (path, path.with_suffix(".pdiparams")))
    assert FORMAT.forecast(quantized, None) == size


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (FileOptions(fp16=True), "without float16"),
        (FileOptions(io_types=IoTypes(inputs="INT8")), "cannot become INT8"),
        (FileOptions(io_types=IoTypes(outputs="FLOAT16")), "cannot become FLOAT16"),
    ],
)
def test_options_that_it_does_not_have_are_refused(options: FileOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        output_format("PADDLE", options)


def choice(**sections: dict[str, str]) -> Choice:
    found = choose(config_from_mapping(sections, external_data=True), small_network(), frozenset(), has_samples=True)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("sections", "error", "said"),
    [
        ({"common_quant_param": {"quant_type": "DYNAMIC_QUANT"}}, ConfigError, "no dynamic quantization"),
        ({"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "4"}}, ConfigError, "8 bits, not with 4"),
        ({"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "0"}}, ConfigError, "searched widths"),
        (
            {"common_quant_param": {"quant_type": "FULL_QUANT"}, "full_quant_param": {"target_device": "DSP"}},
            ConfigError,
            "the rules of DSP",
        ),
    ],
)
def test_quantizations_that_it_does_not_have_are_refused(
    sections: dict[str, dict[str, str]], error: type[ConverterError], said: str
) -> None:
    with pytest.raises(error, match=said):
        FORMAT.restrict(choice(**sections), small_network())


def test_what_paddle_cannot_express_is_refused_by_name() -> None:
    model = build("g (float[4,4] x) => (float y) { [found] y = Det(x) }")
    with pytest.raises(TargetError, match=r"a Paddle model:\s+found \(Det\): this operator is not written for Paddle"):
        FORMAT.check(model)


def test_a_constant_with_nan_is_refused(tmp_path: Path) -> None:
    weight = random(4, 4)
    weight[1, 1] = np.nan
    model = build("g (float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }", w=weight)
    with pytest.raises(ModelError, match="NaN"):
        FORMAT.write(QuantizedModel(model, QuantPlan("paddle")), tmp_path / "made.pdmodel")


def test_data_that_no_kernel_was_tried_on_are_refused() -> None:
    model = build("g (int32[4] x) => (int32[4] y) { y = Abs(x) }")
    with pytest.raises(TargetError, match="abs on int32 data is not known to be right in Paddle"):
        FORMAT.check(model)


def test_weights_of_16_bits_become_floats_with_a_word(tmp_path: Path) -> None:
    settings = WeightSettings(16, storage=PaddleStorage(policy=InferencePolicy(weights_only=True)))
    model = small_network()
    wide = quantize_weights(model, settings, target="paddle", context=RunContext())
    made = FORMAT.write(wide, tmp_path / "made.pdmodel")
    assert made.notes == ("3 weights of 16 bits are stored as floats: Paddle restores 8 bits only",)
    again = read_paddle(made.files[0])
    assert not again.plan.quantized_nodes
    assert_same_outputs(qdq_model(wide), again.model, random_feed(model), rtol=1e-5)


def test_attributes_without_which_paddle_3_makes_no_program_of_pir_are_written(tmp_path: Path) -> None:
    model = build(
        "g (float[1,4,6,6] x) => (float[1,1,6,6] y) "
        '{ p = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) r = PRelu(p, w) y = DepthToSpace<blocksize=2,mode="CRD">(r) }',
        w=np.full((4, 1, 1), 0.1, np.float32),
    )
    FORMAT.write(QuantizedModel(model, QuantPlan("paddle")), tmp_path / "net.pdmodel")
    operators = read_program((tmp_path / "net.pdmodel").read_bytes()).main.operators
    found = {op.type: op.get("data_format") for op in operators if op.type in ("pool2d", "prelu", "pixel_shuffle")}
    assert found == dict.fromkeys(("pool2d", "prelu", "pixel_shuffle"), "NCHW")


DEFORMED = "g (float[1,4,9,9] x, float[1,36,{0}] o{1}) => (float[1,6,{0}] y) {{ y = DeformConv<{2}>(x, w, o{3}) }}"
"""A sixth of the offsets moves two channels each."""


@pytest.mark.parametrize(
    ("sizes", "inputs", "attributes", "operands"),
    [
        ("9,9", ", float[1,18,9,9] m", "pads=[1,1,1,1], offset_group=2", ", b, m"),
        ("4,4", "", "strides=[2,2], group=2, offset_group=2", ""),
    ],
)
def test_deformable_convolutions_are_those_of_paddle_and_read_back_as_they_were(
    sizes: str, inputs: str, attributes: str, operands: str, tmp_path: Path
) -> None:
    groups = 2 if " group=2" in attributes else 1
    text = DEFORMED.format(sizes, inputs, attributes, operands)
    model = build(text, opset=19, w=random(6, 4 // groups, 3, 3), b=random(6))
    format_of_both = InferenceFormat(beside=(".pdiparams", ".json"))
    format_of_both.write(QuantizedModel(model, QuantPlan("paddle")), tmp_path / "made.pdmodel")
    for end in ("pdmodel", "json"):
        (node,) = (node for node in read_paddle(tmp_path / f"made.{end}").model.graph if node.op_type == "DeformConv")
        found = {name: node.attributes[name].as_int() for name in ("group", "offset_group")}
        assert found == {"group": groups, "offset_group": 2}
        assert list(node.attributes["strides"].as_ints()) == ([2, 2] if "strides" in attributes else [1, 1])
        assert list(node.attributes["pads"].as_ints()) == ([1] * 4 if "pads" in attributes else [0] * 4)
        assert len(node.inputs) == 5


@pytest.mark.parametrize(("pads", "save_type"), [("1,1,1,1", "a .nb file"), ("0,0,1,1", "a Paddle model")])
def test_deformable_convolutions_are_refused_elsewhere(pads: str, save_type: str) -> None:
    text = DEFORMED.format("9,9" if pads == "1,1,1,1" else "8,8", "", f"pads=[{pads}], offset_group=2", "")
    model = build(text, opset=19, w=random(6, 4, 3, 3))
    target = NbFormat() if save_type == "a .nb file" else FORMAT
    with pytest.raises(TargetError, match="eformable convolution"):
        target.check(model)
