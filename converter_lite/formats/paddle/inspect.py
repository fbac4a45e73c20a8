"""The content of a ``.nb`` file, or of a model in Paddle's own files, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from converter_lite.errors import ModelError
from converter_lite.formats.base import Block
from converter_lite.formats.paddle.inference_model.files import PROGRAM_SUFFIXES, find_files, find_parameters
from converter_lite.formats.paddle.inference_model.reader import load
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, Precision
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import target_name
from converter_lite.formats.paddle.program import NbFile, Operator, Program, VarType

_PRECISION = {Precision.FLOAT: "float32", Precision.INT8: "int8", Precision.FP16: "float16"}


RESULTS = ("Out", "Output", "Y")
"""Slots of what an operator is for, beside means, masks and shapes; of others the first one is shown."""


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Header, operators, parameters, totals.

    Raises:
        FormatError: A ``.nb`` file is damaged.
        ModelError: A program or its parameters are damaged, or missing.
    """
    if path.suffix == ".nb":
        yield description(parse(path.read_bytes(), where=str(path)))
        return
    if path.is_dir():
        path, _ = find_files(path)
    elif path.suffix not in PROGRAM_SUFFIXES:
        path = _program_beside(path)
    program, parameters = load(path, find_parameters(path), confined=confined)
    file = NbFile(program, parameters)
    sections = ((_written_by(path, program),), _operators(file), _parameters(file), _totals(file))
    yield "\n".join(line for section in sections for line in section)


def _program_beside(parameters: Path) -> Path:
    """The program of a file of parameters, which holds no names.

    Raises:
        ModelError: There is none.
    """
    for suffix in PROGRAM_SUFFIXES:
        if (program := parameters.with_suffix(suffix)).is_file():
            return program
    endings = " or ".join(PROGRAM_SUFFIXES)
    raise ModelError(f"there is no program ({endings}) with this name beside the parameters", where=str(parameters))


def _written_by(path: Path, program: Program) -> str:
    if path.suffix == ".json":
        return "Paddle program (PIR, Paddle 3), shown with the operators of older programs"
    version = program.version
    release = f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}" if version else "an unknown release"
    return f"Paddle program, written by {release}, {len(program.blocks)} block(s)"


def description(file: NbFile) -> str:
    """Header, operators with kernel and shapes, parameters with type and quantization, totals.

    Shapes of intermediate variables are what the file declares: the original reuses names, so that they may be stale.
    """
    sections = (_header(file), _operators(file), _parameters(file), _totals(file))
    return "\n".join(line for section in sections for line in section)


def _header(file: NbFile) -> Iterator[str]:
    yield (
        f"Paddle-Lite model: target {target_name(file)}, written by {file.opt_version}, "
        f"meta_version {file.meta_version}, {len(file.program.blocks)} block(s)"
    )


def _operators(file: NbFile) -> Iterator[str]:
    shapes = {v.name: _shape(v.dims) for v in file.program.main.variables if v.kind == VarType.LOD_TENSOR}
    rows: list[tuple[str, ...]] = [("", "operator", "kernel", "inputs", "outputs", "quantization")]
    for index, op in enumerate(file.program.main.operators):
        notes = ", ".join(note for note in (_sparsity(op, file), _quantization(op)) if note)
        rows.append((str(index), op.type, _kernel(op), *_ends(op, file, shapes), notes))
    yield from _columns(rows)


def _ends(op: Operator, file: NbFile, shapes: dict[str, str]) -> tuple[str, str]:
    inputs = [name for names in op.inputs.values() for name in names if name not in file.parameters]
    slot = next((slot for slot in RESULTS if op.outputs.get(slot)), next(iter(op.outputs), ""))
    outputs = op.outputs.get(slot, [])
    return tuple(", ".join(f"{name}{shapes.get(name, '')}" for name in names) for names in (inputs, outputs))  # type: ignore[return-value]


def _kernel(op: Operator) -> str:
    parts = str(op.get(KERNEL_ATTRIBUTE, "")).split("/")
    if len(parts) != 5:
        return "-"
    precision = _PRECISION.get(Precision(int(parts[3])), "any") if parts[3].isdigit() else "?"
    place = {"1": "host", "2": "x86", "4": "arm"}.get(parts[2], parts[2])
    return f"{place} {precision} {parts[1]}"


def _sparsity(op: Operator, file: NbFile) -> str:
    stored = file.parameters.get(op.input("NonZeroWeights") or "")
    if stored is None:
        return ""
    return f"sparse, {np.count_nonzero(stored)} weights{' in pairs' if op.get('flag_semi') else ''}"


def _quantization(op: Operator) -> str:
    if op.get("quantize_weight_bits"):
        return f"weights int{op.get('quantize_weight_bits')}"
    if op.get("enable_int8"):
        scales = [
            f"{name.removesuffix('_scale')} {value.value[0]:.4g}"
            if len(value.value) == 1
            else f"{name.removesuffix('_scale')} x{len(value.value)}"
            for name, value in op.attributes.items()
            if name.endswith("0_scale") and isinstance(value.value, tuple) and value.value
        ]
        return f"int8 ({', '.join(scales)})"
    return f"scale {op.get('scale'):.4g}" if op.type.startswith("calib") and op.get("scale") else ""


def _parameters(file: NbFile) -> Iterator[str]:
    attributes = {name for op in file.program.main.operators for name in op.attributes}
    rows: list[tuple[str, ...]] = [("", "parameter", "type", "shape", "bytes", "")]
    for name, array in sorted(file.parameters.items()):
        loaded = "float16 when loaded" if f"{name}_fp16" in attributes else ""
        rows.append(("", name, str(array.dtype), _shape(array.shape), str(array.nbytes), loaded))
    yield ""
    yield from _columns(rows)


def _totals(file: NbFile) -> Iterator[str]:
    sizes: Counter[str] = Counter()
    for array in file.parameters.values():
        sizes[str(array.dtype)] += array.nbytes
    parts = ", ".join(f"{count} bytes {kind}" for kind, count in sizes.most_common())
    yield ""
    yield f"{len(file.program.main.operators)} operators, {len(file.parameters)} parameters: {parts or 'none'}"


def _shape(dims: tuple[int, ...]) -> str:
    return "[" + ",".join("?" if size < 0 else str(size) for size in dims) + "]"


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
