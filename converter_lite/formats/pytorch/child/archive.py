"""What a file of PyTorch is, and whether loading it would run code: found in the archive itself, without PyTorch.

Sources: ``torch/export/pt2_archive`` and ``torch/_export/serde`` (2.13) for programs, ``torch/csrc/jit/serialization`` for
TorchScript, and the security notes of PyTorch.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from converter_lite.formats.child import Refusal
from converter_lite.formats.pytorch.child.pickles import foreign_globals

EXPORTED, SCRIPTED, PICKLED = "exported program", "TorchScript", "pickle"

UNSAFE_HINT = "--allowUnsafeModels loads it all the same, if you trust the file"

LARGEST_TEXT = 1 << 28
"""Bytes of a description, or of the source code in an archive."""

MOST_TIMES, SMALL_TEXT = 10, 1 << 20
"""Such a member is at most this many times as large as the archive, beside these bytes."""

TARGETS = re.compile(
    r"torch\.ops\.(aten|prims|prim|quantized_decomposed|quantized|torchvision|higher_order|_c10d_functional)\.(?!from_file|save)\w+(\.\w+)?"
    r"|torch\.(sym_\w+|_sym_\w+|_C\._set_grad_enabled)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|lt|le|gt|ge|and_|or_|not_|xor|pos|abs)"
    r"|math\.\w+"
)
"""Functions that a program calls; any other name that PyTorch can find would be called as well."""

EXPRESSION = re.compile(r"[\w\s()+\-*/,.<>=!&|%~]*")
WORD = re.compile(r"[A-Za-z_]\w*")
WORDS = frozenset(
    {
        *("Add", "Mul", "Mod", "Pow", "Max", "Min", "FloorDiv", "CeilDiv", "CleanDiv", "PythonMod"),
        *("ModularIndexing", "Where", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "Integer", "Float"),
        *("Rational", "IntTrueDiv", "FloatTrueDiv", "FloorToInt", "CeilToInt", "TruncToInt", "TruncToFloat"),
        *("RoundToInt", "RoundDecimal", "ToFloat", "PowByNatural", "FloatPow", "LShift", "RShift", "Identity"),
        *("IsNonOverlappingAndDenseIndicator", "Abs", "floor", "ceiling", "oo", "int_oo", "zoo", "true", "false"),
        *("True", "False", "Symbol", "OpaqueUnaryFn_sqrt", "OpaqueUnaryFn_exp", "OpaqueUnaryFn_log", "sqrt"),
        *("exp", "log"),
    }
)
SYMBOL = re.compile(r"_?[a-z]{1,4}\d+")
"""Sizes in programs; the expressions of them are evaluated as Python."""

DECLARED = re.compile(r"Symbol\('(\w+)'(?:, \w+=(?:True|False))*\)")
"""How a size is written that is no expression."""

IMPORTING = re.compile(r"__enum__|default_factory_module")
"""Structures of inputs that import a module that the file names."""

UNREADABLE = (
    KeyError,
    OSError,
    zipfile.BadZipFile,
    ValueError,
    EOFError,
    RuntimeError,
    zlib.error,
)
"""What Python's reader of archives raises for damaged ones."""

SCRIPT_ACTS = re.compile(
    r"\btorch\.(save|from_file|classes|_export|load)\b|\bops\.aten\.(save|from_file)\b"
    r"|\bops\.(?!aten\b|prim\b|prims\b|quantized\b|torchvision\b|profiler\b|mkldnn\b)\w+|\b__torch__\.torch\.classes\b"
)
"""What the code of a TorchScript can call besides computing."""


