"""Operator tables and tailoring lists in the layout of the original ``opt``."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from converter_lite.formats.paddle_nb.kernels import KERNEL_ATTRIBUTE, Precision, Target, kernels_of, operators
from converter_lite.formats.paddle_nb.program import Program

NAME_WIDTH = 47
COLUMNS = {"kARM": Target.ARM, "kHost": Target.HOST, "kX86": Target.X86}
"""Columns in the original's order; targets that need its own graph passes are left out."""

TITLES = {"kARM": "ARM", "kHost": "Host", "kX86": "X86"}
_LAYOUTS = {1: "kNCHW", 2: "kAny", 3: "kNHWC"}
_PRECISIONS = {
    Precision.FLOAT: "kFloat",
    Precision.INT8: "kInt8",
    Precision.INT32: "kInt32",
    Precision.ANY: "kAny",
    Precision.FP16: "kFP16",
    Precision.BOOL: "kBool",
    Precision.INT64: "kInt64",
}


SHOWN_RELEASE = "2"
"""Tables are those of release 2.12, which files name as their writer."""


def targets_of(operator: str) -> set[Target]:
    """Targets that have a kernel for an operator in the release of the tables."""
    return {Target(kernel.target) for kernel in kernels_of(operator) if SHOWN_RELEASE in kernel.releases}


def shown_operators() -> list[str]:
    """Operators that have a kernel in the release of the tables, sorted."""
    return [operator for operator in operators() if targets_of(operator)]


def operator_table(operators: Iterable[str], columns: Collection[str]) -> str:
    """Right-aligned table: a line per operator, ``Y`` under each target that has it."""
    header = "OP_name".rjust(NAME_WIDTH) + "".join(f"  {name}" for name in columns)
    lines = [header]
    for operator in operators:
        found = targets_of(operator)
        cells = (("Y" if COLUMNS[name] in found else "").rjust(len(name) + 2) for name in columns)
        lines.append(operator.rjust(NAME_WIDTH) + "".join(cells))
    return "\n".join(lines)


def markdown_table(operators: Collection[str]) -> str:
    """The same in Markdown, with the number of operators before it."""
    lines = [f"The number of supported operators is : {len(operators)}"]
    lines.append("| OP_name | " + " | ".join(TITLES.values()) + " |")
    lines.append("|-:|" + " -|" * len(TITLES))
    for operator in operators:
        found = targets_of(operator)
        cells = ("Y" if target in found else " " for target in COLUMNS.values())
        lines.append(f"| {operator} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def supported(targets: Collection[Target]) -> list[str]:
    """Operators that one of the targets, or Host, has."""
    wanted = {*targets, Target.HOST}
    return [operator for operator in shown_operators() if targets_of(operator) & wanted]


def model_operators(program: Program) -> list[str]:
    """Operator types of the main block, sorted."""
    return sorted({operator.type for operator in program.main.operators})


def tailored_kernels(program: Program) -> list[str]:
    """Kernels of a file, one ``operator,target,precision,layout,alias`` each, sorted."""
    lines = set()
    names = {target.value: name for name, target in COLUMNS.items()}
    for operator in program.main.operators:
        kind, alias, target, precision, layout = str(operator.get(KERNEL_ATTRIBUTE)).split("/")
        place = (names[int(target)], _PRECISIONS[Precision(int(precision))], _LAYOUTS[int(layout)])
        lines.add(",".join((kind, *place, alias)))
    return sorted(lines)
