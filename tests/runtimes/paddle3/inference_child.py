"""Runs inside an environment of Paddle (3.3.1 or 2.6.2): inference models, one after the other.

usage: python inference_child.py MANIFEST START
MANIFEST is a JSON list of {"program", "parameters", "inputs" (npz: samples by input name, along a first axis), "outputs" (npz to
write), "way"}. Ways: plain (no pass), cpu (Paddle's kernels), onednn, int8 (oneDNN with integers). Before a model its number is
printed, so that the parent knows which one ended the process.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from paddle.inference import Config, create_predictor


def predictor_of(case):
    config = Config(case["program"], case["parameters"])
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(1)
    if case["way"] in ("onednn", "int8"):
        config.enable_mkldnn()
        if case["way"] == "int8":
            config.enable_mkldnn_int8()
    elif hasattr(config, "disable_mkldnn"):
        config.disable_mkldnn()
    if case["way"] == "plain":
        config.switch_ir_optim(False)
    return create_predictor(config)


def run(case):
    predictor, given = predictor_of(case), np.load(case["inputs"])
    samples = {name: given[name] for name in predictor.get_input_names()}
    rows, seconds = [], []
    for index in range(len(next(iter(samples.values())))):
        for name, arrays in samples.items():
            handle, array = predictor.get_input_handle(name), np.ascontiguousarray(arrays[index])
            handle.reshape(array.shape)
            handle.copy_from_cpu(array)
        start = time.perf_counter()
        predictor.run()
        seconds.append(time.perf_counter() - start)
        rows.append([predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()])
    outputs = {f"out{place}": np.stack([row[place] for row in rows]) for place in range(len(rows[0]))}
    np.savez(case["outputs"], seconds=np.array(seconds), **outputs)


cases = json.loads(Path(sys.argv[1]).read_text())
for number in range(int(sys.argv[2]), len(cases)):
    print("case", number, flush=True)
    try:
        run(cases[number])
    except Exception as error:  # noqa: BLE001  Paddle raises many kinds; the parent reports them
        lines = [line for line in str(error).splitlines() if "Error" in line or "[" in line] or [str(error)]
        Path(cases[number]["outputs"]).with_suffix(".error").write_text(lines[0][:300])
    print("done", number, flush=True)
