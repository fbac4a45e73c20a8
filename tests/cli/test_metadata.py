"""What exporters note down in a model stays out of written files; what programs read there is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.workshop import FULL, Workshop
from tests.support import build_proto

TRACE = "File /home/somebody/net.py, line 7, in forward: return self.conv(x)"


def noted() -> onnx.ModelProto:
    """A model with notes of an exporter at every place where the standard has room for them, and with names of classes."""
    branch = helper.make_graph(
        [helper.make_node("Abs", ["c"], ["a"], name="inside", doc_string=TRACE)],
        "then",
        [],
        [helper.make_tensor_value_info("a", 1, None)],
        doc_string=TRACE,
    )
    proto = build_proto(
        "g (float[1,3,8,8] x, bool b) => (float[1,16,8,8] y) { c = Conv<pads = [1,1,1,1]>(x, w) y = Relu(c) }",
        w=np.random.default_rng(0).normal(size=(16, 3, 3, 3)).astype(np.float32),
    )
    proto.graph.node[1].CopyFrom(helper.make_node("If", ["b"], ["y"], then_branch=branch, else_branch=branch))
    graph = proto.graph
    graph.doc_string = TRACE
    for item in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output, branch.node[0]):
        item.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=TRACE)
        item.metadata_props.add(key="namespace", value=f": Net/{TRACE}")
    for item in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        item.doc_string = TRACE
    proto.doc_string = "A network for somebody's cameras"
    for key, value in (("names", "{0: 'person'}"), ("stride", "32"), ("pkg.torch.export.ranges", TRACE)):
        proto.metadata_props.add(key=key, value=value)
    return proto


@pytest.mark.parametrize("config", [None, FULL], ids=["float", "full"])
def test_notes_of_exporters_are_left_out_and_what_programs_read_is_kept(workshop: Workshop, config: object) -> None:
    onnx.save(noted(), "noted.onnx")
    flags = ["--saveType=ONNX", "--minCosine=0"]
    if config is not None:
        onnx.save(_without_branches(noted()), "noted.onnx")
    workshop.succeed(*flags, config=config, model="noted.onnx", output="small")
    content = Path("small.onnx").read_bytes()
    assert b"somebody/net.py" not in content
    assert b"stack_trace" not in content
    made = onnx.load("small.onnx")
    assert {entry.key: entry.value for entry in made.metadata_props} == {"names": "{0: 'person'}", "stride": "32"}
    assert made.doc_string == "A network for somebody's cameras"
    assert len(content) < Path("noted.onnx").stat().st_size


def _without_branches(proto: onnx.ModelProto) -> onnx.ModelProto:
    proto.graph.node[1].CopyFrom(helper.make_node("Relu", ["c"], ["y"], doc_string=TRACE))
    del proto.graph.input[1]
    return proto


def test_a_flag_keeps_them(workshop: Workshop) -> None:
    onnx.save(noted(), "noted.onnx")
    workshop.succeed("--saveType=ONNX", "--keepMetadata=on", config=None, model="noted.onnx", output="kept")
    made = onnx.load("kept.onnx")
    notes = [entry.value for node in made.graph.node for entry in node.metadata_props]
    assert TRACE in notes
    assert made.graph.node[0].doc_string == TRACE
    assert "pkg.torch.export.ranges" in [entry.key for entry in made.metadata_props]


def test_the_flag_says_where_it_has_no_effect(workshop: Workshop) -> None:
    outcome = workshop.succeed("--saveType=NAIVE_BUFFER", "--keepMetadata=on", config=None)
    assert "--keepMetadata=on has no effect: --saveType does not name ONNX" in outcome.out + outcome.err
