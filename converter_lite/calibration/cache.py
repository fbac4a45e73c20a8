"""Statistics on disk, so a second calibration of the same graph on the same data reads no sample, and a killed one resumes.

One file per group of tensors, named by a hash of everything that its content depends on: the graph that computes the statistics
(weights included, hence also equalization and smoothing), the data and their preprocessing, the version of the runtime and this
module's format. Files are replaced as a whole, so a killed run leaves the last complete state; a file that cannot be read is
ignored with a warning.

Within a run the output formats share what was found: one that observes the same graph collects only what is still unknown.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.calibration.statistics import Need, TensorStatistics
from converter_lite.kernels.histogram import MAX_BINS, SMALLEST_EXPONENT, Histogram
from converter_lite.log import Log
from converter_lite.runtime.engine import engine_version
from converter_lite.runtime.serializing import message
from converter_lite.system.archives import BROKEN_ARCHIVE

FORMAT = 3
"""Increased when the meaning of the files' content changes."""

Group = list[TensorStatistics]


class StatisticsCache:
    """Statistics of a run, and in a folder those of earlier ones.

    Args:
        folder: Made when something is saved; ``None`` keeps nothing beyond the run.
        fingerprint: Hash of the data and of their preprocessing (``Dataset.fingerprint``).
        log: Receives warnings.
    """

    def __init__(self, folder: Path | None, fingerprint: str, log: Log) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self._log = log
        self._known: dict[tuple[str, str], tuple[Need, TensorStatistics]] = {}

    @property
    def is_lasting(self) -> bool:
        """Whether later runs will find the statistics."""
        return self._folder is not None

    def known(self, graph: str, names: Sequence[str], need: Need) -> dict[str, TensorStatistics]:
        """What this run has found already for tensors of a graph, all of ``need`` included."""
        found = {name: self._known.get((graph, name), (Need(0), TensorStatistics())) for name in names}
        return {name: item for name, (kinds, item) in found.items() if need in kinds}

    def remember(self, graph: str, found: Mapping[str, TensorStatistics], need: Need) -> None:
        """Keep statistics over all samples for the rest of the run."""
        self._known.update({(graph, name): (need, item) for name, item in found.items()})

    def path(self, graph: str, names: Sequence[str]) -> Path | None:
        """File of a group of tensors that a graph with this digest observes; ``None`` if nothing is kept on disk."""
        if self._folder is None:
            return None
        digest = hashlib.sha256(repr((FORMAT, engine_version(), graph, self._fingerprint, list(names))).encode())
        return self._folder / f"{digest.hexdigest()}.npz"

    def load(self, path: Path, names: Sequence[str]) -> tuple[int, Group]:
        """Samples seen and the statistics of each tensor so far; ``(0, [])`` where there are none."""
        if not path.exists():
            return 0, []
        try:
            data = path.read_bytes()
            _refuse_compressed(data)
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                count = int(arrays["count"])
                numbers, grids, bins = arrays["numbers"], arrays["grids"], arrays["bins"]
            ends = np.cumsum(grids[:, 2])
            if count < 1 or numbers.shape != (len(names), 7) or grids.shape != (len(names), 3) or ends[-1] != len(bins):
                raise ValueError("its arrays do not fit each other")
            parts = np.split(bins.astype(np.int64), ends[:-1])
            return count, [_unpacked(row, grid, part) for row, grid, part in zip(numbers, grids, parts, strict=True)]
        except BROKEN_ARCHIVE as error:
            self._log.warning(f"{path}: this statistics file cannot be used ({error}); the samples are read again")
            return 0, []

    def save(self, path: Path, count: int, group: Group) -> None:
        """Replace the file of a group by the statistics over its first ``count`` samples."""
        histograms = [item.histogram or Histogram(0, 0, np.zeros(0, np.int64)) for item in group]
        numbers = np.array([_numbers(item) for item in group], np.float64)
        grids = np.array([(h.exponent, h.first, len(h.counts)) for h in histograms], np.int64)
        bins = np.concatenate([h.counts for h in histograms])
        archive = io.BytesIO()  # a disk that is full in the middle leaves NumPy 1 with an archive that it cannot close
        np.savez(archive, count=np.array(count), numbers=numbers, grids=grids, bins=bins)
        folder, made = path.parent, ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
            with os.fdopen(handle, "wb") as stream:
                stream.write(archive.getbuffer())
            Path(made).replace(path)
        except OSError as error:
            if made:
                Path(made).unlink(missing_ok=True)
            self._log.warning(f"{folder}: statistics cannot be kept ({error.strerror or error})")


def identity(model: ir.Model) -> str:
    """Digest of what a graph computes: nodes and constants, whatever its shapes; an open batch changes no statistics."""
    copy = model.clone()
    values = [*copy.graph.inputs, *(output for node in copy.graph for output in node.outputs)]
    for value in values:
        value.shape = None
    return message(copy).digest()


def _refuse_compressed(data: bytes) -> None:
    """We store arrays uncompressed; a compressed file is not ours, and may unpack to any size."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(data):
            raise ValueError("its arrays are compressed")


def _numbers(item: TensorStatistics) -> tuple[float, ...]:
    return (item.samples, item.rmin, item.rmax, item.outliers, item.low_sum, item.high_sum, item.empty)


def _unpacked(
    row: NDArray[np.float64],
    grid: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> TensorStatistics:
    samples, rmin, rmax, outliers, low_sum, high_sum, empty = (float(number) for number in row)
    if 1 <= samples == empty:
        return TensorStatistics(int(samples), empty=int(empty))
    if not 0 <= empty < samples or not np.isfinite(row).all() or rmin > rmax or len(counts) == 0 or counts.min() < 0:
        raise ValueError("its numbers are impossible")
    if not (SMALLEST_EXPONENT <= grid[0] <= 128 and abs(int(grid[1])) < 1 << 31 and len(counts) <= MAX_BINS):
        raise ValueError("its histogram is impossible")
    found = Histogram(int(grid[0]), int(grid[1]), counts)
    return TensorStatistics(int(samples), rmin, rmax, int(outliers), low_sum, high_sum, found, int(empty))
