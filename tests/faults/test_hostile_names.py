"""Names that were made to do harm are shown, not obeyed."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest

from converter_lite.cli.console import EscapingStream, printable
from converter_lite.reports.csv_rows import name_field
from tests.cli.workshop import WEIGHT, Workshop, child, environment, model_proto

EVIL = "a\x1b]0;title\x07\x1b[2J\u202egnp.exe\rb\x9b31m"


def test_control_characters_are_shown_not_obeyed() -> None:
    assert printable("plain\ttext\nмодель 模型") == "plain\ttext\nмодель 模型"
    assert printable(EVIL) == "a\\x1b]0;title\\x07\\x1b[2J\\u202egnp.exe\\rb\\x9b31m"


def test_progress_bars_may_move_the_cursor_and_names_in_them_may_not() -> None:
    raw = io.BytesIO()
    stream = EscapingStream(raw, encoding="ascii", errors="backslashreplace", newline="")
    for text in ("\r 50% é\x1b[2J", "\n", "\x1b[A", "\r"):
        stream.write(text)
    stream.flush()
    assert raw.getvalue() == b"\r 50% \\xe9\\x1b[2J\n\x1b[A\r"


@pytest.mark.parametrize("module", ["converter_lite", "opt"])
def test_names_in_a_model_or_path_do_not_reach_the_terminal_raw(workshop: Workshop, module: str) -> None:
    proto = model_proto()
    for node in proto.graph.node:
        node.name = f"{EVIL}{node.name}"
    proto.graph.node[0].op_type = "Foreign"
    proto.graph.node[0].domain = EVIL
    name = f"{EVIL}.onnx".replace("/", "")
    onnx.save(proto, name)
    if module == "opt":
        code = ["--model_file=" + name, "--optimize_out=out"]
        line = [sys.executable, "-m", "converter_lite.cli.opt", *code]
        done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    else:
        done = child("--fmk=ONNX", f"--modelFile={name}", "--outputFile=out", "--saveType=ONNX", "-v")
    assert done.returncode == 1
    assert "\\x1b" in done.stdout + done.stderr
    assert not set(done.stdout + done.stderr) & {"\x1b", "\x07", "\x9b", "\u202e"}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_name_that_a_spreadsheet_would_run_is_text_in_a_report(start: str) -> None:
    assert name_field(f"{start}cmd|' /C calc'!A0").lstrip('"').startswith("'")


def test_a_name_cannot_add_rows_or_columns_to_a_report() -> None:
    assert name_field('a,b\n=1+1,"c"') == '"a,b\n=1+1,""c"""'


def test_the_result_for_programs_is_json_even_when_figures_are_not_finite(workshop: Workshop) -> None:
    onnx.save(model_proto(w_fc=np.zeros((5, 20), np.float32), b_fc=np.zeros(5, np.float32)), "model.onnx")
    workshop.convert("--json=result.json", "--minCosine=0", config=WEIGHT)

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    json.loads((workshop.folder / "result.json").read_text(encoding="utf-8"), parse_constant=refuse)
