"""Convolutions with distances between their weights, which are written as three operators.

::

    SPACE_TO_BATCH_ND ─ CONV_2D | DEPTHWISE_CONV_2D ─ BATCH_TO_SPACE_ND      becomes      one convolution with dilation

Refused: other readers of what is between, a stride or dilation of the convolution itself, blocks that differ, and borders that would
be cut off more than they were added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from converter_lite.errors import MISFITS, ConverterError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import Padding
from converter_lite.formats.tflite.importer.context import Importer

KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def merged(ctx: Importer) -> list[Operator]:
    """The operators of a subgraph, with such triples as one."""
    operators = ctx.graph.operators
    reads = Counter(index for op in operators for index in op.inputs) + Counter(ctx.graph.outputs)
    made = {index: number for number, op in enumerate(operators) for index in op.outputs}
    found: dict[int, Operator] = {}
    dropped: set[int] = set()
    for number, last in enumerate(operators):
        if last.kind != "BATCH_TO_SPACE_ND" or not last.inputs or reads[last.inputs[0]] != 1:
            continue
        middle = made.get(last.inputs[0])
        if middle is None or operators[middle].kind not in KINDS or reads[operators[middle].inputs[0]] != 1:
            continue
        first = made.get(operators[middle].inputs[0])
        if first is None or operators[first].kind != "SPACE_TO_BATCH_ND":
            continue
        one = _one(ctx, operators[first], operators[middle], last)
        if one is not None:
            found[number] = one
            dropped |= {first, middle}
    return [found.get(number, op) for number, op in enumerate(operators) if number not in dropped]


def _one(ctx: Importer, first: Operator, conv: Operator, last: Operator) -> Operator | None:
    """The convolution, or ``None`` where it is none."""
    try:
        block, added, cut = ctx.ints(first.inputs[1]), ctx.ints(first.inputs[2]), ctx.ints(last.inputs[2])
        kernel = ctx.stored(conv.inputs[1]).dims[1:3]
        same = ctx.ints(last.inputs[1]) == block and len(block) == len(kernel) == len(added) // 2 == len(cut) // 2
    except (ConverterError, *MISFITS):
        return None
    single = all(conv.get(name, 1) == 1 for name in ("stride_h", "stride_w", "dilation_h", "dilation_w"))
    if not same or not single:
        return None
    own = [_own(conv, size, step) for size, step in zip(kernel, block, strict=True)]
    begin = [p + a - c for (p, _), a, c in zip(own, added[::2], cut[::2], strict=True)]
    end = [p + a - c for (_, p), a, c in zip(own, added[1::2], cut[1::2], strict=True)]
    if min(*begin, *end) < 0:
        return None
    options = {**conv.options, "dilations": block, "border": {"pads": [*begin, *end]}}
    return replace(conv, inputs=(first.inputs[0], *conv.inputs[1:]), outputs=last.outputs, options=options)


def _own(conv: Operator, kernel: int, dilation: int) -> Sequence[int]:
    """Elements that the convolution itself adds before and behind."""
    total = kernel - 1 if conv.get("padding", Padding.VALID) == Padding.SAME else 0
    return total // 2 * dilation, (total - total // 2) * dilation
