"""Operator tables in the layout of the original ``opt``, release 2.12.

The tables cover every target of that release, including those for which only the original can write files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from string import ascii_lowercase

from converter_lite.formats.paddle.program import Program

NAME_WIDTH = 47
COLUMNS = {
    "kARM": "ARM",
    "kOpenCL": "OpenCL",
    "kMetal": "Metal",
    "kXPU": "百度XPU",
    "kHost": "Host",
    "kX86": "X86",
    "kBM": "比特大陆NPU",
    "kIntelFPGA": "寒武纪MLU",
    "kMLU": "英特尔FPGA",
    "huawei_ascend_npu": "华为昇腾NPU",
    "mediatek_apu": "联发科APU",
    "rockchip_npu": "瑞芯微NPU",
    "huawei_kirin_npu": "华为麒麟NPU",
    "imagination_nna": "颖脉NNA",
    "amlogic_npu": "晶晨NPU",
    "verisilicon_timvx": "TIM-VX",
    "eeasytech_npu": "亿智NPU",
    "android_nnapi": "Android NNAPI",
    "qualcomm_qnn": "高通QNN",
    "kunlunxin_xtcl": "昆仑芯XTCL",
}
"""Columns of the whole table -> their titles in Markdown, both as the original has them."""

UNPLACED = "kUnk"
"""Column of operators that have no kernel anywhere."""

PLACES = (*COLUMNS, UNPLACED)
_LAST_COLUMN = "kUnK"
"""A column of the whole table that is always empty there."""

KERNEL_COLUMNS = frozenset(name for name in COLUMNS if name[1].isupper())
"""Columns of kernels; the others are devices whose compilers take whole graphs."""

KERNELS_WITHOUT_OPERATOR = frozenset({"max", "pad_constant_like", "subgraph"})
"""Registered under names that no operator of the tables has."""

_BY_TARGET = {
    "arm": ("kARM",),
    "x86": ("kX86",),
    "host": ("kHost",),
    "opencl": ("kARM", "kOpenCL"),
    "metal": ("kMetal",),
    "x86_opencl": ("kOpenCL", "kX86"),
    "arm_metal": ("kARM", "kHost", "kMetal"),
    "xpu": ("kXPU",),
    "x86_metal": ("kHost", "kMetal", "kX86"),
    "intel_fpga": ("kIntelFPGA",),
    "bm": ("kBM",),
    "mlu": ("kMLU",),
}
"""Value of ``--valid_targets`` -> columns; a device that is not here has one of its own name."""


@cache
def _table() -> dict[str, frozenset[str]]:
    """Operator -> columns that have it, sorted by operator."""
    places = dict(zip(ascii_lowercase, PLACES, strict=False))
    lines = Path(__file__).with_name("operator_table.txt").read_text("ascii").splitlines()
    pairs = (line.partition(" ") for line in lines if not line.startswith("#"))
    return {operator: frozenset(places[letter] for letter in letters) for operator, _, letters in pairs}


def columns_of(targets: Iterable[str]) -> list[str]:
    """Columns of values of ``--valid_targets``, sorted."""
    return sorted({column for name in targets for column in _BY_TARGET.get(name, (name,))})


def all_operators() -> str:
    """The table of ``--print_all_ops``."""
    return _lines(_table(), [*COLUMNS, _LAST_COLUMN])


def supported_operators(targets: Iterable[str]) -> str:
    """The table of ``--print_supported_ops``: operators of the targets, of Host, and those without kernels."""
    wanted = columns_of(targets)
    title = f"Supported OPs on '{''.join(f' {name}' for name in wanted)}': "
    shown = {*wanted, "kHost", UNPLACED}
    return f"{title}\n{_lines([name for name, found in _table().items() if found & shown], sorted(shown))}"


def model_table(operators: Iterable[str], targets: Iterable[str]) -> str:
    """The table of ``--print_model_ops``."""
    return _lines(operators, sorted({*columns_of(targets), "kHost"}))


def _lines(operators: Iterable[str], columns: Collection[str]) -> str:
    """Right-aligned table: a line per operator, ``Y`` under each target that has it."""
    lines = ["OP_name".rjust(NAME_WIDTH) + "".join(f"  {name}" for name in columns)]
    for operator in operators:
        found = _table().get(operator, frozenset())
        cells = (("Y" if name in found else "").rjust(len(name) + 2) for name in columns)
        lines.append(operator.rjust(NAME_WIDTH) + "".join(cells))
    return "\n".join(lines)


def markdown_table() -> str:
    """The table of ``--print_all_ops_in_md_format``, with the number of operators before it."""
    table = _table()
    lines = [f"The number of supported operators is : {len(table)}"]
    lines.append("| OP_name | " + " | ".join(COLUMNS.values()) + " ")
    lines.append("|-:|-|" + " -|" * (len(COLUMNS) - 1) + " ")
    for operator, found in table.items():
        lines.append(f"| {operator} | " + " | ".join("Y" if name in found else " " for name in COLUMNS) + " |")
    return "\n".join(lines)


def kernel_list() -> str:
    """The list of ``--display_kernels``: operators that have a kernel of their own, not only a device's compiler."""
    found = {operator for operator, places in _table().items() if places & KERNEL_COLUMNS}
    return "".join(f" - {operator}\n" for operator in sorted(found | KERNELS_WITHOUT_OPERATOR))


def model_operators(program: Program) -> list[str]:
    """Operator types of the main block, sorted."""
    return sorted({operator.type for operator in program.main.operators})


def unknown_operators(operators: Sequence[str]) -> list[str]:
    """Those operators of a Paddle program or a ``.nb`` file that are not read."""
    from converter_lite.formats.paddle.importer.fake_quantization import FOLDED
    from converter_lite.formats.paddle.importer.table import HANDLERS

    known = {*HANDLERS, *FOLDED, "feed", "fetch"}
    return [operator for operator in operators if operator not in known]
