"""Every layer in every variant against NumPy written from its definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.formats.caffe.case import Case
from tests.formats.caffe.cases import CASES
from tests.formats.caffe.networks import read, run, save


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_layer_computes_what_caffe_computes(case: Case, tmp_path: Path) -> None:
    source = read(save(tmp_path, case.text, case.weights))
    found = run(source.model, {"x": case.x})["y"]
    expected = np.asarray(case.expected(case.x), np.float64)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max())))
