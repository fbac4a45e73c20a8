"""Networks that Paddle exports, read here: the numbers are Paddle's own, and both kinds of files give the same graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.source import Source
from converter_lite.quantization.plan import NodeMode
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import command
from tests.formats.paddle.graphs import signature
from tests.runtimes.conftest import Tally
from tests.runtimes.paddle3_runtime import Exported, export

pytestmark = pytest.mark.runtime

QUANTIZED = ("quantized_afterwards", "trained_with_quantization")
BRANCHES = ("branch", "loop")
NETWORKS = (
    *("mobilenet_v1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "resnet18"),
    *("recognizer", "recognizer_fixed", "text_detector", "text_encoder", "detector"),
)

OF_SIZES = {"arange_dyn", "nearest_list", "shape", "slice_tensor", "std"}
"""Paddle 3 counts with sizes in int64, Paddle 2 in int32."""

WRITTEN_OTHERWISE = {
    *("add_scalar", "bool_index", "deconv1d", "deconv3d", "deform", "gn_noaffine", "masked_fill", "nms_classes"),
    *("outer", "setitem", "setitem_mask", "setitem_t", "slice", "strided", "where_idx"),
}
"""Functions that the two releases make of other operators, or with other constants."""


BEFORE_ITS_DIMENSIONS = ("gather_neg",)
"""What Paddle 2.6.2 takes a size for from memory in front of a shape: a Gather along a negative axis. The result varies."""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export("paddle33", tmp_path_factory.mktemp("paddle33"))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export("paddle26", tmp_path_factory.mktemp("paddle26"))


def run(model: ir.Model, feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    found = DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run(feed)
    return [found[str(value.name)] for value in model.graph.outputs]


def differences(exported: Exported, name: str) -> Iterator[str]:
    """What is not as Paddle has it: shapes, element types, numbers (1e-5 of them, or of 1)."""
    model = read_paddle(exported.folder / name).model
    feed, wanted = exported.recorded(name, [str(value.name) for value in model.graph.inputs])
    for place, (made, want) in enumerate(zip(run(model, feed), wanted, strict=True)):
        if (made.shape, made.dtype) != (want.shape, want.dtype):
            yield f"{name} {place}: {made.shape} {made.dtype}, not {want.shape} {want.dtype}"
            continue
        one, other = made.astype(np.float64), want.astype(np.float64)
        is_same = (one == other) | (np.isnan(one) & np.isnan(other))
        with np.errstate(invalid="ignore"):
            error = np.where(is_same, 0, np.abs(one - other) / np.maximum(np.abs(other), 1))
        if not error.max(initial=0) <= 1e-5:
            yield f"{name} {place}: {error.max():.2g}"


def test_every_network_is_exported(newer: Exported) -> None:
    assert newer.failures == {}
    assert len(newer.names()) > 500


def test_operators_give_the_numbers_of_paddle_3(newer: Exported, tally: Tally) -> None:
    names = [name for name in newer.names() if name not in (*NETWORKS, *QUANTIZED, *BRANCHES)]
    found = [text for name in names for text in differences(newer, name)]
    tally("paddle 3.3.1", "PIR operators", tried=len(names), wrong=len({text.split()[0] for text in found}))
    assert found == []


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_the_numbers_of_paddle_3(name: str, newer: Exported, tally: Tally) -> None:
    tally("paddle 3.3.1", "PIR networks")
    assert list(differences(newer, name)) == []


def test_operators_of_older_programs_give_the_numbers_of_paddle_2(older: Exported, tally: Tally) -> None:
    others = (*NETWORKS, *QUANTIZED, *BRANCHES, *BEFORE_ITS_DIMENSIONS)
    names = [name for name in older.names() if name not in others]
    found = [text for name in names for text in differences(older, name)]
    tally("paddle 2.6.2", "operators", tried=len(names), wrong=len({text.split()[0] for text in found}))
    assert found == []


def test_both_kinds_of_files_give_the_same_graph(newer: Exported, older: Exported) -> None:
    names = [name for name in newer.names() if name in older.names() and name not in (*QUANTIZED, *BRANCHES)]
    pairs = {name: [signature(read_paddle(e.folder / name).model) for e in (newer, older)] for name in names}
    assert {name for name, (one, other) in pairs.items() if one != other} == OF_SIZES | WRITTEN_OTHERWISE


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_networks_have_the_plan_of_the_older_file(name: str, newer: Exported, older: Exported) -> None:
    one, other = (read_paddle(exported.folder / name) for exported in (newer, older))
    assert signature(one.model) == signature(other.model)
    assert [node.mode for node in one.plan.nodes.values()].count(NodeMode.INTEGER) == 4
    for ours, theirs in ((one.plan.weights, other.plan.weights), (one.plan.activations, other.plan.activations)):
        assert [params.scale.tolist() for params in ours.values()] == [
            params.scale.tolist() for params in theirs.values()
        ]
    assert all(np.array_equal(a, b) for a, b in zip(one.q_weights.values(), other.q_weights.values(), strict=True))


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_networks_are_within_rounding_of_paddle(name: str, older: Exported) -> None:
    """Paddle 2.6.2 computes with rounded tensors, also where we fold a normalization; 3.3.1 rounds where it should not."""
    source = Source.of(read_paddle(older.folder / name), 0, name)
    feed, (want,) = older.recorded(name, ["image"])
    (made,) = run(source.model, feed)
    assert np.abs(made - want).max() <= 0.02 * np.abs(want).max()


@pytest.mark.parametrize("name", BRANCHES)
def test_control_flow_is_refused_by_its_name(name: str, newer: Exported) -> None:
    kind = {"branch": "if", "loop": "while"}[name]
    with pytest.raises(ModelError, match=rf"\(pd_op.{kind} -> .*control flow depends on numbers") as caught:
        read_paddle(newer.folder / name)
    assert "without `if` and `while`" in caught.value.hint


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "recognizer_fixed", "text_detector", "text_encoder"])
def test_networks_become_files_of_every_format(name: str, newer: Exported, tmp_path: Path) -> None:
    shapes = {"text_detector": "x:1,3,64,96", "text_encoder": "input_ids:1,16;token_type_ids:1,16"}
    fixed = {"mobilenet_v3_small": "image:1,3,64,64", **shapes}.get(name)
    outcome = command(
        *("--fmk=PADDLE", f"--modelFile={newer.folder / name}", f"--outputFile={tmp_path / 'out'}"),
        *("--saveType=ONNX,MINDIR_LITE,NAIVE_BUFFER", *([f"--inputShape={fixed}"] if fixed else [])),
    )
    assert outcome.status == 0, outcome
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".ms", ".nb", ".onnx"]
