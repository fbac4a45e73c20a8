"""Our sparse files beside those of the original ``opt``, for a network and for MobileNet with 70 % zeros."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from bench import paddle_twin
from converter_lite.formats.paddle.inference_model.files import read_combined, read_program
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.inference_model.writer import parameter_bytes
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import to_graph
from converter_lite.formats.paddle.program import NbFile, Operator
from converter_lite.formats.paddle.sparse import SLOTS
from tests.formats.paddle.int8_arithmetic import run as device_run
from tests.formats.paddle.models import random, sparse_network
from tests.formats.paddle.plans import convert_to_nb
from tests.runtimes.paddle import RELEASES, interpreter, require, require_paddle_models
from tests.runtimes.test_nb_models import run
from tests.runtimes.test_nb_original import PADDLE, differences, lines, original, same_integers, take_rounding

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("2.12")
    return tmp_path_factory.mktemp("sparse")


def network(folder: Path) -> Path:
    """:func:`sparse_network` as a Paddle model."""
    ir.save(sparse_network(), folder / "network.onnx")
    convert_to_nb(folder / "network.onnx", folder / "network", protobuf=True)
    return folder / "network"


def pruned(kind: str, folder: Path) -> Path:
    """The Paddle MobileNet with the smallest 70 % of each 1x1 filter set to zero."""
    require_paddle_models()
    made = paddle_twin.make(PADDLE / kind, folder / kind)
    program = read_program((made / "inference.pdmodel").read_bytes())
    parameters = read_combined(program, (made / "inference.pdiparams").read_bytes())
    for name, array in parameters.items():
        if array.shape[2:] == (1, 1):
            size = np.abs(array.astype(np.float32))
            parameters[name] = np.where(size < np.quantile(size, 0.7), array.dtype.type(0), array)
    (made / "inference.pdiparams").write_bytes(parameter_bytes(parameters))
    return made


def ours(model: Path, out: Path, *, threshold: float | None = 0.6, bits: int | None = None) -> NbFile:
    convert_to_nb(model, out.with_suffix(".nb"), sparse=threshold, weight_bits=bits)
    return parse(out.with_suffix(".nb").read_bytes())


def sparse_operators(file: NbFile) -> list[Operator]:
    return [op for op in file.program.main.operators if op.type == "sparse_conv2d"]


def stored(file: NbFile) -> Iterator[tuple[str, NDArray[Any]]]:
    """The three arrays of every sparse convolution; the original leaves the unused ends of paired rows to chance."""
    for op in sparse_operators(file):
        for slot in SLOTS:
            array = file.parameters[op.inputs[slot][0]]
            used = -(-len(array) // 2) if slot == "OcNonZeros" and op.get("flag_semi") else len(array)
            yield slot, array[:used]


@pytest.mark.parametrize("release", ["2.12", "2.13rc0"])
def test_a_sparse_file_equals_the_originals_to_the_byte_of_every_stored_array(release: str, folder: Path) -> None:
    require(release)
    model, out = network(folder), folder / f"theirs_{release}"
    theirs = original(model, out, "--sparse_model=true", release=release, files=("model", "params"))
    mine = ours(model, folder / f"ours_{release}")
    assert [op.get("flag_semi") for op in sparse_operators(mine)] == [0, 1]
    assert list(differences(mine, theirs)) == []
    for (slot, first), (_, second) in zip(stored(mine), stored(theirs), strict=True):
        assert (first.dtype, first.tobytes()) == (second.dtype, second.tobytes()), slot


def test_release_2_10_stores_weights_row_by_row_as_ours_are_where_rows_are_not_paired(folder: Path) -> None:
    require("2.10")
    model = network(folder)
    theirs = original(model, folder / "2.10", "--sparse_model=true", release="2.10", files=("model", "params"))
    pairs = zip(list(stored(ours(model, folder / "ours_2.10")))[:3], list(stored(theirs))[:3], strict=True)
    assert all(np.array_equal(first, second) for (_, first), (_, second) in pairs)


@pytest.mark.shared
@pytest.mark.parametrize("kind", ["fp32", "ptq", "ptq_onnx_format"])
def test_a_pruned_mobilenet_equals_the_originals(kind: str, folder: Path) -> None:
    """Operators, kernels, attributes and stored arrays; float weights within the rounding of folded normalizations."""
    model = pruned(kind, folder)
    theirs = original(model, folder / f"theirs_{kind}", "--sparse_model=true")
    mine = ours(model, folder / f"ours_{kind}")
    assert len(sparse_operators(mine)) == 14
    assert list(differences(mine, theirs)) == []
    for (slot, first), (_, second) in zip(stored(mine), stored(theirs), strict=True):
        assert first.dtype == second.dtype
        if first.dtype == np.float32:
            assert np.allclose(first, second, rtol=1e-6, atol=0)
        else:
            assert np.array_equal(first, second), slot


@pytest.mark.shared
def test_the_devices_arithmetic_gives_the_same_numbers_for_dense_and_sparse_files_of_both(folder: Path) -> None:
    model = pruned("ptq", folder)
    theirs = original(model, folder / "theirs_run", "--sparse_model=true")
    sparse, dense = (ours(model, folder / f"run_{share}", threshold=share) for share in (0.6, None))
    kernels = {str(op.get(KERNEL_ATTRIBUTE)) for op in sparse_operators(sparse)}
    assert kernels == {"sparse_conv2d/int8_int8_out/4/2/1", "sparse_conv2d/int8_fp32_out/4/2/1"}
    for file in (sparse, dense):
        take_rounding(file, theirs)
    feed: dict[str, NDArray[Any]] = {"image": np.random.default_rng(3).uniform(-1, 1, (1, 3, 224, 224)).astype("f")}
    results = [device_run(file, feed)[0] for file in (theirs, sparse, dense)]
    assert all(np.array_equal(results[0], result) for result in results[1:])


@pytest.mark.parametrize("release", RELEASES)
def test_sparse_files_of_every_release_read_back_as_the_float_model(release: str, folder: Path) -> None:
    require(release)
    model, out = network(folder), folder / f"back_{release}"
    theirs = original(model, out, "--sparse_model=true", release=release, files=("model", "params"))
    assert len(sparse_operators(theirs)) == 2
    feed: dict[str, NDArray[Any]] = {"x": random(1, 8, 6, 5)}
    (got,), (want,) = run(to_graph(theirs).model, feed), run(sparse_network(), feed)
    assert np.abs(got - want).max() < 1e-5


@pytest.mark.shared
@pytest.mark.parametrize("release", RELEASES)
def test_sparse_int8_files_of_every_release_read_back_with_the_integers_of_their_model(
    release: str, folder: Path
) -> None:
    require(release)
    model = pruned("ptq", folder)
    found = to_graph(original(model, folder / f"int8_{release}", "--sparse_model=true", release=release))
    assert same_integers(found, read_paddle(model)) == 28


def test_beside_integer_weights_the_same_convolutions_are_sparse_and_float(folder: Path) -> None:
    model = network(folder)
    flags = ("--sparse_model=true", "--quant_model=true", "--quant_type=QUANT_INT16")
    theirs = original(model, folder / "theirs_q", *flags, files=("model", "params"))
    mine = ours(model, folder / "ours_q", bits=16)
    assert [op.type for op in mine.program.main.operators] == [op.type for op in theirs.program.main.operators]
    pairs = list(zip(stored(mine), stored(theirs), strict=True))
    assert len(pairs) == 6
    assert all(np.array_equal(first, second) for (_, first), (_, second) in pairs)


@pytest.mark.parametrize(
    "flags", [["--valid_targets=arm"], ["--valid_targets=arm", "--record_tailoring_info=true"]], ids=" ".join
)
def test_the_lines_and_lists_about_a_sparse_file_are_those_of_the_original(
    flags: list[str], folder: Path, tmp_path: Path
) -> None:
    python = interpreter("2.12")
    assert python is not None
    model = network(folder)
    command = [f"--model_file={model / 'model'}", f"--param_file={model / 'params'}", "--sparse_model=true", *flags]
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    expected = lines([str(python.with_name("paddle_lite_opt")), *command, f"--optimize_out={theirs}"], theirs)
    assert lines([sys.executable, "-m", "converter_lite.cli.opt", *command, f"--optimize_out={mine}"], mine) == expected
    assert len(expected) >= 4
    if "--record_tailoring_info=true" in flags:
        for name in (".tailored_ops_list", ".tailored_kernels_list", ".tailored_kernels_source_list"):
            assert (mine / name).read_text().split() == (theirs / name).read_text().split()
