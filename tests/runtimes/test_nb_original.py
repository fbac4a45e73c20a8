"""Our ARM and x86 files beside those of the original ``opt`` 2.12 for the same Paddle model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench import paddle_twin
from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import to_graph
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.program import NbFile, Operator
from converter_lite.kernels.params import MIN_RANGE
from converter_lite.quantization.plan import QuantizedModel
from tests.formats.paddle.int8_arithmetic import run as device_run
from tests.formats.paddle.plans import convert_to_nb
from tests.formats.paddle.writing import write
from tests.runtimes.paddle import PADDLE_MODELS as PADDLE
from tests.runtimes.paddle import RELEASES, Case, interpreter, require, run_cases
from tests.runtimes.test_nb_models import relative_error, run
from tests.support import shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

IGNORED = frozenset(
    {
        *(
            "op_device",
            "with_quant_attr",
            "is_test",
            "data_type",
            "out_threshold",
            "Output0_threshold",
            "Out0_threshold",
        ),
        *("use_cudnn", "use_mkldnn", "mkldnn_data_type", "use_addto", "use_quantizer", "force_fp32_output"),
        *("exhaustive_search", "fuse_residual_connection", "fuse_activation", "fuse_alpha", "fuse_beta"),
        *("Scale_in", "Scale_in_eltwise", "Scale_out", "Scale_weights", "quantization_type"),
    }
)
"""Attributes that the original copies from the Paddle model or from training, and that no ARM or x86 kernel asks for."""

WITHOUT_EFFECT = {
    "fuse_relu": "with_act and act_type say it",
    "fuse_relu_before_depthwise_conv": "always false",
    "data_format": "NCHW is the only layout of the target",
    "bit_length": "of operators that do not compute with integers",
    "X0_scale": "of operators that do not compute with integers",
    "Out0_scale": "of operators that do not compute with integers",
    "inplace": "optional: reshapes without it copy their data",
}
"""Attributes that the original has beyond ours, and why ours need not have them."""

NAMED = ("_quant_scale", "_fp16")
"""Ends of attributes that are called after a variable."""

INFORMATIVE = ("quantization_type", "padding_algorithm", "data_format", "out_h", "out_w")
"""Attributes whose value the runtime does not use for these operators."""


def source(kind: str, folder: Path) -> Path:
    """A model that the original can read."""
    return paddle_twin.make(PADDLE / kind, folder / kind)


PADDLE_FILES = ("inference.pdmodel", "inference.pdiparams")


def original(
    model: Path, out: Path, *flags: str, release: str = "2.12", files: Sequence[str] = PADDLE_FILES, **variables: str
) -> NbFile:
    python = interpreter(release)
    assert python is not None
    named = [f"--{flag}={model / name}" for flag, name in zip(("model_file", "param_file"), files, strict=True)]
    command = [str(python.with_name("paddle_lite_opt")), *named, f"--optimize_out={out}", *flags]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **variables})
    return parse(out.with_name(out.name + ".nb").read_bytes())


def ours(model: Path, out: Path, target: str, bits: int | None = None, *, half: bool = False) -> NbFile:
    convert_to_nb(model, out.with_suffix(".nb"), target=target, weight_bits=bits, half=half)
    return parse(out.with_suffix(".nb").read_bytes())


def differences(mine: NbFile, theirs: NbFile) -> Iterator[str]:
    """What differs, after names: operators, kernels, attributes that ours has, weights, biases, scales.

    Attributes of :data:`IGNORED` and :data:`WITHOUT_EFFECT` may be missing in ours. Known and left out: paddings of two
    numbers mean the same as four; a softmax axis of -1 is the last one; the original keeps an identity scale in front
    of the output; an adaptive pool to 1x1 is a global one.
    """
    operators = [op for op in theirs.program.main.operators if not is_identity(op)]
    own = mine.program.main.operators
    if kernels(mine) != kernels(theirs):
        yield "operators or kernels"
        return
    for a, b in zip(own, operators, strict=True):
        for name, attribute in a.attributes.items():
            if name in INFORMATIVE or name.endswith(NAMED):
                continue
            if name in ("adaptive", "global_pooling") and a.get("ksize") == b.get("ksize") == (1, 1):
                continue
            other = b.attributes.get(name)
            if other is None or other.type != attribute.type or not same(name, attribute.value, other.value):
                yield f"{a.type} {name}: {attribute} and {other}"
        unexplained = b.attributes.keys() - a.attributes.keys() - IGNORED - WITHOUT_EFFECT.keys()
        if unexplained - {name for name in b.attributes if name.endswith(NAMED)}:
            yield f"{a.type}: the original also has {sorted(unexplained)}"
        if {slot for slot, names in b.inputs.items() if names} != {slot for slot, names in a.inputs.items() if names}:
            yield f"{a.type}: other inputs"
        if in_float16(a) != in_float16(b):
            yield f"{a.type}: other constants become float16"
        for slot in ("Filter", "Bias", "W"):
            if a.input(slot) is not None and a.inputs[slot][0] in mine.parameters:
                first, second = mine.parameters[a.inputs[slot][0]], theirs.parameters[b.inputs[slot][0]]
                if first.dtype != second.dtype or not np.allclose(first, second, rtol=1e-5, atol=1e-5):
                    yield f"{a.type} {slot}"


def kernels(file: NbFile) -> list[str]:
    """Kernel strings in running order."""
    return [str(op.get(KERNEL_ATTRIBUTE)) for op in file.program.main.operators if not is_identity(op)]


def in_float16(op: Operator) -> list[str]:
    """Slots of the constants that the library is to convert."""
    return [slot for slot, names in sorted(op.inputs.items()) if any(f"{name}_fp16" in op.attributes for name in names)]


def is_identity(op: Operator) -> bool:
    return op.type == "scale" and op.get("scale") == 1.0 and op.get("bias") == 0.0


def same(name: str, first: Any, second: Any) -> bool:
    if name == "paddings" and len(second) == 2:
        second = (second[0], second[0], second[1], second[1])
    if name == "axis" and second == -1:
        return True
    if name.endswith("scale"):
        return np.allclose(first, second, rtol=1e-6)
    return first == second


def lines(command: list[str], out: Path) -> list[str]:
    """What a command prints, whatever its output is called."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.replace(str(out), "OUT").splitlines()


