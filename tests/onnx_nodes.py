"""ONNX's own tests of single operators, with onnxruntime's numbers."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ConverterError
from converter_lite.graph import FLOAT_MAX
from converter_lite.runtime.engine import DEFAULT_ENGINE

Array = NDArray[np.generic]


@dataclass(frozen=True)
class NodeCase:
    """One of the tests."""

    name: str
    model: bytes
    feed: dict[str, Array]
    results: dict[str, Array]


@functools.cache
def node_cases() -> tuple[NodeCase, ...]:
    """Those with numbers that onnxruntime runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    made = []
    for case in found:
        if case.model is None or not case.data_sets:
            continue
        given, expected = case.data_sets[0]
        if not all(isinstance(array, np.ndarray | np.generic) for array in (*given, *expected)):
            continue
        arrays = [np.asarray(array) for array in given]
        feed = {value.name: array for value, array in zip(case.model.graph.input, arrays, strict=False)}
        is_cube = any(array.ndim == 4 and len(set(array.shape[1:])) == 1 for array in arrays)  # of which layout?
        if is_cube or len(feed) != len(arrays) or any(array.dtype == object or array.size == 0 for array in arrays):
            continue
        try:
            results = DEFAULT_ENGINE.session(case.model.SerializeToString(), threads=1).run(feed)
        except (ConverterError, RuntimeError):
            continue
        made.append(NodeCase(case.name, case.model.SerializeToString(), feed, results))
    return tuple(made)


def problem(found: Array, wanted: Array) -> str:
    if found.size != wanted.size:
        return f"shape {found.shape}, not {wanted.shape}"
    a, b = (unbounded(array.reshape(-1).astype(np.float64)) for array in (found, wanted))
    if not np.allclose(
        a, b, rtol=1e-3, atol=1e-3 * max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0))), equal_nan=True
    ):
        return f"{a[:4]}, not {b[:4]}"
    return ""


def unbounded(numbers: Array) -> Array:
    """onnxruntime's Attention writes the largest float where the standard has infinity."""
    return np.where(np.abs(numbers) >= FLOAT_MAX, np.copysign(np.inf, numbers), numbers)
