"""What the command writes for the CPU, run in OpenVINO beside the exact result.

Files with float arithmetic give the same numbers there. In networks of integers a sum that lies between two steps may fall to the
other side, in any runtime that adds in another order (onnxruntime with and without its optimizations does so, too), and every
layer behind it computes with other integers. So these are judged layer by layer, each from the same integers, and as a whole by
how far they are from the float model. Measured: docs/user_guide.md, OpenVINO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from _pytest.mark import ParameterSet

from bench.samples import Feed, calibration_feeds
from tests.cli.workshop import SUCCESS, Config, changed, command, ini, write_bins
from tests.runtimes.conftest import Tally
from tests.runtimes.ov_runtime import Case, run_cases, skip_if_missing
from tests.runtimes.parts import Arrays, cosine, parts, run_exactly
from tests.runtimes.test_converted_models import DYNAMIC, FILES, FULL, TOKENS, WEIGHT, full
from tests.support import MODELS, build_proto, normal, shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

QUICK = "resnet8"
"""Model of the everyday run; the others are for ``make conformance``."""

WEIGHTS = ("weight8", "weight4")

EQUAL = {
    "mobilenet": (*WEIGHTS, "dynamic"),
    "resnet8": (*WEIGHTS, "dynamic"),
    "ultraface": (*WEIGHTS, "full", "dynamic"),
    "minilm": WEIGHTS,
}
"""Model -> kinds of files whose outputs are those of the exact result."""

INTEGERS = {
    "mobilenet": ("full", "dynamic"),
    "resnet8": ("full", "dynamic"),
    "ultraface": ("full",),
    "minilm": ("full", "dynamic", "rows"),
}
"""Model -> kinds of files whose layers are compared one by one, and the accuracy of their outputs."""

CALIBRATED = 8
"""Samples that the files are calibrated on; the next ones are tried."""

TRIED = {"resnet8": 64}
"""How many, if not 8: a class that wins by little makes the cosine of single pictures jump."""

FIXED = "--inputShape=" + ";".join(f"{token}:1,128" for token in TOKENS)

SAME = 0.9999
"""Least cosine with the exact result."""

LOST = 0.001
"""What the mean cosine with the float model may fall below that of the exact result."""

ODD = 2e-4
"""Share of a layer's integers that may be one step off; a single one may in every layer."""


@pytest.fixture(autouse=True)
def _openvino() -> None:
    skip_if_missing()


def configuration(name: str, kind: str) -> Config:
    """``rows``: dynamic quantization with calibration data, where rows have scales that are found at run time."""
    if name == "minilm" and kind in ("full", "rows"):
        folder = MODELS.parent / "minilm_calib"
        paths = ",".join(f"{token}:{folder / token}" for token in TOKENS)
        data = {"calibrate_path": paths, "calibrate_size": str(CALIBRATED), "input_type": "BIN"}
        return changed(FULL if kind == "full" else DYNAMIC, data_preprocess_param=data)
    bits = {"weight8": "8", "weight4": "4"}.get(kind)
    return (
        changed(WEIGHT, common_quant_param={"bit_num": bits}) if bits else DYNAMIC if kind == "dynamic" else full(name)
    )


def converted(name: str, kind: str, folder: Path, *, is_open: bool = False) -> onnx.ModelProto:
    """The ONNX file, with the shapes that the model leaves open; ``rows`` with fixed ones unless ``is_open``."""
    flags = [FIXED] if kind == "rows" and not is_open else []
    (folder / "quant.cfg").write_text(ini(configuration(name, kind)), encoding="utf-8")
    model, out = shared_model(FILES[name][0]), folder / "out"
    outcome = command(
        "--fmk=ONNX",
        f"--modelFile={model}",
        f"--outputFile={out}",
        "--saveType=ONNX",
        f"--configFile={folder}/quant.cfg",
        *flags,
    )
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    return onnx.load(out.with_suffix(".onnx"))


def samples(name: str) -> list[Feed]:
    """Pictures or sentences that calibration has not seen."""
    folder = {"resnet8": "cifar10_calib", "minilm": "minilm_calib"}.get(name, "imagenet_calib")
    feeds = calibration_feeds(name, MODELS.parent / folder, CALIBRATED + TRIED.get(name, 8))
    return list(islice(feeds, CALIBRATED, None))


def mean_cosine(found: list[Arrays], wanted: list[Arrays]) -> float:
    return float(np.mean([cosine(a[name], b[name]) for a, b in zip(found, wanted, strict=True) for name in b]))


