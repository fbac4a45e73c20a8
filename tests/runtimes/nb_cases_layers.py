"""Cases: convolutions, matrix products, pooling, normalization, recurrent networks, resizing."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx

from tests.runtimes.nb_cases import ALL, NEW, Cases, floats, ints, scalar
from tests.support import is_since

IMAGE = (1, 4, 9, 10)


def convolutions(c: Cases) -> None:
    conv: dict[str, dict[str, Any]] = {
        "1x1": {"kernel": (1, 1)},
        "3x3": {"kernel": (3, 3)},
        "3x3 padded": {"kernel": (3, 3), "pads": [1, 1, 1, 1]},
        "3x3 stride 2": {"kernel": (3, 3), "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "asymmetric padding": {"kernel": (3, 3), "pads": [0, 1, 2, 0]},
        "5x5": {"kernel": (5, 5), "pads": [2, 2, 2, 2]},
        "1x3": {"kernel": (1, 3), "pads": [0, 1, 0, 1]},
        "unequal strides": {"kernel": (3, 3), "strides": [1, 2]},
        "dilated": {"kernel": (3, 3), "dilations": [2, 2], "pads": [2, 2, 2, 2]},
        "same upper": {"kernel": (3, 3), "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        "same lower": {"kernel": (3, 3), "strides": [2, 2], "auto_pad": "SAME_LOWER"},
        "valid": {"kernel": (3, 3), "auto_pad": "VALID"},
    }
    for name, given in conv.items():
        attributes = {key: value for key, value in given.items() if key != "kernel"}
        c.add(f"Conv {name}", "Conv", IMAGE, consts={1: (6, 4, *given["kernel"]), 2: (6,)}, **attributes)
    c.add("Conv without bias", "Conv", IMAGE, consts={1: (6, 4, 3, 3)})
    c.add("Conv batch 3", "Conv", (3, 4, 6, 6), consts={1: (6, 4, 3, 3), 2: (6,)}, pads=[1, 1, 1, 1])
    c.add("Conv groups 2", "Conv", IMAGE, consts={1: (6, 2, 3, 3), 2: (6,)}, group=2)
    c.add("Conv depthwise", "Conv", IMAGE, consts={1: (4, 1, 3, 3), 2: (4,)}, group=4, pads=[1, 1, 1, 1])
    c.add("Conv depthwise stride 2", "Conv", IMAGE, consts={1: (4, 1, 3, 3)}, group=4, strides=[2, 2])
    for pads, stride in product(([1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]), (1, 2)):
        ends = {"pads": pads, "strides": [stride] * 2, "group": 4}
        c.add(
            f"Conv depthwise padded at one end {pads} {stride}", "Conv", (1, 4, 6, 7), consts={1: (4, 1, 3, 3)}, **ends
        )
    c.add("Conv depthwise 5x5", "Conv", IMAGE, consts={1: (4, 1, 5, 5), 2: (4,)}, group=4, pads=[2, 2, 2, 2])
    c.add("Conv depthwise multiplier 2", "Conv", IMAGE, consts={1: (8, 1, 3, 3), 2: (8,)}, group=4)
    c.add("Conv correlation", "Conv", IMAGE, (4, 1, 4, 3), group=4)
    c.add("Conv computed filters", "Conv", IMAGE, (6, 2, 3, 2), group=2, strides=[2, 1], pads=[1, 0, 1, 1])
    c.add("Conv computed pixels", "Conv", IMAGE, (5, 4, 1, 1), consts={2: (5,)})
    c.add("Conv 1-D computed filters", "Conv", (1, 4, 20), (6, 4, 3))
    c.add("Conv 1-D", "Conv", (1, 4, 20), consts={1: (6, 4, 3), 2: (6,)}, pads=[1, 1])
    c.add("Conv 1-D stride 2", "Conv", (2, 4, 20), consts={1: (6, 2, 3)}, group=2, strides=[2])
    c.add(
        "Conv over three dimensions", "Conv", (2, 4, 6, 5, 7), consts={1: (6, 4, 3, 2, 3), 2: (6,)}, pads=[1, 0, 1] * 2
    )
    deep: dict[str, Any] = {"strides": [2, 1, 2], "dilations": [2, 1, 1], "group": 2}
    spread: dict[str, Any] = {"strides": [2, 2, 2]}
    c.add(
        "ConvTranspose over three dimensions",
        "ConvTranspose",
        (2, 4, 3, 5, 4),
        consts={1: (4, 6, 3, 2, 3), 2: (6,)},
        **spread,
    )
    spread |= {"pads": [1, 1, 0, 0, 1, 1], "group": 2}
    c.add(
        "ConvTranspose over three dimensions in groups",
        "ConvTranspose",
        (1, 4, 3, 5, 4),
        consts={1: (4, 3, 3, 2, 3)},
        **spread,
    )
    c.add("Conv over three dimensions in groups", "Conv", (1, 4, 6, 5, 7), consts={1: (6, 2, 3, 2, 3)}, **deep)
    rows, padded = {1: (6, 4, 4), 2: (4,)}, {"pads": [1, 0], "output_padding": [1]}
    c.add("ConvTranspose of rows", "ConvTranspose", (1, 6, 9), consts=rows, strides=[2], pads=[1, 1])
    c.add("ConvTranspose of rows, padded", "ConvTranspose", (1, 6, 9), consts=rows, strides=[3], **padded)
    c.add("ConvTranspose of rows in groups", "ConvTranspose", (1, 6, 9), consts={1: (6, 2, 3)}, group=2, strides=[2])
    c.add("ConvTranspose", "ConvTranspose", IMAGE, consts={1: (4, 6, 3, 3), 2: (6,)})
    up = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    c.add("ConvTranspose stride 2", "ConvTranspose", IMAGE, consts={1: (4, 6, 4, 4), 2: (6,)}, **up)
    c.add("ConvTranspose output padding", "ConvTranspose", IMAGE, consts={1: (4, 6, 3, 3)}, output_padding=[1, 1], **up)
    c.add("ConvTranspose groups", "ConvTranspose", IMAGE, consts={1: (4, 3, 3, 3), 2: (6,)}, group=2)
    c.add("ConvTranspose depthwise", "ConvTranspose", IMAGE, consts={1: (4, 1, 3, 3)}, group=4, **up)
    for name, kind, more in FUSED:
        fused(c, f"Conv with {name}", kind, (6, 4, 3, 3), **more)
        if kind in ("Relu", "Clip", "LeakyRelu"):
            fused(c, f"Conv depthwise with {name}", kind, (4, 1, 3, 3), **more)
            fused(c, f"Conv 1x1 with {name}", kind, (6, 4, 1, 1), **more)


def fused(c: Cases, name: str, kind: str, filters: tuple[int, ...], **more: Any) -> None:
    """A convolution with a function behind it."""
    clip = kind == "Clip"
    bounds = {"low": scalar(more.pop("low")), "high": scalar(more.pop("high"))} if clip else {}
    groups, pad = 4 if filters[1] == 1 else 1, int(filters[2] == 3)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w", "b"], ["h"], name="conv", pads=[pad] * 4, group=groups),
        onnx.helper.make_node(kind, ["h", *bounds], ["y"], name="act", **more),
    ]
    constants = [c.constant("w", filters), c.constant("b", filters[:1])]
    constants += [c.constant(key, bound) for key, bound in bounds.items()]
    c.graph(name, nodes, {"x": c.data(IMAGE) * 3}, constants, ["y"])


FUSED = (
    ("Relu", "Relu", {}),
    ("Clip 0 to 6", "Clip", {"low": 0, "high": 6}),
    ("Clip 0 to 1", "Clip", {"low": 0, "high": 1}),
    ("Clip 0 to 20", "Clip", {"low": 0, "high": 20}),
    ("Clip", "Clip", {"low": -0.5, "high": 0.75}),
    ("LeakyRelu", "LeakyRelu", {"alpha": 0.1}),
    ("HardSwish", "HardSwish", {}),
    ("Sigmoid", "Sigmoid", {}),
    ("Tanh", "Tanh", {}),
)


def matrices(c: Cases) -> None:
    c.add("Gemm", "Gemm", (3, 8), consts={1: (8, 5), 2: (5,)})
    c.add("Gemm transposed B", "Gemm", (3, 8), consts={1: (5, 8), 2: (5,)}, transB=1)
    c.add("Gemm alpha and beta", "Gemm", (3, 8), consts={1: (8, 5), 2: (5,)}, alpha=0.5, beta=2.0)
    c.add("Gemm scalar C", "Gemm", (3, 8), consts={1: (8, 5), 2: (1,)})
    c.add("Gemm matrix C", "Gemm", (3, 8), consts={1: (8, 5), 2: (3, 5)})
    c.add("Gemm without C", "Gemm", (1, 8), consts={1: (8, 5)})
    c.add("Gemm of activations", "Gemm", (3, 8), (5, 8), (5,), transB=1, alpha=0.5)
    c.add("MatMul 2-D constant", "MatMul", (3, 8), consts={1: (8, 5)})
    c.add("MatMul 3-D constant", "MatMul", (2, 3, 8), consts={1: (8, 5)})
    c.add("MatMul 4-D constant", "MatMul", (2, 2, 3, 8), consts={1: (8, 5)})
    c.add("MatMul 2-D", "MatMul", (3, 8), (8, 5))
    c.add("MatMul batched", "MatMul", (2, 3, 4, 8), (2, 3, 8, 5))
    c.add("MatMul 3-D", "MatMul", (2, 4, 8), (2, 8, 5))
    c.add("MatMul lower rank", "MatMul", (2, 3, 4, 8), (3, 8, 5))
    c.add("MatMul constant batch", "MatMul", (2, 3, 4, 8), consts={1: (3, 8, 5)})
    c.add("MatMul broadcast batch", "MatMul", (2, 3, 4, 8), (1, 3, 8, 5))
    for equation, *shapes in (
        ("bhqd,bkhd->bhqk", (1, 3, 4, 5), (1, 6, 3, 5)),
        ("bchw,bdhw->bcd", (2, 3, 4, 5), (2, 6, 4, 5)),
        ("bhij,bjhd,hdm->bim", (2, 3, 4, 5), (2, 5, 3, 2), (3, 2, 6)),
    ):
        c.add(f"Einsum {equation}", "Einsum", *shapes, equation=equation)
    c.add("Einsum with a constant", "Einsum", (2, 3, 8), consts={1: (8, 2, 5)}, equation="btd,dhk->bhtk")
    c.add("Gemm transposed A", "Gemm", (8, 3), consts={1: (8, 5), 2: (5,)}, transA=1)
    c.add("MatMul matrix and vector", "MatMul", (2, 3, 8), consts={1: (8,)})
    c.add("MatMul vector and matrix", "MatMul", (8,), consts={1: (8, 5)})
    c.add("MatMul vectors of activations", "MatMul", (2, 3, 8), (8,))
    for kind, rows in (
        ("Add", 3),
        ("Relu", 3),
        ("Relu", 1),
        ("Clip 0 to 1", 3),
        ("Clip 0 to 6", 3),
        ("Clip 0 to 20", 1),
    ):
        clip = kind.startswith("Clip")
        act = onnx.helper.make_node(kind.split()[0], ["s", *(["low", "high"] if clip else [])], ["y"], name="act")
        nodes = [
            onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"),
            onnx.helper.make_node("Add", ["b", "h"], ["y" if kind == "Add" else "s"], name="add"),
            *([] if kind == "Add" else [act]),
        ]
        constants = [c.constant("w", (8, 5)), c.constant("b", (5,))]
        if clip:
            constants += [c.constant("low", scalar(0)), c.constant("high", scalar(float(kind.split()[-1])))]
        name = f"MatMul with bias then {kind}" + (" in one row" if rows == 1 else "")
        c.graph(name, nodes, {"x": c.data((rows, 8) if rows == 1 else (2, rows, 8)) * 5}, constants, ["y"])
    for shape in ((1, 8), (3, 8), (2, 3, 8)):
        nodes = [
            onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"),
            onnx.helper.make_node("Relu", ["h"], ["y"], name="act"),
        ]
        name = f"MatMul of {shape} then Relu"
        c.graph(name, nodes, {"x": c.data(shape)}, [c.constant("w", (8, 5))], ["y"])


def pooling(c: Cases) -> None:
    for op in ("MaxPool", "AveragePool"):
        c.add(f"{op} 2x2", op, IMAGE, kernel_shape=[2, 2], strides=[2, 2])
        c.add(f"{op} 3x3 padded", op, IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        c.add(f"{op} ceil", op, (1, 4, 10, 10), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        c.add(f"{op} asymmetric", op, IMAGE, kernel_shape=[3, 2], strides=[1, 1], pads=[1, 0, 0, 1])
        c.add(f"{op} same", op, IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        c.add(f"{op} of rows", op, (2, 4, 11), kernel_shape=[3], strides=[2], pads=[1, 1])
        c.add(f"Global{op} of rows", f"Global{op}", (2, 4, 11))
    c.add("MaxPool dilated", "MaxPool", IMAGE, kernel_shape=[3, 2], dilations=[2, 3], strides=[2, 1], pads=[2, 0, 1, 2])
    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    c.add("AveragePool count padding", "AveragePool", IMAGE, **padded)
    c.add("GlobalAveragePool", "GlobalAveragePool", (2, 4, 5, 6))
    c.add("GlobalAveragePool of volumes", "GlobalAveragePool", (2, 4, 3, 5, 6))
    c.add("GlobalMaxPool of volumes", "GlobalMaxPool", (2, 4, 3, 5, 6))
    c.add("GlobalMaxPool", "GlobalMaxPool", (2, 4, 5, 6))
    if is_since("onnxruntime", 1, 25):  # 1.19 to 1.24 compute what follows otherwise, and not all of them alike
        pooling_beyond_the_picture(c)


def pooling_beyond_the_picture(c: Cases) -> None:
    sides = {"kernel_shape": [3, 3], "strides": [1, 2], "count_include_pad": 1}
    c.add("AveragePool count more padding at the end", "AveragePool", IMAGE, pads=[0, 1, 2, 2], **sides)
    c.add("AveragePool count more padding at the beginning", "AveragePool", IMAGE, pads=[2, 1, 0, 0], **sides)
    for op in ("MaxPool", "AveragePool"):
        more = {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}
        c.add(f"{op} ceil ending in the padding", op, (1, 4, 23, 18), pads=[1, 1, 1, 1], **more)
        c.add(f"{op} ceil ending behind the picture", op, (1, 4, 17, 17), **more)
    more = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    c.add("AveragePool ceil count padding", "AveragePool", (1, 4, 10, 13), pads=[1, 1, 1, 1], **more)
    c.add("AveragePool ceil count without padding", "AveragePool", (1, 4, 10, 13), **more)


def normalization(c: Cases) -> None:
    positive = np.abs(c.data((4,))) + 0.5
    c.add("BatchNormalization", "BatchNormalization", IMAGE, consts={1: (4,), 2: (4,), 3: (4,), 4: positive})
    c.add("InstanceNormalization", "InstanceNormalization", IMAGE, consts={1: (4,), 2: (4,)})
    for name, shape in (
        ("3-D", (2, 4, 15)),
        ("5-D", (1, 4, 3, 5, 6)),
        ("batch 3", (3, 4, 7, 5)),
        ("wide", (1, 4, 20, 33)),
    ):
        c.add(f"InstanceNormalization {name}", "InstanceNormalization", shape, consts={1: (4,), 2: (4,)}, epsilon=1e-3)
    c.add("LayerNormalization", "LayerNormalization", (2, 3, 8), consts={1: (8,), 2: (8,)})
    c.add("LayerNormalization without bias", "LayerNormalization", (2, 3, 8), consts={1: (8,)}, epsilon=1e-3)
    c.add("LayerNormalization two axes", "LayerNormalization", (2, 3, 8), consts={1: (3, 8), 2: (3, 8)}, axis=1)
    c.add("GroupNormalization", "GroupNormalization", IMAGE, consts={1: (2,), 2: (2,)}, num_groups=2)
    channels = {1: (4,), 2: (4,)}
    for shape in ((2, 4, 6), (2, 4, 3, 2, 5)):
        given = {1: (4,), 2: (4,)}
        c.add(
            f"GroupNormalization of {len(shape)} dimensions",
            "GroupNormalization",
            shape,
            consts=given,
            num_groups=2,
            opset=21,
        )
    c.add("GroupNormalization channels", "GroupNormalization", IMAGE, consts=channels, num_groups=2, opset=21)
    c.add("LpNormalization", "LpNormalization", (2, 3, 8), axis=-1, p=2)
    c.add("LpNormalization axis 1", "LpNormalization", IMAGE, axis=1, p=2)


def recurrent(c: Cases) -> None:
    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        extra = {"linear_before_reset": 1} if kind == "GRU" else {}
        for directions, name in ((1, "forward"), (2, "bidirectional")):
            weights = {1: (directions, gates * 5, 6), 2: (directions, gates * 5, 5), 3: (directions, 2 * gates * 5)}
            given = {"hidden_size": 5, "direction": name, **extra}
            c.add(f"{kind} {name}", kind, (7, 2, 6), consts=weights, **given)
        weights = {1: (1, gates * 5, 6), 2: (1, gates * 5, 5)}
        c.add(f"{kind} without bias", kind, (4, 1, 6), consts=weights, hidden_size=5, **extra)
        c.add(f"{kind} final state", kind, (4, 1, 6), consts=weights, outputs=2, hidden_size=5, **extra)
        weights = {1: (2, gates * 5, 6), 2: (2, gates * 5, 5)}
        both = {"direction": "bidirectional", "hidden_size": 5, **extra}
        c.add(f"{kind} final states", kind, (4, 2, 6), consts=weights, outputs=2, **both)
    written_out(c)


def written_out(c: Cases) -> None:
    """Variants that the library lacks or computes wrongly."""
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        usual = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[kind]
        outputs = 3 if kind == "LSTM" else 2
        for name, directions, resets in (
            ("forward", 1, 0),
            ("reverse", 1, 0),
            ("bidirectional", 2, 0),
            *([("forward", 1, 1), ("reverse", 1, 1)] if kind == "GRU" else []),
        ):
            weights = {1: (directions, gates * 5, 6), 2: (directions, gates * 5, 5), 3: (directions, 2 * gates * 5)}
            given = {"hidden_size": 5, "direction": name, "activations": usual * directions}
            given |= {"linear_before_reset": 1} if resets else {}
            label = f"{kind} {name} with every state{' and linear_before_reset' if resets else ''}"
            c.add(label, kind, (4, 2, 6), consts=weights, outputs=outputs, **given)
    weights = {1: (1, 20, 6), 2: (1, 20, 5), 3: (1, 40)}
    states = [None, (1, 2, 5), (1, 2, 5)]
    c.add("LSTM one step with states", "LSTM", (1, 2, 6), *states, consts=weights, outputs=3, hidden_size=5)


def resizing(c: Cases) -> None:
    doubled = floats(1, 1, 2, 2)
    wide = floats(1, 1, 2, 3)
    odd = ints(1, 4, 13, 17)

    def resize(name: str, scales: Any = None, sizes: Any = None, **more: Any) -> None:
        consts = {2: scales} if scales is not None else {3: sizes}
        given = (IMAGE, None) if scales is not None else (IMAGE, None, None)
        c.add(f"Resize {name}", "Resize", *given, consts=consts, **more)

    floor = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resize("nearest doubled", doubled, **floor)
    resize("nearest by size", sizes=odd, **floor)
    resize("nearest half pixel", wide, mode="nearest")
    uneven = {3: ints(1, 4, 8, 74)}
    c.add("Resize nearest by a ratio that is rounded", "Resize", (1, 4, 14, 12), None, None, consts=uneven, **floor)
    for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        resize(f"linear {coordinates}", doubled, mode="linear", coordinate_transformation_mode=coordinates)
        for sizes in ((1, 1), (1, 17), (13, 1), (1, 10), (5, 4)):
            to: dict[str, Any] = {
                "sizes": ints(1, 4, *sizes),
                "mode": "linear",
                "coordinate_transformation_mode": coordinates,
            }
            resize(f"linear {coordinates} to {sizes}", **to)
        resize(f"linear {coordinates} by size", sizes=odd, mode="linear", coordinate_transformation_mode=coordinates)
    for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        given: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        name, larger = f"Resize linear {coordinates} from 1", ints(1, 4, 5, 9)
        c.add(name, "Resize", (1, 4, 1, 1), None, None, consts={3: larger}, **given)
        wider, given["releases"] = ints(1, 4, 1, 13), NEW
        c.add(f"Resize linear {coordinates} of a line", "Resize", (1, 4, 1, 7), None, None, consts={3: wider}, **given)
    third = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    region = {1: floats(), 2: floats(1, 1, 2, 2)}
    for larger in (ints(1, 4, 9, 7), ints(1, 4, 24, 13), ints(1, 4, 3, 25)):
        # 2.10 reads a line behind the last one, times zero: NaN where that memory happens to hold one
        given = {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "releases": NEW}
        c.add(
            f"Resize linear asymmetric to {larger[2:]}", "Resize", (1, 4, 3, 6), None, None, consts={3: larger}, **given
        )
    c.add("Resize with an empty region", "Resize", (1, 4, 3, 6), consts=region, **floor)
    c.add("Resize linear by a third", "Resize", (1, 4, 3, 6), None, consts={2: floats(1, 1, 4 / 3, 4 / 3)}, **third)
    halved = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
    exact = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    cubic = {"mode": "cubic", "coordinate_transformation_mode": "align_corners", "cubic_coeff_a": -0.5}
    resize("cubic", wide, mode="cubic")
    resize("cubic by size", sizes=odd, **cubic)
    resize("cubic that ends at the border", wide, mode="cubic", exclude_outside=1)
    for mode in ("linear", "cubic"):
        resize(f"{mode} of a wider filter", sizes=ints(1, 4, 4, 3), mode=mode, antialias=1)
    resize("nearest exact", sizes=odd, **exact)
    resize("linear by factors that are not those of the sizes", floats(1, 1, 1.55, 2.45), **third)
    c.add("Resize of rows", "Resize", (2, 4, 9), None, None, consts={3: ints(2, 4, 20)}, **third)
    c.add("Resize of volumes", "Resize", (1, 2, 3, 4, 5), None, consts={2: floats(1, 1, 2, 2, 2)}, **floor)
    c.add("Resize linear halved", "Resize", (1, 4, 10, 8), None, consts={2: floats(1, 1, 0.5, 0.5)}, **halved)


def functions(c: Cases) -> None:
    """Tanh where it is 1; slopes above 1, where the larger one of x and slope * x is wrong, and behind depthwise filters."""
    for shape in ((7,), (2, 3), (1, 8, 5, 5)):
        c.add(f"LeakyRelu with a slope above 1 of {len(shape)} dimensions", "LeakyRelu", shape, alpha=1.5)
    c.add("Tanh of large numbers", "Tanh", floats(-1e6, -90, -3, 0.5, 3, 20, 90, 1000, 1e30))
    if is_since("onnxruntime", 1, 25):  # older ones do not compute these (tried: 1.19)
        for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare"):
            c.add(f"{op} of no axis", op, (2, 3, 4), noop_with_empty_axes=1)
        for scale in ((1,), (4,), (3, 1)):
            name = f"LayerNormalization of two axes, repeated scale {scale}"
            c.add(name, "LayerNormalization", (2, 3, 4), consts={1: scale, 2: (4,)}, axis=1)
    for kind in (np.int32, np.int64):
        numbers, releases = c.rng.integers(-9, 9, (2, 3, 4)).astype(kind), ALL if kind is np.int32 else NEW
        name = f"ReduceSumSquare of {np.dtype(kind)}"
        c.add(name, "ReduceSumSquare", numbers, consts={1: ints(0, 2)}, releases=releases)
    for classes in (ints(0, 2, -1, -4), ints(-2, 1, -4, 3).reshape(2, 2)):
        levels = {1: scalar(4, np.int64), 2: floats(0, 1)}
        name = f"OneHot from the end of {classes.ndim} dimensions"
        c.add(name, "OneHot", classes, consts=levels, releases=NEW)
    picks, pads = ints(1, -3).reshape(2, 1), ints(0, 0, 1, 2, 0, 0, 3, 4)
    c.add("GatherND in computed batches", "GatherND", (2, 4, 5), picks, batch_dims=1, releases=NEW)
    for mode in ("reflect", "edge"):
        number = ints(*range(-25, 25)).reshape(1, 2, 5, 5)
        c.add(f"Pad {mode} of whole numbers", "Pad", number, consts={1: pads}, mode=mode, releases=NEW)
    two = {1: ints(1, 2, 0, 1), 2: scalar(1.5), 3: ints(-1, 2)}
    c.add("Pad of named axes", "Pad", (1, 2, 5, 6), consts=two, opset=18)
    for kind, gates, more in (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1})):
        weights = {1: (2, gates * 5, 6), 2: (2, gates * 5, 5), 3: (2, gates * 10)}
        inputs = [300 * c.data((4, 2, 6)), None, *[(2, 2, 5)] * (2 if kind == "LSTM" else 1)]
        given = {"hidden_size": 5, "direction": "bidirectional", **more}
        c.add(f"{kind} of large numbers", kind, *inputs, consts=weights, outputs=2, **given)
    for stride in (1, 2):  # filters of eight channels at once, without borders
        nodes = [
            onnx.helper.make_node("Conv", ["x", "w"], ["h"], group=8, strides=[stride] * 2),
            onnx.helper.make_node("LeakyRelu", ["h"], ["y"], alpha=0.2),
        ]
        weights = [c.constant("w", (8, 1, 3, 3))]
        c.graph(f"Conv depthwise of inner pixels, stride {stride}", nodes, {"x": c.data((1, 8, 9, 11))}, weights, ["y"])


def bytes_of_pictures(c: Cases) -> None:
    """Casts from and to UINT8, of which the runtime has those of floats only; Python can neither feed nor fetch it."""
    for kind in (np.float32, np.int32, np.int64):
        numbers = np.array([0, 1, 127, 128, 255], kind)
        for to in (onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL):
            nodes = [
                onnx.helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.UINT8),
                onnx.helper.make_node("Cast", ["h"], ["k"], to=to),
                onnx.helper.make_node("Cast", ["k"], ["m"], to=onnx.TensorProto.UINT8),
                onnx.helper.make_node("Cast", ["m"], ["y"], to=onnx.TensorProto.FLOAT),
            ]
            name = f"Cast of {np.dtype(kind)} through UINT8 and {onnx.TensorProto.DataType.Name(to)}"
            c.graph(name, nodes, {"x": numbers}, [], ["y"], releases=ALL if kind is not np.int64 else NEW)
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.UINT8),
        onnx.helper.make_node("Transpose", ["h"], ["k"], perm=[0, 3, 1, 2]),
        onnx.helper.make_node("Cast", ["k"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    c.graph("Transpose of UINT8", nodes, {"x": np.arange(60, dtype=np.float32).reshape(1, 4, 5, 3)}, [], ["y"])


def layers() -> Cases:
    """All cases of this module."""
    c = Cases()
    for family in (convolutions, matrices, pooling, normalization, recurrent, resizing, functions, bytes_of_pictures):
        family(c)
    return c
