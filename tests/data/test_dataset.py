import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from PIL import Image

from converter_lite.data.dataset import FileDataset, open_dataset
from converter_lite.data.images import ImagePreprocess
from converter_lite.data.inputs import InputSpec, input_specs
from converter_lite.data.layout import Layout
from converter_lite.errors import DataError, ModelError

SHARED = Path(__file__).parents[2].parent / "shared"
FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
SETTINGS = ImagePreprocess("RGB", (127.5,) * 3, (127.5,) * 3, 8, 8, "LINEAR")


def spec(shape: tuple[int | None, ...] = (1, 3, 8, 8), dtype: np.dtype = FLOAT32, name: str = "x") -> InputSpec:
    return InputSpec(name, dtype, shape)


def write_pictures(folder: Path, count: int, size: tuple[int, int] = (10, 9)) -> Path:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(5)
    for number in range(count):
        pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"p{number:02d}.png")
    return folder


def write_bins(folder: Path, arrays: Sequence[np.ndarray]) -> Path:
    folder.mkdir(exist_ok=True)
    for number, array in enumerate(arrays):
        array.tofile(folder / f"b{number:02d}.bin")
    return folder


def images(
    folder: Path, size: int | None = None, inputs: Sequence[InputSpec] = (spec(),), **options: Any
) -> FileDataset:
    settings = options.pop("preprocess", SETTINGS)
    return open_dataset([("x", folder)], inputs, settings, size=size, **options)


def bins(folder: Path, size: int | None = None, inputs: Sequence[InputSpec] = (spec(),), **options: Any) -> FileDataset:
    layout = options.pop("input_format", Layout.NHWC)
    return open_dataset([("x", folder)], inputs, layout, size=size, **options)


def test_pictures_come_as_batches_of_one_in_the_layout_of_the_model(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 3)
    planar = list(images(folder))
    interleaved = list(images(folder, inputs=[spec((None, 8, 8, 3))]))
    assert [feed["x"].shape for feed in planar] == [(1, 3, 8, 8)] * 3
    for one, other in zip(planar, interleaved, strict=True):
        np.testing.assert_array_equal(one["x"].transpose(0, 2, 3, 1), other["x"])
    assert planar[0]["x"].dtype == np.float32
    assert -1 <= planar[0]["x"].min() < planar[0]["x"].max() <= 1


def test_the_first_files_by_the_bytes_of_their_names_are_taken(tmp_path: Path) -> None:
    folder = write_bins(tmp_path / "d", [])
    for number, name in enumerate(["b", "a", "B", "ä", "a10", "a9"]):
        np.full(2, number, np.float32).tofile(folder / name)
    data = bins(folder, 5, [spec((1, 2))])
    assert data.names == ["B", "a", "a10", "a9", "b"]
    assert [feed["x"][0, 0] for feed in data] == [2, 1, 4, 5, 0]


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_every_pass_and_every_number_of_workers_gives_the_same(workers: int, tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 7)
    data, plain = images(folder, workers=workers), images(folder, workers=0)
    for _ in range(2):
        for one, other in zip(data, plain, strict=True):
            np.testing.assert_array_equal(one["x"], other["x"])
    assert len(data) == 7


@pytest.mark.parametrize("dtype", ["float16", "uint8", "int32"])
def test_pictures_take_the_type_of_the_input(dtype: str, tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 1, (8, 8))
    feed = next(iter(images(folder, inputs=[spec(dtype=np.dtype(dtype))], preprocess=ImagePreprocess("RGB"))))
    expected = np.asarray(Image.open(folder / "p00.png")).transpose(2, 0, 1)[None]
    assert feed["x"].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(feed["x"], expected)


def test_gray_pictures_feed_one_channel(tmp_path: Path) -> None:
    settings = ImagePreprocess("GRAY", (0.0,), (255.0,))
    folder = write_pictures(tmp_path / "d", 1)
    feed = next(iter(images(folder, inputs=[spec((1, 1, None, None))], preprocess=settings)))
    assert feed["x"].shape == (1, 1, 9, 10)


def test_sample_i_of_every_input_is_used_together(tmp_path: Path) -> None:
    first = write_bins(tmp_path / "ids", [np.full(4, n) for n in range(3)])
    second = write_bins(tmp_path / "mask", [np.full(4, 10 + n) for n in range(3)])
    inputs = [spec((None, None), INT64, "ids"), spec((None, None), INT64, "mask")]
    data = open_dataset([("mask", second), ("ids", first)], inputs, Layout.NHWC, size=2)
    assert [(int(feed["ids"][0, 0]), int(feed["mask"][0, 3])) for feed in data] == [(0, 10), (1, 11)]
    assert list(next(iter(data))) == ["ids", "mask"]


