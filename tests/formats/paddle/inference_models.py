"""Small Paddle models, written as Paddle writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle.inference_model.writer import parameter_bytes, program_bytes, tensor_bytes
from converter_lite.formats.paddle.program import (
    Attribute,
    Block,
    Operator,
    Program,
    Variable,
    VarType,
    attr,
    ints,
    var_type,
)

Array = NDArray[Any]


def program_of(
    operators: list[Operator], parameters: Mapping[str, Array], inputs: Mapping[str, tuple[int, ...]], output: str
) -> Program:
    """A program with its feed and fetch operators and all its variables."""
    borders = [
        Variable("feed", VarType.FEED_MINIBATCH, persistable=True),
        Variable("fetch", VarType.FETCH_LIST, persistable=True),
    ]
    variables = [Variable(name, dims=dims) for name, dims in inputs.items()]
    variables += [
        Variable(name, dtype=var_type(a.dtype), dims=a.shape, persistable=True) for name, a in parameters.items()
    ]
    known = {variable.name for variable in variables}
    written = {n for op in operators for names in op.outputs.values() for n in names if n not in known}
    variables += [Variable(name) for name in sorted(written)]
    feeds = [
        Operator("feed", {"X": ["feed"]}, {"Out": [name]}, {"col": attr(column)}) for column, name in enumerate(inputs)
    ]
    fetch = Operator("fetch", {"X": [output]}, {"Out": ["fetch"]}, {"col": attr(0)})
    return Program([Block(variables=borders + variables, operators=[*feeds, *operators, fetch])], 2006002)


def save(folder: Path, program: Program, parameters: Mapping[str, Array]) -> Path:
    """Write a model as ``inference.pdmodel`` and ``inference.pdiparams``; returns the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "inference.pdmodel").write_bytes(program_bytes(program))
    (folder / "inference.pdiparams").write_bytes(parameter_bytes(parameters))
    return folder


def save_with_variable(folder: Path, variable: str, file: Path) -> None:
    """A folder with one convolution in ``model``, whose weight is ``variable`` and stands in ``file``."""
    weight = random(4, 3, 3, 3)
    program = program_of([conv("image", variable, "out")], {variable: weight}, {"image": (1, 3, 8, 8)}, "out")
    folder.mkdir()
    file.write_bytes(tensor_bytes(weight))
    (folder / "model").write_bytes(program_bytes(program))


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def conv(data: str, weight: str, result: str, **attributes: Attribute) -> Operator:
    defaults = {
        "strides": ints((1, 1)),
        "paddings": ints((1, 1)),
        "dilations": ints((1, 1)),
        "groups": attr(1),
        "data_format": attr("NCHW"),
        "padding_algorithm": attr("EXPLICIT"),
    }
    return Operator("conv2d", {"Input": [data], "Filter": [weight]}, {"Output": [result]}, {**defaults, **attributes})


def float_model() -> tuple[Program, dict[str, Array]]:
    """conv2d, batch_norm, relu6, elementwise bias, pool, flatten, mul, softmax, an identity scale at the end."""
    parameters = {
        "conv.w": random(4, 3, 3, 3),
        "bn.scale": np.array([1.0, -0.5, 0.8, 1.2], np.float32),
        "bn.bias": random(4, seed=1),
        "bn.mean": random(4, seed=2),
        "bn.var": np.abs(random(4, seed=3)) + 0.5,
        "fc.w": random(4, 5, seed=4),
        "fc.b": random(5, seed=5),
    }
    operators = [
        conv("image", "conv.w", "a"),
        Operator(
            "batch_norm",
            {"X": ["a"], "Scale": ["bn.scale"], "Bias": ["bn.bias"], "Mean": ["bn.mean"], "Variance": ["bn.var"]},
            {"Y": ["b"], "MeanOut": ["bn.mean"], "VarianceOut": ["bn.var"]},
            {"epsilon": attr(1e-3), "is_test": attr(True)},
        ),
        Operator("relu6", {"X": ["b"]}, {"Out": ["c"]}),
        Operator(
            "pool2d",
            {"X": ["c"]},
            {"Out": ["d"]},
            {"pooling_type": attr("avg"), "ksize": ints((1, 1)), "adaptive": attr(True), "global_pooling": attr(False)},
        ),
        Operator(
            "flatten_contiguous_range", {"X": ["d"]}, {"Out": ["e"]}, {"start_axis": attr(1), "stop_axis": attr(3)}
        ),
        Operator("mul", {"X": ["e"], "Y": ["fc.w"]}, {"Out": ["f"]}, {"x_num_col_dims": attr(1)}),
        Operator("elementwise_add", {"X": ["f"], "Y": ["fc.b"]}, {"Out": ["g"]}, {"axis": attr(1)}),
        Operator("softmax", {"X": ["g"]}, {"Out": ["h"]}, {"axis": attr(-1)}),
        Operator("scale", {"X": ["h"]}, {"Out": ["out"]}, {"scale": attr(1.0), "bias": attr(0.0)}),
    ]
    return program_of(operators, parameters, {"image": (-1, 3, 8, 8)}, "out"), parameters


def quantized_weight(array: Array, axis: int) -> tuple[Array, Array]:
    """Integers (as float32) and largest values per channel, as PaddleSlim stores them."""
    axes = tuple(a for a in range(array.ndim) if a != axis)
    largest = np.abs(array).max(axis=axes)
    shape = [1] * array.ndim
    shape[axis] = -1
    return np.rint(array / largest.reshape(shape) * 127).astype(np.float32), largest.astype(np.float32)


