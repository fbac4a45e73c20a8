"""What all tests share: the table of variants that were run in the devices' runtimes."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator

import pytest

VARIANTS = "variants"
"""Property of a report: runtime, form, and how many variants were tried, refused and wrong (``None``: as the test ended)."""

COLUMNS = ("tried", "right", "refused", "wrong")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each runtime and form."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(COLUMNS))
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
            if name != VARIANTS:
                continue
            runtime, form, tried, refused, wrong = value
            wrong = (tried if report.failed else 0) if wrong is None else wrong
            counts = (tried, tried - refused - wrong, refused, wrong)
            found[runtime, form] = [a + b for a, b in zip(found[runtime, form], counts, strict=True)]
    if not found:
        return
    terminalreporter.section("variants in the runtimes of the devices")
    width = max(len(runtime) for runtime, _ in found), max(len(form) for _, form in found)
    terminalreporter.write_line(f"{'runtime':{width[0]}}  {'form':{width[1]}}" + "".join(f"{c:>9}" for c in COLUMNS))
    for (runtime, form), counts in sorted(found.items()):
        numbers = "".join(f"{count:9,}" for count in counts)
        terminalreporter.write_line(f"{runtime:{width[0]}}  {form:{width[1]}}{numbers}")


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """No finalizer of an earlier test's garbage runs in this one: near Python's limit of recursion it would fail."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
