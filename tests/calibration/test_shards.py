"""Shards observed elsewhere give, bit for bit, what one pass over all samples gives."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter_lite.calibration.cache import StatisticsCache
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.runner import EVERYTHING, collect
from converter_lite.calibration.shards import SHARD
from converter_lite.calibration.statistics import CalibrationStats, TensorStatistics
from converter_lite.data.dataset import FileDataset, open_dataset
from converter_lite.data.images import ImagePreprocess
from converter_lite.data.inputs import InputSpec
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.layout import Layout
from converter_lite.data.remember import RememberingDataset
from converter_lite.errors import CalibrationError, ConverterError, DataError, ModelError
from converter_lite.execution.executor import LocalExecutor, Result, Task, Work
from converter_lite.log import Log
from tests.cli.workshop import write_bins, write_pictures
from tests.support import Samples, build, normal, samples_of

NAMES = ["x", "a", "y"]


class Copies(LocalExecutor):
    """Does pieces with copies of everything, the last one first, as another machine might."""

    def __init__(self) -> None:
        super().__init__(1)
        self.done: list[int] = []

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, ordered: bool = False
    ) -> Generator[tuple[int, Result | ConverterError], None, None]:
        assert ordered
        pairs = [pickle.loads(pickle.dumps((work, task))) for task in tasks]
        found = {}
        for number in reversed(range(len(pairs))):
            self.done.append(number)
            (found[number],) = dict(super().run(pairs[number][0], pairs[number][1:])).values()
        for number in range(len(pairs)):
            yield number, pickle.loads(pickle.dumps(found[number]))


def model() -> Any:
    return build(
        "g (float[1,3,60,60] x) => (float[1,3,58,58] y) { a = Conv(x, w) y = Relu(a) }", w=normal(3, 3, 3, 3, seed=3)
    )


def statistics(samples: Samples, executor: LocalExecutor | None = None, **more: Any) -> CalibrationStats:
    return collect(model(), NAMES, EVERYTHING, samples, CalibrationContext(threads=2, executor=executor, **more))


def assert_identical(found: CalibrationStats, expected: CalibrationStats) -> None:
    assert list(found.tensors) == list(expected.tensors) == NAMES
    for name in NAMES:
        ours, theirs = found[name].histogram, expected[name].histogram
        assert ours is not None and theirs is not None
        assert replace(found[name], histogram=None) == replace(expected[name], histogram=None)
        assert (ours.exponent, ours.first) == (theirs.exponent, theirs.first)
        np.testing.assert_array_equal(ours.counts, theirs.counts)


@pytest.mark.parametrize("count", [1, SHARD - 1, SHARD, SHARD + 1, 2 * SHARD + 5])
def test_statistics_of_shards_are_those_of_one_pass(count: int) -> None:
    samples = samples_of(model(), count)
    executor = Copies()
    assert_identical(statistics(samples, executor), statistics(samples))
    assert len(executor.done) == -(-count // SHARD)


def test_sums_are_those_of_one_pass_where_the_order_of_their_terms_matters() -> None:
    base = samples_of(model(), 3 * SHARD)
    exponents = np.random.default_rng(5).uniform(-10, 2, len(base))
    samples = Samples({"x": feed["x"] * np.float32(10.0**e)} for feed, e in zip(base, exponents, strict=True))
    expected = statistics(samples)
    one_by_one = TensorStatistics()
    for feed in samples:
        one_by_one.add(statistics(Samples([feed]))["x"])
    assert (one_by_one.low_sum, one_by_one.high_sum) != (expected["x"].low_sum, expected["x"].high_sum)
    assert_identical(statistics(samples, Copies()), expected)


@pytest.mark.parametrize("first_is_here", [True, False])
def test_a_run_that_broke_off_goes_on_elsewhere_with_the_same_bits(tmp_path: Path, first_is_here: bool) -> None:
    samples = samples_of(model(), 2 * SHARD + 5)
    broken = Samples(samples)
    broken[SHARD + 3] = {"x": np.zeros((1, 2, 8, 8), np.float32)}
    runs = [None, Copies()] if first_is_here else [Copies(), None]
    cache = StatisticsCache(tmp_path, "data", Log())
    with pytest.raises(ModelError, match="could not run"):
        statistics(broken, runs[0], cache=cache)
    assert_identical(statistics(samples, runs[1], cache=StatisticsCache(tmp_path, "data", Log())), statistics(samples))
    done = next(run for run in runs if run is not None).done
    assert done == ([1, 0] if first_is_here else [2, 1, 0])


def test_the_first_sample_that_is_wrong_is_named_whichever_shard_fails_first() -> None:
    samples = samples_of(model(), 3 * SHARD)
    for number in (SHARD + 4, 2 * SHARD):
        samples[number]["x"][0, 0, 0, 0] = np.nan
    with pytest.raises(CalibrationError, match=f"tensor x, sample {SHARD + 5}: "):
        statistics(samples, Copies())


def pictures(folder: Path, *, batch: int = 1) -> FileDataset:
    write_pictures(folder / "pictures", 7)
    spec = InputSpec("x", np.dtype(np.float32), (batch, 3, 8, 8))
    settings = ImagePreprocess(image_to_format="RGB")
    return open_dataset([("x", "pictures")], [spec], settings, size=None)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_part_of_files_can_be_read_by_a_process_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = pictures(tmp_path, batch=batch)
    expected = list(dataset)
    parts = [
        RememberingDataset(dataset).part(start, min(start + 3, len(dataset))) for start in range(0, len(dataset), 3)
    ]
    sent = pickle.dumps(parts)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = [feed for part in pickle.loads(sent) for feed in part]
    assert len(found) == len(expected) == -(-7 // batch)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours["x"], theirs["x"])


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_file_that_is_another_one_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bins(tmp_path / "bins", 3, (1, 4))
    spec = InputSpec("x", np.dtype(np.float32), (1, 4))
    part = open_dataset([("x", "bins")], [spec], Layout.NHWC, size=None).part(0, 3)
    file = tmp_path / "bins" / "001.bin"
    file.unlink() if change == "gone" else file.write_bytes(b"\0" * 32)
    with pytest.raises(DataError, match="is missing or different on machine ") as refused:
        list(part)
    assert refused.value.where == str(file)
    assert "same files at the same paths" in refused.value.hint


def test_samples_from_python_stay_in_their_process() -> None:
    spec = InputSpec("x", np.dtype(np.float32), (1, 4))
    dataset = RememberingDataset(IterableDataset([np.zeros((1, 4), np.float32)], [spec]))
    with pytest.raises(DataError, match="from files only"):
        dataset.part(0, 1)
