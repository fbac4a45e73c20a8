"""``opt --sparse_model``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.program import Operator
from tests.cli.test_opt import run
from tests.cli.test_opt_config import calibrated
from tests.formats.paddle.models import random, sparse_file, sparse_network
from tests.support import run as run_model


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    ir.save(sparse_network(), path)
    return path


def operators(path: Path) -> list[Operator]:
    return [op for op in parse(path.read_bytes()).program.main.operators if "conv" in op.type]


def test_convolutions_become_sparse_and_the_lines_are_the_originals(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out'}", "--sparse_model=true") == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1:] == [
        "1. Model is successfully loaded!",
        f"2. Model is optimized and saved into {tmp_path}/out.nb successfully",
    ]
    assert "2 of 3 1x1 convolutions are sparse" in shown.err
    assert (tmp_path / "out.nb").read_bytes() == sparse_file()


def test_the_threshold_decides(onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out'}", "--sparse_model")
    assert run(*flags, "--sparse_threshold=0") == 0
    assert sum(op.type == "sparse_conv2d" for op in operators(tmp_path / "out.nb")) == 3
    assert run(*flags, "--sparse_threshold", "1") == 0
    assert sum(op.type == "sparse_conv2d" for op in operators(tmp_path / "out.nb")) == 0
    assert "no convolution is sparse, the file is dense" in capsys.readouterr().err


@pytest.mark.parametrize("targets", ["x86", "x86,arm", "arm,x86"])
def test_other_targets_get_a_dense_file_and_a_warning(
    targets: str, onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (f"--model_file={onnx_file}", f"--valid_targets={targets}", "--sparse_model=true")
    assert run(*flags, f"--optimize_out={tmp_path / 'out'}") == 0
    assert "--sparse_model is for arm only" in capsys.readouterr().err
    assert {op.type for op in operators(tmp_path / "out.nb")} == {"conv2d"}


def test_beside_integer_weights_the_sparse_ones_stay_float_and_a_warning_says_so(
    onnx_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--sparse_model=true", "--quant_model=true", "--quant_type=QUANT_INT8")
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'out'}", *flags) == 0
    assert (
        "Warning: 2 sparse convolutions keep float weights: integers are for the dense ones" in capsys.readouterr().err
    )
    types = {name: array.dtype for name, array in parse((tmp_path / "out.nb").read_bytes()).parameters.items()}
    assert {types["w1_nonzeros_output"], types["w3_nonzeros_output"]} == {np.dtype(np.float32)}
    assert {types["w2"], types["w4"]} <= {np.dtype(np.int8), np.dtype(np.int16)}
    model, rebuilt = sparse_network(), read((tmp_path / "out.nb").read_bytes())
    for name in ("w1", "w3"):
        weights = [m.graph.initializers[name].const_value.numpy() for m in (model, rebuilt.model)]
        assert np.array_equal(*weights)
    assert list(rebuilt.plan.weights) == ["w2", "w4"]


def test_a_full_int8_file_becomes_sparse_in_a_second_step(onnx_file: Path, tmp_path: Path) -> None:
    config = calibrated(tmp_path, (1, 8, 6, 5))
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'int8'}", f"--configFile={config}") == 0
    flags = (f"--model_file={tmp_path / 'int8.nb'}", "--sparse_model=true", "--sparse_threshold=0.5")
    assert run(*flags, f"--optimize_out={tmp_path / 'sparse'}") == 0
    kernels = [op.get(KERNEL_ATTRIBUTE) for op in operators(tmp_path / "sparse.nb")]
    assert kernels == [
        "sparse_conv2d/int8_int8_out/4/2/1",
        "conv2d/int8_out/4/2/1",
        "sparse_conv2d/int8_int8_out/4/2/1",
        "conv2d/fp32_out/4/2/1",
    ]
    feed = {"x": random(1, 8, 6, 5)}
    dense, sparse = (read((tmp_path / name).read_bytes()) for name in ("int8.nb", "sparse.nb"))
    assert np.array_equal(run_model(dense.model, feed)["y"], run_model(sparse.model, feed)["y"])
    assert {n: float(p.scale) for n, p in dense.plan.activations.items()} == {
        n: float(p.scale) for n, p in sparse.plan.activations.items()
    }


def test_a_protobuf_result_can_be_sparse_and_reads_back(onnx_file: Path, tmp_path: Path) -> None:
    flags = ("--sparse_model=true", "--optimize_out_type=protobuf")
    assert run(f"--model_file={onnx_file}", f"--optimize_out={tmp_path / 'made'}", *flags) == 0
    assert run(f"--model_dir={tmp_path / 'made'}", f"--optimize_out={tmp_path / 'dense'}") == 0
    assert {op.type for op in operators(tmp_path / "dense.nb")} == {"conv2d"}
