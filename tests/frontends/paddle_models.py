"""Small Paddle models, written as Paddle writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle_nb.program import (
    Attribute,
    AttrType,
    Block,
    Operator,
    Program,
    Variable,
    VarType,
    attr,
    ints,
    var_type,
)
from converter_lite.frontends.paddle_files import _FIELDS
from converter_lite.frontends.paddle_proto import message_class

Array = NDArray[Any]


def program_bytes(program: Program) -> bytes:
    """A ``.pdmodel`` file."""
    message = message_class("Program")()
    message.version.version = program.version
    for block in program.blocks:
        made = message.blocks.add(idx=block.index, parent_idx=block.parent)
        for variable in block.variables:
            item = made.vars.add(name=variable.name.encode(), persistable=variable.persistable)
            item.type.type = int(variable.kind)
            if variable.kind == VarType.LOD_TENSOR:
                item.type.lod_tensor.tensor.data_type = int(variable.dtype)
                item.type.lod_tensor.tensor.dims.extend(variable.dims)
        for operator in block.operators:
            _add_operator(made, operator)
    return bytes(message.SerializeToString())


def _add_operator(block: Any, operator: Operator) -> None:
    made = block.ops.add(type=operator.type.encode())
    for slots, target in ((operator.inputs, made.inputs), (operator.outputs, made.outputs)):
        for slot, names in slots.items():
            target.add(parameter=slot.encode(), arguments=[name.encode() for name in names])
    for name, value in operator.attributes.items():
        _add_attribute(made, name, value)


def _add_attribute(operator: Any, name: str, value: Attribute) -> None:
    item = operator.attrs.add(name=name.encode(), type=int(value.type))
    field = _FIELDS[value.type]
    if isinstance(value.value, tuple):
        getattr(item, field).extend(value.value)
    else:
        setattr(item, field, value.value.encode() if value.type is AttrType.STRING else value.value)


def tensor_bytes(array: Array) -> bytes:
    """One saved tensor."""
    description = message_class("Tensor")(data_type=int(var_type(array.dtype)), dims=array.shape).SerializeToString()
    head = struct.pack("<IQIi", 0, 0, 0, len(description))
    return head + description + np.ascontiguousarray(array).tobytes()


def combined_bytes(parameters: Mapping[str, Array]) -> bytes:
    """A ``.pdiparams`` file."""
    return b"".join(tensor_bytes(parameters[name]) for name in sorted(parameters, key=str.encode))


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
    (folder / "inference.pdiparams").write_bytes(combined_bytes(parameters))
    return folder


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
