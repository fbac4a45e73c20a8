"""ONNX graph with its plan -> bytes of a ``.ms`` file."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.data.inputs import channels_last
from converter_lite.data.layout import Layout, known_layout
from converter_lite.errors import MISFITS, TargetError
from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsModel, MsNode, MsTensor, to_bytes
from converter_lite.formats.mindspore_lite.enums import DataType, Format
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import Lower
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.table import LOWERINGS
from converter_lite.formats.mindspore_lite.exporter.types import COPIED, refused_type
from converter_lite.formats.mindspore_lite.exporter.unsharing import give_each_use_its_weight
from converter_lite.formats.mindspore_lite.options import MsOptions, Problem
from converter_lite.graph import is_constant, is_read, static_shape
from converter_lite.passes.input_values import HINT
from converter_lite.quantization.plan import QuantizedModel, QuantPlan

_SIZED_BY_DATA = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})

_TYPED_BY = {"TensorScatterAdd": (0, 2), "Where": (1,)}
"""Operators whose results do not become float32 when kernels are made, and the operands that give them their type."""

WITHOUT_FLOAT16 = frozenset(_TYPED_BY)
"""Operators for which the runtimes do not widen constants: such a file is not loaded, or ends the process (Where)."""

_MOVES = frozenset({"BroadcastTo", "Reshape", "Squeeze", "Transpose"})
"""Operators through which such a constant stays float16."""


def write(quantized: QuantizedModel, *, options: MsOptions | None = None, notes: list[str] | None = None) -> bytes:
    """Bytes of the file.

    Args:
        quantized: Float graph with static shapes and unique names, and its plan.
        options: The writer's options; the defaults are for device runtimes.
        notes: Receives a line for every node that is stored differently from the plan, with the reason.

    Raises:
        TargetError: Nodes cannot be expressed; all of them are named.
        FormatError: The file would be larger than 2 GiB.
    """
    return to_bytes(lower(quantized, options=options, notes=notes))


def lower(quantized: QuantizedModel, *, options: MsOptions | None = None, notes: list[str] | None = None) -> MsModel:
    """The file in memory; see :func:`write`.

    Raises:
        TargetError: Nodes cannot be expressed; all of them are named.
    """
    ctx = Lowering(quantized, options or MsOptions())
    problems = _lower_all(ctx)
    if problems:
        raise refusal(problems)
    if notes is not None:
        notes += dict.fromkeys(ctx.notes)
    return ctx.ms


def check(model: ir.Model, *, options: MsOptions | None = None) -> list[Problem]:
    """What a float conversion of this graph could not express; empty when it can be written.

    Shapes must be static and inferred; values without a fixed shape are among the problems.
    """
    ctx = Lowering(QuantizedModel(model, QuantPlan("float")), options or MsOptions())
    return _lower_all(ctx)


def refusal(problems: list[Problem]) -> TargetError:
    """One error that names every problem."""
    lines = [f"  {problem}" for problem in problems[:20]]
    if len(problems) > 20:
        lines.append(f"  and {len(problems) - 20} more")
    has_branches = any(" (If)" in line for line in lines)
    hint = "use --saveType=ONNX, or change these nodes" + (f"; {HINT}" if has_branches else "")
    return TargetError("a .ms file cannot express:\n" + "\n".join(lines), hint=hint)


def _lower_all(ctx: Lowering) -> list[Problem]:
    """Lower inputs, nodes and outputs; a node that fails affects only the nodes behind it."""
    graph = ctx.quantized.model.graph
    problems: list[Problem] = []
    spoiled: set[ir.Value] = set()
    for value in graph.inputs:
        try:
            _input(ctx, value)
        except Unsupported as reason:
            problems.append(Problem(value.name or "", "input", str(reason)))
            spoiled.add(value)
    for node in graph:
        if node in ctx.done:
            continue
        if any(value in spoiled for value in node.inputs):
            spoiled.update(node.outputs)
            continue
        try:
            ctx.run(_lowering(node), node)
        except Unsupported as reason:
            problems.append(Problem(node.name or "", node.op_type, str(reason)))
            spoiled.update(node.outputs)
        except MISFITS as error:
            problems.append(Problem(node.name or "", node.op_type, f"it does not fit its operator ({error})"))
            spoiled.update(node.outputs)
    if not problems:
        problems += _outputs(ctx, graph)
    return problems


def _lowering(node: ir.Node) -> Lower:
    if reason := refused_type(node):
        raise Unsupported(reason)
    for value in node.outputs:
        if 0 in (static_shape(value) or ()) and is_read(value):
            raise Unsupported(f"{value.name} holds no element")
    lowering = LOWERINGS.get(node.op_type) if not node.domain else None
    if lowering is None and node.op_type in _SIZED_BY_DATA:
        raise Unsupported("how many elements it gives depends on the data, and shapes have to be fixed here")
    if lowering is None:
        name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        raise Unsupported(f"the operator {name} is not known to the format")
    return lowering


def _input(ctx: Lowering, value: ir.Value) -> None:
    """4-D inputs become NHWC, as runtimes of the format expect, unless channels stand last already."""
    if is_constant(value):
        return
    shape = ctx.shape(value)
    if 0 in shape:
        raise Unsupported(f"its shape {list(shape)} holds no element")
    is_last = has_channels_last(value)
    nhwc = len(shape) == 4 and not ctx.options.nchw_inputs and not is_last
    perm = pm.NHWC if nhwc else pm.identity(len(shape))
    image = Format.NHWC if nhwc or len(shape) != 4 or is_last else Format.NCHW
    index = ctx.tensor(MsTensor(value.name or "", ctx.dtype(value), pm.permute(shape, perm), format=image))
    ctx.ms.inputs.append(index)
    ctx.bind(value, index, perm)


def has_channels_last(value: ir.Value) -> bool:
    """Whether an input is a picture whose channels come last already: its first layers tell, or else its shape."""
    shape = static_shape(value) or ()
    return len(shape) == 4 and known_layout(shape, channels_last(value)) is Layout.NHWC


def _outputs(ctx: Lowering, graph: ir.Graph) -> list[Problem]:
    problems = []
    for value in graph.outputs:
        try:
            ctx.ms.outputs.append(_output(ctx, value))
        except Unsupported as reason:
            problems.append(Problem(value.name or "", "output", str(reason)))
    if not problems and not _reads_inputs(ctx.ms):  # the x86 runtime would not end
        problems = [Problem(value.name or "", "output", "no input has a part in any output") for value in graph.outputs]
    _name_outputs(ctx, graph)
    _merge_constants(ctx.ms)
    ctx.notes += give_each_use_its_weight(ctx.ms)
    _prune(ctx.ms)
    if ctx.options.float16:
        _halve(ctx.ms)
    return problems


def _reads_inputs(ms: MsModel) -> bool:
    """Whether an output depends on an input."""
    reached = set(ms.inputs)
    for node in ms.nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return not reached.isdisjoint(ms.outputs)


def _output(ctx: Lowering, value: ir.Value) -> int:
    rank = len(ctx.shape(value))
    index = ctx.use(value, pm.NHWC if rank == 4 and ctx.options.nhwc_outputs else None)
    tensor = ctx.ms.tensors[index]
    if tensor.is_constant or index in ctx.ms.inputs or index in ctx.ms.outputs:
        if value.dtype in COPIED:
            raise Unsupported(f"there is no kernel that copies {value.dtype.name}")
        if not tensor.dims:
            raise Unsupported("the runtime does not end where it copies a single number")
        target = ctx.int_constant(tensor.dims, "shape")
        made = [(tensor.dims, tensor.dtype)]
        (index,) = ctx.emit_many("Reshape", [index, target], made, name=f"{value.name}_copy")
    return index


def _name_outputs(ctx: Lowering, graph: ir.Graph) -> None:
    """Give outputs the names of the ONNX outputs; an inner tensor with such a name is renamed."""
    names = {value.name for value in graph.outputs}
    for index, tensor in enumerate(ctx.ms.tensors):
        if tensor.name in names and index not in ctx.ms.inputs:
            tensor.name += "_inner"
    for value, index in zip(graph.outputs, ctx.ms.outputs, strict=False):
        ctx.ms.tensors[index].name = value.name or ""


def _merge_constants(ms: MsModel) -> None:
    """One tensor for equal constants."""
    first: dict[tuple[object, ...], int] = {}
    same: dict[int, int] = {}
    plain = [(i, t) for i, t in enumerate(ms.tensors) if t.data is not None and t.quant is None]
    kinds = Counter((t.dtype, t.dims) for _, t in plain)
    for index, tensor in plain:
        if tensor.data is None or kinds[tensor.dtype, tensor.dims] == 1:
            continue
        data = tensor.data.tobytes() if isinstance(tensor.data, np.ndarray) else tensor.data
        key = (tensor.dtype, tensor.dims, tensor.compression, hashlib.sha256(data).digest())
        same[index] = first.setdefault(key, index)
    for node in ms.nodes:
        node.inputs = [same.get(i, i) for i in node.inputs]


def _prune(ms: MsModel) -> None:
    """Drop nodes without effect and tensors without a user, and number what is left in order of use."""
    needed = set(ms.outputs)
    nodes = []
    for node in reversed(ms.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    ms.nodes = nodes[::-1]
    used = dict.fromkeys(ms.inputs)
    for node in ms.nodes:
        used.update(dict.fromkeys([*node.inputs, *node.outputs]))
    used.update(dict.fromkeys(ms.outputs))
    number = {old: new for new, old in enumerate(used)}
    ms.tensors = [ms.tensors[old] for old in used]
    ms.inputs, ms.outputs = [number[i] for i in ms.inputs], [number[i] for i in ms.outputs]
    for node in ms.nodes:
        node.inputs, node.outputs = [number[i] for i in node.inputs], [number[i] for i in node.outputs]


def _halve(ms: MsModel) -> None:
    """Float32 constants as float16; finite numbers beyond its range stay, and so does what would be nothing but zeros."""
    whole: set[int] = set()
    for node in reversed(ms.nodes):
        if node.op in WITHOUT_FLOAT16 or (node.op in _MOVES and not whole.isdisjoint(node.outputs)):
            whole.update(node.inputs)
    for index, tensor in enumerate(ms.tensors):
        if isinstance(tensor.data, np.ndarray) and tensor.dtype is DataType.FLOAT32 and index not in whole:
            with np.errstate(over="ignore"):
                half = tensor.data.astype(np.float16)
            if np.array_equal(np.isinf(half), np.isinf(tensor.data)) and np.any(half) == np.any(tensor.data):
                tensor.data, tensor.dtype = half, DataType.FLOAT16
    _cast_back(ms)


def _cast_back(ms: MsModel) -> None:
    """A Cast in front of operators that take float16 for the type of a result, and of what is computed from it.

    Results have the type of the first operand until kernels are made. Where looks at its condition and leaves it at that: two
    bytes for each element, and four are written. A sum at places is not loaded.
    """
    halves = {index for index, tensor in enumerate(ms.tensors) if tensor.dtype is DataType.FLOAT16}
    typed, ms.nodes = ms.nodes, []
    for node in typed:
        for place in _TYPED_BY.get(node.op, ()):
            if node.inputs[place] in halves:
                node.inputs[place] = _as_float(ms, node.inputs[place])
        ms.nodes.append(node)
        if node.op not in ("Cast", *_TYPED_BY) and node.inputs and node.inputs[0] in halves:
            halves.update(i for i in node.outputs if ms.tensors[i].dtype is DataType.FLOAT32)


def _as_float(ms: MsModel, index: int) -> int:
    """The tensor behind a Cast to float32."""
    source = ms.tensors[index]
    kind = np.array([DataType.FLOAT32], np.int32)
    ms.tensors += [
        replace(source, name=f"{source.name}_float", dtype=DataType.FLOAT32),
        MsTensor(f"{source.name}_dtype", DataType.INT32, (1,), kind),
    ]
    result = len(ms.tensors) - 2
    ms.nodes.append(MsNode(f"{source.name}_float", "Cast", [index, result + 1], [result]))
    return result