TAILORING = tuple(f".tailored_{what}_list" for what in ("ops", "kernels", "ops_source", "kernels_source"))


@pytest.mark.parametrize("kind", ["ptq", "ptq_onnx_format"])
@pytest.mark.parametrize("flags", [["--valid_targets=arm"], ["--valid_targets=x86,arm", "--print_model_ops=true"]])
def test_the_lines_about_quantized_models_are_those_of_the_original(
    kind: str, flags: list[str], folder: Path, tmp_path: Path
) -> None:
    python = interpreter("2.12")
    assert python is not None
    command = [f"--model_dir={source(kind, folder)}", *flags, f"--optimize_out={tmp_path / 'out'}"]
    expected = lines([str(python.with_name("paddle_lite_opt")), *command], tmp_path)
    assert lines([sys.executable, "-m", "converter_lite.cli.opt", *command], tmp_path) == expected


@pytest.mark.parametrize(
    "flags",
    [
        ["--valid_targets=arm"],
        ["--valid_targets=x86", "--quant_model=true", "--quant_type=QUANT_INT8"],
        ["--valid_targets=arm", "--record_tailoring_info=true"],
        ["--valid_targets=arm", "--enable_fp16=true", "--record_tailoring_info=true"],
        ["--valid_targets=arm,x86", "--print_model_ops=true"],
        ["--valid_targets=x86", "--print_model_ops=true"],
    ],
    ids=" ".join,
)
def test_the_lines_on_stdout_are_those_of_the_original(flags: list[str], folder: Path, tmp_path: Path) -> None:
    python = interpreter("2.12")
    assert python is not None
    model = [f"--model_dir={source('fp32', folder)}", *flags]
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    expected = lines([str(python.with_name("paddle_lite_opt")), *model, f"--optimize_out={theirs}"], theirs)
    got = lines([sys.executable, "-m", "converter_lite.cli.opt", *model, f"--optimize_out={mine}"], mine)
    assert len(got) >= 4
    assert got == expected
    for name in TAILORING if "--record_tailoring_info=true" in flags else ():
        assert (mine / name).read_text().split() == (theirs / name).read_text().split()


