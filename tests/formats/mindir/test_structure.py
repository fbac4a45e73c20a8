"""What a program has around its operators: tuples, side effects, functions, sizes, weights in other files, names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ModelError, UsageError
from tests.formats.mindir.files import Described, Monad, Name, Program, Type, read, run, save
from tests.support import normal

X = normal(2, 3, seed=1)
W = normal(3, 4, seed=2)

Made = Callable[[Program, Name], Name | list[Name]]


def program(make: Made, dtype: str = "float32", shape: tuple[int, ...] = (2, 3), version: int = 3) -> bytes:
    """A file with one input ``x``."""
    made = Program(version=version)
    results = make(made, made.input("x", dtype, shape))
    return made.file(*(results if isinstance(results, list) else [results]))


def _loaded(p: Program, x: Name) -> Name:
    """As MindSpore writes weights: side effects around what is computed."""
    weight = p.load(p.weight("fc.weight", W))
    product = p.node("MatMul", x, weight, False, False, scope="Default/fc-Dense/MatMul-op0")
    state = p.node("UpdateState", Monad(), p.node("MakeTuple", weight))
    return p.node("Depend", product, state)


def _tuples(p: Program, x: Name) -> Name:
    pair = p.node("MakeTuple", x, p.node("make_list", p.node("Neg", x), p.node("Abs", x)))
    first, inner = p.node("TupleGetItem", pair, 0), p.node("tuple_getitem", pair, -1)
    return p.node(
        "make_tuple",
        p.node("Add", first, p.node("ListGetItem", inner, 0)),
        p.node("MakeList", p.node("list_getitem", inner, 1)),
    )


def _sizes_of_two(p: Program, x: Name) -> Name:
    """``(n, m)`` as ``(m, n)``."""
    shape = p.node("Shape", x)
    rows, columns = (p.node("TupleGetItem", shape, axis) for axis in range(2))
    return p.node("Reshape", x, p.node("MakeTuple", columns, rows))


def _function(p: Program, x: Name) -> Name:
    """A function that is called twice, once on its own result."""
    inner = Program(name="double")
    p.function(inner, inner.node("Add", inner.input("v", "float32", (2, 3)), Name("double:v"), scope="Default/twice"))
    return p.call("double", p.call("double", x))


PROGRAMS: dict[str, Callable[[], bytes]] = {
    "weights": lambda: program(_loaded),
    "tuples": lambda: program(_tuples),
    "sizes": lambda: program(lambda p, x: p.node("Reshape", x, p.node("MakeTuple", p.node("Size", x), 1))),
    "a chain of sizes": lambda: program(
        lambda p, x: p.node(
            "Reshape", x, p.node("MakeTuple", *(p.node("TupleGetItem", p.node("Shape", x), a) for a in (1, 0)))
        )
    ),
    "a function": lambda: program(_function),
    "numbers": lambda: program(
        lambda p, x: p.node(
            "Add",
            p.node("Mul", x, p.node("ScalarToTensor", 2, 43)),
            p.node("TupleToTensor", (1.0, 2.0, 3.0), None),
        )
    ),
    "filled": lambda: program(
        lambda p, x: p.node(
            "AddN",
            p.node(
                "MakeTuple",
                p.node("Zeros", (2, 3), 43),
                p.node("Ones", (2, 3), Type("float32")),
                p.node("FillScalar", (2, 3), 2.0, None),
                p.node("FillTensor", (2, 3), np.asarray(3, np.float32), None),
                p.node("FillV2", (2, 3), np.asarray(4, np.float32)),
                p.node("Fill", 43, (2, 3), 5.0),
                x,
            ),
        )
    ),
    "ranges": lambda: program(
        lambda p, x: p.node(
            "Add", x, p.node("Add", p.node("Range", 0.0, 3.0, 1.0, 1000), p.node("Arange", 3, 0, -1, 43))
        )
    ),
    "scalars": lambda: program(
        lambda p, x: p.node(
            "Reshape",
            x,
            p.node(
                "MakeTuple",
                p.node("ScalarMul", p.node("ScalarAdd", 1, p.node("Rank", x)), p.node("ScalarSub", 3, 2)),
                p.node("ScalarFloorDiv", 5, 2),
            ),
        )
    ),
    "tensors of sizes": lambda: program(
        lambda p, x: p.node("Reshape", x, p.node("ReverseV2", p.node("TensorShape", x), (0,)))
    ),
    "an open size as a tensor": lambda: program(
        lambda p, x: p.node("Reshape", x, p.node("DynamicShape", p.node("Neg", x))), shape=(-1, 3)
    ),
    "a list as a tensor": lambda: program(lambda p, x: p.node("Add", x, p.node("ListToTensor", (1, 2, 3), 43))),
}

EXPECTED: dict[str, list[NDArray[Any]]] = {
    "weights": [X @ W],
    "tuples": [X - X, np.abs(X)],
    "sizes": [X.reshape(6, 1)],
    "a chain of sizes": [X.reshape(3, 2)],
    "a function": [4 * X],
    "numbers": [2 * X + np.array([1, 2, 3], np.float32)],
    "filled": [X + 15],
    "ranges": [X + 3],
    "scalars": [X.reshape(3, 2)],
    "tensors of sizes": [X.reshape(3, 2)],
    "an open size as a tensor": [X],
    "a list as a tensor": [X + np.array([1, 2, 3], np.float32)],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_its_parts_say(name: str, tmp_path: Path) -> None:
    found = run(read(save(tmp_path, PROGRAMS[name]())).model, {"x": X})
    assert [array.dtype for array in found] == [array.dtype for array in EXPECTED[name]]
    for ours, theirs in zip(found, EXPECTED[name], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_names_of_the_file_are_kept(tmp_path: Path) -> None:
    graph = read(save(tmp_path, PROGRAMS["weights"]())).model.graph
    assert [value.name for value in graph.inputs] == ["x"]
    assert [value.name for value in graph.outputs] == ["Default/fc-Dense/MatMul-op0"]
    assert [node.name for node in graph] == ["Default/fc-Dense/MatMul-op0"]
    assert list(graph.initializers) == ["fc.weight"]


def test_results_that_are_inputs_or_repeated_have_names_of_their_own(tmp_path: Path) -> None:
    graph = read(save(tmp_path, program(lambda p, x: p.node("MakeTuple", x, x, p.node("Neg", x))))).model.graph
    assert len({value.name for value in (*graph.inputs, *graph.outputs)}) == 4


def test_what_no_result_needs_is_left_out(tmp_path: Path) -> None:
    def make(p: Program, x: Name) -> Name:
        p.node("MatMul", x, p.load(p.weight("unused", W)), False, False)
        return p.node("Neg", x)

    graph = read(save(tmp_path, program(make))).model.graph
    assert [node.op_type for node in graph] == ["Neg"]
    assert not graph.initializers


# -- sizes ------------------------------------------------------------------------------------------------------------


def dynamic(*shape: int) -> bytes:
    return program(_sizes_of_two, shape=shape)


@pytest.mark.parametrize("shape", [(-1, 3), (2, -1), (-1, -1), (2, 3)])
def test_open_sizes_are_worked_out_at_run_time(shape: tuple[int, ...], tmp_path: Path) -> None:
    model = read(save(tmp_path, dynamic(*shape))).model
    found = run(model, {"x": X})
    np.testing.assert_array_equal(found[0], X.reshape(3, 2))


def test_a_shape_replaces_open_sizes(tmp_path: Path) -> None:
    model = read(save(tmp_path, dynamic(-1, -1)), x=(2, 3)).model
    assert [tuple(value.shape or ()) for value in (model.graph.inputs[0], model.graph.outputs[0])] == [(2, 3), (3, 2)]


def test_a_shape_may_replace_fixed_sizes_and_what_the_file_says_of_results(tmp_path: Path) -> None:
    content = program(lambda p, x: p.node("Neg", x, declared=Described("float32", (2, 3))))
    assert read(save(tmp_path, content), x=(5, 3)).model.graph.outputs[0].shape == (5, 3)


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        ((2, 3), {"y": (2, 3)}, "no input 'y'"),
        ((2, 3), {"x": (2, 3, 4)}, "2 dimensions"),
        ((-2,), {}, "how many dimensions"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    shape: tuple[int, ...], given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = save(tmp_path, program(lambda p, x: p.node("Neg", x), shape=shape))
    with pytest.raises(UsageError, match=message):
        read(path, **given)


# -- weights in other files -------------------------------------------------------------------------------------------

FRONT = b"\x01" + bytes(63)


def apart(folder: Path, location: str = "net_variables/data_0", offset: int = 64, length: int = W.nbytes) -> Path:
    """``net_graph.mindir`` without its weights."""

    def make(p: Program, x: Name) -> Name:
        weight = p.weight("fc.weight", W, apart=(location, offset, length))
        return p.node("MatMul", x, p.load(weight), False, False)

    return save(folder, program(make), "net_graph.mindir")


def with_weights(folder: Path, content: bytes = FRONT + W.tobytes()) -> None:
    (folder / "net_variables").mkdir(parents=True)
    (folder / "net_variables" / "data_0").write_bytes(content)


def test_weights_are_read_from_the_folder_beside_the_model(tmp_path: Path) -> None:
    path = apart(tmp_path)
    with_weights(tmp_path)
    source = read(path)
    np.testing.assert_allclose(run(source.model, {"x": X})[0], X @ W, atol=1e-5)
    assert source.bytes == path.stat().st_size + 64 + W.nbytes


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, {}, "cannot be read"),
        (b"", {}, "cannot be read"),
        (bytes(64) + W.tobytes(), {}, "no file with weights"),
        (FRONT + W.tobytes()[:-1], {}, "which has 111"),
        (FRONT + W.tobytes(), {"offset": -4}, "lies at bytes -4"),
        (FRONT + W.tobytes(), {"length": 44}, "has 44 bytes for 3x4 of float32"),
        (FRONT + W.tobytes(), {"location": "../net_variables/data_0"}, "cannot be read|outside of the folder"),
        (FRONT + W.tobytes(), {"location": "/etc/hostname"}, "outside of the folder"),
        (FRONT + W.tobytes(), {"location": ""}, "cannot be read"),
    ],
)
def test_weights_that_are_not_there_or_elsewhere_are_refused(
    content: bytes | None, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = apart(tmp_path, **options)
    if content is not None:
        with_weights(tmp_path, content)
    with pytest.raises(ModelError, match=message):
        read(path)


def test_every_graph_is_of_the_common_operator_set(tmp_path: Path) -> None:
    model = read(save(tmp_path, PROGRAMS["weights"]())).model
    assert isinstance(model, ir.Model)
    assert model.opset_imports == {"": 20}
