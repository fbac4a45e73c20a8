"""Small files that claim to be giant take no memory or time beyond their size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from converter_lite.batch.jobs import read_jobs
from converter_lite.config.parser import MAX_BYTES, load_config
from converter_lite.errors import ConfigError, ModelError
from converter_lite.formats.onnx.reader import read_onnx
from tests.cli.workshop import Workshop, model_proto
from tests.faults.hostile import peak_of, save_graph


def test_functions_that_double_each_other_are_counted_before_they_are_inlined(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(40):
        called = [helper.make_node(f"f{level + 1}", [a], [b], domain="own") for a, b in (("x", "t"), ("t", "y"))]
        body = called if level < 39 else [helper.make_node("Relu", ["x"], ["y"])]
        functions.append(helper.make_function("own", f"f{level}", ["x"], ["y"], body, opsets))
    path = save_graph(tmp_path / "m.onnx", [helper.make_node("f0", ["x"], ["y"], domain="own")], functions=functions)
    with pytest.raises(ModelError, match=r"5\.5e\+11 nodes"):
        read_onnx(path)


def test_functions_that_call_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", name, ["x"], ["y"], [helper.make_node(other, ["x"], ["y"], domain="own")], opsets)
        for name, other in (("f", "g"), ("g", "f"))
    ]
    path = save_graph(tmp_path / "m.onnx", [helper.make_node("f", ["x"], ["y"], domain="own")], functions=functions)
    with pytest.raises(ModelError, match="calls itself"):
        read_onnx(path)


def test_a_graph_nested_a_thousand_times_is_refused(tmp_path: Path) -> None:
    depth = 1000
    inner = b""
    for _ in range(depth):  # Graph.node = 1, Node.attribute = 5, Attribute.g = 6
        for tag in (0x32, 0x2A, 0x0A):
            length, size = len(inner), b""
            while length > 127:
                size += bytes([length & 127 | 128])
                length >>= 7
            inner = bytes([tag]) + size + bytes([length]) + inner
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x3a" + _varint(len(inner)) + inner)
    with pytest.raises(ModelError, match="not an ONNX model, or it is damaged"):
        read_onnx(tmp_path / "m.onnx")


def _varint(number: int) -> bytes:
    parts = b""
    while number > 127:
        parts += bytes([number & 127 | 128])
        number >>= 7
    return parts + bytes([number])


@pytest.mark.parametrize("dims", [[10**12], [2**31, 2**31, 4], [-4], [2**62, 4]])
def test_a_constant_of_giant_shape_without_its_numbers_takes_no_memory(tmp_path: Path, dims: list[int]) -> None:
    proto = model_proto("g (float[N,4] x) => (float[N,4] y) { y = Mul(x, w) }", w=np.ones(4, np.float32))
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend(dims)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert peak_of(read_onnx, tmp_path / "m.onnx") < 8_000_000


@pytest.mark.parametrize("shape", [[2**20, 2**12], [2**32, 2**32], [2**21, 2**21, 2**22]])
def test_constants_are_not_computed_when_their_result_is_giant(workshop: Workshop, shape: list[int]) -> None:
    graph = "g (float[1] x) => (float[1] y) { c = ConstantOfShape(s)  r = ReduceSum<keepdims = 0>(c)  y = Add(x, r) }"
    onnx.save(model_proto(graph, s=np.array(shape, np.int64)), "model.onnx")
    outcome = workshop.convert("--dryRun")
    assert outcome.status in (0, 1)


def test_an_input_of_giant_shape_is_not_filled_with_random_numbers(workshop: Workshop) -> None:
    onnx.save(
        model_proto("g (float[1,1000000,1000000] x) => (float[1,1000000,1000000] y) { y = Relu(x) }"), "model.onnx"
    )
    message = workshop.fail(1)
    assert "4000000000000 bytes" in message
    assert "--inputShape" in message


def test_a_configuration_of_100_mb_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "large.cfg"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert peak_of(load_config, path) < 4 * MAX_BYTES


def test_a_configuration_full_of_mistakes_is_reported_in_a_hundred_lines(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cfg"
    path.write_text("[common_quant_param]\n" + "".join(f"quant_typ{i}=1\n" for i in range(5_000)), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert len(refused.value.problems) == 101


@pytest.mark.usefixtures("no_garbage")
def test_job_files_and_plans_of_nested_lists_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text("a = " + "[" * 100_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="not TOML"):
        read_jobs(tmp_path / "jobs.toml", [], {})
    from converter_lite.quantization.plan import load_plans

    for text in ("[" * 100_000, '{"ONNX": {"x": NaN}}', '{"ONNX": NaN}', "NaN", '{"ONNX": 1e999}'):
        (tmp_path / "plan.json").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            load_plans(tmp_path / "plan.json", ["ONNX"])
