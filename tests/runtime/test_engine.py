"""The runtime as the converter loads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.errors import ModelError
from converter_lite.runtime.engine import BEYOND_TABLE, DEFAULT_ENGINE, NO_TELEMETRY
from tests.support import build_proto, normal


def test_nothing_is_collected_about_what_runs(tmp_path: Path) -> None:
    onnx.save(build_proto("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=17), tmp_path / "m.onnx")
    (tmp_path / "home").mkdir()
    code = (
        "from converter_lite.runtime.engine import DEFAULT_ENGINE; DEFAULT_ENGINE.session(open('m.onnx', 'rb').read())"
    )
    kept = {name: value for name, value in os.environ.items() if name != NO_TELEMETRY and not name.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**kept, "HOME": str(tmp_path / "home")}, check=False
    )
    assert done.returncode == 0
    assert not list((tmp_path / "home").rglob("*onnxruntime*"))


def test_ids_beyond_a_table_have_a_hint() -> None:
    proto = build_proto("g (int64[3] ids) => (float[3,4] y) { y = Gather(table, ids) }", opset=17, table=normal(10, 4))
    with pytest.raises(ModelError) as caught:
        DEFAULT_ENGINE.session(proto.SerializeToString()).run({"ids": np.array([1, 2, 10])})
    assert caught.value.hint == BEYOND_TABLE


def test_a_coarse_grid_between_two_fine_ones_is_not_left_out() -> None:
    """By default the runtime joins both grids to one: a coarser result of a device would look as good as the fine one."""
    graph = """g (float[64] x) => (float[64] y) {
        a = QuantizeLinear(x, coarse, zero) b = DequantizeLinear(a, coarse, zero)
        c = QuantizeLinear(b, fine, zero) d = DequantizeLinear(c, fine, zero)
        y = Mul(d, two)
    }"""
    grids = {"coarse": np.array(0.1, np.float32), "fine": np.array(0.01, np.float32), "zero": np.array(0, np.int8)}
    proto = build_proto(graph, opset=17, two=np.array(2, np.float32), **grids)
    x = np.linspace(-0.9, 0.9, 64, dtype=np.float32)
    given = DEFAULT_ENGINE.session(proto.SerializeToString()).run({"x": x})["y"]
    np.testing.assert_allclose(given, 2 * np.rint(x / np.float32(0.1)) * 0.1, atol=1e-6)
