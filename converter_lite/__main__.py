"""The commands: ``python -m converter_lite``, and the scripts ``converter_lite`` and ``opt``.

While modules load, an interruption ends the process as the system does it: nothing is written yet that would have to be removed.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the enumerations of signal load slowly


def converter_lite() -> None:
    """Convert, or carry out a subcommand."""
    _run("converter_lite.cli.converter_lite")


def opt() -> None:
    """Paddle-Lite's ``opt``."""
    _run("converter_lite.cli.opt")


def _run(command: str) -> None:
    is_heard = (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )  # not in the background of a shell, for one
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from importlib import import_module

    main = import_module(command).main
    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    converter_lite()
