"""Nodes that return their input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx_ir as ir

from converter_lite.graph import (
    absorb_names,
    constant,
    input_at,
    int_attribute,
    ints_attribute,
    is_constant,
    static_shape,
)
from converter_lite.passes.rewrite import bypass, consumers, int_values, is_op, remove, replace, sole_output

ENDLESS = 2**31 - 1
"""End of a Slice that takes an axis to its end, whatever its size: int32's largest number, or more."""

LENGTHS = 4
"""The input of a recurrent layer that says how long each sequence is."""


def remove_noops(model: ir.Model) -> int:
    """Remove nodes that change nothing.

    ::

        x ─ Identity | Dropout | Cast | Transpose | Reshape | Flatten | Concat | Pad | Slice ─ y      becomes      x

    1. Identity; Concat and Sum of one input;
    2. Dropout outside training whose mask nobody reads;
    3. Cast to the type that the input has;
    4. Transpose by the identity permutation;
    5. Reshape, Flatten, Squeeze, Unsqueeze, Expand into the shape that the input has; Pad by nothing;
    6. Slice that takes whole axes in steps of one (GhostNet);
    7. Split whose other parts hold no element. Concat does not read such parts;
    8. the lengths that an LSTM, GRU or RNN reads, where all are that of the sequence (packed sequences of PyTorch).

    Kept: a node between two names of the model (graph input or constant to graph output, or two graph outputs).
    """
    left_out = sum(_leave_out_empty(node) for node in list(model.graph) if is_op(node, "Concat"))
    left_out += sum(_forget_lengths(node) for node in model.graph if is_op(node, "LSTM", "GRU", "RNN"))
    return left_out + sum(_remove(node) for node in list(model.graph) if is_op(node, *_RULES))


def share_copied_constants(model: ir.Model) -> int:
    """Read constants instead of Identity nodes that copy them, so that they are stored once.

    ::

        w ─┬─ MatMul ─ ...                        w ─┬─ MatMul ─ ...
           └─ Identity ─ v ─ MatMul    becomes       └─ MatMul
    """
    shared = 0
    for node in list(model.graph):
        source = node.inputs[0] if is_op(node, "Identity") else None
        if source is not None and is_constant(source) and not node.outputs[0].is_graph_output():
            for reader in consumers(node.outputs[0]):
                absorb_names(reader, [node])
            node.outputs[0].replace_all_uses_with(source)
            remove(node)
            shared += 1
    return shared


def _leave_out_empty(node: ir.Node) -> bool:
    """Without the inputs of a Concat that hold no element."""
    kept = [value for value in node.inputs if value is None or value.shape is None or 0 not in value.shape]
    if not 0 < len(kept) < len(node.inputs):
        return False
    replace([node], ir.node("Concat", kept, attributes={"axis": int_attribute(node, "axis", 0)}))
    return True


def _forget_lengths(node: ir.Node) -> bool:
    lengths, x = constant(input_at(node, LENGTHS)), node.inputs[0]
    steps = x.shape[0] if x is not None and x.shape is not None else None
    if (
        lengths is None
        or not isinstance(steps, int)
        or not (lengths == steps).all()
        or int_attribute(node, "layout", 0)
    ):
        return False
    node.replace_input_with(LENGTHS, None)
    return True


def _remove(node: ir.Node) -> bool:
    if not node.inputs or node.inputs[0] is None or sole_output(node) is None:
        return False
    return _RULES[node.op_type](node) and bypass(node)


def _always(_: ir.Node) -> bool:
    return True


def _single_input(node: ir.Node) -> bool:
    return len(node.inputs) == 1


def _is_inference(node: ir.Node) -> bool:
    mode = input_at(node, 2)
    if mode is None:
        return True
    array = constant(mode)
    return array is not None and not array.any()


def _same_type(node: ir.Node) -> bool:
    source = node.inputs[0]
    return source is not None and source.dtype is not None and int(source.dtype) == int_attribute(node, "to", 0)


def _identity_permutation(node: ir.Node) -> bool:
    order = ints_attribute(node, "perm")
    return bool(order) and order == tuple(range(len(order)))


def _same_shape(node: ir.Node) -> bool:
    """Every dimension but at most one is known and equal; the number of elements decides the last one."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or result.shape is None or len(source.shape) != len(result.shape):
        return False
    pairs = list(zip(source.shape, result.shape, strict=True))
    unknown = sum(not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)
    known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    return unknown <= 1 and all(a == b and a != 0 for a, b in known)


def _same_static_shape(node: ir.Node) -> bool:
    shape = static_shape(node.inputs[0])
    return shape is not None and shape == static_shape(node.outputs[0])


def _pads_nothing(node: ir.Node) -> bool:
    pads = int_values(input_at(node, 1))
    return pads is not None and not any(pads)


def _takes_everything(node: ir.Node) -> bool:
    """Axes of unknown size are whole from zero to ``ENDLESS`` at least."""
    source = node.inputs[0]
    starts, ends = int_values(input_at(node, 1)), int_values(input_at(node, 2))
    if source is None or source.shape is None or starts is None or ends is None:
        return False
    axes = int_values(input_at(node, 3)) if input_at(node, 3) is not None else range(len(starts))
    steps = int_values(input_at(node, 4)) if input_at(node, 4) is not None else [1] * len(starts)
    if axes is None or steps is None or not len(starts) == len(ends) == len(axes) == len(steps):
        return False
    sizes = [size if isinstance(size := source.shape[axis], int) else ENDLESS for axis in axes]
    is_first = [start == 0 or start <= -size for start, size in zip(starts, sizes, strict=True)]
    is_last = [end >= size for end, size in zip(ends, sizes, strict=True)]
    return all(is_first) and all(is_last) and all(step == 1 for step in steps)


_RULES: Mapping[str, Callable[[ir.Node], bool]] = MappingProxyType(
    {
        "Identity": _always,
        "Concat": _single_input,
        "Sum": _single_input,
        "Dropout": _is_inference,
        "Cast": _same_type,
        "Transpose": _identity_permutation,
        "Reshape": _same_shape,
        "Flatten": _same_shape,
        "Squeeze": _same_shape,
        "Unsqueeze": _same_shape,
        "Expand": _same_static_shape,
        "Split": _same_static_shape,
        "Pad": _pads_nothing,
        "Slice": _takes_everything,
    }
)
