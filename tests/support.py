"""Small models, and comparing what they compute."""

from __future__ import annotations

import importlib.metadata
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from numpy.typing import ArrayLike, NDArray

from converter_lite.calibration.context import CalibrationContext
from converter_lite.errors import ConverterError, ModelError
from converter_lite.graph import assign_names
from converter_lite.passes.shapes import infer_shapes
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.settings import FullSettings
from converter_lite.runtime.engine import DEFAULT_ENGINE, Session
from converter_lite.runtime.saturation import without_saturation
from converter_lite.targets.devices import target_spec

Feed = Mapping[str, NDArray[Any]]

_ROOT = Path(__file__).resolve().parents[1]
MODELS = next((p for up in (1, 2) if (p := _ROOT.parents[up - 1] / "shared/data/models").is_dir()), Path("absent"))
"""Real models beside the checkout, where there are any."""


READING_WORKSPACE = 1 << 20
"""Bytes that reading a model file may take beside those that grow with the file: numbers that are decoded at a time as Python
objects, states of an entropy decoder, and the objects of a small graph."""


def reading_limit(data: bytes) -> int:
    """Bytes that reading a device file may take."""
    return 10 * len(data) + READING_WORKSPACE


def traced_peak(work: Callable[[], object]) -> int:
    """Most bytes that Python and NumPy held for a call, whether it ended or refused what it was given."""
    tracemalloc.start()
    try:
        with suppress(ConverterError):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_peak(work: Callable[[], object], limit: int) -> None:
    """A call holds at most so many bytes.

    A peak above the limit is measured again: what a first call imports, and what another test's thread held, is not the
    call's.
    """
    peak = traced_peak(work)
    assert peak <= limit or min(traced_peak(work) for _ in range(2)) <= limit, f"{peak} bytes, not {limit}"


def shared_model(name: str) -> Path:
    """Path of a real model; the calling test is skipped where it is absent."""
    path = MODELS / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the checkout")
    return path


def is_since(package: str, *version: int) -> bool:
    """Whether the installed package is of this version or newer."""
    return tuple(map(int, re.findall(r"\d+", importlib.metadata.version(package))[: len(version)])) >= version


def since(package: str, *version: int, reason: str) -> pytest.MarkDecorator:
    """Skips a test where the package is older, for the reason."""
    found = importlib.metadata.version(package)
    return pytest.mark.skipif(not is_since(package, *version), reason=f"{package} {found}: {reason}")


_LABEL = re.compile(r"(?<=[\s{])\[(\w+)\]\s*(?=(\w+)(?:\s*,\s*\w+)*\s*=)")
"""A node's name before its first output; onnx reads such names from 1.18 on."""


def build_proto(graph: str, *, opset: int = 13, ir_version: int = 8, **constants: ArrayLike) -> onnx.ModelProto:
    """A model from ONNX's textual syntax for a graph, with ``constants`` as its initializers.

    Nodes of the main graph may have names: ``[name] y = MatMul(x, w)``.

    Example::

        build_proto("g (float[N,3] x) => (float[N,4] y) { y = MatMul(x, w) }", w=np.ones((3, 4), np.float32))
    """
    header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    names = {output: name for name, output in _LABEL.findall(graph)}
    proto = onnx.parser.parse_model(f"{header} {_LABEL.sub('', graph)}")
    for node in proto.graph.node:
        node.name = names.get(node.output[0], node.name)
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return proto


def build(graph: str, *, opset: int = 13, ir_version: int = 8, **constants: ArrayLike) -> ir.Model:
    """:func:`build_proto` as a graph with names and shapes."""
    model = ir.from_proto(build_proto(graph, opset=opset, ir_version=ir_version, **constants))
    assign_names(model)
    infer_shapes(model)
    return model


def clone(model: ir.Model) -> ir.Model:
    """A copy that does not change when ``model`` is rewritten."""
    return ir.from_proto(ir.to_proto(model))


def exact_session(model: ir.Model | bytes | Path, *, optimize: bool = False) -> Session:
    """A session of a model with weights that saturate in no kernel of this processor."""
    if isinstance(model, bytes):
        graph = ir.from_proto(onnx.load_model_from_string(model))
    else:
        graph = ir.load(model) if isinstance(model, Path) else model
    changed = without_saturation(graph)
    is_file = changed is graph and not isinstance(model, ir.Model)
    source = model if is_file else ir.to_proto(changed).SerializeToString()
    return DEFAULT_ENGINE.session(source, threads=1, optimize=optimize)


def run(model: ir.Model | bytes | Path, feed: Feed) -> dict[str, NDArray[Any]]:
    """Outputs of the model, computed without the runtime's own optimizations, the same on every processor."""
    return exact_session(model).run(feed)


