"""State of one translation from a MindIR program to an ONNX graph.

A name of the program stands for a tensor, or for what lives only while the program is built: a number, a text, a tuple of
such, the monad that orders side effects. Tensors become values of the graph, the rest arguments of translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import GraphBuilder, check_size
from converter_lite.formats.mindir.program import DTYPES, Tensor, shape_text, type_name

Held = Any
"""What a name stands for: ``ir.Value``, a number, text, ``None``, a tuple of such, a type, ``MONAD``."""


class Missing:
    """No argument of this name, and no default for it."""


MISSING = Missing()


@dataclass(slots=True, kw_only=True)
class Importer(GraphBuilder):
    """One translation.

    Attributes:
        held: What the names of the program stand for.
        checks_shapes: The shapes in the file are those of the graph; not if the inputs were given others.
    """

    held: dict[str, Held] = field(default_factory=dict)
    checks_shapes: bool = True

    def add_input(self, name: str, kind: np.dtype[Any], dims: Sequence[int]) -> ir.Value:
        """An input of the graph; each open size becomes a symbol."""
        sizes = [size if size >= 0 else ir.SymbolicDim(f"{name}_{axis}") for axis, size in enumerate(dims)]
        element = ir.TensorType(ir.DataType.from_numpy(kind))
        value = ir.Value(name=self.fresh(name), shape=ir.Shape(sizes), type=element)
        check_size(value)
        self.inputs.append(value)
        return value

    def agree(self, value: ir.Value, declared: Held) -> None:
        """Compare a result with the type and shape that the file gives for it, and add what only the file knows.

        Raises:
            ModelError: They differ: the file means something else than what was made.
        """
        if not isinstance(declared, Tensor) or not self.checks_shapes or value.dtype is None:
            return
        kind = DTYPES.get(declared.kind)
        if kind is not None and ir.DataType.from_numpy(kind) != value.dtype:
            raise ModelError(f"its result is {numpy_type(value)}, and {type_name(declared.kind)} in the file")
        if any(size < -1 for size in declared.dims):
            return
        sizes = [None if size < 0 else size for size in declared.dims]
        if value.shape is None:
            value.shape = ir.Shape(sizes)
            return
        found = [size if isinstance(size, int) else None for size in value.shape]
        if len(found) != len(sizes) or any(a != b for a, b in zip(found, sizes, strict=True) if None not in (a, b)):
            shown = shape_text([-1 if size is None else size for size in found])
            raise ModelError(f"its result has the shape {shown}, and {shape_text(declared.dims)} in the file")
        value.shape = ir.Shape(
            [
                size if isinstance(size, int) or known is None else known
                for size, known in zip(value.shape, sizes, strict=True)
            ]
        )

    def model(self, results: Sequence[ir.Value], title: str) -> ir.Model:
        """The finished graph with these outputs; what none of them needs is left out."""
        outputs: list[ir.Value] = []
        for value in results:
            if value.producer() is None or value in outputs:
                name = f"{value.name}.output"
                value = self.node("Identity", [value], [self.fresh(name)], self.label(name), {})[0]
            outputs.append(value)
        needed, kept = set(outputs), list[ir.Node]()
        for node in reversed(self.nodes):
            if needed.isdisjoint(node.outputs):
                for index in range(len(node.inputs)):
                    node.replace_input_with(index, None)
                continue
            kept.append(node)
            needed.update(value for value in node.inputs if value is not None)
        self.nodes = kept[::-1]
        return self.finished(outputs, title or "mindir")


def agree(importer: Importer, held: Held, declared: Held) -> None:
    """Compare a result with what the file says of it, part by part."""
    if isinstance(held, ir.Value):
        importer.agree(held, declared)
    elif isinstance(held, tuple) and isinstance(declared, tuple) and len(held) == len(declared):
        for part, described in zip(held, declared, strict=True):
            agree(importer, part, described)


def is_real(value: ir.Value) -> bool:
    """Whether the elements are floating-point numbers."""
    return value.dtype is not None and value.dtype.is_floating_point()


def numpy_type(value: ir.Value) -> np.dtype[Any]:
    """The type of the elements."""
    assert value.dtype is not None
    return value.dtype.numpy()
