"""Weights that several nodes share: one tensor for each kind of use.

The released packages keep one packed copy of a float weight by the address of its data, whatever the node. A second node that
would pack it differently (another picture size, stride or orientation) computes with the first one's copy: wrong numbers, no
error. Nodes that do the same on inputs of the same shape pack alike, and keep sharing.

Source: run in the released 2.0.0 runtimes (x86-64 and ARM64).
"""

from __future__ import annotations

from dataclasses import replace

from converter_lite.formats.mindspore_lite.container import MsModel, MsNode

PACKING = frozenset({"Conv2DFusion", "Conv2dTransposeFusion", "MatMulFusion"})
"""Operators that pack their weight."""


def give_each_use_its_weight(ms: MsModel) -> list[str]:
    """Copy weights whose users would pack them differently; returns a line for every such weight.

    Quantized weights are dequantized separately for every node, or used as they are in the file: those stay shared.
    """
    copies: dict[int, dict[object, int]] = {}
    notes = {}
    for node in ms.nodes:
        if node.op not in PACKING:
            continue
        for place, index in enumerate(node.inputs[:2]):
            tensor = ms.tensors[index]
            if tensor.data is None or tensor.quant is not None:
                continue
            uses = copies.setdefault(index, {})
            use = _use(ms, node, place)
            if use not in uses and not uses:
                uses[use] = index
            elif use not in uses:
                name = f"{tensor.name}_{len(uses) + 1}"
                ms.tensors.append(replace(tensor, name=name))
                uses[use] = len(ms.tensors) - 1
                notes[index] = f"{tensor.name}: stored {len(uses)} times, its nodes need it in different forms"
            node.inputs[place] = uses[use]
    return list(notes.values())


def _use(ms: MsModel, node: MsNode, place: int) -> tuple[object, ...]:
    """Everything that determines how a weight is packed."""
    attributes = tuple(sorted((name, str(value)) for name, value in node.attributes.items()))
    return node.op, place, attributes, ms.tensors[node.inputs[1 - place]].dims
