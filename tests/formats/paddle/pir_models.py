"""Small programs as Paddle 3 writes them: PIR in JSON, with the parameters in the other file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle.inference_model.writer import parameter_bytes
from converter_lite.formats.paddle.program import Operator, Program, VarType

Array = NDArray[Any]

ELEMENTS = {
    "bool": "t_bool",
    "uint8": "t_ui8",
    "int8": "t_i8",
    "int16": "t_i16",
    "int32": "t_i32",
    "int64": "t_i64",
    "float16": "t_f16",
    "float32": "t_f32",
    "float64": "t_f64",
}


class Dtype(str):
    """An element type as an attribute."""


class Sizes(tuple[int, ...]):
    """A shape as an attribute."""


def tensor_type(dtype: str = "float32", shape: Sequence[int] = ()) -> dict[str, Any]:
    return {"#": "0.t_dtensor", "D": [{"#": f"0.{ELEMENTS.get(dtype, dtype)}"}, list(shape), "NCHW", [], 0]}


def attribute_value(value: Any) -> dict[str, Any]:
    if isinstance(value, Dtype):
        return {"#": "1.a_dtype", "D": str(value)}
    if isinstance(value, Sizes):
        return {"#": "1.a_intarray", "D": list(value)}
    if isinstance(value, (list, tuple)):
        return {"#": "0.a_array", "D": [attribute_value(item) for item in value]}
    kinds = {bool: "a_bool", int: "a_i32", float: "a_f32", str: "a_str", type(None): "a_f64"}
    if isinstance(value, float) and not np.isfinite(value):
        return {"#": "0.a_f64", "VD": {"inf": "INF", "-inf": "-INF"}.get(str(value), "NaN")}
    return {"#": f"0.{kinds[type(value)]}", "D": value}


VECTOR: dict[str, Any] = {"#": "0.t_vec", "D": [{"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [], "NCHW", [], 0]}] * 2}
"""Type of a list of two tensors."""


class PirProgram:
    """A program in the making; values are numbers, as in the file."""

    def __init__(self, version: int = 4) -> None:
        self.version = version
        self.operations: list[dict[str, Any]] = []
        self.parameters: dict[str, Array] = {}
        self._values = 0
        self._outputs = 0

    def _value(self, kind: Mapping[str, Any]) -> dict[str, Any]:
        self._values += 1
        return {"%": self._values, "TT": kind}

    def add(
        self, kind: str, operands: Sequence[int], results: Sequence[Mapping[str, Any]], /, **attributes: Any
    ) -> list[int]:
        """An operation with results of these types."""
        made = [self._value(result) for result in results]
        named = [{"AT": attribute_value(value), "N": key.rstrip("_")} for key, value in attributes.items()]
        self.operations.append({"#": kind, "A": named, "I": [{"%": n} for n in operands], "O": made, "OA": []})
        return [item["%"] for item in made]

    def op(self, name: str, /, *operands: int, results: int = 1, **attributes: Any) -> int:
        """An operation of Paddle; returns its first result, behind which the others follow."""
        return self.add(f"1.{name}", operands, [tensor_type()] * results, **attributes)[0]

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> int:
        kind = tensor_type(dtype, shape)
        attributes = {"name": name, "shape": Sizes(shape), "dtype": Dtype(dtype)}
        return self.add("1.data", [], [kind], **attributes)[0]

    def parameter(self, name: str, array: Array, *, kept: bool = True) -> int:
        """A parameter; one that is not kept has no value in the file."""
        if kept:
            self.parameters[name] = array
        made = self._value(tensor_type(str(array.dtype), array.shape))
        self.operations.append({"#": "p", "A": [0, 1, 1, name], "DA": [], "O": made, "OA": [int(kept), 0, 1], "QA": []})
        return int(made["%"])

    def full(self, value: float, dtype: str = "float32", shape: Sequence[int] = (1,)) -> int:
        attributes = {"shape": Sizes(shape), "value": float(value), "dtype": Dtype(dtype)}
        return self.add("1.full", [], [tensor_type(dtype, shape)], **attributes)[0]

    def ints(self, *values: int, dtype: str = "int64") -> int:
        kind = tensor_type(dtype, [len(values)])
        return self.add("1.full_int_array", [], [kind], value=list(values), dtype=Dtype(dtype))[0]

    def constant(self, array: Array) -> int:
        """A constant whose numbers stand in the program."""
        place = self.full(0.0, str(array.dtype), array.shape)
        numbers = [item.item() for item in array.reshape(-1)]
        attributes = {"shape": list(array.shape), "dtype": Dtype(str(array.dtype)), "values": numbers}
        return self.add("1.assign_value_", [place], [tensor_type(str(array.dtype), array.shape)], **attributes)[0]

    def combine(self, *values: int) -> int:
        kind = {"#": "0.t_vec", "D": [tensor_type()] * len(values)}
        return self.add("0.combine", values, [kind])[0]

    def listed(self, name: str, /, *operands: int, count: int, **attributes: Any) -> list[int]:
        """An operation that makes a list, and the tensors in it."""
        kind = {"#": "0.t_vec", "D": [tensor_type()] * count}
        (made,) = self.add(f"1.{name}", operands, [kind], **attributes)
        return self.add("0.split", [made], [tensor_type()] * count)

    def output(self, value: int, name: str = "") -> None:
        name = name or f"fetch_name_{self._outputs}"
        self.add("1.fetch", [value], [tensor_type()], name=name, col=self._outputs)
        self._outputs += 1

    def document(self) -> dict[str, Any]:
        block = {"#": "block_0", "args": [], "ops": self.operations}
        program = {"regions": [{"#": "region_0", "blocks": [block]}]}
        return {"base_code": {"magic": "pir", "trainable": True, "version": self.version}, "program": program}

    def json(self, **options: Any) -> bytes:
        """The program file; ``options`` are those of Python's own writer."""
        return json.dumps(self.document(), **options).encode()

    def save(self, folder: Path) -> Path:
        """Write ``inference.json`` and ``inference.pdiparams``; returns the folder."""
        folder.mkdir(exist_ok=True)
        (folder / "inference.json").write_bytes(self.json())
        (folder / "inference.pdiparams").write_bytes(parameter_bytes(self.parameters))
        return folder