@pytest.mark.parametrize(
    "flags",
    [
        ["--print_all_ops=true"],
        ["--print_all_ops_in_md_format=true"],
        ["--display_kernels=true"],
        *([["--print_supported_ops=true", f"--valid_targets={name}"] for name in ("arm", "x86", "x86,arm", "opencl")]),
        ["--print_supported_ops=true", "--valid_targets=android_nnapi"],
        ["--print_supported_ops=true", "--valid_targets=qualcomm_qnn,arm"],
    ],
    ids=" ".join,
)
def test_tables_are_those_of_the_original(flags: list[str], folder: Path) -> None:
    """But for the number above the Markdown table, which is not that of its lines there."""
    python = interpreter("2.12")
    assert python is not None
    expected = lines([str(python.with_name("paddle_lite_opt")), *flags], folder)
    got = lines([sys.executable, "-m", "converter_lite.cli.opt", *flags], folder)
    assert len(got) > 100
    assert got[1:] == expected[1:]
    assert got[0].split(" : ")[0] == expected[0].split(" : ")[0]


@pytest.mark.parametrize("kind", ["fp32", "ptq", "ptq_onnx_format"])
def test_arm_files_equal_the_originals_but_for_names(kind: str, folder: Path) -> None:
    model = source(kind, folder)
    theirs = original(model, folder / f"original_{kind}", "--valid_targets=arm")
    assert list(differences(ours(model, folder / f"ours_{kind}", "arm"), theirs)) == []


def test_the_original_reads_our_protobuf_results(folder: Path) -> None:
    """Float ones; it cannot read those of int8 models, neither ours nor its own."""
    model, made = source("fp32", folder), folder / "protobuf"
    convert_to_nb(model, made, protobuf=True)
    theirs = original(made, folder / "from_protobuf", "--valid_targets=arm", files=("model", "params"))
    assert list(differences(ours(model, folder / "direct", "arm"), theirs)) == []


@pytest.mark.parametrize("target", ["arm", "x86"])
@pytest.mark.parametrize(
    "name", ["resnet8_cifar10", "ultraface_rfb_320", pytest.param("minilm_l6_fp16_weights", marks=pytest.mark.slow)]
)
def test_files_of_other_networks_equal_the_originals_but_for_names(name: str, target: str, folder: Path) -> None:
    """The Paddle model that both start from is our protobuf result for the ONNX model."""
    onnx, made = shared_model(f"{name}.onnx"), folder / f"{name}_{target}"
    shapes = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 128)) if "minilm" in name else {}
    convert_to_nb(onnx, made, target=target, input_shapes=shapes, protobuf=True)
    theirs = original(
        made, made.with_name(made.name + "_theirs"), f"--valid_targets={target}", files=("model", "params")
    )
    assert list(differences(ours(made, made.with_name(made.name + "_ours"), target), theirs)) == []


@pytest.mark.parametrize("kind", ["ptq", "ptq_onnx_format"])
def test_the_devices_arithmetic_gives_the_same_numbers_for_both_files(kind: str, folder: Path) -> None:
    model = source(kind, folder)
    theirs = original(model, folder / f"original_run_{kind}", "--valid_targets=arm")
    mine = ours(model, folder / f"ours_run_{kind}", "arm")
    assert take_rounding(mine, theirs) <= 2**-22  # scales differ in the last bit: normalizations are folded in float64
    feed: dict[str, NDArray[Any]] = {"image": np.random.default_rng(3).uniform(-1, 1, (1, 3, 224, 224)).astype("f")}
    (first,), (second,) = device_run(mine, feed), device_run(theirs, feed)
    assert first.max() > 0.01
    assert np.array_equal(first, second)


def take_rounding(mine: NbFile, theirs: NbFile) -> float:
    """Give our convolutions the original's steps and biases; returns the largest relative difference of the steps."""
    pairs = ([op for op in file.program.main.operators if "conv2d" in op.type] for file in (mine, theirs))
    largest = 0.0
    for a, b in zip(*pairs, strict=True):
        own, other = np.asarray(a.get("Filter0_scale")), np.asarray(b.get("Filter0_scale"))
        largest = max(largest, float(np.abs(own / other - 1).max()))
        a.attributes["Filter0_scale"] = b.attributes["Filter0_scale"]
        mine.parameters[a.inputs["Bias"][0]] = theirs.parameters[b.inputs["Bias"][0]]
    return largest


