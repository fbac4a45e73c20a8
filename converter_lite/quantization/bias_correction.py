"""Bias correction and adaptive rounding, layer by layer: no output channel's mean may shift, and rounding may fit the data.

Layer by layer in graph order, the mean of every output channel of the float model is compared with that of the quantized
model whose earlier layers are already corrected, on real quantized activations; the difference goes into the bias.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019, section 4.2 (empirical
variant). The original corrects each layer on the float input of that layer instead (measured); docs/decisions compares both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import sample_means
from converter_lite.config.names import Rounding
from converter_lite.kernels.params import QuantParams
from converter_lite.passes.opset import raise_opset
from converter_lite.quantization import adaptive
from converter_lite.quantization.biases import add_bias, widen_for_bias
from converter_lite.quantization.constants import has_channel_bias
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.moments import gather
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.materialize import materialize, required_opset, storage_type
from converter_lite.quantization.rounding import ALGORITHMS
from converter_lite.quantization.sequential import SequentialRun
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import bias_of, weight_of

CORRECTION_SAMPLES = 32
"""Samples whose means are compared; with more the result changes by less than the noise between calibration sets."""

FITTING_SAMPLES = 48
"""The same where rounding is fitted, which needs more samples to tell noise apart, and for networks that run quickly."""

COARSE_SAMPLES = 100
"""The same for coarse weights, of less than 8 bits or with one step for all channels: the rounding of their classifiers, fitted
to 48 pictures, has half as much error again on others."""

SURE = 2.0
"""Standard errors below which a shift that few samples show is taken for noise."""

QUICK_WORK = 1e10
"""Multiplications that the float network may take for more than ``CORRECTION_SAMPLES``."""

GRID_BELOW_BITS = 8
"""Weights of fewer bits get fitted steps: with more bits the steps are fine enough."""


@dataclass(frozen=True, slots=True)
class LayerFit:
    """What :func:`fit_layers` fits.

    Attributes:
        biases: Correct biases.
        rounding: How weights are rounded; fitted to the layer's inputs by :mod:`converter_lite.quantization.rounding`.
        grids: Also fit the steps of weights of less than ``GRID_BELOW_BITS`` bits (their scales change in the plan, and with them
            those of biases).
        below_bits: Fit the rounding of weights of fewer bits only.
        input_scales: Weights of nodes that compute in float may have a scale per column too
            (:mod:`converter_lite.kernels.input_scales`).
        computed: Grids of activations in which the runtime computes, where they are not those of the plan.
    """

    biases: bool = True
    rounding: Rounding = Rounding.NEAREST
    grids: bool = False
    input_scales: bool = False
    below_bits: float = math.inf
    computed: Mapping[str, QuantParams] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        """Name of the stage in the progress and the summary."""
        wanted = (("bias correction", self.biases), ("rounding", self.rounding.is_fitted))
        return " and ".join(name for name, is_wanted in wanted if is_wanted)


def fit_layers(
    quantized: QuantizedModel,
    feeds: Sequence[Feed],
    wanted: LayerFit,
    context: RunContext,
) -> dict[str, NDArray[np.float64]]:
    """Fit rounding and biases layer by layer, in place: biases of the float graph, integers in ``q_weights``.

    Every weighted node to be corrected must have a bias of its own (:mod:`converter_lite.quantization.constants`). The graph is
    raised to the operator set that its plan needs, because it is run.

    Args:
        quantized: Graph and plan.
        feeds: Calibration samples.
        wanted: What is fitted.
        context: Runs the graphs; its log receives seconds per layer as details.

    Returns:
        node name -> shift of the bias per output channel, real units.
    """
    quantized.model = raise_opset(quantized.model, required_opset(quantized.plan))
    nodes = correctable(quantized)
    if not nodes or not feeds:
        return {}
    names = corrected_outputs(quantized) if wanted.biases else []
    means = sample_means(quantized.model, names, feeds, context) if names else []
    goals = dict(zip(names, means, strict=True))
    activations = {**quantized.plan.activations, **wanted.computed}
    working = materialize(replace(quantized, plan=replace(quantized.plan, activations=activations)))
    by_name = {node.name: node for node in working.graph}
    copies = [by_name[node.name] for node in nodes]
    outputs = [copy.outputs[0] for copy in copies]
    run = SequentialRun(working, feeds, context)
    fitting = _Rounding(quantized, feeds, run, wanted, context) if wanted.rounding.is_fitted else None
    shifts: dict[str, NDArray[np.float64]] = {}
    later = set(outputs)
    for i, node in enumerate(context.log.track(nodes, "correcting layers", len(nodes))):
        start = time.perf_counter()
        if fitting is not None:
            fitting.fit(node, copies[i], later)
        later.discard(outputs[i])
        goal = goals.get(node.outputs[0].name or "")
        if goal is not None:
            rows = run.means(outputs[i], later=later)
            found = np.stack([np.asarray(row, np.float64) for row in rows])
            shift = mean_shift(goal, found, are_noisy=bool(quantized.plan.activations))
            shifts[node.name or ""] = shift
            _shift_bias(node, shift, quantized, copies[i])
        context.log.debug(f"  {node.name}: corrected in {time.perf_counter() - start:.2f} s")
    return shifts


_Place = tuple[ir.Node, Container[ir.Value]]
"""A layer in a graph that runs, and the outputs of this layer and of those behind it."""


class _Rounding:
    """Fits the rounding of one layer after another, with the float network running alongside the quantized one."""

    def __init__(
        self,
        quantized: QuantizedModel,
        feeds: Sequence[Feed],
        run: SequentialRun,
        wanted: LayerFit,
        context: RunContext,
    ) -> None:
        before = quantized.model.clone()
        self._quantized = quantized
        self._samples = len(feeds)
        self._wanted = wanted
        self._algorithm = ALGORITHMS[wanted.rounding]
        self._run, self._run_float = run, SequentialRun(before, feeds, context)
        self._names = g.Names(self._run.graph)
        self._threads, self._log = context.threads, context.log
        self._originals = {node.name: node for node in before.graph}
        self._later = {self._originals[node.name].outputs[0] for node in correctable(quantized)}

    def fit(self, node: ir.Node, working: ir.Node, later: Container[ir.Value]) -> None:
        """Choose the integers of a layer's weight; layers come in graph order.

        Args:
            node: The layer in the float graph that is converted.
            working: The same layer in the graph with Q/DQ pairs.
            later: Outputs of this layer and of those behind it, in that graph.
        """
        original = self._originals[node.name]
        self._fit(node, (working, later), (original, self._later))
        self._later.discard(original.outputs[0])

    def _fit(self, node: ir.Node, in_working: _Place, in_original: _Place) -> None:
        (working, later), (original, float_later) = in_working, in_original
        weight = weight_of(node)
        data, float_data = working.inputs[0], original.inputs[0]
        source = _dequantizing(working)
        array = g.constant(weight)
        if weight is None or weight.name is None or len(weight.uses()) != 1:
            return
        if source is None or source.inputs[0] is None or array is None or data is None or float_data is None:
            return
        params = self._quantized.plan.weights[weight.name]
        if params.spec.bits >= self._wanted.below_bits:
            return
        if adaptive.is_too_wide(node, array):
            inputs = adaptive.columns_of(node, array)
            self._log.info(f"{node.name}: rounded without samples, since fitting {inputs} inputs takes too much memory")
        if not adaptive.can_fit(node, array):
            return
        count = adaptive.rows_per_sample(node, array, self._samples)

        def rows(index: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
            return adaptive.input_rows(node, x, array.shape, count, index)

        float_rows = self._run_float.map(float_data, rows, later=float_later)
        pairs = zip(float_rows, self._run.map(data, rows, later=later), strict=True)
        moments = gather(pairs, adaptive.columns_of(node, array), self._threads)
        values = array.astype(np.float32, copy=False)
        plan = self._quantized.plan
        input_scales = self._wanted.input_scales and plan.mode(node) is NodeMode.WEIGHT
        layer = adaptive.Layer(node, values, moments, has_channel_bias(node), input_scales)
        if self._wanted.grids and params.spec.bits < GRID_BELOW_BITS:
            params, fitted = self._algorithm.grid(layer, params)
            plan.weights[weight.name] = params
            if plan.mode(node) is NodeMode.INTEGER:
                widen_for_bias(node, plan, plan.weights)  # fitted steps are smaller
            if plan.weights[weight.name] is not params:
                params = plan.weights[weight.name]
                fitted = self._algorithm.integers(layer, params)
            _change_grid(working, source, weight.name, params, self._names)
            self._change_bias_grid(node, working)
        else:
            fitted = self._algorithm.integers(layer, params)
        self._quantized.q_weights[weight.name] = fitted
        initializer, dtype = source.inputs[0], storage_type(params.spec)
        initializer.const_value = ir.Tensor(fitted.astype(dtype.numpy()), dtype=dtype, name=initializer.name)

    def _change_bias_grid(self, node: ir.Node, working: ir.Node) -> None:
        """Put a layer's bias on the grid that follows from its new weight, in the plan and in the running graph."""
        plan, bias, stored = self._quantized.plan, bias_of(node), bias_of(working)
        if bias is None or bias.name not in plan.weights:
            return
        add_bias(node, plan, plan.weights)
        params, dequantize, array = plan.weights[bias.name], stored.producer() if stored else None, g.constant(bias)
        assert dequantize is not None and dequantize.inputs[0] is not None and array is not None
        graph, integers = working.graph, dequantize.inputs[0]
        assert graph is not None
        name = f"{bias.name}_fitted_scale"
        dequantize.replace_input_with(1, g.add_initializer(graph, name, params.scale, names=self._names))
        integers.const_value = ir.Tensor(params.quantize(array.astype(np.float32)), name=integers.name)


