"""Runs ONNX files in onnxruntime as it is, and with its own exact weights; writes outputs and whether kernels saturate.

usage: processor_child.py RESULT.npz FILE.onnx FEEDS.npz [FILE.onnx FEEDS.npz ...]
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


def saturating() -> bool:
    """Whether products of the largest numbers add up to something else than they are."""
    weight = numpy_helper.from_array(np.full((4, 8), 127, np.int8), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [2, 8])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (found,) = outputs(model.SerializeToString(), {"x": np.full((2, 4), 255, np.uint8)}, exact=False)
    return bool(np.any(found != 4 * 255 * 127))


def outputs(model: bytes, feed: dict[str, np.ndarray], *, exact: bool) -> list[np.ndarray]:
    """Outputs for one sample."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", str(int(exact)))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, feed)]


def main(arguments: list[str]) -> None:
    """See the head of this file."""
    result, pairs = arguments[0], arguments[1:]
    found: dict[str, np.ndarray] = {"saturates": np.array(saturating())}
    for index, (file, feeds) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        model = onnx.load(file).SerializeToString()
        with np.load(feeds) as arrays:
            feed = dict(arrays)
        for kind in (False, True):
            for position, value in enumerate(outputs(model, feed, exact=kind)):
                found[f"{index}/{'exact' if kind else 'plain'}/{position}"] = value
    np.savez(result, **found)


main(sys.argv[1:])
