"""Runs inside the environment of ai-edge-litert: one TensorFlow Lite file after the other.

usage: python litert_child.py MANIFEST
MANIFEST is a JSON list of {"model", "feeds" (npz files with in0, in1, ...), "outputs" (npz files to write: out0, out1, ...),
"error" (file for the reason why there is none), "kernels" ("default" or a name of OpResolverType)}.
Real numbers for an input of integers are rounded to its grid; integers that
stand for real numbers come back as these, with their scale beside them (scale0, ...; 0 for others). States are reset.
"""

import json
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def rounded(array, detail):
    scale, zero = detail["quantization"]
    if not scale or array.dtype != np.float32 or not np.issubdtype(detail["dtype"], np.integer):
        return array.astype(detail["dtype"])
    info = np.iinfo(detail["dtype"])
    return np.clip(np.rint(array / np.float32(scale)) + zero, info.min, info.max).astype(detail["dtype"])


def result(interpreter, detail):
    array = interpreter.get_tensor(detail["index"])
    scale, zero = detail["quantization"]
    if not scale or not np.issubdtype(array.dtype, np.integer):
        return array, 0.0
    return (array.astype(np.float32) - zero) * np.float32(scale), scale


def run(case):
    kernels = {} if case["kernels"] == "default" else {"experimental_op_resolver_type": OpResolverType[case["kernels"]]}
    interpreter = Interpreter(case["model"], num_threads=1, **kernels)
    for feed, outputs in zip(case["feeds"], case["outputs"], strict=True):
        with np.load(feed) as arrays:
            given = [arrays[f"in{index}"] for index in range(len(arrays.files))]
        for detail, array in zip(interpreter.get_input_details(), given, strict=True):
            interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        for detail, array in zip(interpreter.get_input_details(), given, strict=True):
            interpreter.set_tensor(detail["index"], rounded(array, detail))
        interpreter.invoke()
        found = [result(interpreter, detail) for detail in interpreter.get_output_details()]
        named = {f"out{index}": array for index, (array, _) in enumerate(found)}
        np.savez(outputs, **named, **{f"scale{index}": scale for index, (_, scale) in enumerate(found)})


def main(manifest):
    for case in json.loads(manifest.read_text()):
        try:
            run(case)
        except (RuntimeError, ValueError) as error:
            Path(case["error"]).write_text(str(error))


main(Path(sys.argv[1]))
