"""Written Paddle models in Paddle 2.6.2 and 3.3.1: operators, integers of oneDNN, whole networks; and the original `opt`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from converter_lite.calibration.context import CalibrationContext
from converter_lite.formats.base import FileOptions
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.inference_model.format import InferenceFormat
from converter_lite.formats.paddle.inference_model.policy import InferencePolicy
from converter_lite.formats.paddle.inference_model.reader import load, read_paddle
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.source import Source
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.settings import FullSettings
from tests.cli.workshop import changed, command
from tests.runtimes.conftest import Tally
from tests.runtimes.paddle_arm import require_arm, run_on_arm
from tests.runtimes.paddle_inference import ENVIRONMENTS, Found, InferenceCase, run_models
from tests.runtimes.test_converted_models import FILES, FULL, TOKENS, convert, full, sample
from tests.runtimes.test_nb_operators import CASES, expected, mismatch
from tests.runtimes.test_nb_original import original
from tests.support import MODELS, Samples, build, normal, run, shared_model

pytestmark = pytest.mark.runtime

RELEASES = pytest.mark.parametrize("release", ENVIRONMENTS)
CPUINFO = Path("/proc/cpuinfo")
NEEDS_VNNI = pytest.mark.skipif(
    not (CPUINFO.exists() and {"avx512_vnni", "avx_vnni"} & set(CPUINFO.read_text().split())),
    reason="oneDNN's integer kernels saturate on a processor without VNNI",
)
FORMAT = InferenceFormat()
PIR_FORMAT = InferenceFormat.of(FileOptions(source=Path("inference.json")))


def singles(found: Found) -> list[NDArray[Any]]:
    return [array[0].reshape(array[0].shape or (1,)) for array in found.outputs]


def write(quantized: QuantizedModel, path: Path) -> Path:
    FORMAT.write(quantized, path)
    return path


def fed(model: ir.Model, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One sample."""
    names = [str(value.name) for value in model.graph.inputs]
    return {name: np.asarray(array)[None] for name, array in zip(names, arrays.values(), strict=True)}


@RELEASES
def test_every_operator_gives_the_float_models_numbers(release: str, tally: Tally, tmp_path: Path) -> None:
    files = [
        write(QuantizedModel(case.model, QuantPlan("paddle")), tmp_path / f"{number}.pdmodel")
        for number, case in enumerate(CASES)
    ]
    cases = [InferenceCase(path, fed(case.model, case.feed)) for path, case in zip(files, CASES, strict=True)]
    results = run_models(release, cases, tmp_path)
    wrong = {
        case.name: problem
        for case, found in zip(CASES, results, strict=True)
        if (problem := found.error or mismatch(singles(found), expected(case), case.tolerance))
    }
    tally(f"paddle {release}", "operators, written", tried=len(CASES), wrong=len(wrong))
    assert wrong == {}


def test_pir_programs_give_the_float_models_numbers(tally: Tally, tmp_path: Path) -> None:
    """One case for each sequence of operators, and all that have parameters."""
    chosen, seen = [], set()
    for number, case in enumerate(CASES):
        path = tmp_path / f"{number}.pdmodel"
        PIR_FORMAT.write(QuantizedModel(case.model, QuantPlan("paddle")), path)
        program, parameters = load(path, path.with_suffix(".pdiparams"))
        read = {name for operator in program.main.operators for names in operator.inputs.values() for name in names}
        known = {variable.name for variable in program.main.variables if variable.dims}
        assert read - {"feed"} <= known, case.name  # a program says that what has no shape is a number
        kinds = tuple(operator.type for operator in program.main.operators)
        if kinds not in seen or "unused" not in parameters:
            chosen.append((path.with_suffix(".json"), case))
        seen.add(kinds)
    cases = [InferenceCase(path, fed(case.model, case.feed)) for path, case in chosen]
    results = run_models("3.3.1", cases, tmp_path)
    wrong = {
        case.name: problem
        for (_, case), found in zip(chosen, results, strict=True)
        if (problem := found.error or mismatch(singles(found), expected(case), case.tolerance))
    }
    tally("paddle 3.3.1", "PIR, written", tried=len(chosen), wrong=len(wrong))
    assert wrong == {}


