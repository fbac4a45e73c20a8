"""Cases of operators on pictures: convolutions, pooling, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.formats.tflite import reference
from tests.formats.tflite.case import Case, Fed, i32, normal, single
from tests.formats.tflite.files import File

PADDINGS = {"SAME": 0, "VALID": 1}
TRANSPOSED = "Convolution2DTransposeBias"
IMAGE = normal(2, 9, 7, 6)


def slopes(stride: tuple[int, int] = (1, 1), dilation: tuple[int, int] = (1, 1)) -> dict[str, int]:
    return {"stride_h": stride[0], "stride_w": stride[1], "dilation_h": dilation[0], "dilation_w": dilation[1]}


def convolutions() -> Iterator[Case]:
    weight, bias, filters = normal(5, 3, 2, 6), normal(5), normal(1, 3, 2, 12)
    for padding, number in PADDINGS.items():
        for stride in ((1, 1), (2, 1), (3, 2)):
            options = {"padding": number, **slopes(stride)}
            made = reference.conv(IMAGE, weight, bias, stride=stride, padding=padding)
            yield single(f"{padding} {stride}", "CONV_2D", [Fed(IMAGE), weight, bias], made, **options)
            made = reference.depthwise(IMAGE, filters, stride=stride, padding=padding)
            operands = [Fed(IMAGE), filters, np.zeros(12, np.float32)]
            yield single(f"{padding} {stride}", "DEPTHWISE_CONV_2D", operands, made, depth_multiplier=2, **options)
        options = {"padding": number, **slopes(dilation=(2, 3))}
        made = reference.conv(IMAGE, weight, bias, dilation=(2, 3), padding=padding)
        yield single(f"{padding} apart", "CONV_2D", [Fed(IMAGE), weight, bias], made, **options)
        made = reference.depthwise(IMAGE, filters, normal(12), dilation=(2, 3), padding=padding)
        operands = [Fed(IMAGE), filters, normal(12)]
        yield single(f"{padding} apart", "DEPTHWISE_CONV_2D", operands, made, depth_multiplier=2, **options)
    grouped = normal(4, 3, 3, 3)
    made = reference.conv(IMAGE, grouped, normal(4))
    yield single("in groups", "CONV_2D", [Fed(IMAGE), grouped, normal(4)], made, padding=1, **slopes())
    made = np.clip(reference.conv(IMAGE, weight, bias), 0, 6)
    yield single("relu6", "CONV_2D", [Fed(IMAGE), weight, bias], made, padding=1, activation=3, **slopes())


def deep_convolutions() -> Iterator[Case]:
    volume, weight = normal(1, 5, 6, 7, 2), normal(2, 3, 3, 2, 4)
    turned = np.moveaxis(weight, -1, 0)
    for padding, number in PADDINGS.items():
        steps = {"stride_d": 1, "stride_h": 2, "stride_w": 1}
        made = reference.conv(volume, turned, normal(4), stride=(1, 2, 1), dilation=(1, 1, 1), padding=padding)
        yield single(padding, "CONV_3D", [Fed(volume), weight, normal(4)], made, padding=number, **steps)
    shape, back = (1, 5, 12, 7, 4), normal(2, 3, 3, 4, 2)
    made = reference.conv_transpose(volume, np.moveaxis(back, 3, 0), shape[1:-1], (1, 2, 1), "SAME")
    steps = {"stride_d": 1, "stride_h": 2, "stride_w": 1}
    yield single("", "CONV_3D_TRANSPOSE", [i32(*shape), back, Fed(volume)], made, padding=0, **steps)


def transposed() -> Iterator[Case]:
    weight, x = normal(4, 3, 3, 6), normal(1, 5, 4, 6)
    for padding, stride, out in (
        ("SAME", (2, 2), (10, 8)),
        ("SAME", (2, 2), (9, 7)),
        ("SAME", (3, 3), (15, 12)),
        ("SAME", (1, 1), (5, 4)),
        ("VALID", (2, 2), (11, 9)),
        ("VALID", (2, 2), (12, 10)),
    ):
        options = {"padding": PADDINGS[padding], "stride_h": stride[0], "stride_w": stride[1]}
        made = reference.conv_transpose(x, weight, out, stride, padding)
        yield single(f"{padding} {stride} {out}", "TRANSPOSE_CONV", [i32(1, *out, 4), weight, Fed(x)], made, **options)
    made = np.maximum(reference.conv_transpose(x, weight, (10, 8), (2, 2), "SAME", normal(4)), 0)
    operands = [i32(1, 10, 8, 4), weight, Fed(x), normal(4)]
    yield single("bias, relu", "TRANSPOSE_CONV", operands, made, padding=0, stride_h=2, stride_w=2, activation=1)


def biased() -> Iterator[Case]:
    """MediaPipe's own operator."""
    weight, x, bias = normal(4, 3, 2, 6), normal(1, 5, 4, 6), normal(4)
    for height, width in ((2, 2), (1, 2), (3, 2)):
        made = reference.conv_transpose(x, weight, (5 * height, 4 * width), (height, width), "SAME", bias)
        options = np.array([1, width, height], "<i4").tobytes()
        name = f"{TRANSPOSED} {height} {width}"
        yield single(name, "CUSTOM", [Fed(x), weight, bias], made, custom_code=TRANSPOSED, custom_options=options)


