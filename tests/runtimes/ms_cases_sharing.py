"""Models in which nodes share a weight: the released packages mix up what they packed for one node with another's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import helper

from tests.runtimes.ms_case import Array, Case, build, const, values

PADS = {"pads": [1, 1, 1, 1]}
PICTURES = ((1, 6, 15, 17), (1, 6, 5, 7))
"""Two sizes for which the runtimes choose other kernels."""


def _pair(
    name: str,
    ops: tuple[str, str],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    weight: Array,
    **two: dict[str, Any],
) -> Case:
    """Two nodes with inputs of their own and one weight; ``two`` are the attributes of the first and the second."""
    attributes = (two.get("first", {}), two.get("second", {}))
    nodes = [
        helper.make_node(op, [f"x{i}", "w"], [f"y{i}"], name=f"node{i}", **attributes[i]) for i, op in enumerate(ops)
    ]
    feed = {f"x{i}": values(shape, i) for i, shape in enumerate(shapes)}
    return Case(name, build(nodes, feed, {"w": weight}, 2), feed)


def sharing() -> Iterator[Case]:
    """Pyramids, twins and tied embeddings."""
    dense, depthwise, matrix = const((6, 6, 3, 3))[0], const((6, 1, 3, 3))[0], const((16, 16))[0]
    conv, product = ("Conv", "Conv"), ("MatMul", "Gemm")
    same, rows = (PICTURES[0], PICTURES[0]), ((4, 16), (4, 16))
    strided, dilated = {**PADS, "strides": [2, 2]}, {"pads": [2, 2, 2, 2], "dilations": [2, 2]}
    yield _pair("shared_conv_same_size", conv, same, dense, first=PADS, second=PADS)
    yield _pair("shared_conv_sizes", conv, PICTURES, dense, first=PADS, second=PADS)
    yield _pair("shared_conv_strides", conv, same, dense, first=PADS, second=strided)
    yield _pair("shared_conv_dilations", conv, same, dense, first=PADS, second=dilated)
    yield _pair("shared_conv_pointwise", conv, PICTURES, const((6, 6, 1, 1))[0])
    yield _pair("shared_conv_depthwise", conv, PICTURES, depthwise, first={"group": 6}, second={"group": 6})
    yield _pair("shared_conv_and_deconv", ("Conv", "ConvTranspose"), same, dense)
    yield _pair("shared_product_rows", ("MatMul", "MatMul"), ((1, 16), (40, 16)), matrix)
    yield _pair("shared_product_turned", product, rows, matrix, second={"transB": 1})
    yield _pair("shared_product_and_mul", ("MatMul", "Mul"), ((4, 16), (16, 16)), matrix)
    sides = [helper.make_node("MatMul", ["x0", "w"], ["y0"]), helper.make_node("MatMul", ["w", "x0"], ["y1"])]
    feed = {"x0": values((16, 16))}
    yield Case("shared_product_sides", build(sides, feed, {"w": matrix}, 2), feed)
