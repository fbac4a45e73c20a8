"""Networks of PyTorch against what onnxruntime computes for the same graph and plan."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import ArrayLike, NDArray

pytest.importorskip("torch", reason="tests/runtimes/test_learning.py runs these where PyTorch is")

import torch

from converter_lite.errors import ModelError
from converter_lite.kernels.pairs import count_violations
from converter_lite.learning.blocks import STEP_OPERATIONS, operations
from converter_lite.learning.network import Network, Trainable
from converter_lite.learning.readback import learned
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.quantization.cases import CASES
from tests.support import Feed, build, clone, full, normal, positive, random_feed, run, samples_of, written

torch.set_num_threads(1)


def computed(network: Network, feed: Feed) -> dict[str, NDArray[np.float32]]:
    with torch.no_grad():
        found = network(*(torch.from_numpy(np.array(feed[name])) for name in network.inputs))
    results = found if isinstance(found, tuple) else (found,)
    return dict(zip(network.outputs, (tensor.numpy() for tensor in results), strict=True))


def assert_same(network: Network, model: ir.Model, feed: Feed, tolerance: float = 1e-5) -> None:
    expected, given = run(model, feed), computed(network, feed)
    assert list(given) == list(expected)
    for name, array in expected.items():
        assert given[name].shape == array.shape, name
        np.testing.assert_allclose(
            given[name], array, rtol=0, atol=tolerance * max(np.abs(array).max(), 1), err_msg=name
        )


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_the_same_numbers(name: str) -> None:
    model = CASES[name].model()
    assert_same(Network(model), model, random_feed(model))


MORE: dict[str, dict[str, ArrayLike]] = {
    "y = MaxPool<kernel_shape=[3,3],strides=[2,2],ceil_mode=1>(x)": {},
    "y = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1]>(x)": {},
    "y = AveragePool<kernel_shape=[900,900],strides=[900,900],ceil_mode=1,count_include_pad=1>(x)": {},
    "y = MaxPool<kernel_shape=[5,900],strides=[2,900],ceil_mode=1>(x)": {},
    'y = Resize<mode="cubic">(x, none, scales)': {
        "none": np.zeros(0, np.float32),
        "scales": np.array([1, 1, 0.6, 1.7], np.float32),
    },
    "y = Slice(x, starts, ends, axes, steps)": {"starts": [-1], "ends": [-100], "axes": [2], "steps": [-2]},
    "none = Slice(x, starts, ends, axes, steps) y = Concat<axis=2>(x, none)": {
        "starts": [0],
        "ends": [-100],
        "axes": [2],
        "steps": [1],
    },
    'y = Pad<mode="reflect">(x, sizes)': {"sizes": [0] * 8},
    'y = Resize<mode="linear">(x, none, scales)': {
        "none": np.zeros(0, np.float32),
        "scales": np.array([1, 1, 2, 3], np.float32),
    },
    'y = Resize<mode="nearest">(x, none, scales)': {
        "none": np.zeros(0, np.float32),
        "scales": np.array([1, 1, 5 / 6, 3 / 7], np.float32),
    },
    "y = DepthToSpace<blocksize=2>(x)": {},
    "y = LayerNormalization(x, scale, bias)": {"scale": normal(7), "bias": normal(7, seed=2)},
    "shape = Shape(x) y = Expand(small, shape)": {"small": normal(1, 7)},
    "shape = Shape(x) count = Gather(shape, index) c = Cast<to=1>(count) y = Mul(x, c)": {"index": np.array(1)},
    "y = ReduceMean<axes=[1,2],keepdims=0>(x)": {},
    "y, z = Split<axis=1>(x, sizes)": {"sizes": [3, 1]},
    "y = PRelu(x, slope)": {"slope": positive(4, 1, 1)},
    'y = Conv<auto_pad="SAME_UPPER",strides=[2,2]>(x, w)': {"w": normal(2, 4, 3, 3)},
}


@pytest.mark.parametrize("text", MORE)
def test_a_form_of_an_operator_gives_the_same_numbers(text: str) -> None:
    constants = {name: np.asarray(value) for name, value in MORE[text].items()}
    model = build(f"g (float[1,4,6,7] x) => (float y) {{ {text} }}", opset=17, **constants)  # type: ignore[arg-type]
    model.graph.outputs[0].shape = None
    assert_same(Network(model), model, random_feed(model))


NETWORK = """g (float[n,3,8,8] x) => (float[n,5] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) b = Relu(a)
    c = Conv<pads=[1,1,1,1],group=8>(b, w2, b2) d = Relu(c)
    e = Add(b, d) f = GlobalAveragePool(e) h = Flatten(f) y = Gemm<transB=1>(h, w3, b3) }"""


def network() -> ir.Model:
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (5, 8), "b3": (5,)}
    constants = {name: normal(*shape, seed=i) * 0.5 for i, (name, shape) in enumerate(shapes.items())}
    return build(NETWORK, **constants)  # type: ignore[arg-type]


def of_weights(bits: int, **settings: object) -> QuantizedModel:
    chosen = WeightSettings(bits=bits, min_channel=0, **settings)  # type: ignore[arg-type]
    return quantize_weights(network(), chosen, target="CPU", samples=samples_of(network()), context=RunContext())


@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("per_channel", [True, False])
def test_quantized_weights_give_the_numbers_of_the_written_graph(bits: int, per_channel: bool) -> None:
    quantized = of_weights(bits, per_channel=per_channel)
    assert_same(Network(quantized.model, quantized), written(quantized), random_feed(network()))


@pytest.mark.parametrize("target", ["CPU", "DSP", "ARM", "NVGPU"])
def test_a_fully_quantized_network_is_as_near_as_rounding_allows(target: str) -> None:
    quantized = full(network(), target)
    step = max(float(params.scale) for params in quantized.plan.activations.values())
    assert_same(Network(quantized.model, quantized), written(quantized), random_feed(network()), tolerance=2 * step)


def test_soft_integers_end_where_they_started_if_nothing_pulls_them() -> None:
    quantized = of_weights(4)
    module = Network(quantized.model, quantized)
    for grid in module.weights.values():
        before = grid().detach()
        grid.soften()
        assert 0 < float((grid().detach() - before).abs().max()) <= float(grid.first.detach().max())
        assert float(grid.rounding_regularizer(2.0).detach()) > 0
        grid.harden()
        np.testing.assert_array_equal(grid().detach().numpy(), before.numpy())


def test_soft_integers_take_the_neighbour_that_they_are_moved_to() -> None:
    quantized = of_weights(4)
    grid = Network(quantized.model, quantized).weights["w1"]
    before = grid.steps.detach().round()
    share = grid.soften()
    with torch.no_grad():
        share.copy_(torch.full_like(share, 5.0))
    grid.harden()
    moved = grid.steps.detach() - before
    assert set(moved.unique().tolist()) == {0.0, 1.0}


def test_gradients_of_soft_integers_are_those_of_their_formula() -> None:
    quantized = of_weights(4)
    grid = Network(quantized.model, quantized).weights["w1"]
    integers = grid.steps.detach().round()
    share = grid.soften()
    with torch.no_grad():
        share.copy_(torch.linspace(-4, 4, share.numel()).reshape(share.shape))  # both ends are cut off
    pull = torch.linspace(-1, 1, share.numel()).reshape(share.shape)
    ((grid() * pull).sum() + 0.7 * grid.rounding_regularizer(5.5)).backward()

    wanted = share.detach().clone().requires_grad_(True)
    mixture = (torch.sigmoid(wanted) * 1.2 - 0.1).clamp(0, 1)
    lower = integers - (grid._weight / grid._step().detach() < integers).float()
    steps = torch.minimum(torch.maximum(lower + mixture, grid.low), grid.high)
    ((steps * grid._step().detach() * pull).sum() + 0.7 * (1 - (2 * mixture - 1).abs().pow(5.5)).sum()).backward()
    assert share.grad is not None and wanted.grad is not None
    torch.testing.assert_close(share.grad, wanted.grad)
    assert 0 < int((share.grad == 0).sum()) < share.numel()


@pytest.mark.parametrize(
    "text",
    [
        "y = Sqrt(a)",
        "y = Pow(a, half)",
        "b = ReduceL2<axes=[1],keepdims=1>(x) c = Max(b, half) y = Div(x, c)",
        "y = LpNormalization(x)",
        "y = LpNormalization<p=1>(x)",
    ],
)
def test_gradients_are_finite_where_a_vector_is_zero(text: str) -> None:
    """Elsewhere they are those of differences."""
    model = build(f"g (float[2,4] x) => (float[2,4] y) {{ a = Mul(x, x) {text} }}", half=np.float32(0.5))
    network = Network(model)
    x = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, -2.0, 3.0, 4.0]], requires_grad=True)
    (network(x) * torch.tensor([1.0, 2.0, 3.0, 5.0])).sum().backward()
    assert x.grad is not None and bool(x.grad.isfinite().all())
    for place in range(4):
        ends = [x.detach().clone() for _ in range(2)]
        for end, sign in zip(ends, (1, -1), strict=True):
            end[1, place] += sign * 1e-2
        sums = [computed(network, {"x": end.numpy()})["y"][1] @ np.array([1, 2, 3, 5], np.float32) for end in ends]
        np.testing.assert_allclose(float(x.grad[1, place]), (sums[0] - sums[1]) / 2e-2, rtol=0, atol=2e-3)


def test_nothing_learnt_is_read_back_as_it_was() -> None:
    quantized = full(network())
    found = learned(Network(quantized.model, quantized))
    assert found.plan.to_json() == quantized.plan.to_json()
    for name in quantized.plan.weights:
        np.testing.assert_array_equal(found.integers(name), quantized.integers(name))


def trained(
    quantized: QuantizedModel, trainable: Trainable | None = None, *, rate: float = 0.003
) -> tuple[Network, list[float]]:
    teacher, student = Network(network()), Network(quantized.model, quantized, trainable)
    torch.manual_seed(0)
    x = torch.randn(32, 3, 8, 8)
    optimizer = torch.optim.Adam([p for p in student.parameters() if p.requires_grad], rate)
    losses = []
    for _ in range(60):
        loss = (student(x) - teacher(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        student.keep_within()
        losses.append(float(loss.detach()))
    return student, losses


def test_what_was_learnt_is_in_the_written_graph() -> None:
    student, losses = trained(of_weights(3))
    assert min(losses) < 0.8 * losses[0]
    assert_same(student, written(learned(student)), random_feed(network(), seed=7))


def test_learnt_weights_cannot_saturate() -> None:
    student, _ = trained(full(network()), rate=0.5)
    found = learned(student)
    assert found.plan.cannot_saturate
    for name, params in found.plan.weights.items():
        if params.pair_rules:
            assert count_violations(found.integers(name).astype(np.int8), params.pair_rules) == 0
    assert_same(student, written(found), random_feed(network()), tolerance=0.05)


def test_only_what_is_free_learns() -> None:
    quantized = full(network())
    student, _ = trained(quantized, Trainable(integers=False, weight_steps=False, activation_grids=False))
    found = learned(student)
    assert found.plan.activations["e"].scale == quantized.plan.activations["e"].scale
    for name, params in quantized.plan.weights.items():
        if params.spec.bits < 32:
            np.testing.assert_array_equal(found.integers(name), quantized.integers(name))
            np.testing.assert_array_equal(found.plan.weights[name].scale, params.scale)
    assert not np.array_equal(
        found.model.graph.initializers["b1"].const_value.numpy(),  # type: ignore[union-attr]
        quantized.model.graph.initializers["b1"].const_value.numpy(),  # type: ignore[union-attr]
    )


def test_tensors_that_share_a_grid_keep_sharing_it() -> None:
    model = build(
        """g (float[1,3,8,8] x) => (float[1,4,4,4] y) {
        a = Conv<pads=[1,1,1,1]>(x, w, b) c = MaxPool<kernel_shape=[2,2],strides=[2,2]>(a)
        y = Conv<pads=[1,1,1,1]>(c, w2, b) }""",
        w=normal(4, 3, 3, 3),
        w2=normal(4, 4, 3, 3),
        b=normal(4),
    )
    quantized = full(model)
    student = Network(quantized.model, quantized)
    student.activations["c"].growth.data += 0.1
    activations = learned(student).plan.activations
    assert activations["a"].scale == activations["c"].scale != quantized.plan.activations["a"].scale


def test_a_part_of_a_network_is_computed_from_its_inputs() -> None:
    model = network()
    teacher = Network(model)
    found = teacher.evaluate({"e": torch.ones(2, 8, 4, 4)}, ["h"])
    assert list(found) == ["h"]
    np.testing.assert_array_equal(found["h"].numpy(), np.ones((2, 8), np.float32))


def test_a_product_quantized_at_run_time_is_as_near_as_rounding_allows() -> None:
    model = build("g (float[n,6] x) => (float[n,3] y) { [product] y = MatMul(x, w) }", w=normal(6, 3))
    plan = QuantPlan("CPU")
    plan.quantize(next(iter(model.graph)), NodeMode.DYNAMIC)
    from converter_lite.kernels.params import QuantSpec, weight_params

    plan.weights["w"] = weight_params(normal(6, 3), QuantSpec(8, symmetric=True, narrow_range=True, axis=1))
    quantized = QuantizedModel(model, plan)
    feed = {"x": normal(1, 6, seed=3)}
    assert_same(Network(model, quantized), written(QuantizedModel(clone(model), plan)), feed, tolerance=1e-5)


DEFINED = """
g (float[1,6,16] x) => (float[1,6,16] y) {
    n = RMSNormalization(x, scale)
    [queries] q = MatMul(n, wq) [keys] k = MatMul(n, wk) [values] v = MatMul(n, wv)
    a = Attention<is_causal=1,q_num_heads=4,kv_num_heads=2>(q, k, v)
    [last] y = MatMul(a, wo)
}
"""
"""Operators that ONNX defines by others, one of them with fewer heads of keys than of queries."""


def test_operators_that_are_defined_by_others_stand_between_the_grids_of_the_plan() -> None:
    shapes = {"wq": (16, 16), "wk": (16, 8), "wv": (16, 8), "wo": (16, 16)}
    weights = {name: normal(*shape, seed=i) / 4 for i, (name, shape) in enumerate(shapes.items())}
    model = build(DEFINED, opset=24, scale=positive(16), **weights)
    assert_same(Network(model), model, random_feed(model))
    weight_only = quantize_weights(model, WeightSettings(min_channel=0), target="CPU", context=RunContext())
    for quantized in (full(model), weight_only):
        network = Network(quantized.model, quantized)
        assert set(network.weights) == set(weights)
        steps = [float(params.scale) for params in quantized.plan.activations.values()]
        feed = random_feed(model)
        assert_same(network, written(quantized), feed, tolerance=2 * max(steps, default=1e-5))
        network(torch.from_numpy(np.array(feed["x"]))).square().sum().backward()
        assert all(float(network.weights[name].steps.grad.abs().sum()) > 0 for name in weights)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_recurrent_layer_is_computed_with_the_weights_of_the_written_graph(kind: str, gates: int) -> None:
    model = build(
        f'g (float[5,1,6] x) => (float[5,2,1,8] y) {{ y = {kind}<hidden_size=8,direction="bidirectional">(x, w, r, b) }}',
        w=normal(2, 8 * gates, 6) / 3,
        r=normal(2, 8 * gates, 8, seed=2) / 3,
        b=normal(2, 16 * gates, seed=3),
    )
    quantized = quantize_weights(model, WeightSettings(bits=4, min_channel=0), target="CPU", context=RunContext())
    network = Network(quantized.model, quantized)
    assert set(network.weights) == {"w", "r"}
    assert_same(network, written(quantized), random_feed(model))


def test_a_recurrent_layer_counts_as_its_steps() -> None:
    model = build(
        "g (float[50,1,6] x) => (float[50,1,1,8] y) { y = RNN<hidden_size=8>(x, w, r) }",
        w=normal(1, 8, 6),
        r=normal(1, 8, 8),
    )
    assert operations(list(model.graph), {"y": 400}) == 1 + 50 * STEP_OPERATIONS


def test_an_output_that_is_not_known_is_refused() -> None:
    model = build(
        "g (float[1,1,4,4] x) => (float[1,1,2,2] y, int64[1,1,2,2] z) { "
        "[pool] y, z = MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) }"
    )
    with pytest.raises(ModelError, match="MaxPool cannot be learnt as it is written: it gives z as well"):
        Network(model)(torch.ones(1, 1, 4, 4))


def test_an_operator_without_gradients_is_named() -> None:
    model = build("g (float[3] x) => (float[3] y) { [late] y = Hardmax(x) }", opset=13)
    with pytest.raises(ModelError, match="there are no gradients of Hardmax") as caught:
        Network(model)
    assert "late" in str(caught.value.where)


def test_a_table_stays_as_it_is_rounded() -> None:
    """Its rows do not compensate each other's errors; learning them took most of a transformer's time and memory."""
    model = build(
        "g (int64[1,5] ids) => (float[1,5,4] y) { rows = Gather(table, ids) y = MatMul(rows, w) }",
        table=normal(300, 8),
        w=normal(8, 4),
    )
    quantized = quantize_weights(model, WeightSettings(min_channel=0), target="CPU", context=RunContext())
    network = Network(quantized.model, quantized)
    assert set(network.weights) == {"w"}
    ids = np.array([[0, 7, 299, 7, 1]])
    expected = run(written(quantized), {"ids": ids})["y"]
    found = network(torch.from_numpy(ids)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert set(learned(network).plan.weights) == {"table", "w"}
