"""Our files with float16 kernels beside those of the original ``opt --enable_fp16=true``.

No released library for this machine computes in float16. So files are compared with the original's, and loaded by the
released ones, whose stand-ins for ARM kernels know names, attributes and variables, and compute nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.formats.paddle.exporter.half import to_half
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.inference_model.writer import protobuf_files
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import to_graph
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.program import NbFile
from tests.formats.paddle.plans import convert_to_nb
from tests.formats.paddle.test_half import between_halves, float_file
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.paddle import PADDLE_MODELS, RELEASES, Case, require, run_cases
from tests.runtimes.test_nb_models import run
from tests.runtimes.test_nb_operators import CASES
from tests.runtimes.test_nb_original import differences, in_float16, kernels, original, ours, source
from tests.support import build as graph
from tests.support import shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

FLAGS = ("--valid_targets=arm", "--enable_fp16=true")
PROTOBUF = ("model", "params")


def test_a_float_model_has_the_kernels_borders_and_converted_constants_of_the_original(folder: Path) -> None:
    model = source("fp32", folder)
    theirs = original(model, folder / "half_original", *FLAGS)
    mine = ours(model, folder / "half_ours", "arm", half=True)
    assert list(differences(mine, theirs)) == []
    assert sum(len(in_float16(op)) for op in mine.program.main.operators) == 56


@pytest.mark.parametrize(
    "name", ["resnet8_cifar10", "ultraface_rfb_320", pytest.param("minilm_l6_fp16_weights", marks=pytest.mark.slow)]
)
def test_other_networks_too(name: str, folder: Path) -> None:
    onnx, made = shared_model(f"{name}.onnx"), folder / f"half_{name}"
    shapes = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 128)) if "minilm" in name else {}
    convert_to_nb(onnx, made, input_shapes=shapes, protobuf=True)
    theirs = original(made, folder / f"half_{name}_theirs", *FLAGS, files=PROTOBUF)
    assert list(differences(ours(made, folder / f"half_{name}_ours", "arm", half=True), theirs)) == []


ANOTHER_WAY = {
    "LSTM": "only 2.12 has a float16 kernel for rnn",
    "GRU": "only 2.12 has a float16 kernel for rnn",
    "MatMul 2-D": "the original writes another operator for the same product",
    "Einsum bhij,bjhd,hdm->bim": "the same product",
    "RNN forward with every state": "the same product",
    "RNN reverse with every state": "the same product",
    "RNN bidirectional with every state": "the same product",
    "Resize cubic": "the same product",
    "Resize cubic by size": "the same product",
    "Resize cubic that ends at the border": "the same product",
    "Resize linear of a wider filter": "the same product",
    "Resize cubic of a wider filter": "the same product",
    "Resize linear by factors that are not those of the sizes": "the same product",
    "Resize of rows": "the same product",
    "Resize linear align_corners of a line": "the same product",
    **{
        f"Resize linear {way} to {sizes}": "the same product"
        for way in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
        for sizes in ((1, 1), (1, 17), (13, 1), (1, 10))
    },
    "MaxPool with places": "a Cast and a GatherND",
    "ScatterND of two axes, none": "a Cast",
    "ScatterND of a row, none": "a Cast",
    "ScatterElements, none": "a Cast",
    "Where": "the kernel has no float16, and the original gives it float16",
    "Cast to": "the kernel takes float32, and the original gives it float16",
    "GatherND": "the kernel has no float16, and the original gives it float16",
    "GatherND in batches": "the same",
    "GatherND in computed batches": "the same",
    "GatherND to computed ends": "the same",
    "MaxUnpool": "a Cast and a GatherND",
    "GatherND from the end": "the same",
    "GatherND from the end in batches": "the same",
    "GridSample of another size, zeros": "a Cast and a GatherND",
    "GridSample of another size, border": "a Cast and a GatherND",
    "GridSample of another size, nearest, zeros": "a Cast and a GatherND",
    "GridSample of another size, linear, reflection": "a Cast and a GatherND",
    "Concat constant": "the constant is float32, and the original declares the result as float16",
    "Pad channels": "the same concatenation",
    "Pad 3-D tensor": "the same concatenation",
    "Pad depth with a number": "the same concatenation",
    "Pad of many channels": "the same concatenation",
    "Pad of many channels with zeros": "the same concatenation",
    "Pad of many channels with the least": "the same concatenation",
    "Conv over three dimensions": "the same concatenation",
    "ConvTranspose over three dimensions": "the same concatenation",
    "ConvTranspose over three dimensions in groups": "the same concatenation",
    "ScatterND of a slice": "a float16 Reshape goes into a float32 concatenation, and the original does not convert it",
    "Tanh": "its float16 kernel gives NaN for large numbers, and the original uses it",
    "Tanh of large numbers": "the same",
    "Conv with Tanh": "the same",
    "Transpose of UINT8": "that of Cast",
    **{f"Cast of float32 through UINT8 and {kind}": "that of Cast" for kind in ("INT32", "INT64", "BOOL")},
    "ReduceMin int64": "the original finds the smallest integer among floats",
    "ReduceMin int64 (0, 2) of 3": "the same",
}
"""Cases with other kernels or borders than the original's, and why."""

