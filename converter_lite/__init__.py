"""Post-training quantization converter.

``convert`` and ``Converter`` are the programming interface; the command line is a thin layer over them.
Heavy imports happen on first use, so that ``--help`` stays quick.
"""

from __future__ import annotations

__version__ = "0.1.0"
