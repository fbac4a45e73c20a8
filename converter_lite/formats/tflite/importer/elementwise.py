"""Operators that work element by element on tensors that are broadcast to one shape, in whatever order of axes they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite.importer.context import Importer


def common_order(ctx: Importer, indices: Sequence[int]) -> Perm:
    """The order of axes that costs the fewest Transposes; ``()`` for that of the file."""
    computed = [index for index in indices if not ctx.is_constant(index)]
    widest = max(map(ctx.rank, indices))
    votes = Counter(order for index in computed if ctx.rank(index) == widest for order in ctx.orders(index))
    if not votes:
        return ()
    return max(votes, key=lambda order: (votes[order], order != ()))


def aligned(ctx: Importer, indices: Sequence[int]) -> tuple[list[ir.Value], Perm | None]:
    """Operands that broadcast as ONNX defines it, and the order of the result's axes.

    Raises:
        ModelError: A rank is unknown.
    """
    order, widest = common_order(ctx, indices), max(map(ctx.rank, indices))
    return [in_order(ctx, index, order, widest) for index in indices], order or None


def in_order(ctx: Importer, index: int, order: Perm, rank: int) -> ir.Value:
    """A tensor of no more axes than ``rank``, with those that it has where ``order`` wants them."""
    own = ctx.rank(index)
    if not order:
        return ctx.value(index)
    if own == rank:
        return ctx.value(index, order)
    if own == 0 or ctx.is_constant(index):
        return _wide_constant(ctx, index, order) if ctx.is_constant(index) else ctx.value(index)
    leading = rank - own
    kept = [axis - leading for axis in order if axis >= leading]
    if kept != sorted(kept):
        value = ctx.add("Transpose", [ctx.value(index)], perm=kept)
    else:
        value = ctx.value(index)
    missing = [place for place, axis in enumerate(order) if axis < leading]
    return ctx.add("Unsqueeze", [value, ctx.int64(missing, "axes")])


def _wide_constant(ctx: Importer, index: int, order: Perm) -> ir.Value:
    try:
        stored = ctx.stored(index)
    except ModelError:
        value = ctx.value(index)
        assert value.const_value is not None
        array = value.const_value.numpy()
        wide = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
        return ctx.builder.constant(np.transpose(wide, order), array.dtype, str(value.name))
    return ctx.constant(index, pm.identity(len(stored.dims)) if stored.size == 1 else order)
