"""A PIR program as its JSON file says: operations in running order, with numbers for values.

Source: what Paddle 3.0 to 3.3 write (docs/formats/paddle.md, PIR). Names of keys and dialects are one character long there; here
they are words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.paddle.pir.scanner import BYTE_ORDER_MARK, MalformedText, Scanner, text_of, weight
from converter_lite.formats.paddle.program import VarType

NEWEST = 4
"""Program version of Paddle 3.3; 0 is that of builds between releases."""

DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist"}

ELEMENT_TYPES = {
    "t_bool": VarType.BOOL,
    "t_i8": VarType.INT8,
    "t_ui8": VarType.UINT8,
    "t_i16": VarType.INT16,
    "t_i32": VarType.INT32,
    "t_i64": VarType.INT64,
    "t_f16": VarType.FP16,
    "t_f32": VarType.FP32,
    "t_f64": VarType.FP64,
}
"""Name of an element type -> the number that older files have for it."""

PARAMETER = "builtin.parameter"

_NOT_FINITE = {"INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
"""How numbers are written that JSON lacks; before 3.2 they are null."""

_OF_AN_ATTRIBUTE = {"#", "D", "VD"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Type of a value; ``dtype`` is the name in the file, -1 an open dimension."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def element(self) -> int:
        """The number that older files have for the element type; -1 if there is none."""
        return ELEMENT_TYPES.get(self.dtype, -1)


@dataclass(frozen=True, slots=True)
class Result:
    """A value that an operation makes: a tensor, or a list of tensors. ``number`` 0 is none."""

    number: int
    tensors: tuple[Tensor, ...]
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        kind: Dialect and name, ``pd_op.conv2d``.
        operands: Values by position; 0 where one is left out.
        results: Values by position.
        attributes: By name; lists are tuples, element types are names (``float32``).
        has_blocks: It holds operations of its own: control flow.
    """

    kind: str
    operands: tuple[int, ...] = ()
    results: tuple[Result, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    has_blocks: bool = False


def read_operations(data: bytes, *, where: str = "") -> list[Operation]:
    """The operations of a program file.

    Raises:
        ModelError: It is not a PIR program, is damaged, or newer than what is known.
    """
    try:
        version, operations = _document(data)
    except MISFITS as error:
        raise ModelError(f"this is not a Paddle program, or it is damaged: {error}", where=where) from None
    if version > NEWEST:
        raise ModelError(
            f"the program has version {version}; versions up to {NEWEST} (Paddle 3.3) are known",
            where=where,
            hint="save the model with an older Paddle, or export it to ONNX",
        )
    return operations


def _document(data: bytes) -> tuple[int, list[Operation]]:
    scanner = Scanner(data.removeprefix(BYTE_ORDER_MARK), _shortened)
    version, operations = None, None
    for key in scanner.members():
        if key == "base_code":
            version = _version(scanner.value())
        elif key == "program":
            operations = list(_program(scanner))
        else:
            scanner.value()
    scanner.end()
    if version is None or operations is None:
        raise MalformedText("it has no version, or no program")
    return version, operations


def _version(base: Any) -> int:
    if not isinstance(base, dict) or base.get("magic") != "pir" or type(base.get("version")) is not int:
        raise MalformedText("its first part does not name PIR and a version")
    return int(base["version"])


def _program(scanner: Scanner) -> Iterator[Operation]:
    """Operations of the only block of the only region."""
    for _ in _only(scanner, "regions"):
        for _ in _only(scanner, "blocks"):
            for key in scanner.members():
                if key != "ops":
                    scanner.value()
                    continue
                for _ in scanner.items():
                    operation = _operation(scanner.value())
                    scanner.keep(_weight(operation))
                    yield operation


def _only(scanner: Scanner, wanted: str) -> Iterator[None]:
    """Once, where the only item of list ``wanted`` of the object begins that begins here."""
    for key in scanner.members():
        if key != wanted:
            scanner.value()
            continue
        for index, _ in enumerate(scanner.items()):
            if index:
                raise MalformedText(f"its main program has several {wanted}")
            yield


def _shortened(made: dict[str, Any]) -> Any:
    """What is kept of an object: of attributes their value, of types a :class:`Tensor`, a tuple of them, or a name."""
    tag = made.get("#")
    if not isinstance(tag, str) or not made.keys() <= _OF_AN_ATTRIBUTE:
        return made
    name = tag.partition(".")[2]
    if name == "t_dtensor":
        element, dims = made["D"][:2]
        if not isinstance(element, str) or not all(type(size) is int for size in dims):
            raise MalformedText("the type of a value makes no sense")
        return Tensor(element, tuple(dims))
    if name == "t_vec":
        return tuple(made["D"])
    if name.startswith("t_") or tag == "NULL":
        return name
    if name.startswith("a_"):
        return _NOT_FINITE.get(str(made["VD"])) if "VD" in made else made.get("D")
    return made


def _operation(made: Any) -> Operation:
    if not isinstance(made, dict) or not isinstance(made.get("#"), str):
        raise MalformedText("an operation has no name")
    name = text_of(made["#"])
    if name == "p":
        attributes = {"parameter_name": text_of(made["A"][3]), "persistable": bool(made.get("OA", [1])[0])}
        return Operation(PARAMETER, results=(_result(made["O"]),), attributes=attributes)
    dialect, dot, rest = name.partition(".")
    attributes = {text_of(item["N"]): _attribute(item["AT"]) for item in made.get("A", ())}
    return Operation(
        DIALECTS.get(dialect, dialect) + dot + rest,
        tuple(_number(item) for item in made.get("I", ())),
        tuple(_result(item) for item in made.get("O", ())),
        attributes,
        has_blocks=bool(made.get("regions")),
    )


def _number(value: Any) -> int:
    number = value["%"]
    if type(number) is not int:
        raise MalformedText("the number of a value is none")
    return number


def _result(value: Any) -> Result:
    kind = value["TT"]
    if isinstance(kind, tuple):
        tensors = tuple(item if isinstance(item, Tensor) else Tensor(str(item), ()) for item in kind)
        return Result(_number(value), tensors, is_list=True)
    return Result(_number(value), (kind if isinstance(kind, Tensor) else Tensor(str(kind), ()),))


def _attribute(value: Any) -> Any:
    if isinstance(value, dict):
        raise MalformedText("the value of an attribute makes no sense")
    if isinstance(value, list):
        return tuple(_attribute(item) for item in value)
    return text_of(value) if isinstance(value, str) else value


def _weight(operation: Operation) -> int:
    tensors = sum(len(result.tensors) for result in operation.results)
    return 200 + 40 * len(operation.operands) + 200 * tensors + weight(operation.attributes)
