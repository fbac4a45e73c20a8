import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.data.random_samples import random_samples
from converter_lite.errors import DataError
from converter_lite.passes.spelled_out.indexing import spell_out_negative_classes, spell_out_negative_indices
from tests.support import build, normal


def value(name: str, dtype: ir.DataType, shape: list[int | str | None]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def table(name: str, rows: int, dtype: type = np.float32) -> ir.Value:
    tensor = ir.Tensor(np.zeros((rows, 4), dtype), name=name)
    return ir.Value(name=name, shape=ir.Shape([rows, 4]), type=ir.TensorType(tensor.dtype), const_value=tensor)


def model(inputs: list[ir.Value], nodes: list[ir.Node], constants: list[ir.Value] | None = None) -> ir.Model:
    outputs = [node.outputs[0] for node in nodes[-1:]]
    graph = ir.Graph(inputs, outputs, nodes=nodes, initializers=constants or [], opset_imports={"": 17})
    return ir.Model(graph, ir_version=9)


def test_token_ids_stay_below_the_rows_of_the_table_behind_casts_and_reshapes() -> None:
    ids = value("ids", ir.DataType.INT64, ["batch", "sequence"])
    words = table("words", 7, np.float16)
    cast = ir.node("Cast", [ids], attributes={"to": 6})
    reshape = ir.node("Unsqueeze", [cast.outputs[0], None])
    widened = ir.node("Cast", [words], attributes={"to": 1})
    gather = ir.node("Gather", [widened.outputs[0], reshape.outputs[0]])
    data = random_samples(model([ids], [cast, reshape, widened, gather], [words]), 20)
    seen = np.concatenate([feed["ids"].ravel() for feed in data])
    assert seen.min() == 0
    assert seen.max() == 6
    assert next(iter(data))["ids"].shape == (1, 16)


def test_the_smallest_of_several_tables_counts() -> None:
    ids = value("token_type_ids", ir.DataType.INT64, [1, 200])
    tables = [table("a", 50), table("b", 2)]
    gathers = [ir.node("Gather", [rows, ids]) for rows in tables]
    feed = next(iter(random_samples(model([ids], gathers, tables), 1)))
    assert set(feed["token_type_ids"].ravel()) == {0, 1}


def test_a_gather_from_computed_data_of_known_size_bounds_its_indices() -> None:
    x, index = value("x", ir.DataType.FLOAT, [1, 100]), value("index", ir.DataType.INT64, [8])
    feed = next(iter(random_samples(model([x, index], [ir.node("Gather", [x, index], attributes={"axis": 1})]), 1)))
    assert feed["index"].min() >= 0
    assert 3 < feed["index"].max() < 100


def test_row_numbers_leave_room_for_what_is_added_to_them() -> None:
    body = "j = Add(i, begins) y = Gather(table, j)"
    constants = {"begins": np.array([0, 5, 7]), "table": normal(12, 2)}
    data = random_samples(build(f"g (int64[4,3] i) => (float[4,3,2] y) {{ {body} }}", **constants), 8)
    assert {int(number) for feed in data for number in feed["i"].ravel()} == {0, 1, 2, 3, 4}


INDEXED = {
    "GatherND": ("float[1,6,3] x, int64[5,2] i", "y = GatherND(x, i)", 1),
    "GatherElements": ("float[1,2,8] x, int64[1,5,8] i", "y = GatherElements<axis=1>(x, i)", 2),
    "OneHot": ("int64[1,5] i", "y = OneHot(i, two, values)", 2),
}


@pytest.mark.parametrize("operator", INDEXED)
def test_indices_are_as_small_where_those_below_zero_are_counted_by_other_operators(operator: str) -> None:
    inputs, body, length = INDEXED[operator]
    model = build(
        f"g ({inputs}) => (float[a,b,c] y) {{ {body} }}", two=np.array(2), values=np.array([0, 1], np.float32)
    )
    expected = [feed["i"] for feed in random_samples(model, 8)]
    assert np.max(expected) == length - 1
    assert spell_out_negative_classes(model) + spell_out_negative_indices(model) == 1
    np.testing.assert_array_equal([feed["i"] for feed in random_samples(model, 8)], expected)


def test_indices_into_rows_of_unknown_number_are_zero_also_behind_a_choice_of_one_of_them() -> None:
    x, ends = value("x", ir.DataType.FLOAT, ["nodes", 4]), value("ends", ir.DataType.INT64, [2, "edges"])
    first = ir.Value(name="first", shape=ir.Shape([]), type=ir.TensorType(ir.DataType.INT64))
    first.const_value = ir.Tensor(np.array(0, np.int64), name="first")
    source = ir.node("Gather", [ends, first])
    feed = next(iter(random_samples(model([x, ends], [source, ir.node("Gather", [x, source.outputs[0]])], [first]), 1)))
    assert set(feed["ends"].ravel()) == {0}


def test_masks_by_name_and_by_use_are_ones() -> None:
    named = value("attention_mask", ir.DataType.INT64, [1, 5])
    used = value("valid", ir.DataType.INT64, [1, 5])
    one = table("one", 1)
    cast = ir.node("Cast", [used], attributes={"to": 1})
    sub = ir.node("Sub", [one, cast.outputs[0]])
    keep = value("keep", ir.DataType.BOOL, [1, 5])
    feed = next(iter(random_samples(model([named, used, keep], [cast, sub], [one]), 1)))
    for name in ("attention_mask", "valid", "keep"):
        np.testing.assert_array_equal(feed[name], np.ones((1, 5)))
    assert feed["keep"].dtype == np.bool_


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(ir.DataType.FLOAT, -6, 6), (ir.DataType.FLOAT16, -6, 6), (ir.DataType.INT32, 1, 3), (ir.DataType.UINT8, 0, 255)],
)
def test_numbers_have_the_type_and_a_sensible_range(dtype: ir.DataType, low: int, high: int) -> None:
    x = value("x", dtype, [1, 3, 8, 8])
    feed = next(iter(random_samples(model([x], [ir.node("Identity", [x])]), 1)))
    assert feed["x"].dtype == dtype.numpy()
    assert low <= feed["x"].min() < feed["x"].max() <= high
    assert feed["x"].max() > high / 4


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (["N", 3, "H", "W"], (1, 3, 64, 64)),
        ([None, None, None, 3], (1, 64, 64, 3)),
        (["N", "C", "H", "W"], (1, 3, 64, 64)),
        (["batch", "length", 80], (1, 16, 80)),
        (["length"], (16,)),
        ([], ()),
    ],
)
def test_open_dimensions_get_small_sizes(shape: list[int | str | None], expected: tuple[int, ...]) -> None:
    x = value("x", ir.DataType.FLOAT, shape)
    assert next(iter(random_samples(model([x], [ir.node("Identity", [x])]), 1)))["x"].shape == expected


