"""Damaged programs of Paddle 3: a clear error, never anything else, in bounded time and memory."""

from __future__ import annotations

import gc
import json
import os
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.pir.document import read_operations
from converter_lite.formats.paddle.pir.scanner import DEEPEST, PIECE
from converter_lite.formats.paddle.pir.translation import read_pir
from tests.formats.paddle.inference_models import float_model, linear_quantized_model, random
from tests.formats.paddle.pir_cases import CASES_OF_FUNCTIONS
from tests.formats.paddle.pir_cases_layers import CASES_OF_LAYERS
from tests.formats.paddle.pir_cases_pictures import CASES_OF_PICTURES
from tests.formats.paddle.pir_cases_shapes import CASES_OF_SHAPES
from tests.formats.paddle.pir_models import PirProgram, pir_twin
from tests.mutation import mutations
from tests.support import assert_peak, reading_limit

pytestmark = pytest.mark.once

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
OPERATORS = [
    *CASES_OF_FUNCTIONS.values(),
    *CASES_OF_LAYERS.values(),
    *CASES_OF_PICTURES.values(),
    *CASES_OF_SHAPES.values(),
]
START = b'{"base_code":{"magic":"pir","version":1},"program":{"regions":[{"blocks":[{"ops":['
OPERATION = b'{"#":"1.relu","A":[{"N":"ab","AT":"xy"}],"I":[{"%":1}],"O":[]}'
WIDE = 200_000