class Samples(list[dict[str, NDArray[Any]]]):
    """Calibration samples in memory."""

    def head(self, count: int) -> list[dict[str, NDArray[Any]]]:
        return self[:count]

    def tail(self, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        return iter(self[start:])

    def part(self, start: int, stop: int) -> list[dict[str, NDArray[Any]]]:
        return self[start:stop]


def random_feed(model: ir.Model, *, seed: int = 0, dynamic: int = 2) -> dict[str, NDArray[Any]]:
    """Normal numbers (or zeros and ones for integer inputs) for every input; unknown sizes become ``dynamic``."""
    rng = np.random.default_rng(seed)
    feed: dict[str, NDArray[Any]] = {}
    for value in model.graph.inputs:
        assert value.shape is not None and value.dtype is not None
        shape = [size if isinstance(size, int) else dynamic for size in value.shape]
        dtype = value.dtype.numpy()
        integral = np.issubdtype(dtype, np.integer)
        feed[str(value.name)] = (rng.integers(0, 2, shape) if integral else rng.normal(size=shape)).astype(dtype)
    return feed


def assert_same_outputs(before: ir.Model | Path, after: ir.Model | Path, *feeds: Feed, rtol: float = 1e-4) -> None:
    """Both models give the same outputs, relative to the largest value of each output."""
    for feed in feeds:
        expected, actual = run(before, feed), run(after, feed)
        assert list(actual) == list(expected)
        for name, array in expected.items():
            assert actual[name].shape == array.shape, name
            assert actual[name].dtype == array.dtype, name
            scale = float(np.abs(array.astype(np.float64)).max(initial=0.0))
            np.testing.assert_allclose(actual[name], array, rtol=0, atol=rtol * max(scale, 1e-6), err_msg=name)


def operators(model: ir.Model) -> Counter[str]:
    """How often each operator occurs in the main graph."""
    return Counter(node.op_type for node in model.graph)


def assert_applies(rule: Callable[[ir.Model], int], model: ir.Model, times: int, *feeds: Feed) -> None:
    """The rule applies this often and then no more, and what the model computes and is called stays the same."""
    original = clone(model)
    assert rule(model) == times
    assert rule(model) == 0
    assert [v.name for v in model.graph.inputs] == [v.name for v in original.graph.inputs]
    assert [v.name for v in model.graph.outputs] == [v.name for v in original.graph.outputs]
    onnx.checker.check_model(ir.to_proto(model))
    assert_same_outputs(original, model, *(feeds or (random_feed(original),)))


def assert_refuses(rule: Callable[[ir.Model], int], model: ir.Model) -> None:
    """The rule leaves the graph as it is."""
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    assert rule(model) == 0
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def normal(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    """Normal random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positive(*shape: int, seed: int = 2) -> NDArray[np.float32]:
    """Random numbers between 0.5 and 2."""
    return np.random.default_rng(seed).uniform(0.5, 2.0, size=shape).astype(np.float32)


def samples_of(model: ir.Model, count: int = 4, *, dynamic: int = 2) -> Samples:
    """Random calibration samples."""
    return Samples(random_feed(model, seed=seed, dynamic=dynamic) for seed in range(count))


def full(
    model: ir.Model,
    target: str = "CPU",
    *,
    samples: Samples | None = None,
    plan: QuantPlan | None = None,
    by_costs: bool = False,
    **settings: Any,
) -> QuantizedModel:
    """Full quantization of a copy of ``model``; without bias correction and equalization unless asked.

    Whatever has an integer kernel is quantized unless it is to pay (``by_costs``): small networks stand for layers of large ones.
    """
    device = target_spec(target)
    return quantize_full(
        clone(model),
        device if by_costs else replace(device, costs=None),
        FullSettings(**{"bias_correction": False, "equalization": False, **settings}),
        samples=samples_of(model) if samples is None else samples,
        plan=plan,
        context=CalibrationContext(),
    )


def written(quantized: QuantizedModel) -> ir.Model:
    """The valid ONNX graph of a quantized model."""
    model = qdq_model(QuantizedModel(quantized.model.clone(), quantized.plan, quantized.q_weights))
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def sqnr(before: ir.Model, after: ir.Model, feeds: list[dict[str, NDArray[Any]]]) -> float:
    """Signal to quantization noise over all outputs and samples, decibels; shapes and types must be equal."""
    signal = noise = 0.0
    for feed in feeds:
        expected, given = run(before, feed), run(after, feed)
        assert list(given) == list(expected)
        for name, array in expected.items():
            assert given[name].shape == array.shape, name
            assert given[name].dtype == array.dtype, name
            signal += float(np.sum(array.astype(np.float64) ** 2))
            noise += float(np.sum((array.astype(np.float64) - given[name]) ** 2))
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-300) / noise))


def optimized(model: ir.Model, folder: Path) -> Counter[str]:
    """Operators of the graph that onnxruntime's CPU provider really runs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node)


class OldEngine:
    """An engine that knows no operator set of today."""

    def session(self, *_: Any, **__: Any) -> Any:
        raise ModelError("the operator set is under development")


SCORES = "s = MatMul(q, k) p = Softmax<axis=-1>(s)"
"""From queries and keys to the weights of the values."""


def attention(
    batch: str = "B",
    positions: str = "S",
    *,
    opset: int = 14,
    scores: str = SCORES,
    inputs: str = "",
    outputs: str = "",
    **constants: ArrayLike,
) -> ir.Model:
    """An attention over two heads of eight channels, with what follows it: ``x (batch, positions, 16)`` to ``y``."""
    x = f"float[{batch},{positions},16]"
    return build(
        f"""g ({x} x{inputs}) => ({x} y{outputs}) {{
            q0 = MatMul(x, wq) q1 = Add(bq, q0) q2 = Reshape(q1, heads) q = Transpose<perm=[0,2,1,3]>(q2)
            k0 = MatMul(x, wk) k1 = Add(k0, bk) k2 = Reshape(k1, heads) k = Transpose<perm=[0,2,3,1]>(k2)
            v0 = MatMul(x, wv) v1 = Add(v0, bv) v2 = Reshape(v1, heads) v = Transpose<perm=[0,2,1,3]>(v2)
            {scores}
            c0 = MatMul(p, v) c1 = Transpose<perm=[0,2,1,3]>(c0) c = Reshape(c1, joined)
            o = MatMul(c, wo) y = Add(o, x) }}""",
        opset=opset,
        **{f"w{name}": normal(16, 16, seed=i) * 0.3 for i, name in enumerate("qkvo")},
        **{f"b{name}": normal(16, seed=i + 9) for i, name in enumerate("qkv")},
        **{"heads": np.array([0, 0, 2, 8], np.int64), "joined": np.array([0, 0, 16], np.int64), **constants},
    )
