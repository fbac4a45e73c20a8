"""The files of single operators in the interpreter: what NumPy says of them is what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.formats.tflite.cases import CASES
from tests.formats.tflite.running import outputs, read
from tests.formats.tflite.test_variables import STEPS, summing
from tests.runtimes.conftest import Tally
from tests.runtimes.litert_runtime import Run, run_files, skip_if_missing

pytestmark = pytest.mark.runtime

CHANGING = {"BIDIRECTIONAL_SEQUENCE_LSTM merged": "what the interpreter gives differs from run to run"}
"""Cases whose results are not compared -> why."""

FAR = 1e-5
"""Largest difference, relative to the largest result."""


def test_every_definition_is_that_of_the_interpreter(tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    cases = [case for case in CASES if case.name not in CHANGING]
    wrong = []
    found = run_files([Run(case.data, [case.feeds]) for case in cases], tmp_path)
    for case, results in zip(cases, found, strict=True):
        if isinstance(results, str):
            wrong.append(f"{case.name}: {results[:120]}")
            continue
        for given, expected in zip(results[0], case.expected, strict=True):
            array = given.array
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                wrong.append(f"{case.name}: {array.dtype} {array.shape}, not {expected.dtype} {expected.shape}")
                continue
            largest = max(float(np.abs(expected.astype(np.float64)).max(initial=0)), 1.0)
            difference = float(np.abs(array.astype(np.float64) - expected.astype(np.float64)).max(initial=0))
            if not difference <= FAR * largest:
                wrong.append(f"{case.name}: differs by {difference:g}")
    tally("LiteRT", "operators", tried=len(cases), wrong=len(wrong))
    assert not wrong, "\n".join(wrong)


def test_states_are_those_of_the_interpreter(tmp_path: Path) -> None:
    skip_if_missing()
    data = summing(np.zeros((1, 2, 3), np.float32)).bytes()
    (found,) = run_files([Run(data, [(x,) for x in STEPS])], tmp_path)
    assert not isinstance(found, str), found
    quantized, state = read(data), np.zeros((1, 2, 3), np.float32)
    for x, (expected,) in zip(STEPS, found, strict=True):
        y, state = outputs(quantized, x, state)
        np.testing.assert_allclose(y, expected.array, rtol=1e-6)
