"""Constants in other files."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.external import PlacedTensor


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
