"""Written Paddle models as Paddle's own passes and oneDNN's kernels compute them, in Paddle 2.6.2 and 3.3.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.passes.pipeline import optimize
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.runtimes.conftest import Tally
from tests.runtimes.neighbours import before_convolutions, behind_convolutions
from tests.runtimes.paddle_inference import InferenceCase, run_models
from tests.runtimes.test_nb_operators import CASES, expected, mismatch
from tests.runtimes.test_paddle_inference import FORMAT, NEEDS_VNNI, RELEASES, fed, quantized, singles, write
from tests.support import Samples, build, normal, run

pytestmark = pytest.mark.runtime


ALONE = ("Pad of many channels with the least", "Where of a row")
"""Cases whose numbers a convolution cannot sum, or whose choice a last bit of its result would decide."""

NEIGHBOURS: dict[str, Callable[[ir.Model], ir.Model | None]] = {
    "operators": lambda model: model,
    "operators behind Conv": behind_convolutions,
    "operators before Conv": before_convolutions,
}
"""What stands beside an operator."""


@RELEASES
@pytest.mark.parametrize("way", ["cpu", "onednn"])
@pytest.mark.parametrize("beside", NEIGHBOURS)
def test_every_operator_is_right_with_paddles_passes(
    beside: str, way: str, release: str, tally: Tally, tmp_path: Path
) -> None:
    """As the pipeline writes them; oneDNN has no tensors of more than six dimensions."""
    made = [(case, NEIGHBOURS[beside](case.model)) for case in CASES if way == "cpu" or _most_axes(case.model) <= 6]
    cases = [
        (case, model) for case, model in made if model is not None and (case.model is model or case.name not in ALONE)
    ]
    assert len(cases) > 0.5 * len(CASES)
    wrong = {}
    ran = [
        InferenceCase(prepared(model, tmp_path / f"{number}.pdmodel"), fed(model, case.feed), way)
        for number, (case, model) in enumerate(cases)
    ]
    for (case, model), found in zip(cases, run_models(release, ran, tmp_path), strict=True):
        wanted = expected(case) if model is case.model else outputs(model, case.feed)
        if problem := found.error or mismatch(
            singles(found), wanted, max(case.tolerance, 2e-4 * (model is not case.model))
        ):
            wrong[case.name] = problem
    tally(f"paddle {release}", f"{beside}, {way}", tried=len(cases), wrong=len(wrong))
    assert wrong == {}


def prepared(model: ir.Model, path: Path) -> Path:
    """A file of a model as the pipeline prepares it."""
    spelled = optimize(model.clone(), level="none", spelled_out=FORMAT.requirements.spelled_out).model
    return write(QuantizedModel(spelled, QuantPlan("paddle")), path)


def outputs(model: ir.Model, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """What onnxruntime gives."""
    names = [str(value.name) for value in model.graph.inputs]
    return [np.asarray(found) for found in run(model, dict(zip(names, arrays.values(), strict=True))).values()]


def _most_axes(model: ir.Model) -> int:
    return max(value.shape.rank() for value in (*model.graph.inputs, *model.graph.outputs) if value.shape is not None)


CONV = "a = Conv<pads=[1,1,1,1]>(x, w)"
MISREAD = {
    "activations in a row": f"{CONV} b = Relu(a) y = Tanh(b)",
    "three activations": f"{CONV} b = Sigmoid(a) c = Abs(b) y = Sqrt(c)",
    "activations behind a sum": f"{CONV} s = Add(a, x) b = Relu(s) y = Sigmoid(b)",
    "an activation that is read twice": f"{CONV} b = Relu(a) c = Tanh(b) y = Add(b, c)",
    "activations behind a product": "f = Flatten(x) m = MatMul(f, v) b = Relu(m) c = Tanh(b) y = Reshape(c, size)",
    "a constant joined first": "y = Concat<axis=1>(k, x)",
    "channels in blocks times a constant": f"{CONV} y = MatMul(a, p)",
    "channels in blocks times themselves": f"{CONV} b = Relu(a) c = Add(a, x) y = MatMul(b, c)",
    "channels in blocks behind a softmax": f"{CONV} b = Softmax<axis=3>(a) y = MatMul(q, b)",
    "channels in blocks and a layer": f"{CONV} b = Mul(a, k) m = MatMul(b, t) n = Add(m, e) y = HardSwish(n)",
    "channels in blocks that are normalized": f"{CONV} b = LayerNormalization(a, e) y = MatMul(q, b)",
    "a product and its opposite": "b = MatMul(x, t) c = Neg(b) y = Concat<axis=1>(b, c)",
    "elements repeated and divided": "b = Sigmoid(x) y = Div(e, b)",
    "means divided": "m = ReduceMean<axes=[3]>(x) b = Sigmoid(x) y = Div(m, b)",
    "one slope of rows": "r = Reshape(x, long) c = Conv(r, d) b = PRelu(c, o) y = Reshape(b, size)",
    "one slope of all": "f = Flatten(x) b = PRelu(f, o) y = Reshape(b, size)",
}
"""What Paddle's passes compute wrong, or end the process with, unless something stands between."""