@pytest.mark.parametrize("way", ["plain", "cpu", "onednn"])
def test_integers_of_a_pir_program_are_those_of_the_plan(way: str, tally: Tally, tmp_path: Path) -> None:
    model = build(
        """g (float[4,16] x) => (float[4,12] y) { a = MatMul(x, w) b = Relu(a) c = Add(b, e) y = MatMul(c, v) }""",
        w=normal(16, 16) * np.geomspace(0.1, 4, 16).astype(np.float32),
        e=normal(16, seed=2),
        v=normal(16, 12, seed=3),
    )
    for name, network, shape in (("chain", chain(), (1, 8, 16, 16)), ("matrices", model, (4, 16))):
        tally("paddle 3.3.1", "PIR, integers")
        feeds = Samples({"x": normal(*shape, seed=seed)} for seed in range(4))
        path = tmp_path / f"{name}.pdmodel"
        PIR_FORMAT.write(quantized(network, feeds), path)
        samples = {"x": np.stack([feed["x"] for feed in feeds])}
        (found,) = run_models("3.3.1", [InferenceCase(path.with_suffix(".json"), samples, way)], tmp_path)
        assert found.error == ""
        view = Source.of(read_paddle(path.with_suffix(".json")), 0, "m").model
        wanted = np.stack([run(view, feed)["y"] for feed in feeds])
        np.testing.assert_allclose(found.outputs[0], wanted, atol=1e-5 * np.abs(wanted).max())


@RELEASES
def test_operators_without_a_kernel_for_x86_in_paddle_lite(release: str, tmp_path: Path) -> None:
    model = build("g (float[3,40] x) => (float[3,40] y) { y = Erf(x) }")
    feed = {"x": 2 * normal(3, 40)}
    path = write(QuantizedModel(model, QuantPlan("paddle")), tmp_path / "m.pdmodel")
    (found,) = run_models(release, [InferenceCase(path, fed(model, feed))], tmp_path)
    assert found.error == ""
    np.testing.assert_allclose(found.outputs[0][0], run(model, feed)["y"], atol=1e-6)
    np.testing.assert_allclose(run(read_paddle(path).model, feed)["y"], run(model, feed)["y"], atol=1e-6)


@pytest.mark.parametrize(
    ("release", "ending"), [*((release, ".pdmodel") for release in ENVIRONMENTS), ("3.3.1", ".json")]
)
def test_deformable_convolutions(release: str, ending: str, tmp_path: Path) -> None:
    """Judged by ONNX's reference: not every onnxruntime computes them."""
    text = (
        "g (float[2,4,9,9] x, float[2,36,5,5] o, float[2,18,5,5] m) => (float[2,6,5,5] y) {"
        " y = DeformConv<pads=[1,1,1,1], strides=[2,2], group=2, offset_group=2>(x, w, o, b, m) }"
    )
    model = build(text, opset=19, w=normal(6, 2, 3, 3), b=normal(6, seed=2))
    feed = {"x": normal(2, 4, 9, 9), "o": normal(2, 36, 5, 5, seed=3), "m": normal(2, 18, 5, 5, seed=4)}
    path = tmp_path / f"inference{ending}"
    (PIR_FORMAT if ending == ".json" else FORMAT).write(QuantizedModel(model, QuantPlan("paddle")), path)
    (found,) = run_models(release, [InferenceCase(path, fed(model, feed))], tmp_path)
    assert found.error == ""
    (wanted,) = ReferenceEvaluator(ir.to_proto(model)).run(None, feed)
    np.testing.assert_allclose(found.outputs[0][0], wanted, atol=2e-5)


CHAIN = """g (float[1,8,16,16] x) => (float[1,24,14,14] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Relu(a)
    c = Conv<pads=[1,1,1,1], group=16>(b, w2, b2)
    d = Relu(c)
    y = Conv(d, w3, b3)
}"""


def chain() -> ir.Model:
    """Convolutions of all kinds, each read by the next."""
    return build(
        CHAIN,
        w1=normal(16, 8, 3, 3) / 8,
        b1=normal(16, seed=2),
        w2=normal(16, 1, 3, 3, seed=3) / 3,
        b2=normal(16, seed=4),
        w3=normal(24, 16, 3, 3, seed=5) / 12,
        b3=normal(24, seed=6),
    )


