"""Deferred imports: modules that dependencies import but most runs never use load at their first use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

SELDOM_USED = frozenset(
    {
        *("sympy", "onnx_ir._symbolic_shapes", "onnx_ir._safetensors", "onnx_ir.schemas"),
        *("onnx.compose", "onnx.gen_proto", "onnx.parser", "onnx.printer", "onnx.utils", "onnx.version_converter"),
        *("google.protobuf.json_format", "google.protobuf.text_format", "google.protobuf.internal.python_message"),
        *("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars", "packaging.version"),
        *("difflib", "email.utils", "ipaddress", "socket", "textwrap", "uuid"),
    }
)
"""Modules of dependencies: arithmetic with symbolic sizes, other file formats, composition of models, docstrings. Half of the
start-up time."""

OWN = frozenset(
    {
        *("calibration.cache", "data.configured", "data.iterables", "data.proof_data", "data.remember"),
        *("execution.environment",),
        *("formats.paddle.pir.translation", "quantization.bias_correction", "quantization.dynamic"),
        *("quantization.fallback", "quantization.forecast", "quantization.full", "quantization.held_out"),
        *("quantization.mixed_bits", "quantization.qdq.build", "quantization.score", "quantization.width_losses"),
    }
)
"""Modules of ours that only some conversions use. Those who need them import the module, not names from it, which would load it;
the first use is in the main thread, since loading a deferred module is not safe in several."""


class _Deferring:
    """Finds the same modules as the path finder, but has them loaded when they are first used."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self._names else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def defer_imports() -> None:
    """From now on, load :data:`SELDOM_USED` and :data:`OWN` modules when they are first used, not when they are imported.

    For a command that owns its process; calling it again changes nothing.
    """
    if not any(isinstance(finder, _Deferring) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Deferring(SELDOM_USED | {f"converter_lite.{name}" for name in OWN}))
