"""Peak memory of a calibration does not grow with the number of samples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import resource, sys
import numpy as np
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.observers import METHODS
from converter_lite.data.inputs import input_specs
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.remember import RememberingDataset
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.settings import FullSettings
from converter_lite.targets.devices import target_spec
from tests.support import build, normal

count, method = int(sys.argv[1]), sys.argv[2]
model = build(
    '''g (float[1,3,96,96] x) => (float[1,16,96,96] y) {
        a = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(a) c = Conv<pads=[1,1,1,1]>(r, v, d) s = Relu(c)
        y = Conv<pads=[1,1,1,1]>(s, v, d) }''',
    w=normal(16, 3, 3, 3), b=normal(16), v=normal(16, 16, 3, 3), d=normal(16),
)

def samples():
    for i in range(count):
        yield np.random.default_rng(i).normal(size=(1, 3, 96, 96)).astype(np.float32)

data = RememberingDataset(IterableDataset(samples(), input_specs(model)), passing=8)
quantize_full(model, target_spec("CPU"), FullSettings(method), samples=data, context=CalibrationContext(threads=2))
assert len(data) == count
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(count: int, method: str) -> int:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(count), method], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("method", ["MAX_MIN", "KL"])
def test_sixteen_times_the_samples_need_no_more_memory(method: str) -> None:
    pytest.importorskip("resource")
    few, many = peak(8, method), peak(128, method)
    assert many <= 1.1 * few
