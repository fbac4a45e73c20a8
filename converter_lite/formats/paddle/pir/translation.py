"""A PIR program as the program that older files hold: one operator for each operation, by the table in ``rules``.

Values have numbers there and names here. Parameters, inputs and outputs keep their names; other values are called after their
operation and number. Constants that are operands there are attributes here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.paddle.pir.document import PARAMETER, Operation, Result, Tensor, read_operations
from converter_lite.formats.paddle.pir.rules import Rule, rule_of
from converter_lite.formats.paddle.program import (
    FIRST_SCALARS,
    Attribute,
    AttrType,
    Block,
    Operator,
    Program,
    Variable,
    VarType,
)

VERSION = max(3_000_000, FIRST_SCALARS)
"""What the program says about the framework: PIR files name only their own version."""

MOST_REPEATED = 64
"""Elements of a constant of one number that can still be a list of sizes or axes."""

ELEMENT_NAMES = {
    "bool": VarType.BOOL,
    "uint8": VarType.UINT8,
    "int8": VarType.INT8,
    "int16": VarType.INT16,
    "int32": VarType.INT32,
    "int64": VarType.INT64,
    "float16": VarType.FP16,
    "float32": VarType.FP32,
    "float64": VarType.FP64,
}
"""Element types as attributes name them; all others are -1, as an element type that is left open."""

TYPED = ("dtype", "out_dtype")
"""Attributes that name an element type."""

IGNORED = ("place", "struct_name", "op_callstack", "stop_gradient", "persistable")
"""Attributes about devices and training."""

NOT_KEPT = "__non_persistable"
"""End of the names of parameters that have no value in a file."""

INPUTS = ("pd_op.data", "pd_op.feed")
OUTPUTS = {"pd_op.fetch": "name", "builtin.shadow_output": "output_name"}
"""Operation that makes a value an output -> its attribute with the name."""

KINDS: dict[type, tuple[AttrType, AttrType]] = {
    bool: (AttrType.BOOLEAN, AttrType.BOOLEANS),
    float: (AttrType.FLOAT64, AttrType.FLOAT64S),
    str: (AttrType.STRING, AttrType.STRINGS),
}
"""Type of a value -> attribute with one, attribute with several; integers are LONG."""

Constant = bool | int | float | tuple[Any, ...]


def read_pir(data: bytes, *, where: str = "") -> Program:
    """The program in a JSON file of Paddle 3.

    Raises:
        ModelError: It is not a PIR program, is damaged, has no inputs or outputs, or is newer than what is known.
    """
    operations = read_operations(data, where=where)
    translation = _Translation()
    translation.reserve(operations, where)
    for index, operation in enumerate(operations):
        place = f"{where} operation {index} ({operation.kind})".strip()
        try:
            translation.add(operation)
        except ModelError as error:
            raise ModelError(error.message, where=place, hint=error.hint) from None
        except MISFITS as error:
            raise ModelError(f"the Paddle program is damaged: {error}", where=place) from None
    return Program([Block(variables=translation.variables, operators=translation.operators)], VERSION)


@dataclass(slots=True)
class _Translation:
    """What is known of the values so far.

    Attributes:
        variables: All that the program declares.
        operators: The program.
        names: Value -> its variable.
        members: List of values -> those in it.
        constants: Value -> what it always is.
        pending: Constant -> the operator that makes it, as long as no other operator reads it.
        outputs: Value, or list and place in it -> the name of the output that it is.
        taken: Names that are in use.
    """

    variables: list[Variable] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    members: dict[int, tuple[int | str, ...]] = field(default_factory=dict)
    constants: dict[int, Constant] = field(default_factory=dict)
    pending: dict[int, Operator] = field(default_factory=dict)
    outputs: dict[int | tuple[int, int], str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def reserve(self, operations: Sequence[Operation], where: str) -> None:
        """Keep the names that the file gives: of inputs and parameters, then of outputs.

        Raises:
            ModelError: Two inputs or parameters have the same name, or there is no input or output.
        """
        try:
            for name in _given_names(operations):
                if name in self.taken:
                    raise ModelError(f"two inputs or parameters are called {name}", where=where)
                self.taken.add(name)
            for op in operations:
                if op.kind in OUTPUTS and op.operands[0] not in self.outputs:
                    self.outputs[op.operands[0]] = self.fresh(str(op.attributes[OUTPUTS[op.kind]]))
            for op in operations:
                if op.kind == "builtin.split":
                    places = enumerate(op.results)
                    named = {place: self.outputs[r.number] for place, r in places if r.number in self.outputs}
                    self.outputs.update({(op.operands[0], place): name for place, name in named.items()})
        except MISFITS as error:
            raise ModelError(f"the Paddle program is damaged: {error}", where=where) from None
        missing = [] if any(op.kind in INPUTS for op in operations) else ["no input"]
        missing += [] if self.outputs else ["no output"]
        if missing:
            raise ModelError(
                f"the program has {' and '.join(missing)}; it is not an inference model",
                where=where,
                hint="save it with paddle.jit.save or paddle.static.save_inference_model",
            )

    def add(self, operation: Operation) -> None:
        """One operation.

        Raises:
            ModelError: It reads what nothing has made, or computes at run time what has to be known.
        """
        special = SPECIAL.get(operation.kind)
        if special is not None:
            special(self, operation)
            return
        dialect, _, name = operation.kind.partition(".")
        rule = rule_of(name) if dialect == "pd_op" and not operation.has_blocks else None
        if rule is None:
            self._unknown(operation)
        else:
            self._translate(operation, rule)

    # Names.

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        name, count = hint, 1
        while name in self.taken:
            name, count = f"{hint}.{count}", count + 1
        self.taken.add(name)
        return name

    def define(self, operation: Operation, result: Result) -> list[str]:
        """Names for what an operation makes: one for a tensor, several for a list, none for what it leaves out."""
        kind = operation.kind.partition(".")[2].removesuffix("_")
        if not result.is_list:
            if not result.number:
                return []
            name = self.outputs.get(result.number) or self.fresh(f"{kind}_{result.number}")
            self._declare(result.number, name, result.tensors[0])
            return [name]
        hint = f"{kind}_{result.number}"
        places = range(len(result.tensors))
        made = [self.outputs.get((result.number, place)) or self.fresh(f"{hint}.{place}") for place in places]
        self.members[result.number] = tuple(made)
        self.variables += [_variable(name, tensor) for name, tensor in zip(made, result.tensors, strict=True)]
        return made

    def variable(self, number: int | str) -> str:
        """The variable of a value; a constant becomes one when it is first read.

        Raises:
            ModelError: Nothing has made it.
        """
        if isinstance(number, str):
            return number
        if number in self.pending:
            self.operators.append(self.pending.pop(number))
        if number not in self.names:
            raise ModelError(f"it reads value {number}, which nothing before it makes")
        return self.names[number]

    def several(self, number: int) -> list[str]:
        """The variables of a list, or of one tensor."""
        return [self.variable(item) for item in self.members.get(number, (number,))]

    # Operations of the table, and others.

    def _translate(self, operation: Operation, rule: Rule) -> None:
        given = [number for number in operation.operands[len(rule.operands) :] if number]
        if given:
            raise ModelError(f"it has more than {len(rule.operands)} operands")
        operator = Operator(rule.kind, attributes=dict(_attributes(operation, rule)))
        for token, number in zip(rule.operands, operation.operands, strict=False):
            if number and token != "-":
                self._operand(operator, token, number)
        for slot, result in zip(rule.results, operation.results, strict=False):
            names = self.define(operation, result)
            if names and slot != "-":
                operator.outputs[slot.removesuffix("*")] = names
        self.operators.append(operator)

    def _operand(self, operator: Operator, token: str, number: int) -> None:
        if token[0] not in "@#":
            several = token.endswith("*")
            operator.inputs[token.removesuffix("*")] = self.several(number) if several else [self.variable(number)]
            return
        name, _, slot = token[1:].partition(":")
        constant = self.constants.get(number)
        if constant is not None:
            operator.attributes[name] = _attribute(_list(constant) if token[0] == "#" else _scalar(constant))
        elif slot:
            operator.inputs[slot] = self.several(number)
        else:
            raise ModelError(f"its {name} is computed at run time", hint="it has to be a constant of the model")

    def _unknown(self, operation: Operation) -> None:
        """An operator that no table has; whoever needs its meaning refuses it by its whole name."""
        inputs = [variable for number in operation.operands if number for variable in self.several(number)]
        outputs = [made for result in operation.results for made in self.define(operation, result)]
        self.operators.append(Operator(operation.kind, {"X": inputs}, {"Out": outputs}))

    def parameter(self, operation: Operation) -> None:
        """A variable whose value is in the other file, unless it is a state of training."""
        result, name = operation.results[0], str(operation.attributes["parameter_name"])
        kept = bool(operation.attributes.get("persistable", True)) and not name.endswith(NOT_KEPT)
        self._declare(result.number, name, result.tensors[0], persistable=kept)

    def input(self, operation: Operation) -> None:
        """An input; the order of operations is that of inputs unless they have a column."""
        result, name = operation.results[0], str(operation.attributes["name"])
        if result.tensors[0].element < 0:
            raise ModelError(f"the input {name} has element type {result.tensors[0].dtype}, which is not read")
        self._declare(result.number, name, result.tensors[0])
        column = _column(operation, sum(op.type == "feed" for op in self.operators))
        self.operators.append(Operator("feed", {"X": ["feed"]}, {"Out": [name]}, {"col": column}))

    def _declare(self, number: int, name: str, tensor: Tensor, *, persistable: bool = False) -> None:
        self.names[number] = name
        self.variables.append(_variable(name, tensor, persistable=persistable))

    def output(self, operation: Operation) -> None:
        """An output. A value that has another name already is copied."""
        number = operation.operands[0]
        name = self.variable(number)
        fetched = [op.input("X") for op in self.operators if op.type == "fetch"]
        wanted = self.outputs[number]
        if name != wanted or name in fetched:
            wanted = wanted if wanted not in fetched else self.fresh(str(operation.attributes[OUTPUTS[operation.kind]]))
            self.operators.append(Operator("assign", {"X": [name]}, {"Out": [wanted]}))
        column = _column(operation, len(fetched))
        self.operators.append(Operator("fetch", {"X": [wanted]}, {"Out": ["fetch"]}, {"col": column}))

    def combine(self, operation: Operation) -> None:
        """Several tensors as a list."""
        number = operation.results[0].number
        self.members[number] = operation.operands
        parts = [self.constants.get(item) for item in operation.operands]
        if all(isinstance(part, (bool, int, float)) for part in parts):
            self.constants[number] = tuple(parts)

    def split(self, operation: Operation) -> None:
        """A list as its tensors."""
        members = self.members[operation.operands[0]]
        for result, member in zip(operation.results, members, strict=True):
            self._same(result.number, member)

    def slice(self, operation: Operation) -> None:
        """One tensor of a list."""
        self._same(operation.results[0].number, self.members[operation.operands[0]][operation.attributes["index"]])

    def _same(self, number: int, member: int | str) -> None:
        self.names[number] = self.variable(member)
        if isinstance(member, int) and member in self.constants:
            self.constants[number] = self.constants[member]

    def full(self, operation: Operation) -> None:
        """A constant of one number."""
        kind, shape = _element(operation.attributes["dtype"]), _list(operation.attributes["shape"])
        value = _number(operation.attributes["value"], kind)
        elements = math.prod(int(size) for size in shape)
        if len(shape) <= 1 and 0 <= elements <= MOST_REPEATED:
            self.constants[operation.results[0].number] = value if elements == 1 else (value,) * elements
        values = {"shape": shape, "value": value, "dtype": kind}
        self._later(operation, "fill_constant", values)

    def full_int_array(self, operation: Operation) -> None:
        """A short list of integers."""
        values = tuple(int(value) for value in _list(operation.attributes["value"]))
        self.constants[operation.results[0].number] = values
        kind = _element(operation.attributes.get("dtype", "int64"))
        self._later(operation, "assign_value", {"shape": (len(values),), "values": values, "dtype": kind})

    def assign_value(self, operation: Operation) -> None:
        """A constant of any shape. What the operand held before is overwritten."""
        kind, shape = _element(operation.attributes["dtype"]), _list(operation.attributes["shape"])
        found = (v[-1] if isinstance(v, tuple) else v for v in _list(operation.attributes["values"]))
        values = tuple(_number(value, kind) for value in found)
        if len(shape) <= 1 and len(values) <= MOST_REPEATED:
            self.constants[operation.results[0].number] = values if shape else values[0]
        self._later(operation, "assign_value", {"shape": shape, "values": values, "dtype": kind})

    def _later(self, operation: Operation, kind: str, values: Mapping[str, Any]) -> None:
        outputs = {"Out": self.define(operation, operation.results[0])}
        attributes = {name: _attribute(value) for name, value in values.items()}
        self.pending[operation.results[0].number] = Operator(kind, {}, outputs, attributes)

    def nothing(self, operation: Operation) -> None:
        """What has no effect on outputs."""


def _variable(name: str, tensor: Tensor, *, persistable: bool = False) -> Variable:
    return Variable(name, VarType.LOD_TENSOR, tensor.element, tensor.dims, persistable)


def _given_names(operations: Iterable[Operation]) -> Iterator[str]:
    for operation in operations:
        if operation.kind == PARAMETER:
            yield str(operation.attributes["parameter_name"])
        elif operation.kind in INPUTS:
            yield str(operation.attributes["name"])


def _attributes(operation: Operation, rule: Rule) -> Iterator[tuple[str, Attribute]]:
    for name, value in rule.fixed.items():
        yield name, _attribute(value)
    for name, value in operation.attributes.items():
        renamed = rule.renamed.get(name, name)
        if name in IGNORED or not renamed:
            continue
        if value is None:
            hint = "older versions of Paddle 3 write infinity and NaN so; save the model with version 3.2 or newer"
            raise ModelError(f"its attribute {name} is a number that JSON lacks", hint=hint)
        yield renamed, _attribute(int(_element(value)) if name in TYPED and isinstance(value, str) else value)


def _column(operation: Operation, default: int) -> Attribute:
    column = operation.attributes.get("col", default)
    if type(column) is not int:
        raise ModelError("its column is no number")
    return _attribute(column)


def _element(name: Any) -> int:
    return ELEMENT_NAMES.get(str(name), -1)


def _number(value: Any, kind: int) -> bool | int | float:
    """A number as a tensor of this element type holds it."""
    if value is None:
        raise ModelError("its value is a number that JSON lacks", hint="save the model with Paddle 3.2 or newer")
    if kind == VarType.BOOL:
        return bool(value)
    return float(value) if kind in (VarType.FP16, VarType.FP32, VarType.FP64) else int(value)


def _list(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _scalar(value: Any) -> Any:
    if isinstance(value, tuple):
        (value,) = value
    return value


def _attribute(value: Any) -> Attribute:
    """An attribute with the widest type of its kind."""
    first = value[0] if isinstance(value, tuple) and value else value
    single, several = KINDS.get(type(first), (AttrType.LONG, AttrType.LONGS))
    return Attribute(several if isinstance(value, tuple) else single, value)


SPECIAL: dict[str, Callable[[_Translation, Operation], None]] = {
    PARAMETER: _Translation.parameter,
    **dict.fromkeys(INPUTS, _Translation.input),
    **dict.fromkeys(OUTPUTS, _Translation.output),
    "builtin.combine": _Translation.combine,
    "builtin.split": _Translation.split,
    "builtin.slice": _Translation.slice,
    "builtin.set_parameter": _Translation.nothing,
    "pd_op.assert": _Translation.nothing,
    "pd_op.full": _Translation.full,
    "pd_op.full_int_array": _Translation.full_int_array,
    **dict.fromkeys(("pd_op.assign_value", "pd_op.assign_value_"), _Translation.assign_value),
}
"""Operations that are no operators, or constants."""
