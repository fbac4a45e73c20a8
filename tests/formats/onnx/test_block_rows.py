"""Rows of a table with blocks beside products whose weights have blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.formats.onnx.block_rows import keep_rows_apart
from tests.support import assert_applies, build

ROWS = "q = Gather(table, ids) s = Gather(scales, ids) rows = DequantizeLinear<axis=-1, block_size=32>(q, s)"
WEIGHT = "w = DequantizeLinear<axis=0, block_size=32>(integers, steps)"


def integers(*shape: int) -> NDArray[Any]:
    return np.random.default_rng(len(shape)).integers(-127, 127, shape).astype(np.int8)


def network(last: str) -> ir.Model:
    """Two blocks of 32 in each row and in each column."""
    return build(
        f"g (int64[3] ids) => (float y) {{ {ROWS} {WEIGHT} {last} }}",
        opset=21,
        table=integers(50, 64),
        scales=np.full((50, 2), 0.01, np.float32),
        integers=integers(64, 5),
        steps=np.full((2, 5), 0.02, np.float32),
        floats=np.ones((64, 5), np.float32),
    )


@pytest.mark.parametrize(
    ("last", "times"),
    [
        ("y = MatMul(rows, w)", 1),
        ("y = Gemm(rows, w)", 1),
        ("y = MatMul(rows, floats)", 0),
        ("n = Neg(rows) y = MatMul(n, w)", 0),
    ],
)
def test_only_products_of_two_with_blocks_read_rows_behind_a_guard(last: str, times: int) -> None:
    model = network(last)
    assert_applies(keep_rows_apart, model, times, {"ids": np.array([0, 49, 7])})
    product = next(node for node in model.graph if node.op_type in ("MatMul", "Gemm"))
    source = product.inputs[0]
    assert source is not None
    producer = source.producer()
    assert producer is not None
    assert (producer.op_type == "Max") is (times == 1)
