"""Forms of common operators that few models have, for :mod:`tests.runtimes.ms_cases`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto, helper

from tests.runtimes.ms_case import Case, build, case, const, ints, values, whole
from tests.support import is_since


def biases() -> Iterator[Case]:
    """A bias per row, of as many rows as there are columns."""
    for shape in ((3, 1), (1, 3), (3, 3), (1, 1), (3,)):
        name = "x".join(map(str, shape))
        yield case(f"gemm_square_bias_{name}", "Gemm", values((3, 4)), const((4, 3)), const(shape, 2))


def crops() -> Iterator[Case]:
    """Depthwise transposed convolutions whose pads take away more than the kernel gives."""
    for name, kernel, pads in (
        ("point", (1, 1), (2, 0, 3, 2)),
        ("row", (1, 3), (2, 0, 1, 2)),
        ("corner", (2, 2), (0, 3, 0, 3)),
    ):
        given = values((1, 4, 7, 6)), const((4, 1, *kernel)), const((4,), 2)
        yield case(f"deconv_cropped_{name}", "ConvTranspose", *given, group=4, pads=pads, strides=[2, 1])
    yield case("deconv_cropped_line", "ConvTranspose", values((1, 2, 7)), const((2, 1, 1)), group=2, pads=[2, 0])


def clamps() -> Iterator[Case]:
    """Activations with attributes and bounds that exporters do not write."""
    x = values((3, 4))
    if is_since("onnxruntime", 1, 25):  # older ones do not know this operator set (tried: 1.19)
        yield case("swish", "Swish", x, opset=24)
        yield case("swish_alpha", "Swish", x, opset=24, alpha=0.4)
    for low, high in ((1.0, -1.0), (0.5, 0.5), (6.0, 0.0)):
        yield case(f"clip_from_{low}_to_{high}", "Clip", x, (np.array(low, np.float32),), (np.array(high, np.float32),))


def whole_numbers() -> Iterator[Case]:
    """Whole numbers where models have floats."""
    feed = {"x": (whole((3, 4), 9) - 4).astype(np.int32), "o": (whole((3, 4), 9, 1) - 4).astype(np.int32)}
    bounds = {"low": np.array(0, np.int32), "high": np.array(6, np.int32)}
    for op, behind in itertools.product(("Add", "Mul"), ("Relu", "Clip")):
        names = list(bounds) if behind == "Clip" else []
        nodes = [helper.make_node(op, ["x", "o"], ["m"]), helper.make_node(behind, ["m", *names], ["y0"])]
        constants = {name: bounds[name] for name in names}
        yield Case(f"{op.lower()}_{behind.lower()}_of_whole_numbers", build(nodes, feed, constants), feed)
    yield case("square_of_whole_numbers", "Pow", whole((3, 4), 9) - 4, (np.array(2),))
    yield case("pad_reflect_of_whole_numbers", "Pad", whole((3, 4), 9), ints(1, 0, 1, 2), mode="reflect")
    double = (np.array([1, 1, 2, 2], np.float32),)
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield case("resize_of_whole_numbers", "Resize", whole((1, 2, 4, 5), 9).astype(np.int32), None, double, **modes)
    for kind in (np.int32, np.bool_):
        name = np.dtype(kind).name
        yield case(f"cast_bytes_of_{name}", "Cast", whole((3, 4), 200).astype(kind), to=TensorProto.UINT8)


def powers() -> Iterator[Case]:
    """An exponent with more axes than the base."""
    for exponent in (2.0, 0.5, 3.0, 1.7):
        base = values((2, 3), low=0.2)
        yield case(f"pow_{exponent}_of_three_axes", "Pow", base, (np.full((1, 1, 1), exponent, np.float32),))


def pictures() -> Iterator[Case]:
    """Channels that come last already, pads that cut at one end and repeat at the other, sizes that keep proportions."""
    for name, shape in (("eight", (1, 5, 6, 8)), ("a_cube", (1, 8, 8, 8))):
        turn = helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])
        layer = helper.make_node("Conv", ["t", "w"], ["y0"], pads=[1, 1, 1, 1])
        feed = {"x": values(shape)}
        yield Case(f"channels_last_{name}", build([turn, layer], feed, {"w": values((4, 8, 3, 3), 1)}), feed)
    for mode in ("wrap", "edge", "reflect"):
        yield case(f"pad_{mode}_and_cut", "Pad", values((5, 4)), ints(-1, 2, 2, -1), mode=mode, opset=19)
    for policy, mode in itertools.product(("not_larger", "not_smaller"), ("linear", "cubic", "nearest")):
        kept = {"mode": mode, "keep_aspect_ratio_policy": policy, "axes": [2, 3], "opset": 19}
        yield case(f"resize_{mode}_{policy}", "Resize", values((1, 2, 6, 5)), None, None, ints(3, 9), **kept)


def numbers() -> Iterator[Case]:
    """Numbers without axes that a constant changes, as indices: a row without the axis of a list of rows."""
    feed = {"x": values((5, 4)), "i": np.array(1)}
    for op in ("Add", "Mul", "Sub"):
        nodes = [helper.make_node(op, ["two", "i"], ["k"]), helper.make_node("Gather", ["x", "k"], ["y0"])]
        yield Case(f"gather_of_a_number_{op.lower()}", build(nodes, feed, {"two": np.array(2)}), feed)
    for kind, op in itertools.product((np.float32, np.int64), ("Add", "Div", "Max", "Less")):
        name = f"{op.lower()}_of_numbers_{np.dtype(kind).name}"
        yield case(name, op, np.array(3, kind), (np.array(2, kind),))


def slices() -> Iterator[Case]:
    """Backwards from in front of the first element, which is the first one."""
    for start in (-4, -5, -9):
        yield case(f"slice_backwards_from_{start}", "Slice", values((4, 3)), ints(start), ints(-9), ints(0), ints(-1))
