"""Runs inside the environment of OpenVINO: one ONNX file after the other.

usage: python ov_child.py MANIFEST
MANIFEST is a JSON list of {"model", "feeds" (npz files), "outputs" (npz files to write: out0, out1, ... in the order of the
file's outputs), "error" (file for the reason why there is none)}. ACCURACY: computes in the types that the file has, where
the default takes bfloat16 for float32 on processors that know it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import openvino


def run(core, case):
    model = core.compile_model(case["model"], "CPU", {"EXECUTION_MODE_HINT": "ACCURACY"})
    for feed, outputs in zip(case["feeds"], case["outputs"], strict=True):
        with np.load(feed) as arrays:
            given = dict(arrays)
        found = model({value: given[value.any_name] for value in model.inputs})
        np.savez(outputs, **{f"out{index}": found[index] for index in range(len(model.outputs))})


def main(manifest):
    core = openvino.Core()
    for case in json.loads(manifest.read_text()):
        try:
            run(core, case)
        except RuntimeError as error:
            Path(case["error"]).write_text(str(error))


main(Path(sys.argv[1]))
