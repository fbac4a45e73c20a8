"""Operators that move data or change shapes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer
from converter_lite.formats.paddle.importer.elementwise import output
from converter_lite.formats.paddle.program import Operator


def _list(importer: Importer, values: object, hint: str) -> ir.Value:
    return importer.add_constant(hint, [int(v) for v in values])  # type: ignore[attr-defined]


def _reshape(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    if op.input("Shape") or op.input("ShapeTensor"):
        shape = _shape_tensor(importer, op, ("Shape", "ShapeTensor"))
    else:
        shape = _list(importer, op.get("shape", ()), "shape")
    importer.finish(output(op), "Reshape", value, shape)


def _shape_tensor(importer: Importer, op: Operator, slots: tuple[str, ...]) -> ir.Value:
    """A shape computed at run time: one tensor, or a list of scalars."""
    names = [name for slot in slots for name in op.inputs.get(slot, ())]
    parts = [importer.compute("Cast", importer.value(name), to=int(ir.DataType.INT64)) for name in names]
    return parts[0] if len(parts) == 1 else importer.compute("Concat", *parts, axis=0)


def _flatten(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    if op.type in ("flatten", "flatten2"):
        importer.finish(output(op), "Flatten", value, axis=int(op.get("axis", 1)))
        return
    rank = importer.rank(value)
    start, stop = int(op.get("start_axis", 1)) % rank, int(op.get("stop_axis", -1)) % rank
    known = importer.shape(value) or []
    if start == 1 and stop == rank - 1:
        importer.finish(output(op), "Flatten", value, axis=1)
        return
    if stop == rank - 1:
        shape = [0] * start + [-1]
    elif all(size > 0 for size in known[stop + 1 :]):
        shape = [0] * start + [-1, *known[stop + 1 :]]
    else:
        raise ModelError("the dimensions behind the flattened ones are not known")
    importer.finish(output(op), "Reshape", value, _list(importer, shape, "shape"))


def _axes(importer: Importer, op: Operator) -> None:
    value, axes = importer.value(op.input("X")), list(op.get("axes", ()))
    kind = "Unsqueeze" if op.type.startswith("un") else "Squeeze"
    if kind == "Squeeze" and not axes:
        importer.finish(output(op), kind, value)
    else:
        importer.finish(output(op), kind, value, _list(importer, axes, "axes"))


def _transpose(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), "Transpose", importer.value(op.input("X")), perm=list(op.get("axis", ())))


def _concat(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("X", ())]
    importer.finish(output(op), "Concat", *values, axis=int(op.get("axis", 0)))


def _stack(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("X", ())]
    axis = int(op.get("axis", 0))
    axes = importer.add_constant("axes", [axis])
    parts = [importer.compute("Unsqueeze", value, axes) for value in values]
    importer.finish(output(op, "Y"), "Concat", *parts, axis=axis)


def _split(importer: Importer, op: Operator) -> None:
    names = op.outputs.get("Out", [])
    axis, sections = int(op.get("axis", 0)), list(op.get("sections", ()))
    inputs: list[ir.Value | None] = [importer.value(op.input("X"))]
    attributes = {"axis": axis}
    if sections and not int(op.get("num", 0)):
        inputs.append(_list(importer, sections, "sections"))
    else:
        attributes["num_outputs"] = len(names)
    for name, value in zip(names, importer.node("Split", inputs, attributes, names=names), strict=True):
        importer.bind(name, value)


def _slice(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("Input"))
    axes = [int(axis) for axis in op.get("axes", ())]
    if op.inputs.get("StartsTensor") or op.inputs.get("StartsTensorList") or op.inputs.get("EndsTensorList"):
        raise ModelError("a slice whose bounds are computed at run time")
    bounds = [_list(importer, op.get(key, ()), key) for key in ("starts", "ends")]
    inputs = [value, *bounds, _list(importer, axes, "axes")]
    if op.type == "strided_slice":
        inputs.append(_list(importer, op.get("strides", ()), "strides"))
    dropped = list(op.get("decrease_axis", ()))
    if not dropped:
        importer.finish(output(op), "Slice", *inputs)
        return
    part = importer.compute("Slice", *inputs)
    if len(dropped) == importer.rank(part):  # the runtime keeps one dimension
        importer.finish(output(op), "Reshape", part, importer.add_constant("shape", [1]))
    else:
        importer.finish(output(op), "Squeeze", part, _list(importer, dropped, "axes"))


def _expand(importer: Importer, op: Operator) -> None:
    if op.inputs.get("Shape") or op.inputs.get("expand_shapes_tensor"):
        shape = _shape_tensor(importer, op, ("Shape", "expand_shapes_tensor"))
    else:
        shape = _list(importer, [1 if size == -1 else size for size in op.get("shape", ())], "shape")
    importer.finish(output(op), "Expand", importer.value(op.input("X")), shape)


def _tile(importer: Importer, op: Operator) -> None:
    value, repeats = importer.value(op.input("X")), list(op.get("repeat_times", op.get("expand_times", ())))
    repeats = [1] * (importer.rank(value) - len(repeats)) + repeats
    missing = len(repeats) - importer.rank(value)
    if missing > 0:
        value = importer.compute("Unsqueeze", value, importer.add_constant("axes", list(range(missing))))
    importer.finish(output(op), "Tile", value, _list(importer, repeats, "repeats"))


def _shape(importer: Importer, op: Operator) -> None:
    """The operator gives int32."""
    size = importer.compute("Shape", importer.value(op.input("Input")))
    importer.finish(output(op), "Cast", size, to=int(ir.DataType.INT32))


def _pad(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    given, rank = [int(size) for size in op.get("paddings", ())], importer.rank(value)
    mode = str(op.get("mode", "constant"))
    if op.type == "pad":
        begin, end = given[0::2], given[1::2]
    elif op.type == "pad2d":
        begin, end = [0, 0, given[0], given[2]], [0, 0, given[1], given[3]]
    else:
        begin, end = [0, 0, given[4], given[2], given[0]], [0, 0, given[5], given[3], given[1]]
    if len(begin) != rank or len(end) != rank:
        raise ModelError(f"its paddings do not fit {rank} dimensions")
    fill = importer.add_constant("fill", float(op.get("pad_value", op.get("value", 0.0))), np.float32)
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    importer.finish(output(op), "Pad", value, _list(importer, begin + end, "pads"), fill, mode=mode)


def _pixel_shuffle(importer: Importer, op: Operator) -> None:
    block = int(op.get("upscale_factor", 1))
    importer.finish(output(op), "DepthToSpace", importer.value(op.input("X")), blocksize=block, mode="CRD")


def _shuffle_channel(importer: Importer, op: Operator) -> None:
    value, groups = importer.value(op.input("X")), int(op.get("group", 1))
    shape = importer.shape(value) or []
    if len(shape) != 4 or min(shape[1:]) < 1 or shape[1] % groups:
        raise ModelError("the channels cannot be shuffled: their number is not known or no multiple")
    split = importer.add_constant("shape", [-1, groups, shape[1] // groups, *shape[2:]])
    turned = importer.compute("Transpose", importer.compute("Reshape", value, split), perm=[0, 2, 1, 3, 4])
    importer.finish(output(op), "Reshape", turned, importer.add_constant("shape", [-1, *shape[1:]]))


def _flip(importer: Importer, op: Operator) -> None:
    axes = [int(axis) for axis in op.get("axis", ())]
    lists = [[-1] * len(axes), [-(2**31)] * len(axes), axes, [-1] * len(axes)]
    importer.finish(
        output(op), "Slice", importer.value(op.input("X")), *(importer.add_constant("slice", x) for x in lists)
    )


def _trilu(importer: Importer, op: Operator) -> None:
    diagonal = importer.add_constant("diagonal", int(op.get("diagonal", 0)))
    upper = int(not op.get("lower", True))
    importer.finish(output(op), "Trilu", importer.value(op.input("X")), diagonal, upper=upper)


def _grid(importer: Importer, op: Operator) -> None:
    mode = str(op.get("mode", "bilinear"))
    attributes = {
        "mode": {"bilinear": "linear"}.get(mode, mode),
        "padding_mode": str(op.get("padding_mode", "zeros")),
        "align_corners": int(op.get("align_corners", True)),
    }
    values = [importer.value(op.input("X")), importer.value(op.input("Grid"))]
    importer.finish(output(op, "Output"), "GridSample", *values, **attributes)


def _resize(importer: Importer, op: Operator) -> None:
    if op.inputs.get("OutSize") or op.inputs.get("SizeTensor") or op.inputs.get("Scale"):
        raise ModelError("an output size that is computed at run time")
    value, nearest = importer.value(op.input("X")), op.type.startswith("nearest")
    scale = op.get("scale", ())
    scale = [float(s) for s in (scale if isinstance(scale, tuple) else (scale,)) if float(s) > 0]
    scales = sizes = None
    if scale:
        scales = importer.add_constant("scales", [1.0, 1.0, scale[0], scale[-1]], np.float32)
    else:
        shape = importer.shape(value) or []
        if len(shape) != 4 or min(shape[:2]) < 1:
            raise ModelError("batch and channels are not known")
        sizes = importer.add_constant("sizes", [*shape[:2], int(op.get("out_h", -1)), int(op.get("out_w", -1))])
    coordinates = "half_pixel" if int(op.get("align_mode", 1)) == 0 else "asymmetric"
    if nearest:
        coordinates = "asymmetric"
    if op.get("align_corners", True):
        coordinates = "align_corners"
    attributes = {"mode": "nearest" if nearest else "linear", "coordinate_transformation_mode": coordinates}
    if nearest:
        attributes["nearest_mode"] = "round_prefer_ceil" if op.get("align_corners", True) else "floor"
    inputs = [value, None, scales] if sizes is None else [value, None, None, sizes]
    importer.finish(output(op), "Resize", *inputs, **attributes)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("reshape", "reshape2"), _reshape),
    **dict.fromkeys(("flatten", "flatten2", "flatten_contiguous_range"), _flatten),
    **dict.fromkeys(("squeeze", "squeeze2", "unsqueeze", "unsqueeze2"), _axes),
    **dict.fromkeys(("transpose", "transpose2"), _transpose),
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    **dict.fromkeys(("slice", "strided_slice"), _slice),
    "expand_v2": _expand,
    "tile": _tile,
    "shape": _shape,
    **dict.fromkeys(("pad", "pad2d", "pad3d"), _pad),
    "pixel_shuffle": _pixel_shuffle,
    "shuffle_channel": _shuffle_channel,
    "flip": _flip,
    "tril_triu": _trilu,
    "grid_sampler": _grid,
    **dict.fromkeys(("nearest_interp", "nearest_interp_v2", "bilinear_interp", "bilinear_interp_v2"), _resize),
}
