"""Work that grows with the nodes of a model: counted, not timed, while the model doubles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.runner import collect, sample_means
from converter_lite.calibration.statistics import Need
from converter_lite.pipeline.speed import TIMED_NODES, loads_slowly
from converter_lite.quantization.dynamic import decide_dynamic
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.remedies import Remedies
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.quantization.smooth import TENSORS_AT_ONCE, smooth_products
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import DEFAULT_ENGINE, Session
from converter_lite.runtime.saturation import without_saturation
from tests.support import build, normal, samples_of


class Watching:
    """The usual engine, which keeps the models that it loads."""

    def __init__(self) -> None:
        self.loaded: list[ir.Model] = []

    def session(self, model: Any, **options: Any) -> Session:
        self.loaded.append(ir.from_proto(onnx.load_model_from_string(model)))
        return DEFAULT_ENGINE.session(model, **options)


def products(count: int) -> ir.Model:
    """Products in a row, each of 4 x 4, whose inputs have rows and channels of different sizes."""
    steps = " ".join(f"m{i} = MatMul({'x' if not i else f't{i - 1}'}, w{i}) t{i} = Tanh(m{i})" for i in range(count))
    weights: dict[str, Any] = {f"w{i}": normal(4, 4, seed=i) for i in range(count)}
    return build(f"g (float[1,2,4] x) => (float[1,2,4] t{count - 1}) {{ {steps} }}", **weights)


def integer_products(count: int) -> ir.Model:
    """Products between Q/DQ pairs, with weights of which a kernel could saturate."""
    steps = " ".join(
        f"q{i} = QuantizeLinear({'x' if not i else f'm{i - 1}'}, s, zx) d{i} = DequantizeLinear(q{i}, s, zx)"
        f" v{i} = DequantizeLinear<axis=1>(w{i}, s, zw) m{i} = MatMul(d{i}, v{i})"
        for i in range(count)
    )
    weights: dict[str, Any] = {f"w{i}": np.full((4, 4), 127, np.int8) for i in range(count)}
    grids: dict[str, Any] = {"s": np.float32(0.05), "zx": np.uint8(100), "zw": np.int8(0)}
    return build(f"g (float[2,4] x) => (float[2,4] m{count - 1}) {{ {steps} }}", **grids, **weights)


def waiting(model: ir.Model) -> Iterator[int]:
    """For each reduction, how many nodes stand between it and the node that it reads."""
    places = {node: place for place, node in enumerate(model.graph)}
    for node, place in places.items():
        producer = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
        if node.op_type.startswith("Reduce") and producer is not None:
            yield place - places[producer]


@pytest.mark.parametrize("need", [Need.MINMAX, Need.MINMAX | Need.OUTLIER | Need.HISTOGRAM])
def test_reductions_stand_where_the_runtime_need_not_sort_them(need: Need) -> None:
    longest = []
    for count in (20, 40):
        model, engine = products(count), Watching()
        names = [str(node.outputs[0].name) for node in model.graph]
        stats = collect(model, names, need, samples_of(model, 2), CalibrationContext(engine=engine))
        assert len(stats.tensors) == 2 * count
        sample_means(model, names, samples_of(model, 2), RunContext(engine=engine))
        assert len(engine.loaded) == 2
        longest.append(max(distance for loaded in engine.loaded for distance in waiting(loaded)))
    assert longest[0] == longest[1] <= 3


def test_small_tensors_are_smoothed_in_one_run_whatever_their_number() -> None:
    sessions = []
    for count in (TENSORS_AT_ONCE, 3 * TENSORS_AT_ONCE):
        model, engine = products(count), Watching()
        plan = decide_dynamic(model, DynamicSettings(), target="CPU")
        smooth_products(
            model,
            plan,
            samples_of(model, 8),
            mode=NodeMode.DYNAMIC,
            remedies=Remedies(),
            context=RunContext(engine=engine),
        )
        sessions.append(len(engine.loaded))
    assert sessions[0] == sessions[1] > 0


def test_large_tensors_are_smoothed_in_several_runs() -> None:
    count = TENSORS_AT_ONCE + 1
    model, engine = products(count), Watching()
    for node in model.graph:
        node.outputs[0].shape = ir.Shape([1 << 20, 2, 4])
    plan = decide_dynamic(model, DynamicSettings(), target="CPU")
    remedies, context = Remedies(), RunContext(engine=engine)
    smooth_products(model, plan, samples_of(model, 8), mode=NodeMode.DYNAMIC, remedies=remedies, context=context)
    assert len(engine.loaded) > 2


def test_weights_are_renamed_with_one_walk_through_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: Counter[int] = Counter()
    usual = g.Names.__init__
    count = 0

    def counted(self: g.Names, graph: ir.Graph) -> None:
        walks[count] += 1
        usual(self, graph)

    monkeypatch.setattr(g.Names, "__init__", counted)
    for count in (4, 8):
        changed = without_saturation(integer_products(count))
        assert sum(name.endswith("_uint8") for name in changed.graph.initializers) == count + 1
    assert walks[4] == walks[8] == 1


def test_models_of_many_nodes_are_timed_only_when_asked() -> None:
    steps = " ".join(f"t{i} = Tanh({'x' if not i else f't{i - 1}'})" for i in range(TIMED_NODES + 1))
    model = build(f"g (float[1] x) => (float[1] t{TIMED_NODES}) {{ {steps} }}")
    assert loads_slowly(model)
    model.graph.outputs[0] = model.graph.node(-2).outputs[0]
    model.graph.remove(model.graph.node(-1))
    assert not loads_slowly(model)
