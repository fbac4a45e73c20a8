"""A small decoder with its key and value cache, in float and with blocks of weights: perplexity, tokens per second, bytes.

``python -m bench.decoder --python=ENVIRONMENT_WITH_TORCH/bin/python [--seconds=600]``

It is trained on the text of Python's own help, and read byte by byte; a tenth of the text is kept apart, and the perplexity per
byte is that of the second half of windows whose first half is in the cache.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import numpy_helper

import converter_lite

HEADS, WINDOW, CALIBRATION, TESTED, GENERATED = 6, 128, 48, 64, 120
Arrays = Mapping[str, NDArray[Any]]

LAYER = """
    n{i} = LayerNormalization(x{i}, layers.{i}.norm1.weight, layers.{i}.norm1.bias)
    a{i} = MatMul(n{i}, layers.{i}.qkv.weight) b{i} = Add(a{i}, layers.{i}.qkv.bias)
    q{i}, k{i}, v{i} = Split<axis=2, num_outputs=3>(b{i})
    qs{i} = Reshape(q{i}, split) qh{i} = Transpose<perm=[0,2,1,3]>(qs{i})
    ks{i} = Reshape(k{i}, split) kh{i} = Transpose<perm=[0,2,1,3]>(ks{i})
    vs{i} = Reshape(v{i}, split) vh{i} = Transpose<perm=[0,2,1,3]>(vs{i})
    keys_{i} = Concat<axis=2>(past_keys_{i}, kh{i})
    values_{i} = Concat<axis=2>(past_values_{i}, vh{i})
    kt{i} = Transpose<perm=[0,1,3,2]>(keys_{i}) s{i} = MatMul(qh{i}, kt{i}) sc{i} = Mul(s{i}, scale) sm{i} = Add(sc{i}, mask)
    p{i} = Softmax<axis=-1>(sm{i}) m{i} = MatMul(p{i}, values_{i})
    mt{i} = Transpose<perm=[0,2,1,3]>(m{i}) mj{i} = Reshape(mt{i}, join)
    o{i} = MatMul(mj{i}, layers.{i}.out.weight) ob{i} = Add(o{i}, layers.{i}.out.bias) y{i} = Add(x{i}, ob{i})
    r{i} = LayerNormalization(y{i}, layers.{i}.norm2.weight, layers.{i}.norm2.bias)
    u{i} = MatMul(r{i}, layers.{i}.up.weight) ub{i} = Add(u{i}, layers.{i}.up.bias) g{i} = Gelu(ub{i})
    d{i} = MatMul(g{i}, layers.{i}.down.weight) db{i} = Add(d{i}, layers.{i}.down.bias) x{next} = Add(y{i}, db{i})
