"""The command line that the peers' scripts share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from bench.samples import Feed, calibration_feeds


class PeerArguments(argparse.Namespace):
    """What to convert, where to, and with which samples."""

    task: str
    model: Path
    output: Path
    data: Path
    samples: int

    def feeds(self) -> Iterator[Feed]:
        """The calibration samples."""
        return calibration_feeds(self.task, self.data, self.samples)


def peer_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of :class:`PeerArguments`; each peer adds options of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--task", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=100)
    return parser
