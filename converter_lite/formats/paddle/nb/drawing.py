"""A block of a file as a drawing for Graphviz: operators, the variables between them, what reads and writes which."""

from __future__ import annotations

from collections.abc import Iterator

from converter_lite.formats.paddle.program import Block

OPERATOR_STYLE = 'style="filled" fillcolor="yellow"'
VARIABLE_STYLE = 'style="filled" fillcolor="gray" shape="record"'


def dot(block: Block) -> str:
    """The text of a ``.dot`` file; variables are those that an operator reads or writes."""
    return "\n".join(("digraph G {", *(f"   {line}" for line in _lines(block)), "} // end G")) + "\n"


def _lines(block: Block) -> Iterator[str]:
    numbers: dict[str, int] = {}
    edges = []
    for index, op in enumerate(block.operators):
        yield f'op_{index}[label="{_escaped(op.type)}" {OPERATOR_STYLE}]'
        for slots, is_read in ((op.inputs, True), (op.outputs, False)):
            for name in (name for names in slots.values() for name in names):
                number = numbers.setdefault(name, len(numbers))
                edges.append(f"var_{number}->op_{index}" if is_read else f"op_{index}->var_{number}")
    for name, number in numbers.items():
        yield f'var_{number}[label="{_escaped(name)}" {VARIABLE_STYLE}]'
    yield from edges


def _escaped(text: str) -> str:
    """Text inside a record's label."""
    return "".join(f"\\{letter}" if letter in '\\"{}|<> ' else letter for letter in text)
