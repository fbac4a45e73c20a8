"""Layers cut out as models of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.analysis.comparison import compare_models
from converter_lite.analysis.extraction import RECORDED, extract_worst
from converter_lite.analysis.recorded import read_recorded
from converter_lite.data.inputs import InputSpec
from converter_lite.errors import DataError
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.analysis.networks import LAYERS, network, quantized_network, reordered_network
from tests.support import run, samples_of


@pytest.fixture(params=["equalized", "reordered"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Every layer of a network, cut out."""
    if request.param == "equalized":
        model, quantized = network(), quantized_network(equalization=True)
    else:
        model, quantized = reordered_network()
    feeds = samples_of(model, RECORDED)
    result = compare_models(model, quantized, feeds, context=RunContext())
    parts, left = extract_worst(result, model, feeds, tmp_path / "worst", count=99, engine=DEFAULT_ENGINE)
    assert (len(parts), left) == (len(LAYERS), [])
    alone = {part.folder: part.error.local for part in parts}
    for name, error in alone.items():
        assert error is not None
        assert _sqnr(tmp_path / "worst" / name) == pytest.approx(error.sqnr, abs=1e-3)
    return tmp_path / "worst"


def _sqnr(part: Path) -> float:
    """Of the quantized part against the float part, on the recorded inputs."""
    signal = noise = 0.0
    for index in range(RECORDED):
        sample = _read(part / "float" / f"test_data_set_{index}", "input")
        (expected,), (given,) = (run(part / kind / "model.onnx", sample).values() for kind in ("float", "quantized"))
        signal += float(np.sum(expected.astype(np.float64) ** 2))
        noise += float(np.sum((expected.astype(np.float64) - given) ** 2))
    return 10 * float(np.log10(signal / noise)) if noise else float("inf")


def _read(folder: Path, kind: str) -> dict[str, np.ndarray]:
    tensors = [onnx.TensorProto.FromString(path.read_bytes()) for path in sorted(folder.glob(f"{kind}_*.pb"))]
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}


def test_each_part_runs_alone_and_errs_as_it_does_in_the_network(folder: Path) -> None:
    assert len([path for path in folder.iterdir() if path.is_dir()]) == len(LAYERS)


def test_both_parts_are_valid_and_have_the_same_interface(folder: Path) -> None:
    for part in (path for path in folder.iterdir() if path.is_dir()):
        models = [onnx.load(part / kind / "model.onnx") for kind in ("float", "quantized")]
        for model in models:
            onnx.checker.check_model(model, full_check=True)
        first, second = ([value.name for value in (*m.graph.input, *m.graph.output)] for m in models)
        assert first == second


def test_recorded_outputs_are_what_the_parts_give(folder: Path) -> None:
    for model in folder.glob("*/*/model.onnx"):
        for data in model.parent.glob("test_data_set_*"):
            expected = _read(data, "output")
            for name, array in run(model, _read(data, "input")).items():
                np.testing.assert_allclose(expected[name], array, rtol=1e-5, atol=1e-5)


def test_the_readme_names_the_command(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "converter_lite compare 01_" in text
    assert "--inputs=01_" in text


SPEC = InputSpec("x", np.dtype(np.float32), (None, 2))


def test_recorded_samples_are_read_from_npz_files_and_folders(tmp_path: Path) -> None:
    for index in range(3):
        np.savez(tmp_path / f"{index}.npz", x=np.full((1, 2), index, np.float32))
    assert [sample["x"][0, 0] for sample in read_recorded(tmp_path, [SPEC], limit=2)] == [0, 1]
    assert len(read_recorded(tmp_path / "2.npz", [SPEC], limit=9)) == 1


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"z": np.zeros((1, 2), np.float32)}, "no input 'z'"),
        ({}, "no array for input 'x'"),
        ({"x": np.zeros((1, 2), np.float64)}, "float64"),
        ({"x": np.zeros((1, 3), np.float32)}, r"\[1,3\]"),
    ],
)
def test_recorded_samples_that_do_not_fit_are_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], words: str
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=words):
        read_recorded(tmp_path / "a.npz", [SPEC], limit=1)


def test_a_file_that_is_no_sample_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError):
        read_recorded(tmp_path / "a.npz", [SPEC], limit=1)
    with pytest.raises(DataError, match="no recorded samples"):
        read_recorded(tmp_path / "absent", [SPEC], limit=1)
