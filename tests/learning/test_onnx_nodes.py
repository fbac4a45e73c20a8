"""ONNX's own tests of single operators: what has gradients gives onnxruntime's numbers."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnx_ir as ir
import pytest

pytest.importorskip("torch", reason="tests/runtimes/test_learning.py runs these where PyTorch is")

import torch

from converter_lite.errors import ModelError
from converter_lite.graph import assign_names
from converter_lite.learning.network import Network
from converter_lite.passes.common import lift_constants
from converter_lite.passes.shapes import infer_shapes
from tests.onnx_nodes import Array, NodeCase, node_cases, unbounded

TYPES = ("float32", "int64", "int32", "bool")
"""Of tensors in networks that learn."""

FORMS = {"BatchNormalization", "ConvTranspose", "Dropout", "MaxPool", "Resize"}
"""Operators with forms that are refused: as in training, with positions of maxima, padded outputs and the like."""

CLOSE = 2e-6
"""Of floats, in the size of the largest result."""


def wrong(case: NodeCase) -> str:
    """What is wrong with the numbers.

    Raises:
        ModelError: The operator is refused.
    """
    model = ir.from_proto(onnx.load_model_from_string(case.model))
    assign_names(model)
    lift_constants(model)
    infer_shapes(model)
    network = Network(model)
    with torch.no_grad():
        found = network(*(torch.from_numpy(np.array(case.feed[name])) for name in network.inputs))
    tensors = found if isinstance(found, tuple) else (found,)
    pairs = list(zip((tensor.numpy() for tensor in tensors), case.results.values(), strict=True))
    return "; ".join(filter(None, (difference(array, expected) for array, expected in pairs)))


def difference(found: Array, expected: Array) -> str:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape}, not {expected.dtype}{expected.shape}"
    if found.dtype.kind != "f":
        return "" if np.array_equal(found, expected) else f"{found.reshape(-1)[:4]}, not {expected.reshape(-1)[:4]}"
    a, b = unbounded(found), unbounded(expected)
    scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    return (
        ""
        if np.allclose(a, b, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True)
        else f"{a.reshape(-1)[:4]}, not {b.reshape(-1)[:4]}"
    )


def test_nodes_with_gradients_give_the_numbers_of_onnxruntime() -> None:
    """An operator of the table is refused in some forms of ``FORMS`` alone; the others of ONNX are not in the table."""
    defects, forms, right = {}, set(), 0
    for case in node_cases():
        if any(str(array.dtype) not in TYPES for array in (*case.feed.values(), *case.results.values())):
            continue
        try:
            text = wrong(case)
        except ModelError as error:
            forms.update(re.findall(r"(\w+) cannot be learnt as it is written", str(error)))
            continue
        right += not text
        if text:
            defects[case.name] = text
    assert not defects
    assert forms <= FORMS
    assert right > 1000
