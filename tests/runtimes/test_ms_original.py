"""Files of the original converter: read, rebuilt and compared with its own runtime, and with what we would write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.container import MsQuant, MsTensor
from converter_lite.formats.mindspore_lite.enums import Compression
from converter_lite.formats.mindspore_lite.importer.reader import read, to_quantized_model
from converter_lite.formats.mindspore_lite.importer.stored import ElementBudget, load
from converter_lite.kernels.params import QuantSpec, params_from_range
from converter_lite.kernels.quantize import round_half_away
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import command
from tests.runtimes.ms_runtime import X86_PYTHON, run_x86, shim_missing
from tests.support import build_proto, normal, shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

CONFIG = """[common_quant_param]
quant_type=WEIGHT_QUANT
bit_num={bits}
min_quant_weight_size=0
min_quant_weight_channel=0
"""


def stored(tensor: MsTensor) -> NDArray[Any]:
    """Numbers or integers of a constant."""
    return load(tensor, ElementBudget(elements=1 << 24, kept=1 << 24)).array


def original(folder: Path, config: str = "", *, alone: bool = False, model: Path | None = None) -> bytes:
    """A model by the original converter, in float without a configuration.

    Args:
        folder: For its files.
        config: INI text.
        model: Ultraface if not given.
        alone: With its own library in front of the others of the package, without which activations are not quantized.
    """
    reason = shim_missing()
    if reason:
        pytest.skip(reason)
    path = folder / "original.cfg"
    path.write_text(config)
    script = Path(__file__).with_name("ms_convert.py")
    source, out = model or shared_model("ultraface_rfb_320.onnx"), folder / "original"
    env = {"PATH": os.environ["PATH"]}
    if alone:
        (library,) = X86_PYTHON.parents[1].glob(
            "lib/python*/site-packages/mindspore_lite/lib/libmindspore_converter.so"
        )
        env.update(LD_PRELOAD=str(library), LD_LIBRARY_PATH=str(library.parent))
    arguments = [str(script), str(source), str(out), str(path) if config else "-"]
    subprocess.run([str(X86_PYTHON), *arguments], check=True, capture_output=True, timeout=300, env=env)
    return out.with_suffix(".ms").read_bytes()


FEW_WEIGHTS = 40
"""Channels with at most so many weights share one scale in our files, which is smaller and finer."""


def converted(folder: Path, bits: int | None) -> bytes:
    """Weights of so many bits by the original converter; ``None`` = float."""
    return original(folder, "" if bits is None else CONFIG.format(bits=bits))


def ours(folder: Path, config: str, *, model: Path | None = None) -> bytes:
    """Ultraface, or the given model, by our command."""
    (folder / "ours.cfg").write_text(config)
    source, out = model or shared_model("ultraface_rfb_320.onnx"), folder / "ours"
    outcome = command(
        "--fmk=ONNX",
        f"--modelFile={source}",
        f"--outputFile={out}",
        f"--configFile={folder / 'ours.cfg'}",
        "--saveType=MINDIR_LITE",
        "--minCosine=-1",
    )
    assert outcome.status == 0, outcome
    return out.with_suffix(".ms").read_bytes()


@pytest.mark.parametrize("bits", [None, 1, 2, 3, 4, 6, 8, 12, 16])
def test_files_of_the_original_are_rebuilt_as_its_runtime_computes_them(bits: int | None, tmp_path: Path) -> None:
    _assert_read_as_its_runtime_computes(converted(tmp_path, bits), (1, 240, 320, 3), tmp_path)


def levels(folder: Path) -> Path:
    """A convolution whose weights have twelve values, which each encoding can store."""
    rng = np.random.default_rng(0)
    weight = rng.choice(np.linspace(-0.1, 0.1, 12).astype(np.float32), (16, 16, 3, 3))
    weight[:, 0, 0, :2] = -0.1, 0.1  # every channel has the same extremes, and so the same integers
    conv = "Conv<kernel_shape=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1]>"
    proto = build_proto(f"g (float[1,16,8,8] input) => (float[1,16,8,8] y) {{ y = {conv}(input, w) }}", w=weight)
    path = folder / "levels.onnx"
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize(
    ("bits", "encoding"),
    [
        (0, Compression.FSE),
        (1, Compression.SPARSE),
        (4, Compression.BITPACKING),
        (8, Compression.INDEXING),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_every_encoding_of_the_original_is_read(bits: int, encoding: Compression, tmp_path: Path) -> None:
    data = original(tmp_path, CONFIG.format(bits=bits), model=levels(tmp_path))
    ((_, weight),) = weights_of(data).items()
    assert weight.compression is encoding
    _assert_read_as_its_runtime_computes(data, (1, 8, 8, 16), tmp_path)


def _assert_read_as_its_runtime_computes(data: bytes, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = to_quantized_model(data).model
    sample = {"input": np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)}
    expected = DEFAULT_ENGINE.session(ir.serde.serialize_model(model).SerializeToString()).run(sample)
    outcome = run_x86({"original": (data, sample)}, tmp_path, shim=True)["original"]
    assert not outcome.error, outcome.error
    for name, array in expected.items():
        np.testing.assert_allclose(outcome.outputs[name], array, atol=1e-5)


def weights_of(data: bytes) -> dict[tuple[int, int], MsTensor]:
    """Weights of the convolutions by their place in the graph."""
    model = read(data)
    found = [model.tensors[node.inputs[1]] for node in model.nodes if node.op == "Conv2DFusion"]
    return {(i, int(np.prod(tensor.dims))): tensor for i, tensor in enumerate(found)}


@pytest.mark.parametrize("bits", [4, 8, 12])
def test_the_same_weights_get_the_scales_zero_points_and_integers_of_the_original(bits: int, tmp_path: Path) -> None:
    floats = weights_of(converted(tmp_path, None))
    compared = 0
    for place, tensor in weights_of(converted(tmp_path, bits)).items():
        if tensor.quant is None:
            continue
        real = stored(floats[place])
        flat = real.reshape(len(real), -1)
        params = params_from_range(flat.min(axis=1), flat.max(axis=1), QuantSpec(bits, axis=0))
        np.testing.assert_allclose(params.scale, tensor.quant.scale, rtol=1e-6)  # float32 steps there, float64 here
        np.testing.assert_array_equal(params.zero_point, tensor.quant.zero_point)
        shape = (-1, *[1] * (real.ndim - 1))
        scale, zero_point = tensor.quant.scale.reshape(shape), tensor.quant.zero_point.reshape(shape)
        steps = round_half_away(real.astype(np.float64) / scale + zero_point)
        q = np.clip(steps, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        np.testing.assert_array_equal(q, stored(tensor))
        compared += 1
    assert compared >= 30


def convolutions(data: bytes) -> list[tuple[MsTensor, MsTensor, NDArray[Any]]]:
    """Input, weight and the weight's integers of every convolution with a quantized weight."""
    model = read(data)
    found = []
    for node in model.nodes:
        x, weight = model.tensors[node.inputs[0]], model.tensors[node.inputs[1]] if len(node.inputs) > 1 else None
        if node.op == "Conv2DFusion" and weight is not None and weight.quant is not None:
            found.append((x, weight, stored(weight)))
    return found


