"""What a run reports while it works: a summary that does not grow with the model, details on request, progress."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO, TypeVar

from converter_lite.errors import ConverterError

Item = TypeVar("Item")

QUIET, NORMAL, DETAILED = 0, 1, 2


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shown_below(value: float, limit: float) -> str:
    """A number with five decimals, or as many more as show that it is below ``limit``."""
    texts = (f"{value:.{digits}f}" for digits in range(5, 17))
    return next((text for text in texts if float(text) < limit), str(value))


@dataclass(slots=True)
class Log:
    """Messages of one conversion.

    Attributes:
        verbosity: ``QUIET`` prints warnings only, ``NORMAL`` a summary, ``DETAILED`` everything.
        stream: Where messages go; with ``None`` only ``warnings`` and ``seconds`` are kept.
        errors: Where warnings go instead; ``None``: with the others.
        warnings: Everything said with :meth:`warning`, in order.
        seconds: Stage -> seconds of wall time.
        bars: Progress bars that are on the terminal now.
        shows_progress: Show progress bars even without a stream: for commands that print lines of their own.
        doing: What stands on the terminal's last line now, until something else is printed.
    """

    verbosity: int = QUIET
    stream: TextIO | None = None
    errors: TextIO | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    bars: int = 0
    shows_progress: bool = False
    doing: str = ""

    def info(self, text: str) -> None:
        """A line of the summary."""
        self._write(NORMAL, text)

    def debug(self, text: str) -> None:
        """A detail, shown with ``-v``."""
        self._write(DETAILED, text)

    def warning(self, text: str) -> None:
        """Something the user should know although the conversion goes on; said once."""
        if text not in self.warnings:
            self.warnings.append(text)
            self._write(QUIET, f"WARNING {text}", self.errors)

    def take(self, other: Log) -> None:
        """Say what another log was warned of, and add its seconds."""
        for text in other.warnings:
            self.warning(text)
        for name, seconds in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        other.warnings.clear()
        other.seconds.clear()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage of the conversion; its name is on the terminal meanwhile."""
        start = time.perf_counter()
        try:
            with self.announced(name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def announced(self, work: str) -> Iterator[None]:
        """Show on a terminal what is done, where no bar and no line says so."""
        if self._is_watched() and not self.bars:
            self._announce(f"{work} ...")
        try:
            yield
        finally:
            self._announce("")

    def track(self, items: Iterable[Item], label: str, total: int | None) -> Iterable[Item]:
        """Show progress over ``items`` with rate and (where ``total`` is known) time left, on a terminal only."""
        return self._tracked(items, label, total) if self._is_watched() else items

    def _is_watched(self) -> bool:
        speaks = self.stream is not None and self.verbosity >= NORMAL
        return (speaks or self.shows_progress) and sys.stderr.isatty()

    def _announce(self, text: str) -> None:
        if text == self.doing:
            return
        width, self.doing = len(self.doing), text
        with suppress(OSError):  # a terminal that is gone
            sys.stderr.write("\r" + text.ljust(width))
            if len(text) < width:
                sys.stderr.write("\r" + text)
            sys.stderr.flush()

    def _tracked(self, items: Iterable[Item], label: str, total: int | None) -> Iterator[Item]:
        from tqdm import tqdm

        self._announce("")
        self.bars += 1
        try:
            with tqdm(items, desc=label, total=total, leave=False, file=sys.stderr) as bar:
                yield from bar
        finally:
            self.bars -= 1

    def _write(self, level: int, text: str, to: TextIO | None = None) -> None:
        stream = to or self.stream
        if stream is None or self.verbosity < level:
            return
        self._announce("")
        try:
            if self.bars:
                from tqdm import tqdm

                tqdm.write(text, file=stream)  # above the bars
            else:
                stream.write(text + "\n")
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ConverterError(
                f"cannot print: {error.strerror}", where="standard error" if to else "standard output"
            ) from error


class _Forward(logging.Handler):
    def __init__(self, say: Callable[[str], None], level: int) -> None:
        super().__init__(level)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


@contextmanager
def library_messages(log: Log) -> Iterator[None]:
    """Within the context, our warnings in the standard log become warnings of ``log``.

    What onnx_ir reports about broken models becomes a detail: the error that follows says what is wrong.
    """
    routes = (("converter_lite", log.warning, logging.WARNING), ("onnx_ir", log.debug, logging.WARNING))
    added = []
    for name, say, level in routes:
        logger, handler = logging.getLogger(name), _Forward(say, level)
        added.append((logger, handler, logger.propagate))
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, handler, propagate in added:
            logger.removeHandler(handler)
            logger.propagate = propagate
