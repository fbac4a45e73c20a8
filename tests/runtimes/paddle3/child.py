"""Runs inside an environment of Paddle: exports networks, and runs what was exported.

usage: python child.py FOLDER
Each network gets a folder with ``inference.json`` (Paddle 3) or ``inference.pdmodel`` (Paddle 2), ``inference.pdiparams``, and
``data.npz`` with what was fed (by name) and found (out0, out1, ...). FOLDER/failures.json says what could not be exported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import paddle
from layers import BOXES, LAYERS
from models import BRANCHES, MODELS, QUANTIZED
from operators import OPERATORS
from parts import Function, Net

CASES = {**OPERATORS, **LAYERS, **BOXES}


def network_of(case):
    """The layer of a case, its weights other than those that a fresh layer has."""
    paddle.seed(7)
    made = case.function() if case.is_layer else Function(case.function)
    network = made if isinstance(made, (Net, Function)) else Net(*(made if isinstance(made, list) else [made]))
    for name, tensor in [*network.named_buffers(), *network.named_parameters()]:
        if tensor.dtype == paddle.float32 and len(tensor.shape) == 1:
            values = np.random.default_rng(len(name)).standard_normal(tensor.shape)
            tensor.set_value((np.abs(values) + 0.5 if "_variance" in name else values).astype("float32"))
    return network


def export(network, shapes, feed, folder):
    """Export, load and run."""
    network.eval()
    specs = [paddle.static.InputSpec(list(shapes[name]), str(feed[name].dtype), name) for name in feed]
    folder.mkdir(parents=True)
    paddle.jit.save(network, str(folder / "inference"), input_spec=specs)
    found = paddle.jit.load(str(folder / "inference"))(*(paddle.to_tensor(array) for array in feed.values()))
    arrays = {f"out{place}": tensor.numpy() for place, tensor in enumerate(paddle.utils.flatten(found))}
    np.savez(folder / "data.npz", **feed, **arrays)


def jobs():
    """Name, function that makes the network, shapes, feed."""
    for name, case in CASES.items():
        feed = {f"x{place}": np.asarray(array) for place, array in enumerate(case.inputs)}
        given = [*case.open, *[None] * len(feed)]
        shapes = {key: given[place] or array.shape for place, (key, array) in enumerate(feed.items())}
        yield name, lambda case=case: network_of(case), shapes, feed
    for name, model in {**MODELS, **QUANTIZED, **BRANCHES}.items():
        yield name, model.make, model.shapes, dict(model.feed)


def main(folder):
    failures = {}
    for name, make, shapes, feed in jobs():
        try:
            export(make(), shapes, feed, folder / name)
        except Exception as error:  # noqa: BLE001 - whatever Paddle says, the test shows it
            failures[name] = f"{type(error).__name__}: {error}"[-400:]
    (folder / "failures.json").write_text(json.dumps(failures))


main(Path(sys.argv[1]))
