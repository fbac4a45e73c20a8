"""Which precision every tensor of an ARM file has, and whether what reads it takes that: see ``device_rules.py``.

Source: docs/formats/paddle_nb.md, float16.
"""

from __future__ import annotations

from collections.abc import Iterator

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, exists
from converter_lite.formats.paddle.program import AttrType, NbFile, Operator, VarType

LOADED_AS_HALF = (
    *("conv2d", "depthwise_conv2d", "conv2d_transpose", "fc", "mul", "matmul", "matmul_v2", "prelu"),
    *("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div"),
)
"""Operators whose constants the library converts where an attribute says so."""

CONVERTS_ITSELF = ("sparse_conv2d",)
"""Operators whose float16 kernels convert what they read, and change the steps of a sparse weight."""

TAKES_EITHER = {
    **dict.fromkeys(("assign", "concat", "flatten2", "flatten_contiguous_range", "gather", "reshape2"), "X"),
    **dict.fromkeys(("squeeze2", "transpose2", "unsqueeze2"), "X"),
}
"""Operators that move floats of either precision, and their data slot."""

HALF_SINCE = ("2", "3")
"""Releases that have to have a float16 kernel."""


def precision_violations(file: NbFile) -> Iterator[str]:
    """Every tensor that is read in another precision than it has, and every constant that is converted wrongly."""
    block = file.program.main
    declared = {v.name: v.dtype for v in block.variables if v.kind == VarType.LOD_TENSOR}
    half: set[str] = set()
    for op in block.operators:
        alias, _, precision = str(op.get(KERNEL_ATTRIBUTE)).split("/")[1:4]
        data = [n for names in op.inputs.values() for n in names if n not in file.parameters]
        floats = [n for n in data if declared.get(n) in (VarType.FP16, VarType.FP32)]
        gives_half = precision == "5" and alias != "fp16_to_fp32"
        if op.type in TAKES_EITHER:
            moved = [name in half for name in op.inputs[TAKES_EITHER[op.type]]]
            gives_half = any(moved)
            if len(set(moved)) > 1:
                yield f"{op.type} moves float16 and float32 at once"
        elif op.type != "shape":
            takes_half = precision == "5" and alias != "fp32_to_fp16"
            yield from (
                f"{op.type} reads {name} in the wrong precision" for name in floats if (name in half) != takes_half
            )
        if precision == "5":
            yield from _kernel(op)
        yield from _constants(file, op, is_half=precision == "5")
        for name in (n for slot in ("Out", "Output", "Y") for n in op.outputs.get(slot, ())):
            half.difference_update({name})
            half.update({name} if gives_half else ())
            if (declared.get(name) == VarType.FP16) != gives_half:
                yield f"{name} is declared in the wrong precision"
    yield from _readers(file)


def _kernel(op: Operator) -> Iterator[str]:
    for release in HALF_SINCE:
        if not exists(op.type, str(op.get(KERNEL_ATTRIBUTE)), release):
            yield f"a release has no {op.get(KERNEL_ATTRIBUTE)}"


def _constants(file: NbFile, op: Operator, *, is_half: bool) -> Iterator[str]:
    for slot, names in op.inputs.items():
        for name in (
            n for n in names if n in file.parameters and file.parameters[n].dtype.name in ("float32", "int8", "int16")
        ):
            marked = op.attributes.get(f"{name}_fp16")
            if marked is not None and (marked.type, marked.value) != (AttrType.STRING, "fp16"):
                yield f"{name}_fp16 is {marked}"
            if is_half and op.type not in (*LOADED_AS_HALF, *CONVERTS_ITSELF, "batch_norm"):
                yield f"{op.type} {slot} is read as float16, and never converted"
            elif (marked is not None) != (is_half and op.type in LOADED_AS_HALF):
                yield f"{op.type} {slot} is converted for a kernel of another precision, or not converted"


def _readers(file: NbFile) -> Iterator[str]:
    """A constant is converted for all that read it; steps of a sparse weight are changed for one."""
    operators = file.program.main.operators
    alone = [
        op for op in operators if op.type in CONVERTS_ITSELF and str(op.get(KERNEL_ATTRIBUTE)).split("/")[3] == "5"
    ]
    for name, array in file.parameters.items():
        readers = [op for op in operators if any(name in names for names in op.inputs.values())]
        converted = {f"{name}_fp16" in op.attributes or op in alone for op in readers}
        if len(converted) > 1 and array.dtype.kind == "f":
            yield f"{name} is read as float16 and as float32"
        if len(readers) > 1 and any(op.input("Diffs") == name for op in alone):
            yield f"{name} is halved by one of its readers"
