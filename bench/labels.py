"""What labels gain: networks with 4-bit weights and activations, learnt from the float network, and then trained on labels.

``python -m bench.labels FOLDER`` where PyTorch is; FOLDER holds ``cifar10_calib``, ``cifar10_eval.npz`` and ``models``. For each
seed ``rounding=LEARNED`` and then ``finetune`` from there; evaluation pictures are looked at once, at the end of each. Prints a
line of JSON for each figure, and the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.config import config_from_mapping
from converter_lite.data.images import decode
from converter_lite.learning import rounding
from converter_lite.learning.finetune import Training, finetune
from converter_lite.log import NORMAL, Log
from converter_lite.pipeline.convert import quantized_network
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.runtime.engine import DEFAULT_ENGINE

ROOT = Path(__file__).resolve().parents[1]
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAINING = Training(Path(), batch=16, rate=0.001, distill=0.5, threads=1)
SHOWN = 100
"""Evaluation pictures in a run."""


@dataclass(frozen=True, slots=True)
class Network:
    """A float network, its calibration pictures with labels, and others to judge by.

    Attributes:
        name: In the table.
        model: File.
        data: ``[data_preprocess_param]``.
        labels: File name -> class.
        x, y: Evaluation pictures as the network reads them, and their classes.
    """

    name: str
    model: Path
    data: dict[str, str]
    labels: dict[Path, int]
    x: NDArray[np.float32]
    y: NDArray[np.int64]


def resnet(shared: Path) -> Network:
    """ResNet-8 and 200 pictures of CIFAR-10."""
    folder, judges = shared / "cifar10_calib", np.load(shared / "cifar10_eval.npz")
    labels = {path: CLASSES.index(path.name.split("_")[0]) for path in sorted(folder.iterdir())}
    data = {"calibrate_path": f"input_1:{folder}", "image_to_format": "RGB"}
    x = judges["images"].astype(np.float32)
    return Network("resnet8", shared / "models/resnet8_cifar10.onnx", data, labels, x, judges["labels"].ravel())


def shapes() -> Network:
    """The sample network: its calibration pictures show the classes in turns."""
    folder, tests = ROOT / "samples/calibration", sorted((ROOT / "samples/test").glob("*.jpg"))
    labels = {path: int(path.stem) % 10 for path in sorted(folder.iterdir())}
    mean = "[127.5,127.5,127.5]"
    data = {
        "calibrate_path": f"input:{folder}",
        "image_to_format": "RGB",
        "normalize_mean": mean,
        "normalize_std": mean,
    }
    x = (np.stack([decode(path) for path in tests]).transpose(0, 3, 1, 2).astype(np.float32) - 127.5) / 127.5
    return Network("samples", ROOT / "samples/shapes.onnx", data, labels, x, np.array([int(p.name[0]) for p in tests]))


def start(network: Network, log: Log, **keys: str) -> QuantizedModel:
    """The network with 4-bit weights and activations."""
    common = {name: keys.pop(name) for name in ("learn_seconds", "learn_seed") if name in keys}
    sections = {
        "common_quant_param": {"quant_type": "FULL_QUANT", "bit_num": "4", **common},
        "full_quant_param": {"activation_bits": "4", **keys},
        "data_preprocess_param": {**network.data, "calibrate_size": str(len(network.labels)), "input_type": "IMAGE"},
    }
    request = ConvertRequest(
        network.model, Path("unwritten"), config=config_from_mapping(sections), save_type=("ONNX",)
    )
    return quantized_network(replace(request, threads=1), log)


def accuracy(network: Network, model: ir.Model | Path) -> float:
    """Share of the evaluation pictures that are named rightly."""
    source = model if isinstance(model, Path) else ir.to_proto(model).SerializeToString()
    session = DEFAULT_ENGINE.session(source, threads=1, optimize=False)
    right, name = 0, network.data["calibrate_path"].partition(":")[0]
    for first in range(0, len(network.y), SHOWN):
        (found,) = session.run({name: network.x[first : first + SHOWN]}).values()
        right += int((found.argmax(1) == network.y[first : first + SHOWN]).sum())
    return 100 * right / len(network.y)


def judged(network: Network, quantized: QuantizedModel) -> float:
    """The same of a quantized network as it is written."""
    return accuracy(network, qdq_model(QuantizedModel(quantized.model.clone(), quantized.plan, quantized.q_weights)))


def measured(network: Network, arguments: argparse.Namespace, log: Log) -> Iterator[tuple[str, float]]:
    """Names of ways, and what they reach: once for each seed where there are several."""
    config = config_from_mapping(
        {
            "common_quant_param": {"quant_type": "FULL_QUANT"},
            "data_preprocess_param": {**network.data, "calibrate_size": "1", "input_type": "IMAGE"},
        }
    )
    yield "float", accuracy(network, network.model)
    yield "calibrated", judged(network, start(network, log))
    table = Path(arguments.work) / f"{network.name}.csv"
    table.write_text("".join(f"{path.resolve()},{label}\n" for path, label in network.labels.items()), encoding="utf-8")
    for seed in range(arguments.first, arguments.seeds):
        seconds = {"learn_seconds": str(arguments.learn_seconds), "learn_seed": str(seed)}
        learnt = start(network, log, rounding="LEARNED", **seconds)
        yield "learnt without labels", judged(network, learnt)
        wanted = replace(TRAINING, data=table, epochs=arguments.epochs, seed=seed)
        yield "then trained on labels", judged(network, finetune(learnt, config.data_preprocess_param, wanted, log))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with, where a run was interrupted")
    parser.add_argument("--network", choices=("resnet8", "samples"), help="only this one")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learn-seconds", type=int, default=30)
    parser.add_argument("--work", default=".")
    arguments = parser.parse_args()
    rounding.THREADS = 1  # on a machine that does other work, two wait for each other
    log, rows = Log(NORMAL, sys.stderr), []
    networks = {"resnet8": lambda: resnet(arguments.shared), "samples": shapes}
    for network in [make() for name, make in networks.items() if arguments.network in (None, name)]:
        found: dict[str, list[float]] = {}
        for way, figure in measured(network, arguments, log):
            found.setdefault(way, []).append(figure)
            print(json.dumps({"network": network.name, "way": way, "top1": figure}), flush=True)
        for way, figures in found.items():
            rows.append(
                f"| {network.name} | {way} | {median(figures):.2f} | {min(figures):.2f} to {max(figures):.2f} |"
            )
    print("\n".join(["| network | | top-1, % | spread |", "|---|---|---|---|", *rows]))


if __name__ == "__main__":
    main()
