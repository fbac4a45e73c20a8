"""The shared face detector as a TensorFlow Lite file and as ONNX: one network, but for the decoding of its boxes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from converter_lite.formats.tflite.importer.graph import to_quantized_model
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.caffe.test_ultraface import offsets_of
from tests.formats.tflite.running import outputs
from tests.support import normal, shared_model

FAR_BOXES, FAR_SCORES = 1e-3, 4e-4
"""The weights of both files are not quite equal: the interpreter of the file is as far from the ONNX model."""


@pytest.mark.shared
def test_the_file_gives_what_the_onnx_model_gives() -> None:
    quantized = to_quantized_model(shared_model("frameworks/tflite/ultraface_rfb_320.tflite").read_bytes())
    twin = onnx.load(shared_model("ultraface_rfb_320.onnx"))
    name = offsets_of(twin)
    twin.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = DEFAULT_ENGINE.session(twin.SerializeToString(), threads=1, optimize=False)
    for seed in range(3):
        picture = normal(1, 3, 240, 320, seed=seed)
        expected = session.run({"input": picture})
        boxes, scores = outputs(quantized, np.ascontiguousarray(picture.transpose(0, 2, 3, 1)))
        np.testing.assert_allclose(scores, expected["scores"], rtol=0, atol=FAR_SCORES)
        np.testing.assert_allclose(boxes, expected[name], rtol=0, atol=FAR_BOXES)
