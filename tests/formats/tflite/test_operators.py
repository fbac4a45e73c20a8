"""Every operator, with its options, against plain NumPy."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.tflite.importer.graph import to_quantized_model
from converter_lite.formats.tflite.importer.table import HANDLERS
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.tflite.case import Case
from tests.formats.tflite.cases import CASES, OTHER_TESTS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operator_computes_what_its_definition_says(case: Case) -> None:
    quantized = to_quantized_model(case.data)
    assert not quantized.plan.quantized_nodes
    proto = ir.to_proto(quantized.model)
    onnx.checker.check_model(proto, full_check=True)
    feed = {str(value.name): array for value, array in zip(quantized.model.graph.inputs, case.feeds, strict=True)}
    given = DEFAULT_ENGINE.session(proto.SerializeToString(), threads=1, optimize=False).run(feed)
    assert list(given) == [value.name for value in quantized.model.graph.outputs]
    for found, expected in zip(given.values(), case.expected, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(found, expected)
            continue
        largest = max(float(np.abs(expected).max(initial=0)), 1.0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=case.tolerance * largest)


def test_every_operator_has_a_case() -> None:
    tried = {case.kind for case in CASES} | OTHER_TESTS.keys()
    assert set(HANDLERS) - tried == set()
