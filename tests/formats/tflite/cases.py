"""All cases of single operators."""

from __future__ import annotations

from tests.formats.tflite import (
    cases_complex,
    cases_detection,
    cases_elementwise,
    cases_indexing,
    cases_matrices,
    cases_pictures,
    cases_shapes,
)
from tests.formats.tflite.case import Case

CASES: list[Case] = [
    *cases_complex.CASES,
    *cases_detection.CASES,
    *cases_elementwise.CASES,
    *cases_indexing.CASES,
    *cases_matrices.CASES,
    *cases_pictures.CASES,
    *cases_shapes.CASES,
]

OTHER_TESTS: dict[str, str] = {
    **dict.fromkeys(("CALL", "STABLEHLO_COMPOSITE", "IF", "WHILE"), "test_structure"),
    **dict.fromkeys(("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"), "test_variables"),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE"), "test_quantized"),
    "DENSIFY": "test_constants",
}
"""Operators that are not tried by themselves -> where they are."""