def quantized(model: ir.Model, feeds: Samples) -> QuantizedModel:
    settings = FullSettings(bias_correction=False, equalization=False)
    return quantize_full(model.clone(), InferencePolicy(), settings, samples=feeds, context=CalibrationContext())


@NEEDS_VNNI
@RELEASES
def test_integer_convolutions_are_within_one_step_of_the_plan(release: str, tally: Tally, tmp_path: Path) -> None:
    """oneDNN's grid behind a Relu has 255 steps where the plan's has 127, so that a result differs by at most half a step."""
    tally(f"paddle {release}", "oneDNN, integers")
    feeds = Samples({"x": normal(1, 8, 16, 16, seed=seed)} for seed in range(4))
    made = quantized(chain(), feeds)
    path = write(made, tmp_path / "m.pdmodel")
    samples = {"x": np.stack([feed["x"] for feed in feeds])}
    plain, integer = run_models(release, [InferenceCase(path, samples, way) for way in ("plain", "int8")], tmp_path)
    view = Source.of(read_paddle(path), 0, "m").model
    wanted = np.stack([run(view, feed)["y"] for feed in feeds])
    assert plain.error == integer.error == ""
    np.testing.assert_allclose(plain.outputs[0], wanted, atol=1e-5 * np.abs(wanted).max())
    step = float(made.plan.activations["d"].scale)
    weights = np.abs(np.asarray(chain().graph.initializers["w3"].const_value.numpy()))  # type: ignore[union-attr]
    reach = weights.sum(axis=(1, 2, 3))[:, None, None]
    assert np.all(np.abs(integer.outputs[0] - wanted) <= step * reach)
    assert (
        np.sqrt(np.mean((integer.outputs[0] - wanted) ** 2))
        < np.sqrt(np.mean([(run(chain(), feed)["y"] - row) ** 2 for feed, row in zip(feeds, wanted, strict=True)]))
        * 1.5
    )
    assert sum("_s8" in line or "_u8" in line or ":s8" in line or ":u8" in line for line in integer.kernels) == 3 * len(
        feeds
    )


@NEEDS_VNNI
@RELEASES
def test_a_pool_in_front_of_integers_keeps_its_own_range(release: str, tally: Tally, tmp_path: Path) -> None:
    """Unmarked, it would be computed with the scale behind it, which a mean of few large numbers leaves far below them."""
    tally(f"paddle {release}", "oneDNN, integers")
    model = build(
        """g (float[1,8,8,8] x) => (float[1,8,1,1] y) {
            a = Conv(x, w1) b = Relu(a) c = GlobalAveragePool(b) y = Conv(c, w2)
        }""",
        w1=normal(16, 8, 1, 1),
        w2=normal(8, 16, 1, 1, seed=2),
    )
    data = np.zeros((1, 8, 8, 8), np.float32)
    data[0, :, 0, 0] = 30 * normal(8, seed=3)
    feeds = Samples([{"x": data}])
    path = write(quantized(model, feeds), tmp_path / "m.pdmodel")
    (found,) = run_models(release, [InferenceCase(path, {"x": data[None]}, "int8")], tmp_path)
    wanted = run(model, feeds[0])["y"]
    assert found.error == ""
    assert np.abs(found.outputs[0][0] - wanted).max() <= 0.03 * np.abs(wanted).max()


@NEEDS_VNNI
@RELEASES
@pytest.mark.parametrize("sizes", [(16, 16), (16, 24), (24, 16)], ids=str)
def test_matrices_of_every_form_are_right_with_the_passes_for_integers(
    sizes: tuple[int, int], release: str, tally: Tally, tmp_path: Path
) -> None:
    tally(f"paddle {release}", "oneDNN, integers")
    spread = np.geomspace(0.1, 4, sizes[1]).astype(np.float32)
    graph = f"g (float[4,{sizes[0]}] x) => (float[4,{sizes[1]}] y) {{ a = MatMul(x, w) y = Add(a, b) }}"
    model = build(graph, w=normal(*sizes) * spread, b=normal(sizes[1], seed=2))
    feeds = Samples([{"x": normal(4, sizes[0], seed=3)}])
    path = write(quantized(model, feeds), tmp_path / "m.pdmodel")
    (found,) = run_models(release, [InferenceCase(path, {"x": feeds[0]["x"][None]}, "int8")], tmp_path)
    wanted = run(model, feeds[0])["y"]
    assert found.error == ""
    assert np.abs(found.outputs[0][0] - wanted).max() <= 0.02 * np.abs(wanted).max()


