"""Signals at times that bear none."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from converter_lite.system.interruptions import interruptions_come_too_late, interruptions_wait, started_without_ctrl_c

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are a matter of POSIX systems")


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, whatever started the tests."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


def test_an_interruption_is_answered_when_the_work_is_done() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interruptions_wait():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("work")
    assert done == ["work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_work_goes_before_an_interruption() -> None:
    with pytest.raises(ImportError), interruptions_wait():
        signal.raise_signal(signal.SIGINT)
        raise ImportError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_that_are_ignored_stay_ignored() -> None:
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptions_wait():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, kept)


def test_other_threads_may_use_it() -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with interruptions_wait(), interruptions_come_too_late():
                pass
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed


def test_an_interruption_that_comes_too_late_is_dropped() -> None:
    with interruptions_come_too_late():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_started_without_ctrl_c_never_gets_it_and_the_caller_gets_it_at_the_end() -> None:
    line = [sys.executable, "-c", "import signal; print(signal.SIGINT in signal.pthread_sigmask(0, ()))"]
    said = ""
    with pytest.raises(KeyboardInterrupt), started_without_ctrl_c():
        signal.raise_signal(signal.SIGINT)
        said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
