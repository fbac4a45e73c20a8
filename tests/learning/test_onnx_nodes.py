"""ONNX's own tests of single operators: what has gradients gives onnxruntime's numbers."""

from __future__ import annotations

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
from tests.onnx_nodes import NodeCase, node_cases, problem

TYPES = ("float32", "int64", "int32", "bool")
"""Of tensors in networks that learn."""


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
    types = [f"{array.dtype}, not {expected.dtype}" for array, expected in pairs if array.dtype != expected.dtype]
    return "; ".join(filter(None, [*types, *(problem(array, expected) for array, expected in pairs)]))


def test_nodes_with_gradients_give_the_numbers_of_onnxruntime() -> None:
    defects, refused, right = {}, {}, 0
    for case in node_cases():
        if any(str(array.dtype) not in TYPES for array in (*case.feed.values(), *case.results.values())):
            continue
        try:
            text = wrong(case)
        except ModelError as error:
            refused[case.name] = str(error)
            continue
        right += not text
        if text:
            defects[case.name] = text
    assert not defects
    assert right > 1000
    assert len(refused) < right / 4, refused
