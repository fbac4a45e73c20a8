"""Damaged files: a clear error, never anything else, in bounded time and memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import ConverterError, ModelError
from converter_lite.formats.caffe.wire import Weights
from tests.formats.caffe.cases import CASES as NETWORKS
from tests.formats.caffe.detectors import ssd
from tests.formats.caffe.networks import caffemodel, layer, net, read, varint
from tests.mutation import mutations
from tests.support import assert_peak, normal, reading_limit

pytestmark = pytest.mark.once

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
"""Mutated files per seed; the full run has 10,000."""

SEEDS = {
    "description": ("Convolution: pad, stride", True, False),
    "weights": ("normalization: BatchNorm and Scale", False, True),
    "both": ("linear: InnerProduct", True, True),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_mutated_file_is_read_or_refused_in_little_memory(name: str, tmp_path: Path) -> None:
    network, damages_text, damages_weights = SEEDS[name]
    text, weights = NETWORKS[network].text.encode(), caffemodel(NETWORKS[network].weights)
    path, refused = tmp_path / "net.prototxt", 0

    def try_to_read() -> None:
        nonlocal refused
        try:
            read(path)
        except ConverterError:
            refused += 1

    texts = mutations(text, CASES, seed=1) if damages_text else [text] * CASES
    contents = mutations(weights, CASES, seed=2) if damages_weights else [weights] * CASES
    for described, content in zip(texts, contents, strict=True):
        path.write_bytes(described)
        path.with_suffix(".caffemodel").write_bytes(content)
        assert_peak(try_to_read, reading_limit(described + content))
    assert refused > CASES // 3


def test_a_whole_detector_takes_little_memory(tmp_path: Path) -> None:
    text, weights = ssd()
    path, content = tmp_path / "net.prototxt", caffemodel(weights, "half")
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".caffemodel").write_bytes(content)
    read(path)  # what a first call imports is not counted
    assert_peak(lambda: read(path), reading_limit(text.encode() + content))


@pytest.mark.parametrize("form", ["float", "single", "double", "half", "old"])
def test_large_weights_are_not_copied_often(form: str, tmp_path: Path) -> None:
    weight = normal(512, 1024)
    path, content = tmp_path / "net.prototxt", caffemodel({"ip": (weight,)}, form)
    words = "inner_product_param { num_output: 512 bias_term: false }"
    path.write_text(net(layer("InnerProduct", words, name="ip"), 1, 1024), encoding="utf-8")
    path.with_suffix(".caffemodel").write_bytes(content)
    assert_peak(lambda: read(path), 3 * len(content) + (1 << 20))


@pytest.mark.parametrize("length", [-11, -1])
def test_a_length_that_leads_backwards_is_refused(length: int) -> None:
    """The first one leads to its own beginning."""
    with pytest.raises(ModelError, match="runs over its end"):
        Weights(varint(1 << 3 | 2) + varint(length) + b"net")


def test_many_layers_of_one_name_take_no_longer_than_others(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    layers = "".join(layer("ReLU", bottoms=f"b{i}" if i else "x", tops=f"b{i + 1}", name="same") for i in range(3000))
    path.write_text(net(layers, 2), encoding="utf-8")
    names = [node.name for node in read(path).model.graph]
    assert len(set(names)) == 3000
    assert np.all([name is not None for name in names])