@pytest.mark.parametrize("kind", ["pictures", "bins"])
def test_a_fixed_batch_stacks_files_and_fills_up_the_last_one(kind: str, tmp_path: Path) -> None:
    inputs = [spec((2, 3, 8, 8))]
    if kind == "pictures":
        data, single = images(write_pictures(tmp_path / "d", 3), inputs=inputs), images(tmp_path / "d")
    else:
        rng = np.random.default_rng(0)
        folder = write_bins(tmp_path / "d", [rng.random((8, 8, 3), dtype=np.float32) for _ in range(3)])
        data, single = bins(folder, inputs=inputs), bins(folder)
    samples, parts = [feed["x"] for feed in data], [feed["x"] for feed in single]
    assert len(data) == len(samples) == 2
    np.testing.assert_array_equal(samples[0], np.concatenate(parts[:2]))
    np.testing.assert_array_equal(samples[1], np.concatenate([parts[2], parts[0]]))
    assert any("fixed batch of 2" in note and "filled up with the first 1 file" in note for note in data.notes)
    assert data.names[0].endswith(" +1")


def test_bin_files_may_hold_the_whole_fixed_batch(tmp_path: Path) -> None:
    arrays = [np.random.default_rng(n).random((2, 5), dtype=np.float32) for n in range(3)]
    data = bins(write_bins(tmp_path / "d", arrays), inputs=[spec((2, 5))])
    for feed, array in zip(data, arrays, strict=True):
        np.testing.assert_array_equal(feed["x"], array)


def test_pictures_of_different_sizes_cannot_share_a_batch(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 1)
    Image.new("RGB", (5, 5)).save(folder / "z.png")
    data = images(folder, inputs=[spec((2, 3, None, None))], preprocess=ImagePreprocess("RGB"))
    with pytest.raises(DataError, match=r"z\.png: shape .* differs from"):
        list(data)


def test_the_notes_say_which_layout_and_order_are_used(tmp_path: Path) -> None:
    pictures = images(write_pictures(tmp_path / "p", 1), preprocess=ImagePreprocess(None, None, None, 8, 8, "LINEAR"))
    assert any("BGR (image_to_format is not set)" in note and "values 0..255" in note for note in pictures.notes)
    raw = bins(write_bins(tmp_path / "b", [np.zeros((3, 8, 8), np.float32)]))
    assert any("read as NHWC" in note and "model's layout is NCHW, transposed" in note for note in raw.notes)


def test_hidden_files_are_left_out_with_a_note(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 2)
    (folder / ".DS_Store").write_bytes(b"x")
    data = images(folder)
    assert len(data) == 2
    assert any(".DS_Store" in note for note in data.notes)


def test_stray_files_are_named_all_at_once(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 2)
    (folder / "a_readme.txt").write_text("hello")
    (folder / "b_labels.csv").write_text("1,2")
    with pytest.raises(DataError, match=r"calibrate_path x:.*not a picture: a_readme\.txt, b_labels\.csv"):
        images(folder)


def test_a_subdirectory_is_named(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 2)
    (folder / "more").mkdir()
    with pytest.raises(DataError, match="subdirectories are not searched: more"):
        images(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_named_instead_of_waited_for(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 1)
    os.mkfifo(folder / "000_pipe.png")
    with pytest.raises(DataError, match="not a file: 000_pipe"):
        images(folder)


def test_what_stands_behind_the_wanted_files_does_no_harm(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 2)
    (folder / "z.txt").write_text("hello")
    assert len(images(folder, 2)) == 2


def test_too_few_files_say_found_wanted_and_what_to_do(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 2)
    with pytest.raises(DataError, match=r"2 file\(s\) found, calibrate_size wants 5") as caught:
        images(folder, 5)
    assert str(folder) in caught.value.where
    assert "calibrate_size=2" in caught.value.hint


def test_an_empty_or_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"0 file\(s\) found"):
        images(write_pictures(tmp_path / "empty", 0))
    with pytest.raises(DataError, match=r"calibrate_path x:.*gone: the directory cannot be read"):
        images(tmp_path / "gone")


def test_an_unknown_input_name_shows_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"calibrate_path: .*'imput' \(did you mean 'input'\?\)"):
        open_dataset([("imput", tmp_path)], [spec(name="input")], Layout.NHWC, size=1)


