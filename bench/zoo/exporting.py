"""Makes the networks and exports them: ``python -m bench.zoo.exporting FOLDER``, with the interpreter of the zoo.

A network that is there already is not made again. Each gets a folder with ``model.onnx``, ``samples.npz`` (``number/input``) and
``about.json``; one that cannot be exported is named, and the others follow.
"""

from __future__ import annotations

import argparse
import json
import shutil
import traceback
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.zoo import operators  # noqa: F401  # before torchvision
from bench.zoo.network import Input, Network

SAMPLES, WARMING = 12, 3
"""Samples of a network: the first eight calibrate. Batches that warm the statistics of batch normalizations."""


def networks() -> dict[str, tuple[Network, ...]]:
    """Family -> its networks."""
    from bench.zoo import classifiers, dense, language, sequences

    return {
        "convolutional classifiers": classifiers.CONVOLUTIONS,
        "classifiers with attention or mixing": classifiers.ATTENTION,
        "segmentation": dense.SEGMENTATION,
        "detection": dense.DETECTION,
        "generators": dense.GENERATORS,
        "sounds and series": sequences.SOUND,
        "language": language.LANGUAGE,
        "tables and graphs": sequences.TABLES,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="these only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for family, members in networks().items():
        for network in members:
            target = options.folder / network.name
            if target.is_dir() or (options.names and network.name not in options.names):
                continue
            try:
                export(network, family, target)
                print(f"{network.name}: {(target / 'model.onnx').stat().st_size:,} bytes", flush=True)
            except Exception:  # noqa: BLE001  # whatever an exporter raises, the others follow
                print(f"{network.name}: not exported\n{traceback.format_exc(limit=-3)}", flush=True)


def export(network: Network, family: str, target: Path) -> None:
    """Make a network and write its folder, which appears when all of it is there."""
    seed = zlib.crc32(network.name.encode())
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    module = network.make()
    settle(module, network, rng)
    samples = [{name: given.sample(rng) for name, given in network.inputs.items()} for _ in range(SAMPLES)]
    if network.form.half:
        module = module.half()
        samples = [{k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in s.items()} for s in samples]
    folder = target.with_suffix(".tmp")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with torch.no_grad():
        _write(module, network, _arguments(network, samples), folder / "model.onnx")
    np.savez(folder / "samples.npz", **{f"{i}/{k}": v for i, sample in enumerate(samples) for k, v in sample.items()})
    about = {
        "name": network.name,
        "family": family,
        "form": network.form.title,
        "shapes": {name: given.shape for name, given in network.inputs.items()},
        "open": any(given.open for given in network.inputs.values()),
    }
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
    folder.rename(target)


def settle(module: nn.Module, network: Network, rng: np.random.Generator) -> None:
    """Weights as training could leave them: none is zero, and batch normalizations have seen samples."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(0.1 * torch.randn_like(parameter))
        module.eval()
        normalizations = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        for part in normalizations:
            part.reset_running_stats()
            part.momentum = None  # the plain mean over all batches
            part.train()
        if normalizations:
            for _ in range(WARMING):
                module(*(torch.from_numpy(_batch(given, rng)) for given in network.inputs.values()))
    module.eval()


def _batch(given: Input, rng: np.random.Generator) -> Any:
    """Several samples at once where that is possible."""
    return np.concatenate([given.sample(rng) for _ in range(4)]) if given.shape[0] == 1 else given.sample(rng)


def _arguments(network: Network, samples: list[dict[str, Any]]) -> tuple[torch.Tensor, ...]:
    """A sample; the present exporter takes a batch of one for a constant, and gets two where the batch is open."""
    count = 2 if network.form.dynamo and all(0 in given.open for given in network.inputs.values()) else 1
    return tuple(torch.from_numpy(np.concatenate([s[name] for s in samples[:count]])) for name in network.inputs)


def _write(module: nn.Module, network: Network, arguments: tuple[torch.Tensor, ...], path: Path) -> None:
    form, names = network.form, list(network.inputs)
    shared: dict[str, Any] = {"input_names": names, "opset_version": form.opset, "dynamo": form.dynamo}
    opened = {name: dict(given.open) for name, given in network.inputs.items() if given.open}
    if form.dynamo:
        shared |= {"external_data": form.external, "verbose": False}
        if opened:
            dims = {axis: torch.export.Dim(axis) for axes in opened.values() for axis in axes.values()}
            shared["dynamic_shapes"] = tuple({a: dims[n] for a, n in opened.get(k, {}).items()} for k in names)
    else:
        shared["dynamic_axes"] = opened
    torch.onnx.export(module, arguments, str(path), **shared)
    if form.external and not form.dynamo:
        _outside(path)


def _outside(path: Path) -> None:
    import onnx

    onnx.save(onnx.load(path), path, save_as_external_data=True, location="model.onnx.data", size_threshold=256)


if __name__ == "__main__":
    main()
