"""Constants in other files."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.onnx.external import PlacedTensor
from converter_lite.formats.onnx.reader import read_onnx
from tests.support import build_proto, normal


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.INT4])
@pytest.mark.parametrize("read", [PlacedTensor.numpy, np.asarray, PlacedTensor.tobytes])
def test_threads_read_the_same_numbers_at_once(
    dtype: ir.DataType, read: Callable[[PlacedTensor], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load: Callable[[ir.ExternalTensor], None] = ir.ExternalTensor._load

    def slowly(tensor: ir.ExternalTensor) -> None:
        sleep(0.02)
        load(tensor)

    monkeypatch.setattr(ir.ExternalTensor, "_load", slowly)
    expected = ir.Tensor((np.arange(8).reshape(2, 4) - 4).astype(dtype.numpy()), dtype=dtype)
    (tmp_path / "w.bin").write_bytes(expected.tobytes())
    tensor = PlacedTensor("w.bin", 0, expected.nbytes, dtype, shape=ir.Shape((2, 4)), name="w", base_dir=tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, [tensor] * 4))
    whole = expected.tobytes() if isinstance(found[0], bytes) else expected.numpy()
    assert all(np.shape(one) == np.shape(whole) and np.all(one == whole) for one in found)


def test_a_length_that_is_not_that_of_the_tensor_is_refused(tmp_path: Path) -> None:
    proto = build_proto("g (float[2,8] x) => (float[2,8] y) { y = MatMul(x, w) }", opset=17, w=normal(8, 8))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    next(entry for entry in stored.graph.initializer[0].external_data if entry.key == "length").value = "100"
    onnx.save(stored, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="tensor 'w' has 256 bytes by its shape, and 100 in "):
        read_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(("key", "value"), [("offset", "-1"), ("offset", "abc"), ("length", "-5"), ("length", "")])
def test_a_place_that_is_no_number_of_bytes_is_refused_by_name(key: str, value: str, tmp_path: Path) -> None:
    proto = build_proto("g (float[2,8] x) => (float[2,8] y) { y = MatMul(x, w) }", opset=17, w=normal(8, 8))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    next(entry for entry in stored.graph.initializer[0].external_data if entry.key == key).value = value
    onnx.save(stored, tmp_path / "m.onnx")
    said = f"the {key} of the external data of tensor 'w' is no number of bytes: '{value}'"
    with pytest.raises(ModelError, match=said):
        read_onnx(tmp_path / "m.onnx")
