"""The page of a network of 500 convolutions in a real browser: ``python -m bench.page``. Writes ``bench/PAGE.md``."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.machine import machine_lines
from bench.programs import Places
from bench.tables import markdown_table
from tests.reports.browser import Browser
from tests.reports.pages import chain_figures, content, write_page

ROOT = Path(__file__).resolve().parents[1]
LAYERS = 500
LOADS = 12

SIZE_GOAL, LOAD_GOAL = 5e6, 2.0
"""Bytes and seconds."""

HOW = """\
A chain of 500 convolutions and 499 Relus (1000 nodes). *Drawn* is the time from navigation until the page has drawn its charts
and its table, in headless Chromium; *main thread* is what the browser's main thread was busy with in that time. Median of 12
loads, extremes in brackets.
"""


def rows(folder: Path) -> Iterable[tuple[str, str, str, str]]:
    """What, figure, goal, result; for one output format and for two."""
    figures = chain_figures(LAYERS)
    for formats in (1, 2):
        page = write_page(folder / f"{formats}.html", content(figures, formats=formats))
        drawn, computed = [], []
        with Browser(folder / f"profile{formats}") as browser:
            for _ in range(LOADS):
                drawn.append(browser.open(page))
                computed.append(browser.thread_seconds())
        what = f"{formats} format{'s' if formats > 1 else ''}"
        size, median = page.stat().st_size, statistics.median(drawn)
        yield f"size, {what}", f"{size / 1e6:.2f} MB", f"< {SIZE_GOAL / 1e6:.0f} MB", _met(size < SIZE_GOAL)
        yield f"drawn, {what}", _spread(drawn), f"< {LOAD_GOAL:.0f} s", _met(median < LOAD_GOAL)
        yield f"main thread, {what}", _spread(computed), "", ""


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/PAGE.md", help="the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_page_") as name:
        folder = Path(name)
        machine = machine_lines(Places(ROOT, folder, folder, ROOT / ".runtimes"))
        table = markdown_table(("what", "figure", "goal", "result"), rows(folder))
        load = f"- load average when the run ended: {os.getloadavg()[0]:.1f}"
    head = ["# The page of 500 layers\n", "Made by `make bench-page`; not edited by hand.\n"]
    options.output.write_text("\n".join([*head, *machine, load, f"\n{HOW}", table]))
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
