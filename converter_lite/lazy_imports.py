"""Loads sympy only when somebody computes with symbolic dimensions.

onnx_ir imports sympy at its top, which takes as long as onnx, onnxruntime and onnx_ir together (0.28 s of the 2.2 s that a
whole conversion of mobilenet takes), and uses it for arithmetic on symbolic dimensions alone. With this finder the two
modules concerned are executed when an attribute of theirs is first read. Imports by others are left as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class SympyWhenUsed:
    """A finder for ``sys.meta_path``; it knows sympy as onnx_ir imports it, and onnx_ir's module of symbolic expressions."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :meth:`importlib.abc.MetaPathFinder.find_spec`."""
        is_for_onnx_ir = name == "sympy" and "onnx_ir._core" in sys.modules
        if not is_for_onnx_ir and name != "onnx_ir._symbolic_shapes":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def install() -> None:
    """Put the finder in front of the others, once."""
    if SympyWhenUsed not in sys.meta_path:
        sys.meta_path.insert(0, SympyWhenUsed)
