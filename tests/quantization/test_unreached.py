"""Tensors that hold no value in some calibration samples, or in all, as experts do that no token is sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.calibration.cache import StatisticsCache
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.observers import METHODS
from converter_lite.calibration.runner import collect
from converter_lite.config.names import Rounding
from converter_lite.errors import CalibrationError
from converter_lite.log import Log
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.quantization.unreached import REASON
from converter_lite.runtime.context import RunContext
from tests.support import Samples, build, full, normal, run, since, sqnr, written

pytestmark = since("onnxruntime", 1, 21, reason="its ReduceMax fails on a tensor without values")

ROWS = 6


def experts(judge: str = "x") -> ir.Model:
    """Rows go to one of two products by the sign of the first value of ``judge``, and pass a third before."""
    return build(
        """g (float[k,16] x) => (float[n,16] a, float[m,16] b)
        { h = MatMul(x, first) column = Slice(JUDGE, zero, one, one)
          flat = Reshape(column, all) left = Greater(flat, nothing) right = Not(left)
          ha = Compress<axis=0>(h, left) hb = Compress<axis=0>(h, right)
          a = MatMul(ha, wa) b = MatMul(hb, wb) }""".replace("JUDGE", judge),
        first=normal(16, 16, seed=1),
        wa=normal(16, 16, seed=2),
        wb=normal(16, 16, seed=3),
        zero=np.array([0]),
        one=np.array([1]),
        all=np.array([-1]),
        nothing=np.zeros(1, np.float32),
    )


def rows(seed: int, *, left: bool, scale: float = 1.0) -> dict[str, NDArray[Any]]:
    values = scale * normal(ROWS, 16, seed=seed)
    values[:, 0] = np.abs(values[:, 0]) * (1 if left else -1)
    return {"x": values}


def modes(quantized: QuantizedModel) -> list[NodeMode]:
    return [quantized.plan.mode(node) for node in quantized.model.graph if node.op_type == "MatMul"]


@pytest.mark.parametrize("method", list(METHODS))
def test_what_no_sample_reaches_stays_float_and_says_why(method: str) -> None:
    feeds = Samples(rows(seed, left=True) for seed in range(4))
    quantized = full(experts(), samples=feeds, method=method, bias_correction=True, equalization=True)
    assert modes(quantized) == [NodeMode.INTEGER, NodeMode.INTEGER, NodeMode.FLOAT]
    assert REASON in dict(quantized.plan.float_reasons())
    assert sqnr(experts(), written(quantized), [*feeds, rows(9, left=False)]) > 30


@pytest.mark.parametrize("method", list(METHODS))
def test_samples_without_values_do_not_move_a_range(method: str) -> None:
    reached = [rows(seed, left=True) for seed in range(3)]
    others = [rows(seed, left=False) for seed in (7, 8)]
    context = CalibrationContext()
    need, observe = METHODS[method]
    expected = collect(experts(), ["ha"], need, Samples(reached), context)["ha"]
    found = collect(experts(), ["ha"], need, Samples([*others, *reached]), context)["ha"]
    assert (found.samples, found.empty, expected.empty) == (5, 2, 0)
    assert observe(found, 8) == observe(expected, 8)


@pytest.mark.parametrize("rounding", [Rounding.NEAREST, Rounding.ADAPTIVE])
def test_layers_are_corrected_and_fitted_on_samples_of_which_some_have_rows(rounding: Rounding) -> None:
    feeds = Samples(rows(seed, left=seed % 2 == 0) for seed in range(6))
    quantized = full(experts(), samples=feeds, rounding=rounding, bias_correction=True, equalization=True)
    assert modes(quantized) == [NodeMode.INTEGER] * 3
    assert sqnr(experts(), written(quantized), feeds) > 30


def test_networks_may_disagree_on_the_rows_of_an_expert() -> None:
    model, feeds = experts("h"), Samples({"x": normal(400, 16, seed=seed)} for seed in range(4))
    quantized = full(model, samples=feeds, rounding=Rounding.ADAPTIVE, bias_correction=True, equalization=True)
    found = written(quantized)
    assert any(run(model, feed)["a"].shape != run(found, feed)["a"].shape for feed in feeds)
    assert modes(quantized) == [NodeMode.INTEGER] * 3
    for name in ("wa", "wb"):
        params, weight = quantized.plan.weights[name], quantized.model.graph.initializers[name].const_value
        assert weight is not None
        error = np.abs(params.dequantize(quantized.integers(name)) - weight.numpy())
        assert error.max() < 3 * float(np.max(params.scale))


def test_products_are_smoothed_by_the_samples_that_have_rows_for_them() -> None:
    def plan(*feeds: dict[str, NDArray[Any]]) -> QuantPlan:
        model, settings = experts(), DynamicSettings(rounding=Rounding.NEAREST)
        context = RunContext()
        return quantize_dynamic(model, settings, target="CPU", samples=Samples(feeds), context=context).plan

    reached = [rows(seed, left=True) for seed in range(2)]
    left_out = [{"x": np.zeros((0, 16), np.float32)}] * 2
    assert plan(*reached, *left_out).to_json() == plan(*reached).to_json()


def test_a_cache_keeps_what_is_known_of_tensors_without_values(tmp_path: Path) -> None:
    log, names = Log(), ["ha", "hb", "b"]
    feeds = Samples([rows(seed, left=True) for seed in range(3)])
    need, _ = METHODS["KL"]
    first = collect(experts(), names, need, feeds, context=_cached(tmp_path, log))
    again = collect(experts(), names, need, Samples([{}] * 3), context=_cached(tmp_path, log))
    assert [again[name].is_reached for name in names] == [True, False, False]
    assert again["ha"].rmax == first["ha"].rmax and again["hb"].empty == 3


def _cached(folder: Path, log: Log) -> CalibrationContext:
    return CalibrationContext(log=log, cache=StatisticsCache(folder, "data", log))


def test_lowest_values_are_not_taken_for_none() -> None:
    feeds = Samples([{"x": np.full((1, 4), -np.inf, np.float32)}])
    model = build("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }")
    with pytest.raises(CalibrationError, match="NaN or infinite"):
        collect(model, ["x"], METHODS["MAX_MIN"][0], feeds, CalibrationContext())