QUICK = (
    "Conv 3x3",
    "Conv 1-D",
    "Gemm",
    "MatMul constant first",
    "Concat axis 1",
    "Where equal shapes",
    "Gather axis 1",
    "Shape",
)


def is_equal_to_the_originals(case: NbCase) -> bool:
    exceptions = {name for name in ANOTHER_WAY if case.name == name or name in ("LSTM", "GRU", "Where", "Cast to")}
    return not any(case.name.startswith(name) for name in exceptions)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case.name in QUICK else pytest.mark.slow, id=case.name) for case in CASES],
)
def test_every_operator_between_float16_operators_has_the_kernels_and_borders_of_the_original(
    case: NbCase, folder: Path, tmp_path: Path
) -> None:
    file = between_halves(float_file(case.model))
    for name, data in zip(PROTOBUF, protobuf_files(file), strict=True):
        (tmp_path / name).write_bytes(data)
    theirs = original(tmp_path, tmp_path / "theirs", *FLAGS, files=PROTOBUF)
    assert (kernels(to_half(file)[0]) == kernels(theirs)) == is_equal_to_the_originals(case)


def test_integer_weights_become_float16_as_well_which_the_original_forgets(folder: Path) -> None:
    """Its biases are float32 then, and its kernels take them for float16."""
    model = source("fp32", folder)
    theirs = original(model, folder / "half_q", *FLAGS, "--quant_model=true", "--quant_type=QUANT_INT16")
    mine = ours(model, folder / "half_q_ours", "arm", 16, half=True)
    assert kernels(mine) == kernels(theirs)
    told = [[in_float16(op) for op in f.program.main.operators if op.type == "conv2d"] for f in (mine, theirs)]
    assert told == [[["Bias", "Filter"]] * 15, [[]] * 15]


@pytest.mark.parametrize("kind", ["ptq", "ptq_onnx_format"])
def test_integer_kernels_exclude_float16_as_in_the_original(kind: str, folder: Path) -> None:
    """But for the biases, which the original has converted, and which its integer kernels read as float32."""
    model = source(kind, folder)
    theirs = original(model, folder / f"half_{kind}", *FLAGS)
    mine = ours(model, folder / f"half_{kind}_ours", "arm", half=True)
    assert kernels(mine) == kernels(theirs)
    assert not any(key.split("/")[3] == "5" for key in kernels(mine))
    told = [[in_float16(op) for op in f.program.main.operators if op.get("enable_int8")] for f in (mine, theirs)]
    assert told == [[[]] * 28, [["Bias"]] * 28]


@pytest.mark.parametrize("release", RELEASES)
def test_float16_files_of_every_release_read_back_as_the_float_model(release: str, folder: Path) -> None:
    require(release)
    found = original(source("fp32", folder), folder / f"half_{release}", *FLAGS, release=release)
    feed: dict[str, NDArray[Any]] = {"image": np.random.default_rng(4).uniform(-1, 1, (1, 3, 224, 224)).astype("f")}
    (want,) = run(read_paddle(PADDLE_MODELS / "fp32").model, feed)
    errors = [np.abs(run(to_graph(found, rounded=rounded).model, feed)[0] - want).max() for rounded in (False, True)]
    assert errors[0] < 1e-5 < errors[1] < 0.05 * want.max()


@pytest.mark.parametrize("release", RELEASES)
def test_the_releases_that_a_note_names_load_the_file_and_others_do_not(
    release: str, folder: Path, tmp_path: Path
) -> None:
    require(release)
    x = np.ones((1, 4, 4, 4), np.float32)
    files: list[tuple[NbFile, tuple[str, ...]]] = []
    for body in ("y = Conv(x, w)", "a = Conv(x, w) y = MatMul(a, a)"):
        model = graph(f"g (float[1,4,4,4] x) => (float[1,4,4,4] y) {{ {body} }}", w=np.ones((4, 4, 1, 1), np.float32))
        files.append(to_half(float_file(model)))
    results = run_cases(release, [Case(serialize(file), [x]) for file, _ in files], tmp_path)
    loaded = [not isinstance(result, str) for result in results]
    assert loaded == [release in note for _, (note,) in files]


def test_sparse_convolutions_are_float16_as_in_the_original(folder: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((32, 32, 1, 1)).astype("f") * (random.random((32, 32, 1, 1)) > 0.9)
    model = graph(
        "g (float[1,32,8,8] x) => (float[1,32,8,8] y) { a = HardSigmoid(x) b = Conv(a, w) y = HardSigmoid(b) }",
        w=weight,
    )
    for name, data in zip(PROTOBUF, protobuf_files(float_file(model)), strict=True):
        (tmp_path / name).write_bytes(data)
    theirs = original(tmp_path, tmp_path / "theirs", *FLAGS, "--sparse_model=true", files=PROTOBUF)
    convert_to_nb(tmp_path, tmp_path / "ours.nb", half=True, sparse=0.6)
    assert list(differences(parse((tmp_path / "ours.nb").read_bytes()), theirs)) == []
    assert "sparse_conv2d/def/4/5/1" in kernels(theirs)