def test_extra_missing_and_repeated_entries_are_named(tmp_path: Path) -> None:
    inputs = [spec(name="ids"), spec(name="mask")]

    def opened(*names: str) -> None:
        open_dataset([(name, tmp_path) for name in names], inputs, Layout.NHWC, size=1)

    with pytest.raises(DataError, match=r"no directory for the model input.* mask") as caught:
        opened("ids")
    assert "mask:DIRECTORY" in caught.value.hint
    with pytest.raises(DataError, match="no input 'zzz', 'yyy'"):
        opened("ids", "mask", "zzz", "yyy")
    with pytest.raises(DataError, match="named more than once: ids"):
        opened("ids", "mask", "ids")


def test_different_numbers_of_files_are_refused(tmp_path: Path) -> None:
    inputs = [spec((1, 2), name="a"), spec((1, 2), name="b")]
    for name, count in (("a", 2), ("b", 3)):
        write_bins(tmp_path / name, [np.zeros(2, np.float32)] * count)
    with pytest.raises(DataError, match=r"different numbers of files \(a: 2, b: 3\)"):
        open_dataset([(n, tmp_path / n) for n in "ab"], inputs, Layout.NHWC, size=None)


def test_inputs_that_need_different_numbers_of_files_for_a_sample_are_refused(tmp_path: Path) -> None:
    inputs = [spec((2, 2), name="a"), spec((2, 2), name="b")]
    write_bins(tmp_path / "a", [np.zeros(2, np.float32)])
    write_bins(tmp_path / "b", [np.zeros(4, np.float32)])
    with pytest.raises(DataError, match=r"different numbers of files for one sample \(a: 2, b: 1\)"):
        open_dataset([(n, tmp_path / n) for n in "ab"], inputs, Layout.NHWC, size=None)


@pytest.mark.parametrize(
    ("shape", "settings", "where", "message"),
    [
        ((1, 16), SETTINGS, "input_type", "2 dimension.*pictures need 4"),
        ((1, 1, 8, 8), SETTINGS, "image_to_format", r"3 channel\(s\).* wants 1"),
        ((1, 3, 8, 8), ImagePreprocess("GRAY"), "image_to_format", r"1 channel\(s\).* wants 3"),
        ((1, 3, 8, 9), SETTINGS, "resize_width", "8x8 .* wants 9x8"),
        ((1, 7, 8, 3), SETTINGS, "resize_width", "8x8 .* wants 8x7"),
        (
            (1, 3, 8, 8),
            ImagePreprocess("RGB", None, None, 8, 8, "LINEAR", 4, 6),
            "center_crop_width",
            "4x6 .* wants 8x8",
        ),
    ],
)
def test_pictures_that_cannot_fit_the_input_name_the_key(
    shape: tuple[int, ...], settings: ImagePreprocess, where: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        images(write_pictures(tmp_path / "d", 1), inputs=[spec(shape)], preprocess=settings)
    assert where in caught.value.where
    assert caught.value.hint


def test_a_picture_of_the_wrong_size_is_named_when_nothing_resizes_it(tmp_path: Path) -> None:
    data = images(write_pictures(tmp_path / "d", 1), preprocess=ImagePreprocess("RGB"))
    with pytest.raises(DataError, match=r"p00\.png: the preprocessed picture is 10x9 .* wants 8x8"):
        list(data)


def test_a_wrong_byte_count_is_found_before_any_work(tmp_path: Path) -> None:
    folder = write_bins(tmp_path / "d", [np.zeros(192, np.float32)] * 3)
    (folder / "b02.bin").write_bytes(b"123")
    with pytest.raises(DataError, match=r"b02\.bin: the file has 3 bytes, input 'x' wants 768"):
        bins(folder)


@pytest.mark.parametrize("declared", list(Layout))
@pytest.mark.parametrize("true", list(Layout))
def test_bin_files_that_look_like_the_other_layout_are_warned_about(
    true: Layout, declared: Layout, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    planar = [rng.random((3, 4, 4), dtype=np.float32).repeat(8, axis=1).repeat(8, axis=2) for _ in range(5)]
    stored = planar if true is Layout.NCHW else [np.ascontiguousarray(a.transpose(1, 2, 0)) for a in planar]
    data = bins(write_bins(tmp_path / "d", stored), inputs=[spec((1, 3, 32, 32))], input_format=declared)
    if true is declared:
        assert data.warnings == []
        np.testing.assert_array_equal(next(iter(data))["x"][0], planar[0])
    else:
        assert len(data.warnings) == 1
        assert ".bin: " in data.warnings[0]
        assert f"--inputDataFormat={true.value}" in data.warnings[0]


def test_one_channel_raises_no_layout_doubt(tmp_path: Path) -> None:
    folder = write_bins(tmp_path / "d", [np.arange(64, dtype=np.float32)])
    assert bins(folder, inputs=[spec((1, 1, 8, 8))]).warnings == []


def test_head_takes_the_first_samples(tmp_path: Path) -> None:
    data = images(write_pictures(tmp_path / "d", 4))
    head = data.head(2)
    assert len(head) == len(list(head)) == 2
    assert head.names == data.names[:2]
    assert len(data.head(9)) == 4


def test_the_fingerprint_follows_content_names_settings_and_count_only(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "d", 3)
    base = images(folder).fingerprint()
    assert images(write_pictures(tmp_path / "other_place", 3), workers=0).fingerprint() == base
    assert images(folder, 2).fingerprint() != base
    assert images(folder).head(2).fingerprint() != base
    cubic = ImagePreprocess("RGB", (127.5,) * 3, (127.5,) * 3, 8, 8, "CUBIC")
    assert images(folder, preprocess=cubic).fingerprint() != base
    (folder / "p01.png").rename(folder / "p01b.png")
    renamed = images(folder).fingerprint()
    assert renamed != base
    Image.new("RGB", (10, 9)).save(folder / "p02.png")
    assert images(folder).fingerprint() not in (base, renamed)


def test_input_specs_leave_out_inputs_with_a_default_and_apply_fixed_shapes() -> None:
    x = ir.Value(name="x", shape=ir.Shape(["N", 3, "H", 8]), type=ir.TensorType(ir.DataType.FLOAT16))
    w = ir.Value(name="w", shape=ir.Shape([1]), type=ir.TensorType(ir.DataType.FLOAT))
    w.const_value = ir.Tensor(np.zeros(1, np.float32), name="w")
    model = ir.Model(ir.Graph([x, w], [], nodes=[], initializers=[w], opset_imports={"": 17}), ir_version=9)
    assert input_specs(model) == [InputSpec("x", np.dtype(np.float16), (None, 3, None, 8))]
    assert input_specs(model, {"x": (2, 3, 4, 8)})[0].shape == (2, 3, 4, 8)
    with pytest.raises(DataError, match=r"\[1,3,4,4\] .* does not fit the model's \[\?,3,\?,8\]"):
        input_specs(model, {"x": (1, 3, 4, 4)})
    with pytest.raises(DataError, match="no input 'y'"):
        input_specs(model, {"y": (1,)})


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        (ir.DataType.STRING, [1, 2], "'x': it is not a tensor of numbers"),
        (None, [1, 2], "'x': it is not a tensor of numbers"),
        (ir.DataType.FLOAT, None, "'x' has no shape in the model"),
    ],
)
def test_inputs_that_cannot_be_fed_are_named(dtype: ir.DataType | None, shape: list[int] | None, message: str) -> None:
    x = ir.Value(
        name="x",
        shape=None if shape is None else ir.Shape(shape),
        type=None if dtype is None else ir.TensorType(dtype),
    )
    model = ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": 17}), ir_version=9)
    with pytest.raises(ModelError, match=message):
        input_specs(model)


