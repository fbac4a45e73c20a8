"""Search for files that break a reader: ``python -m tests.fuzz --minutes=60 [READER...]``.

Each reader gets an equal share of the time, in a process of its own that is started again when a file kills it. What is found
lies in the folder as READER-*.bin with a traceback beside it; ``corpus/`` keeps the files that reached new code.
``--files=10000`` gives each reader so many damaged files instead, and measures the memory of those that we write.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.readers import READERS

ARTEFACTS = ("crash-", "timeout-", "oom-")
"""What libFuzzer calls files that ended the process."""


def search(name: str, seconds: float, folder: Path) -> dict[str, float]:
    """Fuzz one reader; returns what was done."""
    total: dict[str, float] = {}
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 1:
        numbers = folder / f"{name}.numbers"
        numbers.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.worker", name, str(round(left)), str(folder)]
        started = time.monotonic()
        with (folder / f"{name}.log").open("ab") as log:
            subprocess.run(command, stdout=log, stderr=log, check=False)
        done = json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {}
        for key, value in done.items():
            total[key] = total.get(key, 0) + value
        if time.monotonic() - started < min(5.0, left / 2) and not done:
            raise SystemExit(f"the worker of {name} does not start; see {folder / f'{name}.log'}")
    return total


def count_off(name: str, files: int, folder: Path) -> dict[str, float]:
    """Give one reader a number of files; returns what was done."""
    command = [sys.executable, "-m", "tests.fuzz.worker", name, "0", str(folder), str(files)]
    subprocess.run(command, check=True)
    done: dict[str, float] = json.loads((folder / f"{name}.numbers").read_text(encoding="utf-8"))
    return done


def findings(name: str, folder: Path) -> list[Path]:
    """Files that broke a reader."""
    killed = [path for prefix in ARTEFACTS for path in folder.glob(f"{name}-{prefix}*")]
    return sorted([*folder.glob(f"{name}-*.bin"), *killed])


def main() -> int:
    """Entry point; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--minutes", type=float, default=10.0, help="for all readers together")
    parser.add_argument("--files", type=int, default=0, help="for each reader, instead of minutes")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    arguments = parser.parse_args()
    names = arguments.readers or list(READERS)
    if unknown := set(names) - set(READERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    broken = 0
    for name in names:
        if arguments.files:
            done = count_off(name, arguments.files, arguments.folder)
        else:
            done = search(name, arguments.minutes * 60 / len(names), arguments.folder)
        found = findings(name, arguments.folder)
        broken += len(found)
        print(f"{name:8} {done.get('seconds', 0):6.0f} s {int(done.get('runs', 0)):9,} files", end=" ")
        print(
            f"{int(done.get('accepted', 0)):8,} read {int(done.get('refused', 0)):9,} refused {len(found):3} findings"
        )
        for path in found:
            print(f"         {path}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
