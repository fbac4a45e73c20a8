"""Small Caffe networks: descriptions, and weight files written byte by byte from caffe.proto's field numbers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from converter_lite.formats.caffe.source import read_source
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.runtime.engine import DEFAULT_ENGINE

Blobs = Sequence[ArrayLike]
Arrays = dict[str, NDArray[Any]]


def varint(number: int) -> bytes:
    """A whole number of the wire format."""
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def chunk(field: int, content: bytes) -> bytes:
    """A field of bytes: a text, a message, packed numbers."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    """A field with a whole number."""
    return varint(field << 3) + varint(value)


def shape_message(shape: Sequence[int]) -> bytes:
    return chunk(7, chunk(1, b"".join(map(varint, shape))))


def blob(array: ArrayLike, form: str = "float") -> bytes:
    """A BlobProto.

    Args:
        array: The numbers.
        form: ``float`` as Caffe writes it; ``old`` with four sizes; ``single`` each number with a tag; ``split`` in two runs;
            ``double``; ``half`` as in NVIDIA's fork; ``dims`` with unpacked sizes.
    """
    numbers = np.asarray(array, "<f4")
    flat = numbers.tobytes()
    shape = shape_message(numbers.shape)
    if form == "old":
        sizes = (1,) * (4 - numbers.ndim) + numbers.shape
        return b"".join(number(index, size) for index, size in enumerate(sizes, 1)) + chunk(5, flat)
    if form == "single":
        return shape + b"".join(varint(5 << 3 | 5) + struct.pack("<f", x) for x in numbers.reshape(-1).tolist())
    if form == "split":
        middle = numbers.size // 2 * 4
        return chunk(5, flat[:middle]) + shape + chunk(5, flat[middle:])
    if form == "double":
        return shape + chunk(8, numbers.astype("<f8").tobytes())
    if form == "half":
        return shape + number(10, 2) + chunk(12, numbers.astype("<f2").tobytes())
    if form == "dims":
        return chunk(7, b"".join(number(1, size) for size in numbers.shape)) + chunk(5, flat)
    return shape + chunk(5, flat) + chunk(6, flat)


def caffemodel(weights: Mapping[str, Blobs], form: str = "float", *, old: bool = False) -> bytes:
    """A weight file; ``old``: with layers in the format of 2014."""
    layer, name, blobs = (2, 4, 6) if old else (100, 1, 7)
    made = [
        chunk(layer, chunk(name, key.encode()) + b"".join(chunk(blobs, blob(array, form)) for array in arrays))
        for key, arrays in weights.items()
    ]
    return chunk(1, b"net") + b"".join(made)


def net(layers: str, *shape: int, name: str = "x") -> str:
    """A description with one input."""
    sizes = " ".join(f"dim: {size}" for size in shape or (2, 3, 6, 7))
    return f'name: "net"\nlayer {{ name: "in" type: "Input" top: "{name}" input_param {{ shape {{ {sizes} }} }} }}\n{layers}'


def layer(kind: str, parameters: str = "", bottoms: str = "x", tops: str = "y", name: str = "") -> str:
    """One layer; bottoms and tops are separated by blanks."""
    ends = "".join(f' bottom: "{blob}"' for blob in bottoms.split()) + "".join(
        f' top: "{blob}"' for blob in tops.split()
    )
    return f'layer {{ name: "{name or kind.lower()}" type: "{kind}"{ends} {parameters} }}\n'


def save(folder: Path, text: str, weights: Mapping[str, Blobs] | None = None, **options: Any) -> Path:
    """Files ``net.prototxt`` and ``net.caffemodel``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "net.prototxt"
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".caffemodel").write_bytes(caffemodel(weights or {}, **options))
    return path


def read(path: Path, weights: Path | None = None, **shapes: Sequence[int]) -> Source:
    return read_source(ModelFiles(path, weights, shapes, confined=True))


def run(model: ir.Model, feed: Mapping[str, NDArray[Any]]) -> Arrays:
    """Outputs of a valid graph."""
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return DEFAULT_ENGINE.session(proto.SerializeToString(), threads=1, optimize=False).run(dict(feed))
