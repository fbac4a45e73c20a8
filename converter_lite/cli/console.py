"""Output to the terminal: names from models and paths cannot control it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings

from converter_lite.errors import EXIT_FAILED

_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters other than tab and line feed, and those that change the direction of text."""

_PROGRESS = re.compile(r"(?:[\r\n]|\x1b\[A)*")
"""How a progress bar moves the cursor; it writes only these, and a carriage return in front of its own text."""


def printable(text: str) -> str:
    """The text with control characters as backslash escapes: a terminal shows them instead of obeying."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


class EscapingStream(io.TextIOWrapper):
    """A text stream that writes :func:`printable` text, and escapes what its encoding lacks."""

    def write(self, text: str, /) -> int:
        """Write; the progress bar may move the cursor."""
        if not _PROGRESS.fullmatch(text):
            start = "\r" if text.startswith("\r") else ""
            super().write(start + printable(text.removeprefix(start)))
        else:
            super().write(text)
        return len(text)


def protect_streams() -> None:
    """Make standard output and standard error escape control characters from here on; closed ones lead nowhere."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # or the next file that is opened would stand in its place
            setattr(sys, name, _nowhere(number))
    sys.stdout = _escaping(sys.stdout)
    sys.stderr = _escaping(sys.stderr)


def _nowhere(number: int) -> io.TextIOWrapper:
    """The null device as a standard stream that was closed when the process began."""
    device = os.open(os.devnull, os.O_RDWR)
    if device > number:
        os.dup2(device, number)
        os.close(device)
        device = number
    return io.TextIOWrapper(os.fdopen(device, "rb" if number == 0 else "wb"), encoding="utf-8")


def silence_libraries() -> None:
    """Keep warnings of Python modules off the error output, unless the user asks for them (``PYTHONWARNINGS``)."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def flush_streams() -> bool:
    """Flush what is left; returns whether that worked. What cannot be written is dropped, so that nothing tries again."""
    done = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            done = False
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return done


def end_process(code: object) -> None:
    """End with an exit status at once, when everything is written.

    Tearing down every loaded module and session takes a tenth of a second, a fifth of a short run.
    """
    if not flush_streams():
        code = code or EXIT_FAILED
    os._exit(code if isinstance(code, int) else 0)


def _escaping(stream: object) -> EscapingStream:
    """The stream wrapped so that it escapes; others (a test's buffer, none at all) are returned as they are."""
    if type(stream) is not io.TextIOWrapper:
        return stream  # type: ignore[return-value]
    encoding, buffered, through = stream.encoding, stream.line_buffering, stream.write_through
    return EscapingStream(
        stream.detach(),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=buffered,
        write_through=through,
    )
