import importlib
import io
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.config.parser import load_config


def pictures(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jpg"))


def test_calibration_holds_a_hundred_pictures_of_the_models_size(samples: Path) -> None:
    drawing = importlib.import_module("drawing")
    paths = pictures(samples / "calibration")
    assert len(paths) == 100
    assert {drawing.decode(path).shape for path in paths} == {(64, 64, 3)}


def test_calibration_holds_no_stray_file(samples: Path) -> None:
    # The converter takes every entry of the folder for a sample.
    assert set((samples / "calibration").iterdir()) == set(pictures(samples / "calibration"))


def test_test_pictures_are_labelled_with_forty_of_each_class(samples: Path) -> None:
    classes = (samples / "classes.txt").read_text(encoding="utf-8").split()
    labels = [path.stem.split("_")[:2] for path in pictures(samples / "test")]
    assert Counter(map(tuple, labels)) == {(str(index), name): 40 for index, name in enumerate(classes)}


def test_no_test_picture_is_also_a_calibration_picture(samples: Path) -> None:
    calibration = {path.read_bytes() for path in pictures(samples / "calibration")}
    assert not [path.name for path in pictures(samples / "test") if path.read_bytes() in calibration]


def test_samples_stay_small_enough_for_the_repository(samples: Path) -> None:
    folders = (samples, samples / "calibration", samples / "test")
    assert sum(path.stat().st_size for folder in folders for path in folder.iterdir() if path.is_file()) < 4e6
    assert (samples / "shapes.onnx").stat().st_size < 2e6


@pytest.mark.parametrize(("split", "number"), [("calibration", 0), ("calibration", 57), ("test", 8), ("test", 399)])
def test_a_committed_picture_can_be_drawn_again(samples: Path, split: str, number: int) -> None:
    drawing = importlib.import_module("drawing")
    committed = drawing.decode(samples / drawing.file_name(split, number))
    again = drawing.decode(io.BytesIO(drawing.encode_jpeg(drawing.draw(split, number))))
    # Another release of the JPEG library may round differently; another picture differs by far more.
    assert np.abs(committed.astype(np.float64) - again).mean() < 2


def test_pictures_of_different_splits_and_numbers_differ(samples: Path) -> None:
    drawing = importlib.import_module("drawing")
    drawn = [drawing.draw(split, number).tobytes() for split in ("train", "calibration", "test") for number in (0, 10)]
    assert len(set(drawn)) == len(drawn)


def test_the_model_is_valid_and_has_the_promised_input_and_output(samples: Path) -> None:
    model = onnx.load(samples / "shapes.onnx")
    onnx.checker.check_model(model, full_check=True)
    classes = len((samples / "classes.txt").read_text(encoding="utf-8").split())
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {"input": ["batch", 3, 64, 64], "logits": ["batch", classes]}


def test_the_model_gives_the_converter_something_to_fold_and_to_add(samples: Path) -> None:
    nodes = onnx.load(samples / "shapes.onnx").graph.node
    count = Counter(node.op_type for node in nodes)
    assert count["BatchNormalization"] == count["Conv"] > 10
    assert count["Add"] == 1
    assert {"Clip", "GlobalAveragePool", "Flatten", "Gemm"} < set(count)
    assert len({node.name for node in nodes}) == len(nodes)


def test_every_configuration_names_the_models_input_and_an_existing_folder(samples: Path) -> None:
    configurations = sorted(samples.glob("*.cfg"))
    assert configurations
    for path in configurations:
        values = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("calibrate_path=")]
        assert values == ["calibrate_path=input:samples/calibration"], path.name


def test_every_configuration_is_read_without_a_warning(samples: Path) -> None:
    for path in sorted(samples.glob("*.cfg")):
        assert not load_config(path).warnings, path.name
