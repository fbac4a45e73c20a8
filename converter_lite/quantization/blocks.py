"""Which weights get a scale per block, and in which layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import ConfigError
from converter_lite.kernels.params import QuantParams, QuantSpec, block_params
from converter_lite.quantization.settings import FullSettings, Settings, WeightSettings
from converter_lite.targets.operands import stored_weight, weight_of

TABLE_BITS = 8
"""Least width of a table that standard operators gather from: none of them gathers integers of four bits."""

BLOCKED = "its weight has a scale per block, which only ONNX files hold"


def block_spec(node: ir.Node, weight: ir.Value, settings: WeightSettings) -> QuantSpec | None:
    """The grid of a weight with a scale per block; ``None`` for others than matrices of products and tables of rows."""
    blocks = settings.blocks
    if blocks is None or node.op_type not in ("MatMul", "Gemm", "Gather") or stored_weight(node) is not weight:
        return None
    if len(g.static_shape(weight) or ()) != 2 or g.int_attribute(node, "axis", 0):
        return None
    axis = 1 if node.op_type == "Gather" or g.int_attribute(node, "transB", 0) else 0
    is_wide = node.name in blocks.wide or (node.op_type == "Gather" and blocks.level is None)
    bits = TABLE_BITS if is_wide else settings.bits
    return QuantSpec(bits, symmetric=blocks.symmetric, axis=axis, block=blocks.size)


def blocks_of(weight: NDArray[np.float32], spec: QuantSpec) -> QuantParams:
    """Parameters of a matrix without data: the steps of least error."""
    if spec.axis == 1:
        return block_params(weight, spec)
    found = block_params(weight.T, replace(spec, axis=1))
    return QuantParams(np.ascontiguousarray(found.scale.T), np.ascontiguousarray(found.zero_point.T), spec)


def refuse_onnx_only(settings: Settings, file: str) -> None:
    """Refuse what only ONNX files hold: scales per block, activations and their weights with less than 8 bits.

    Raises:
        ConfigError: The configuration asks for them.
    """
    if isinstance(settings, FullSettings) and settings.is_narrow:
        narrow = "[common_quant_param] bit_num" if settings.bits < 8 else "[full_quant_param] activation_bits"
        raise ConfigError(
            f"integer kernels behind {file} compute with 8 bits", where=narrow, hint="use --saveType=ONNX, or 8 bits"
        )
    if isinstance(settings, WeightSettings) and settings.blocks is not None:
        raise ConfigError(
            f"{file} has no scales per block",
            where="[weight_quant_param] block_size",
            hint="use --saveType=ONNX, or leave the key out",
        )


def turn_weights(model: ir.Model) -> None:
    """Store the weight of every Gemm with its inputs in front, in place: kernels for blocks know no other layout."""
    for node in model.graph:
        weight = weight_of(node) if node.op_type == "Gemm" and g.int_attribute(node, "transB", 0) else None
        array = g.constant(weight)
        if weight is not None and array is not None and g.single_consumer(weight) is not None:
            weight.const_value = ir.Tensor(np.ascontiguousarray(array.T), name=weight.name)
            weight.shape = ir.Shape(array.shape[::-1])
            del node.attributes["transB"]
