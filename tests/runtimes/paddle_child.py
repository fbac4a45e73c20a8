"""Runs inside the interpreter of a released runtime (Python 3.7 or newer, NumPy, paddlelite): one model after the other.

usage: python paddle_child.py MANIFEST START
MANIFEST is a JSON list of {"model", "inputs" (npz: in0, in1, ...), "outputs" (npz to write), "count"}. Before a case
its number is printed, so that the parent knows which one ended the process: a bad file aborts.
"""

import json
import sys
from pathlib import Path

import numpy as np
from paddlelite.lite import MobileConfig, create_paddle_predictor


def run(case):
    config = MobileConfig()
    config.set_model_from_file(case["model"])
    predictor = create_paddle_predictor(config)
    given = np.load(case["inputs"])
    arrays = [np.ascontiguousarray(given[f"in{index}"]) for index in range(len(given.files))]
    for index, array in enumerate(arrays):
        tensor = predictor.get_input(index)
        tensor.resize(list(array.shape))
        if array.dtype == np.float32:
            tensor.set_float_data(array.ravel().tolist())
        elif array.dtype == np.int32:
            tensor.set_int32_data(array.ravel().tolist())
        else:
            tensor.from_numpy(array)
    predictor.run()
    outputs = {}
    for index in range(case["count"]):
        outputs[f"out{index}"] = np.array(predictor.get_output(index).numpy(), copy=True)
    np.savez(case["outputs"], **outputs)


cases = json.loads(Path(sys.argv[1]).read_text())
for number in range(int(sys.argv[2]), len(cases)):
    print("case", number, flush=True)
    run(cases[number])
    print("done", number, flush=True)
