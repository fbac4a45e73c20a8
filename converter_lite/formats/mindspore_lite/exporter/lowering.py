"""The state of a conversion from an ONNX graph to a ``.ms`` graph.

Every ONNX value may exist in several forms: in different axis orders, and as integers or floats. A consumer asks for the form
that it needs; if that is missing, a Transpose or a QuantDTypeCast makes it, once. An ONNX Transpose adds no node: its result is
the same value in another order. A purely convolutional network thus gets no Transpose at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsQuant
from converter_lite.formats.mindspore_lite.enums import DataType
from converter_lite.formats.mindspore_lite.exporter.building import Builder, Unsupported, digits
from converter_lite.formats.mindspore_lite.exporter.clamps import inner_activation
from converter_lite.formats.mindspore_lite.narrowing import NARROWED
from converter_lite.formats.mindspore_lite.options import MsOptions
from converter_lite.formats.permutation import Perm
from converter_lite.graph import clamp_bounds, constant, is_constant, label, single_consumer, static_shape
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.clamps import saturation_clamps
from converter_lite.quantization.plan import NodeMode, QuantizedModel


class Form(NamedTuple):
    """One way in which a value is stored."""

    perm: Perm
    integer: bool = False


class Lowering(Builder):
    """Makes a ``.ms`` graph of a quantized ONNX model, one node after the other.

    Args:
        quantized: Graph with static shapes and unique names, and its plan.
        options: The writer's options.
    """

    def __init__(self, quantized: QuantizedModel, options: MsOptions) -> None:
        super().__init__(quantized.model.graph.name or "")
        self.quantized = quantized
        self.options = options
        self.plan = quantized.plan
        self.done: set[ir.Node] = set()
        self._forms: dict[ir.Value, dict[Form, int]] = {}
        self._aliases: dict[ir.Value, tuple[ir.Value, Perm]] = {}
        self._lent: dict[ir.Value, QuantParams] = {}
        self.shared_weights: dict[tuple[Any, ...], int] = {}

    # Questions about values

    def shape(self, value: ir.Value | None) -> tuple[int, ...]:
        """Static shape of a value.

        Raises:
            Unsupported: A dimension is not known.
        """
        shape = static_shape(value)
        if shape is None:
            name = value.name if value is not None else "an input"
            raise Unsupported(f"the shape of {name} is not fixed ({value.shape if value else 'absent'})")
        return tuple(int(d) for d in shape)

    def dtype(self, value: ir.Value) -> DataType:
        """Element type that the value has in the file."""
        kind = value.dtype
        if kind is None or kind not in NARROWED:
            raise Unsupported(f"{value.name} has the type {kind.name if kind else 'unknown'}")
        return NARROWED[kind]

    def array(self, value: ir.Value | None, what: str) -> NDArray[Any]:
        """A constant input.

        Raises:
            Unsupported: It is computed at run time.
        """
        array = constant(value)
        if array is None:
            raise Unsupported(f"{what} is not constant")
        return array

    def ints(self, value: ir.Value | None, what: str) -> list[int]:
        """A constant input as a list of integers."""
        return [int(i) for i in self.array(value, what).reshape(-1)]

    def mode(self, node: ir.Node) -> NodeMode:
        """What the plan says about a node."""
        return self.plan.mode(node)

    def forms(self, value: ir.Value) -> list[Form]:
        """Forms that exist already."""
        if value in self._aliases:
            source, perm = self._aliases[value]
            return [Form(pm.between(perm, f.perm), f.integer) for f in self.forms(source)]
        return list(self._forms.get(value, ()))

    def best_perm(self, values: Sequence[ir.Value], rank: int) -> Perm:
        """The axis order in which an operator that accepts any costs the fewest Transposes."""
        variables = [v for v in values if not is_constant(v)]
        plain = pm.identity(rank)
        if any(len(self.shape(v)) not in (0, rank) for v in variables):
            return plain
        known = [(v, {f.perm for f in self.forms(v)}) for v in variables if len(self.shape(v)) == rank]
        candidates = dict.fromkeys(p for _, perms in known for p in sorted(perms))

        def cost(perm: Perm) -> tuple[int, bool]:
            return sum(int(np.prod(self.shape(v))) for v, perms in known if perm not in perms), perm != plain

        return min(candidates, key=cost, default=plain)

    # Forms of values

    def bind(self, value: ir.Value, index: int, perm: Perm | None = None, *, integer: bool = False) -> None:
        """Register a tensor as a form of an ONNX value."""
        rank = len(self.shape(value))
        self._forms.setdefault(value, {})[Form(perm or pm.identity(rank), integer)] = index
        tensor = self.ms.tensors[index]
        if not tensor.is_constant:
            tensor.name = value.name or tensor.name
            tensor.dims = pm.permute(self.shape(value), perm or pm.identity(rank))

    def alias(self, value: ir.Value, source: ir.Value, perm: Perm) -> None:
        """Register ``value`` as ``transpose(source, perm)``, without adding a node."""
        self._aliases[value] = (source, perm)

    # Using values

    def use(self, value: ir.Value | None, perm: Perm | None = None, *, integer: bool = False) -> int:
        """Number of the tensor that holds a value in the wanted form; made if it does not exist yet."""
        if value is None:
            raise Unsupported("a needed input is absent")
        if value in self._aliases:
            source, moved = self._aliases[value]
            params = self._params(value)
            if integer and params is not None:
                self._lent.setdefault(source, params)
            return self.use(source, pm.compose(moved, perm or pm.identity(len(moved))), integer=integer)
        if is_constant(value) and not integer:
            return self._constant_form(value, perm)
        form = Form(perm or pm.identity(len(self.shape(value))), integer)
        forms = self._forms.get(value)
        if forms is None and is_constant(value):  # behind a Transpose that was not folded
            forms = self._forms[value] = {Form(pm.identity(len(self.shape(value)))): self._constant_form(value, None)}
        if forms is None:
            raise Unsupported(f"its input {value.name} could not be made")
        if form not in forms:
            forms[form] = self._make(value, form, forms)
        return forms[form]

    def operand(self, value: ir.Value | None, rank: int, perm: Perm) -> int:
        """An operand of a broadcasting operator in the order ``perm``; constants get leading axes of size 1."""
        if value is None:
            raise Unsupported("a needed input is absent")
        own = len(self.shape(value))
        if not is_constant(value):
            return self.use(value, perm if own == rank else None)
        key = (value, "operand", rank, perm)
        if key not in self._constants:
            array = np.asarray(constant(value))
            if array.size > 1:
                array = array.reshape((1,) * (rank - own) + array.shape).transpose(perm)
            else:
                array = array.reshape((1,) if rank else ())
            self._constants[key] = self.add_constant(array, value.name or "constant")
        return self._constants[key]

    def _constant_form(self, value: ir.Value, perm: Perm | None) -> int:
        array = np.asarray(constant(value))
        order = perm or pm.identity(array.ndim)
        return self.cached((value, order), lambda: self.add_constant(array.transpose(order), value.name or "constant"))

    def _make(self, value: ir.Value, form: Form, forms: dict[Form, int]) -> int:
        """Cast first where the order exists; otherwise move in the type that exists, then cast."""
        other = Form(form.perm, not form.integer)
        if other in forms:
            return self._cast(value, forms[other], to_integer=form.integer)
        source = min(forms, key=lambda f: (f.integer != form.integer, f.perm != pm.identity(len(f.perm))))
        moved = Form(form.perm, source.integer)
        forms[moved] = self._transpose(value, forms[source], pm.between(source.perm, form.perm))
        return forms[moved] if moved == form else self._cast(value, forms[moved], to_integer=form.integer)

    def _transpose(self, value: ir.Value, source: int, perm: Perm) -> int:
        index = self.transpose(source, perm, name=f"{value.name}_transpose_{digits(perm)}")
        self.ms.tensors[index].name = f"{value.name}_{digits(perm)}"
        return index

    def _cast(self, value: ir.Value, source: int, *, to_integer: bool) -> int:
        before = self.ms.tensors[source]
        quant = self.activation_quant(value)
        before.quant = before.quant or quant
        kinds = (DataType.FLOAT32, DataType.INT8)
        src, dst = kinds if to_integer else kinds[::-1]
        suffix = "quantize" if to_integer else "dequantize"
        (index,) = self.emit_many(
            "QuantDTypeCast",
            [source],
            [(before.dims, dst)],
            name=f"{value.name}_{suffix}",
            quants=[quant],
            src_t=int(src),
            dst_t=int(dst),
        )
        self.ms.tensors[index].name = f"{value.name}_{suffix}d"
        return index

    def activation_quant(self, value: ir.Value) -> MsQuant:
        """Parameters of an int8 activation.

        Raises:
            Unsupported: The plan has none, or they are not per-tensor int8.
        """
        params = self._params(value)
        if params is None:
            raise Unsupported(f"{value.name} has no quantization parameters")
        if params.is_per_channel or params.spec.bits != 8:
            raise Unsupported(f"{value.name} must be 8 bits with one scale")
        shift = 0 if params.spec.signed else 128
        return MsQuant.of(params.scale, int(params.zero_point) - shift, 8)

    def has_params(self, value: ir.Value) -> bool:
        """Whether the plan quantizes this activation."""
        return self._params(value) is not None

    def _params(self, value: ir.Value) -> QuantParams | None:
        """Parameters of a value, or of one that is the same up to the order of its axes."""
        while value in self._aliases and value.name not in self.plan.activations and value not in self._lent:
            value = self._aliases[value][0]
        return self.plan.activations.get(value.name or "") or self._lent.get(value)

    def computes_integers(self, node: ir.Node, inputs: Sequence[ir.Value], output: ir.Value) -> bool:
        """Whether a node computes in int8: the plan says so, and its activations have parameters.

        The result may also be that of an activation that the node computes.
        """
        if self.mode(node) is not NodeMode.INTEGER:
            return False
        consumer = single_consumer(output)
        outputs = [output] + (list(consumer.outputs) if consumer is not None else [])
        if all(self.has_params(v) for v in inputs) and any(self.has_params(v) for v in outputs):
            return True
        self.notes.append(f"{label(node)}: computed with floats, an input or output has no quantization parameters")
        return False

    def bind_same_grid(self, value: ir.Value, index: int, perm: Perm, source: ir.Value) -> None:
        """Bind an int8 result that has the parameters of ``source``; other parameters of the plan are cast to.

        A result that the plan leaves inside a node, in front of its Relu, keeps them.
        """
        params = self._params(source)
        if params is not None and not self.has_params(value):
            self._lent[value] = params
        wanted, given = self.activation_quant(value), self.activation_quant(source)
        if wanted.scale[0] == given.scale[0] and wanted.zero_point[0] == given.zero_point[0]:
            self.bind(value, index, perm, integer=True)
            return
        dims = self.ms.tensors[index].dims
        kinds: dict[str, Any] = {"src_t": int(DataType.INT8), "dst_t": int(DataType.FLOAT32)}
        self.bind(value, self.emit("QuantDTypeCast", [index], dims, dtype=DataType.FLOAT32, quant=given, **kinds), perm)

    def fused_activation(self, value: ir.Value, *, integer: bool) -> tuple[int, ir.Value]:
        """The activation that the producer can compute itself, and the value that it then produces.

        Integers saturate at most bounds; other Clips behind an integer node read its integers on the grid of their output.
        """
        consumer = single_consumer(value)
        if consumer is None or consumer in self.done:
            return 0, value
        params = self._params(consumer.outputs[0])
        kind = inner_activation(consumer, params)
        if integer and params is None:
            return 0, value
        if not kind and not (integer and saturation_clamps(consumer, params)):
            if integer and params is not None and clamp_bounds(consumer) is not None:
                self._lent.setdefault(value, params)
            return 0, value
        self.done.add(consumer)
        return int(kind), consumer.outputs[0]

    def saturated(self, value: ir.Value) -> ir.Value:
        """What an integer node gives whose kernel saturates, but has no activation: ``value``, or what a clamp makes of it."""
        consumer = single_consumer(value)
        params = None if consumer is None or self.has_params(value) else self._params(consumer.outputs[0])
        if consumer is None or params is None:
            return value
        if not saturation_clamps(consumer, params):
            self._lent[value] = params
            return value
        self.done.add(consumer)
        return consumer.outputs[0]

    def run(self, lower: Callable[[Lowering, ir.Node], None], node: ir.Node) -> None:
        """Lower one node; nodes that it emits carry its name."""
        self._current = node
        try:
            lower(self, node)
        finally:
            self._current = None
