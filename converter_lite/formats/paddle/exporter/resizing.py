"""Resize and Upsample of height and width."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.logic import expand
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    integers,
    integers_or_floats,
    rank,
)
from converter_lite.formats.paddle.program import Attribute, attr, floats


def _resize(lowering: Lowering, node: ir.Node) -> None:
    if rank(node.inputs[0]) != 4 or "axes" in node.attributes:
        raise Unsupported("Resize exists for height and width of four-dimensional tensors only")
    scales, sizes = _scales(node), integers(g.input_at(node, 3))
    factors = _factors(node, scales, sizes)
    mode = g.text_attribute(node, "mode", "nearest")
    if g.int_attribute(node, "antialias", 0) and mode != "nearest" and min(factors) < 1:
        raise Unsupported("Resize with antialias to a smaller size")
    align_corners, align_mode = _alignment(node, mode, factors)
    # By size where it is known: 2.10 takes the first factor for both.
    height, width = dims(node.outputs[0])[2:] if dims(node.outputs[0]) else (-1, -1)
    fixed = height > 0 and width > 0
    if not fixed and scales is None:
        raise Unsupported("the output size of Resize is unknown", "give --inputShape")
    if fixed and scales is not None and not _exact(node, scales, tolerance=1e-5 if mode == "linear" else 0.0):
        raise Unsupported(
            f"a Resize by {factors} whose result is not exactly so large: the runtime goes by the size",
            "give the output size instead of scales, or an input size that the factor divides",
        )
    by_scale = scales is not None and not fixed
    attributes = {
        "scale": floats(scales if by_scale and scales is not None else ()),
        "out_h": attr(height if fixed else -1),
        "out_w": attr(width if fixed else -1),
        "align_corners": attr(align_corners),
        "align_mode": attr(align_mode),
        "interp_method": attr("nearest" if mode == "nearest" else "bilinear"),
        "data_layout": attr("NCHW"),
    }
    operator = "nearest_interp_v2" if mode == "nearest" else "bilinear_interp_v2"
    name, outputs = lowering.tensor(node.inputs[0]), {"Out": [lowering.result(node.outputs[0])]}
    if mode == "linear" and not lowering.is_arm:
        name = _without_sides_of_one(lowering, node, name)
        if _coordinates(node) == "asymmetric":
            name = _doubled(lowering, node, name, operator, attributes)
    lowering.emit(operator, {"X": [name]}, outputs, attributes)


def _without_sides_of_one(lowering: Lowering, node: ir.Node, name: str) -> str:
    """Sides of 1 repeated to their new length: x86 2.10 multiplies what is behind them by 0, which may be NaN."""
    source, result = dims(node.inputs[0]), dims(node.outputs[0])
    sizes = [*source[:2], *(1 if 1 in pair else pair[0] for pair in zip(source[2:], result[2:], strict=True))]
    wanted = [*source[:2], *(new if old == 1 else old for old, new in zip(sizes[2:], result[2:], strict=True))]
    if sizes == wanted or min(wanted) < 1:
        return name
    return expand(lowering, name, sizes, wanted)


def _doubled(lowering: Lowering, node: ir.Node, name: str, operator: str, attributes: Mapping[str, Attribute]) -> str:
    """Sides doubled until none grows more than twofold in the last step: 2.10 reads past the last line where one does.

    Interpolating between neighbours of what was interpolated linearly gives the same as one step.
    """
    source, wanted = dims(node.inputs[0]), dims(node.outputs[0])[2:]
    sizes = [new if old == 1 else old for old, new in zip(source[2:], wanted, strict=True)]
    while min(sizes) > 0 and any(new > 2 * old for old, new in zip(sizes, wanted, strict=True)):
        sizes = [2 * old if new > 2 * old else old for old, new in zip(sizes, wanted, strict=True)]
        result = lowering.temporary(f"{node.outputs[0].name}.doubled", (*source[:2], *sizes))
        given = {**attributes, "scale": floats(()), "out_h": attr(sizes[0]), "out_w": attr(sizes[1])}
        lowering.emit(operator, {"X": [name]}, {"Out": [result]}, given)
        name = result
    return name


def _scales(node: ir.Node) -> list[float] | None:
    """Scale of height and width; ``None`` when the size is given instead."""
    where = 1 if node.op_type == "Upsample" or len(node.inputs) == 2 else 2
    array = integers_or_floats(g.input_at(node, where))
    if array is None or not array.size:
        return None
    batch, channels, height, width = (float(v) for v in array.reshape(-1))
    if batch != 1 or channels != 1:
        raise Unsupported("Resize of batch or channels")
    return [height, width]


def _factors(node: ir.Node, scales: list[float] | None, sizes: list[int] | None) -> list[float]:
    if scales is not None:
        return scales
    source = dims(node.inputs[0])
    if sizes is None or min(source[2:]) < 1:
        raise Unsupported("the size of Resize is unknown", "give --inputShape")
    return [sizes[2] / source[2], sizes[3] / source[3]]


def _coordinates(node: ir.Node) -> str:
    old = node.op_type == "Upsample" or len(node.inputs) == 2
    return g.text_attribute(node, "coordinate_transformation_mode", "asymmetric" if old else "half_pixel")


def _alignment(node: ir.Node, mode: str, factors: list[float]) -> tuple[bool, int]:
    """``align_corners`` and ``align_mode`` with the meaning of ONNX' coordinate mode."""
    old = node.op_type == "Upsample" or len(node.inputs) == 2
    coordinates = _coordinates(node)
    if mode == "nearest":
        rounding = g.text_attribute(node, "nearest_mode", "floor" if old else "round_prefer_floor")
        upsampling = all(f >= 1 and float(f).is_integer() for f in factors)
        if coordinates == "asymmetric" and (rounding == "floor" or all(factor == 1 for factor in factors)):
            return False, 0
        if upsampling and coordinates == "half_pixel" and rounding.startswith("round_prefer"):
            return False, 0
        raise Unsupported(
            f"nearest Resize with {coordinates} and {rounding}", "asymmetric with floor, or a whole upsampling factor"
        )
    if mode != "linear":
        raise Unsupported(f"Resize with mode {mode}", "nearest and linear exist")
    table = {"half_pixel": (False, 0), "pytorch_half_pixel": (False, 0), "asymmetric": (False, 1)}
    if coordinates == "align_corners":
        return True, 1
    if coordinates not in table:
        raise Unsupported(f"linear Resize with {coordinates}")
    return table[coordinates]


def _exact(node: ir.Node, factors: list[float], *, tolerance: float) -> bool:
    """Whether the sizes have the ratio of the factors, up to the precision of a float32 factor."""
    source, result = dims(node.inputs[0])[2:], dims(node.outputs[0])[2:]
    return all(abs(s * f - r) <= tolerance for s, f, r in zip(source, factors, result, strict=True))


HANDLERS: dict[str, Handler] = {"Resize": _resize, "Upsample": _resize}