def pooling() -> Iterator[Case]:
    for padding, number in PADDINGS.items():
        for stride in ((1, 1), (2, 3)):
            window = {"padding": number, "stride_h": stride[0], "stride_w": stride[1], "filter_h": 3, "filter_w": 2}
            for kind, reduce in (("AVERAGE_POOL_2D", np.nanmean), ("MAX_POOL_2D", np.nanmax)):
                made = reference.pool(IMAGE, (3, 2), stride, padding, reduce)
                yield single(f"{padding} {stride}", kind, [Fed(IMAGE)], made, **window)
    made = np.sqrt(reference.pool(IMAGE**2, (3, 2), (1, 1), "VALID", np.nanmean))
    window = {"padding": 1, "stride_h": 1, "stride_w": 1, "filter_h": 3, "filter_w": 2}
    yield single("", "L2_POOL_2D", [Fed(IMAGE)], made, **window)


def resizing() -> Iterator[Case]:
    for size in ((18, 14), (20, 5), (4, 3), (1, 1), (111, 149)):  # the last ones are rounded ratios of 9 and 7
        for corners, middles in ((False, False), (True, False), (False, True)):
            flags = {"align_corners": corners, "half_pixel_centers": middles}
            name = f"{size}{' corners' if corners else ''}{' middles' if middles else ''}"
            made = reference.bilinear(IMAGE, size, corners=corners, middles=middles)
            yield single(name, "RESIZE_BILINEAR", [Fed(IMAGE), i32(*size)], made, **flags)
            made = reference.nearest(IMAGE, size, corners=corners, middles=middles)
            yield single(name, "RESIZE_NEAREST_NEIGHBOR", [Fed(IMAGE), i32(*size)], made, **flags)


def blocks() -> Iterator[Case]:
    x = normal(1, 4, 6, 8)
    small = x.reshape(1, 4, 6, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 8, 12, 2)
    yield single("", "DEPTH_TO_SPACE", [Fed(x)], small, block_size=2)
    deep = x.reshape(1, 2, 2, 3, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 32)
    yield single("", "SPACE_TO_DEPTH", [Fed(x)], deep, block_size=2)
    wide = np.pad(x, [(0, 0), (1, 1), (0, 3), (0, 0)])
    many = wide.reshape(1, 3, 2, 3, 3, 8).transpose(2, 4, 0, 1, 3, 5).reshape(6, 3, 3, 8)
    pairs = np.array([[1, 1], [0, 3]], np.int32)
    yield single("", "SPACE_TO_BATCH_ND", [Fed(x), i32(2, 3), pairs], many)
    whole = [(8 * array).astype(np.int32) for array in (x, many)]
    yield single("of whole numbers", "SPACE_TO_BATCH_ND", [Fed(whole[0]), i32(2, 3), pairs], whole[1])
    yield single("", "BATCH_TO_SPACE_ND", [Fed(many), i32(2, 3), pairs], x)