def test_one_symbolic_name_has_one_size_also_where_it_was_fixed_elsewhere() -> None:
    a = value("a", ir.DataType.FLOAT, ["batch", "length"])
    b = value("b", ir.DataType.FLOAT, ["batch", "length", 2])
    both = model([a, b], [ir.node("Identity", [a])])
    feed = next(iter(random_samples(both, 1)))
    assert feed["b"].shape[:2] == feed["a"].shape
    fixed = next(iter(random_samples(both, 1, fixed_shapes={"b": (3, 5, 2)})))
    assert fixed["a"].shape == (3, 5)


def test_a_fixed_shape_of_an_unknown_input_is_refused() -> None:
    x = value("x", ir.DataType.FLOAT, ["N"])
    with pytest.raises(DataError, match="no input 'y'"):
        random_samples(model([x], [ir.node("Identity", [x])]), 1, fixed_shapes={"y": (1,)})


def test_every_pass_gives_the_same_samples_and_another_seed_others() -> None:
    x = value("x", ir.DataType.FLOAT, [1, 9])
    net = model([x], [ir.node("Identity", [x])])
    data = random_samples(net, 3)
    first, second = list(data), list(data)
    assert len(data) == len(first) == len(data.names) == 3
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])
    assert not np.array_equal(first[0]["x"], first[1]["x"])
    assert not np.array_equal(first[0]["x"], next(iter(random_samples(net, 1, seed=1)))["x"])
    np.testing.assert_array_equal(next(iter(data.head(1)))["x"], first[0]["x"])
    assert len({data.fingerprint(), data.head(2).fingerprint(), random_samples(net, 3, seed=1).fingerprint()}) == 3
    assert data.notes == []
    assert data.warnings == []