class Garbage:
    """What only the garbage collector ends, and not without calling a function."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        textwrap.dedent(str(self.itself))


@pytest.mark.parametrize("part", ["inference.json", "inference.pdiparams"])
@pytest.mark.parametrize("maker", [float_model, linear_quantized_model])
def test_a_mutated_model_is_read_or_refused_in_little_memory(maker: Any, part: str, tmp_path: Path) -> None:
    folder = pir_twin(*maker()).save(tmp_path / "m")
    read_paddle(folder)  # what a first call imports and compiles is not counted
    sizes = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused: list[bytes] = []

    def try_to_read() -> None:
        try:
            read_paddle(folder)
        except ModelError:
            refused.append(data)

    for data in mutations(sizes[part], CASES // 4, seed=5):
        (folder / part).write_bytes(data)
        assert_peak(try_to_read, reading_limit(b"".join({**sizes, part: data}.values())))
    assert len(refused) > CASES // 10


def test_every_mutated_operation_is_read_or_refused(tmp_path: Path) -> None:
    refused = 0
    for number, case in enumerate(OPERATORS):
        made = case.program()
        folder = made.save(tmp_path / "m")
        for data in mutations(made.json(), max(CASES // 300, 1), seed=number):
            (folder / "inference.json").write_bytes(data)
            try:
                read_paddle(folder)
            except ModelError:
                refused += 1
    assert refused > len(OPERATORS) // 2


HOSTILE = {
    "lists": b'{"a":[' + b"[]," * WIDE,
    "lists in lists": b'{"a":[' + b"[[[[]]]]," * WIDE,
    "objects": b'{"a":[' + b"{}," * WIDE,
    "members": b'{"a":{' + b",".join(b'"%d":0' % n for n in range(WIDE)) + b"}}",
    "numbers": b'{"a":[' + b"257," * WIDE,
    "texts": b'{"a":[' + b'"ab",' * WIDE,
    "a long text": b'{"a":"' + b"x" * (10 * WIDE),
    "a long number": b'{"a":' + b"1" * WIDE + b"}",
    "nesting": b'{"a":[' * WIDE,
    "nesting of lists": b"[" * WIDE,
    "operations": START + b",".join([OPERATION] * (WIDE // 10)) + b"]}]}]}}",
    "operands": START + b'{"#":"0.combine","A":[],"I":[' + b'{"%":1},' * WIDE,
    "results": START + b'{"#":"0.split","A":[],"O":[' + b'{"%":1,"TT":{"#":"NULL"}},' * WIDE,
    "attributes": START + b'{"#":"1.relu","A":[' + b'{"N":"a","AT":1},' * WIDE,
    "text beyond Latin": b'{"a":"' + "🙂".encode() * WIDE + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused_in_little_memory(name: str) -> None:
    data = HOSTILE[name]
    with pytest.raises(ModelError, match=r"damaged|no input"):
        read_pir(data, where="m.json")
    assert_peak(partial(read_pir, data), reading_limit(data))


@pytest.mark.parametrize("name", ["nesting", "nesting of lists"])
def test_finalizers_work_while_a_nested_text_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", failed.append)
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # a collection looks at what is made here, not at all that the tests hold
    try:
        for threshold in range(100, 1500, 20):
            gc.collect()
            gc.disable()
            for _ in range(20):
                Garbage()
            gc.set_threshold(threshold, 1, 1)
            gc.enable()
            with pytest.raises(ModelError):
                read_pir(HOSTILE[name][:40_000])
    finally:
        gc.set_threshold(*before)
        gc.enable()
        gc.unfreeze()
    assert not failed


def test_a_program_of_thousands_of_operations_is_read_in_little_memory() -> None:
    made = PirProgram()
    value = made.input("x", (2, 4))
    for _ in range(3000):
        value = made.op("scale", value, made.full(2.0), bias=1.0, bias_after_scale=True)
    made.output(value)
    for data in (made.json(), made.json(indent=4)):
        assert len(read_operations(data)) == 6002
        assert_peak(partial(read_operations, data), reading_limit(data))


def test_a_graph_of_many_operations_without_weights_is_made_in_little_memory(tmp_path: Path) -> None:
    """Nothing but operations, with what Paddle writes about each: program and graph are not in memory together."""
    made = PirProgram()
    value = made.input("x", (2, 4, 4, 4))
    for _ in range(2500):
        value = made.op("relu", value)
    made.output(value)
    trained = {"AT": {"#": "0.a_array", "D": [{"#": "0.a_bool", "D": False}]}, "N": "stop_gradient"}
    for operation in made.operations:
        operation["OA"] = [trained]
    folder = made.save(tmp_path / "m")
    size = (folder / "inference.json").read_bytes()
    assert_peak(partial(read_paddle, folder), reading_limit(size))


def test_long_constants_are_read_in_little_memory() -> None:
    made = PirProgram()
    made.output(made.op("add", made.input("x", (40,)), made.constant(random(2000, 40))))
    data = made.json()
    assert len(data) > 100 * PIECE
    assert_peak(partial(read_pir, data), reading_limit(data))


@pytest.mark.parametrize("indent", [None, 4])
def test_a_program_that_is_little_else_than_one_list_of_numbers_is_read(indent: int | None) -> None:
    """``paddle.to_tensor`` of a list: the list is inside of an attribute, that of attributes, and those of an operation."""
    made = PirProgram()
    numbers = list(range(1000))
    made.output(
        made.op("assign_value_", made.input("x", (1000,), "int64"), shape=[1000], dtype="int64", values=numbers)
    )
    data = made.json(indent=indent)
    operation = next(op for op in read_operations(data) if op.kind == "pd_op.assign_value_")
    assert list(operation.attributes["values"]) == numbers
    assert_peak(partial(read_operations, data), reading_limit(data))


def test_operations_that_are_longer_than_a_piece_are_the_same_as_short_ones() -> None:
    made = PirProgram()
    x = made.input("x", (2, 400))
    for value in made.listed("split_with_num", x, made.full(1, "int32"), count=400, num=400):
        made.output(value)
    data, spread = made.json(), made.json(indent=8)
    assert len(data) // len(made.operations) < PIECE < len(spread) // 4
    assert read_operations(data) == read_operations(spread)
    assert len(read_pir(data).main.operators) == 402


def test_nesting_is_bounded() -> None:
    """Control flow in control flow is read as far as it nests in any program."""
    made = PirProgram()
    made.output(made.op("relu", made.input("x", (2,))))
    for _ in range(3):
        block = {"#": "block_1", "args": [], "ops": [json.loads(json.dumps(made.operations[-2]))]}
        made.operations[-2]["regions"] = [{"#": "region_1", "blocks": [block]}]
    made.operations[-2]["op_callstack"] = ["x" * PIECE]
    assert read_operations(made.json())[1].has_blocks
    deep = json.dumps({"a": "x" * PIECE}).encode()
    for _ in range(2 * DEEPEST):
        deep = b'{"a":' + deep + b"}"
    with pytest.raises(ModelError, match="damaged"):
        read_pir(deep)
