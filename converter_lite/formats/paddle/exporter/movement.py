"""Moving data: Concat, Split, Slice, Transpose, Pad, Expand, Tile, Shape, DepthToSpace and others."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    element_type,
    integers,
    number,
    rank,
    shape,
)
from converter_lite.formats.paddle.exporter.reshaping import cast, reshape
from converter_lite.formats.paddle.program import VarType, attr, ints

INT32_MAX = 2**31 - 1


def _concat(lowering: Lowering, node: ir.Node) -> None:
    axis = g.int_attribute(node, "axis", 0) % rank(node.inputs[0])
    inputs = {"X": [lowering.tensor(value) for value in node.inputs]}
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("concat", inputs, outputs, {"axis": attr(axis)}, dtype=dtype_name(node.outputs[0]))


def _split(lowering: Lowering, node: ir.Node) -> None:
    axis = g.int_attribute(node, "axis", 0) % rank(node.inputs[0])
    sections = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "split"))
    if not sections:
        count = len(node.outputs)
        size = dims(node.inputs[0])[axis]
        if size < 0:
            raise Unsupported("the size of the split axis is unknown", "give --inputShape")
        chunk = -(-size // count)
        sections = [chunk] * (count - 1) + [size - chunk * (count - 1)]
    outputs = {"Out": [lowering.result(value) for value in node.outputs]}
    attributes = {"axis": attr(axis), "num": attr(0), "sections": ints(sections)}
    lowering.emit(
        "split", {"X": [lowering.tensor(node.inputs[0])]}, outputs, attributes, dtype=dtype_name(node.inputs[0])
    )


def _slice(lowering: Lowering, node: ir.Node) -> None:
    starts = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "starts"))
    ends = integers(g.input_at(node, 2)) or list(g.ints_attribute(node, "ends"))
    axes = integers(g.input_at(node, 3)) or list(g.ints_attribute(node, "axes")) or list(range(len(starts)))
    steps = integers(g.input_at(node, 4)) or [1] * len(starts)
    dimensions = rank(node.inputs[0])
    attributes = {
        "axes": ints([axis % dimensions for axis in axes]),
        "starts": ints([_clamp(v) for v in starts]),
        "ends": ints([_clamp(v) for v in ends]),
        "infer_flags": ints([1] * len(axes)),
        "decrease_axis": ints(()),
    }
    operator = "slice"
    if any(step != 1 for step in steps):
        operator = "strided_slice"
        if any(step < 0 for step in steps):
            _reverse(lowering, node, axes, starts, ends, steps)
            return
        attributes["strides"] = ints(steps)
    inputs = {"Input": [lowering.tensor(node.inputs[0])]}
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit(operator, inputs, outputs, attributes, dtype=dtype_name(node.inputs[0]))


def _reverse(
    lowering: Lowering, node: ir.Node, axes: list[int], starts: list[int], ends: list[int], steps: list[int]
) -> None:
    """The same elements in rising order, and their axes turned round: there is no kernel for steps back."""
    source, value, dimensions = node.inputs[0], node.outputs[0], rank(node.inputs[0])
    assert source is not None
    sizes = [dims(source)[axis] for axis in axes]
    whole = [
        s == -1 and a in (-1, INT32_MAX, 2**63 - 1) and e <= -INT32_MAX
        for a, e, s in zip(starts, ends, steps, strict=True)
    ]
    name = lowering.tensor(source)
    if not all(whole):
        if any(size < 0 for size in sizes):
            raise Unsupported("a slice with a negative step of an axis of unknown size", "give --inputShape")
        taken = [range(*slice(a, e, s).indices(n)) for a, e, s, n in zip(starts, ends, steps, sizes, strict=True)]
        if any(len(places) == 0 for places in taken):
            raise Unsupported("a slice with a negative step that takes nothing")
        rising = [places if places.step > 0 else places[::-1] for places in taken]
        attributes = {
            "axes": ints([axis % dimensions for axis in axes]),
            "starts": ints([places.start for places in rising]),
            "ends": ints([places[-1] + 1 for places in rising]),
            "strides": ints([places.step for places in rising]),
            "infer_flags": ints([1] * len(axes)),
            "decrease_axis": ints(()),
        }
        part = lowering.temporary(f"{value.name}.rising", dims(value), dtype=element_type(source))
        lowering.emit("strided_slice", {"Input": [name]}, {"Out": [part]}, attributes, dtype=dtype_name(source))
        name = part
    turned = {"axis": ints([axis % dimensions for axis, step in zip(axes, steps, strict=True) if step < 0])}
    lowering.emit("flip", {"X": [name]}, {"Out": [lowering.result(value)]}, turned, dtype=dtype_name(source))


def _clamp(value: int) -> int:
    return max(min(value, INT32_MAX), -INT32_MAX)


def transpose(lowering: Lowering, name: str, result: str, axes: list[int], *, dtype: str = "float32") -> None:
    """``transpose2``."""
    outputs = {"Out": [result], "XShape": [lowering.temporary(f"{result}.xshape")]}
    lowering.emit("transpose2", {"X": [name]}, outputs, {"axis": ints(axes)}, dtype=dtype)


def _transpose(lowering: Lowering, node: ir.Node) -> None:
    axes = g.ints_attribute(node, "perm") or tuple(reversed(range(rank(node.inputs[0]))))
    name, result = lowering.tensor(node.inputs[0]), lowering.result(node.outputs[0])
    transpose(lowering, name, result, list(axes), dtype=dtype_name(node.inputs[0]))


def _pad(lowering: Lowering, node: ir.Node) -> None:
    mode = g.text_attribute(node, "mode", "constant")
    dimensions = rank(node.inputs[0])
    pads = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "pads"))
    fill, axes = number(g.input_at(node, 2), 0.0), integers(g.input_at(node, 3)) or list(range(dimensions))
    begin, end = [0] * dimensions, [0] * dimensions
    for axis, first, last in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        begin[axis], end[axis] = first, last
    if min(pads) < 0:
        raise Unsupported("negative padding", "use Slice")
    if mode == "wrap":
        raise Unsupported("Pad with mode wrap of unknown sizes", "give --inputShape")
    inputs, outputs = {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [lowering.result(node.outputs[0])]}
    if dimensions == 4 and not any(begin[:2] + end[:2]):
        attributes = {
            "mode": attr(mode),
            "pad_value": attr(fill),
            "paddings": ints((begin[2], end[2], begin[3], end[3])),
            "data_format": attr("NCHW"),
        }
        lowering.emit("pad2d", inputs, outputs, attributes)
    elif dimensions == 5 and not any(begin[:2] + end[:2]) and not (mode == "constant" and fill):
        attributes = {
            "mode": attr("replicate" if mode == "edge" else mode),
            "value": attr(fill),
            "paddings": ints((begin[4], end[4], begin[3], end[3], begin[2], end[2])),
            "data_format": attr("NCDHW"),
        }
        lowering.emit("pad3d", inputs, outputs, attributes)
    elif mode == "constant":
        _pad_by_concat(lowering, node, begin, end, fill)
    else:
        raise Unsupported(f"{mode} padding of batch or channels", "only height and width can be padded so")


def _pad_by_concat(lowering: Lowering, node: ir.Node, begin: list[int], end: list[int], fill: float) -> None:
    """Concatenate constant blocks: the operator for any axis came with 2.13, and ``pad3d`` fills with a byte of its value."""
    sizes = list(shape(node.inputs[0]))
    value, name = node.outputs[0], lowering.tensor(node.inputs[0])
    axes = [axis for axis, pair in enumerate(zip(begin, end, strict=True)) if any(pair)]
    if not axes:
        lowering.emit("assign", {"X": [name]}, {"Out": [lowering.result(value)]})
    for axis in axes:
        parts = [name]
        for count, place in ((begin[axis], 0), (end[axis], len(parts) + 1)):
            if count:
                block = (*sizes[:axis], count, *sizes[axis + 1 :])
                parts.insert(place, lowering.filled(f"{node.name}.padding", block, fill))
        sizes[axis] += begin[axis] + end[axis]
        last = axis == axes[-1]
        name = lowering.result(value) if last else lowering.temporary(f"{value.name}.padded", sizes)
        lowering.emit("concat", {"X": parts}, {"Out": [name]}, {"axis": attr(axis)})


def _expand(lowering: Lowering, node: ir.Node) -> None:
    wanted = dims(node.outputs[0])
    if not wanted or -1 in wanted:
        raise Unsupported("Expand needs a known output shape", "give --inputShape")
    missing = len(wanted) - rank(node.inputs[0])
    name = lowering.tensor(node.inputs[0])
    if missing > 0:
        size = (*[1] * missing, *shape(node.inputs[0]))
        lifted = lowering.temporary(f"{name}.lifted", size, dtype=element_type(node.outputs[0]))
        reshape(lowering, name, lifted, size)
        name = lifted
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    expanded = {"shape": ints(wanted)}
    lowering.emit("expand_v2", {"X": [name]}, outputs, expanded, dtype=dtype_name(node.inputs[0]))


def _tile(lowering: Lowering, node: ir.Node) -> None:
    repeats = integers(g.input_at(node, 1)) or []
    inputs, outputs = {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("tile", inputs, outputs, {"repeat_times": ints(repeats)}, dtype=dtype_name(node.inputs[0]))


def _shape(lowering: Lowering, node: ir.Node) -> None:
    """The operator gives int32; ONNX has int64."""
    if "start" in node.attributes or "end" in node.attributes:
        raise Unsupported("a part of Shape", "give --inputShape, so that it can be folded")
    value = node.outputs[0]
    narrow = lowering.temporary(f"{value.name}.int32", dims(value), dtype=VarType.INT32)
    lowering.emit("shape", {"Input": [lowering.tensor(node.inputs[0])]}, {"Out": [narrow]})
    cast(lowering, narrow, VarType.INT32, VarType.INT64, lowering.result(value))


def _depth_to_space(lowering: Lowering, node: ir.Node) -> None:
    block = g.int_attribute(node, "blocksize", 1)
    name, value = lowering.tensor(node.inputs[0]), node.outputs[0]
    if g.text_attribute(node, "mode", "DCR") == "CRD":
        outputs = {"Out": [lowering.result(value)]}
        lowering.emit("pixel_shuffle", {"X": [name]}, outputs, {"upscale_factor": attr(block)})
        return
    batch, channels, height, width = shape(node.inputs[0])
    depth = channels // block**2
    split = (batch, block, block, depth, height, width)
    joined = (batch, depth, height * block, width * block)
    _through_transpose(lowering, name, lowering.result(value), split, [0, 3, 4, 1, 5, 2], joined)


def _space_to_depth(lowering: Lowering, node: ir.Node) -> None:
    block = g.int_attribute(node, "blocksize", 1)
    batch, channels, height, width = shape(node.inputs[0])
    split = (batch, channels, height // block, block, width // block, block)
    joined = (batch, channels * block**2, height // block, width // block)
    name, result = lowering.tensor(node.inputs[0]), lowering.result(node.outputs[0])
    axes = [0, 1, 3, 5, 2, 4] if g.text_attribute(node, "mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    _through_transpose(lowering, name, result, split, axes, joined)


def _through_transpose(
    lowering: Lowering, name: str, result: str, split: tuple[int, ...], axes: list[int], joined: tuple[int, ...]
) -> None:
    """Reshape, transpose, reshape."""
    taken = lowering.temporary(f"{result}.split", split)
    turned = lowering.temporary(f"{result}.turned", [split[axis] for axis in axes])
    reshape(lowering, name, taken, split)
    transpose(lowering, taken, turned, axes)
    reshape(lowering, turned, result, joined)


def _trilu(lowering: Lowering, node: ir.Node) -> None:
    diagonal = integers(g.input_at(node, 1)) or [0]
    attributes = {"diagonal": attr(diagonal[0]), "lower": attr(not g.int_attribute(node, "upper", 1))}
    inputs, outputs = {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("tril_triu", inputs, outputs, attributes, dtype=dtype_name(node.inputs[0]))


GRID_MODES = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest"}
"""Modes of GridSample since operator set 20, and before -> those of Paddle-Lite."""


def _grid_sample(lowering: Lowering, node: ir.Node) -> None:
    source, grid = dims(node.inputs[0]), dims(node.inputs[1])
    if len(source) != 4:
        raise Unsupported("GridSample exists over two dimensions only")
    if source[2:] != grid[1:3]:
        raise Unsupported("GridSample whose grid differs in size from its input", "only release 2.13 can do it")
    mode = g.text_attribute(node, "mode", "bilinear")
    if mode not in GRID_MODES:
        raise Unsupported(
            f"GridSample with mode {mode}", f"only {' and '.join(sorted(set(GRID_MODES.values())))} exist"
        )
    attributes = {
        "align_corners": attr(bool(g.int_attribute(node, "align_corners", 0))),
        "mode": attr(GRID_MODES[mode]),
        "padding_mode": attr(g.text_attribute(node, "padding_mode", "zeros")),
    }
    inputs = {"X": [lowering.tensor(node.inputs[0])], "Grid": [lowering.tensor(node.inputs[1])]}
    lowering.emit("grid_sampler", inputs, {"Output": [lowering.result(node.outputs[0])]}, attributes)


def _constant_of_shape(lowering: Lowering, node: ir.Node) -> None:
    wanted = integers(node.inputs[0])
    value = node.attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else value.as_tensor().numpy()
    shape, number = tuple(wanted or [1]), fill.reshape(-1)[0]
    if fill.dtype == np.float32:
        source = lowering.filled(f"{node.name}.value", shape, float(number))
    else:
        source = lowering.parameter(f"{node.name}.value", np.full(shape, number, fill.dtype))
    lowering.emit("assign", {"X": [source]}, {"Out": [lowering.result(node.outputs[0])]})


def _range(lowering: Lowering, node: ir.Node) -> None:
    """A long one: short ones were folded."""
    bounds = [g.constant(value) for value in node.inputs]
    numbers = [bound.reshape(-1)[0] for bound in bounds if bound is not None]
    if len(numbers) != 3:
        raise Unsupported("a computed bound decides how many elements there are")
    stored = lowering.parameter(f"{node.name}.value", np.arange(*numbers))
    lowering.emit("assign", {"X": [stored]}, {"Out": [lowering.result(node.outputs[0])]})


HANDLERS: dict[str, Handler] = {
    "Concat": _concat,
    "Range": _range,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
    "Shape": _shape,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _trilu,
    "GridSample": _grid_sample,
    "ConstantOfShape": _constant_of_shape,
}
