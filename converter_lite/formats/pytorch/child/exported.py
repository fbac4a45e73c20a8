"""Programs of ``torch.export``: ``.pt2``."""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from converter_lite.formats.child import Answer, Refusal, Request, Shape, check_shapes
from converter_lite.formats.pytorch.child.export import export, refuse_changes

QUANTIZATION = "torch.ao.quantization.fx._decomposed"
"""The module that tells PyTorch about the operators of quantized programs, ``quantized_decomposed``."""

AT_RUN_TIME = "quantized_decomposed.choose_qparams"
"""Operators that find the scale of a tensor at run time, which PyTorch's exporter does not know."""


def answer(path: Path, request: Request, folder: Path) -> Answer:
    """Convert a program.

    Raises:
        Refusal: It changes its buffers, or cannot be expressed.
    """
    with suppress(ImportError):
        importlib.import_module(QUANTIZATION)
    program = torch.export.load(str(path))
    if any(str(node.target).startswith(AT_RUN_TIME) for node in program.graph.nodes):
        raise Refusal(
            "its activations are quantized at run time (choose_qparams)",
            "start from the float program; quant_type=DYNAMIC_QUANT quantizes at run time here",
        )
    _refuse_numbers(program)
    check_shapes(_shapes(program), request.shapes)
    refuse_changes(program)
    return export(program, folder)


def _refuse_numbers(program: Any) -> None:
    """Refuse a program with a result that is a plain number, which ONNX has no output for; a ``None`` is no output."""
    for position, spec in enumerate(program.graph_signature.output_specs):
        value = getattr(spec.arg, "value", None)
        if value is not None:
            raise Refusal(
                f"its output {position} is not a tensor, but always {value!r}", "export a network that gives tensors"
            )


def _shapes(program: Any) -> dict[str, Shape | None]:
    """Sizes of the tensors that the program takes, by name."""
    taken = set(program.graph_signature.user_inputs)
    return {
        node.name: [size if isinstance(size, int) else None for size in node.meta["val"].shape]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in taken and hasattr(node.meta.get("val"), "shape")
    }
