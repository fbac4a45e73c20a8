"""Adaptive rounding: a layer's weights are rounded to suit the inputs that it gets in the quantized network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.blocks import spread
from converter_lite.kernels.gptq import DAMPING, Compensation, compensation, round_gptq
from converter_lite.kernels.input_scales import fit_input_scales
from converter_lite.kernels.params import MIN_SCALE, QuantParams, QuantSpec, block_params, params_from_range
from converter_lite.kernels.patches import Window, choose, conv_patches
from converter_lite.quantization.moments import WIDE, Matrix, Moments

ROWS = 16_384
"""Input rows (output positions of all samples) that a layer is fitted to; more change the result below noise."""

NARROW_ROWS = 4096
"""The same where a row has at most ``NARROW`` elements: 128 rows for each of them."""

ROW_BYTES = 256 << 20
"""Bytes of all these rows. This bounds time, not memory: only a few samples' rows exist at once."""

DAMPING_BY_SHORTAGE = 0.3
"""Damping per column and input: a classifier of 768 inputs seen 64 times would otherwise fit the samples, not the data."""

CONVOLUTION_BY_SHORTAGE = 6.0
"""The same for convolutions: the positions of a picture resemble each other, so fewer of them count. Matrix products get worse
with it (MiniLM, 4 bits: cosine 0.9821 to 0.9798)."""

TRUST = 0.1
"""Damping of the compensation for earlier layers' errors, as a share of the mean curvature."""

TINY = 1e-6
"""Added to it, so that channels that are always zero can be inverted."""

CLIPS = (1.0, 0.9, 0.8, 0.7)
"""Candidate steps per output channel, as shares of the step that covers the weight's extremes."""

FINE_CLIPS = tuple(share / 50 for share in range(54, 24, -1))
"""The same for rows of at most ``NARROW`` elements: so few errors do not average out, so more steps are worth trying."""

NARROW = 32
"""Elements of a row (a depthwise kernel has 9) up to which ``FINE_CLIPS`` are tried."""

STACKED = 1 << 18
"""Elements of a weight up to which it is rounded with several steps at once."""

NEAR = 0.25
"""Largest change (natural logarithm) of a step by least squares; larger ones come from inputs without information."""

LEAST_CURVATURE = 1e-12
"""Mean curvature of inputs that never vary."""

MOST_MOMENTS = 5120**2
"""Elements of second moments up to which a layer is fitted. They have 200 MB then, and some ten of their size exist at once:
4,608 inputs take 1.6 GB and 10 s."""

OPERATORS = ("Conv", "Gemm", "MatMul")
"""Operators whose rounding can be fitted (a MatMul with one matrix, not with a stack of them)."""


def can_fit(node: ir.Node, weight: NDArray[Any]) -> bool:
    """Whether the rounding of a layer can be fitted."""
    return _has_rows(node, weight) and not is_too_wide(node, weight)


def is_too_wide(node: ir.Node, weight: NDArray[Any]) -> bool:
    """Whether it could be, if the moments of its inputs did not take too much memory."""
    if not _has_rows(node, weight):
        return False
    return g.int_attribute(node, "group", 1) * columns_of(node, weight) ** 2 > MOST_MOMENTS


def _has_rows(node: ir.Node, weight: NDArray[Any]) -> bool:
    return node.op_type in OPERATORS and (node.op_type != "MatMul" or weight.ndim == 2)


def columns_of(node: ir.Node, weight: NDArray[Any]) -> int:
    """Inputs that each output of a layer sums up."""
    return weight.size // max(_to_rows(node, weight).shape[0], 1)