COUNT = 40
"""Samples by which whole networks are judged: near-ties decide about the errors of eight."""


def samples_of(name: str, count: int) -> dict[str, NDArray[Any]]:
    """Pictures or sentences for evaluation, along a first axis."""
    if name == "minilm":
        with np.load(MODELS.parent / "minilm_eval.npz") as arrays:
            return {key: arrays[key][:count, None] for key in TOKENS}
    feeds = [sample(name, index) for index in range(50, 50 + count)]
    return {key: np.stack([feed[key] for feed in feeds]) for key in feeds[0]}


def configuration(name: str) -> Any:
    if name != "minilm":
        return full(name)
    folder = MODELS.parent / "minilm_calib"
    paths = ",".join(f"{key}:{folder / key}" for key in TOKENS)
    return changed(FULL, data_preprocess_param={"calibrate_path": paths, "calibrate_size": "8", "input_type": "BIN"})


@NEEDS_VNNI
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_whole_networks_compute_with_integers_as_well_as_the_plan_does(name: str, tally: Tally, tmp_path: Path) -> None:
    """Their difference to the plan is no more than what the plan loses: rounding of one element in 10,000 decides about more."""
    path = convert(name, "PADDLE", configuration(name), tmp_path).with_suffix(".pdmodel")
    like = read_onnx(shared_model(FILES[name][0]), input_shapes=FILES[name][1])
    samples = samples_of(name, COUNT)
    rows = [{key: array[index] for key, array in samples.items()} for index in range(COUNT)]
    float_outputs, view = (
        _stacked([run(data, row) for row in rows])
        for data in (ir.to_proto(like).SerializeToString(), FORMAT.runnable(path, like=like))
    )
    for release, way in product(ENVIRONMENTS, ("plain", "int8")):
        tally(f"paddle {release}", "whole models, full")
        (found,) = run_models(release, [InferenceCase(path, samples, way)], tmp_path)
        assert not found.error, found.error
        for given, planned, exact in zip(found.outputs, view, float_outputs, strict=True):
            given = given.reshape(planned.shape)
            assert _rms(given - exact) <= 1.15 * _rms(planned - exact), (release, way)


def _stacked(rows: list[Any]) -> list[NDArray[Any]]:
    return [np.stack([row[key] for row in rows]) for key in rows[0]]


def _rms(array: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(array.astype(np.float64) ** 2)))


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8", "ultraface"])
def test_the_original_opt_makes_the_numbers_of_our_nb_file(
    name: str, tally: Tally, folder: Path, tmp_path: Path
) -> None:
    require_arm()
    tally("opt 2.12", "written Paddle models, arm")
    path = convert(name, "PADDLE", full(name), tmp_path).with_suffix(".pdmodel")
    original(tmp_path, tmp_path / "theirs", "--valid_targets=arm", files=("out.pdmodel", "out.pdiparams"))
    outcome = command(
        "--fmk=PADDLE", f"--modelFile={path}", f"--outputFile={tmp_path / 'ours'}", "--saveType=NAIVE_BUFFER"
    )
    assert outcome.status == 0, outcome
    results = []
    for kind in ("theirs", "ours"):
        data = (tmp_path / f"{kind}.nb").read_bytes()
        assert any(op.get("enable_int8") for op in parse(data).program.main.operators)
        work = tmp_path / kind
        work.mkdir()
        results.append(run_on_arm(data, list(sample(name).values()), work))
    assert not any(isinstance(result, str) for result in results), results
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(
            theirs, ours, atol=1e-6
        )  # the original leaves products with turned matrices in float
