"""A file that only changes its form is never larger than the model that was read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from tests.cli.workshop import FULL, Workshop, changed, write_bins
from tests.support import build_proto, normal, operators, positive

NARROW: dict[str, tuple[str, Mapping[str, NDArray[np.generic]]]] = {
    "float16 embeddings": (
        "g (int64[1,4] x) => (float[1,4,32] y) { t = Cast<to = 1>(table) y = Gather(t, x) }",
        {"table": normal(4000, 32).astype(np.float16)},
    ),
    "int8 embeddings": (
        "g (int64[1,4] x) => (float[1,4,32] y) { t = Cast<to = 1>(table) s = Mul(t, scale) y = Gather(s, x) }",
        {"table": (normal(4000, 32) * 40).astype(np.int8), "scale": positive(4000, 1)},
    ),
    "a shared table of places": (
        "g (float[4,100,100] x) => (float[4,100,100] y) { a = Gather<axis = 1>(one, places) b = Gather<axis = 1>(two, places)"
        " c = Add(x, a) y = Add(c, b) }",
        {"one": normal(4, 10000), "two": normal(4, 10000), "places": np.arange(10000)[::-1].reshape(100, 100).copy()},
    ),
    "a small mask": (
        "g (float[100,100] x) => (float[100,100] y) { m = Expand(one, shape) z = Mul(x, m) y = Relu(z) }",
        {"one": np.float32(-2).reshape(1, 1), "shape": np.array([100, 100])},
    ),
    "a copied weight": (
        "g (float[1,64] x) => (float[1,64] y) { v = Identity(w) a = MatMul(x, w) b = Relu(a) y = MatMul(b, v) }",
        {"w": normal(64, 64)},
    ),
}


def saved(graph: str, path: str, **constants: NDArray[np.generic]) -> Path:
    """A file with the names that every exporter writes; nodes without one would get it."""
    proto = build_proto(graph, **constants)
    proto.producer_name, proto.producer_version = "exporter", "1.2.3"
    for index, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{index}"
    onnx.save(proto, path)
    return Path(path)


@pytest.mark.parametrize("case", NARROW)
def test_no_constant_is_stored_in_more_space_than_it_came_in(workshop: Workshop, case: str) -> None:
    graph, constants = NARROW[case]
    read = saved(graph, "narrow.onnx", **constants)
    workshop.succeed("--saveType=ONNX", config=None, model="narrow.onnx", output="again")
    assert Path("again.onnx").stat().st_size <= read.stat().st_size


def test_a_weight_that_is_copied_for_another_layer_is_quantized_once(workshop: Workshop) -> None:
    graph, constants = NARROW["a copied weight"]
    saved(graph, "twice.onnx", **constants)
    write_bins(Path("rows"), 4, (1, 64))
    config = changed(FULL, data_preprocess_param={"calibrate_path": "x:rows"})
    workshop.succeed("--saveType=ONNX", config=config, model="twice.onnx", output="once")
    integers = [t for t in onnx.load("once.onnx").graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert [list(tensor.dims) for tensor in integers if len(tensor.dims) == 2] == [[64, 64]]


def test_constants_are_folded_where_that_takes_no_more_space(workshop: Workshop) -> None:
    graph = "g (float[1,64] x) => (float[1,32] y) { t = Transpose(w) y = MatMul(x, t) }"
    saved(graph, "turned.onnx", w=normal(32, 64))
    workshop.succeed("--saveType=ONNX", config=None, model="turned.onnx", output="again")
    assert operators(ir.load("again.onnx")) == {"MatMul": 1}