def rows_per_sample(node: ir.Node, weight: NDArray[Any], samples: int) -> int:
    """Rows to take from each sample within ``ROWS`` or ``NARROW_ROWS``, and ``ROW_BYTES``."""
    columns = columns_of(node, weight)
    width = g.int_attribute(node, "group", 1) * columns
    return max(min(ROWS if columns > NARROW else NARROW_ROWS, ROW_BYTES // (4 * max(width, 1))) // max(samples, 1), 1)


def input_rows(
    node: ir.Node, x: NDArray[np.float32], weight_shape: tuple[int, ...], rows: int, seed: int
) -> NDArray[np.float32]:
    """The input rows that the layer multiplies with its weights. Shape ``(chosen rows, groups, columns)``."""
    if node.op_type != "Conv":
        is_turned = node.op_type == "Gemm" and g.int_attribute(node, "transA", 0)
        flat = x.T if is_turned else x.reshape(-1, x.shape[-1])
        return flat[choose(len(flat), rows, seed)][:, None, :]
    spatial = len(weight_shape) - 2
    group = g.int_attribute(node, "group", 1)
    kernel = weight_shape[2:]
    strides = g.ints_attribute(node, "strides", (1,) * spatial)
    dilations = g.ints_attribute(node, "dilations", (1,) * spatial)
    pads = g.window_pads(node, x.shape[2:], kernel, strides, dilations)
    patches = conv_patches(x, Window(kernel, strides, dilations, pads), positions=rows, seed=seed)
    return patches.reshape(len(patches), group, -1)


@dataclass(frozen=True)
class Layer:
    """A layer whose rounding is fitted.

    Attributes:
        node: The layer.
        weight: Its float weight.
        gathered: Moments of its inputs.
        has_bias: Whether a bias absorbs the mean of the error; then only its variance counts.
        input_scales: Whether the weight's columns may have scales of their own (:mod:`converter_lite.kernels.input_scales`) on a
            grid that is fitted.
    """

    node: ir.Node
    weight: NDArray[np.float32]
    gathered: Moments
    has_bias: bool
    input_scales: bool = False

    @cached_property
    def search(self) -> _Search:
        """What the fit of a grid starts from: the same for all widths."""
        goal, moments = _problem(self)
        rows = _to_rows(self.node, self.weight).reshape(goal.shape).astype(np.float64)
        compensated = compensation(moments, damping=0.0)
        columns = fit_input_scales(rows, compensated.variances) if self.input_scales else None
        if columns is not None:
            goal, moments = _stretched(goal, moments, columns)
            rows, compensated = rows / columns, compensation(moments, damping=0.0)
        return _Search(goal, rows, goal @ moments, compensated, columns)


@dataclass(frozen=True, slots=True)
class _Search:
    """What a grid is fitted to.

    Attributes:
        goal: Rows to round.
        rows: Float ones.
        pull: The product of the rows to round with the damped moments.
        compensated: How columns make up for each other.
        columns: Their scales, if they have some.
    """

    goal: Matrix
    rows: Matrix
    pull: Matrix
    compensated: Compensation
    columns: Matrix | None


def fit_rounding(layer: Layer, params: QuantParams) -> NDArray[np.int32]:
    """Integers with which the layer, on inputs from the quantized network, comes closest to the float layer in the float network.

    First come the float weights of least squared error for the quantized inputs (which compensate errors of earlier layers);
    these are then rounded with error compensation.

    Args:
        layer: The layer.
        params: Its grid.

    Returns:
        Integers in the layout of the weight; rounded to nearest if the inputs are not finite.
    """
    node, weight = layer.node, layer.weight
    if not layer.gathered.is_finite:
        return params.quantize(weight)
    goal, moments = _problem(layer)
    if params.input_scales is not None:
        goal, moments = _stretched(goal, moments, params.input_scales.reshape(-1).astype(np.float64))
    scale, zero = _per_element(node, weight, params, goal) if params.spec.block else _per_row(params, len(moments))
    pairs = [columns for rule in params.pair_rules for columns in rule.pairs(weight.shape)]
    fitted, _ = round_gptq(goal, compensation(moments, damping=0.0), scale, zero, params.spec, pairs)
    return _from_rows(node, fitted, weight)


def fit_grid(layer: Layer, params: QuantParams) -> tuple[QuantParams, NDArray[np.int32]]:
    """Grid and integers: :func:`fit_rounding`, with the step of each output channel fitted as well.

    Candidates are several shares of the step that covers the weight's extremes, and the best of them refined by least squares;
    the one with the least error in the layer's output is kept. (The step of least error in the weights is a different and far
    worse one: clipped weights err in one direction, which only the inputs reveal.) :func:`fit_rounding` on the resulting grid
    gives the same integers, so a plan reproduces them.

    Args:
        layer: The layer.
        params: The grid to start from.

    Returns:
        Parameters, and integers on their grid. Per-tensor parameters are returned unchanged.
    """
    spec = params.spec
    if spec.block and layer.gathered.is_finite:
        return _fit_blocks(layer, params)
    if spec.axis is None or not layer.gathered.is_finite:
        return params, fit_rounding(layer, params)
    scale, zero, integers = _best_grid(layer.search, spec)
    columns, stored = layer.search.columns, None
    if columns is not None:
        shape = [1 if i == spec.axis else size for i, size in enumerate(layer.weight.shape)]
        stored = columns.astype(np.float32).reshape(shape)
    fitted = QuantParams(scale.reshape(-1), zero.reshape(-1), spec, stored)
    return fitted, _from_rows(layer.node, integers, layer.weight)


def _fit_blocks(layer: Layer, params: QuantParams) -> tuple[QuantParams, NDArray[np.int32]]:
    """:func:`fit_grid` for a scale per block.

    Of several shares of the step that covers a block, the one with which rounding to nearest changes the output least, as far as
    later columns cannot compensate it. Its integers are then fitted.
    """
    node, weight = layer.node, layer.weight
    goal, moments = _problem(layer)
    compensated = compensation(moments, damping=0.0)
    rows, spec = np.ascontiguousarray(goal[0].astype(np.float32)), replace(params.spec, axis=1)
    best = block_params(rows, spec, compensated.variances[0])
    stored = [np.ascontiguousarray(_to_rows(node, part)) for part in (best.scale, best.zero_point)]
    fitted = QuantParams(stored[0], stored[1], params.spec)
    scale, zero = _per_element(node, weight, fitted, goal)
    return fitted, _from_rows(node, round_gptq(goal, compensated, scale, zero, spec)[0], weight)


def _per_element(
    node: ir.Node, weight: NDArray[np.float32], params: QuantParams, goal: Matrix
) -> tuple[Matrix, Matrix]:
    """Scale and zero point of each element of the grouped rows."""
    axis, block = params.block_axis, params.spec.block
    scale, zero = (
        _to_rows(node, spread(values, weight.shape[axis], axis, block)).astype(np.float64).reshape(goal.shape)
        for values in (params.scale, params.zero_point)
    )
    return scale, zero


def _best_grid(search: _Search, spec: QuantSpec) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32]]:
    """Scale and zero point per row ``(groups, rows)``, and integers ``(groups, rows, columns)`` as rounding on them gives."""
    goal, rows, pull, compensated = search.goal, search.rows, search.pull, search.compensated
    covering = params_from_range(rows.min(axis=2), rows.max(axis=2), spec)
    shape, zero = goal.shape[:2], covering.zero_point[..., None].astype(np.float64)
    kept, least = covering.scale.copy(), np.full(shape, np.inf)
    refined, hoped = covering.scale.copy(), np.full(shape, np.inf)
    best = np.empty(goal.shape, np.int32)
    nothing = np.sum(pull * goal, axis=2)
    stack = max(STACKED // goal.size, 1)

    def attempt(scales: NDArray[np.float32]) -> None:
        rounded = _rounded(goal, compensated, scales, zero, spec)
        for scale, fitted, loss in zip(scales, *rounded, strict=True):
            cost, along = loss - nothing, np.sum(pull * (fitted - zero), axis=2)
            energy = np.maximum(cost + 2 * scale * along, 0.0) / np.square(scale, dtype=np.float64)
            better = _refined(scale, along, energy)
            hope = better * (better * energy - 2 * along)
            is_better, is_hopeful = cost < least, hope < hoped
            best[is_better], least[is_better], kept[is_better] = fitted[is_better], cost[is_better], scale[is_better]
            refined[is_hopeful], hoped[is_hopeful] = better[is_hopeful], hope[is_hopeful]

    clips = np.asarray(CLIPS if goal.shape[2] > NARROW else FINE_CLIPS, np.float32)[:, None, None]
    steps = np.maximum(covering.scale * clips, np.float32(MIN_SCALE))
    for first in range(0, len(steps), stack):
        attempt(steps[first : first + stack])
    attempt(refined[None].copy())
    return kept, covering.zero_point.copy(), best


def _rounded(
    goal: Matrix, compensated: Compensation, scales: NDArray[np.float32], zero: Matrix, spec: QuantSpec
) -> tuple[NDArray[np.int32], Matrix]:
    """:func:`round_gptq` with several steps at once: integers ``(steps, groups, rows, columns)``, errors without the last axis.

    Shapes:
        scales: ``(steps, groups, rows)``.
    """
    groups, rows, columns = goal.shape
    many, beside = len(scales), (1, len(scales), 1)
    steps = np.moveaxis(scales, 0, 1).reshape(groups, many * rows, 1).astype(np.float64)
    fitted, loss = round_gptq(np.tile(goal, beside), compensated, steps, np.tile(zero, beside), spec)
    integers = np.moveaxis(fitted.reshape(groups, many, rows, columns), 1, 0)
    return integers, np.moveaxis(loss.reshape(groups, many, rows), 1, 0)


def _refined(scale: NDArray[np.float32], along: Matrix, energy: Matrix) -> NDArray[np.float32]:
    """Steps of least squared error for fixed integers; the old ones where the inputs do not determine them."""
    steps = np.divide(along, energy, out=scale.astype(np.float64), where=energy > 0)
    is_near = np.abs(np.log(np.maximum(steps, MIN_SCALE) / scale)) < NEAR
    return np.where(is_near, steps, scale).astype(np.float32)


def _problem(layer: Layer) -> tuple[Matrix, Matrix]:
    """Float rows to round ``(groups, rows, columns)``, and damped moments ``(groups, columns, columns)``."""
    moments, cross = layer.gathered.means(centered=layer.has_bias)
    matrix = _to_rows(layer.node, layer.weight)
    grouped = matrix.reshape(len(moments), matrix.shape[0] // len(moments), -1).astype(np.float64)
    by_shortage = CONVOLUTION_BY_SHORTAGE if layer.node.op_type == "Conv" else DAMPING_BY_SHORTAGE
    shortage = by_shortage * moments.shape[1] / max(layer.gathered.count, 1)
    corrected = _corrected(grouped, moments, cross, max(TRUST, 5 * shortage))
    mean = np.maximum(np.diagonal(moments, axis1=1, axis2=2).mean(axis=1), LEAST_CURVATURE)
    return corrected, _damped(moments, max(DAMPING, shortage) * mean)


def _stretched(goal: Matrix, moments: Matrix, scales: Matrix) -> tuple[Matrix, Matrix]:
    """The same problem for rows that are stored divided by the scales of their columns."""
    return goal / scales, moments * scales[:, None] * scales


def _per_row(params: QuantParams, groups: int) -> tuple[Matrix, Matrix]:
    """Scale and zero point, broadcast to ``(groups, rows, 1)`` where they are per channel."""
    scale, zero = params.scale.astype(np.float64), params.zero_point.astype(np.float64)
    if params.spec.axis is None:
        return scale, zero
    return scale.reshape(groups, -1, 1), zero.reshape(groups, -1, 1)


def _from_rows(node: ir.Node, rows: NDArray[np.int32], weight: NDArray[np.float32]) -> NDArray[np.int32]:
    """Grouped rows in the layout of the weight."""
    matrix = rows.reshape(_to_rows(node, weight).shape)
    return np.ascontiguousarray((matrix.T if _is_transposed(node) else matrix).reshape(weight.shape))


def mean_shift(node: ir.Node, error: NDArray[np.float32], gathered: Moments) -> NDArray[np.float64]:
    """Mean that the weight's error adds to each output channel, on the float inputs. Shape ``(output channels,)``."""
    assert gathered.float_sum is not None
    mean = gathered.float_sum / gathered.count
    matrix = _to_rows(node, error)
    grouped = matrix.reshape(len(mean), matrix.shape[0] // len(mean), -1)
    return np.einsum("goc,gc->go", grouped.astype(np.float64), mean).reshape(-1)


def _corrected(rows: Matrix, moments: Matrix, cross: Matrix, trust: float) -> Matrix:
    """Weights with the least-squares change that compensates for inputs that differ from the float ones: (groups, rows, columns).

    The change is ``rows @ (cross - moments) @ inverse(damped moments)``. Of a wide layer it is solved for its rows alone: they
    are fewer than its columns.
    """
    mean = np.diagonal(moments, axis1=1, axis2=2).mean(axis=1)
    damped, apart = _damped(moments, trust * mean + TINY), cross - moments
    if moments.shape[1] > WIDE and rows.shape[1] < moments.shape[1]:
        return rows + np.swapaxes(np.linalg.solve(damped, np.swapaxes(rows @ apart, 1, 2)), 1, 2)
    return rows + rows @ np.swapaxes(np.linalg.solve(damped, np.swapaxes(apart, 1, 2)), 1, 2)


def _damped(moments: Matrix, amount: Matrix) -> Matrix:
    """Moments with an amount ``(groups,)`` added to their diagonals."""
    found = moments.copy()
    np.einsum("gcc->gc", found)[...] += amount[:, None]
    return found


def _to_rows(node: ir.Node, weight: NDArray[Any]) -> NDArray[Any]:
    """The weight with one row per output channel: ``(output channels, ...)``."""
    return weight.T if _is_transposed(node) else weight


def _is_transposed(node: ir.Node) -> bool:
    return node.op_type == "MatMul" or (node.op_type == "Gemm" and not g.int_attribute(node, "transB", 0))
