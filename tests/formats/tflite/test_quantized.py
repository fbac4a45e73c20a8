"""Integers of a file: the plan has its scales, and the graph computes what integer kernels compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.quantization.plan import NodeMode
from tests.formats.tflite import reference
from tests.formats.tflite.case import i32, normal, whole
from tests.formats.tflite.files import File, quant
from tests.formats.tflite.running import on_grid, operators, outputs, read, reals

INT8, UINT8, INT16, INT32 = TensorType.INT8, TensorType.UINT8, TensorType.INT16, TensorType.INT32
STEPS = {"stride_h": 1, "stride_w": 1}
IN, OUT = (0.05, 3), (0.11, -7)
"""Scale and zero point of what goes in and comes out."""

Integers = NDArray[np.int64]


def integers(*shape: int, low: int = -127, high: int = 128, seed: int = 0) -> NDArray[np.int8]:
    return whole(low, high, *shape, dtype=np.int8, seed=seed)


def requantized(total: NDArray[np.float64], zero: int, low: int = -128, high: int = 127) -> Integers:
    return np.clip(np.rint(total) + zero, low, high).astype(np.int64)


def assert_steps(found: NDArray[np.floating], expected: Integers, scale: float, zero: int, least: float = 0.99) -> None:
    """Nearly all results are the expected integers, the others are beside them."""
    steps = np.abs(on_grid(found, scale, zero, -(2**15), 2**16) - expected)
    assert steps.max() <= 1
    assert (steps == 0).mean() >= least


def convolution(kind: str, scales: NDArray[np.float32], axis: int, weight: NDArray[np.int8], count: int) -> File:
    file = File()
    main = file.main
    x = main.input((1, 6, 5, 4), INT8, quant=quant(*IN), name="x")
    w = main.constant(weight, quant=quant(scales, 0, axis), name="w")
    own = quant(scales * np.float32(IN[0]), 0, 0)
    b = main.constant(whole(-900, 900, count), quant=own, name="b")
    y = main.tensor((1, 6, 5, count), INT8, quant=quant(*OUT), name="y")
    extra = {"depth_multiplier": 1} if kind == "DEPTHWISE_CONV_2D" else {}
    main.ends_with(*main.op(kind, [x, w, b], [y], padding=0, activation=1, **STEPS, **extra))
    return file


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
def test_a_convolution_computes_with_the_integers_of_the_file(kind: str, per_channel: bool) -> None:
    is_deep = kind == "CONV_2D"
    count = 8 if is_deep else 4
    weight = integers(8, 3, 3, 4) if is_deep else integers(1, 3, 3, 4)
    scales = np.linspace(0.01, 0.03, count, dtype=np.float32) if per_channel else np.array([0.02], np.float32)
    file = convolution(kind, scales, 0 if is_deep else 3, weight, count)
    quantized = read(file)
    plan = quantized.plan
    assert {decision.mode for decision in plan.nodes.values()} == {NodeMode.INTEGER}
    assert (float(plan.activations["x"].scale), int(plan.activations["x"].zero_point)) == (np.float32(IN[0]), IN[1])
    assert (float(plan.activations["y"].scale), int(plan.activations["y"].zero_point)) == (np.float32(OUT[0]), OUT[1])
    np.testing.assert_array_equal(np.atleast_1d(plan.weights["w"].scale), scales)
    np.testing.assert_array_equal(np.atleast_1d(plan.weights["b"].scale), scales * np.float32(IN[0]))
    assert plan.weights["w"].spec.axis == (0 if per_channel else None)
    assert plan.weights["b"].spec.bits == 32
    q = integers(1, 6, 5, 4, seed=3)
    compute = reference.conv if is_deep else reference.depthwise
    total = compute((q.astype(np.float32) - IN[1]), weight.astype(np.float32), padding="SAME").astype(np.float64)
    total += whole(-900, 900, count)
    total *= np.float64(np.float32(IN[0])) * scales / np.float64(np.float32(OUT[0]))
    expected = requantized(np.maximum(total, 0), OUT[1])
    (found,) = outputs(quantized, reals(q, *IN))
    assert_steps(found, expected, *OUT)


def test_a_fully_connected_layer_with_kept_axes_computes_with_integers() -> None:
    file, weight = File(), integers(5, 8)
    main = file.main
    x = main.input((2, 3, 8), INT8, quant=quant(*IN), name="x")
    w = main.constant(weight, quant=quant(0.02), name="w")
    bias = whole(-900, 900, 5)
    y = main.tensor((2, 3, 5), INT8, quant=quant(*OUT), name="y")
    main.ends_with(*main.op("FULLY_CONNECTED", [x, w, main.constant(bias)], [y], keep_num_dims=True))
    quantized = read(file)
    assert operators(quantized) == {"Reshape": 2, "Gemm": 1}
    q = integers(2, 3, 8, seed=4)
    total = (q.astype(np.int64) - IN[1]) @ weight.astype(np.int64).T + bias
    factor = np.float64(np.float32(IN[0])) * np.float64(np.float32(0.02)) / np.float64(np.float32(OUT[0]))
    (found,) = outputs(quantized, reals(q, *IN))
    assert_steps(found, requantized(total * factor, OUT[1]), *OUT)


def test_a_weight_of_an_older_converter_keeps_its_zero_point() -> None:
    file, weight = File(), whole(0, 256, 5, 8, dtype=np.uint8)
    main = file.main
    x = main.input((3, 8), UINT8, quant=quant(0.05, 120), name="x")
    w = main.constant(weight, quant=quant(0.02, 131), name="w")
    y = main.tensor((3, 5), UINT8, quant=quant(0.2, 100), name="y")
    main.ends_with(*main.op("FULLY_CONNECTED", [x, w, main.constant(whole(-900, 900, 5))], [y]))
    quantized = read(file)
    params = quantized.plan.weights["w"]
    assert (int(params.zero_point), params.spec.signed, params.spec.bits) == (131, False, 8)
    q = whole(0, 256, 3, 8, dtype=np.uint8, seed=4)
    total = (q.astype(np.int64) - 120) @ (weight.astype(np.int64) - 131).T + whole(-900, 900, 5)
    factor = np.float64(np.float32(0.05)) * np.float64(np.float32(0.02)) / np.float64(np.float32(0.2))
    (found,) = outputs(quantized, reals(q, 0.05, 120))
    assert_steps(found, requantized(total * factor, 100, 0, 255), 0.2, 100)


def test_activations_of_sixteen_bits_have_biases_of_sixty_four() -> None:
    file, weight = File(), integers(5, 8)
    main = file.main
    x = main.input((3, 8), INT16, quant=quant(0.0005), name="x")
    w = main.constant(weight, quant=quant(np.linspace(0.01, 0.02, 5)), name="w")
    bias = whole(-90000, 90000, 5, dtype=np.int64)
    b = main.constant(bias, quant=quant(np.linspace(0.01, 0.02, 5, dtype=np.float32) * np.float32(0.0005)))
    y = main.tensor((3, 5), INT16, quant=quant(0.001), name="y")
    main.ends_with(*main.op("FULLY_CONNECTED", [x, w, b], [y]))
    quantized = read(file)
    assert (quantized.plan.activations["x"].spec.bits, quantized.plan.weights.keys()) == (16, {"w"})
    q = whole(-(2**15), 2**15, 3, 8, dtype=np.int16)
    scales = np.linspace(0.01, 0.02, 5, dtype=np.float32).astype(np.float64)
    total = (q.astype(np.int64) @ weight.astype(np.int64).T + bias) * scales * np.float64(np.float32(0.0005))
    expected = requantized(total / np.float64(np.float32(0.001)), 0, -(2**15), 2**15 - 1)
    (found,) = outputs(quantized, reals(q, 0.0005, 0))
    assert_steps(found, expected, 0.001, 0, least=0.9)


def test_products_of_different_data_may_share_a_bias_which_is_added_as_integers() -> None:
    file, weight = File(), integers(5, 8)
    main = file.main
    x, bias = main.input((3, 8), INT16, quant=quant(0.0005), name="x"), whole(-90000, 90000, 5, dtype=np.int64)
    w = main.constant(weight, quant=quant(0.02), name="w")
    b = main.constant(bias, quant=quant(np.float32(0.02) * np.float32(0.0002), 0))  # of the product of other data
    y = main.tensor((3, 5), INT16, quant=quant(0.001), name="y")
    main.ends_with(*main.op("FULLY_CONNECTED", [x, w, b], [y]))
    q = whole(-(2**15), 2**15, 3, 8, dtype=np.int16)
    total = (q.astype(np.int64) @ weight.astype(np.int64).T + bias) * np.float64(np.float32(0.02)) * np.float32(0.0005)
    expected = requantized(total / np.float64(np.float32(0.001)), 0, -(2**15), 2**15 - 1)
    (found,) = outputs(read(file), reals(q, 0.0005, 0))
    assert_steps(found, expected, 0.001, 0, least=0.9)


def test_a_product_of_two_activations_is_rounded_twice() -> None:
    """To a whole multiple of a power of two, with a number of 31 bits, and then to the grid; halves away from zero."""
    file, made = File(), (0.093, 4)
    main = file.main
    left, right = (
        main.input(shape, INT8, quant=quant(*IN), name=name) for name, shape in (("a", (9, 4)), ("b", (4, 30)))
    )
    y = main.tensor((9, 30), INT8, quant=quant(*made), name="y")
    main.ends_with(*main.op("BATCH_MATMUL", [left, right], [y]))
    a, b = integers(9, 4, low=-20, high=20), integers(4, 30, low=-20, high=20, seed=5)
    sums = (a.astype(np.int64) - IN[1]) @ (b.astype(np.int64) - IN[1])
    factor, exponent = np.frexp(np.float64(np.float32(IN[0])) ** 2 / np.float64(np.float32(made[0])))
    once = np.rint(sums * factor) * 2.0 ** int(exponent)
    expected = np.clip(np.sign(once) * np.floor(np.abs(once) + 0.5) + made[1], -128, 127).astype(np.int64)
    (found,) = outputs(read(file), reals(a, *IN), reals(b, *IN))
    assert_steps(found, expected, *made, least=1.0)
    assert np.any(requantized(sums * factor * 2.0 ** int(exponent), made[1]) != expected)


def half_away(values: NDArray[np.float64]) -> Integers:
    return (np.sign(values) * np.floor(np.abs(values) + 0.5)).astype(np.int64)


@pytest.mark.parametrize("zero", [-128, 127, 5])
@pytest.mark.parametrize("padding", [0, 1], ids=["SAME", "VALID"])
def test_averages_of_integers_are_rounded_away_from_zero(zero: int, padding: int) -> None:
    file = File()
    main = file.main
    grid = quant(0.13, zero)
    x = main.input((1, 8, 8, 3), INT8, quant=grid, name="x")
    size = 4 if padding else 8
    y = main.tensor((1, size, size, 3), INT8, quant=grid, name="y")
    stride = 2 if padding else 1
    window = {"filter_h": 2, "filter_w": 2, "stride_h": stride, "stride_w": stride}
    main.ends_with(*main.op("AVERAGE_POOL_2D", [x], [y], padding=padding, **window))
    q = integers(1, 8, 8, 3, low=-128)
    seen = reference.windows(q.astype(np.float64), (2, 2), (stride, stride), (1, 1), ("SAME", "VALID")[padding], np.nan)
    expected = half_away(np.nanmean(seen, (3, 4)))
    (found,) = outputs(read(file), reals(q, 0.13, zero))
    # where the integer itself is nearly zero, float32 cannot tell on which side of a half an average lies
    far = np.abs(np.nanmean(seen, (3, 4))) > 2
    np.testing.assert_array_equal(on_grid(found, 0.13, zero)[far], expected[far])


@pytest.mark.parametrize(
    ("kind", "compute"),
    [
        ("ADD", lambda a, b: a + b),
        ("SUB", lambda a, b: a - b),
        ("MUL", lambda a, b: a * b),
        ("MAXIMUM", np.maximum),
    ],
)
def test_integers_on_different_grids_are_combined_as_real_numbers(
    kind: str, compute: Callable[..., NDArray[np.float64]]
) -> None:
    file = File()
    main = file.main
    x = main.input((1, 4, 5, 3), INT8, quant=quant(*IN), name="x")
    y = main.input((1, 4, 5, 3), INT8, quant=quant(0.03, -20), name="y")
    z = main.tensor((1, 4, 5, 3), INT8, quant=quant(*OUT), name="z")
    main.ends_with(*main.op(kind, [x, y], [z]))
    a, b = integers(1, 4, 5, 3), integers(1, 4, 5, 3, seed=5)
    real = reals(a, *IN), reals(b, 0.03, -20)
    (found,) = outputs(read(file), *real)
    expected = requantized(compute(*(r.astype(np.float64) for r in real)) / np.float64(np.float32(OUT[0])), OUT[1])
    assert_steps(found, expected, *OUT)


def test_quantize_and_dequantize_are_no_nodes_where_the_plan_says_the_same() -> None:
    file, weight = File(), integers(5, 8)
    main = file.main
    x = main.input((3, 8), name="x")
    q = main.tensor((3, 8), INT8, quant=quant(*IN), name="q")
    y = main.tensor((3, 5), INT8, quant=quant(*OUT), name="y")
    z = main.tensor((3, 5), name="z")
    main.op("QUANTIZE", [x], [q])
    main.op("FULLY_CONNECTED", [q, main.constant(weight, quant=quant(0.02)), -1], [y])
    main.ends_with(*main.op("DEQUANTIZE", [y], [z]))
    quantized = read(file)
    assert operators(quantized) == {"Gemm": 1}
    given = normal(3, 8)
    total = (on_grid(given, *IN) - IN[1]) @ weight.astype(np.int64).T
    factor = np.float64(np.float32(IN[0])) * np.float64(np.float32(0.02)) / np.float64(np.float32(OUT[0]))
    (found,) = outputs(quantized, given)
    assert_steps(found, requantized(total * factor, OUT[1]), *OUT)


def up(numbers: NDArray[np.floating] | Integers, zero: int) -> Integers:
    """Integers of exact numbers; halves go up."""
    return np.clip(np.floor(np.asarray(numbers, np.float64) + 0.5) + zero, -128, 127).astype(np.int64)


def in_256ths(factor: float) -> float:
    return float(np.rint(256 * np.float32(factor)) / 256)


RATIO = float(np.float32(IN[0]) / np.float32(OUT[0]))
EACH = np.arange(-128, 128).astype(np.int8)


def one_operator(kind: str, q: NDArray[np.int8], out: tuple[float, int], **options: object) -> Integers:
    """What one operator makes of integers on the grid of the input."""
    file = File()
    main = file.main
    x = main.input(q.shape, INT8, quant=quant(*IN), name="x")
    y = main.tensor(q.shape, INT8, quant=quant(*out), name="y")
    main.ends_with(*main.op(kind, [x, *([x] if kind == "ADD" else [])], [y], **options))
    (found,) = outputs(read(file), reals(q, *IN))
    return on_grid(found, *out)


def test_a_grid_is_exchanged_for_another_one_by_a_factor_of_256ths() -> None:
    expected = up(in_256ths(RATIO) * (EACH.astype(np.int64) - IN[1]), OUT[1])
    np.testing.assert_array_equal(one_operator("QUANTIZE", EACH, OUT), expected)


def test_a_leaky_relu_multiplies_with_two_factors_of_256ths() -> None:
    x = EACH.astype(np.int64) - IN[1]
    expected = up(np.where(x < 0, in_256ths(0.13 * RATIO), in_256ths(RATIO)) * x, OUT[1])
    np.testing.assert_array_equal(one_operator("LEAKY_RELU", EACH, OUT, alpha=0.13), expected)


def test_halves_of_sums_go_up() -> None:
    wide = (4 * IN[0], 1)
    expected = up((EACH.astype(np.int64) - IN[1]) / 2, wide[1])
    np.testing.assert_array_equal(one_operator("ADD", EACH, wide, activation=0), expected)


def fixed_point(factor: float) -> tuple[int, int]:
    """A factor below one as 31 bits and a shift to the right."""
    mantissa, exponent = np.frexp(factor)
    return int(np.rint(mantissa * 2**31)), -int(exponent)


def scaled(numbers: Integers, factor: float) -> Integers:
    """A product, rounded to a whole number, and halved with halves away from zero."""
    multiplier, shift = fixed_point(factor)
    high = (numbers * multiplier + 2**30) >> 31
    return np.where(high < 0, -1, 1) * ((np.abs(high) + (1 << shift >> 1)) >> shift)


@pytest.mark.parametrize("steps", [(0.05, 0.013), (0.013, 0.05), (0.05, 0.05), (0.05, 0.04), (0.002, 0.05)], ids=str)
def test_squared_differences_are_those_of_64ths_of_the_coarser_step(steps: tuple[float, float]) -> None:
    a, b, out = integers(40, 50), integers(40, 50), (0.2, -128)
    file = File()
    main = file.main
    x = main.input(a.shape, INT8, quant=quant(steps[0], 3), name="x")
    z = main.input(b.shape, INT8, quant=quant(steps[1], -5), name="z")
    y = main.tensor(a.shape, INT8, quant=quant(*out), name="y")
    main.ends_with(*main.op("SQUARED_DIFFERENCE", [x, z], [y]))
    (found,) = outputs(read(file), reals(a, steps[0], 3), reals(b, steps[1], -5))
    coarser = 2 * float(max(map(np.float32, steps)))
    difference = scaled(128 * (a.astype(np.int64) - 3), float(np.float32(steps[0])) / coarser) - scaled(
        128 * (b.astype(np.int64) + 5), float(np.float32(steps[1])) / coarser
    )
    factor = coarser**2 / (128**2 * float(np.float32(out[0])))
    expected = np.clip(scaled(difference**2, factor) + out[1], -128, 127)
    np.testing.assert_array_equal(on_grid(found, *out), expected)


def test_square_roots_are_cut_off() -> None:
    q, out = EACH[IN[1] <= EACH], (0.02, -100)
    roots = np.sqrt((q.astype(np.float64) - IN[1]) * np.float32(IN[0])) / np.float32(out[0])
    np.testing.assert_array_equal(one_operator("SQRT", q, out), np.clip(np.floor(roots + 1e-6) + out[1], -128, 127))


@pytest.mark.parametrize("sizes", [(8, 8), (6, 7)], ids=str)
def test_integers_between_others_have_places_of_2048ths_and_halves_go_up(sizes: tuple[int, int]) -> None:
    q = integers(1, 4, 4, 3)
    file = File()
    main = file.main
    x = main.input(q.shape, INT8, quant=quant(*IN), name="x")
    y = main.tensor((1, *sizes, 3), INT8, quant=quant(*IN), name="y")
    main.ends_with(*main.op("RESIZE_BILINEAR", [x, main.constant(i32(*sizes))], [y], half_pixel_centers=True))
    (found,) = outputs(read(file), reals(q, *IN))
    total = q.astype(np.int64)
    for axis, size in enumerate(sizes, 1):
        scale = np.float32(4) / np.float32(size)
        places = np.clip(np.arange(size, dtype=np.float32) * scale + (np.float32(0.5) * scale - np.float32(0.5)), 0, 3)
        before = places.astype(np.int64)
        part = np.rint((places - before) * 2048).astype(np.int64).reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        first, second = (np.take(total, each, axis) for each in (before, np.minimum(before + 1, 3)))
        total = first * 2048 + (second - first) * part
    np.testing.assert_array_equal(on_grid(found, *IN), (total + (1 << 21)) >> 22)


@pytest.mark.parametrize(("kernel", "padding", "zero"), [(2, 1, 3), (2, 1, 1), (2, 1, -128), (3, 0, 3)])
def test_halves_of_averages_go_away_from_the_zero_of_the_file(kernel: int, padding: int, zero: int) -> None:
    q, size = integers(1, 6, 6, 2), 6 if padding == 0 else 7 - kernel
    file = File()
    main = file.main
    x = main.input(q.shape, INT8, quant=quant(0.05, zero), name="x")
    y = main.tensor((1, size, size, 2), INT8, quant=quant(0.05, zero), name="y")
    window = {"filter_h": kernel, "filter_w": kernel, "padding": padding}
    main.ends_with(*main.op("AVERAGE_POOL_2D", [x], [y], **window, **STEPS))
    (found,) = outputs(read(file), reals(q, 0.05, zero))
    border = [(0, 0), (padding == 0,) * 2, (padding == 0,) * 2, (0, 0)]
    total, count = (
        np.lib.stride_tricks.sliding_window_view(np.pad(each, border), (kernel, kernel), (1, 2)).sum((-1, -2))
        for each in (q.astype(np.int64), np.ones(q.shape, np.int64))
    )
    expected = np.trunc(total / count + 0.5 * np.sign(total))
    np.testing.assert_array_equal(on_grid(found, 0.05, zero), expected)


def test_unsigned_integers_become_signed_ones_without_rounding() -> None:
    file = File()
    main = file.main
    x = main.input((4, 8), UINT8, quant=quant(0.05, 131), name="x")
    q = main.tensor((4, 8), INT8, quant=quant(0.05, 3), name="q")
    y = main.tensor((4, 5), INT8, quant=quant(*OUT), name="y")
    main.op("QUANTIZE", [x], [q])
    main.ends_with(*main.op("FULLY_CONNECTED", [q, main.constant(integers(5, 8), quant=quant(0.02)), -1], [y]))
    quantized = read(file)
    assert operators(quantized) == {"Gemm": 1}
    params = quantized.plan.activations["x"]
    assert (int(params.zero_point), params.spec.signed) == (3, True)


def test_a_real_number_that_was_quantized_is_rounded_for_float_operators_too() -> None:
    file = File()
    main = file.main
    x = main.input((16,), INT8, quant=quant(*IN), name="x")
    y, z = main.tensor((16,), name="y"), main.tensor((16,), name="z")
    main.op("DEQUANTIZE", [x], [y])
    main.ends_with(*main.op("EXP", [y], [z]))
    given = normal(16)
    (found,) = outputs(read(file), given)
    np.testing.assert_allclose(found, np.exp(reals(on_grid(given, *IN), *IN)), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "shape", "options", "mode", "operator"),
    [
        ("FULLY_CONNECTED", (5, 8), {}, NodeMode.DYNAMIC, "Gemm"),
        ("CONV_2D", (5, 1, 1, 8), {"padding": 1, **STEPS}, NodeMode.WEIGHT, "Conv"),
        ("EMBEDDING_LOOKUP", (8, 5), {}, NodeMode.WEIGHT, "Gather"),
    ],
)
def test_integer_weights_of_float_operators_stay_integers(
    kind: str, shape: tuple[int, ...], options: dict[str, int], mode: NodeMode, operator: str
) -> None:
    file, weight = File(), integers(*shape)
    main, is_table = file.main, kind == "EMBEDDING_LOOKUP"
    w = main.constant(weight, quant=quant(0.02), name="w")
    if is_table:
        given = i32(3, 0, 7)
        x, y = main.input((3,), INT32, name="x"), main.tensor((3, 5), name="y")
    else:
        given = normal(3, 8) if kind == "FULLY_CONNECTED" else normal(1, 3, 4, 8)
        x, y = main.input(given.shape, name="x"), main.tensor((*given.shape[:-1], 5), name="y")
    main.ends_with(*main.op(kind, [x, w] if is_table else [x, w, main.constant(normal(5))], [y], **options))
    quantized = read(file)
    modes = {node.op_type: quantized.plan.mode(node) for node in quantized.model.graph}
    assert modes[operator] is mode
    assert float(quantized.plan.weights["w"].scale) == np.float32(0.02)
    stored = np.sort(np.asarray(quantized.integers("w")), None)
    np.testing.assert_array_equal(stored, np.sort(weight.astype(np.int32), None))
    real = reals(weight, 0.02, 0)
    expected = real[given] if is_table else given @ real.reshape(5, 8).T + normal(5)
    (found,) = outputs(quantized, given)
    limit = 0.05 if mode is NodeMode.DYNAMIC else 1e-5
    assert np.abs(found - expected).max() <= limit * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["RESHAPE", "MAX_POOL_2D"])
def test_integers_that_change_their_meaning_on_the_way_are_refused(kind: str) -> None:
    file = File()
    main = file.main
    x = main.input((1, 2, 2, 3), INT8, quant=quant(*IN), name="x")
    y = main.tensor((1, 2, 2, 3), INT8, quant=quant(*OUT), name="y")
    inputs = [x, main.constant(i32(1, 2, 2, 3))] if kind == "RESHAPE" else [x]
    window = {} if kind == "RESHAPE" else {"filter_h": 1, "filter_w": 1, "padding": 1, **STEPS}
    main.ends_with(*main.op(kind, inputs, [y], **window))
    with pytest.raises(ModelError, match="different scales") as caught:
        read(file)
    assert f"{kind} -> y" in str(caught.value)
