"""The plan: for each tensor use its quantization parameters, or the reason why it stays float.

A use is one input or output of a node. Parameters belong to tensors (all quantized uses of a tensor share them), decisions to
nodes: a use is quantized if its node is quantized and its tensor has parameters. Everything that decides writes a plan;
everything that writes files reads ``(graph, plan)``.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.config.names import TargetDevice
from converter_lite.errors import CalibrationError, ConfigError, did_you_mean
from converter_lite.graph import all_nodes, lazy_tensor
from converter_lite.kernels.blocks import scales_shape
from converter_lite.kernels.pairs import PairRule
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.system.files import open_regular


class NodeMode(enum.Enum):
    """How a node computes."""

    INTEGER = "integer"
    """Quantized activations (and weights): Q/DQ around the node."""
    WEIGHT = "weight"
    """Float computation, weights stored as integers."""
    DYNAMIC = "dynamic"
    """Integer weights, activations quantized at run time."""
    FLOAT = "float"


DEVICES = frozenset(device.value for device in TargetDevice) | {"FLOAT"}
"""Targets of plans that are made here, for ONNX files."""

LAZY_FROM = 1 << 22
"""Elements of a weight from which its integers are recomputed instead of kept."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Decision for one node.

    Attributes:
        op_type: Operator, for readers of the plan.
        mode: How it computes.
        reason: Why it is float; empty otherwise.
        float_inputs: Positions of data inputs that an integer node reads in float all the same.
        grid_inputs: Positions of inputs that a node without integers reads from a grid in the file that it came from; ``None``:
            those that integer nodes give.
        row_zero_point: Zero point (1..254, uint8) around which a dynamic node quantizes each row of its input with a scale
            of its own; ``None``: one scale for the tensor.
    """

    op_type: str
    mode: NodeMode
    reason: str = ""
    float_inputs: tuple[int, ...] = ()
    row_zero_point: int | None = None
    grid_inputs: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.row_zero_point is not None and not (self.mode is NodeMode.DYNAMIC and 1 <= self.row_zero_point <= 254):
            raise ValueError("only dynamic nodes have a row_zero_point, from 1 to 254")
        if (self.mode is NodeMode.FLOAT) != bool(self.reason):
            raise ValueError("a float node needs a reason, a quantized one has none")


@dataclass(slots=True)
class QuantPlan:
    """What is quantized for one target and output format.

    Attributes:
        target: Name of the device table that allowed it.
        nodes: node name -> decision; every node of the graph is in it.
        activations: tensor name -> parameters of its QuantizeLinear and DequantizeLinear.
        weights: initializer name -> parameters it is stored with.
        smoothing: tensor name -> smoothing factors (last axis, of convolutions axis 1): the tensor is divided by them before its
            products or convolutions read it, and their weights are multiplied by them. :func:`smoothed_name` names the quotient.
        apart: tensor name -> columns (last axis) whose products are computed in float and added; they are zero in the tensor
            that :func:`smoothed_name` names.
        ends: Inputs and outputs of the network that have a QuantizeLinear and DequantizeLinear although what reads or gives them
            may compute with floats: they are to be integers in the file.
    """

    target: str
    nodes: dict[str, NodePlan] = field(default_factory=dict)
    activations: dict[str, QuantParams] = field(default_factory=dict)
    weights: dict[str, QuantParams] = field(default_factory=dict)
    smoothing: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    apart: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ends: frozenset[str] = frozenset()

    def mode(self, node: ir.Node) -> NodeMode:
        """Mode of a node; nodes unknown to the plan are float."""
        decision = self.nodes.get(node.name or "")
        return decision.mode if decision else NodeMode.FLOAT

    def keep_float(self, node: ir.Node, reason: str) -> None:
        """Leave a node in float, with the reason that is printed."""
        self.nodes[node.name or ""] = NodePlan(node.op_type, NodeMode.FLOAT, reason)

    def quantize(self, node: ir.Node, mode: NodeMode, *, row_zero_point: int | None = None) -> None:
        """Mark a node as quantized."""
        self.nodes[node.name or ""] = NodePlan(node.op_type, mode, row_zero_point=row_zero_point)

    @property
    def came_with_the_model(self) -> bool:
        """Whether it was read with the model, and not made for a device."""
        return self.target not in DEVICES

    @property
    def cannot_saturate(self) -> bool:
        """Whether it was made for weights of which no pair can saturate a kernel."""
        return any(params.pair_rules for params in self.weights.values())

    @property
    def holds_integers(self) -> bool:
        """Whether any tensor is quantized: pairs may stand between nodes that compute with floats."""
        return bool(self.quantized_nodes or self.activations)

    @property
    def computes_with_integers(self) -> bool:
        """Whether any node has an integer kernel."""
        return any(decision.mode is NodeMode.INTEGER for decision in self.nodes.values())

    @property
    def quantized_nodes(self) -> list[str]:
        """Names of nodes that are not float, in plan order."""
        return [name for name, decision in self.nodes.items() if decision.mode is not NodeMode.FLOAT]

    def float_reasons(self) -> list[tuple[str, int]]:
        """Reasons for staying float with their node counts, most frequent first."""
        counts = Counter(d.reason for d in self.nodes.values() if d.mode is NodeMode.FLOAT)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def check(self, model: ir.Model) -> None:
        """Refuse a plan that was made for another graph.

        Raises:
            ConfigError: It names nodes or tensors that the graph does not have, or has too few or too many scales.
        """
        graph = model.graph
        nodes = {node.name for node in all_nodes(graph)}
        tensors = {value.name for value in graph.inputs} | {output.name for node in graph for output in node.outputs}
        problems = [
            f"no node is called {name!r}{did_you_mean(name, _names(nodes))}" for name in self.nodes if name not in nodes
        ]
        tensors |= {smoothed_name(name) for name in (*self.smoothing, *self.apart)}
        tensors |= {rest_name(output.name or "") for node in graph if self._has_apart(node) for output in node.outputs}
        for name in (*self.activations, *self.smoothing, *self.apart, *sorted(self.ends)):
            if name not in tensors:
                problems.append(f"no tensor is called {name!r}{did_you_mean(name, _names(tensors))}")
        for name, params in self.weights.items():
            value = graph.initializers.get(name)
            if value is None:
                problems.append(f"no constant is called {name!r}{did_you_mean(name, graph.initializers)}")
            elif (params.spec.axis is not None or params.pair_rules) and not _fits(value, params):
                columns = "" if params.input_scales is None else f" and {params.input_scales.size} input scales"
                problems.append(
                    f"{name}: {params.scale.size} scales{columns} do not fit the constant along axis {params.spec.axis}"
                    + (", or its pair_rules do not" if params.pair_rules else "")
                )
        if problems:
            raise ConfigError("the plan does not fit the model", problems=tuple(f"plan: {text}" for text in problems))

    def _has_apart(self, node: ir.Node) -> bool:
        return any(value is not None and value.name in self.apart for value in node.inputs)

    def to_json(self) -> dict[str, Any]:
        """Plain data that :meth:`from_json` reads back."""
        return {
            "target": self.target,
            "nodes": {name: _node_to_json(decision) for name, decision in self.nodes.items()},
            "activations": {name: _params_to_json(p) for name, p in self.activations.items()},
            "weights": {name: _params_to_json(p) for name, p in self.weights.items()},
            **(
                {"smoothing": {n: [float(str(v)) for v in f] for n, f in self.smoothing.items()}}
                if self.smoothing
                else {}
            ),
            **({"apart": {name: list(columns) for name, columns in self.apart.items()}} if self.apart else {}),
            **({"ends": sorted(self.ends)} if self.ends else {}),
        }

    @classmethod
    def from_json(cls, data: Any, *, where: str) -> QuantPlan:
        """Read a plan; ``where`` names the file in messages.

        Raises:
            ConfigError: A field is missing, unknown, or out of range; it is named.
        """
        try:
            unknown = set(data) - {"target", "nodes", "activations", "weights", "smoothing", "apart", "ends"}
            if unknown:
                raise ValueError(f"unknown fields {sorted(unknown)}")
            plan = cls(str(data["target"]))
            for name, d in data["nodes"].items():
                plan.nodes[name] = _node_from_json(name, d)
            plan.activations = {n: _params_from_json(n, p) for n, p in data["activations"].items()}
            plan.weights = {n: _params_from_json(n, p) for n, p in data["weights"].items()}
            plan.smoothing = {n: _smoothing_from_json(n, f) for n, f in data.get("smoothing", {}).items()}
            plan.apart = {n: _columns_from_json(n, c) for n, c in data.get("apart", {}).items()}
            plan.ends = _ends_from_json(data.get("ends", []))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, CalibrationError) as error:
            raise ConfigError(
                f"this is not a usable plan: {error}", where=where, hint="write one with --savePlan"
            ) from error
        return plan


Integers = NDArray[np.integer] | ir.TensorProtocol
"""Integers of a weight: an array, or a tensor that makes them when it is read."""

Part = Callable[[NDArray[np.int32]], NDArray[np.int32]]
"""Extracts a part of each integer of a weight."""


@dataclass(slots=True)
class QuantizedModel:
    """A float graph (with corrected biases), its plan, and integers that were not simply rounded to nearest.

    Attributes:
        model: Float graph; the plan's names are its node and tensor names.
        plan: What is quantized.
        q_weights: initializer name -> integers of any width, where a rounding search or a file chose them; others are
            rounded to nearest. :meth:`integers` gives either.
        reference: The float graph before bias correction, otherwise as ``model`` is (equalized, weights turned); ``None``: it is
            ``model``.
        sensitivity: node name -> share of the output's error that is due to it, where that was measured.
    """

    model: ir.Model
    plan: QuantPlan
    q_weights: dict[str, Integers] = field(default_factory=dict)
    reference: ir.Model | None = None
    sensitivity: dict[str, float] = field(default_factory=dict)

    def integers(self, name: str) -> NDArray[np.int32]:
        """Stored integers of a planned weight."""
        return self._integers_of(name)()

    def stored(self, name: str, dtype: ir.DataType, part: Part | None = None) -> ir.TensorProtocol:
        """The integers of a planned weight as a tensor, or the part of each integer that ``part`` extracts.

        Large weights that are rounded to nearest, and those that a file holds encoded, are computed whenever the tensor is read,
        so writing a file holds one of them in memory at a time.
        """
        weight, chosen = self.model.graph.initializers[name].const_value, self.q_weights.get(name)
        assert weight is not None
        integers = self._integers_of(name)

        def made() -> NDArray[np.generic]:
            found = integers()
            return (found if part is None else part(found)).astype(dtype.numpy())

        if isinstance(chosen, np.ndarray) or (chosen is None and weight.size < LAZY_FROM):
            return ir.Tensor(made(), dtype=dtype, name=name)
        return lazy_tensor(made, dtype, weight.shape.numpy(), name=name)

    def _integers_of(self, name: str) -> Callable[[], NDArray[np.int32]]:
        """How to get the integers of a weight, even after the graph has dropped it."""
        chosen = self.q_weights.get(name)
        if isinstance(chosen, np.ndarray):
            return partial(chosen.astype, np.int32, copy=False)
        if chosen is not None:
            return lambda: chosen.numpy().astype(np.int32)
        weight, params = self.model.graph.initializers[name].const_value, self.plan.weights[name]
        assert weight is not None
        return lambda: params.quantize(weight.numpy().astype(np.float32, copy=False))


def _names(names: set[str | None]) -> list[str]:
    return [name for name in names if name]


def _fits(value: ir.Value, params: QuantParams) -> bool:
    axis, block = params.spec.axis, params.spec.block
    shape = tuple(value.shape.numpy()) if value.shape is not None else ()
    if not all(rule.fits(shape) for rule in params.pair_rules):
        return False
    if axis is None:
        return True
    if block:
        return params.scale.shape == scales_shape(shape, axis, block)
    if not -len(shape) <= axis < len(shape) or shape[axis] != params.scale.size:
        return False
    if params.input_scales is None:
        return True
    return params.input_scales.shape == tuple(1 if i == axis % len(shape) else size for i, size in enumerate(shape))


def smoothed_name(tensor: str) -> str:
    """Name of a tensor divided by its smoothing factors."""
    return f"{tensor}_smoothed"


def rest_name(result: str) -> str:
    """Name of the result of a product whose large columns are added in float."""
    return f"{result}_rest"


def save_plans(plans: dict[str, QuantPlan]) -> str:
    """JSON text of one plan per output format."""
    return json.dumps({name: plan.to_json() for name, plan in plans.items()}, indent=1) + "\n"


def load_plans(path: Path, formats: Sequence[str]) -> dict[str, QuantPlan]:
    """Plans of a file that :func:`save_plans` made.

    Raises:
        ConfigError: The file cannot be read, is not a plan, or has none for one of ``formats``.
    """
    try:
        with open_regular(path) as file:
            data = json.loads(file.read())
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"the plan cannot be read: {reason}", where=str(path)) from error
    if not isinstance(data, dict):
        raise ConfigError("this is not a plan file", where=str(path), hint="write one with --savePlan")
    missing = [name for name in formats if name not in data]
    if missing:
        raise ConfigError(f"there is no plan for {', '.join(missing)}", where=str(path))
    return {name: QuantPlan.from_json(plan, where=f"{path}: {name}") for name, plan in data.items()}


def _node_to_json(decision: NodePlan) -> dict[str, Any]:
    extra: dict[str, Any] = {"reason": decision.reason} if decision.reason else {}
    if decision.float_inputs:
        extra["float_inputs"] = list(decision.float_inputs)
    if decision.row_zero_point is not None:
        extra["row_zero_point"] = decision.row_zero_point
    return {"op_type": decision.op_type, "mode": decision.mode.value, **extra}


def _node_from_json(name: str, data: dict[str, Any]) -> NodePlan:
    unknown = set(data) - {"op_type", "mode", "reason", "float_inputs", "row_zero_point"}
    if unknown:
        raise ValueError(f"{name}: unknown fields {sorted(unknown)}")
    float_inputs = tuple(int(i) for i in data.get("float_inputs", ()))
    row_zero_point = None if data.get("row_zero_point") is None else int(data["row_zero_point"])
    return NodePlan(
        str(data["op_type"]), NodeMode(data["mode"]), str(data.get("reason", "")), float_inputs, row_zero_point
    )


def _params_to_json(params: QuantParams) -> dict[str, Any]:
    spec = params.spec
    flags = {name: True for name in ("signed", "symmetric", "narrow_range") if getattr(spec, name)}
    axis = {} if spec.axis is None else {"axis": spec.axis}
    axis |= {"block": spec.block} if spec.block else {}
    scale = np.array([float(str(s)) for s in params.scale.reshape(-1)]).reshape(params.scale.shape).tolist()
    rules = [{"rows": list(r.rows), "summed": list(r.summed), "restart": r.restart} for r in params.pair_rules]
    known = {"bits": spec.bits, **flags, **axis, "scale": scale, "zero_point": params.zero_point.tolist()}
    known |= {"pair_rules": rules} if rules else {}
    if params.input_scales is None:
        return known
    shape, scales = list(params.input_scales.shape), [float(str(f)) for f in params.input_scales.reshape(-1)]
    return {**known, "input_scales": scales, "input_scales_shape": shape}


def _params_from_json(name: str, data: dict[str, Any]) -> QuantParams:
    grid = {"bits", "signed", "symmetric", "narrow_range", "axis", "block", "scale", "zero_point"}
    unknown = set(data) - grid - {"input_scales", "input_scales_shape", "pair_rules"}
    if unknown:
        raise ValueError(f"{name}: unknown fields {sorted(unknown)}")
    spec = QuantSpec(
        bits=int(data["bits"]),
        signed=bool(data.get("signed", False)),
        symmetric=bool(data.get("symmetric", False)),
        narrow_range=bool(data.get("narrow_range", False)),
        axis=None if data.get("axis") is None else int(data["axis"]),
        block=int(data.get("block", 0)),
    )
    scale = np.asarray(data["scale"], np.float32)
    zero_point = np.asarray(data["zero_point"], np.int64)
    if np.any(zero_point < spec.qmin) or np.any(zero_point > spec.qmax):
        raise ValueError(f"{name}: zero_point is outside {spec.qmin}..{spec.qmax}")
    input_scales = None
    if "input_scales" in data:
        input_scales = np.asarray(data["input_scales"], np.float32).reshape(data["input_scales_shape"])
    rules = tuple(_rule_from_json(name, rule) for rule in data.get("pair_rules", ()))
    return QuantParams(scale, zero_point.astype(np.int32), spec, input_scales, rules)


def _rule_from_json(name: str, data: dict[str, Any]) -> PairRule:
    unknown = set(data) - {"rows", "summed", "restart"}
    if unknown:
        raise ValueError(f"{name}: unknown fields of a rule {sorted(unknown)}")
    rule = PairRule(tuple(map(int, data["rows"])), tuple(map(int, data["summed"])), int(data["restart"]))
    if rule.restart < 0:
        raise ValueError(f"{name}: restart of a rule is negative")
    return rule


def _smoothing_from_json(name: str, data: Any) -> NDArray[np.float32]:
    factors = np.asarray(data, np.float32)
    if factors.ndim != 1 or not factors.size or not np.all(np.isfinite(factors) & (factors > 0)):
        raise ValueError(f"{name}: smoothing factors are positive numbers")
    return factors


def _ends_from_json(data: Any) -> frozenset[str]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise ValueError("ends are names of inputs and outputs")
    return frozenset(data)


def _columns_from_json(name: str, data: Any) -> tuple[int, ...]:
    columns = tuple(data)
    if not columns or not all(isinstance(c, int) and not isinstance(c, bool) and c >= 0 for c in columns):
        raise ValueError(f"{name}: columns apart are whole numbers from 0 on")
    return tuple(sorted(set(columns)))
