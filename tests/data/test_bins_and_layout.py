from pathlib import Path

import numpy as np
import pytest

from converter_lite.data.bins import BinReader, tensor_shape
from converter_lite.data.files import FileList
from converter_lite.data.images import ImagePreprocess, load_image
from converter_lite.data.inputs import InputSpec, input_specs
from converter_lite.data.layout import DOUBT_RATIO, Layout, model_layout, roughness_ratio, to_layout
from converter_lite.data.sources import open_bins
from converter_lite.errors import DataError
from tests.support import build, normal

FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
HERE = Path("x.bin")


def spec(shape: tuple[int | None, ...], dtype: np.dtype = FLOAT32) -> InputSpec:
    return InputSpec("x", dtype, shape)


@pytest.mark.parametrize(
    ("shape", "layout", "doubt"),
    [
        ((1, 3, 224, 224), Layout.NCHW, None),
        ((None, 1, None, None), Layout.NCHW, None),
        ((None, 32, 32, 3), Layout.NHWC, None),
        ((1, 32, 32, 4), Layout.NHWC, None),
        ((1, 3, 5, 3), Layout.NCHW, "both ends fit"),
        ((1, 16, 8, 8), Layout.NCHW, "neither end"),
        ((None, None, None, None), Layout.NCHW, "neither end"),
    ],
)
def test_the_layout_is_where_the_channels_of_a_picture_stand(
    shape: tuple[int | None, ...], layout: Layout, doubt: str | None
) -> None:
    found, note = model_layout(spec(shape))
    assert found is layout
    assert (note is None) if doubt is None else (doubt in str(note) and "NCHW is assumed" in str(note))


LAYERS = {
    "Conv": (Layout.NCHW, "y = Conv(x, w)"),
    "of TensorFlow": (Layout.NHWC, "t = Transpose<perm = [0, 3, 1, 2]>(x) y = Conv(t, w)"),
    "of TensorFlow, normalized": (
        Layout.NHWC,
        "s = Sub(x, n) m = Mul(s, n) t = Transpose<perm = [0, 3, 1, 2]>(m) y = Conv(t, w)",
    ),
    "of both kinds": (None, "c = Conv(x, w) t = Transpose<perm = [0, 3, 1, 2]>(x) d = Conv(t, w) y = Add(c, d)"),
    "others": (None, "t = Transpose<perm = [0, 2, 1, 3]>(x) y = Softmax(t)"),
}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("sizes", ["1, 8, 8, 8", "1, 3, 8, 8", "1, 8, 8, 3", "N, H, W, C"])
def test_the_first_layers_tell_where_the_channels_are_and_otherwise_the_shape(sizes: str, layers: str) -> None:
    layout, body = LAYERS[layers]
    channels = 3 if "3" in sizes else 8
    model = build(
        f"g (float[{sizes}] x) => (float[A, B, C, D] y) {{ {body} }}", w=normal(4, channels, 1, 1), n=normal(1)
    )
    (found,) = input_specs(model)
    plain, note = model_layout(spec(found.shape))
    assert model_layout(found) == ((plain, note) if layout is None else (layout, None))


def test_transposing_there_and_back_gives_the_same_array() -> None:
    array = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    there = to_layout(array, Layout.NCHW, Layout.NHWC)
    assert there.shape == (2, 4, 5, 3)
    assert there[1, 2, 3, 0] == array[1, 0, 2, 3]
    np.testing.assert_array_equal(to_layout(there, Layout.NHWC, Layout.NCHW), array)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "float64"])
