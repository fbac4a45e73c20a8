"""Every operator in every form against NumPy written from its definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.formats.registration import joined
from tests.formats.mindir.cases import ACTIVATION, ARITHMETIC, LINEAR, Case
from tests.formats.mindir.cases_functions import CASES as FUNCTIONS
from tests.formats.mindir.cases_images import CONVOLUTION, NORMALIZATION, POOLING, RESIZING
from tests.formats.mindir.cases_recurrent import RECURRENT
from tests.formats.mindir.cases_tensors import INDEXING, REDUCTION, SHAPE
from tests.formats.mindir.cases_volumes import CASES as VOLUMES
from tests.formats.mindir.cases_windows import CASES as WINDOWS
from tests.formats.mindir.files import read, run, save

CASES = joined(
    *(ARITHMETIC, ACTIVATION, LINEAR, CONVOLUTION, POOLING, WINDOWS, VOLUMES, NORMALIZATION),
    *(RECURRENT, RESIZING, REDUCTION, SHAPE, INDEXING, FUNCTIONS),
)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_an_operator_computes_what_mindspore_computes(case: Case, tmp_path: Path) -> None:
    model = read(save(tmp_path, case.content())).model
    found = run(model, {f"x{index}": array for index, array in enumerate(case.feed)})
    expected = case.read_results()
    assert [array.dtype for array in found] == [array.dtype for array in expected]
    assert [array.shape for array in found] == [array.shape for array in expected]
    for ours, theirs in zip(found, expected, strict=True):
        largest = float(np.abs(theirs.astype(np.float64)).max(initial=1.0))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=case.tolerance * largest)
