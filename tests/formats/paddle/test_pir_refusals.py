"""Operations that are read, in forms that are not: each is refused with its place and reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_models import VECTOR, Dtype, PirProgram

Build = Callable[[PirProgram, int], Any]
PICTURE = (1, 4, 8, 8)
OPEN = (1, 4, -1, -1)
WINDOW = {"strides": [2, 2], "paddings": [0, 0], "groups": 1, "dilations": [1, 1], "output_padding": []}


def pooled(kind: str, *size: int) -> Build:
    return lambda p, x: p.op(
        "pool2d", x, p.ints(*size), pooling_type=kind, adaptive=True, strides=[1, 1], paddings=[0, 0]
    )


def spread(size: Sequence[int] = (), **changed: Any) -> Build:
    given = {**WINDOW, **changed}
    return lambda p, x: p.op("conv2d_transpose", x, p.parameter("w", random(4, 5, 3, 3)), p.ints(*size), **given)


def written(axes: Sequence[int], **changed: Any) -> Build:
    def build(p: PirProgram, x: int) -> int:
        bounds = [p.ints(*([number] * len(axes))) for number in (0, 2, 1)]
        return p.op("set_value_", x, *bounds, axes=list(axes), shape=[1], values=[1.0], **changed)

    return build


def recurrent(count: int, **changed: Any) -> Build:
    def build(p: PirProgram, x: int) -> int:
        arrays = [
            p.parameter(f"w{place}", random(*shape)) for place, shape in enumerate(((16, 8), (16, 4), (16,), (16,)))
        ]
        state = p.parameter("s", random(1, 1, 4))
        numbers: dict[str, Any] = {
            "mode": "LSTM",
            "num_layers": 1,
            "hidden_size": 4,
            "is_bidirec": False,
            "is_test": True,
        }
        operands = [x, p.combine(state, state), p.combine(*arrays[:count]), 0, 0]
        return p.add(
            "1.rnn", operands, [VECTOR["D"][0], VECTOR["D"][0], VECTOR, VECTOR["D"][0]], **{**numbers, **changed}
        )[0]

    return build


def suppressed(boxes: Sequence[int], **changed: Any) -> Build:
    def build(p: PirProgram, x: int) -> int:
        numbers: dict[str, Any] = {"score_threshold": 0.1, "nms_top_k": 9, "keep_top_k": 9, "nms_threshold": 0.6}
        numbers |= {"nms_eta": 1.0, "background_label": -1, "normalized": True, **changed}
        given = p.input("boxes", boxes)
        return p.op("multiclass_nms3", given, x, given if changed.get("listed") else 0, results=3, **numbers)

    return build


def training(rule: str, operands: int = 1, **attributes: Any) -> Build:
    return lambda p, x: p.op(
        rule, x, *[p.parameter(f"w{i}", random(4)) for i in range(operands - 1)], is_test=False, **attributes
    )


CASES: dict[str, tuple[Sequence[int], Build, str]] = {
    "an open size": (
        OPEN,
        pooled("avg", 3, 3),
        r"from \[-1, -1\] to \[3, 3\]: the size of the input has to be known",
    ),
    "many windows": ((1, 1, 99, 99), pooled("max", 40, 40), "has too many different windows"),
    "SAME of an open size": (
        OPEN,
        spread(padding_algorithm="SAME"),
        "padding SAME of a transposed",
    ),
    "a size below": (PICTURE, spread((9, 9)), r"output size \[9, 9\] is below \[17, 17\]"),
    "three paddings": (PICTURE, spread(paddings=[1, 1, 1]), "it has 3 paddings"),
    "normalized dimensions": (
        (1, 4, -1),
        lambda p, x: p.op("layer_norm", x, 0, 0, results=3, begin_norm_axis=2, epsilon=1e-5),
        "the normalized dimensions are not known",
    ),
    "groups": (
        PICTURE,
        lambda p, x: p.op("group_norm", x, 0, 0, results=3, groups=3),
        "4 channels in 3 groups",
    ),
    "channels": (
        (1, -1, 8, 8),
        lambda p, x: p.op("unfold", x, kernel_sizes=[2, 2], strides=[1, 1], paddings=[0, 0, 0, 0], dilations=[1, 1]),
        "the number of channels is not known",
    ),
    "an open diagonal": (
        (-1, 4),
        lambda p, x: p.op("diag", x, offset=0, padding_value=0.0),
        "a diagonal of unknown size",
    ),
    "open planes": (
        (1, 2, -1, 4),
        lambda p, x: p.op(
            "unpool",
            x,
            p.op("cast", x, dtype=Dtype("int32")),
            p.ints(2, 4),
            ksize=[2, 2],
            strides=[2, 2],
            padding=[0, 0],
        ),
        "the size of its planes is not known",
    ),
    "blocks": (
        PICTURE,
        lambda p, x: p.op("pixel_unshuffle", x, downscale_factor=3, data_format="NCHW"),
        "8 x 8 pixels in blocks of 3",
    ),
    "uneven groups": (PICTURE, lambda p, x: p.op("maxout", x, groups=3, axis=1), "4 channels in groups of 3"),
    "shuffled groups": (
        PICTURE,
        lambda p, x: p.op("shuffle_channel", x, group=3),
        "cannot be shuffled",
    ),
    "overwriting an open size": (OPEN, written([2]), "a dimension whose size is not known"),
    "a new axis": (PICTURE, written([2], none_axes=[0]), "with a new axis"),
    "two rests": (
        OPEN,
        lambda p, x: p.listed("split", x, p.ints(-1, -1), p.full(2, "int32"), count=2)[0],
        r"sections \[-1, -1\]",
    ),
    "sections": (
        PICTURE,
        lambda p, x: p.listed("split", x, p.ints(9, -1), p.full(2, "int32"), count=2)[0],
        "of 8 elements",
    ),
    "rolling what is open": (OPEN, lambda p, x: p.op("roll", x, p.ints(2), axis=[]), "its size is not known"),
    "repetitions": (
        PICTURE,
        lambda p, x: p.op("tile", x, p.input("n", (-1,), "int64")),
        "the number of its repetitions is not known",
    ),
    "masks": (
        PICTURE,
        lambda p, x: p.op("masked_select", x, p.input("m", (1, 4), "bool")),
        "its mask has another shape",
    ),
    "sums behind a mask": (
        PICTURE,
        lambda p, x: p.op(
            "index_put", x, p.combine(p.input("m", PICTURE, "bool")), p.input("v", (3,)), accumulate=False
        ),
        "a mask says where several values",
    ),
    "places of several shapes": (
        PICTURE,
        lambda p, x: p.op("index_put", x, p.combine(p.ints(1), p.ints(1, 2)), p.full(1.0), accumulate=False),
        "its tensors of places have different shapes",
    ),
    "means": (
        (3, 4),
        lambda p, x: p.op("put_along_axis", x, p.input("i", (3, 1), "int64"), p.full(1.0), axis=1, reduce="mean"),
        "values that are put by mean",
    ),
    "sums along columns": (
        (3, 4),
        lambda p, x: p.op("index_add", x, p.ints(1), p.input("v", (3, 1)), axis=1),
        "sums along another axis than the first",
    ),
    "an axis that is computed": (
        (3, 4),
        lambda p, x: p.op("gather", x, p.ints(1), p.input("a", (1,), "int64")),
        "its axis is computed at run time",
    ),
    "boxes in one list": (
        (1, 3, 5),
        suppressed((1, 5, 4), listed=True),
        "boxes of several pictures in one list",
    ),
    "polygons": ((1, 3, 5), suppressed((1, 5, 8)), "boxes of 8 numbers"),
    "a falling threshold": (
        (1, 3, 5),
        suppressed((1, 5, 4), nms_eta=0.9),
        "a threshold that changes",
    ),
    "unknown classes": (
        (1, -1, 5),
        suppressed((1, 5, 4), background_label=0),
        "the number of classes is not known",
    ),
    "few scores": (
        (1, 3, 5),
        lambda p, x: p.op("matrix_nms", p.input("b", (5, 4)), x, results=3, background_label=-1),
        "boxes that are not rectangles, or of several pictures",
    ),
    "no anchors": (
        (1, 18, -1, -1),
        lambda p, x: p.op("yolo_box", x, p.input("s", (1, 2), "int32"), results=2, anchors=[], class_num=4),
        "it has no anchors",
    ),
    "open pictures": (
        OPEN,
        lambda p, x: p.op("prior_box", x, p.input("i", (1, 3, 9, 9)), results=2, min_sizes=[4.0]),
        "the sizes of its inputs are not known",
    ),
    "encoding": (
        (5, 4),
        lambda p, x: p.op("box_coder", x, 0, p.input("t", (2, 5, 4)), code_type="encode_center_size"),
        "boxes are decoded only",
    ),
    "a batch": (
        (2, 4, 8, 8),
        lambda p, x: p.op("roi_align", x, p.input("b", (3, 4)), 0, pooled_height=2, pooled_width=2),
        "boxes of a batch whose size is not 1",
    ),
    "a kind of cell": ((5, 1, 8), recurrent(4, mode="PEEPHOLE"), "a recurrent network of kind PEEPHOLE"),
    "missing biases": ((5, 1, 8), recurrent(2), "it has 2 weights, not 4"),
    "more layers than weights": ((5, 1, 8), recurrent(4, num_layers=9), "it has 4 weights, not 36"),
    "training": ((5, 1, 8), recurrent(4, is_test=False, dropout_prob=0.5), "it is in training mode"),
    "training of dropout": (
        (3, 4),
        lambda p, x: p.op("dropout", x, 0, p.full(0.5), results=2, is_test=False, mode="upscale_in_train"),
        "it is in training mode",
    ),
    "training of slopes": ((3, 4), training("rrelu"), "it is in training mode"),
    "training of a normalization": (
        PICTURE,
        training("batch_norm_", 5, use_global_stats=False),
        "it is in training mode",
    ),
    "factors": (
        PICTURE,
        lambda p, x: p.op("nearest_interp", x, 0, 0, p.input("f", (2,)), out_h=-1, out_w=-1, align_corners=False),
        "factors that are computed at run time",
    ),
    "three factors": (
        PICTURE,
        lambda p, x: p.op("nearest_interp", x, 0, 0, 0, out_h=-1, out_w=-1, scale=[2.0, 2.0, 2.0], align_corners=False),
        "3 factors for 2 dimensions",
    ),
    "no size": (
        PICTURE,
        lambda p, x: p.op("bilinear_interp", x, 0, 0, 0, out_h=-1, out_w=-1, scale=[], align_corners=False),
        r"neither factors nor a size: \[-1, -1\]",
    ),
    "order 0": ((3, 4), lambda p, x: p.op("p_norm", x, porder=0.0, axis=1), "p_norm of order 0"),
    "an open common shape": (
        (-1, 4),
        lambda p, x: p.add("0.split", p.add("1.broadcast_tensors", [p.combine(x, x)], [VECTOR]), [VECTOR["D"][0]] * 2)[
            0
        ],
        "their common shape is not known",
    ),
    "bounds": (
        (1,),
        lambda p, x: p.op("linspace", x, p.full(1.0), p.full(4, "int32"), dtype=Dtype("float32")),
        "its bounds are computed at run time",
    ),
    "no step": (
        (2,),
        lambda p, x: p.op("add", x, p.op("arange", p.full(0.0), p.full(1.0), p.full(0.0), dtype=Dtype("float32"))),
        "a range from 0.0 to 1.0 in steps of 0.0",
    ),
    "dimensions of a place": (
        (3, 4),
        lambda p, x: p.op("argmax", x, p.full(0, "int64"), keepdims=True, flatten=True),
        "of the flattened tensor that keeps dimensions",
    ),
    "slopes": (
        PICTURE,
        lambda p, x: p.op("prelu", x, p.input("a", (4,)), mode="channel"),
        "its slope is not a constant",
    ),
    "slopes of the last": (
        PICTURE,
        lambda p, x: p.op("prelu", x, p.parameter("a", random(8)), mode="channel", data_format="NHWC"),
        "data format NHWC with a slope for each channel",
    ),
    "one factor": ((3, 4), lambda p, x: p.op("multi_dot", p.combine(x)), "a product of fewer than two tensors"),
    "an axis": (
        (3, 4),
        lambda p, x: p.op("flatten", x, start_axis=0, stop_axis=5),
        "axis 5 of 2 dimensions",
    ),
    "paddings": (
        PICTURE,
        lambda p, x: p.op("pad3d", x, p.ints(1, 1, 1, 1, 1, 1), mode="constant", pad_value=0.0, data_format="NCDHW"),
        "its paddings do not fit 4 dimensions",
    ),
    "a huge eye": (
        (2,),
        lambda p, x: p.op(
            "add", x, p.op("eye", p.full(1 << 20, "int32"), p.full(1 << 20, "int32"), dtype=Dtype("float32"))
        ),
        "far more numbers than it holds",
    ),
    "a huge range": (
        (2,),
        lambda p, x: p.op("add", x, p.op("arange", p.full(0.0), p.full(1e30), p.full(1.0), dtype=Dtype("float32"))),
        "far more numbers than it holds",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_an_operation_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    shape, build, message = CASES[name]
    made = PirProgram()
    made.output(build(made, made.input("x", shape)))
    with pytest.raises(ModelError, match=message) as caught:
        read_paddle(made.save(tmp_path / "m"))
    assert "inference.json oper" in caught.value.where
    assert ("call eval() before" in caught.value.hint) == ("training mode" in message)


def test_a_scale_that_reaches_further_than_its_bits_is_refused(tmp_path: Path) -> None:
    """float8, which Paddle writes with the same operators."""
    made = PirProgram()
    scale, zero = made.parameter("s", np.ones(1, np.float32)), made.parameter("z", np.zeros(1, np.float32))
    numbers = {"quant_axis": -1, "bit_length": 8, "qmin": -448, "qmax": 448, "round_type": 0}
    made.output(made.op("quantize_linear", made.input("x", (2,)), scale, zero, 0, 0, results=4, **numbers))
    with pytest.raises(ModelError, match="quantize_linear reaches to 448: these are no integers of 8 bits"):
        read_paddle(made.save(tmp_path / "m"))


@pytest.mark.parametrize(("rule", "axis"), [("conv2d", 1), ("matmul", 0)])
def test_scales_along_another_axis_than_the_operators_are_refused(rule: str, axis: int, tmp_path: Path) -> None:
    made = PirProgram()
    weight = random(4, 4, 1, 1) if rule == "conv2d" else random(4, 4)
    x = made.input("x", (1, 4, 8, 8) if rule == "conv2d" else (2, 4))
    scale, zero = made.parameter("s", np.ones(4, np.float32)), made.parameter("z", np.zeros(4, np.float32))
    stored = made.parameter("w", np.rint(weight * 50).clip(-127, 127).astype(np.int8))
    kind = {"quant_axis": axis, "bit_length": 8, "round_type": 0}
    restored = made.op("dequantize_linear", stored, scale, zero, 0, 0, results=4, **kind)
    given = {"strides": [1, 1], "paddings": [0, 0], "groups": 1, "dilations": [1, 1]} if rule == "conv2d" else {}
    made.output(made.op(rule, x, restored, **given))
    with pytest.raises(ModelError, match=rf"the weight w of {rule}.* has scales along axis {axis}, not {1 - axis}"):
        read_paddle(made.save(tmp_path / "m"))
