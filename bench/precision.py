"""Whether onnxruntime's own way out of saturation changes anything: ``python -m bench.precision`` prints JSON.

With ``session.x64quantprecision=1`` onnxruntime gives int8 weights to its kernels as uint8 where those of the processor saturate.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bench.samples import Feed, calibration_feeds


def main() -> None:
    """Print ``{"saturates": whether kernels do here, "differences": {"model": largest difference of an output}}``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    feeds = list(calibration_feeds(arguments.task, arguments.data, arguments.samples))
    differences = {}
    for path in arguments.models:
        try:
            differences[str(path)] = difference(path, feeds)
        except Exception as error:
            if not type(error).__module__.startswith("onnxruntime"):
                raise
            print(f"{path.name}: {error}", file=sys.stderr)
    print(json.dumps({"saturates": saturates(), "differences": differences}))


def saturates() -> bool:
    """Whether products of the largest numbers add up to something else than they are."""
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    given = helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 4])
    made = helper.make_tensor_value_info("y", TensorProto.INT32, [2, 8])
    weight = numpy_helper.from_array(np.full((4, 8), 127, np.int8), "w")
    graph = helper.make_graph([node], "g", [given], [made], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feed = {"x": np.full((2, 4), 255, np.uint8)}
    ((found,),) = _outputs(model.SerializeToString(), [feed], is_precise=False)
    return bool(np.any(found != 4 * 255 * 127))


def difference(path: Path, feeds: list[Feed]) -> float:
    """Largest one of an output; 0 where all are equal bit for bit."""
    pairs = zip(_outputs(str(path), feeds, is_precise=False), _outputs(str(path), feeds, is_precise=True), strict=True)
    return max(float(np.abs(a - b).max()) for plain, precise in pairs for a, b in zip(plain, precise, strict=True))


def _outputs(model: str | bytes, feeds: list[Feed], *, is_precise: bool) -> list[list[NDArray[Any]]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", str(int(is_precise)))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


if __name__ == "__main__":
    main()