def borders() -> Iterator[Case]:
    x = normal(1, 4, 3, 2)
    pairs = np.array([[0, 0], [1, 2], [0, 1], [2, 0]], np.int32)
    yield single("", "PAD", [Fed(x), pairs], np.pad(x, pairs.tolist()))
    yield single("computed", "PAD", [Fed(x), Fed(pairs)], np.pad(x, pairs.tolist()))
    made = np.pad(x, pairs.tolist(), constant_values=3)
    yield single("", "PADV2", [Fed(x), pairs, np.array(3, np.float32)], made)
    yield single(
        "without the border", "MIRROR_PAD", [Fed(x), pairs // 2], np.pad(x, (pairs // 2).tolist(), "reflect"), mode=0
    )
    yield single("with the border", "MIRROR_PAD", [Fed(x), pairs], np.pad(x, pairs.tolist(), "symmetric"), mode=1)
    once = np.minimum(pairs, 1)
    yield single("with one of the border", "MIRROR_PAD", [Fed(x), once], np.pad(x, once.tolist(), "symmetric"), mode=1)


def dilated() -> Iterator[Case]:
    """A convolution with distances, as three operators."""
    for kind, weight, padding in (
        ("CONV_2D", normal(5, 3, 3, 6), 1),
        ("CONV_2D", normal(5, 3, 3, 6), 0),
        ("DEPTHWISE_CONV_2D", normal(1, 3, 3, 6), 1),
    ):
        file, x = File(), normal(1, 8, 6, 6)
        main, is_own = file.main, padding == 0
        first, last = np.array([[2, 2], [2, 2]], np.int32), np.zeros((2, 2), np.int32)
        first = np.zeros_like(first) if is_own else first
        many = main.tensor((4, 4 + (not is_own) * 2, 3 + (not is_own) * 2, 6))
        source, block = main.input(x.shape), main.constant(i32(2, 2))
        main.op("SPACE_TO_BATCH_ND", [source, block, main.constant(first)], [many])
        count = weight.shape[0] if kind == "CONV_2D" else 6
        inner, out = main.tensor((4, 4, 3, count)), main.tensor((1, 8, 6, count))
        bias = normal(count)
        main.op(
            kind,
            [many, main.constant(weight), main.constant(bias)],
            [inner],
            padding=padding,
            depth_multiplier=1,
            **slopes(),
        ) if (kind != "CONV_2D") else main.op(
            kind, [many, main.constant(weight), main.constant(bias)], [inner], padding=padding, **slopes()
        )
        main.op("BATCH_TO_SPACE_ND", [inner, block, main.constant(last)], [out])
        main.ends_with(out)
        compute = reference.conv if kind == "CONV_2D" else reference.depthwise
        made = compute(x, weight, bias, dilation=(2, 2), padding="SAME")
        yield Case(f"{kind} between blocks, padding {padding}", kind, file.bytes(), (x,), (made,))


def padded() -> Iterator[Case]:
    """A border as an operator of its own, in front of a convolution and of something else."""
    file, x, weight = File(), normal(1, 6, 5, 3), normal(4, 3, 3, 3)
    main = file.main
    wide, out, rest = main.tensor((1, 9, 6, 3)), main.tensor((1, 7, 4, 4)), main.tensor((1, 9, 6, 3))
    pairs = [[0, 0], [1, 2], [0, 1], [0, 0]]
    main.op("PAD", [main.input(x.shape), main.constant(np.array(pairs, np.int32))], [wide])
    main.op("CONV_2D", [wide, main.constant(weight), main.constant(normal(4))], [out], padding=1, **slopes())
    main.op("ABS", [wide], [rest])
    main.ends_with(out, rest)
    border = np.pad(x, pairs)
    expected = (reference.conv(border, weight, normal(4)), np.abs(border))
    yield Case("CONV_2D behind PAD", "CONV_2D", file.bytes(), (x,), expected)


CASES = [
    *convolutions(),
    *deep_convolutions(),
    *transposed(),
    *biased(),
    *pooling(),
    *resizing(),
    *blocks(),
    *borders(),
    *dilated(),
    *padded(),
]
