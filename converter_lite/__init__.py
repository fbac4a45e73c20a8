"""Post-training quantization converter.

``convert`` and ``Converter`` are the programming interface; the command line is a thin layer over them.
Heavy imports happen on first use, so that ``--help`` stays quick.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself loads slowly, and a Ctrl-C in that time would print a traceback
if TYPE_CHECKING:
    from typing import Any

    from converter_lite.api import Converter, convert, quant_aware, quant_post_dynamic, quant_post_static
    from converter_lite.cli.opt_class import Opt
    from converter_lite.errors import ConverterError
    from converter_lite.pipeline.request import ConvertRequest
    from converter_lite.pipeline.result import ConvertResult

__version__ = "0.1.0"

__all__ = [
    "ConvertRequest",
    "ConvertResult",
    "Converter",
    "ConverterError",
    "Opt",
    "__version__",
    "convert",
    "quant_aware",
    "quant_post_dynamic",
    "quant_post_static",
]

_HOMES = {
    "ConvertRequest": "pipeline.request",
    "ConvertResult": "pipeline.result",
    "Converter": "api",
    "ConverterError": "errors",
    "Opt": "cli.opt_class",
    "convert": "api",
    "quant_aware": "api",
    "quant_post_dynamic": "api",
    "quant_post_static": "api",
}


def __getattr__(name: str) -> Any:
    """Public names load their module on first use."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'converter_lite' has no attribute {name!r}")
    return getattr(importlib.import_module(f"converter_lite.{_HOMES[name]}"), name)
