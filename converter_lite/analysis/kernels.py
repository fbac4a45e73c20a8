"""Is it really int8? The kernels that onnxruntime runs for a model, and the arithmetic that they use."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.log import counted
from converter_lite.runtime.engine import Feed, KernelRun, profile
from converter_lite.runtime.serializing import message
from converter_lite.targets.operators import WEIGHTED

INTEGERS = frozenset({"int8", "uint8", "int4", "uint4"})

CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast"})
"""Kernels at borders between integers and floats."""

MOVERS = frozenset(
    {"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Gather", "Expand", "Tile"}
    | {"Identity", "Pad", "ReorderInput", "ReorderOutput", "Shape", "QLinearConcat", "DepthToSpace", "SpaceToDepth"}
)
"""Kernels that compute nothing."""

INTEGER_INSIDE = frozenset({"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "DynamicQuantizeLSTM", "QAttention"})
"""Kernels that take floats and multiply integers."""


class Arithmetic(enum.Enum):
    """The arithmetic of a kernel."""

    INTEGER = "integer"
    FLOAT = "float"
    CONVERSION = "conversion"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel and the node that it runs.

    Attributes:
        node: Node of the file, empty for kernels that the runtime inserted.
        operator: Operator of that node.
        kernel: Operator that ran.
        arithmetic: Its arithmetic.
        fell_back: Whether it is a float kernel for a node that the file places between integers.
        microseconds: Wall time of the fastest run, one thread.
    """

    node: str
    operator: str
    kernel: str
    arithmetic: Arithmetic
    fell_back: bool
    microseconds: int


def kernels(model: ir.Model, feeds: Sequence[Feed]) -> list[KernelUse]:
    """Kernels in the order in which they run.

    Args:
        model: A graph with names, quantized or not.
        feeds: Samples; the first run of each kernel is slower than the others.

    Raises:
        ModelError: The runtime refuses the model or a sample.
    """
    content = message(model)
    nodes = {node.name: node for node in model.graph if node.name}
    return [_use(run, nodes) for run in profile(content.content, feeds, tensors=content.tensors)]


def _use(run: KernelRun, nodes: Mapping[str, ir.Node]) -> KernelUse:
    node = _node_of(run.node, nodes)
    arithmetic = _arithmetic(run)
    fell_back = arithmetic is Arithmetic.FLOAT and node is not None and _reads_integers(node)
    name, operator = ("", "") if node is None else (node.name or "", node.op_type)
    return KernelUse(name, operator, run.kernel, arithmetic, fell_back, run.microseconds)


def _node_of(name: str, nodes: Mapping[str, ir.Node]) -> ir.Node | None:
    """The node whose name the runtime's name begins with: it appends ``_token_7``, ``_nchwc`` and the like."""
    name = name.removeprefix("fused ")
    while name:
        if name in nodes:
            return nodes[name]
        name = name.rpartition("_")[0]
    return None


def _arithmetic(run: KernelRun) -> Arithmetic:
    if run.kernel in CONVERSIONS:
        return Arithmetic.CONVERSION
    if run.kernel in MOVERS or (run.inputs and run.inputs[0] in ("int64", "int32", "bool")):
        return Arithmetic.NONE
    if run.kernel in INTEGER_INSIDE or (run.inputs and run.inputs[0] in INTEGERS):
        return Arithmetic.INTEGER
    return Arithmetic.FLOAT


def _reads_integers(node: ir.Node) -> bool:
    """Whether an input is an activation behind a DequantizeLinear."""
    producers = (value.producer() for value in node.inputs if value is not None)
    return any(p is not None and p.op_type == "DequantizeLinear" and not g.is_constant(p.inputs[0]) for p in producers)


def table(uses: Sequence[KernelUse]) -> Iterator[Sequence[str]]:
    """Rows of the table, the head first."""
    yield ("node", "operator", "kernel", "computes with", "us", "")
    for use in uses:
        mark = "fell back" if use.fell_back else ""
        yield (
            use.node or "(runtime)",
            use.operator or "-",
            use.kernel,
            use.arithmetic.value,
            str(use.microseconds),
            mark,
        )


def summary(uses: Sequence[KernelUse]) -> str:
    """One sentence about layers with weights and about the time."""
    weighted = [use for use in uses if use.operator in WEIGHTED or use.kernel.removeprefix("Fused") in WEIGHTED]
    integer = [use for use in weighted if use.arithmetic is Arithmetic.INTEGER]
    total = max(sum(use.microseconds for use in uses), 1)
    shares = ", ".join(
        f"{kind.value} {sum(use.microseconds for use in uses if use.arithmetic is kind) / total:.0%}"
        for kind in Arithmetic
    )
    back = sum(use.fell_back for use in uses)
    return (
        f"{len(integer)} of {counted(len(weighted), 'layer')} with weights compute in integers; "
        f"{counted(back, 'kernel')} fell back to float; time: {shares}"
    )


def to_json(uses: Sequence[KernelUse]) -> list[dict[str, object]]:
    """Plain data."""
    return [
        {
            "node": use.node,
            "operator": use.operator,
            "kernel": use.kernel,
            "arithmetic": use.arithmetic.value,
            "fell_back": use.fell_back,
            "microseconds": use.microseconds,
        }
        for use in uses
    ]