def _dequantizing(node: ir.Node) -> ir.Node | None:
    """The DequantizeLinear that a layer's weight comes from, past a Mul with its input scales."""
    value = node.inputs[1]
    producer = value.producer() if value is not None else None
    if producer is not None and producer.op_type == "Mul" and producer.inputs[0] is not None:
        return producer.inputs[0].producer()
    return producer


def _change_grid(node: ir.Node, source: ir.Node, name: str, params: QuantParams, names: g.Names) -> None:
    """Put a layer's weight in the running graph on another grid; scales and zero points may be shared, so the old ones stay."""
    graph = node.graph
    assert graph is not None
    source.replace_input_with(1, g.add_initializer(graph, f"{name}_fitted_scale", params.scale, names=names))
    dtype = storage_type(params.spec)
    zero_point = params.zero_point.astype(dtype.numpy())
    if len(source.inputs) > 2:
        source.replace_input_with(
            2, g.add_initializer(graph, f"{name}_fitted_zero_point", zero_point, dtype=dtype, names=names)
        )
    if params.input_scales is not None:
        scales = g.add_initializer(graph, f"{name}_fitted_input_scales", params.input_scales, names=names)
        multiply = ir.node("Mul", [source.outputs[0], scales], name=f"{name}_fitted_multiply")
        multiply.outputs[0].name = f"{name}_fitted"
        multiply.outputs[0].shape, multiply.outputs[0].dtype = source.outputs[0].shape, ir.DataType.FLOAT
        graph.insert_after(source, multiply)
        node.replace_input_with(1, multiply.outputs[0])