"""


def build(weights: Arrays, path: Path) -> int:
    """The decoder as an ONNX file; returns the number of layers."""
    layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    width = weights["norm.weight"].size
    cache = f"float[1,{HEADS},P,{width // HEADS}]"
    past = "".join(f", {cache} past_{kind}_{i}" for i in range(layers) for kind in ("keys", "values"))
    present = "".join(f", float[A,B,C,D] {kind}_{i}" for i in range(layers) for kind in ("keys", "values"))
    body = "".join(LAYER.format(i=i, next=i + 1) for i in range(layers))
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    decoder (int64[1,S] ids, int64[1,S] places, float[S,T] mask{past}) => (float[1,S,V] logits{present}) {{
    t = Gather(tokens.weight, ids) w = Gather(positions.weight, places) x0 = Add(t, w) {body}
    last = LayerNormalization(x{layers}, norm.weight, norm.bias)
    logits = MatMul(last, head.weight) }}"""
    for name in weights:
        text = text.replace(name, name.replace(".", "_"))
    model = onnx.parser.parse_model(text)
    constants = {
        name.replace(".", "_"): array.T
        if array.ndim == 2 and name not in ("tokens.weight", "positions.weight")
        else array
        for name, array in weights.items()
    }
    constants |= {"split": np.array([0, 0, HEADS, width // HEADS]), "join": np.array([0, 0, width])}
    constants["scale"] = np.float32((width // HEADS) ** -0.5)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in constants.items()
    )
    onnx.save(model, path)
    return layers


def feed(ids: NDArray[np.int64], past: int, cache: Arrays) -> dict[str, NDArray[Any]]:
    """Inputs for tokens behind ``past`` others."""
    count = len(ids)
    places = np.arange(past, past + count)
    mask = np.where(np.arange(past + count)[None] <= places[:, None], 0, -1e9).astype(np.float32)
    return {
        "ids": ids[None],
        "places": places[None],
        "mask": mask,
        **{f"past_{name}": array for name, array in cache.items()},
    }


class Runner:
    """A file in onnxruntime with one thread."""

    def __init__(self, path: Path, layers: int, width: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        empty = np.zeros((1, HEADS, 0, width // HEADS), np.float32)
        self.empty = {f"{kind}_{i}": empty for i in range(layers) for kind in ("keys", "values")}

    def run(self, ids: NDArray[np.int64], past: int, cache: Arrays) -> tuple[NDArray[np.float32], Arrays]:
        """Logits and the new cache."""
        names = [output.name for output in self._session.get_outputs()]
        found = dict(zip(names, self._session.run(None, feed(ids, past, cache)), strict=True))
        return found.pop("logits")[0], found

    def perplexity(self, text: NDArray[np.int64]) -> float:
        """Per byte, of the second half of each window."""
        losses = []
        for window in windows(text, TESTED):
            half = WINDOW // 2
            _, cache = self.run(window[:half], 0, self.empty)
            logits, _ = self.run(window[half:-1], half, cache)
            shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
            chosen = np.take_along_axis(shifted, window[half + 1 :, None], axis=1)[:, 0]
            losses.append(np.log(np.exp(shifted).sum(axis=1)) - chosen)
        return float(np.exp(np.concatenate(losses).mean()))

    def tokens_per_second(self, start: NDArray[np.int64]) -> float:
        """Of greedy generation, one token at a time."""
        logits, cache = self.run(start, 0, self.empty)
        before = time.thread_time()
        for place in range(len(start), GENERATED):
            logits, cache = self.run(logits[-1:].argmax(axis=1).astype(np.int64), place, cache)
        return (GENERATED - len(start)) / (time.thread_time() - before)


def windows(text: NDArray[np.int64], count: int) -> Iterator[NDArray[np.int64]]:
    """Evenly spread parts of a text, each with the byte behind it."""
    for start in np.linspace(0, len(text) - WINDOW - 1, count).astype(int):
        yield text[start : start + WINDOW]


VARIANTS: dict[str, tuple[int, dict[str, str]]] = {
    "8 bits per channel": (8, {"dequant_strategy": "ON_THE_FLY"}),
    "4 bits per channel": (4, {"dequant_strategy": "ON_THE_FLY"}),
    "8 bits, blocks of 32": (8, {"block_size": "32", "accuracy_level": "4"}),
    "4 bits, blocks of 32": (4, {"block_size": "32", "accuracy_level": "4"}),
    "4 bits, blocks of 32, standard operators": (4, {"block_size": "32"}),
    "4 bits, blocks of 32, 8-bit tables and head": (
        4,
        {"block_size": "32", "accuracy_level": "4", "eight_bit_node": "Gather,logits"},
    ),
    "4 bits, blocks of 32, zero points": (4, {"block_size": "32", "symmetric": "false", "accuracy_level": "1"}),
}


def main() -> None:
    """Train, convert, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="interpreter with torch")
    parser.add_argument("--seconds", type=int, default=600, help="time for training")
    parser.add_argument("--weights", type=Path, help="result of an earlier training")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        weights_file = arguments.weights or folder / "weights.npz"
        if arguments.weights is None:
            script = Path(__file__).with_name("decoder_training.py")
            subprocess.run([arguments.python, script, weights_file, str(arguments.seconds)], check=True)
        data = dict(np.load(weights_file))
        train, test = data.pop("train"), data.pop("test")
        width, path = data["norm.weight"].size, folder / "float.onnx"
        layers = build(data, path)
        runner = Runner(path, layers, width)
        print(f"{sum(array.size for array in data.values()):,} weights, {layers} layers of {width}")

        def samples() -> Iterator[dict[str, NDArray[Any]]]:
            for window in windows(train, CALIBRATION):
                _, cache = runner.run(window[: WINDOW // 2], 0, runner.empty)
                yield feed(window[WINDOW // 2 :], WINDOW // 2, cache)

        print("| file | perplexity | x float | tokens/s | x float | bytes | x float |\n|---|---|---|---|---|---|---|")
        base = (runner.perplexity(test), runner.tokens_per_second(test[:8]), path.stat().st_size)
        _print_row("float", base, base)
        for name, (bits, keys) in VARIANTS.items():
            converter = converter_lite.Converter(calibration_data=samples, min_cosine=0.0, save_type="ONNX")
            converter.set_config_info("common_quant_param", {"quant_type": "WEIGHT_QUANT", "bit_num": str(bits)})
            converter.set_config_info("weight_quant_param", keys)
            converter.convert("ONNX", str(path), str(folder / "out"))
            file = folder / "out.onnx"
            other = Runner(file, layers, width)
            _print_row(name, (other.perplexity(test), other.tokens_per_second(test[:8]), file.stat().st_size), base)


def _print_row(name: str, found: tuple[float, float, int], base: tuple[float, float, int]) -> None:
    cells = (f"{found[0]:.4f} | {found[0] / base[0]:.4f}", f"{found[1]:.0f} | {found[1] / base[1]:.2f}")
    print(f"| {name} | {' | '.join(cells)} | {found[2]:,} | {found[2] / base[2]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