@RELEASES
@pytest.mark.parametrize("way", ["plain", "cpu", "onednn", "int8"])
def test_what_paddles_passes_misread_is_kept_from_them(way: str, release: str, tally: Tally, tmp_path: Path) -> None:
    constants = {
        "w": normal(4, 4, 3, 3),
        "k": normal(1, 1, 6, 6),
        "q": normal(5, 6),
        "v": normal(144, 144) / 12,
        "p": normal(1, 4, 6, 3),
        "t": normal(6, 6, seed=3),
        "e": normal(6, seed=4),
        "o": np.array([0.25], np.float32),
        "d": normal(4, 4, 1, seed=5),
        "size": np.array([1, 4, 6, 6]),
        "long": np.array([1, 4, 36]),
    }
    feed, wrong, cases = {"x": normal(1, 4, 6, 6, seed=2)}, {}, []
    for name, body in MISREAD.items():
        model = build(f"g (float[1,4,6,6] x) => (float[1,e,h,i] y) {{ {body} }}", opset=17, **constants)
        cases.append((name, model, InferenceCase(prepared(model, tmp_path / f"{name}.pdmodel"), fed(model, feed), way)))
    results = run_models(release, [case for _, _, case in cases], tmp_path)
    for (name, model, _), found in zip(cases, results, strict=True):
        if problem := found.error or mismatch(singles(found), outputs(model, feed), 1e-4):
            wrong[name] = problem
    tally(f"paddle {release}", f"misread, {way}", tried=len(cases), wrong=len(wrong))
    assert wrong == {}


@NEEDS_VNNI
@RELEASES
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a = Conv<pads=[1,1,1,1]>(x, w) b = Relu(a) c = MatMul(b, v) y = Conv(c, u)", id="blocks"),
        pytest.param("a = MatMul(x, v) b = Neg(a) c = MatMul(b, t) y = Conv(c, u)", id="a negative factor"),
    ],
)
def test_integer_matrices_are_right_behind_what_the_passes_misread(text: str, release: str, tmp_path: Path) -> None:
    weights = {"w": normal(8, 8, 3, 3) / 8, "v": normal(16, 24) / 4, "u": normal(8, 8, 1, 1, seed=3) / 3}
    model = build(f"g (float[1,8,8,16] x) => (float[1,8,8,24] y) {{ {text} }}", **weights, t=normal(24, 24) / 5)
    feeds = Samples({"x": normal(1, 8, 8, 16, seed=seed)} for seed in range(4))
    path = write(quantized(model, feeds), tmp_path / "m.pdmodel")
    (found,) = run_models(release, [InferenceCase(path, fed(model, feeds[0]), "int8")], tmp_path)
    assert mismatch(singles(found), outputs(model, feeds[0]), 0.03) == found.error == ""


INTEGERS = {
    "channels in blocks": "a = Conv(x, w) y = MatMul(a, t)",
    "channels in blocks behind a Relu": "a = Conv(x, w) b = Relu(a) y = MatMul(b, t)",
    "pictures grown": "a = ConvTranspose(x, u) y = Conv(a, w)",
    "positions first": "a = Conv(x, w) r = Reshape(a, rows) b = Transpose<perm=[0,1,3,2]>(r) y = MatMul(b, v)",
    "axes in a circle": "r = Reshape(x, parts) b = Transpose<perm=[1,2,3,0]>(r) y = MatMul(b, v)",
    "a single row": "m = ReduceMean<axes=[3]>(x) y = MatMul(m, i)",
}
"""The same, where integers are computed."""


@NEEDS_VNNI
@RELEASES
@pytest.mark.parametrize("way", ["cpu", "onednn", "int8"])
def test_integers_that_paddles_passes_misread_are_kept_from_them(
    way: str, release: str, tally: Tally, tmp_path: Path
) -> None:
    constants = {
        "w": normal(4, 4, 1, 1),
        "u": normal(4, 4, 1, 1, seed=3),
        "t": normal(6, 6, seed=4) / 3,
        "v": normal(4, 6, seed=5),
        "i": normal(1, 6, seed=6),
        "rows": np.array([1, 2, 4, 36]),
        "parts": np.array([4, 1, 12, 6]),
    }
    feeds, wrong, cases = Samples({"x": normal(2, 4, 6, 6, seed=seed)} for seed in range(4)), {}, []
    for name, body in INTEGERS.items():
        model = build(f"g (float[2,4,6,6] x) => (float[d,e,h,i] y) {{ {body} }}", opset=17, **constants)
        spelled = optimize(model.clone(), level="none", spelled_out=FORMAT.requirements.spelled_out).model
        path = write(quantized(spelled, feeds), tmp_path / f"{name}.pdmodel")
        cases.append((name, model, InferenceCase(path, {"x": feeds[0]["x"][None]}, way)))
    results = run_models(release, [case for _, _, case in cases], tmp_path)
    for (name, model, _), found in zip(cases, results, strict=True):
        if problem := found.error or mismatch(singles(found), outputs(model, feeds[0]), 0.05):
            wrong[name] = problem
    tally(f"paddle {release}", f"misread integers, {way}", tried=len(cases), wrong=len(wrong))
    assert wrong == {}


@RELEASES
def test_nearest_elements_by_any_factor_are_those_of_the_model_with_onednn(release: str, tmp_path: Path) -> None:
    feed, models = {"x": normal(1, 2, 8, 12)}, []
    for size in ((4, 4), (12, 18), (16, 36), (3, 5), (8, 24)):
        text = (
            f"g (float[1,2,8,12] x) => (float[1,2,{size[0]},{size[1]}] y) {{ y = Resize<mode='nearest', "
            "coordinate_transformation_mode='asymmetric', nearest_mode='floor'>(x, r, r, s) }"
        ).replace("'", '"')
        models.append(build(text, r=np.zeros(0, np.float32), s=np.array([1, 2, *size])))
    files = [prepared(model, tmp_path / f"{number}.pdmodel") for number, model in enumerate(models)]
    results = run_models(release, [InferenceCase(path, fed(models[0], feed), "onednn") for path in files], tmp_path)
    for model, found in zip(models, results, strict=True):
        assert found.error == ""
        np.testing.assert_array_equal(found.outputs[0][0], run(model, feed)["y"])
