"""A program of older operators as a PIR program, the ``.json`` file of Paddle 3: :mod:`.translation`, backwards.

``dequantize_linear`` computes something else in such programs (Paddle 3.3.1). Integer weights are restored by a cast and
``fake_channel_wise_dequantize_max_abs``, and activations rounded by ``fake_quantize_dequantize_moving_average_abs_max``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from converter_lite.errors import FormatError
from converter_lite.formats.paddle.pir.document import ELEMENT_TYPES, NEWEST
from converter_lite.formats.paddle.pir.rules import RULES, Rule
from converter_lite.formats.paddle.pir.signatures import ATTRIBUTES, NONE, RESULTS
from converter_lite.formats.paddle.pir.translation import ELEMENT_NAMES
from converter_lite.formats.paddle.program import AttrType, Operator, Program, Variable, VarType, attr, ints

Json = dict[str, Any]

HALVES_AWAY_FROM_ZERO = 1

_ELEMENTS = {kind: f"0.{name}" for name, kind in ELEMENT_TYPES.items()}
_NAMES = {kind: name for name, kind in ELEMENT_NAMES.items()}
_OPEN_TYPE = "Undefined(ALL_DTYPE)"
_CPU = {"#": "1.a_place", "D": [1, 0, ""]}
_SCALARS = {"bool": bool, "i32": int, "i64": int, "f32": float, "f64": float, "str": str}
_CONSTANTS = {AttrType.FLOAT: VarType.FP32, AttrType.LONG: VarType.INT64}
_NO_TYPE = {"TT": {"#": NONE}}
_KEPT, _TRAINED = "persistable", "stop_gradient"

_BY_KIND: dict[str, list[str]] = {}
for _name in ATTRIBUTES:
    _BY_KIND.setdefault(RULES[_name].kind, []).append(_name)


def pir_bytes(program: Program) -> bytes:
    """A program file; its parameters are those of the older program.

    Raises:
        FormatError: An operator has no counterpart here.
    """
    writer = _Writer({variable.name: variable for variable in program.main.variables})
    for name in sorted(name for name, variable in writer.variables.items() if _is_parameter(variable)):
        writer.parameter(name)
    for operator in program.main.operators:
        writer.add(operator)
    region = {"#": "region_0", "blocks": [{"#": "block_0", "args": [], "ops": writer.operations}]}
    base = {"magic": "pir", "trainable": False, "version": NEWEST}
    return json.dumps({"base_code": base, "program": {"regions": [region]}}, separators=(",", ":")).encode()


def _is_parameter(variable: Variable) -> bool:
    return variable.persistable and variable.kind == VarType.LOD_TENSOR


@dataclass(slots=True)
class _Writer:
    """What is written so far.

    Attributes:
        variables: All that the program declares.
        numbers: Variable -> its value here.
        operations: As JSON.
        last: The last number that is taken.
    """

    variables: Mapping[str, Variable]
    numbers: dict[str, int] = field(default_factory=dict)
    operations: list[Json] = field(default_factory=list)
    last: int = 0

    def parameter(self, name: str) -> None:
        """A value of the other file."""
        result = self._result(_tensor(self.variables[name]))
        self.numbers[name] = result["%"]
        self.operations.append({"#": "p", "A": [0, 1, 0, name], "DA": [], "O": result, "OA": [1, 0, 1], "QA": []})

    def add(self, operator: Operator) -> None:
        """One operator.

        Raises:
            FormatError: It has no counterpart here.
        """
        if operator.type == "feed":
            name = operator.outputs["Out"][0]
            made = self._emit("1.feed", [], [_tensor(self.variables[name])], self._place(name, operator))
            self.numbers[name] = made[0]
        elif operator.type == "fetch":
            name = operator.inputs["X"][0]
            kind = _tensor(self.variables[name])
            self._emit("1.fetch", [self.numbers[name]], [kind], self._place(name, operator))
        elif operator.type == "fill_constant":
            sizes, dtype = [int(size) for size in operator.get("shape")], VarType(operator.get("dtype"))
            self.numbers[operator.outputs["Out"][0]] = self._filled(operator.get("value"), dtype, sizes)
        elif operator.type == "quantize_linear":
            self._round(operator)
        elif operator.type == "dequantize_linear" and not self._is_weight(operator.inputs["X"][0]):
            self.numbers[operator.outputs["Y"][0]] = self.numbers[operator.inputs["X"][0]]
        elif operator.type == "dequantize_linear":
            self._restore(operator)
        else:
            self._translate(operator)

    def _place(self, name: str, operator: Operator) -> list[Json]:
        return [_attribute("name", "str", name), _attribute("col", "i32", operator.get("col", 0))]

    def _is_weight(self, name: str) -> bool:
        variable = self.variables[name]
        return _is_parameter(variable) and variable.dtype == VarType.INT8

    def _round(self, operator: Operator) -> None:
        """Integers and their reals at once; the other way of rounding would have -128 among them."""
        attributes = {
            "moving_rate": attr(0.9),
            "bit_length": operator.attributes["bit_length"],
            "is_test": attr(True),
            "round_type": attr(HALVES_AWAY_FROM_ZERO),
        }
        inputs, outputs = (
            {"X": operator.inputs["X"], "InScale": operator.inputs["Scale"]},
            {"Out": operator.outputs["Y"]},
        )
        self._translate(Operator("fake_quantize_dequantize_moving_average_abs_max", inputs, outputs, attributes))

    def _restore(self, operator: Operator) -> None:
        """An integer weight as floats."""
        weight, result = self.variables[operator.inputs["X"][0]], operator.outputs["Y"][0]
        scale, real = operator.inputs["Scale"], Variable("", dtype=VarType.FP32, dims=weight.dims)
        number = self._emit("1.cast", [self.numbers[weight.name]], [_tensor(real)], [_typed("dtype", "float32")])[0]
        per_channel = self.variables[scale[0]].dims != (1,)
        kind = "fake_channel_wise_dequantize_max_abs" if per_channel else "fake_dequantize_max_abs"
        attributes = {
            "quant_bits": ints([operator.get("bit_length", 8)]),
            "quant_axis": attr(operator.get("quant_axis", 0) if per_channel else 0),
            "x_num_col_dims": attr(1),
            "max_range": attr(127.0),
        }
        slot = "Scales" if per_channel else "Scale"
        self.numbers[f"{weight.name}@real"] = number
        restored = Operator(kind, {"X": [f"{weight.name}@real"], slot: scale}, {"Out": [result]}, attributes)
        self._translate(restored)

    def _translate(self, operator: Operator) -> None:
        name = next((name for name in _BY_KIND.get(operator.type, ()) if _fits(RULES[name], operator)), None)
        if name is None:
            raise FormatError(f"{operator.type} has no counterpart in a PIR program")
        rule = RULES[name]
        operands = [self._operand(operator, token) for token in rule.operands]
        if name == "rnn":
            operands[-1] = self._filled(0.0, VarType.FP32, [])  # its state of dropout
        if operator.get("axis", -1) != -1 and operator.type.startswith("elementwise_"):
            operands[1] = self._widened(operator)
        slots = RESULTS.get(name, "").split() or list(rule.results)
        types = [self._type(operator, slot) for slot in slots]
        made = self._emit(f"1.{name}", operands, types, list(_attributes(name, rule, operator)))
        for slot, number in zip(slots, made, strict=True):
            names = operator.outputs.get(slot.removesuffix("*"), [])
            if slot.endswith("*"):
                for place, each in enumerate(names):
                    kind = _tensor(self.variables[each])
                    (self.numbers[each],) = self._emit("0.slice", [number], [kind], [_attribute("index", "i32", place)])
            elif names:
                self.numbers.setdefault(names[0], number)

    def _type(self, operator: Operator, slot: str) -> Json:
        names = operator.outputs.get(slot.removesuffix("*"), [])
        if slot.endswith("*"):
            return {"TT": {"#": "0.t_vec", "D": [_tensor(self.variables[name])["TT"] for name in names]}}
        if slot == NONE:
            return _NO_TYPE
        return _tensor(self.variables[names[0]] if names else Variable(""))

    def _operand(self, operator: Operator, token: str) -> int:
        """The number of an operand, which may be a constant or a list that is made for it; 0 is none."""
        if token == "-":
            return 0
        if token[0] in "@#":
            return self._constant(operator, token[1:].partition(":")[0], is_list=token[0] == "#")
        names = operator.inputs.get(token.removesuffix("*"), [])
        if not names:
            return 0
        if not token.endswith("*"):
            return self.numbers[names[0]]
        kinds = [_tensor(self.variables[name])["TT"] for name in names]
        return self._emit(
            "0.combine", [self.numbers[name] for name in names], [{"TT": {"#": "0.t_vec", "D": kinds}}], []
        )[0]

    def _constant(self, operator: Operator, name: str, *, is_list: bool) -> int:
        found = operator.attributes.get(name)
        if is_list:
            numbers = [] if found is None or operator.get("reduce_all", False) else [int(each) for each in found.value]
            return self._list(numbers)
        if found is None:
            return 0
        return self._filled(found.value, _CONSTANTS.get(found.type, VarType.INT32), [1])

    def _filled(self, value: float, kind: VarType, shape: list[int]) -> int:
        attributes = [
            {"AT": {"#": "1.a_intarray", "D": shape}, "N": "shape"},
            _attribute("value", "f64", value),
            _typed("dtype", _NAMES[kind]),
            {"AT": _CPU, "N": "place"},
        ]
        return self._emit("1.full", [], [_tensor(Variable("", dtype=kind, dims=tuple(shape)))], attributes)[0]

    def _list(self, numbers: list[int]) -> int:
        attributes = [_attribute("value", "i64s", numbers), _typed("dtype", "int64"), {"AT": _CPU, "N": "place"}]
        kind = _tensor(Variable("", dtype=VarType.INT64, dims=(len(numbers),)))
        return self._emit("1.full_int_array", [], [kind], attributes)[0]

    def _widened(self, operator: Operator) -> int:
        """The second operand of an older operator, which may begin at a later axis of the first."""
        x, y = (self.variables[operator.inputs[slot][0]] for slot in "XY")
        dims = (*y.dims, *([1] * (len(x.dims) - operator.get("axis") - len(y.dims))))
        kind = _tensor(Variable("", dtype=y.dtype, dims=dims))
        return self._emit("1.reshape", [self.numbers[y.name], self._list([*dims])], [kind], [])[0]

    def _emit(self, name: str, operands: list[int], types: list[Json], attributes: list[Json]) -> list[int]:
        results = [self._result(kind) for kind in types]
        flags = {"#": "0.a_array", "D": [{"#": "0.a_bool", "D": False} for _ in results]}
        self.operations.append(
            {
                "#": name,
                "A": attributes,
                "I": [{"%": number} for number in operands],
                "O": results,
                "OA": [{"AT": flags, "N": _KEPT}, {"AT": flags, "N": _TRAINED}],
            }
        )
        return [result["%"] for result in results]

    def _result(self, kind: Json) -> Json:
        self.last += 1
        return {"%": self.last, **kind}


def _fits(rule: Rule, operator: Operator) -> bool:
    return all(operator.get(name) == value for name, value in rule.fixed.items())


def _tensor(variable: Variable) -> Json:
    kind = {"#": _ELEMENTS[VarType(variable.dtype)]}
    return {"TT": {"#": "0.t_dtensor", "D": [kind, [*variable.dims], "NCHW", [], 0]}}


def _attributes(name: str, rule: Rule, operator: Operator) -> Iterator[Json]:
    for text in ATTRIBUTES[name].split():
        here, _, rest = text.partition(":")
        kind, _, default = rest.partition("=")
        value = operator.get(rule.renamed.get(here, here))
        if kind == "dtype":
            yield _typed(here, _OPEN_TYPE if value is None else _NAMES[VarType(value)])
        else:
            yield _attribute(here, kind, _default(kind, default) if value is None else value)


def _default(kind: str, text: str) -> Any:
    if kind.endswith("s"):
        return ()
    return text if kind == "str" else _SCALARS[kind](int(text or 0))


def _attribute(name: str, kind: str, value: Any) -> Json:
    if kind in _SCALARS:
        return {"AT": {"#": f"0.a_{kind}", "D": _SCALARS[kind](value)}, "N": name}
    element = kind.removesuffix("s")
    values = [{"#": f"0.a_{element}", "D": _SCALARS[element](each)} for each in value]
    return {"AT": {"#": "0.a_array", "D": values}, "N": name}


def _typed(name: str, element: str) -> Json:
    return {"AT": {"#": "1.a_dtype", "D": element}, "N": name}
