"""Sparse 1x1 convolutions: what is stored, what the device makes of it, and the way back."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.exporter.sparsify import sparsify
from converter_lite.formats.paddle.inspect import description
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read, to_graph
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.formats.paddle.program import NbFile, Operator, attr, ints
from converter_lite.formats.paddle.sparse import SparseWeight, decode, encode, zero_share
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.formats.paddle.int8_arithmetic import walk
from tests.formats.paddle.models import pruned, random, sparse_file, sparse_network
from tests.support import build as graph
from tests.support import clone, run

Array = NDArray[Any]


def weights_of_all_kinds() -> list[Array]:
    """Float and int8, from dense to nearly empty, with zeros anywhere or in pairs of rows, with empty rows."""
    rng = np.random.default_rng(0)
    made = []
    for case in range(200):
        rows, columns = rng.integers(1, 14, 2)
        weight = rng.integers(-3, 4, (rows, columns))
        weight[rng.random(weight.shape) < rng.random()] = 0
        weight[rng.random(rows) < 0.3 * (case % 3)] = 0
        if case % 4 == 0:
            weight = np.repeat(weight, 2, axis=0)[: 2 * rows - case % 8 // 4]
        if weight.any():
            made.append(weight.astype(np.int8 if case % 2 else np.float32))
    return made


def test_the_device_computes_the_product_with_the_dense_weight() -> None:
    kinds = set()
    for number, weight in enumerate(weights_of_all_kinds()):
        planes = np.random.default_rng(number).integers(-9, 10, (weight.shape[1], 1 + number % 7)).astype(weight.dtype)
        stored = encode(weight, planes.shape[1])
        kinds.add((weight.dtype.kind, stored.paired, len(weight) % 2))
        assert np.array_equal(walk(stored, planes), weight.astype(np.float64) @ planes)
    assert len(kinds) == 8


def test_a_stored_weight_reads_back() -> None:
    for number, weight in enumerate(weights_of_all_kinds()):
        again = decode(encode(weight, 1 + number % 7), weight.shape[1], 1 + number % 7)
        assert again.dtype == weight.dtype
        assert np.array_equal(again, weight)


def test_weights_are_stored_as_release_2_12_stores_them() -> None:
    """Its arrays for pictures of 2x3; the last two ends of pairs are not used, and arbitrary there."""
    anywhere = np.array([[0, 2, 0, 0, 0, 1, 0, 0], [0] * 8, [0, 0, 3, 0, 4, 0, 0, 5]], np.float32)
    stored = encode(anywhere, 6)
    assert stored.values.tolist() == [2, 1, 0, 0, 3, 4, 5, 0]
    assert stored.ends.tolist() == [2, 4, 7]
    assert stored.steps.tolist() == [96, 24, 0, 24, 48, 72, 0, 0]
    assert (stored.first, stored.paired) == (1, False)
    rows = [[0, 1, 0, 0, 6, 0], [0, 2, 0, 0, 7, 0], [0] * 6, [0] * 6, [0, 0, 0, 3, 0, 0]]
    stored = encode(np.array(rows, np.float32), 6)
    assert stored.values.tolist() == [1, 2, 6, 7, 3]
    assert stored.ends.tolist() == [2, 2, 3, 0, 0]
    assert stored.steps.tolist() == [72, 48, -48]
    assert (stored.first, stored.paired) == (1, True)


def test_zeros_beside_another_weight_of_their_pair_do_not_count() -> None:
    paired = np.repeat(np.eye(4, dtype=np.float32), 2, axis=0)
    assert zero_share(paired) == np.float32(0.75)
    paired[1, 0] = 0
    assert zero_share(paired) == np.float32(25 / 32)  # seven of eight beside a partner are too few for pairs
    assert zero_share(np.repeat(np.eye(40, dtype=np.float32), 2, axis=0)) == np.float32(0.975)


def damaged(stored: SparseWeight) -> list[tuple[SparseWeight, str]]:
    ends, steps = stored.ends.copy(), stored.steps.copy()
    ends[0], steps[0] = 10**6, 1
    falling = stored.ends[::-1].copy()
    return [
        (replace(stored, ends=ends), "ends of the rows"),
        (replace(stored, ends=falling), "ends of the rows"),
        (replace(stored, ends=-stored.ends), "ends of the rows"),
        (replace(stored, steps=stored.steps[:3]), "ends of the rows"),
        (replace(stored, steps=steps), "pixels"),
        (replace(stored, steps=stored.steps * 50), "leads out"),
        (replace(stored, steps=-stored.steps), "leads out|ascend"),
        (replace(stored, steps=stored.steps * 0), "ascend"),
        (replace(stored, first=-1), "leads out"),
        (replace(stored, first=2**31 - 1), "leads out"),
        (replace(stored, values=stored.values[:-5]), "numbers for"),
    ]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_a_stored_weight_that_contradicts_itself_is_refused(dtype: type, paired: bool) -> None:
    weight = np.sign(pruned(9, 20)).astype(dtype)
    stored = encode(np.repeat(weight, 2, axis=0) if paired else weight, 5)
    assert stored.paired == paired
    for wrong, message in damaged(stored):
        with pytest.raises(FormatError, match=message):
            decode(wrong, 20, 5)


def float_file() -> NbFile:
    return build(QuantizedModel(sparse_network(), QuantPlan("arm")), options=NbOptions())


def test_convolutions_with_enough_zeros_become_sparse_and_read_back_as_the_same_function() -> None:
    file = parse(sparse_file())
    operators = file.program.main.operators
    assert [op.type for op in operators if "conv" in op.type] == ["sparse_conv2d", "conv2d", "sparse_conv2d", "conv2d"]
    first, second = (op for op in operators if op.type == "sparse_conv2d")
    assert first.get(KERNEL_ATTRIBUTE) == "sparse_conv2d/def/4/1/1"
    assert (first.get("act_type"), first.get("flag_semi"), second.get("flag_semi")) == ("relu", 0, 1)
    assert sorted(first.inputs) == ["Bias", "Diffs", "Input", "NonZeroWeights", "OcNonZeros"]
    assert "w1" not in file.parameters
    assert {variable.name for variable in file.program.main.variables if variable.persistable} - {"feed", "fetch"} == {
        *file.parameters
    }
    model = sparse_network()
    feed = {"x": random(1, 8, 6, 5)}
    (want,), (got,) = run(model, feed).values(), run(to_graph(file).model, feed).values()
    assert np.array_equal(got, want)


def test_notes_say_what_became_sparse_and_why_others_did_not() -> None:
    notes = sparsify(float_file(), 0.6).notes
    assert notes[0].startswith("--sparse_model: 2 of 3 1x1 convolutions are sparse, ")
    assert notes[0].endswith("; 1 x less than 0.6 of its weights can be left out")
    assert "this input size only" in notes[1]
    assert "needs Paddle-Lite 2.11 or newer: weights of 1 sparse convolutions" in notes[2]
    alone = np.eye(8, dtype=np.float32)[:, :, None, None]
    assert len(sparsify(convolution(alone), 0.6).notes) == 2
    (note,) = sparsify(float_file(), 1.0).notes
    assert note == (
        "--sparse_model: no convolution is sparse, the file is dense: 3 x less than 1 of its weights can be left out"
    )


def test_a_share_of_zeros_of_exactly_the_threshold_is_enough() -> None:
    weight = random(2, 5, 1, 1)
    weight[:, :3] = 0
    assert float(np.float32(0.6)) > 0.6  # so that 6 of 10 in double precision would not do
    assert sparsify(convolution(weight), 0.6).sparse == 1
    assert sparsify(convolution(weight), 0.61).sparse == 0


def convolution(weight: Array, *, size: str = "6,5", batch: str = "1", attributes: str = "") -> NbFile:
    model = graph(
        f"g (float[{batch},{weight.shape[1]},{size}] x) => (float[N,{len(weight)},H,W] y) {{ y = Conv{attributes}(x, w) }}",
        w=weight,
    )
    return build(QuantizedModel(model, QuantPlan("arm")), options=NbOptions())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"attributes": "<strides=[2,2]>"}, "strides"),
        ({"attributes": "<pads=[0,0,1,1]>"}, "paddings"),
        ({"attributes": "<pads=[0,0,0,1]>"}, "paddings"),
        ({"size": "H,5"}, "--inputShape"),
        ({"batch": "2"}, "one picture"),
        ({"size": "60000,2000"}, "too large"),
    ],
)
def test_what_the_sparse_kernels_do_not_compute_stays_dense_with_the_reason(
    arguments: dict[str, str], reason: str
) -> None:
    found = sparsify(convolution(pruned(8, 10, 1, 1), **arguments), 0.6)
    assert (found.candidates, found.sparse) == (1, 0)
    assert reason in found.notes[0]


def edited(edit: Callable[[Operator], None]) -> NbFile:
    file = convolution(pruned(8, 10, 1, 1))
    edit(next(op for op in file.program.main.operators if op.type == "conv2d"))
    return file


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"with_act": attr(True), "act_type": attr("prelu")}, "its prelu"),
        (
            {
                "with_act": attr(True),
                "act_type": attr("leaky_relu"),
                KERNEL_ATTRIBUTE: attr("conv2d/int8_out/4/2/1"),
            },
            "its leaky_relu",
        ),
        ({"quantize_weight_bits": attr(8)}, "integer and its kernel float"),
        ({KERNEL_ATTRIBUTE: attr("conv2d/def/2/1/1")}, "no sparse kernel beside conv2d/def/2/1/1"),
        ({"groups": attr(2)}, "groups"),
        ({"strides": ints((1, 2))}, "strides"),
    ],
)
def test_what_a_kernel_would_leave_out_keeps_a_convolution_dense(attributes: dict[str, Any], reason: str) -> None:
    found = sparsify(edited(lambda op: op.attributes.update(attributes)), 0.6)
    assert found.sparse == 0
    assert reason in found.notes[0]


def test_weights_of_zeros_only_stay_dense() -> None:
    found = sparsify(convolution(np.zeros((4, 6, 1, 1), np.float32)), 0.6)
    assert "all zero" in found.notes[0]


def test_a_file_without_1x1_convolutions_says_so() -> None:
    assert "it has none of size 1x1" in sparsify(convolution(pruned(8, 10, 3, 3)), 0.6).notes[0]


def test_a_weight_of_several_convolutions_is_stored_once_per_input_size() -> None:
    weight = pruned(8, 8, 1, 1)
    model = graph(
        """g (float[1,8,6,6] x) => (float[1,8,3,3] y) {
            a = Conv(x, w) b = Conv(a, w) c = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b) y = Conv(c, w)
        }""",
        w=weight,
    )
    file = build(QuantizedModel(clone(model), QuantPlan("arm")), options=NbOptions())
    found = sparsify(file, 0.6)
    assert (found.sparse, found.dense_bytes) == (3, weight.nbytes)
    assert sorted(file.parameters) == [
        f"w{suffix}{end}" for suffix in ("_1_", "_") for end in ("ic_diffs", "nonzeros_output", "oc_nonzeros")
    ]
    feed = {"x": random(1, 8, 6, 6)}
    again = read(serialize(file)).model
    assert np.array_equal(run(again, feed)["y"], run(model, feed)["y"])


def test_a_weight_that_a_dense_convolution_also_reads_stays_in_the_file() -> None:
    model = graph(
        "g (float[1,8,6,6] x) => (float[1,8,6,6] y, float[1,8,3,3] z) { y = Conv(x, w) z = Conv<strides=[2,2]>(x, w) }",
        w=pruned(8, 8, 1, 1),
    )
    file = build(QuantizedModel(model, QuantPlan("arm")), options=NbOptions())
    assert sparsify(file, 0.6).sparse == 1
    assert sorted(file.parameters) == ["w", "w_ic_diffs", "w_nonzeros_output", "w_oc_nonzeros"]


def test_a_sparse_file_is_listed_as_one() -> None:
    listed = description(parse(sparse_file())).splitlines()
    rows = [line for line in listed if "sparse_conv2d" in line]
    kept = [np.count_nonzero(parse(sparse_file()).parameters[f"{name}_nonzeros_output"]) for name in ("w1", "w3")]
    assert rows[0].endswith(f"sparse, {kept[0]} weights")
    assert rows[1].endswith(f"sparse, {kept[1]} weights in pairs")


def test_a_sparse_file_of_unknown_input_size_is_refused_with_a_remedy() -> None:
    file = parse(sparse_file())
    next(variable for variable in file.program.main.variables if variable.name == "x").dims = (1, 8, -1, -1)
    with pytest.raises(FormatError, match="one input size") as caught:
        to_graph(file)
    assert "--inputShape" in str(caught.value)
    assert to_graph(file, input_shapes={"x": (1, 8, 6, 5)}).model.graph.num_nodes() > 4


def test_a_file_cannot_ask_for_far_more_weights_than_it_stores() -> None:
    file = convolution(pruned(4000, 3, 1, 1))
    sparsify(file, 0.6)
    for variable in file.program.main.variables:
        if variable.name == "x":
            variable.dims = (1, 10**9, 6, 5)
    tracemalloc.start()
    with pytest.raises(FormatError, match="far more numbers"):
        to_graph(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("slot", ["NonZeroWeights", "OcNonZeros", "Diffs"])
def test_sparse_weights_that_are_not_there_or_of_another_type_are_refused(slot: str) -> None:
    for change in (lambda file, name: file.parameters.pop(name), as_int64):
        file = parse(sparse_file())
        op = next(op for op in file.program.main.operators if op.type == "sparse_conv2d")
        change(file, op.inputs[slot][0])
        with pytest.raises(FormatError):
            to_graph(file)


def as_int64(file: NbFile, name: str) -> None:
    file.parameters[name] = file.parameters[name].astype(np.int64)