def fake_quantized_model() -> tuple[Program, dict[str, Array]]:
    """The older form: fake_quantize before, fake_channel_wise_dequantize behind; integers stored as floats."""
    program, parameters = float_model()
    parameters["conv.w"], parameters["conv.s"] = quantized_weight(parameters["conv.w"], 0)
    parameters["fc.w"] = np.rint(parameters["fc.w"] / 3.0 * 127).clip(-127, 127).astype(np.float32)
    parameters["image@scale"] = np.array([2.5], np.float32)
    parameters["e@scale"] = np.array([6.0], np.float32)
    operators = {op.output("Out") or op.output("Output") or op.output("Y"): op for op in program.main.operators}
    operators["a"].inputs["Input"], operators["a"].outputs["Output"] = ["image.q"], ["a.raw"]
    operators["f"].inputs["X"], operators["f"].outputs["Out"] = ["e.q"], ["f.raw"]
    made = []
    for op in program.main.operators:
        if op is operators["a"]:
            made += [fake_quantize("image"), op, channel_dequantize("a.raw", "a", "conv.s", "image@scale")]
        elif op is operators["f"]:
            whole = Operator("fake_dequantize_max_abs", {"X": ["f.raw"], "Scale": ["e@scale"]}, {"Out": ["f"]})
            whole.attributes["max_range"] = attr(127.0 * 127.0 / 3.0)
            made += [fake_quantize("e"), op, whole]
        elif op.type not in ("feed", "fetch"):
            made.append(op)
    return program_of(made, parameters, {"image": (-1, 3, 8, 8)}, "out"), parameters


def fake_quantize(name: str) -> Operator:
    attributes = {"bit_length": attr(8), "is_test": attr(True)}
    inputs = {"X": [name], "InScale": [f"{name}@scale"]}
    outputs = {"Out": [f"{name}.q"], "OutScale": [f"{name}@scale"]}
    return Operator("fake_quantize_moving_average_abs_max", inputs, outputs, attributes)


def channel_dequantize(source: str, result: str, weight_scale: str, data_scale: str) -> Operator:
    inputs = {"X": [source], "Scales": [weight_scale, data_scale]}
    attributes = {"quant_bits": ints((8, 8)), "quant_axis": attr(0)}
    return Operator("fake_channel_wise_dequantize_max_abs", inputs, {"Out": [result]}, attributes)


def linear(kind: str, source: str, result: str, scale: str, axis: int, **attributes: Attribute) -> Operator:
    """``quantize_linear`` or ``dequantize_linear``."""
    inputs = {"X": [source], "Scale": [scale], "ZeroPoint": [f"{scale}.zero"]}
    given = {"bit_length": attr(8), "quant_axis": attr(axis), **attributes}
    return Operator(f"{kind}_linear", inputs, {"Y": [result]}, given)


def linear_quantized_model() -> tuple[Program, dict[str, Array]]:
    """The newer form: quantize_linear and dequantize_linear, int8 weights, observers that change nothing."""
    program, parameters = float_model()
    integers, parameters["conv.s"] = quantized_weight(parameters["conv.w"], 0)
    parameters["conv.w"] = integers.astype(np.int8)
    parameters["image@scale"] = np.array(2.5, np.float32)
    for name in ("conv.s", "image@scale"):
        parameters[f"{name}.zero"] = np.zeros(1, np.int32)
    made = []
    for op in program.main.operators:
        if op.type == "conv2d":
            op.inputs = {"Input": ["image.d"], "Filter": ["conv.d"]}
            made += [
                linear("dequantize", "conv.w", "conv.d", "conv.s", 0),
                linear("quantize", "image", "image.q", "image@scale", -1),
                linear("dequantize", "image.q", "image.d", "image@scale", -1),
                op,
            ]
        elif op.type == "batch_norm":
            op.inputs["X"] = ["a.d"]
            watched = {"only_observer": attr(True)}
            made += [
                linear("quantize", "a", "a.q", "image@scale", -1, **watched),
                linear("dequantize", "a.q", "a.d", "image@scale", -1, **watched),
                op,
            ]
        elif op.type not in ("feed", "fetch"):
            made.append(op)
    return program_of(made, parameters, {"image": (-1, 3, 8, 8)}, "out"), parameters


def trained_model() -> tuple[Program, dict[str, Array]]:
    """Quantization-aware training that was not frozen: float weights behind fake_quantize_dequantize operators."""
    program, parameters = float_model()
    parameters["image@scale"] = np.array([2.5], np.float32)
    made = []
    for op in program.main.operators:
        if op.type == "conv2d":
            op.inputs = {"Input": ["image.q"], "Filter": ["conv.q"]}
            weight = Operator("fake_channel_wise_quantize_dequantize_abs_max", {"X": ["conv.w"]}, {"Out": ["conv.q"]})
            weight.attributes |= {"bit_length": attr(8), "quant_axis": attr(0)}
            data = fake_quantize("image")
            data.type = "fake_quantize_dequantize_moving_average_abs_max"
            made += [weight, data, op]
        elif op.type not in ("feed", "fetch"):
            made.append(op)
    return program_of(made, parameters, {"image": (-1, 3, 8, 8)}, "out"), parameters
