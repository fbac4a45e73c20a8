"""Operators of a file that are one operator in ONNX, found before they are translated.

1. A convolution with distances between its weights::

       SPACE_TO_BATCH_ND ─ CONV_2D | DEPTHWISE_CONV_2D ─ BATCH_TO_SPACE_ND      becomes      one with dilation

2. A border of zeros::

       PAD ─ CONV_2D | DEPTHWISE_CONV_2D (without padding)      becomes      one with padding

Refused: other readers of what is between (1), a stride or dilation of the convolution itself (1), blocks that differ (1), borders
that would be cut off more than they were added (1), and a border around other axes than height and width (2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from converter_lite.errors import MISFITS, ConverterError
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator
from converter_lite.formats.tflite.enums import Padding
from converter_lite.formats.tflite.importer.context import Importer

KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D")

DILATIONS, BORDER = "dilations", "border"
"""Options of a merged convolution, in the words of ONNX: they replace its dilation and its padding."""


def merged(ctx: Importer) -> list[Operator]:
    """The operators of a subgraph, with such groups as one."""
    for rule in (_dilated, _padded):
        ctx.operators = rule(ctx, ctx.operators)
    return ctx.operators


def _readers(ctx: Importer, operators: Sequence[Operator]) -> Counter[int]:
    """How often each tensor is read; outputs of the graph count."""
    inside = (index for op in operators for index in op.inputs if index != NOT_GIVEN)
    return Counter(inside) + Counter(ctx.graph.outputs)


def _makers(operators: Sequence[Operator]) -> Mapping[int, int]:
    return {index: number for number, op in enumerate(operators) for index in op.outputs}


def _dilated(ctx: Importer, operators: list[Operator]) -> list[Operator]:
    reads, makers = _readers(ctx, operators), _makers(operators)

    def maker(op: Operator, *kinds: str) -> int | None:
        """Number of the operator whose result this one alone reads, if it is of one of these kinds."""
        number = makers.get(op.inputs[0]) if op.inputs and reads[op.inputs[0]] == 1 else None
        return number if number is not None and operators[number].kind in kinds else None

    found, dropped = dict[int, Operator](), set[int]()
    for number, last in enumerate(operators):
        middle = maker(last, *KINDS) if last.kind == "BATCH_TO_SPACE_ND" else None
        first = maker(operators[middle], "SPACE_TO_BATCH_ND") if middle is not None else None
        if first is None or middle is None:
            continue
        one = _attempt(_with_dilation, ctx, operators[first], operators[middle], last)
        if one is not None:
            found[number] = one
            dropped |= {first, middle}
    return [found.get(number, op) for number, op in enumerate(operators) if number not in dropped]


def _padded(ctx: Importer, operators: list[Operator]) -> list[Operator]:
    """The border itself stays for others that read it."""
    makers = _makers(operators)

    def replaced(conv: Operator) -> Operator:
        if conv.kind not in KINDS or conv.get("padding", Padding.VALID) != Padding.VALID or not conv.inputs:
            return conv
        first = makers.get(conv.inputs[0])
        if first is None or operators[first].kind != "PAD":
            return conv
        return _attempt(_with_border, ctx, operators[first], conv) or conv

    return [replaced(op) for op in operators]


def _attempt(rule: Callable[..., Operator | None], *arguments: Any) -> Operator | None:
    """What a rule makes, ``None`` where operators are not as they should be: their own translation says what is wrong."""
    try:
        return rule(*arguments)
    except (ConverterError, *MISFITS):
        return None


def _with_dilation(ctx: Importer, first: Operator, conv: Operator, last: Operator) -> Operator | None:
    block, added, cut = ctx.ints(first.inputs[1]), ctx.ints(first.inputs[2]), ctx.ints(last.inputs[2])
    kernel = ctx.stored(conv.inputs[1]).dims[1:3]
    same = ctx.ints(last.inputs[1]) == block and len(block) == len(kernel) == len(added) // 2 == len(cut) // 2
    single = all(conv.get(name, 1) == 1 for name in ("stride_h", "stride_w", "dilation_h", "dilation_w"))
    if not same or not single or BORDER in conv.options:
        return None
    own = [_own(conv, size, distance) for size, distance in zip(kernel, block, strict=True)]
    begin = [p + a - c for (p, _), a, c in zip(own, added[::2], cut[::2], strict=True)]
    end = [p + a - c for (_, p), a, c in zip(own, added[1::2], cut[1::2], strict=True)]
    if min(*begin, *end) < 0:
        return None
    options = {**conv.options, DILATIONS: block, BORDER: {"pads": [*begin, *end]}}
    return replace(conv, inputs=(first.inputs[0], *conv.inputs[1:]), outputs=last.outputs, options=options)


def _own(conv: Operator, kernel: int, dilation: int) -> tuple[int, int]:
    """Elements that the convolution itself adds before and behind."""
    total = kernel - 1 if conv.get("padding", Padding.VALID) == Padding.SAME else 0
    return total // 2 * dilation, (total - total // 2) * dilation


def _with_border(ctx: Importer, pad: Operator, conv: Operator) -> Operator | None:
    pairs = ctx.ints(pad.inputs[1])
    if len(pairs) != 8 or any(pairs[:2]) or any(pairs[6:]) or min(pairs) < 0 or BORDER in conv.options:
        return None
    ctx.check_same_grid(pad, 0)
    options = {**conv.options, BORDER: {"pads": [*pairs[2:6:2], *pairs[3:6:2]]}}
    return replace(conv, inputs=(pad.inputs[0], *conv.inputs[1:]), options=options)
