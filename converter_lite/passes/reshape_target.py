"""Targets of Reshape that need not be computed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.graph import add_initializer, input_at, int_attribute
from converter_lite.passes.rewrite import int_values, is_op

COPY, INFER = 0, -1
"""What a target may hold instead of a size: copy the input's size at this position, or infer what is left."""


def simplify_reshape(model: ir.Model) -> int:
    """Let Reshape copy and infer sizes instead of having other nodes compute them.

    ::

        x (B, S, 384) ─ Reshape(Concat(B, S, 12, 32))       becomes      x ─ Reshape([0, 0, 12, 32])

    1. A size that is read off the Shape of a tensor and equals that of ``x`` at the same position is copied;
    2. one other computed size is inferred, if those that are copied are sizes of the graph's inputs: how many objects a
       detector finds may be 0, and beside that nothing can be inferred. Where the target holds -1 already, that is so anyway.

    Refused: ``allowzero``, two sizes that are neither constant nor copied, targets from nodes other than Concat.
    """
    changed = 0
    given = {dim.value for value in model.graph.inputs for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    for node in list(model.graph):
        target = _target(node) if is_op(node, "Reshape") and not int_attribute(node, "allowzero", 0) else None
        if target is not None and (INFER not in target or _infers(node) or _copied(node.inputs[0], target) <= given):
            name = f"{node.outputs[0].name}_target"
            node.replace_input_with(1, add_initializer(model.graph, name, np.array(target, np.int64)))
            changed += 1
    return changed


def _target(node: ir.Node) -> list[int] | None:
    source, wanted = node.inputs[0], input_at(node, 1)
    concat = wanted.producer() if wanted is not None else None
    if source is None or source.shape is None or concat is None or not is_op(concat, "Concat"):
        return None
    target: list[int] = []
    for part in concat.inputs:
        sizes = int_values(part)
        if sizes is not None:
            target.extend(sizes)
            continue
        dim = _read_size(part)
        if dim is None:
            return None
        position = len(target)
        target.append(COPY if position < len(source.shape) and _same(source.shape[position], dim) else INFER)
    return target if target.count(INFER) <= 1 else None


def _infers(node: ir.Node) -> bool:
    """Whether a constant of the target says that a size is inferred."""
    wanted = input_at(node, 1)
    concat = wanted.producer() if wanted is not None else None
    return concat is not None and any(INFER in (int_values(part) or ()) for part in concat.inputs)


def _copied(source: ir.Value | None, target: list[int]) -> set[str | None]:
    """Names of the open sizes that a target copies."""
    shape = source.shape if source is not None else None
    dims = [dim for dim, size in zip(shape or (), target, strict=False) if size == COPY]
    return {dim.value for dim in dims if isinstance(dim, ir.SymbolicDim)}


def _same(first: int | ir.SymbolicDim, second: int | ir.SymbolicDim) -> bool:
    if isinstance(first, int) or isinstance(second, int):
        return False
    return first.value is not None and first.value == second.value


def _read_size(value: ir.Value | None) -> int | ir.SymbolicDim | None:
    """The dimension behind ``Shape -> Gather(one index) [-> Unsqueeze]`` or ``Shape -> Slice``, a vector of one."""
    node = value.producer() if value is not None else None
    scalar = is_op(node, "Unsqueeze")
    if node is not None and scalar:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or not is_op(node, "Gather") or node.inputs[0] is None:
        return None
    index, shape = node.inputs[1], node.inputs[0].producer()
    indices = int_values(index)
    rank = len(index.shape) if index is not None and index.shape is not None else None
    if indices is None or len(indices) != 1 or rank != (0 if scalar else 1):
        return None
    if shape is None or not is_op(shape, "Shape") or "start" in shape.attributes or "end" in shape.attributes:
        return None
    source = shape.inputs[0]
    if source is None or source.shape is None or not -len(source.shape) <= indices[0] < len(source.shape):
        return None
    return source.shape[indices[0]]
