"""A program that starts slowly, started once for many runs (``fork_server.c``): each run is a process of its own."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

DIED = 1
"""Status of a run with which the server itself ended."""


class ForkServer:
    """The program; it starts at the first run, and again after a run that took too long."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Take the command, which preloads ``fork_server.c`` and has no arguments for the program."""
        self._command, self._environment = list(command), dict(environment)
        self._server: subprocess.Popen[bytes] | None = None

    def run(self, arguments: Sequence[str], log: Path, *, timeout: float) -> int:
        """Exit status of a run with these arguments; ``log`` gets all that it prints.

        Raises:
            subprocess.TimeoutExpired: It took longer than ``timeout`` seconds.
        """
        server = self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\t".join((str(log), *arguments)).encode() + b"\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout)[0]:
            self.close()
            raise subprocess.TimeoutExpired(self._command, timeout)
        answer = server.stdout.readline()
        if not answer:
            self.close()
        return int(answer) if answer else DIED

    def close(self) -> None:
        """End the program, and a run that has not ended."""
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
            self._server = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(self._command, env=self._environment, stdin=pipe, stdout=pipe)
        return self._server