def mean_shift(
    wanted: NDArray[np.float64], found: NDArray[np.float64], *, are_noisy: bool = True
) -> NDArray[np.float64]:
    """By how much the mean over samples differs, as far as these are enough to tell: ``(channels,)``.

    With fewer than ``CORRECTION_SAMPLES``, and errors of activations (``are_noisy``), a shift is shrunk by the share of its
    square that is noise within ``SURE`` standard errors. In networks whose errors are few and large (EfficientNet, 8 samples) a
    mean says nothing of other samples.

    Shapes:
        wanted, found: ``(samples, channels)``.

    Source: the positive part of the estimator of James and Stein, for each channel alone.
    """
    shift: NDArray[np.float64] = sum(wanted, np.zeros(())) / len(wanted) - np.mean(found, axis=0)
    if not (are_noisy and 1 < len(found) < CORRECTION_SAMPLES):
        return shift
    noise = SURE**2 * (wanted - found).var(axis=0, ddof=1) / len(found)
    square = shift * shift
    kept = np.divide(square - noise, square, out=np.zeros_like(shift), where=square > noise)
    return shift * kept


def _shift_bias(node: ir.Node, shift: NDArray[np.float64], quantized: QuantizedModel, copy: ir.Node) -> None:
    """Change the bias of the float graph, and of the node's copy in the graph that the next layers run in."""
    bias = bias_of(node)
    array = g.constant(bias)
    assert bias is not None and bias.name is not None and array is not None
    corrected = (array.astype(np.float64) + shift.reshape(array.shape)).astype(np.float32)
    bias.const_value = ir.Tensor(corrected, name=bias.name)
    params = quantized.plan.weights.get(bias.name)
    stored = bias_of(copy)
    if params is not None and stored is not None and (dequantize := stored.producer()) is not None:
        stored = dequantize.inputs[0]
    assert stored is not None
    stored.const_value = ir.Tensor(corrected if params is None else params.quantize(corrected), name=stored.name)


def samples_wanted(model: ir.Model, *, fitted_rounding: bool, coarse: bool) -> int:
    """How many samples :func:`fit_layers` reads; ``coarse``: steps of weights are large, see :data:`COARSE_SAMPLES`."""
    if fitted_rounding:
        return COARSE_SAMPLES if coarse else FITTING_SAMPLES
    work = sum(multiplications(node) for node in model.graph)
    return min(max(int(QUICK_WORK / max(work, 1.0)), CORRECTION_SAMPLES), FITTING_SAMPLES)


def corrected_outputs(quantized: QuantizedModel) -> list[str]:
    """Outputs of the layers whose bias is corrected, in graph order."""
    return [node.outputs[0].name or "" for node in correctable(quantized) if has_channel_bias(node)]


def correctable(quantized: QuantizedModel) -> list[ir.Node]:
    """Nodes whose constant weight is stored as integers, in graph order."""
    modes = (NodeMode.INTEGER, NodeMode.WEIGHT)
    return [n for n in quantized.model.graph if quantized.plan.mode(n) in modes and weight_of(n) is not None]
