"""Grids of operators that the runtime has no integer kernel for, in ``.ms`` files of models that are quantized already."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.calibration.context import CalibrationContext
from converter_lite.formats.base import FileOptions
from converter_lite.formats.mindspore_lite.format import output_format
from converter_lite.formats.mindspore_lite.planning import adapt_plan
from converter_lite.formats.mindspore_lite.policy import MS_CPU
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.kernels.params import QuantParams, QuantSpec, params_from_range
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.grid_nodes import REASON
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.settings import FullSettings
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.test_grid_ends import GRAPHS, paired, weighted
from tests.support import build, clone, full, normal, run, samples_of

MODEL = """
    g (float[1,6] x) => (float[1,4] y)
    { h = MatMul(x, w) s = Erf(h) t = Cos(s) y = MatMul(t, v) }
"""
STEP = 4.0 / 255


def quantized() -> QuantizedModel:
    """All of it in integers of one grid from -1 to 3, as other tools have it."""
    made = full(build(MODEL, w=normal(6, 4), v=normal(4, 4, seed=5)))
    spec = QuantSpec(bits=8)
    for node in made.model.graph:
        made.plan.quantize(node, NodeMode.INTEGER)
    made.plan.activations = {name: params_from_range(-1.0, 3.0, spec) for name in ("x", "h", "s", "t", "y")}
    return made


def test_a_file_gives_the_numbers_of_operators_without_integer_kernels(tmp_path: Path) -> None:
    model, file = quantized(), output_format(FileOptions())
    like = clone(model.model)
    feed = {"x": 2 * normal(1, 6, seed=3)}
    adapted = adapt_plan(quantized())
    file.write(adapted, tmp_path / "m.ms")
    expected, found = (
        DEFAULT_ENGINE.session(data, threads=1, optimize=False).run(feed)["y"]
        for data in (
            ir.to_proto(qdq_model(model)).SerializeToString(),
            file.runnable(tmp_path / "m.ms", like=like),
        )
    )
    np.testing.assert_allclose(np.clip(found, -1, 3), expected, atol=0.51 * STEP)


def test_numbers_on_a_grid_that_float32_cannot_tell_from_zero_become_zero(tmp_path: Path) -> None:
    """Converters write such a step for what was always zero; its inverse is infinite, and zero times that is no number."""
    made = full(build("g (float[1,6] x) => (float[1,6] y) { s = Sub(x, x) y = Cos(s) }"))
    for node in made.model.graph:
        made.plan.quantize(node, NodeMode.INTEGER)
    spec = QuantSpec(bits=16)
    made.plan.activations = {"s": QuantParams(np.float32(3.6e-43), np.int16(0), spec)}
    file, like = output_format(FileOptions()), clone(made.model)
    file.write(adapt_plan(made), tmp_path / "m.ms")
    session = DEFAULT_ENGINE.session(file.runnable(tmp_path / "m.ms", like=like), threads=1, optimize=False)
    assert np.all(session.run({"x": normal(1, 6)})["y"] == 1)


def test_only_what_no_kernel_rounds_becomes_nodes() -> None:
    adapted = adapt_plan(quantized())
    reasons = [adapted.plan.nodes[str(node.name)].reason for node in adapted.model.graph]
    rounded = [node for node in adapted.model.graph if node.op_type == "Floor"]
    assert reasons.count(REASON) == 5 * len(rounded)
    assert [adapted.plan.mode(node) for node in adapted.model.graph if node.op_type == "MatMul"] == [
        NodeMode.INTEGER
    ] * 2
    assert len(rounded) == 1, "what the second MatMul reads is rounded when it is made an integer"


@pytest.mark.parametrize(("reach", "mode"), [(4.0, NodeMode.INTEGER), (1.0, NodeMode.FLOAT)])
def test_an_average_on_a_finer_grid_than_its_input_is_not_rounded_to_that(reach: float, mode: NodeMode) -> None:
    """The kernel gives averages on the grid of what it reads."""
    graph = "g (float[1,4,6,6] x) => (float[1,5,1,1] y) { a = Conv(x, w) b = GlobalAveragePool(a) y = Conv(b, v) }"
    made = full(build(graph, w=normal(4, 4, 1, 1), v=normal(5, 4, 1, 1, seed=5)))
    spec = QuantSpec(bits=8)
    for node in made.model.graph:
        made.plan.quantize(node, NodeMode.INTEGER)
    ranges = {"x": 3.0, "a": 4.0, "b": reach, "y": 3.0}
    made.plan.activations = {name: params_from_range(-limit, limit, spec) for name, limit in ranges.items()}
    adapted = adapt_plan(made)
    modes = {node.op_type: adapted.plan.mode(node) for node in adapted.model.graph if node.op_type != "Conv"}
    assert modes["GlobalAveragePool"] is mode
    assert adapted.plan.activations["b"].scale == made.plan.activations["b"].scale


def test_averages_get_the_grid_of_their_input_and_means_of_pictures_stay_float() -> None:
    graph = """g (float[1,4,8,8] x) => (float[1,5,1,1] y) {
        a = Conv(x, w) b = AveragePool<kernel_shape=[2,2]>(a) c = Conv(b, w) d = GlobalAveragePool(c) y = Conv(d, v)
    }"""
    model = build(graph, w=normal(4, 4, 1, 1), v=normal(5, 4, 1, 1, seed=5))
    made = quantize_full(model.clone(), MS_CPU, FullSettings(), samples=samples_of(model), context=CalibrationContext())
    grids = made.plan.activations
    assert grids["b"].scale == grids["a"].scale
    assert grids["d"].scale < grids["c"].scale / 2
    modes = {node.op_type: made.plan.mode(node) for node in made.model.graph}
    assert (modes["AveragePool"], modes["GlobalAveragePool"]) == (NodeMode.INTEGER, NodeMode.FLOAT)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_what_a_pair_cuts_off_is_cut_off_between_floats(graph: str, tmp_path: Path) -> None:
    like, file, given = paired(weighted(graph)), output_format(FileOptions()), 4 * normal(1, 4, 6, 6)
    (expected,) = run(paired(weighted(graph)), {"x": given}).values()
    file.write(adapt_plan(read_qdq(paired(weighted(graph)))), tmp_path / "m.ms")
    session = DEFAULT_ENGINE.session(file.runnable(tmp_path / "m.ms", like=like), threads=1)
    (found,) = session.run({"x": given}).values()
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
