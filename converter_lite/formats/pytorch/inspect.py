"""The content of a PyTorch file, as rows of tables; nothing of it is loaded, and PyTorch is not needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from converter_lite.errors import ModelError
from converter_lite.formats.base import Block
from converter_lite.formats.child import Refusal
from converter_lite.formats.pytorch.child.archive import EXPORTED, SCRIPTED, Archive, archive_of

FORWARD = re.compile(r"  def forward\(self: (\S+),\s*([^)]*)\)")


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Weights and nodes of a program, classes and their arguments of a TorchScript.

    Raises:
        ModelError: The file is damaged, or holds no network.
    """
    del confined
    try:
        archive = archive_of(path)
        if archive.kind == EXPORTED:
            yield from _program(archive)
        elif archive.kind == SCRIPTED:
            yield from _script(archive)
        else:
            archive.refuse_code()
    except Refusal as refusal:
        raise ModelError(refusal.message, where=str(path), hint=refusal.hint) from refusal


def _program(archive: Archive) -> Iterator[Block]:
    for name in archive.programs():
        program = archive.json(name)
        try:
            graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
            version = str(program.get("torch_version", ""))
            inputs = [_name(spec["user_input"]["arg"]) for spec in signature["input_specs"] if "user_input" in spec]
            stored = [_stored(spec) for spec in signature["input_specs"] if "user_input" not in spec]
            outputs = [_name(spec["user_output"]["arg"]) for spec in signature["output_specs"] if "user_output" in spec]
            rows = [[str(node.get("name")), str(node["target"]), _arguments(node)] for node in graph["nodes"]]
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            raise Refusal(f"the archive is damaged: {name}", "save the model again") from error
        yield f"program of torch.export {version}, {len(rows)} nodes, {len(stored)} stored tensors"
        yield [["", "name"], *(["input", each] for each in inputs), *(["output", each] for each in outputs)]
        yield [["name", "operator", "inputs"], *rows]
        yield [["stored", "name"], *stored]


def _name(argument: Any) -> str:
    kind, value = next(iter(argument.items()))
    return str(value["name"]) if isinstance(value, dict) and "name" in value else f"{kind}: {value}"


def _stored(spec: Any) -> list[str]:
    kind, value = next(iter(spec.items()))
    return [kind, next((str(text) for key, text in value.items() if key.endswith("_name")), "")]


def _arguments(node: Any) -> str:
    found = (entry["arg"].get("as_tensor") for entry in node["inputs"] if isinstance(entry["arg"], dict))
    return ", ".join(str(tensor["name"]) for tensor in found if isinstance(tensor, dict))


def _script(archive: Archive) -> Iterator[Block]:
    rows = [["module", "arguments of forward"]]
    for code in archive.code():
        for owner, arguments in FORWARD.findall(code):
            rows.append([owner.removeprefix("__torch__."), " ".join(arguments.split())])
    tensors = sum(name.startswith(("data/", "constants/")) for name in archive.names)
    yield f"TorchScript, {len(rows) - 1} modules with code, {tensors} stored tensors"
    yield rows
