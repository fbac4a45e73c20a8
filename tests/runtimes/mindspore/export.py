"""Exports networks and runs them: ``export.py DIR``; started with the interpreter of MindSpore's environment.

``DIR/<name>.mindir`` and ``DIR/<name>.npz`` (``x0``, ``y0``, ...) are written for each.
"""

import sys
from pathlib import Path

import mindspore
import mindspore.train.serialization as serialization
import numpy as np
from mindspore import Tensor
from networks import DYNAMIC, NETWORKS
from run import flat


def set_weights(network):
    """Weights with which no layer saturates."""
    rng = np.random.default_rng(5)
    for parameter in network.get_parameters():
        shape, name = parameter.shape, parameter.name
        if "variance" in name:
            values = rng.uniform(0.5, 2, shape)
        elif "gamma" in name:
            values = rng.uniform(0.5, 1.5, shape)
        else:
            values = rng.normal(size=shape) * min(0.3, 1.5 / max(np.prod(shape[1:]), 1) ** 0.5)
        parameter.set_data(Tensor(values.astype(np.float32)))


def export(folder, name, network, arrays, given=None, **options):
    path = folder / name
    mindspore.export(network, *(given or arrays), file_name=str(path), file_format="MINDIR", **options)
    results = flat(network(*arrays))
    feed = {f"x{index}": array.asnumpy() for index, array in enumerate(arrays)}
    np.savez(folder / f"{name}.npz", **feed, **{f"y{index}": array for index, array in enumerate(results)})


def main(folder):
    mindspore.set_context(mode=mindspore.GRAPH_MODE, device_target="CPU")
    for name, (make, feed) in NETWORKS.items():
        network = make()
        network.set_train(False)
        set_weights(network)
        arrays = [Tensor(array) for array in feed]
        export(folder, name, network, arrays)
        if name in DYNAMIC and mindspore.__version__ > "2.1":
            shapes = DYNAMIC[name]
            given = [Tensor(shape=list(shapes[index]), dtype=array.dtype) for index, array in enumerate(arrays)]
            export(folder, f"{name}_open", network, arrays, given)
        if name == "mobilenet_small":
            export(folder, "encrypted", network, arrays, enc_key=b"0123456789ABCDEF", enc_mode="AES-GCM")
            limit, serialization.TOTAL_SAVE = serialization.TOTAL_SAVE, 0
            export(folder, "apart", network, arrays)
            serialization.TOTAL_SAVE = limit


if __name__ == "__main__":
    main(Path(sys.argv[1]))
