"""What storing one weight in fewer bits does to the output of an otherwise float network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.execution.ordered import map_ordered
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization import adaptive
from converter_lite.quantization.constants import has_channel_bias
from converter_lite.quantization.moments import Moments, gather
from converter_lite.quantization.score import Scorer
from converter_lite.quantization.sequential import SequentialRun
from converter_lite.quantization.weight_uses import FloatArray, WeightUse
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import bias_of, compensated_integers, weight_of

FITTED_BELOW_BITS = 8
"""Smaller widths get fitted rounding, here and in the networks of a search; wider ones get rounding whose errors cancel, which
is as accurate and faster."""


def measure_losses(
    model: ir.Model,
    grids: Mapping[WeightUse, Mapping[int, QuantParams]],
    feeds: Sequence[Feed],
    *,
    input_scales: bool = False,
    scorer: Scorer,
    context: RunContext,
) -> dict[str, dict[int, float]]:
    """Loss of output cosine when one weight alone is stored with fewer bits and all else is float.

    Where a layer's rounding can be fitted, it is fitted to the float network's inputs and the bias absorbs the mean of the error,
    as in the final quantization: by plain rounding, 4 bits would look twice as bad as they turn out to be. What stands before a
    weight is the same for all of its widths, and runs once.

    Args:
        model: Float graph, not changed.
        grids: Weights in graph order, with parameters for each width.
        feeds: Samples that the rounding is fitted to.
        input_scales: Whether columns of narrow weights may have scales of their own.
        scorer: Judges the outputs, on samples that nothing is fitted to.
        context: Runs the float model; its log receives the losses as details.

    Returns:
        weight name -> bits -> ``1 - cosine``, at least 0.
    """
    before, uses = model.clone(), list(grids)
    copies = {node.name: node for node in before.graph}
    run, judged = SequentialRun(before, feeds, context), SequentialRun(before, scorer.feeds, context)
    outputs = [[copies[node.name].outputs[0] for node in use.nodes] for use in uses]
    waiting = Counter(output for each in outputs for output in each)
    losses: dict[str, dict[int, float]] = {}

    def loss(use: WeightUse, layer: adaptive.Layer | None, params: QuantParams) -> float:
        candidate = _with_weight(model, use, params, layer)
        return max(1.0 - scorer.of(judged.behind(candidate)).cosine, 0.0)

    for i, use in enumerate(context.log.track(uses, "measuring layers", len(uses))):
        judged.hold(copies[use.nodes[0].name], later={*waiting, *before.graph.outputs})
        moments = _moments(use, copies, run, (len(feeds), context.threads), waiting)
        layer = _layer(use, moments, grids[use].values(), input_scales=input_scales)
        run.forget(waiting)
        waiting.subtract(outputs[i])
        for output in outputs[i]:
            if not waiting[output]:
                del waiting[output]
        measured = map_ordered(partial(loss, use, layer), grids[use].values(), context.threads)
        losses[use.name] = found = dict(zip(grids[use], measured, strict=True))
        context.log.debug(f"  {use.name}: " + ", ".join(f"{bits} bits lose {loss:.2e}" for bits, loss in found.items()))
    return losses


def _moments(
    use: WeightUse,
    copies: dict[str | None, ir.Node],
    run: SequentialRun,
    amounts: tuple[int, int],
    later: Container[ir.Value],
) -> Moments | None:
    """Moments of the inputs of a layer whose rounding can be fitted; ``None`` for others.

    Args:
        use: The layer.
        copies: Layers in the graph that runs, by name.
        run: Runs it.
        amounts: Of samples and of threads.
        later: Outputs of this layer and of those behind it.
    """
    samples, threads = amounts
    node, array = use.nodes[0], use.array
    data = copies[node.name].inputs[0]
    if len(use.nodes) > 1 or data is None or weight_of(node) is not use.value or not adaptive.can_fit(node, array):
        return None
    count = adaptive.rows_per_sample(node, array, samples)

    def rows(index: int, x: FloatArray) -> FloatArray:
        return adaptive.input_rows(node, x, array.shape, count, index)

    return gather(
        ((found, found) for found in run.map(data, rows, later=later)), adaptive.columns_of(node, array), threads
    )


def _layer(
    use: WeightUse, moments: Moments | None, grids: Iterable[QuantParams], *, input_scales: bool
) -> adaptive.Layer | None:
    """The layer that is fitted, with all that its widths have in common: threads would compute it each for itself."""
    if moments is None:
        return None
    node = use.nodes[0]
    layer = adaptive.Layer(node, use.array, moments, has_channel_bias(node), input_scales)
    specs = [params.spec for params in grids if params.spec.bits < FITTED_BELOW_BITS]
    if moments.is_finite and any(spec.axis is not None and not spec.block for spec in specs):
        layer.search  # noqa: B018
    return layer


def _with_weight(model: ir.Model, use: WeightUse, params: QuantParams, layer: adaptive.Layer | None) -> ir.Model:
    """A copy of the model that computes with the rounded weight."""
    node, array = use.nodes[0], use.array
    if layer is not None and params.spec.bits < FITTED_BELOW_BITS:
        params, integers = adaptive.fit_grid(layer, params)
    elif weight_of(node) is not use.value:
        integers = params.quantize(array)
    else:
        integers = compensated_integers(node, array, params)
    rounded = params.dequantize(integers).astype(np.float32)
    copy = model.clone()
    _replace(copy, use.name, rounded)
    bias = bias_of(node)
    if layer is not None and layer.gathered.is_finite and layer.has_bias and bias is not None and bias.name is not None:
        old = g.constant(bias)
        assert old is not None
        shift = adaptive.mean_shift(node, rounded - array, layer.gathered)
        _replace(copy, bias.name, (old.astype(np.float64) - shift.reshape(old.shape)).astype(np.float32))
    return copy


def _replace(model: ir.Model, name: str, array: FloatArray) -> None:
    model.graph.initializers[name].const_value = ir.Tensor(array, name=name)
