"""Full int8 ARM files of real models: what the device computes, by its exact arithmetic, beside what the file says."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, RELEASES, exists
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.quantization.qdq.build import qdq_model
from tests.formats.paddle.int8_arithmetic import run
from tests.formats.paddle.plans import plan_full
from tests.formats.paddle.writing import write
from tests.runtimes.test_nb_models import feed_of, graph_of
from tests.support import exact_session

CHAINS = {"mobilenet_v1_0.75_224.onnx": 24, "resnet8_cifar10.onnx": 3, "ultraface_rfb_320.onnx": 39}
"""Model -> convolutions whose results stay int8; the two that read the picture of MobileNet are float."""


@pytest.mark.shared
@pytest.mark.parametrize("name", CHAINS)
def test_the_devices_arithmetic_gives_what_the_rebuilt_model_gives(name: str) -> None:
    model, feed = graph_of(name), feed_of(name)
    quantized = plan_full(model, feed, target="arm")
    data = write(quantized, options=NbOptions("arm"))
    operators = parse(data).program.main.operators
    keys = [(op.type, str(op.get(KERNEL_ATTRIBUTE))) for op in operators]
    assert sum("/int8_out/" in key for _, key in keys) == CHAINS[name]
    assert all(exists(kind, key, mark) for kind, key in keys for mark in RELEASES)
    device = run(parse(data), feed)
    rebuilt = exact_session(qdq_model(read(data)), optimize=True).run(feed)
    for got, want in zip(device, rebuilt.values(), strict=True):
        a, b = got.ravel().astype(np.float64), want.ravel().astype(np.float64)
        # sums close to a tie round otherwise in floats, and all later layers follow: 0.9988 to 0.9994 with old and new libraries
        assert a @ b / np.sqrt((a @ a) * (b @ b)) > 0.998
