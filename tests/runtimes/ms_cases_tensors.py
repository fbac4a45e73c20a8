"""Small ONNX models of operators that shape, move, pick and put elements, for :mod:`tests.runtimes.ms_cases`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto, helper

from tests.runtimes.ms_case import IMAGE, Case, build, case, const, ints, values, whole


def shapes() -> Iterator[Case]:
    x = values()
    yield case("reshape", "Reshape", x, ints(2, 2, 42))
    yield case("reshape_to_no_axes", "Reshape", values((1, 1)), (np.zeros(0, np.int64),))
    yield case("reduce_log_sum_exp_to_no_axes", "ReduceLogSumExp", values((6,)), ints(0), keepdims=0, opset=18)
    yield case("reshape_keeps", "Reshape", x, ints(0, 0, -1))
    yield case("flatten", "Flatten", x)
    yield case("flatten_two", "Flatten", x, axis=2)
    yield case("squeeze", "Squeeze", values((1, 3, 1, 4)), ints(0, 2))
    yield case("unsqueeze", "Unsqueeze", values((3, 4)), ints(0, 3))
    yield case("transpose", "Transpose", values((2, 3, 4)), perm=[2, 0, 1])
    yield case("transpose_image", "Transpose", x, perm=[0, 2, 3, 1])
    for perm in itertools.permutations(range(3)):  # results as large in every direction as what is read
        digits = "".join(map(str, perm))
        yield case(f"transpose_cube_{digits}", "Transpose", values((4, 4, 4)), perm=list(perm))
    yield case("transpose_square", "Transpose", values((5, 5)), perm=[1, 0])
    yield case("gather_in_another_order", "Gather", values((4, 4)), ints(2, 0, 3, 1), axis=1)
    yield case("transpose_5d", "Transpose", values((2, 3, 4, 2, 2)), perm=[0, 2, 1, 4, 3])
    yield case("identity", "Identity", x)
    beside = [
        helper.make_node("Relu", ["x0"], ["y0"], name="relu"),
        helper.make_node("Constant", [], ["y1"], name="constant", value_floats=[1.0, -2.0, 3.0]),
    ]
    yield Case("constant_output", build(beside, {"x0": x}, {}, 2, 17), {"x0": x}, 2e-5)
    yield case("concat_channels", "Concat", x, values(seed=1), axis=1)
    yield case("concat_width", "Concat", x, const(IMAGE), axis=-1)
    yield case("concat_matrix", "Concat", values((3, 4)), values((2, 4), 1), axis=0)
    yield case("concat_three", "Concat", values((3, 4)), values((3, 2), 1), const((3, 1)), axis=1)
    yield case("split", "Split", x, ints(1, 3), outputs=2, axis=1)
    yield case("split_even", "Split", values((6, 4)), outputs=3, axis=0)
    yield case("slice", "Slice", x, ints(1, 1), ints(3, 5), ints(1, 2))
    yield case("slice_steps", "Slice", x, ints(0), ints(2**62), ints(3), ints(2))
    yield case("slice_negative", "Slice", x, ints(-3), ints(-1), ints(2))
    yield case("slice_reversed", "Slice", x, ints(-1), ints(-(2**62)), ints(3), ints(-1))
    yield case("expand", "Expand", values((3, 1)), ints(2, 3, 4))
    yield case("expand_image", "Expand", values((1, 4, 1, 1)), ints(1, 4, 3, 2))
    yield case("tile", "Tile", values((2, 3)), ints(2, 3))
    yield case("tile_image", "Tile", x, ints(1, 2, 1, 3))
    yield case("cast_int", "Cast", values((3, 4), high=9.0), to=TensorProto.INT32)
    yield case("cast_float", "Cast", whole((3, 4), 9), to=TensorProto.FLOAT)
    yield case("cast_bool", "Cast", whole((3, 4), 2), to=TensorProto.BOOL)
    yield case("cast_from_bool", "Cast", whole((3, 4), 2) > 0, to=TensorProto.FLOAT)
    for mode in ("DCR", "CRD"):
        yield case(f"depth_to_space_{mode.lower()}_by_1", "DepthToSpace", values((1, 8, 3, 2)), blocksize=1, mode=mode)
        yield case(f"depth_to_space_{mode.lower()}", "DepthToSpace", values((1, 8, 3, 2)), blocksize=2, mode=mode)
        yield case(f"depth_to_space_{mode.lower()}_by_3", "DepthToSpace", values((2, 27, 3, 2)), blocksize=3, mode=mode)
    yield case("space_to_depth", "SpaceToDepth", values((1, 2, 4, 6)), blocksize=2)
    for name, pads in (("image", (0, 0, 1, 2, 0, 0, 3, 1)), ("channels", (0, 1, 0, 0, 0, 1, 0, 0))):
        yield case(f"pad_{name}", "Pad", x, ints(*pads))
    yield case("pad_value", "Pad", x, ints(0, 0, 1, 1, 0, 0, 1, 1), (np.float32(1.5),))
    yield case("pad_reflect", "Pad", x, ints(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect")
    yield case("pad_edge", "Pad", x, ints(0, 0, 1, 2, 0, 0, 2, 1), mode="edge")
    yield case("pad_edge_wide", "Pad", values((1, 2, 4, 5)), ints(0, 0, 1, 1, 0, 0, 4, 1), mode="edge")
    yield case("pad_wrap", "Pad", x, ints(0, 0, 1, 2, 0, 0, 2, 1), opset=19, mode="wrap")
    yield case("pad_matrix", "Pad", values((3, 4)), ints(1, 0, 0, 2))
    yield case("pad_negative", "Pad", x, ints(0, 0, -1, 1, 0, 0, -1, 0))


def constant_results() -> Iterator[Case]:
    """Results that nothing is computed for, one of them twice, as a preprocessor of one length has them."""
    given = {"x": values((2, 3))}
    for name, array in (
        ("length", np.array([5])),
        ("image", values((1, 2, 3, 4), 1)),
        ("truths", np.array([True, False])),
    ):
        nodes = [helper.make_node("Relu", ["x"], ["y0"])]
        nodes += [helper.make_node("Identity", ["stored"], [f"y{number}"]) for number in (1, 2)]
        yield Case(f"constant_{name}", build(nodes, given, {"stored": array}, 3), given)


def many_axes() -> Iterator[Case]:
    """More than six that are apart are moved to other places by the runtimes, and no Softmax of six is loaded."""
    for name, shape, order in (
        ("windows_of_a_volume", (1, 2, 2, 3, 2, 2, 3), [0, 3, 6, 1, 4, 2, 5]),
        ("patches_of_a_video", (1, 3, 2, 2, 2, 3, 2, 4), [0, 2, 4, 6, 3, 5, 7, 1]),
        ("seven_axes", (4, 4, 4, 3, 4, 2, 2), [0, 5, 4, 6, 1, 3, 2]),
        ("eight_axes", (2, 3, 2, 2, 2, 3, 2, 2), [7, 6, 5, 4, 3, 2, 1, 0]),
    ):
        yield case(f"transpose_{name}", "Transpose", values(shape), perm=order)
    bytes_of = [helper.make_node("Cast", ["x"], ["b"], to=TensorProto.UINT8)]
    bytes_of.append(helper.make_node("Transpose", ["b"], ["y0"], perm=[0, 2, 1]))
    for shape in ((5, 2, 3), (5, 3, 3)):  # a square keeps its shape
        feed = {"x": whole(shape, 200).astype(np.float32)}
        yield Case(f"transpose_bytes_{shape[1]}x{shape[2]}", build(bytes_of, feed, {}), feed)
    yield case("arithmetic_of_seven_axes", "Add", values((2, 3, 1, 2, 2, 1, 3)), const((3, 1, 2, 2, 1, 3)))
    for axis in (-1, 2):
        for op in ("Softmax", "LogSoftmax"):
            yield case(f"{op.lower()}_of_six_axes_{axis}", op, values((2, 3, 2, 2, 3, 2)), axis=axis)


def gathers() -> Iterator[Case]:
    table = const((10, 6))
    yield case("gather_embedding", "Gather", table, whole((2, 3), 10))
    yield case("gather_rows", "Gather", values((5, 4)), ints(3, 0, -1))
    yield case("gather_one", "Gather", values((5, 4)), (np.array(2),))
    yield case("gather_axis", "Gather", values(), ints(3, 1), axis=1)
    yield case("gather_one_image", "Gather", values(), (np.array(2),), axis=2)
    yield case("gather_variable", "Gather", values((5, 4)), whole((3,), 4), axis=1)
    yield case("gather_nd", "GatherND", values((5, 4)), whole((3, 2), 4))
    places = np.array([[[0, 1]], [[2, -1]]])
    yield case("gather_nd_constant", "GatherND", values((3, 4, 5)), (places,))
    yield case("gather_nd_batch", "GatherND", values((2, 3, 4)), (places % 3,), batch_dims=1)
    yield case("gather_nd_computed_batch", "GatherND", values((2, 3, 4)), places % 3, batch_dims=1)
    yield case("gather_nd_computed_batch_end", "GatherND", values((2, 3, 4)), places - 1, batch_dims=1)
    rows = values((4, 5, 3))
    picked = np.array([[1, 3], [0, -1]])
    yield case("scatter_elements", "ScatterElements", values((2, 5)), (picked,), values((2, 2), 1), axis=1)
    yield case("scatter_nd_rows", "ScatterND", rows, (np.array([[2], [0]]),), values((2, 5, 3), 1))
    box = np.stack(np.meshgrid([1], np.arange(5), [0, 1], indexing="ij"), axis=-1)
    yield case("scatter_nd_slice", "ScatterND", rows, (box,), values((1, 5, 2), 1))
    yield case("scatter_nd_elements", "ScatterND", rows, (np.array([[[1, 2, 0], [-1, 4, 2]]]),), values((1, 2), 1))
    yield case("gather_elements", "GatherElements", values((3, 4)), whole((3, 4), 4), axis=1)
    ends = np.array([[2, -1], [-3, 0], [1, -2]])
    yield case("gather_nd_from_the_end", "GatherND", values((3, 4, 5)), ends)
    yield case("gather_elements_from_the_end", "GatherElements", values((3, 4)), ends, axis=1)
    back = [helper.make_node("Sub", ["i", "n"], ["k"]), helper.make_node("Gather", ["x", "k"], ["y0"], axis=1)]
    given = {"x": values((3, 5, 4)), "i": whole((2, 3), 5)}
    yield Case("gather_from_the_end", build(back, given, {"n": np.array(3)}), given)
    yield case("one_hot", "OneHot", whole((2, 3), 5), ints(5), (np.array([0.0, 2.0], np.float32),))
    beyond = np.array([[0, 4, 5], [9, -5, -6]])
    yield case("one_hot_beyond", "OneHot", beyond, ints(5), (np.array([-1.0, 2.0], np.float32),))
    yield case("one_hot_axis", "OneHot", whole((2, 3), 5), ints(5), (np.array([0.0, 1.0], np.float32),), axis=1)


def labels() -> Iterator[Case]:
    """An image operator behind what has NHWC axes by its label in the runtime only if all labels before it are known."""
    turned, again = [helper.make_node("Transpose", [name], [f"{name}t"], perm=[0, 2, 1]) for name in "ab"]
    fed = {"a": values((1, 4, 8)), "b": values((1, 4, 8), 1), "d": values((1, 8, 4), 2), "f": values((4,), 4)}
    either = helper.make_node("Less", ["d", "zero"], ["c"])
    product = helper.make_node("MatMul", ["a", "bt"], ["n"])
    back = [
        helper.make_node("Reshape", ["at", "long"], ["r"]),
        helper.make_node("Transpose", ["r"], ["m"], perm=[0, 2, 1]),
    ]
    for name, nodes in {
        "a_product_by_a_turned_one": [again, helper.make_node("MatMul", ["a", "bt"], ["m"])],
        "a_product_of_a_turned_one": [turned, helper.make_node("MatMul", ["at", "b"], ["m"])],
        "a_constant_times_a_turned_one": [turned, helper.make_node("MatMul", ["w", "at"], ["m"])],
        "a_turned_one_times_a_constant": [turned, helper.make_node("MatMul", ["at", "v"], ["m"])],
        "a_choice_of_a_turned_one": [turned, either, helper.make_node("Where", ["c", "at", "d"], ["m"])],
        "a_choice_against_a_turned_one": [turned, either, helper.make_node("Where", ["c", "d", "at"], ["m"])],
        "turned_twice": [turned, *back],
        "moved": [helper.make_node("Transpose", ["a"], ["m"], perm=[2, 0, 1])],
        "a_constant_and_a_product": [again, product, helper.make_node("Sub", ["v", "n"], ["m"])],
        "a_row_and_a_product": [again, product, helper.make_node("Add", ["f", "n"], ["m"])],
        "a_product_and_more_axes": [again, product, helper.make_node("Div", ["n", "u"], ["m"])],
    }.items():
        picture = [
            helper.make_node("Reshape", ["m", "square"], ["s"]),
            helper.make_node("Transpose", ["s"], ["p"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["p", "filters"], ["y0"], name="conv"),
        ]
        constants = {
            "w": values((1, 8, 8), 2),
            "v": values((1, 4, 4), 2),
            "u": values((1, 2, 4, 4), 2, 1.0, 2.0),
            "zero": np.zeros(1, np.float32),
            "long": np.array([1, 2, 16]),
            "square": np.array([1, 4, -1, 2]),
            "filters": values((3, 2, 2, 2), 3),
        }
        used = {key for node in (*nodes, *picture) for key in node.input}
        given = [{key: array for key, array in arrays.items() if key in used} for arrays in (fed, constants)]
        yield Case(f"conv_of_{name}", build([*nodes, *picture], *given), given[0])


def scatters() -> Iterator[Case]:
    """To computed places, some of which count from the end, and what adds."""
    nothing, twice = const((4, 3)), np.array([2, 0, -2])
    for reduction in ("none", "add"):
        said = {"reduction": reduction}
        rows = (twice if reduction == "add" else np.array([2, 0, -1])).reshape(3, 1)
        yield case(f"scatter_nd_{reduction}", "ScatterND", nothing, rows, values((3, 3), 1), **said)
        places = np.array([[1, -1], [0, 0], [-1, 1]])
        yield case(f"scatter_nd_deep_{reduction}", "ScatterND", values((4, 3, 2)), places, values((3, 2), 1), **said)
        picked = np.array([[1, 3], [0, -1]])
        x, updates = values((2, 5)), values((2, 2), 1)
        yield case(f"scatter_elements_{reduction}", "ScatterElements", x, picked, updates, axis=1, **said)
        corners = np.array([[-1, 0], [0, 5]])
        yield case(f"scatter_whole_{reduction}", "ScatterND", whole((2, 6), 9), corners, whole((2,), 9), **said)
    constant = (np.array([[1, 1], [-1, 0]]),)
    yield case(
        "scatter_elements_twice",
        "ScatterElements",
        values((2, 5)),
        constant,
        values((2, 2), 1),
        axis=1,
        reduction="add",
    )
    nodes = [
        helper.make_node("Unsqueeze", ["to", "last"], ["column"]),
        helper.make_node("Expand", ["column", "size"], ["everywhere"]),
        helper.make_node("ScatterElements", ["nothing", "everywhere", "x"], ["first"], axis=0, reduction="add"),
        helper.make_node("ScatterElements", ["nothing", "everywhere", "first"], ["second"], axis=0, reduction="add"),
        helper.make_node("Sub", ["second", "nothing"], ["y0"]),
    ]
    constants = {"nothing": values((3, 4)), "last": np.array([1]), "size": np.array([3, 4])}
    feed = {"x": values((3, 4), 1), "to": twice}
    yield Case("scatter_rows_to_a_constant", build(nodes, feed, constants, opset=18), feed)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["y", "places"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["places", "flat"], ["rows"]),
        helper.make_node("Mod", ["rows", "plane"], ["within"]),
        helper.make_node("ScatterElements", ["nothing", "within", "t"], ["y0"], axis=1),
    ]
    constants = {"flat": np.array([6, 6]), "plane": np.array(24), "nothing": np.zeros((6, 24), np.float32)}
    feed = {"x": values((2, 3, 4, 6)), "t": values((6, 6), 1)}
    yield Case("places_of_maxima", build(nodes, feed, constants, opset=18), feed)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    unpooled = [*nodes[:2], helper.make_node("MaxUnpool", ["t", "places"], ["y0"], **window)]
    feed = {"x": values((2, 3, 4, 6)), "t": values((2, 3, 2, 3), 1)}
    yield Case("max_unpool", build(unpooled, feed, {}, opset=18), feed)