def test_a_rank_that_the_model_leaves_open_comes_from_the_fixed_shape() -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT))
    model = ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": 17}), ir_version=9)
    assert input_specs(model, {"x": (1, 4)})[0].shape == (1, 4)


def test_leaving_the_loop_early_stops_the_decoding_threads(tmp_path: Path) -> None:
    samples = iter(images(write_pictures(tmp_path / "d", 9), workers=2))
    next(samples)
    del samples
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("calibration-data")]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")
@pytest.mark.shared
def test_the_shared_pictures_decode() -> None:
    settings = ImagePreprocess("RGB", (127.5,) * 3, (127.5,) * 3, 256, 256, "LINEAR", 224, 224)
    data = open_dataset(
        [("input", SHARED / "data" / "imagenet_calib")],
        [spec((None, 3, 224, 224), name="input")],
        settings,
        size=100,
    )
    count = 0
    for feed in data:
        assert feed["input"].shape == (1, 3, 224, 224)
        assert feed["input"].std() > 0.05
        count += 1
    assert count == 100


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")
@pytest.mark.shared
def test_the_shared_token_sequences_decode() -> None:
    names = ["input_ids", "attention_mask", "token_type_ids"]
    folder = SHARED / "data" / "minilm_calib"
    inputs = [spec((None, None), INT64, name) for name in names]
    data = open_dataset([(n, folder / n) for n in names], inputs, Layout.NHWC, size=None)
    assert len(data) == len(list((folder / "input_ids").iterdir()))
    for feed in data:
        assert {array.shape for array in feed.values()} == {(1, 128)}
        assert 0 <= feed["input_ids"].min() < feed["input_ids"].max() < 30522