@dataclass
class Archive:
    """A file of PyTorch.

    Attributes:
        path: Where it is.
        kind: One of the three.
        names: Members, without the folder that all are in.
        prefix: That folder, with a slash.
    """

    path: Path
    kind: str
    names: list[str] = field(default_factory=list)
    prefix: str = ""

    def refuse_code(self) -> None:
        """Refuse a file whose loading would run what it holds.

        Raises:
            Refusal: It would.
        """
        if self.kind == EXPORTED:
            _refuse_in_program(self)
        elif self.kind == SCRIPTED:
            _refuse_in_script(self)
        else:
            _refuse_pickle(self)

    def read(self, name: str) -> bytes:
        """A member.

        Raises:
            Refusal: It is damaged, or larger than descriptions are.
        """
        try:
            with zipfile.ZipFile(self.path) as file:
                return _content(file, self.prefix + name, self.path.stat().st_size)
        except UNREADABLE as error:
            raise Refusal(f"the archive is damaged: {name}", "save the model again") from error

    def json(self, name: str) -> Any:
        """A member that is JSON.

        Raises:
            Refusal: It is not.
        """
        try:
            return json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise Refusal(f"the archive is damaged: {name}", "save the model again") from error

    def copy(self, target: Path) -> Path:
        """The members as they were checked, in a new archive: PyTorch's own reader might find others in this one."""
        if not self.names:
            return self.path
        with zipfile.ZipFile(self.path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
            for info in old.infolist():
                if not info.is_dir():
                    with (
                        old.open(info) as source,
                        new.open(info.filename, "w", force_zip64=info.file_size > 1 << 31) as part,
                    ):
                        shutil.copyfileobj(source, part, 1 << 20)
        return target

    def programs(self) -> list[str]:
        """Members that are programs."""
        return [name for name in self.names if re.fullmatch(r"models/[^/]+\.json", name)]

    def code(self) -> Iterator[str]:
        """Source code of a TorchScript."""
        for name in self.names:
            if name.startswith("code/") and name.endswith(".py"):
                yield self.read(name).decode("utf-8", "replace")


def archive_of(path: Path) -> Archive:
    """The kind of a file.

    Raises:
        Refusal: It is nothing of PyTorch, or damaged.
    """
    with path.open("rb") as file:
        head = file.read(2)
    if not zipfile.is_zipfile(path):
        if head[:1] == b"\x80":  # how pickles begin; PyTorch before 1.6 wrote one behind another
            return Archive(path, PICKLED)
        raise Refusal("this is no file of PyTorch, or it is damaged", "save it with torch.export.save")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except UNREADABLE as error:
        raise Refusal("the archive is damaged", "save the model again") from error
    prefix = f"{names[0].split('/')[0]}/" if names and "/" in names[0] else ""
    inner = [name[len(prefix) :] for name in names if name.startswith(prefix)]
    if len({name.casefold() for name in names}) < len(names):  # readers differ in which of them they take
        raise Refusal("the archive is damaged: two members have one name", "save the model again")
    if any(re.fullmatch(r"models/[^/]+\.json", name) for name in inner):
        return Archive(path, EXPORTED, inner, prefix)
    if "serialized_exported_program.json" in inner + names:
        raise Refusal("it is a program of PyTorch 2.5 or before", "load it there and save it with a newer PyTorch")
    if any(name.startswith("code/") for name in inner) and "data.pkl" in inner:
        return Archive(path, SCRIPTED, inner, prefix)
    if "data.pkl" in inner:
        return Archive(path, PICKLED, inner, prefix)
    raise Refusal("the archive holds no model of PyTorch", "save it with torch.export.save")


def _content(archive: zipfile.ZipFile, name: str, whole: int) -> bytes:
    """A member of an archive of ``whole`` bytes.

    Raises:
        Refusal: It unfolds to more than such files do.
        BadZipFile: It is damaged, or packed in a way that PyTorch does not know.
    """
    info = archive.getinfo(name)
    if info.compress_size > whole or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile(name)
    if info.file_size > min(LARGEST_TEXT, MOST_TIMES * whole + SMALL_TEXT):
        raise Refusal(f"{name} in it has {info.file_size:,} bytes", "save the model again")
    return archive.read(name)


def _refuse_in_program(archive: Archive) -> None:
    for name in archive.names:
        if name.startswith("data/aotinductor/"):
            raise Refusal("it holds a compiled library, which loading would run", UNSAFE_HINT)
        if re.fullmatch(r"data/(weights|constants|sample_inputs)/[^/]*\.pt", name):
            _refuse_foreign(archive.read(name), name)
        if re.fullmatch(r"data/\w+/.*_config\.json", name):
            for key, entry in _entries(archive.json(name)):
                if entry.get("use_pickle") is not False or not str(entry.get("path_name")).startswith(
                    ("weight_", "tensor_")
                ):
                    raise Refusal(f"{key} is stored as a pickle, which would run code", UNSAFE_HINT)
    for name in archive.programs():
        program = archive.json(name)
        if not isinstance(program, dict) or not isinstance(program.get("graph_module"), dict):
            raise Refusal(f"the archive is damaged: {name}", "save the model again")
        if program.get("guards_code"):
            for guard in program["guards_code"]:
                if not isinstance(guard, str) or not _is_plain_guard(guard):
                    raise Refusal("it has a condition that is more than a comparison of sizes", UNSAFE_HINT)
        _refuse_in_graph(program)


def _entries(config: Any) -> list[tuple[str, dict[str, Any]]]:
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise Refusal("the archive is damaged: a table of its tensors", "save the model again")
    return list(entries.items())


GUARD = re.compile(r"""L\['\w+'\](\.size\(\)\[\d+\])?|\.size\(\)\[\d+\]""")


def _is_plain_guard(text: str) -> bool:
    return is_plain(GUARD.sub("s0", text).replace(" and ", " & ").replace(" or ", " | ").replace("not ", "~"))


def _refuse_in_graph(program: Any) -> None:
    pending = [program]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            target = part.get("target")
            if isinstance(target, str) and "inputs" in part and not TARGETS.fullmatch(target):
                raise Refusal(
                    f"node {part.get('name')} calls {target[:100]}, which is no operator that computes", UNSAFE_HINT
                )
            text = part.get("expr_str")
            if text is not None and not (isinstance(text, str) and is_plain(text)):
                raise Refusal("it has a size that is more than an expression", UNSAFE_HINT)
            if any(isinstance(part.get(key), str) and IMPORTING.search(part[key]) for key in ("in_spec", "out_spec")):
                raise Refusal("its inputs or outputs are objects of a module that it names", UNSAFE_HINT)
            pending += [value for key, value in part.items() if key != "metadata" or isinstance(value, dict)]
        elif isinstance(part, list):
            pending += part


def is_plain(text: str) -> bool:
    """Whether a text is an expression of sizes, numbers and known functions."""
    text = DECLARED.sub(r"\1", text)
    words = WORD.findall(text)
    return (
        len(text) < 10_000
        and EXPRESSION.fullmatch(text) is not None
        and re.search(r"\.\s*[A-Za-z_]", text) is None
        and all(word in WORDS or SYMBOL.fullmatch(word) for word in words)
    )


def _refuse_in_script(archive: Archive) -> None:
    for code in archive.code():
        found = SCRIPT_ACTS.search(code)
        if found:
            raise Refusal(f"its code calls {found[0]}, which does more than compute", UNSAFE_HINT)


def _refuse_pickle(archive: Archive) -> None:
    """Refuse a file of ``torch.save``.

    Raises:
        Refusal: Always; weights alone can never be converted, whole modules only unpickled.
    """
    if archive.names and not foreign_globals(archive.read("data.pkl")):
        raise Refusal(
            "it holds weights only (a state dict), not the network that they belong to",
            "load them into the network, and save that with torch.export.save",
        )
    raise Refusal(
        "it is a pickle: loading it runs whatever code its author put there",
        f"save the network with torch.export.save; {UNSAFE_HINT}",
    )


def _refuse_foreign(content: bytes, name: str) -> None:
    """Refuse tensors of ``torch.save`` in a program if more than tensors is in them."""
    import io

    if not content:
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as inner:
            member = next((n for n in inner.namelist() if n.endswith("/data.pkl")), None)
            names = inner.namelist()
            if member is not None and len({each.casefold() for each in names}) == len(names):
                found = foreign_globals(_content(inner, member, len(content)))
                if not found:
                    return
                raise Refusal(f"{name} would run {found[0]}", UNSAFE_HINT)
    except UNREADABLE:
        pass
    raise Refusal(f"{name} is a pickle that cannot be checked", UNSAFE_HINT)
