"""Cases: functions of one tensor, arithmetic, comparison, movement, indexing, reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.runtimes.nb_cases import ALL, NEW, Cases, floats, ints, scalar
from tests.support import normal

SHAPE = (2, 3, 4, 5)


def functions(c: Cases) -> None:
    positive = np.abs(c.data(SHAPE)) + 0.1
    names = "Relu Sigmoid Tanh Exp Abs Floor Ceil Sin Cos Softsign Neg Sign HardSwish"
    for op in names.split():
        c.add(op, op, c.data(SHAPE) * 3)
    for op in ("Log", "Sqrt", "Reciprocal"):
        c.add(op, op, positive)
    c.add("Softplus", "Softplus", SHAPE, releases=NEW)
    c.add("Mish", "Mish", SHAPE)
    c.add("Gelu", "Gelu", SHAPE)
    c.add("Gelu tanh", "Gelu", SHAPE, approximate="tanh")
    c.add("LeakyRelu", "LeakyRelu", SHAPE, alpha=0.2)
    c.add("Elu", "Elu", SHAPE, alpha=0.7)
    c.add("ThresholdedRelu", "ThresholdedRelu", SHAPE, alpha=0.5)
    c.add("HardSigmoid", "HardSigmoid", c.data(SHAPE) * 3)
    c.add("HardSigmoid alpha", "HardSigmoid", c.data(SHAPE) * 3, alpha=0.1667, beta=0.4)
    c.add("Clip", "Clip", SHAPE, consts={1: scalar(-0.3), 2: scalar(0.6)})
    c.add("Clip 0 to 6", "Clip", c.data(SHAPE) * 5, consts={1: scalar(0), 2: scalar(6)})
    c.add("Clip 0 to 1", "Clip", SHAPE, consts={1: scalar(0), 2: scalar(1)})
    c.add("Clip 0 to 20", "Clip", c.data(SHAPE) * 20, consts={1: scalar(0), 2: scalar(20)})
    c.add("Clip below", "Clip", SHAPE, consts={1: scalar(0.25)})
    c.add("PRelu one slope", "PRelu", SHAPE, consts={1: (1,)})
    c.add("PRelu of a vector", "PRelu", (5,), consts={1: (1,)})
    c.add("PRelu channel", "PRelu", SHAPE, consts={1: (3, 1, 1)})
    c.add("PRelu element", "PRelu", SHAPE, consts={1: (3, 4, 5)})
    for axis in (-1, 1, 2):
        c.add(f"Softmax axis {axis}", "Softmax", SHAPE, axis=axis)
    c.add("Softmax old", "Softmax", SHAPE, axis=1, opset=11)
    c.add("LogSoftmax", "LogSoftmax", SHAPE, axis=-1)
    wide = 40 * c.data(SHAPE)
    for axis in (1, -1):
        c.add(f"Softmax of large numbers, axis {axis}", "Softmax", wide, axis=axis)
        c.add(f"LogSoftmax of large numbers, axis {axis}", "LogSoftmax", wide, axis=axis)
    c.add("Identity", "Identity", SHAPE)
    c.add("Dropout", "Dropout", SHAPE)


def arithmetic(c: Cases) -> None:
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        other = np.abs(c.data(SHAPE)) + 0.5
        c.add(f"{op} equal shapes", op, SHAPE, other)
        c.add(f"{op} channel", op, SHAPE, consts={1: np.abs(c.data((1, 3, 1, 1))) + 0.5})
        c.add(f"{op} scalar", op, SHAPE, consts={1: scalar(0.7)})
        c.add(f"{op} last axis", op, SHAPE, consts={1: np.abs(c.data((5,))) + 0.5})
    c.add("Add both broadcast", "Add", (2, 1, 4, 1), (1, 3, 1, 5))
    c.add("Mul lower rank first", "Mul", (4, 5), SHAPE)
    c.add("Sub constant first", "Sub", (2, 3), consts={0: (2, 3)})
    c.add("Add int64", "Add", ints(1, 2, 3), consts={1: ints(4)}, releases=NEW)
    c.add("Mul int64", "Mul", ints(1, 2, 3), ints(4, 5, 6), releases=NEW)
    c.add("Max three", "Max", SHAPE, SHAPE, SHAPE)
    c.add("Sum three", "Sum", SHAPE, SHAPE, SHAPE)
    c.add("Mean three", "Mean", SHAPE, SHAPE, SHAPE)
    positive = np.abs(c.data(SHAPE)) + 0.2
    for name, power in (("2", 2.0), ("0.5", 0.5), ("3", 3.0), ("minus 1.5", -1.5)):
        c.add(f"Pow {name}", "Pow", positive, consts={1: scalar(power)})
    c.add("Pow of rows", "Pow", np.abs(c.data((4, 4, 1))) + 0.1, (4, 4, 4))
    c.add("Pow of a number", "Pow", floats(1.7).reshape(1, 1), consts={1: (4, 4)})
    c.add("Pow negative base", "Pow", SHAPE, consts={1: scalar(3.0)})
    for op in ("Add", "Sub", "Mul"):
        nodes = [
            onnx.helper.make_node(op, ["a", "b"], ["h"], name="sum"),
            onnx.helper.make_node("Relu", ["h"], ["y"], name="act"),
        ]
        c.graph(f"{op} with Relu", nodes, {"a": c.data(SHAPE), "b": c.data(SHAPE)}, [], ["y"])


def comparison(c: Cases) -> None:
    """Truth values cannot be fetched in every release: they are cast to float."""
    for op in ("IsNaN", "IsInf"):
        nodes = [onnx.helper.make_node(op, ["x"], ["h"]), onnx.helper.make_node("Cast", ["h"], ["y"], to=1)]
        c.graph(op, nodes, {"x": np.array([[1, np.nan, -np.inf], [3.4e38, 0, np.inf]], np.float32)}, [], ["y"])
    left, right = np.round(c.data(SHAPE)), np.round(c.data(SHAPE))
    for name, where in (("floats", left[0]), ("integers", ints(0, 3, 0, -1, 7)), ("one cube", left)):
        nodes = [onnx.helper.make_node("NonZero", ["x"], ["h"]), onnx.helper.make_node("Cast", ["h"], ["y"], to=1)]
        c.graph(f"NonZero of {name}", nodes, {"x": where}, [], ["y"], releases=NEW)
    nodes = [
        onnx.helper.make_node("Greater", ["a", "b"], ["h"]),
        onnx.helper.make_node("NonZero", ["h"], ["y"]),
    ]
    c.graph("NonZero of a comparison", nodes, {"a": left, "b": right}, [], ["y"], releases=NEW)
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        nodes = [
            onnx.helper.make_node(op, ["a", "b"], ["h"], name="compare"),
            onnx.helper.make_node("Cast", ["h"], ["y"], name="cast", to=1),
        ]
        for name, first in (("a number", np.ones(1, np.float32)), ("a row", right[0, 0])):
            c.graph(f"{op} of {name} with a tensor", nodes, {"a": first, "b": left}, [], ["y"])
        nodes = [
            onnx.helper.make_node(op, ["a", "b"], ["h"], name="compare"),
            onnx.helper.make_node("Cast", ["h"], ["y"], name="cast", to=1),
        ]
        c.graph(op, nodes, {"a": left, "b": right}, [], ["y"])
    nodes = [
        onnx.helper.make_node("Equal", ["a", "b"], ["h"], name="compare"),
        onnx.helper.make_node("Not", ["h"], ["n"], name="not"),
        onnx.helper.make_node("Cast", ["n"], ["y"], name="cast", to=1),
    ]
    c.graph("Equal and Not", nodes, {"a": left, "b": right}, [], ["y"])
    for op in ("And", "Or", "Xor"):
        for name, shape in (("equal shapes", SHAPE), ("broadcast", (1, 3, 1, 5))):
            zero = c.constant("zero", scalar(0))
            nodes = [
                onnx.helper.make_node("Greater", ["a", "zero"], ["p"], name="p"),
                onnx.helper.make_node("Greater", ["b", "zero"], ["q"], name="q"),
                onnx.helper.make_node(op, ["p", "q"], ["h"], name="logic"),
                onnx.helper.make_node("Cast", ["h"], ["y"], name="cast", to=1),
            ]
            c.graph(f"{op} {name}", nodes, {"a": c.data(SHAPE), "b": c.data(shape)}, [zero], ["y"])
    for name, shape in (("equal shapes", SHAPE), ("broadcast", (5,)), ("broadcast both", (2, 1, 1, 1))):
        nodes = [
            onnx.helper.make_node("Greater", ["a", "zero"], ["p"], name="p"),
            onnx.helper.make_node("Not", ["p"], ["n"], name="not"),
            onnx.helper.make_node("Where", ["n", "b", "k"], ["y"], name="where"),
        ]
        feed = {"a": c.data(shape), "b": c.data(SHAPE)}
        constants = [c.constant("zero", scalar(0)), c.constant("k", scalar(-7))]
        c.graph(f"Where {name}", nodes, feed, constants, ["y"])
    c.add("Cast to int64", "Cast", c.data(SHAPE) * 4, to=7, releases=NEW)
    c.add("Cast to int32", "Cast", c.data(SHAPE) * 4, to=6)
    c.add("Cast from int64", "Cast", ints(1, -2, 3), to=1, releases=NEW)


def movement(c: Cases) -> None:
    nodes = [onnx.helper.make_node("Range", ["a", "b", "d"], ["r"]), onnx.helper.make_node("Add", ["x", "r"], ["y"])]
    bounds = [c.constant(*bound) for bound in (("a", scalar(2)), ("b", scalar(-1)), ("d", scalar(-0.5)))]
    c.graph("Range", nodes, {"x": c.rng.random((3, 6), np.float32)}, bounds, ["y"])
    for axis in (0, 1, -1):
        c.add(f"Concat axis {axis}", "Concat", SHAPE, SHAPE, axis=axis)
    c.add("Concat constant", "Concat", (2, 3), consts={1: (2, 4)}, axis=1)
    c.add("Concat int64", "Concat", ints(1, 2), ints(3), axis=0, releases=NEW)
    c.add("Split sections", "Split", (2, 6, 4), consts={1: ints(1, 2, 3)}, axis=1, outputs=3)
    c.add("Split equal", "Split", (2, 6, 4), axis=1, num_outputs=3, outputs=3)

    def slices(name: str, starts: Any, ends: Any, axes: Any, steps: Any = None, op: Any = SHAPE, **more: Any) -> None:
        consts = {1: ints(*starts), 2: ints(*ends), 3: ints(*axes)}
        if steps:
            consts[4] = ints(*steps)
        c.add(f"Slice {name}", "Slice", op, consts=consts, **more)

    slices("one axis", [1], [3], [2])
    slices("to the end", [1, 2], [2**63 - 1, 2**63 - 1], [1, 3])
    slices("negative", [-3], [-1], [-1])
    slices("step 2", [0], [5], [3], [2])
    slices("reversed", [-1], [-(2**63)], [3], [-1])
    slices("reversed, by its size", [-1], [-6], [3], [-1])
    slices("back, a part", [-2], [0], [3], [-1])
    slices("back, every other, and forth", [3, 0], [-9, 3], [2, 1], [-2, 2])
    slices("int64", [1], [3], [0], op=ints(4, 5, 6, 7), releases=NEW)
    c.add("Reshape", "Reshape", SHAPE, consts={1: ints(0, -1)})
    c.add("Reshape fixed", "Reshape", SHAPE, consts={1: ints(6, 20)})
    for axis in (0, 1, 2, 3):
        c.add(f"Flatten axis {axis}", "Flatten", SHAPE, axis=axis)
    c.add("Squeeze", "Squeeze", (2, 1, 3, 1), consts={1: ints(1, 3)})
    c.add("Squeeze all", "Squeeze", (2, 1, 3, 1))
    c.add("Unsqueeze", "Unsqueeze", (2, 3), consts={1: ints(0, 3)})
    for perm in ([0, 2, 3, 1], [0, 3, 1, 2], [1, 0, 3, 2], [3, 2, 1, 0]):
        c.add(f"Transpose {perm}", "Transpose", SHAPE, perm=perm)
        c.add(f"Transpose {perm} of equal sides", "Transpose", (4, 4, 4, 4), perm=perm)
    c.add("Transpose 3-D", "Transpose", (2, 3, 4), perm=[0, 2, 1])
    pads = ints(0, 0, 1, 2, 0, 0, 3, 4)
    c.add("Pad constant", "Pad", SHAPE, consts={1: pads, 2: scalar(1.5)})
    c.add("Pad reflect", "Pad", (1, 2, 6, 7), consts={1: pads}, mode="reflect")
    c.add("Pad edge", "Pad", SHAPE, consts={1: pads}, mode="edge")
    c.add("Pad edge wide", "Pad", (1, 2, 4, 5), consts={1: ints(0, 0, 1, 1, 0, 0, 4, 1)}, mode="edge")
    c.add("Pad round a picture", "Pad", (1, 2, 6, 7), consts={1: pads}, opset=19, mode="wrap")
    c.add("Pad channels", "Pad", SHAPE, consts={1: ints(0, 1, 0, 0, 0, 2, 0, 0)})
    c.add("Pad cuts", "Pad", SHAPE, consts={1: ints(0, -1, 0, 0, 0, 0, -2, -1), 2: scalar(1.5)})
    c.add("Pad cuts and pads", "Pad", SHAPE, consts={1: ints(0, 0, -1, 2, 0, 1, 1, -1), 2: scalar(1.5)})
    c.add("Pad cuts and repeats", "Pad", (1, 2, 6, 7), consts={1: ints(0, 0, -1, 2, 0, 0, 1, -1)}, mode="reflect")
    c.add("Pad 3-D tensor", "Pad", (2, 3, 4), consts={1: ints(0, 1, 2, 0, 0, 1), 2: scalar(-2)})
    deep = ints(0, 0, 1, 1, 2, 0, 0, 0, 2, 1)
    c.add("Pad depth", "Pad", (1, 2, 3, 4, 5), consts={1: deep})
    c.add("Pad depth with a number", "Pad", (1, 2, 3, 4, 5), consts={1: deep, 2: scalar(-7)})
    for mode in ("edge", "wrap"):
        c.add(f"Pad {mode} of nothing", "Pad", (2, 3, 4), consts={1: ints(*6 * [0])}, opset=19, mode=mode)
    c.add("Expand", "Expand", (2, 1, 4), consts={1: ints(2, 3, 4)})
    c.add("Expand more dimensions", "Expand", (3, 1), consts={1: ints(2, 3, 4)})
    c.add("Tile", "Tile", (2, 3), consts={1: ints(2, 3)})
    c.add("DepthToSpace CRD", "DepthToSpace", (1, 8, 3, 4), blocksize=2, mode="CRD")
    c.add("DepthToSpace DCR", "DepthToSpace", (1, 8, 3, 4), blocksize=2)
    c.add("SpaceToDepth", "SpaceToDepth", (1, 2, 6, 4), blocksize=2)
    c.add("Trilu upper", "Trilu", (4, 5))
    c.add("Trilu lower", "Trilu", (4, 5), consts={1: scalar(1, np.int64)}, upper=0)
    grid = c.rng.uniform(-1, 1, (1, 5, 6, 2)).astype(np.float32)
    c.add("GridSample", "GridSample", (1, 3, 5, 6), grid, align_corners=1)
    c.add("GridSample corners outside", "GridSample", (1, 3, 5, 6), grid * 1.2, align_corners=0)
    c.add("GridSample border", "GridSample", (1, 3, 5, 6), grid * 1.2, padding_mode="border", align_corners=1)
    for padding, corners in (("zeros", 0), ("border", 1)):
        places = c.rng.uniform(-1.3, 1.3, (2, 4, 3, 2)).astype(np.float32)
        name, attributes = f"GridSample of another size, {padding}", {"padding_mode": padding, "align_corners": corners}
        c.add(name, "GridSample", (2, 3, 5, 6), places, **attributes)
    for mode, padding in (("nearest", "zeros"), ("linear", "reflection")):
        places = c.rng.uniform(-1.9, 1.9, (2, 4, 3, 2)).astype(np.float32)
        name, attributes = f"GridSample of another size, {mode}, {padding}", {"padding_mode": padding, "mode": mode}
        c.add(name, "GridSample", (2, 3, 5, 6), places, **attributes)
    for batch, *sizes in ((1, 4, 6), (2, 3, 4, 5)):
        theta, size = (batch, len(sizes), len(sizes) + 1), ints(batch, 3, *sizes)
        c.add(f"AffineGrid of {len(sizes)} dimensions", "AffineGrid", theta, consts={1: size})


def indexing(c: Cases) -> None:
    table, rows = (10, 6), ints(1, 5, 9, 0)
    for kind in (np.int32, np.int64):
        dividends, divisors = (np.array(n, kind) for n in ((-4, 7, 5, 4, -7, 8), (2, -3, 8, -2, 3, 5)))
        releases = ALL if kind is np.int32 else NEW
        name = f"Mod of {np.dtype(kind)} of both signs"
        c.add(name, "Mod", dividends, consts={1: divisors}, releases=releases)
        three = np.array([3], kind)
        c.add(f"Mod of {np.dtype(kind)} with a number", "Mod", dividends.reshape(2, 3), consts={1: three}, releases=NEW)
    c.add("Gather rows", "Gather", rows, consts={0: table}, releases=NEW)
    c.add("Gather rows 2-D index", "Gather", rows.reshape(2, 2), consts={0: table}, releases=NEW)
    c.add("Gather constant index", "Gather", SHAPE, consts={1: ints(1, 0)})
    c.add("Gather axis 1", "Gather", SHAPE, consts={1: ints(2, 0)}, axis=1)
    c.add("Gather axis 3 2-D index", "Gather", SHAPE, consts={1: ints(2, 0, 1, 1).reshape(2, 2)}, axis=3)
    c.add("Gather scalar", "Gather", SHAPE, consts={1: scalar(1, np.int64)}, axis=1)
    c.add("Gather one index in a matrix", "Gather", SHAPE, consts={1: ints(1).reshape(1, 1)}, axis=1)
    c.add("Gather everything", "Gather", SHAPE, consts={1: ints(0, 1, 2)}, axis=1)
    for keepdims in (0, 1):
        label = f"ReduceLogSumExp, keepdims={keepdims}"
        c.add(label, "ReduceLogSumExp", (2, 3, 4, 5), consts={1: ints(2, -1)}, keepdims=keepdims)
    c.add("ReduceLogSumExp of set 17", "ReduceLogSumExp", (2, 3, 4, 5), opset=17, axes=[2, -1])
    c.add("LogSoftmax of set 17", "LogSoftmax", 60 * c.data((2, 3, 4)), opset=17, axis=1)
    c.add("Celu", "Celu", (2, 3, 4), alpha=0.4)
    c.add("Selu", "Selu", (2, 3, 4))
    c.add("GatherND", "GatherND", (3, 4, 5), consts={1: ints(0, 1, 2, 3).reshape(2, 2)})
    c.add("GatherND in batches", "GatherND", (2, 4, 5), consts={1: ints(1, 3).reshape(2, 1)}, batch_dims=1)
    c.add("GatherND from the end", "GatherND", (3, 4, 5), consts={1: ints(0, -1, -2, 3).reshape(2, 2)})
    ends = ints(-1, 3).reshape(2, 1)
    c.add("GatherND from the end in batches", "GatherND", (2, 4, 5), consts={1: ends}, batch_dims=1)
    picks = ints(1, 3, 0, -1, 2, 2).reshape(2, 3, 1)
    c.add("GatherElements", "GatherElements", (2, 3, 4), consts={1: picks}, axis=2)
    c.add("GatherElements along the middle", "GatherElements", (3, 4, 2), np.abs(picks), axis=1, releases=NEW)
    c.add("GatherElements of a row", "GatherElements", (1, 6), ints(5, 0, 2).reshape(1, 3), axis=1, releases=NEW)
    c.add("GatherElements from the end", "GatherElements", (3, 4, 2), picks - 2, axis=1, releases=NEW)
    c.add("GatherND to computed ends", "GatherND", (3, 4, 5), ints(2, -1, -3, 0).reshape(2, 2), releases=NEW)
    three = onnx.numpy_helper.from_array(scalar(3, np.int64), "three")
    back = [
        onnx.helper.make_node("Sub", ["i", "three"], ["k"]),
        onnx.helper.make_node("Gather", ["x", "k"], ["y"], axis=1),
    ]
    given = {"x": c.data((3, 5, 4)), "i": ints(0, 4, 2)}
    c.graph("Gather from the end", back, given, [three], ["y"], releases=NEW)
    c.add("ScatterElements", "ScatterElements", (2, 5), (2, 2), consts={1: ints(1, 3, 0, -1).reshape(2, 2)}, axis=1)
    c.add("Gather of negative indices", "Gather", (2, 5, 3), consts={1: ints(-1, 2)}, axis=1)
    c.add("Gather of the last", "Gather", (2, 5, 3), consts={1: np.array(-1)}, axis=1)
    for mode in ("reflect", "edge"):
        c.add(f"Pad {mode} of channels", "Pad", (1, 4, 6, 5), consts={1: ints(0, 1, 0, 2, 0, 2, 1, 0)}, mode=mode)
        c.add(f"Pad {mode} of rows", "Pad", (2, 4, 6), consts={1: ints(0, 0, 1, 1, 0, 2)}, mode=mode)
    c.add("ScatterND of rows", "ScatterND", (4, 5), (2, 5), consts={1: ints(2, 0).reshape(2, 1)})
    box = np.stack(np.meshgrid([1], np.arange(4), [0, 1], indexing="ij"), axis=-1)
    c.add("ScatterND of a slice", "ScatterND", (3, 4, 5), (1, 4, 2), consts={1: box})
    c.add("ScatterND of elements", "ScatterND", (4, 5), (2,), consts={1: ints(2, 0, -1, 3).reshape(2, 2)})
    _scatters(c)
    _places_of_maxima(c)
    _truths(c)
    _whole_numbers(c)
    c.add("Softmax of seven dimensions", "Softmax", (2, 3, 2, 2, 3, 2, 2), axis=3)
    for name, shape, order in (
        ("windows of a volume", (1, 2, 2, 3, 2, 2, 3), [0, 3, 6, 1, 4, 2, 5]),
        ("patches of a video", (1, 3, 2, 2, 2, 3, 2, 4), [0, 2, 4, 6, 3, 5, 7, 1]),
        ("eight axes turned round", (2, 3, 2, 2, 2, 3, 2, 2), [7, 6, 5, 4, 3, 2, 1, 0]),
    ):
        c.add(f"Transpose, {name}", "Transpose", shape, perm=order)
    c.add("OneHot", "OneHot", ints(1, 0, 3), consts={1: scalar(4, np.int64), 2: floats(0, 1)}, releases=NEW)
    nodes = [onnx.helper.make_node("TopK", ["x", "k"], ["y", "i"], name="top")]
    c.graph("TopK", nodes, {"x": c.data((3, 8))}, [c.constant("k", ints(3))], ["y"])
    for axis, largest in ((1, 0), (0, 1), (0, 0)):
        nodes = [onnx.helper.make_node("TopK", ["x", "k"], ["y", "i"], name="top", axis=axis, largest=largest)]
        name = f"TopK axis {axis}, largest={largest}"
        c.graph(name, nodes, {"x": c.data((4, 8))}, [c.constant("k", ints(3))], ["y"])
    nodes = [
        onnx.helper.make_node("TopK", ["x", "k"], ["y", "i"], name="top", axis=0),
        onnx.helper.make_node("Cast", ["i"], ["z"], name="cast", to=1),
    ]
    c.graph("TopK places", nodes, {"x": c.data((4, 8))}, [c.constant("k", ints(3))], ["y", "z"], releases=NEW)
    for axis in (0, 1, -1):
        nodes = [
            onnx.helper.make_node("ArgMax", ["x"], ["h"], name="arg", axis=axis),
            onnx.helper.make_node("Cast", ["h"], ["y"], name="cast", to=1),
        ]
        c.graph(f"ArgMax axis {axis}", nodes, {"x": c.data(SHAPE)}, [], ["y"])
    nodes = [
        onnx.helper.make_node("ArgMin", ["x"], ["h"], name="arg", axis=1, keepdims=0),
        onnx.helper.make_node("Cast", ["h"], ["y"], name="cast", to=1),
    ]
    c.graph("ArgMin", nodes, {"x": c.data(SHAPE)}, [], ["y"])
    for name, more in (("", {}), (" exclusive", {"exclusive": 1}), (" reverse", {"reverse": 1})):
        c.add(f"CumSum{name}", "CumSum", (2, 3, 4), consts={1: scalar(1, np.int64)}, **more)


def reduction(c: Cases) -> None:
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
        c.add(f"{op} one axis", op, SHAPE, consts={1: ints(2)})
        c.add(f"{op} dropped", op, SHAPE, consts={1: ints(-1)}, keepdims=0)
        c.add(f"{op} two axes", op, SHAPE, consts={1: ints(2, 3)}, keepdims=0)
        c.add(f"{op} everything", op, SHAPE)
        c.add(f"{op} everything dropped", op, SHAPE, keepdims=0)
        for axes in ((0,), (1,), (0, 1), (1, 2), (0, 2), (1, 3), (0, 3), (0, 1, 2), (0, 2, 3), (0, 1, 3)):
            c.add(f"{op} {axes} of 4", op, SHAPE, consts={1: ints(*axes)}, keepdims=sum(axes) % 2)
        for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
            c.add(f"{op} {axes} of 3", op, SHAPE[:3], consts={1: ints(*axes)}, keepdims=len(axes) % 2)
        for axes in ((0,), (1,), (0, 1)):
            c.add(f"{op} {axes} of 2", op, SHAPE[:2], consts={1: ints(*axes)}, keepdims=0)
        c.add(f"{op} of 1", op, (7,), keepdims=1)
        for axes in ((0,), (2,), (4,), (2, 3), (0, 4)):
            c.add(f"{op} {axes} of 5", op, (2, 3, 4, 2, 3), consts={1: ints(*axes)})
        if op != "ReduceMean":
            numbers = np.arange(1, 25).reshape(2, 3, 4)
            c.add(f"{op} int64", op, numbers, consts={1: ints(1)}, releases=NEW)
            c.add(f"{op} int64 (0, 2) of 3", op, numbers, consts={1: ints(0, 2)}, releases=NEW)
    c.add("ReduceL2", "ReduceL2", SHAPE, consts={1: ints(1)})
    c.add("ReduceL2 of all", "ReduceL2", SHAPE)
    c.add("ReduceL2 to a number", "ReduceL2", SHAPE, keepdims=0)
    for axes in ((2, 3), (1, 3), (-1, 0, 1)):  # several axes: the norm of norms
        for keep in (0, 1):
            c.add(f"ReduceL2 {axes} {keep}", "ReduceL2", SHAPE, consts={1: ints(*axes)}, keepdims=keep)
    c.add("ReduceL1", "ReduceL1", SHAPE, consts={1: ints(1, 2)})
    c.add("ReduceSumSquare", "ReduceSumSquare", SHAPE, consts={1: ints(3)}, keepdims=0)


def shapes(c: Cases) -> None:
    """A shape that is computed at run time."""
    nodes = [
        onnx.helper.make_node("Shape", ["x"], ["s"], name="shape"),
        onnx.helper.make_node("Cast", ["s"], ["y"], name="cast", to=1),
    ]
    c.graph("Shape", nodes, {"x": c.data(SHAPE)}, [], ["y"])
    nodes = [
        onnx.helper.make_node("Shape", ["x"], ["s"], name="shape"),
        onnx.helper.make_node("Slice", ["s", "zero", "one", "zero"], ["n"], name="slice"),
        onnx.helper.make_node("Concat", ["n", "rest"], ["t"], name="concat", axis=0),
        onnx.helper.make_node("Reshape", ["x", "t"], ["y"], name="reshape"),
    ]
    constants = [c.constant(n, v) for n, v in (("zero", ints(0)), ("one", ints(1)), ("rest", ints(-1)))]
    c.graph("Reshape by Shape", nodes, {"x": c.data(SHAPE)}, constants, ["y"])


def tensors() -> Cases:
    """All cases of this module."""
    c = Cases()
    for family in (functions, arithmetic, comparison, movement, indexing, reduction, shapes):
        family(c)
    return c


def repetitions() -> Cases:
    """Constants and elements that the runtime repeats, with random data of their own."""
    c = Cases()
    for mode in ("reflect", "edge"):
        c.add(f"Pad {mode} of long rows", "Pad", (1, 1, 3000), consts={1: ints(0, 0, 128, 0, 0, 127)}, mode=mode)
        c.add(f"Pad {mode} of batches", "Pad", (3, 4, 5), consts={1: ints(2, 0, 0, 1, 0, 0)}, mode=mode)
    c.add("Pad round rows", "Pad", (2, 40, 6), consts={1: ints(1, 3, 0, 0, 5, 2)}, opset=19, mode="wrap")
    wide, least = ints(0, 3, 0, 0, 0, 2, 0, 0), float(np.finfo(np.float32).min)
    c.add("Pad of many channels", "Pad", (1, 8, 24, 20), consts={1: wide, 2: scalar(1.5)})
    c.add("Pad of many channels with zeros", "Pad", (1, 8, 24, 20), consts={1: wide})
    c.add("Pad of many channels with the least", "Pad", (1, 8, 24, 20), consts={1: wide, 2: scalar(least)})
    large = (1, 6, 20, 30)
    for name, k in (
        ("a number", normal(1, seed=3).reshape(())),
        ("a row", normal(30, seed=3)),
        ("channels", normal(6, 1, 1, seed=3)),
        ("one number everywhere", np.full(large, -7, np.float32)),
    ):
        nodes = [
            onnx.helper.make_node("Greater", ["a", "zero"], ["p"], name="p"),
            onnx.helper.make_node("Where", ["p", "a", "k"], ["y"], name="where"),
        ]
        constants = [c.constant("zero", scalar(0)), c.constant("k", k)]
        c.graph(f"Where of {name}", nodes, {"a": c.data(large)}, constants, ["y"])
    c.add("Where a constant says so", "Where", large, consts={0: normal(6, 20, 1) > 0, 2: scalar(-7)})
    c.add("MatMul large constant batch", "MatMul", (8, 3, 4, 8), consts={1: (3, 8, 15)})
    c.add("MatMul large constant first", "MatMul", (8, 3, 15, 8), consts={0: (3, 16, 15)})
    c.add("Round", "Round", np.arange(-30, 30, dtype=np.float32).reshape(3, 4, 5) / 4)
    return c


def _scatters(c: Cases) -> None:
    """To computed places, some of which count from the end, and what adds."""
    twice, deep, picked = ints(2, 0, -2), ints(1, -1, 0, 0, -1, 1).reshape(3, 2), ints(1, 3, 0, -1).reshape(2, 2)
    for reduction in ("none", "add"):
        said: dict[str, Any] = {"reduction": reduction, "releases": NEW}
        rows = (twice if reduction == "add" else ints(2, 0, -1)).reshape(3, 1)
        c.add(f"ScatterND, {reduction}", "ScatterND", rows, (3, 3), consts={0: (4, 3)}, **said)
        c.add(f"ScatterND of two axes, {reduction}", "ScatterND", (4, 3, 2), deep, (3, 2), **said)
        c.add(f"ScatterElements, {reduction}", "ScatterElements", (2, 5), picked, (2, 2), axis=1, **said)
        c.add(f"ScatterND of a row, {reduction}", "ScatterND", (5,), rows, (3,), **said)
        whole = [c.rng.integers(0, 9, shape) for shape in ((2, 6), (2,))]
        places = ints(-1, 5, 0, 0).reshape(2, 2)
        c.add(f"ScatterND of int64, {reduction}", "ScatterND", whole[0], places, whole[1], **said)
    again = ints(1, 1, -1, 0).reshape(2, 2)
    adds: dict[str, Any] = {"axis": 1, "reduction": "add", "releases": NEW}
    c.add("ScatterElements, twice to one place", "ScatterElements", (2, 5), (2, 2), consts={1: again}, **adds)
    nodes = [
        onnx.helper.make_node("Unsqueeze", ["to", "last"], ["column"]),
        onnx.helper.make_node("Expand", ["column", "size"], ["everywhere"]),
        onnx.helper.make_node("ScatterElements", ["nothing", "everywhere", "x"], ["first"], axis=0, reduction="add"),
        onnx.helper.make_node(
            "ScatterElements", ["nothing", "everywhere", "first"], ["second"], axis=0, reduction="add"
        ),
    ]
    constants = {"nothing": c.data((3, 4)), "last": ints(1), "size": ints(3, 4)}
    stored = [c.constant(name, array) for name, array in constants.items()]
    c.graph("ScatterElements to a constant", nodes, {"x": c.data((3, 4)), "to": twice}, stored, ["second"], NEW)


def _places_of_maxima(c: Cases) -> None:
    """Behind a Relu, so that windows hold equal elements; then in other planes, as decoders do."""
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["r"]),
        onnx.helper.make_node("MaxPool", ["r"], ["y", "places"], kernel_shape=[2, 2], strides=[2, 2]),
        onnx.helper.make_node("Reshape", ["places", "flat"], ["rows"]),
        onnx.helper.make_node("Mod", ["rows", "plane"], ["within"]),
        onnx.helper.make_node("ScatterElements", ["nothing", "within", "t"], ["filled"], axis=1),
    ]
    constants = {"flat": ints(6, 6), "plane": ints(4 * 6), "nothing": np.zeros((6, 24), np.float32)}
    stored = [c.constant(name, array) for name, array in constants.items()]
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    unpooled = [*nodes[:2], onnx.helper.make_node("MaxUnpool", ["t", "places"], ["filled"], **window)]
    c.graph("MaxUnpool", unpooled, {"x": c.data((2, 3, 4, 6)), "t": c.data((2, 3, 2, 3))}, [], ["y", "filled"])
    c.graph("MaxPool with places", nodes, {"x": c.data((2, 3, 4, 6)), "t": c.data((6, 6))}, stored, ["y", "filled"])


def _truths(c: Cases) -> None:
    """Operators between a comparison and a Cast: Python cannot feed or fetch truth values."""
    constants = {
        "zero": floats(0),
        "sizes": ints(1, 3),
        "edges": ints(0, 1, 2, 0),
        "axis": ints(1),
        "rows": ints(1, -1, 0, 2, 0, 1).reshape(3, 2),
        "mask": np.array([[True, False], [False, True], [True, True]]),
        "bits": np.array([0, 1, 1, 0], np.int32),
    }
    operators: dict[str, tuple[list[str], dict[str, Any]]] = {
        "Concat": (["t", "t"], {"axis": 0}),
        "Equal": (["t", "o"], {}),
        "Pad": (["t", "edges"], {}),
        "ReduceMax": (["t", "axis"], {}),
        "ReduceMin": (["t", "axis"], {}),
        "ScatterElements": (["t", "rows", "mask"], {"axis": 1}),
        "Split": (["t", "sizes"], {"axis": 1}),
        "Trilu": (["t"], {}),
        "BitwiseAnd": (["n", "bits"], {}),
        "BitwiseXor": (["n", "bits"], {}),
        "BitwiseNot": (["n"], {}),
    }
    for operator, (names, attributes) in operators.items():
        results = ["m", "rest"] if operator == "Split" else ["m"]
        nodes = [
            onnx.helper.make_node("Greater", ["x", "zero"], ["t"]),
            onnx.helper.make_node(operator, names, results, **attributes),
            onnx.helper.make_node("Cast", ["m"], ["y"], to=onnx.TensorProto.FLOAT),
        ]
        if "o" in names:
            nodes.insert(0, onnx.helper.make_node("Less", ["x", "zero"], ["o"]))
        if "n" in names:
            nodes.insert(1, onnx.helper.make_node("Cast", ["t"], ["n"], to=onnx.TensorProto.INT32))
        used = {name for node in nodes for name in node.input}
        stored = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items() if name in used]
        c.graph(f"{operator} of truth values", nodes, {"x": c.data((3, 4))}, stored, ["y"])


def _whole_numbers(c: Cases) -> None:
    """Bounds and pads of whole numbers, for which few runtimes have kernels."""
    for kind in (np.int32, np.int64):
        x, row = c.rng.integers(-9, 9, (3, 4)).astype(kind), np.array([3, -2, 0, 5], kind)
        constants: dict[str, dict[int, Any]] = {
            "Abs": {},
            "Max": {1: row},
            "Min": {1: row},
            "Clip": {1: np.full((), -2, kind), 2: np.full((), 4, kind)},
            "Pad": {1: ints(1, 0, -1, 2), 2: np.full((), 7, kind)},
            "ReduceMax": {1: ints(1)},
        }
        for operator, consts in constants.items():
            releases = NEW if kind is np.int64 else ALL
            c.add(f"{operator} of {np.dtype(kind).name}", operator, x, consts=consts, releases=releases)
