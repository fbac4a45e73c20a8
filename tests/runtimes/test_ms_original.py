"""Files of the original converter: read, rebuilt and compared with its own runtime, and with what we would write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.engine import DEFAULT_ENGINE
from converter_lite.formats.mindspore_ms.container import MsTensor
from converter_lite.formats.mindspore_ms.reader import read, to_quantized_model
from converter_lite.formats.mindspore_ms.stored import load
from converter_lite.kernels.quantize import round_half_away
from converter_lite.quantization.params import QuantSpec, params_from_range
from tests.runtimes.ms_runtime import X86_PYTHON, run_x86, shim_missing
from tests.support import shared_model

pytestmark = [pytest.mark.runtime, pytest.mark.shared]

CONFIG = """[common_quant_param]
quant_type=WEIGHT_QUANT
bit_num={bits}
min_quant_weight_size=0
min_quant_weight_channel=0
"""


def converted(folder: Path, bits: int | None) -> bytes:
    """Ultraface by the original converter; ``None`` = float."""
    reason = shim_missing()
    if reason:
        pytest.skip(reason)
    model, config = shared_model("ultraface_rfb_320.onnx"), folder / "weight.cfg"
    config.write_text(CONFIG.format(bits=bits))
    script = Path(__file__).with_name("ms_convert.py")
    command = [str(X86_PYTHON), str(script), str(model), str(folder / "out"), "-" if bits is None else str(config)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env={"PATH": os.environ["PATH"]})
    return (folder / "out.ms").read_bytes()


@pytest.mark.parametrize("bits", [None, 1, 2, 3, 4, 6, 8, 12, 16])
def test_files_of_the_original_are_rebuilt_as_its_runtime_computes_them(bits: int | None, tmp_path: Path) -> None:
    data = converted(tmp_path, bits)
    model = to_quantized_model(data).model
    sample = {"input": np.random.default_rng(0).uniform(-1, 1, (1, 240, 320, 3)).astype(np.float32)}
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
        real = load(floats[place], limit=1 << 24).array
        flat = real.reshape(len(real), -1)
        params = params_from_range(flat.min(axis=1), flat.max(axis=1), QuantSpec(bits, axis=0))
        np.testing.assert_allclose(params.scale, tensor.quant.scale, rtol=1e-6)  # float32 steps there, float64 here
        np.testing.assert_array_equal(params.zero_point, tensor.quant.zero_point)
        shape = (-1, *[1] * (real.ndim - 1))
        scale, zero_point = tensor.quant.scale.reshape(shape), tensor.quant.zero_point.reshape(shape)
        steps = round_half_away(real.astype(np.float64) / scale + zero_point)
        q = np.clip(steps, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        np.testing.assert_array_equal(q, load(tensor, limit=1 << 24).array)
        compared += 1
    assert compared >= 30