def test_raw_bytes_are_read_with_the_type_of_the_input(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    expected = np.arange(12).astype(dtype).reshape(1, 12)
    expected.tofile(path)
    result = BinReader(spec((1, 12), np.dtype(dtype)), Layout.NHWC, Layout.NCHW, 1).read(path)
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("model", list(Layout))
@pytest.mark.parametrize("stored", list(Layout))
def test_four_dimensional_files_come_in_the_layout_of_the_model(stored: Layout, model: Layout, tmp_path: Path) -> None:
    nchw = np.random.default_rng(0).random((1, 3, 4, 5), dtype=np.float32)
    path = tmp_path / "a.bin"
    to_layout(nchw, Layout.NCHW, stored).tofile(path)
    expected = to_layout(nchw, Layout.NCHW, model)
    result = BinReader(spec(expected.shape), stored, model, 1).read(path)
    np.testing.assert_array_equal(result, expected)


def test_one_open_dimension_is_told_by_the_size() -> None:
    assert tensor_shape(spec((None, None), INT64), 128 * 8, 1, HERE) == (1, 128)
    assert tensor_shape(spec((None,), INT64), 7 * 8, None, HERE) == (7,)
    assert tensor_shape(spec((None, 3, 8, None)), 3 * 8 * 6 * 4, 1, HERE) == (1, 3, 8, 6)
    assert tensor_shape(spec(()), 4, None, HERE) == ()


def test_several_open_dimensions_ask_for_fixed_shapes() -> None:
    with pytest.raises(DataError, match="2 unknown dimensions") as caught:
        tensor_shape(spec((None, 3, None, None)), 300, 1, HERE)
    assert "--inputShape=x:1,3,N,N" in caught.value.hint


@pytest.mark.parametrize(
    ("size", "hint"),
    [
        (2800, "tofile"),
        (2 * 3072, "8 byte(s) each: store them as float32. Or the file may hold 2 samples"),
        (3072 // 2, "2 byte"),
        (3072 // 4, "1 byte"),
        (3 * 3072, "3 samples"),
        (0, "tofile"),
    ],
)
def test_a_wrong_byte_count_names_file_bytes_wanted_and_shape(size: int, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        tensor_shape(spec((1, 3, 16, 16)), size, 1, HERE)
    assert f"x.bin: the file has {size} bytes, input 'x' wants 3072 (float32 [1,3,16,16])" in str(caught.value)
    assert hint in caught.value.hint


def test_a_size_that_no_open_dimension_explains_is_refused() -> None:
    with pytest.raises(DataError, match=r"wants a multiple of 32 \(float32 \[1,8,\?\]\)"):
        tensor_shape(spec((None, 8, None)), 100, 1, HERE)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.bin: the file cannot be read"):
        BinReader(spec((1, 2)), Layout.NHWC, Layout.NCHW, 1).read(tmp_path / "gone.bin")


def smooth_picture(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    waves = rng.random((1, 3, 6, 6), dtype=np.float32)
    return waves.repeat(6, axis=2).repeat(6, axis=3) + rng.random((1, 3, 36, 36), dtype=np.float32) * 0.05


@pytest.mark.parametrize("declared", list(Layout))
@pytest.mark.parametrize("true", list(Layout))
def test_smoothness_tells_the_layout_of_a_picture(true: Layout, declared: Layout) -> None:
    data = to_layout(smooth_picture(0), Layout.NCHW, true)
    shape = (1, 3, 36, 36) if declared is Layout.NCHW else (1, 36, 36, 3)
    assert (roughness_ratio(data, shape, declared) > DOUBT_RATIO) == (true is not declared)


@pytest.mark.parametrize("declared", list(Layout))
@pytest.mark.parametrize("data", [np.random.default_rng(0).random(3 * 32 * 32), np.full(3 * 32 * 32, 2.0)])
def test_noise_and_constants_raise_no_doubt(data: np.ndarray, declared: Layout) -> None:
    shape = (1, 3, 32, 32) if declared is Layout.NCHW else (1, 32, 32, 3)
    assert 0.9 < roughness_ratio(data.astype(np.float32), shape, declared) < 1.1


def test_a_file_with_nan_is_named_and_infinity_is_data(tmp_path: Path) -> None:
    reader = BinReader(spec((1, 2)), Layout.NHWC, Layout.NCHW, 1)
    np.array([-np.inf, 0], np.float32).tofile(tmp_path / "mask.bin")
    assert reader.read(tmp_path / "mask.bin")[0, 0] == -np.inf
    np.array([np.nan, 0], np.float32).tofile(tmp_path / "broken.bin")
    with pytest.raises(DataError, match=r"broken\.bin: the file holds NaN for input 'x'"):
        reader.read(tmp_path / "broken.bin")


@pytest.mark.parametrize("declared", list(Layout))
@pytest.mark.parametrize("true", list(Layout))
def test_smoothness_tells_the_layout_of_the_drawn_pictures(true: Layout, declared: Layout, tmp_path: Path) -> None:
    """Their noise makes them the hardest of the pictures that the threshold was measured on."""
    pictures = sorted((Path(__file__).parents[2] / "samples/calibration").iterdir())[:8]
    files = []
    for picture in pictures:
        pixels = load_image(picture, ImagePreprocess("RGB"), planar=true is Layout.NCHW)
        pixels.tofile(tmp_path / f"{picture.stem}.bin")
        files.append(tmp_path / f"{picture.stem}.bin")
    opened = open_bins(spec((1, 3, 64, 64)), FileList(tuple(files), ()), declared)
    assert len(opened.warnings) == (true is not declared)
