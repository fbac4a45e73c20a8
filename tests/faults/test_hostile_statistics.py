"""Statistics that were made to do harm are not used."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from converter_lite.calibration.cache import StatisticsCache
from converter_lite.log import Log


def save_statistics(path: Path, **arrays: object) -> Path:
    good = {
        "count": np.array(2),
        "numbers": np.array([[2, -1, 1, 0, -1, 1, 0]], np.float64),
        "grids": np.array([[-4, -2, 4]]),
        "bins": np.arange(4),
    }
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=True, **{**good, **arrays})  # type: ignore[arg-type]
    return path


class Thief:
    """An object whose reading would run something."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("stolen"),)


def test_statistics_with_objects_are_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log()
    cache = StatisticsCache(tmp_path, "", log)
    assert cache.load(save_statistics(tmp_path / "good.npz"), ["x"])[0] == 2
    path = save_statistics(tmp_path / "bad.npz", bins=np.array([Thief()], object))
    assert cache.load(path, ["x"]) == (0, [])
    assert "the samples are read again" in log.warnings[0]
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize(
    "grid", [[10**17, 0, 4], [-(10**17), 0, 4], [0, 2**62, 4], [0, 0, -4], [0, 0, 10**15]], ids=str
)
def test_statistics_with_impossible_histograms_are_not_used(tmp_path: Path, grid: list[int]) -> None:
    log = Log()
    path = save_statistics(tmp_path / "s.npz", grids=np.array([grid]))
    assert StatisticsCache(tmp_path, "", log).load(path, ["x"]) == (0, [])
    assert len(log.warnings) == 1


@pytest.mark.parametrize("empty", [-1, 3, np.nan, np.inf])
def test_statistics_with_impossible_counts_are_not_used(tmp_path: Path, empty: float) -> None:
    log = Log()
    path = save_statistics(tmp_path / "s.npz", numbers=np.array([[2, -1, 1, 0, -1, 1, empty]], np.float64))
    assert StatisticsCache(tmp_path, "", log).load(path, ["x"]) == (0, [])
    assert len(log.warnings) == 1


def test_compressed_statistics_are_not_unpacked(tmp_path: Path) -> None:
    path = save_statistics(tmp_path / "s.npz", bins=np.zeros(20_000_000, np.int8))
    packed = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    log = Log()
    tracemalloc.start()
    assert StatisticsCache(tmp_path, "", log).load(packed, ["x"]) == (0, [])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert "compressed" in log.warnings[0]
