"""Damaged files: a clear error, never anything else, in bounded time and memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import ConverterError, ModelError
from converter_lite.formats.mindir.reader import Reader
from tests.formats.mindir.files import Name, Program, chunk, read, save, varint, whole
from tests.formats.mindir.test_operators import CASES
from tests.formats.mindir.test_structure import PROGRAMS
from tests.mutation import mutations
from tests.support import assert_peak, normal, reading_limit

pytestmark = pytest.mark.once

COUNT = int(os.environ.get("FUZZ_CASES", "60"))
"""Mutated files per seed; the full run has 10,000."""

SEEDS = {
    "convolution": CASES["Conv2D, pads"].content,
    "LSTM": CASES["LSTM"].content,
    "slice": CASES["StridedSlice with a new axis"].content,
    "side effects": PROGRAMS["weights"],
    "a function": PROGRAMS["a function"],
    "tuples": PROGRAMS["tuples"],
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_mutated_file_is_read_or_refused_in_little_memory(name: str, tmp_path: Path) -> None:
    path, refused = tmp_path / "net.mindir", 0

    def try_to_read() -> None:
        nonlocal refused
        try:
            read(path)
        except ConverterError:
            refused += 1

    for content in mutations(SEEDS[name](), COUNT, seed=1):
        path.write_bytes(content)
        assert_peak(try_to_read, reading_limit(content))
    assert refused > COUNT // 3


def network(layers: int) -> bytes:
    """As many matrix products behind each other, with names as long as MindSpore's."""
    made = Program(name="3068_3067_2837___main___Network_construct_657")
    value = made.input("x", "float32", (1, 16))
    for index in range(layers):
        weight = made.load(made.weight(f"layers.{index}.weight", normal(16, 16, seed=index)))
        scope = f"Default/layers-CellList/{index}-Dense"
        value = made.node("MatMul", value, weight, False, True, scope=f"{scope}/MatMul-op{index}")
        value = made.node("ReLU", value, scope=f"{scope}/activation-ReLU/ReLU-op{index}")
    return made.file(value)


def test_a_whole_network_takes_little_memory(tmp_path: Path) -> None:
    content = network(150)
    path = save(tmp_path, content)
    read(path)  # what a first call imports is not counted
    assert_peak(lambda: read(path), reading_limit(content))


def test_large_weights_are_not_copied(tmp_path: Path) -> None:
    made = Program()
    weight = made.weight("w", np.ones((512, 2048), np.float32))
    content = made.file(made.node("MatMul", made.input("x", "float32", (1, 512)), made.load(weight), False, False))
    path = save(tmp_path, content)
    assert_peak(lambda: read(path), len(content) + (1 << 20))


@pytest.mark.parametrize(
    "part",
    [
        chunk(1, chunk(2, "a") + chunk(4, "R")),
        chunk(1, chunk(2, "a") + chunk(4, "Constant")),
        chunk(3, b""),
        chunk(5, b""),
    ],
    ids=["nodes", "constants", "weights", "inputs"],
)
def test_parts_without_content_take_little_memory(part: bytes, tmp_path: Path) -> None:
    content = chunk(7, part * 100_000)
    path = save(tmp_path, content)
    assert_peak(lambda: read(path), reading_limit(content))
    with pytest.raises(ModelError, match="than bytes for them"):
        read(path)


@pytest.mark.parametrize("where", ["inputs of a node", "attributes", "primitives"])
def test_many_names_take_little_memory(where: str, tmp_path: Path) -> None:
    inner = {
        "inputs of a node": chunk(7, chunk(1, chunk(1, "") * 200_000 + chunk(2, "a") + chunk(4, "ReLU"))),
        "attributes": chunk(7, chunk(1, chunk(5, "") * 200_000 + chunk(2, "a") + chunk(4, "ReLU"))),
        "primitives": chunk(12, b"") * 200_000,
    }
    path = save(tmp_path, inner[where])
    assert_peak(lambda: read(path), reading_limit(inner[where]))
    with pytest.raises(ModelError, match="far more names than bytes"):
        read(path)


def test_a_long_chain_of_nodes_is_read(tmp_path: Path) -> None:
    made = Program()
    value = made.input("x", "float32", (1, 4))
    for _ in range(1000):
        value = made.node("ReLU", value)
    assert len(read(save(tmp_path, made.file(value))).model.graph) == 1000


def test_tuples_in_tuples_are_refused_from_some_depth_on() -> None:
    value = whole(16, 20)
    for _ in range(2000):
        value = chunk(17, value) + whole(16, 20)
    reader = Reader(value)
    with pytest.raises(ModelError, match="tuples in one another"):
        reader.value((0, len(value)))


@pytest.mark.parametrize("length", [-11, -1, 1 << 40])
def test_a_length_that_leads_out_of_the_file_is_refused(length: int, tmp_path: Path) -> None:
    """The first one leads back to its own beginning."""
    with pytest.raises(ModelError, match="runs over its end"):
        read(save(tmp_path, varint(7 << 3 | 2) + varint(length)))


@pytest.mark.parametrize("content", [b"\x3a\x03\x0b", b"\x3a" + b"\xff" * 12, b"\x00\x00", b"\x3a\x05\x0a\x7f"])
def test_bytes_without_meaning_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no MindIR file, or it is damaged"):
        read(save(tmp_path, content))


def test_a_node_that_reads_itself_is_refused(tmp_path: Path) -> None:
    made = Program()
    value = made.node("ReLU", Name("net:CNode_1"))
    assert value.text == "net:CNode_1"
    with pytest.raises(ModelError, match="which nothing before it gives"):
        read(save(tmp_path, made.file(value)))