def tried(table: Mapping[str, Sequence[str]]) -> list[ParameterSet]:
    pairs = [(name, kind) for name, kinds in table.items() for kind in kinds]
    return [pytest.param(*pair, marks=() if pair[0] == QUICK else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("name", "kind"), tried(EQUAL))
def test_a_file_gives_its_numbers(name: str, kind: str, tally: Tally, tmp_path: Path) -> None:
    tally("OpenVINO", f"whole models, {kind}")
    model, feeds = converted(name, kind, tmp_path), samples(name)
    (found,) = run_cases([Case(model, feeds)], tmp_path)
    for outputs, feed in zip(found, feeds, strict=True):
        for output, array in run_exactly(model, feed).items():
            assert cosine(outputs[output], array) >= SAME, output


@pytest.mark.parametrize("processor", ["", "AVX2"])
@pytest.mark.parametrize(("name", "kind"), tried(INTEGERS))
def test_every_layer_gives_its_numbers_from_the_same_integers(
    name: str, kind: str, processor: str, tmp_path: Path
) -> None:
    cut = list(parts(converted(name, kind, tmp_path), samples(name)[0]))
    runs = run_cases([Case(part.model, [part.feed]) for part in cut], tmp_path, processor=processor)
    for part, (found,) in zip(cut, runs, strict=True):
        array = found[part.tensor]
        assert (array.dtype, array.shape) == (part.expected.dtype, part.expected.shape), part.tensor
        assert cosine(array, part.expected) >= SAME, part.tensor
        if np.issubdtype(array.dtype, np.integer):
            steps = np.abs(array.astype(np.int32) - part.expected)
            assert steps.max() <= 1, part.tensor
            assert np.count_nonzero(steps) <= max(ODD * steps.size, 1), part.tensor


@pytest.mark.parametrize(("name", "kind"), tried(INTEGERS))
def test_a_network_of_integers_is_as_accurate_as_its_exact_result(
    name: str, kind: str, tally: Tally, tmp_path: Path
) -> None:
    tally("OpenVINO", f"whole models, {kind}")
    model, feeds = converted(name, kind, tmp_path), samples(name)
    plain = onnx.load(shared_model(FILES[name][0]))
    wanted = [run_exactly(plain, feed) for feed in feeds]
    (found,) = run_cases([Case(model, feeds)], tmp_path)
    exact = [run_exactly(model, feed) for feed in feeds]
    assert mean_cosine(found, wanted) >= mean_cosine(exact, wanted) - LOST


@pytest.mark.slow
def test_rows_with_scales_of_their_own_need_fixed_shapes(tmp_path: Path) -> None:
    """Where the number of rows is open, OpenVINO takes their scales for those of columns."""
    model = converted("minilm", "rows", tmp_path, is_open=True)
    with pytest.raises(RuntimeError, match="FakeQuantize"):
        run_cases([Case(model, samples("minilm")[:1])], tmp_path)


RESIDUAL = """g (float[1,16,6,6] x) => (float[1,16,6,6] y) {
    q = QuantizeLinear(x, sx, z) d = DequantizeLinear(q, sx, z) k = DequantizeLinear(w, sw, zw)
    a = Conv<pads = [1,1,1,1]>(d, k) qa = QuantizeLinear(a, sa, z) da = DequantizeLinear(qa, sa, z)
    b = Conv<pads = [1,1,1,1]>(da, k) qb = QuantizeLinear(b, sb, zb) db = DequantizeLinear(qb, sb, zb)
    s = Add(d, BRANCH) qs = QuantizeLinear(s, ss, z) y = DequantizeLinear(qs, ss, z) }"""
"""A block of a residual network."""


def residual(branch: str) -> onnx.ModelProto:
    steps = {
        name: np.float32(step) for name, step in {"sx": 0.031, "sw": 0.002, "sa": 0.03, "sb": 0.11, "ss": 0.12}.items()
    }
    weight = np.random.default_rng(0).integers(-60, 60, (16, 16, 3, 3)).astype(np.int8)
    zeros = {"z": np.uint8(0), "zw": np.int8(0), "zb": np.uint8(128)}
    return build_proto(RESIDUAL.replace("BRANCH", branch), w=weight, **steps, **zeros)


def test_the_output_of_a_convolution_is_not_rounded_before_an_addition(tmp_path: Path) -> None:
    """Why residual networks give other numbers as a whole: OpenVINO computes both in one kernel."""
    feed = {"x": np.abs(normal(1, 16, 6, 6)) * 4}
    ((found,),) = run_cases([Case(residual("db"), [feed])], tmp_path)
    as_written, unrounded = run_exactly(residual("db"), feed)["y"], run_exactly(residual("b"), feed)["y"]
    assert np.mean(np.abs(found["y"] - as_written) > 1e-4) > 0.1
    assert np.abs(found["y"] - unrounded).max() < 1e-4


BESIDE_TRANSPOSES = {
    "behind": "a = Conv(x, w, b) y = Transpose<perm = [0,3,2,1]>(a)",
    "behind, strides": "a = Conv<strides = [2,2]>(x, w, b) y = Transpose<perm = [0,2,3,1]>(a)",
    "in front": "t = Transpose<perm = [0,2,1,3]>(x) u = Transpose<perm = [0,3,2,1]>(t) a = Conv(u, w, b) y = Relu(a)",
    "around": "t = Transpose<perm = [0,1,3,2]>(x) a = Conv<pads = [1,1,1,1]>(t, w) y = Transpose<perm = [0,2,3,1]>(a)",
}
"""OpenVINO makes a product of matrices of each, with the numbers of another network or a result of another shape."""


WEIGHTS_ALONE = {
    "weight": WEIGHT,
    "dynamic": DYNAMIC,
    "on the fly": changed(WEIGHT, weight_quant_param={"dequant_strategy": "ON_THE_FLY"}),
    "four bits": changed(WEIGHT, common_quant_param={"bit_num": "4"}),
}


@pytest.mark.parametrize("kind", WEIGHTS_ALONE)
@pytest.mark.parametrize("place", BESIDE_TRANSPOSES)
def test_a_convolution_beside_a_transpose_is_one(place: str, kind: str, tmp_path: Path) -> None:
    text = f"g (float[1,40,6,40] x) => (float[1,N,M,K] y) {{ {BESIDE_TRANSPOSES[place]} }}"
    model = build_proto(text, w=normal(32, 40, 1, 1), b=normal(32))
    assert_same_numbers(model, {"x": normal(1, 40, 6, 40)}, WEIGHTS_ALONE[kind], tmp_path)


@pytest.mark.parametrize("kind", ["on the fly", "four bits"])
@pytest.mark.parametrize("product", ["MatMul(x, w)", "Gemm(x, w)", "Gemm<transB = 1>(x, w)"])
def test_a_product_adds_up_an_odd_number_of_elements(product: str, kind: str, tmp_path: Path) -> None:
    """OpenVINO takes other integers than those that are meant, if they have four bits."""
    weight = normal(64, 45) if "transB" in product else normal(45, 64)
    model = build_proto(f"g (float[N,45] x) => (float[N,64] y) {{ y = {product} }}", w=weight)
    config = changed(WEIGHTS_ALONE[kind], common_quant_param={"bit_num": "4"})
    assert_same_numbers(model, {"x": normal(3, 45)}, config, tmp_path)


@pytest.mark.parametrize("kind", ["full", "weight", "dynamic", "on the fly"])
@pytest.mark.parametrize(("layer", "gates"), [("GRU", 3), ("RNN", 1), ("LSTM", 4)])
def test_recurrent_layers_behind_convolutions_have_their_weights(
    layer: str, gates: int, kind: str, tmp_path: Path
) -> None:
    """OpenVINO computes something else with stored ones in a file that has integer activations."""
    text = f"""g (float[1,32,40] x) => (float[40,1,1,64] y) {{
        a = Conv<pads = [1,1]>(x, w1) b = Relu(a) c = Conv<pads = [1,1]>(b, w2) d = Relu(c)
        t = Transpose<perm = [2,0,1]>(d) y = {layer}<hidden_size = 64>(t, w, r) }}"""
    weights = {"w1": normal(128, 32, 3) / 10, "w2": normal(128, 128, 3) / 20}
    model = build_proto(text, **weights, w=normal(1, gates * 64, 128) / 10, r=normal(1, gates * 64, 64) / 10)
    data = {"calibrate_path": f"x:{tmp_path}/bins", "calibrate_size": "8", "input_type": "BIN"}
    write_bins(tmp_path / "bins", 8, (1, 32, 40))
    config = changed(FULL, data_preprocess_param=data) if kind == "full" else WEIGHTS_ALONE[kind]
    if layer == "LSTM":
        config = changed(config, dynamic_quant_param={"recurrent_operator": "false"}) if kind == "dynamic" else config
    assert_same_numbers(model, {"x": normal(1, 32, 40)}, config, tmp_path)


def assert_same_numbers(plain: onnx.ModelProto, feed: Feed, config: Config, folder: Path) -> None:
    """What a quantized file of one layer gives in OpenVINO is its exact result."""
    onnx.save(plain, folder / "model.onnx")
    (folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
    flags = [f"--modelFile={folder}/model.onnx", f"--outputFile={folder}/out", f"--configFile={folder}/quant.cfg"]
    outcome = command("--fmk=ONNX", "--saveType=ONNX", *flags)
    assert (outcome.status, outcome.last_line) == (0, SUCCESS), outcome
    model = onnx.load(folder / "out.onnx")
    assert any(tensor.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.INT4) for tensor in model.graph.initializer)
    ((found,),) = run_cases([Case(model, [feed])], folder)
    np.testing.assert_allclose(found["y"], run_exactly(model, feed)["y"], atol=1e-4)
