"""Lists of ``--record_tailoring_info``: what a library must contain to run one file, in the names of release 2.12."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, Precision, Target
from converter_lite.formats.paddle.program import Program
from converter_lite.formats.paddle.tables import model_operators

TARGETS = {Target.ARM.value: "kARM", Target.HOST.value: "kHost", Target.X86.value: "kX86"}
LAYOUTS = {1: "kNCHW", 2: "kAny", 3: "kNHWC"}
PRECISIONS = {
    Precision.FLOAT: "kFloat",
    Precision.INT8: "kInt8",
    Precision.INT32: "kInt32",
    Precision.ANY: "kAny",
    Precision.FP16: "kFP16",
    Precision.BOOL: "kBool",
    Precision.INT64: "kInt64",
}


@dataclass(frozen=True, slots=True, order=True)
class TailoredKernel:
    """A kernel of a file, in the words of the original."""

    operator: str
    target: str
    precision: str
    layout: str
    alias: str

    def __str__(self) -> str:
        return ",".join((self.operator, self.target, self.precision, self.layout, self.alias))

    @property
    def source(self) -> str:
        """Source file of the kernel in Paddle-Lite."""
        stems = _source_files().get(self.operator, ("", {"": self.operator}))[1]
        return f"{stems.get(self.target) or stems.get('', self.operator)}_compute.cc"


def tailoring_lists(programs: Iterable[Program]) -> dict[str, list[str]]:
    """File name -> lines: operators and kernels of all programs, and the source files that they come from.

    A line of sources belongs to the operator or kernel in the same line of the other list.
    """
    programs = list(programs)
    operators = sorted({operator for program in programs for operator in model_operators(program)})
    kernels = sorted({kernel for program in programs for kernel in _kernels(program)}, key=str)
    return {
        ".tailored_ops_list": operators,
        ".tailored_ops_source_list": [_operator_source(operator) for operator in operators],
        ".tailored_kernels_list": [str(kernel) for kernel in kernels],
        ".tailored_kernels_source_list": [kernel.source for kernel in kernels],
    }


def _kernels(program: Program) -> Iterator[TailoredKernel]:
    for operator in program.main.operators:
        kind, alias, target, precision, layout = str(operator.get(KERNEL_ATTRIBUTE)).split("/")
        place = (TARGETS[int(target)], PRECISIONS[Precision(int(precision))], LAYOUTS[int(layout)])
        yield TailoredKernel(kind, *place, alias)


def _operator_source(operator: str) -> str:
    return f"{_source_files().get(operator, (f'{operator}_op',))[0]}.cc"


@cache
def _source_files() -> dict[str, tuple[str, dict[str, str]]]:
    """Operator -> its file and, by target (empty: all), the files of its kernels, without the common suffix."""
    lines = Path(__file__).with_name("source_files.txt").read_text("ascii").splitlines()
    found = {}
    for operator, file, *kernels in (line.split() for line in lines if not line.startswith("#")):
        pairs = (entry.rpartition(":") for entry in kernels)
        found[operator] = (file, {target: stem for target, _, stem in pairs})
    return found
