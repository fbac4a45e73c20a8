"""One reader, fuzzed in this process: ``python -m tests.fuzz.worker READER SECONDS FOLDER [FILES]``.

With Atheris the damage follows what the reader's code does with it (libFuzzer); without, it is that of ``tests/mutation.py``.
A number of files is of that kind always, the same at every call, and memory is measured.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from types import TracebackType

from converter_lite.errors import ConverterError
from tests.support import reading_limit, traced_peak

SLOW_SECONDS = 5.0
"""Processor time of one file that is a finding; files are smaller than ``MAX_BYTES``."""

MAX_BYTES = 1 << 16
MEMORY_MB = 2048
MEASURED = 10
"""Of so many files the memory of one is measured: that takes ten times as long as to read it."""

HANG_SECONDS = 180


class Watch:
    """Calls a reader and keeps what it should not do, one file for each place in the code."""

    def __init__(self, name: str, folder: Path) -> None:
        from tests.fuzz.readers import READERS

        self._read = READERS[name].read
        self._name = name
        self._folder = folder
        self._start = time.monotonic()
        self.runs = self.accepted = self.refused = 0

    def __call__(self, data: bytes) -> None:
        """Read."""
        self.runs += 1
        start = time.process_time()
        try:
            self._read(data)
            self.accepted += 1
        except ConverterError:
            self.refused += 1
        except Exception as error:  # noqa: BLE001 - what the search is for
            self._keep(data, _place(error), "".join(traceback.format_exception(error)))
        seconds = time.process_time() - start
        if seconds > SLOW_SECONDS:
            self._keep(data, "slow", f"{seconds:.1f} s of processor time for {len(data)} bytes\n")
        if self.runs % 100 == 0:
            self.report()

    def in_little_memory(self, data: bytes) -> None:
        """Read a file a second time and see what it takes."""
        peak = traced_peak(partial(self._read, data))
        if peak > reading_limit(data):
            self._keep(data, "memory", f"{peak} bytes of memory for {len(data)} bytes\n")

    def _keep(self, data: bytes, place: str, text: str) -> None:
        path = self._folder / f"{self._name}-{hashlib.sha256(place.encode()).hexdigest()[:10]}"
        if not path.with_suffix(".txt").exists():
            path.with_suffix(".bin").write_bytes(data)
            path.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")

    def report(self) -> None:
        """Numbers for the parent process."""
        numbers = {"runs": self.runs, "accepted": self.accepted, "refused": self.refused}
        seconds = time.monotonic() - self._start
        text = json.dumps({**numbers, "seconds": round(seconds, 1)})
        (self._folder / f"{self._name}.numbers").write_text(text, encoding="utf-8")


def _place(error: BaseException) -> str:
    """Type of the error, and where our own code was."""
    trace: TracebackType | None = error.__traceback__
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(trace)]
    ours = [f"{path.name}:{line}" for path, line in frames if "converter_lite" in path.parts]
    return f"{type(error).__name__} {ours[-1] if ours else ''}"


def _with_atheris(name: str, seconds: int, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["converter_lite"]):
        watch = Watch(name, folder)
    corpus = folder / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for data in _seeds(name):
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    options = [f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", f"-rss_limit_mb={MEMORY_MB}"]
    options += [f"-timeout={HANG_SECONDS}", f"-artifact_prefix={folder}/{name}-", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], watch)
    atheris.Fuzz()


def _with_mutations(name: str, seconds: int, folder: Path) -> None:
    watch, deadline = Watch(name, folder), time.monotonic() + seconds
    for data in _mutations(name, time.time_ns() % 1_000_000_007):
        if time.monotonic() > deadline:
            watch.report()
            return
        watch(data)


def _counted(name: str, files: int, folder: Path) -> None:
    from tests.fuzz.readers import READERS

    watch = Watch(name, folder)
    for number, data in enumerate(islice(_mutations(name, 0), files)):
        watch(data)
        if READERS[name].is_lean and number % MEASURED == 0:
            watch.in_little_memory(data)
    watch.report()


def _mutations(name: str, first: int) -> Iterator[bytes]:
    from tests.mutation import mutations

    seeds = _seeds(name)
    for seed in count(first):
        yield from mutations(seeds[seed % len(seeds)], 10, seed=seed)


def _seeds(name: str) -> list[bytes]:
    from tests.fuzz.readers import READERS

    return READERS[name].seeds()


def main() -> None:
    """Entry point."""
    name, seconds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    if files := int(sys.argv[4]) if len(sys.argv) > 4 else 0:
        _counted(name, files, folder)
        return
    run = _with_atheris if importlib.util.find_spec("atheris") else _with_mutations
    run(name, seconds, folder)


if __name__ == "__main__":
    main()
