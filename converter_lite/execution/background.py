"""Work in a thread beside the one that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

Result = TypeVar("Result")


class BackgroundCall(Generic[Result]):
    """A call that is under way in a thread of its own, which does not keep the process from ending.

    Args:
        function: Called once, at once.
    """

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._outcome: Future[Result] = Future()
        Thread(target=self._run, daemon=True).start()

    def result(self) -> Result:
        """What the function returns, or the exception that it raises; waits for it."""
        return self._outcome.result()

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._function())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._outcome.set_exception(error)
