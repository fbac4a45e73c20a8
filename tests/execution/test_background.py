from __future__ import annotations

import threading

import pytest

from converter_lite.execution.background import BackgroundCall


def test_a_call_runs_while_its_caller_goes_on_and_gives_its_result() -> None:
    may_end = threading.Event()

    def work() -> int:
        assert may_end.wait(10)
        return 7

    under_way = BackgroundCall(work)
    may_end.set()
    assert under_way.result() == 7
    assert under_way.result() == 7


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    under_way = BackgroundCall(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        under_way.result()