def test_x86_files_equal_the_originals_but_for_names(folder: Path) -> None:
    model = source("fp32", folder)
    theirs = original(model, folder / "original_x86", "--valid_targets=x86")
    assert list(differences(ours(model, folder / "ours_x86", "x86"), theirs)) == []


def test_integer_weights_are_those_of_the_original(folder: Path) -> None:
    """With 16 bits everywhere. (With 8 bits ours spends 16 on depthwise filters, which the original leaves float.)"""
    model = source("fp32", folder)
    flags = ("--valid_targets=arm", "--quant_model=true", "--quant_type=QUANT_INT16")
    theirs, mine = original(model, folder / "original_q", *flags), ours(model, folder / "ours_q", "arm", 16)
    compared = 0
    for a, b in zip(mine.program.main.operators, theirs.program.main.operators, strict=False):
        if a.type != "conv2d":
            continue
        first, second = mine.parameters[a.inputs["Filter"][0]], theirs.parameters[b.inputs["Filter"][0]]
        assert first.dtype == second.dtype == np.int16
        scales = [np.asarray(f.get(f"{f.inputs['Filter'][0]}_quant_scale")) for f in (a, b)]
        alive = (
            scales[1] * 32767 > MIN_RANGE
        )  # weights below that are rounded as if the largest of the channel were that
        assert np.abs(first.astype(np.int32) - second)[alive].max() <= 1
        assert np.allclose(scales[0][alive], scales[1][alive], rtol=1e-6)
        compared += 1
    assert compared == 15


def test_a_file_of_the_original_reads_back_runs_and_can_be_written_again(folder: Path, tmp_path: Path) -> None:
    theirs = original(source("fp32", folder), folder / "original_again", "--valid_targets=x86")
    rebuilt = to_graph(theirs)
    feed: dict[str, NDArray[Any]] = {"image": np.random.default_rng(2).standard_normal((1, 3, 224, 224)).astype("f")}
    want = run(rebuilt.model, feed)
    files = [serialize(theirs), write(rebuilt, options=NbOptions("x86"))]
    results = run_cases("2.12", [Case(data, [feed["image"]]) for data in files], tmp_path)
    assert [relative_error(result, want) < 1e-5 for result in results] == [True, True]


@pytest.mark.parametrize("target", ["arm", "x86"])
@pytest.mark.parametrize("release", RELEASES)
def test_files_of_every_release_read_back_as_the_float_model(release: str, target: str, folder: Path) -> None:
    require(release)
    name, flags = folder / f"{release}_{target}", [f"--valid_targets={target}"]
    file = original(source("fp32", folder), name, *flags, release=release)
    older = original(source("fp32", folder), name, *flags, release=release, PADDLE_LITE_MODEL_VERSION1="1")
    assert (file.meta_version, older.meta_version) == (2, 1)
    feed: dict[str, NDArray[Any]] = {"image": np.random.default_rng(4).uniform(-1, 1, (1, 3, 224, 224)).astype("f")}
    (want,) = run(read_paddle(PADDLE / "fp32").model, feed)
    for found in (file, older):
        assert np.abs(run(to_graph(found).model, feed)[0] - want).max() < 1e-5


def same_integers(first: QuantizedModel, second: QuantizedModel) -> int:
    """How many weights two models have, which have to be the same in the same order."""
    pairs = list(zip(first.plan.weights, second.plan.weights, strict=True))
    for one, other in pairs:
        np.testing.assert_array_equal(first.integers(one), second.integers(other))
    return len(pairs)


@pytest.mark.parametrize("release", RELEASES)
def test_full_int8_files_of_every_release_read_back_with_the_integers_of_their_model(
    release: str, folder: Path
) -> None:
    require(release)
    found = to_graph(original(source("ptq", folder), folder / f"{release}_ptq", "--valid_targets=arm", release=release))
    model = read_paddle(PADDLE / "ptq")
    assert same_integers(found, model) == 28
    scales = [sorted(float(p.scale) for p in q.plan.activations.values()) for q in (found, model)]
    assert scales[0] == scales[1]