def same_grid(a: MsQuant | None, b: MsQuant | None) -> bool:
    """Scales equal but for the float32 steps of the original, and of what its convolutions compute."""
    return (
        a is not None
        and b is not None
        and len(a.scale) == len(b.scale)
        and np.allclose(a.scale, b.scale, rtol=1e-5, atol=0)
        and np.array_equal(a.zero_point, b.zero_point)
    )


@pytest.mark.parametrize("bits", [2, 5, 8, 12])
def test_files_of_both_hold_the_same_weights(bits: int, tmp_path: Path) -> None:
    plain = CONFIG.format(bits=bits) + "[weight_quant_param]\nbias_correction=false\n"
    mine = convolutions(ours(tmp_path, plain))
    per_channel = [entry for entry in convolutions(converted(tmp_path, bits)) if entry[2][0].size > FEW_WEIGHTS]
    assert len(per_channel) >= 20
    for _, weight, integers in per_channel:
        alike = [np.abs(q - integers) for _, w, q in mine if w.dims == weight.dims and same_grid(w.quant, weight.quant)]
        # BatchNormalization is folded in float32 by both, not in the same order: a weight in 10,000 lies on the edge
        assert any(steps.max() <= 1 and steps.sum() <= 1 + 1e-4 * steps.size for steps in alike), weight.name


def test_dynamic_files_of_both_hold_the_same_weights(tmp_path: Path) -> None:
    graph = "g (float[4,64] x) => (float[4,32] y) { a = MatMul(x, w) b = Relu(a) y = Gemm<transB=1>(b, v) }"
    path = tmp_path / "products.onnx"
    onnx.save(build_proto(graph, w=normal(64, 48, seed=1), v=normal(32, 48, seed=2)), path)
    config = "[common_quant_param]\nquant_type=DYNAMIC_QUANT\n"
    theirs, mine = (
        [model.tensors[node.inputs[1]] for node in model.nodes if node.op == "MatMulFusion"]
        for model in map(read, (original(tmp_path, config, model=path), ours(tmp_path, config, model=path)))
    )
    assert len(theirs) == 2
    for a, b in zip(theirs, mine, strict=True):
        assert same_grid(a.quant, b.quant)
        np.testing.assert_array_equal(stored(a), stored(b))


FULL = """[common_quant_param]
quant_type=FULL_QUANT
[full_quant_param]
activation_quant_method={method}
bias_correction=false
{extra}[data_preprocess_param]
calibrate_path=input:{folder}
calibrate_size=4
input_type=BIN
"""


@pytest.mark.slow
def test_files_of_both_hold_the_same_integers_and_ranges_of_activations(tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    rng = np.random.default_rng(0)
    for index in range(4):
        rng.uniform(-1, 1, (240, 320, 3)).astype(np.float32).tofile(samples / f"{index}.bin")
    config = FULL.format(folder=samples, method="MAX_MIN", extra="{extra}")
    mine = convolutions(ours(tmp_path, config.format(extra="equalization=false\n")))
    theirs = convolutions(original(tmp_path, config.format(extra=""), alone=True))
    assert len(theirs) == 52
    for x, weight, integers in theirs:
        ((own_x, own_weight),) = [(a, b) for a, b, q in mine if np.array_equal(q, integers)]
        assert same_grid(own_weight.quant, weight.quant), weight.name
        assert same_grid(own_x.quant, x.quant), x.name
