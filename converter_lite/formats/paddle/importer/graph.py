"""A whole program as a graph with its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Importer, run
from converter_lite.formats.paddle.importer.table import HANDLERS
from converter_lite.formats.paddle.program import Operator, Program, Variable, VarType
from converter_lite.passes.nearest import gather_by_ratio
from converter_lite.quantization.plan import QuantizedModel


def to_quantized_model(
    program: Program,
    parameters: Mapping[str, NDArray[Any]],
    *,
    target: str,
    where: str = "",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    rounded: bool = False,
) -> QuantizedModel:
    """The main block as an ONNX graph (opset 20), with what its attributes say about quantization as the plan.

    Args:
        program: As a reader gave it. It is used up: its operators leave it as the graph grows, so that no memory holds both.
        parameters: Constants by variable name.
        target: Name for the plan.
        where: Name of the file for messages.
        input_shapes: Shapes of inputs that replace the declared ones.
        rounded: Round what a device holds in float16 to float16.

    Raises:
        ModelError: The program has no inputs or outputs, or an operator that cannot be translated; it is named.
    """
    feeds, fetches = interface(program, where)
    read = frozenset(name for op in program.main.operators for names in op.inputs.values() for name in names)
    importer = Importer(dict(parameters), target, where, read=read, has_scalars=program.has_scalars)
    importer.reserve(fetches)
    declared = {variable.name: variable for variable in program.main.variables}
    for name in feeds:
        variable = declared.get(name, Variable(name))
        dims = (input_shapes or {}).get(name, variable.dims)
        kind = VarType.FP32 if variable.dtype in (VarType.FP16, VarType.INT8) else variable.dtype
        importer.add_input(name, kind, dims)
    operators = [op for op in program.main.operators if op.type not in ("feed", "fetch")]
    program.main.operators.clear()
    program.main.variables.clear()
    del declared
    handlers = HANDLERS
    if rounded:
        from converter_lite.formats.paddle.importer.rounding import round_constants, with_rounding

        round_constants(importer.parameters, operators)
        handlers = with_rounding(handlers)
    run(importer, operators, handlers)
    made = importer.model(fetches)
    if not made.plan.activations:
        gather_by_ratio(made.model)
    return made


def interface(program: Program, where: str) -> tuple[list[str], list[str]]:
    """Names of inputs and outputs in the order of their columns.

    Raises:
        ModelError: There are none, or a column is missing or occurs twice.
    """
    feeds = _columns(program.main.operators, "feed", where)
    fetches = _columns(program.main.operators, "fetch", where)
    if len(set(feeds)) != len(feeds):
        raise ModelError("an input is fed twice", where=where)
    return feeds, fetches


def _columns(operators: Sequence[Operator], kind: str, where: str) -> list[str]:
    found = [op for op in operators if op.type == kind]
    if not found:
        raise ModelError(f"the program has no {kind} operator", where=where)
    names = {op.get("col", 0): (op.output("Out") if kind == "feed" else op.input("X")) for op in found}
    if sorted(names) != list(range(len(found))) or None in names.values():
        raise ModelError(f"the columns of its {kind} operators are not 0 to {len(found) - 1}", where=where)
    return [str(names[column]) for column in range(len(found))]
