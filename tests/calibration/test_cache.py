from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.calibration import runner
from converter_lite.calibration.cache import StatisticsCache
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.observers import METHODS
from converter_lite.calibration.runner import collect
from converter_lite.calibration.shards import SHARD
from converter_lite.calibration.statistics import CalibrationStats
from converter_lite.log import Log
from tests.support import Samples, build, normal, samples_of

NAMES = ["x", "a", "y"]
COUNT = 2 * SHARD + 5


class Counted(Samples):
    """Samples that count how often one is read."""

    reads = 0

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return self.tail(0)

    def tail(self, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        for feed in self[start:]:
            self.reads += 1
            yield feed


def net(seed: int = 1) -> ir.Model:
    return build(
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { a = Conv(x, w, b) y = Relu(a) }",
        w=normal(4, 3, 3, 3, seed=seed),
        b=normal(4),
    )


def statistics(
    folder: Path | None,
    samples: Samples,
    *,
    model: ir.Model | None = None,
    method: str = "MAX_MIN",
    data: str = "data",
    log: Log | None = None,
) -> CalibrationStats:
    log = log or Log()
    cache = None if folder is None else StatisticsCache(folder, data, log)
    need, _ = METHODS[method]
    return collect(model or net(), NAMES, need, samples, CalibrationContext(threads=2, log=log, cache=cache))


def samples(count: int = COUNT) -> Counted:
    return Counted(samples_of(net(), count))


def ranges(stats: CalibrationStats, method: str) -> list[tuple[float, float]]:
    return [METHODS[method][1](stats[name], 8) for name in NAMES]


def test_a_second_method_reads_no_sample_and_finds_the_same_ranges(tmp_path: Path) -> None:
    statistics(tmp_path, samples())
    for method in METHODS:
        again = samples()
        found = ranges(statistics(tmp_path, again, method=method), method)
        assert again.reads == 0
        assert found == ranges(statistics(None, samples(), method=method), method)


@pytest.mark.parametrize("survived", [SHARD - 1, SHARD + 3, COUNT - 1])
def test_a_run_that_broke_off_goes_on_where_it_was(tmp_path: Path, survived: int) -> None:
    first, broken = samples(), samples()
    broken[survived] = {"x": np.zeros((1, 2, 8, 8), np.float32)}
    with pytest.raises(Exception, match="could not run"):
        statistics(tmp_path, broken)
    second = samples()
    found = statistics(tmp_path, second)
    assert second.reads == COUNT - survived // SHARD * SHARD
    for method in METHODS:
        assert ranges(found, method) == ranges(statistics(None, first, method=method), method)


def test_a_killed_process_loses_little(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from tests.calibration.test_cache import SHARD, samples, statistics, Counted
class Killing(Counted):
    def tail(self, start):
        for i, feed in enumerate(super().tail(start), start):
            if i == SHARD + 9:
                os.kill(os.getpid(), signal.SIGKILL)
            yield feed
statistics(Path(sys.argv[1]), Killing(samples()))
"""
    child = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -signal.SIGKILL
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]
    rest = samples()
    found = statistics(tmp_path, rest)
    assert rest.reads == COUNT - SHARD
    assert ranges(found, "KL") == ranges(statistics(None, samples(), method="KL"), "KL")


def test_groups_of_tensors_have_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "GROUP", 2)
    statistics(tmp_path, samples())
    assert len(list(tmp_path.iterdir())) == 2
    again = samples()
    assert ranges(statistics(tmp_path, again), "KL") == ranges(statistics(None, samples(), method="KL"), "KL")
    assert again.reads == 0


def test_other_weights_and_other_data_are_collected_anew(tmp_path: Path) -> None:
    statistics(tmp_path, samples())
    for changes in ({"model": net(seed=2)}, {"data": "data prepared otherwise"}):
        again = samples()
        statistics(tmp_path, again, **changes)  # type: ignore[arg-type]
        assert again.reads == COUNT
    assert len(list(tmp_path.iterdir())) == 3


def test_statistics_of_another_runtime_are_collected_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statistics(tmp_path, samples())
    monkeypatch.setattr("onnxruntime.__version__", "0.1")
    again = samples()
    statistics(tmp_path, again)
    assert again.reads == COUNT


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "other tensors", "impossible"])
def test_a_damaged_file_is_ignored_with_a_warning(tmp_path: Path, damage: str) -> None:
    statistics(tmp_path, samples())
    file = next(tmp_path.iterdir())
    content = file.read_bytes()
    with np.load(file) as stored:
        arrays = dict(stored)
    if damage == "other tensors":
        np.savez(file, **{**arrays, "numbers": arrays["numbers"][:2]})  # type: ignore[arg-type]
    elif damage == "impossible":
        np.savez(file, **{**arrays, "numbers": arrays["numbers"] * np.nan})  # type: ignore[arg-type]
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
        file.write_bytes({"empty": b"", "cut": content[:middle], "flipped": flipped, "text": b"hello"}[damage])
    again, log = samples(), Log()
    found = statistics(tmp_path, again, log=log)
    assert again.reads == COUNT
    assert len(log.warnings) == 1 and "cannot be used" in log.warnings[0] and str(file) in log.warnings[0]
    assert ranges(found, "KL") == ranges(statistics(None, samples(), method="KL"), "KL")
    assert statistics(tmp_path, again).tensors and again.reads == COUNT


def test_a_folder_that_cannot_be_written_costs_a_warning_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    log = Log()
    found = statistics(blocked / "cache", samples(3), log=log)
    assert found["y"].samples == 3
    assert len(log.warnings) == 1 and "cannot be kept" in log.warnings[0]


def open_net() -> ir.Model:
    """The same network with an open batch."""
    return build(
        "g (float[N,3,8,8] x) => (float[N,4,6,6] y) { a = Conv(x, w, b) y = Relu(a) }",
        w=normal(4, 3, 3, 3, seed=1),
        b=normal(4),
    )


def test_formats_of_one_run_share_what_they_have_in_common() -> None:
    cache, read = StatisticsCache(None, "", Log()), samples()
    need, _ = METHODS["KL"]

    def observed(model: ir.Model, names: list[str]) -> CalibrationStats:
        return collect(model, names, need, read, CalibrationContext(threads=2, cache=cache))

    observed(net(), ["x", "a"])
    assert read.reads == COUNT
    observed(open_net(), ["a", "x"])
    assert read.reads == COUNT
    found = observed(open_net(), NAMES)
    assert read.reads == 2 * COUNT  # one tensor is new
    assert ranges(found, "KL") == ranges(statistics(None, samples(), method="KL"), "KL")
    observed(net(seed=2), NAMES)
    assert read.reads == 3 * COUNT


def test_kinds_that_were_not_collected_are_collected_anew() -> None:
    cache, read = StatisticsCache(None, "", Log()), samples()
    for reads, method in enumerate(("MAX_MIN", "KL", "MAX_MIN"), start=1):
        need, _ = METHODS[method]
        found = collect(net(), NAMES, need, read, CalibrationContext(threads=2, cache=cache))
        assert read.reads == min(reads, 2) * COUNT
        assert ranges(found, method) == ranges(statistics(None, samples(), method=method), method)
