"""Constants in every form: of few bits, sparse, half floats, outside of the tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ConverterError, FormatError
from converter_lite.formats.tflite.container import parse
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.quantization.plan import NodeMode
from tests.cli.workshop import command
from tests.formats.tflite.case import Array, normal, whole
from tests.formats.tflite.files import File, quant
from tests.formats.tflite.running import operators, outputs, read, reals

DENSE, SPARSE = 0, 1


def layer(file: File, weight: int, shape: tuple[int, int]) -> File:
    main = file.main
    x, y = main.input((2, shape[1]), name="x"), main.tensor((2, shape[0]), name="y")
    main.ends_with(*main.op("FULLY_CONNECTED", [x, weight, -1], [y]))
    return file


@pytest.mark.parametrize("shape", [(3, 5), (4, 6)], ids=["odd", "even"])
def test_integers_of_four_bits_are_two_in_a_byte(shape: tuple[int, int]) -> None:
    integers = whole(-8, 8, *shape, dtype=np.int8)
    file = File()
    scales = np.linspace(0.1, 0.2, shape[0], dtype=np.float32)
    weight = file.main.constant(integers, kind=TensorType.INT4, quant=quant(scales), name="w")
    quantized = read(layer(file, weight, shape))
    np.testing.assert_array_equal(quantized.integers("w"), integers)
    assert quantized.plan.weights["w"].spec.bits == 4
    real = integers * scales[:, None]
    (found,) = outputs(quantized, normal(2, shape[1]))
    np.testing.assert_allclose(found, normal(2, shape[1]) @ real.T, rtol=1e-5, atol=1e-5)


def test_half_floats_behind_dequantize_are_widened_without_a_node() -> None:
    file, weight = File(), normal(3, 5).astype(np.float16)
    main = file.main
    (wide,) = main.op("DEQUANTIZE", [main.constant(weight, name="w")], [main.tensor((3, 5))])
    quantized = read(layer(file, wide, (3, 5)))
    assert operators(quantized) == {"Gemm": 1}
    (found,) = outputs(quantized, normal(2, 5))
    np.testing.assert_allclose(found, normal(2, 5) @ weight.astype(np.float32).T, rtol=1e-5, atol=1e-6)


def test_integer_weights_behind_dequantize_stay_integers_of_a_float_layer() -> None:
    file, weight = File(), whole(-127, 128, 3, 5, dtype=np.int8)
    main = file.main
    source = main.constant(weight, quant=quant(0.02), name="w")
    (wide,) = main.op("DEQUANTIZE", [source], [main.tensor((3, 5))])
    quantized = read(layer(file, wide, (3, 5)))
    assert [decision.mode for decision in quantized.plan.nodes.values()] == [NodeMode.WEIGHT]
    (found,) = outputs(quantized, normal(2, 5))
    np.testing.assert_allclose(found, normal(2, 5) @ reals(weight, 0.02, 0).T, rtol=1e-5, atol=1e-5)


def compressed(matrix: Array) -> tuple[Array, dict[str, object]]:
    """Rows in which only some numbers are there."""
    rows, columns = np.nonzero(matrix)
    segments = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int32)
    dims = [
        {"format": DENSE, "dense_size": len(matrix)},
        {
            "format": SPARSE,
            "array_segments": ("Int32Vector", {"values": segments}),
            "array_indices": ("Uint8Vector", {"values": columns.astype(np.uint8)}),
        },
    ]
    return matrix[rows, columns], {"traversal_order": [0, 1], "dim_metadata": dims}


def blocks(matrix: Array) -> tuple[Array, dict[str, object]]:
    """The same in blocks of 2 by 2 numbers, of which whole ones are missing."""
    tiles = matrix.reshape(len(matrix) // 2, 2, -1, 2).transpose(0, 2, 1, 3)
    rows, columns = np.nonzero(tiles.any((2, 3)))
    segments = np.searchsorted(rows, np.arange(len(tiles) + 1)).astype(np.uint16)
    dims = [
        {"format": DENSE, "dense_size": len(tiles)},
        {
            "format": SPARSE,
            "array_segments": ("Uint16Vector", {"values": segments}),
            "array_indices": ("Int32Vector", {"values": columns.astype(np.int32)}),
        },
        {"format": DENSE, "dense_size": 2},
        {"format": DENSE, "dense_size": 2},
    ]
    order = {"traversal_order": [0, 1, 2, 3], "block_map": [0, 1], "dim_metadata": dims}
    return tiles[rows, columns].reshape(-1), order


def sparse_matrix() -> NDArray[np.float32]:
    matrix = normal(6, 8)
    matrix[:, 2:6] = 0
    matrix[4:, :2] = 0
    return matrix


@pytest.mark.parametrize("form", [compressed, blocks])
@pytest.mark.parametrize("densified", [True, False])
def test_zeros_of_sparse_constants_are_put_back(form: object, densified: bool) -> None:
    file, matrix = File(), sparse_matrix()
    main = file.main
    values, sparsity = form(matrix)  # type: ignore[operator]
    weight = main.tensor((6, 8), buffer=file.buffer(values.tobytes()), sparsity=sparsity, name="w")
    if densified:
        (weight,) = main.op("DENSIFY", [weight], [main.tensor((6, 8))])
    (found,) = outputs(read(layer(file, weight, (6, 8))), normal(2, 8))
    np.testing.assert_allclose(found, normal(2, 8) @ matrix.T, rtol=1e-5, atol=1e-6)


def test_a_sparse_constant_that_is_nearly_all_zeros_is_refused() -> None:
    """A few bytes could ask for any size."""
    file = File()
    dims = [
        {"format": DENSE, "dense_size": 1},
        {
            "format": SPARSE,
            "array_segments": ("Int32Vector", {"values": np.array([0, 1], np.int32)}),
            "array_indices": ("Int32Vector", {"values": np.array([5], np.int32)}),
        },
    ]
    sparsity = {"traversal_order": [0, 1], "dim_metadata": dims}
    buffer = file.buffer(np.ones(1, np.float32).tobytes())
    weight = file.main.tensor((1, 1 << 30), buffer=buffer, sparsity=sparsity, name="w")
    with pytest.raises(FormatError, match="1 numbers for a constant of shape"):
        read(layer(file, weight, (1, 1 << 30)))


@pytest.mark.parametrize("damage", ["order", "segments", "indices", "size"])
def test_a_sparse_constant_with_places_that_do_not_fit_is_refused(damage: str) -> None:
    file = File()
    values, sparsity = compressed(sparse_matrix())
    dims = sparsity["dim_metadata"]
    assert isinstance(dims, list)
    if damage == "order":
        sparsity["traversal_order"] = [0, 0]
    elif damage == "segments":
        dims[1]["array_segments"] = ("Int32Vector", {"values": np.array([0, 4], np.int32)})
    elif damage == "indices":
        dims[1]["array_indices"] = ("Int32Vector", {"values": np.full(values.size, 99, np.int32)})
    else:
        dims[0]["dense_size"] = -3
    weight = file.main.tensor((6, 8), buffer=file.buffer(values.tobytes()), sparsity=sparsity, name="w")
    with pytest.raises(FormatError, match="a sparse constant"):
        read(layer(file, weight, (6, 8)))


def test_buffers_behind_the_tables_are_read() -> None:
    file, weight = File(), normal(3, 5)
    number = file.main.constant(np.zeros((3, 5), np.float32), name="w")
    place = file.main.tensors[number]["buffer"]
    file.buffers[place] = {"offset": 1 << 20, "size": weight.nbytes}
    layer(file, number, (3, 5))
    head = file.bytes()
    file.buffers[place] = {"offset": len(head), "size": weight.nbytes}
    head = file.bytes()
    quantized = read(head + weight.tobytes())
    (found,) = outputs(quantized, normal(2, 5))
    np.testing.assert_allclose(found, normal(2, 5) @ weight.T, rtol=1e-5, atol=1e-6)
    with pytest.raises(FormatError, match="reaches over its end"):
        read(head + weight.tobytes()[:-1])


def test_a_constant_that_is_shorter_than_its_shape_is_refused() -> None:
    file = File()
    weight = file.main.constant(normal(3, 5), name="w")
    file.main.tensors[weight]["shape"] = [3, 6]
    with pytest.raises(FormatError, match="60 bytes for shape"):
        read(layer(file, weight, (3, 6)))


@pytest.mark.parametrize(
    ("scale", "axis", "words"),
    [
        ([0.1, 0.2], 0, "2 scales for axis 0"),
        ([0.1, 0.2, 0.3], 7, "3 scales for axis 7"),
        ([float("nan")], 0, "not a positive number"),
        ([-1.0], 0, "not a positive number"),
    ],
)
def test_parameters_that_do_not_fit_a_constant_are_refused(scale: list[float], axis: int, words: str) -> None:
    file = File()
    weight = file.main.constant(whole(-127, 128, 3, 5, dtype=np.int8), quant=quant(scale, axis=axis), name="w")
    with pytest.raises(ConverterError, match=words):
        read(layer(file, weight, (3, 5)))


def test_scales_and_zero_points_are_as_many() -> None:
    file = File()
    params = {"scale": np.ones(3, np.float32), "zero_point": np.zeros(2, np.int64), "quantized_dimension": 0}
    file.main.constant(whole(-127, 128, 3, 5, dtype=np.int8), quant=params)
    with pytest.raises(FormatError, match="3 scales and 2 zero points"):
        parse(file.bytes())


def test_an_onnx_file_of_half_floats_does_not_grow(tmp_path: Path) -> None:
    file, weight = File(), normal(40, 50).astype(np.float16)
    (wide,) = file.main.op("DEQUANTIZE", [file.main.constant(weight, name="w")], [file.main.tensor((40, 50))])
    model, written = tmp_path / "half.tflite", tmp_path / "out.onnx"
    model.write_bytes(layer(file, wide, (40, 50)).bytes())
    outcome = command("--fmk=TFLITE", f"--modelFile={model}", f"--outputFile={written}", "--saveType=ONNX")
    assert outcome.status == 0, outcome
    assert written.stat().st_size < model.stat().st_size + 512
    assert " inf " in outcome.out, "numbers are not those of the model"