PLAIN = {
    "conv2d": (
        "conv2d",
        ("Input", "Filter"),
        ("strides", "paddings", "padding_algorithm", "dilations", "groups", "data_format"),
    ),
    "batch_norm": ("batch_norm_", ("X", "Mean", "Variance", "Scale", "Bias"), ("is_test", "epsilon")),
    "relu6": ("relu6", ("X",), ()),
    "flatten_contiguous_range": ("flatten", ("X",), ("start_axis", "stop_axis")),
    "mul": ("matmul_with_flatten", ("X", "Y"), ("x_num_col_dims",)),
    "elementwise_add": ("add", ("X", "Y"), ()),
    "softmax": ("softmax", ("X",), ("axis",)),
    "quantize_linear": ("quantize_linear", ("X", "Scale", "ZeroPoint"), ("quant_axis", "bit_length", "only_observer")),
    "dequantize_linear": (
        "dequantize_linear",
        ("X", "Scale", "ZeroPoint"),
        ("quant_axis", "bit_length", "only_observer"),
    ),
    "fake_quantize_moving_average_abs_max": (
        "fake_quantize_moving_average_abs_max_",
        ("X", "InScale"),
        ("bit_length",),
    ),
    "fake_quantize_dequantize_moving_average_abs_max": (
        "fake_quantize_dequantize_moving_average_abs_max_",
        ("X", "InScale"),
        ("bit_length",),
    ),
    "fake_channel_wise_quantize_dequantize_abs_max": (
        "fake_channel_wise_quantize_dequantize_abs_max",
        ("X",),
        ("bit_length", "quant_axis"),
    ),
    "fake_dequantize_max_abs": ("fake_dequantize_max_abs", ("X", "Scale"), ("max_range",)),
}
"""Operator of older programs -> operation, slots of its operands, attributes of the same name."""


def pir_twin(program: Program, parameters: Mapping[str, Array]) -> PirProgram:
    """The same function as an older program, as Paddle 3 would write it."""
    made = PirProgram()
    values = {name: made.parameter(name, array) for name, array in sorted(parameters.items(), reverse=True)}
    dims = {variable.name: variable.dims for variable in program.main.variables}
    for op in program.main.operators:
        if op.type == "feed":
            name = op.outputs["Out"][0]
            values[name] = made.input(name, dims[name])
        elif op.type == "fetch":
            made.output(values[op.inputs["X"][0]], op.inputs["X"][0])
        else:
            result = next(op.output(slot) for slot in ("Out", "Y", "Output") if op.output(slot))
            values[str(result)] = _twin(made, op, values)
    return made


def _twin(made: PirProgram, op: Operator, values: Mapping[str, int]) -> int:
    if op.type == "scale":
        return made.op("scale", values[op.inputs["X"][0]], made.full(op.get("scale")), bias=op.get("bias"))
    if op.type == "pool2d":
        names = ("pooling_type", "adaptive", "global_pooling")
        attributes = {name: op.get(name) for name in names} | {"strides": [1, 1], "paddings": [0, 0]}
        return made.op("pool2d", values[op.inputs["X"][0]], made.ints(*op.get("ksize")), **attributes)
    if op.type == "fake_channel_wise_dequantize_max_abs":
        scales = made.combine(*(values[name] for name in op.inputs["Scales"]))
        bits = list(op.get("quant_bits"))
        return made.op("fake_channel_wise_dequantize_max_abs", values[op.inputs["X"][0]], scales, quant_bits=bits)
    kind, slots, names = PLAIN[op.type]
    given = {name: op.get(name) for name in names if op.get(name) is not None}
    attributes = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    operands = [values[op.inputs[slot][0]] for slot in slots]
    if op.type == "quantize_linear" or op.type == "dequantize_linear":
        operands += [0, 0]
    return made.op(kind, *operands, **attributes)


def every_element_type() -> Mapping[str, VarType]:
    """Names of element types -> their numbers in older files."""
    numbers = (0, 20, 21, 1, 2, 3, 4, 5, 6)
    return {name: VarType(number) for name, number in zip(ELEMENTS, numbers, strict=True)}
