"""Progress bars: on a terminal every long stage has one with rate and time left, elsewhere there are none."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir
import pytest

from converter_lite.formats.onnx import writer
from converter_lite.formats.onnx.writer import save
from converter_lite.log import NORMAL, Log
from tests.cli.workshop import FULL, WEIGHT, Config, Workshop, changed, environment, ini, model_proto

GOAL = {"common_quant_param": {"target_cosine": "0.9999999", "max_float_nodes": "1"}}
DEBUG = {"common_quant_param": {"debug_info_save_path": "debug"}}


CONVERT = ("converter_lite", "--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=ONNX")
OPT = ("converter_lite.cli.opt", "--model_file=model.onnx", "--optimize_out=out")


def on_a_terminal(config: Config, command: Sequence[str] = (*CONVERT, "--configFile=quant.cfg")) -> str:
    """What a command shows on a terminal, bars included."""
    Path("quant.cfg").write_text(ini(config), encoding="utf-8")
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    line = [sys.executable, "-m", *command]
    with subprocess.Popen(line, stdout=terminal, stderr=terminal, stdin=terminal, env=environment()) as process:
        os.close(terminal)
        shown = b""
        while process.poll() is None or select.select([leader], [], [], 0)[0]:
            try:
                shown += os.read(leader, 65536) if select.select([leader], [], [], 0.1)[0] else b""
            except OSError:  # the other end is closed
                break
    os.close(leader)
    assert process.returncode == 0, shown.decode()
    return shown.decode()


@pytest.mark.parametrize(
    ("config", "labels"),
    [
        (
            changed(changed(FULL, **GOAL), **DEBUG),
            (
                "equalizing",
                "calibrating",
                "rounding weights",
                "correcting layers",
                "measuring layers",
                "proving",
                "debug reports",
            ),
        ),
        (WEIGHT, ("rounding weights", "proving")),
    ],
)
def test_every_long_stage_has_a_bar_with_rate_and_time_left(
    workshop: Workshop, config: Config, labels: tuple[str, ...]
) -> None:
    del workshop
    assert_has_bars(on_a_terminal(config), labels)


def assert_has_bars(shown: str, labels: Sequence[str]) -> None:
    for label in labels:
        assert re.search(rf"{label}: +\d+%\|.*\| \d+/\d+ \[\d\d:\d\d<(\d\d:\d\d|\?), ", shown), (label, shown)


def test_opt_has_the_same_bars_beside_its_own_lines(workshop: Workshop) -> None:
    del workshop
    shown = on_a_terminal(FULL, (*OPT, "--configFile=quant.cfg"))
    assert_has_bars(shown, ("calibrating", "proving"))
    assert "seconds:" not in shown


def test_analyses_have_bars(workshop: Workshop) -> None:
    workshop.succeed(config=FULL)
    compare = ("converter_lite", "compare", "model.onnx", "out.onnx", "--configFile=quant.cfg")
    assert_has_bars(on_a_terminal(FULL, compare), ("matching channels", "comparing"))
    sensitivity = ("converter_lite", "sensitivity", "--modelFile=model.onnx", "--configFile=quant.cfg")
    assert_has_bars(on_a_terminal(FULL, sensitivity), ("measuring layers",))


def test_constants_that_are_rounded_while_they_are_written_have_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer, "SINGLE_FILE_LIMIT", 1)
    monkeypatch.setattr(writer, "EXTERNAL_FROM", 1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    save(ir.from_proto(model_proto()), tmp_path / "out.onnx", Log(shows_progress=True))
    assert re.search(r"writing constants: +0%\|.*\| 0/4 \[00:00<\?, ", capsys.readouterr().err)


def test_lines_of_the_summary_stand_above_the_bars(workshop: Workshop) -> None:
    del workshop
    shown = on_a_terminal(changed(FULL, **DEBUG))
    lines = re.split(r"[\r\n]+", shown)
    assert "Statistics the original data distribution. Round 3" in lines


def test_before_the_first_line_the_terminal_says_what_is_done(workshop: Workshop) -> None:
    del workshop
    before, _, after = on_a_terminal(WEIGHT).partition("nodes: ")
    assert re.fullmatch(r"\r(loading \.\.\.)\r +\r\rread \.\.\.\r +\r\roptimize \.\.\.\r +\r", before), before
    assert not re.search(r"\.\.\.[^\r]", after), "a message stands on a line of its own"


def test_quiet_runs_announce_nothing(workshop: Workshop) -> None:
    del workshop
    assert "..." not in on_a_terminal(WEIGHT, (*CONVERT, "--configFile=quant.cfg", "--quiet"))


def test_elsewhere_there_are_no_bars(workshop: Workshop) -> None:
    outcome = workshop.convert(config=changed(FULL, **DEBUG))
    assert "it/s" not in outcome.err + outcome.out
    assert "%|" not in outcome.err + outcome.out
    assert "..." not in outcome.err


def test_items_pass_through_where_nothing_is_shown() -> None:
    items = [1, 2, 3]
    assert Log().track(items, "counting", 3) is items
    assert list(Log(NORMAL, sys.stdout).track(items, "counting", 3)) == items
