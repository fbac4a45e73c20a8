"""What the released converter of the original encrypts is read."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.workshop import command, model_proto
from tests.runtimes.ms_runtime import X86_PYTHON, x86_missing

KEY = "30313233343536373839414243444546"

CHILD = """
import json, sys
import mindspore_lite as lite
wish = json.loads(sys.argv[1])
converter = lite.Converter()
converter.save_type = lite.ModelType.MINDIR_LITE
for name, value in wish["attributes"].items():
    setattr(converter, name, value)
converter.convert(getattr(lite.FmkType, wish["fmk"]), wish["model"], wish["output"])
"""


def original(fmk: str, model: Path, output: Path, **attributes: Any) -> str:
    """A conversion by the released converter; what it printed, empty if it wrote a file."""
    wish = json.dumps({"fmk": fmk, "model": str(model), "output": str(output), "attributes": attributes})
    line = [str(X86_PYTHON), "-c", CHILD, wish]
    environment = {"PATH": os.environ["PATH"], "GLOG_v": "3"}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=120, check=False)
    return "" if output.with_suffix(".ms").exists() else done.stdout + done.stderr


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, where the released converter is installed."""
    if reason := x86_missing():
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_that_the_original_encrypted_is_read(folder: Path) -> None:
    proto = model_proto()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    for node in proto.graph.node:
        if node.op_type == "Conv":
            given = {"kernel_shape": [3, 3], "strides": [1, 1], "dilations": [1, 1]}
            node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in given.items())
    onnx.save(proto, "model.onnx")
    assert not original("ONNX", folder / "model.onnx", folder / "secret", enable_encryption=True, encrypt_key=KEY)
    flags = ("--fmk=MSLITE", "--modelFile=secret.ms", "--outputFile=again", "--saveType=ONNX")
    assert command(*flags, f"--decryptKey={KEY}").status == 0
    assert command(*flags).status == 1
    assert {node.op_type for node in onnx.load("again.onnx").graph.node} >= {"Conv"}
