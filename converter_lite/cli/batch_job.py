"""``python -m converter_lite.cli.batch_job``: the command, ending when the batch that started it ends.

A batch that is killed cannot end its jobs. So each job reads from a pipe that nobody writes to: the system closes the other end
when the process that holds it ends, for whatever reason, on every platform.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from converter_lite.batch import GRACE_SECONDS
from converter_lite.cli.converter_lite import main
from converter_lite.errors import EXIT_INTERRUPTED

STDIN = 0
"""Its descriptor."""


def end_with_parent() -> None:
    """Interrupt this process, once, when standard input ends; it may clean up for ``GRACE_SECONDS``."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    while os.read(STDIN, 1):
        pass
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    end_with_parent()
    main()
