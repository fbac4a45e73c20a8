"""Whole networks that were pickled (``torch.save``), for users who trust their file."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch

from converter_lite.formats.child import Answer, Refusal, Request, WrongUsage, check_shapes
from converter_lite.formats.pytorch.child.export import export, refuse_changes
from converter_lite.formats.pytorch.child.samples import first_that_runs


def answer(path: Path, request: Request, folder: Path) -> Answer:
    """Convert a pickled network; this runs its code.

    Raises:
        Refusal: The file holds something else, or a network that changes its buffers.
    """
    loaded = torch.load(str(path), map_location="cpu", weights_only=False)
    if not isinstance(loaded, torch.nn.Module):
        raise Refusal(
            f"it holds weights or other data ({type(loaded).__name__}), not a network",
            "load the weights into the network, and save that with torch.export.save",
        )
    network = loaded.eval()
    names = _arguments(network)
    check_shapes(dict.fromkeys(names), request.shapes)
    given = [name for name in names if name in request.shapes]
    if not given or any(n not in given for n in names[: names.index(given[-1]) + 1]):
        raise WrongUsage(
            f"the file does not say the shapes of its inputs ({', '.join(names)})",
            f"give them: --inputShape={names[0]}:1,...",
        )
    shapes = {name: request.shapes[name] for name in given}
    samples, notes = first_that_runs(lambda values: network(*values), shapes, network.parameters())
    program = torch.export.export(network, tuple(samples), strict=False)
    refuse_changes(program)
    return export(program, folder, inputs=given, notes=notes)


def _arguments(network: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        name for name, parameter in inspect.signature(network.forward).parameters.items() if parameter.kind in kinds
    ]
