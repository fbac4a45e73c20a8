"""Picking, ordering, reducing, and recurrent networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer
from converter_lite.formats.paddle.importer.elementwise import output
from converter_lite.formats.paddle.program import Operator, numpy_type

REDUCTIONS = {
    "reduce_mean": "ReduceMean",
    "reduce_sum": "ReduceSum",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
}
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
"""Order of ONNX' gates as positions in Paddle's order: i, o, f, c from i, f, c, o; z, r, h from r, z, n."""


def _reduce(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    keep = int(op.get("keep_dim", False))
    axes = [] if op.get("reduce_all", False) else [int(axis) for axis in op.get("dim", ())]
    if not axes and not keep:  # the runtime has no tensors without dimensions
        everything = importer.compute(REDUCTIONS[op.type], value, keepdims=1)
        importer.finish(output(op), "Reshape", everything, importer.add_constant("shape", [1]))
        return
    inputs = [value, importer.add_constant("axes", axes)] if axes else [value]
    importer.finish(output(op), REDUCTIONS[op.type], *inputs, keepdims=keep)


def _gather(importer: Importer, op: Operator) -> None:
    if op.inputs.get("Axis"):
        raise ModelError("gather whose axis is computed at run time")
    index = importer.value(op.input("Index"))
    if importer.rank(index) == 2:
        index = importer.compute("Squeeze", index, importer.add_constant("axes", [1]))
    importer.finish(output(op), "Gather", importer.value(op.input("X")), index, axis=int(op.get("axis", 0)))


def _lookup(importer: Importer, op: Operator) -> None:
    table, index = importer.weight(op, "W", 1), importer.value(op.input("Ids"))
    if op.type == "lookup_table":
        index = importer.compute("Squeeze", index, importer.add_constant("axes", [-1]))
    value = importer.node("Gather", [table, index], {"axis": 0}, names=[output(op)])[0]
    importer.bind(output(op), value)
    importer.mark(op, "Ids", table, index, value, out="Out")


def _gather_nd(importer: Importer, op: Operator) -> None:
    index = importer.compute("Cast", importer.value(op.input("Index")), to=int(ir.DataType.INT64))
    importer.finish(output(op), "GatherND", importer.value(op.input("X")), index)


def _one_hot(importer: Importer, op: Operator) -> None:
    dtype = numpy_type(int(op.get("dtype", 5))).type
    levels = importer.add_constant("levels", [0, 1], dtype)
    depth = importer.add_constant("depth", int(op.get("depth", 1)))
    importer.finish(output(op), "OneHot", importer.value(op.input("X")), depth, levels, axis=-1)


def _top_k(importer: Importer, op: Operator) -> None:
    count = importer.add_constant("k", [int(op.get("k", 1))])
    attributes = {"axis": int(op.get("axis", -1)), "largest": int(op.get("largest", True))}
    names = [output(op), output(op, "Indices")]
    values = importer.node("TopK", [importer.value(op.input("X")), count], attributes, names=names)
    for name, value in zip(names, values, strict=True):
        importer.bind(name, value)


def _arg_max(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    if op.get("flatten", False):
        raise ModelError("arg_max of the flattened tensor")
    attributes: dict[str, Any] = {"axis": int(op.get("axis", -1)), "keepdims": int(op.get("keepdims", False))}
    kind = int(op.get("dtype", 3))
    if kind in (-1, 3):
        importer.finish(output(op), "ArgMax", value, **attributes)
        return
    found = importer.compute("ArgMax", value, **attributes)
    importer.finish(output(op), "Cast", found, to=int(ir.DataType.from_numpy(numpy_type(kind))))


def _cumsum(importer: Importer, op: Operator) -> None:
    axis = importer.add_constant("axis", int(op.get("axis", -1)))
    attributes = {key: int(op.get(key, False)) for key in ("exclusive", "reverse")}
    importer.finish(output(op), "CumSum", importer.value(op.input("X")), axis, **attributes)


def _rnn(importer: Importer, op: Operator) -> None:
    kind, hidden = str(op.get("mode", "LSTM")), int(op.get("hidden_size", 0))
    directions, layers = 2 if op.get("is_bidirec") else 1, int(op.get("num_layers", 1))
    if kind not in GATES or layers != 1:
        raise ModelError(f"a recurrent network of {layers} layers of kind {kind}")
    weights = [_weight(importer, name, GATES[kind]) for name in op.inputs.get("WeightList", ())]
    if len(weights) != 4 * directions:
        raise ModelError(f"it has {len(weights)} weights, not {4 * directions}")
    inner, recurrent = (np.stack(weights[first : 2 * directions : 2]) for first in (0, 1))
    biases = weights[2 * directions :]
    bias = np.stack([np.concatenate(biases[2 * d : 2 * d + 2]) for d in range(directions)])
    constants = [
        importer.initializer(f"{kind}.{label}", a) for label, a in (("W", inner), ("R", recurrent), ("B", bias))
    ]
    states = [importer.value(name) for name in op.inputs.get("PreState", ())]
    attributes: dict[str, Any] = {"hidden_size": hidden}
    attributes["direction"] = "bidirectional" if directions == 2 else "forward"
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    inputs = [importer.value(op.input("Input")), *constants, None, *states]
    names = ["sequence", *op.outputs.get("State", ())]
    results = importer.node(kind, inputs, attributes, names=names)
    for name, value in zip(names[1:], results[1:], strict=True):
        importer.bind(name, value)
    joined = importer.compute("Transpose", results[0], perm=[0, 2, 1, 3])
    importer.finish(output(op), "Reshape", joined, importer.add_constant("shape", [0, 0, -1]))


def _weight(importer: Importer, name: str, gates: tuple[int, ...]) -> NDArray[np.float32]:
    array = importer.array(name)
    if array is None or array.shape[0] % len(gates):
        raise ModelError(f"its weight {name} is not a constant with {len(gates)} gates")
    parts = np.split(array.astype(np.float32), len(gates))
    return np.concatenate([parts[gate] for gate in gates])


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    "gather": _gather,
    **dict.fromkeys(("lookup_table", "lookup_table_v2"), _lookup),
    "gather_nd": _gather_nd,
    "one_hot_v2": _one_hot,
    "top_k_v2": _top_k,
    "arg_max": _arg_max,
    "cumsum": _cumsum,
    "rnn": _rnn,
}
