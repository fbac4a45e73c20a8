"""One operator of the supported list per case, standing between two convolutions.

A case reads ``a`` (float[1,4,8,8], from a convolution; ``c`` is a second one) and gives ``z``, which a last weighted node reads:
so every device has a reason to compute the operator in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from tests.support import build, normal, positive


@dataclass(frozen=True)
class Case:
    """``channels``: of ``z`` for a last Conv; with ``matrix``, the last dimension of ``z`` for a last MatMul."""

    op_type: str
    text: str
    constants: dict[str, ArrayLike] = field(default_factory=dict)
    channels: int = 4
    matrix: bool = False

    def model(self) -> ir.Model:
        last = "y = MatMul(z, last)" if self.matrix else "y = Conv(z, last, last_b)"
        rank = 2 if self.matrix else 4
        shape = ",".join("nchw"[:rank])
        second = "c = Conv<pads=[1,1,1,1]>(x, w2, b2)" if "c)" in self.text or "c," in self.text else ""
        constants = {
            "w1": normal(4, 3, 3, 3, seed=1) * 0.3,
            "b1": normal(4, seed=2) * 0.3,
            **({"w2": normal(4, 3, 3, 3, seed=3), "b2": normal(4, seed=4)} if second else {}),
            "last": normal(self.channels, 6, seed=5) if self.matrix else normal(6, self.channels, 1, 1, seed=5),
            **({} if self.matrix else {"last_b": normal(6, seed=6)}),
            **self.constants,
        }
        graph = f"""g (float[1,3,8,8] x) => (float[{shape}] y) {{
            a = Conv<pads=[1,1,1,1]>(x, w1, b1) {second} {self.text} {last} }}"""
        return build(graph, opset=14, **constants)


def _ints(*numbers: int) -> ArrayLike:
    return np.array(numbers, np.int64)


def _scalar(number: float) -> ArrayLike:
    return np.array(number, np.float32)


CASES = {
    "Conv": Case("Conv", "z = Conv(a, k, kb)", {"k": normal(4, 4, 3, 3), "kb": normal(4)}),
    "Conv depthwise": Case("Conv", "z = Conv<group=4>(a, k, kb)", {"k": normal(4, 1, 3, 3), "kb": normal(4)}),
    "Conv dilated, without bias": Case("Conv", "z = Conv<dilations=[2,2]>(a, k)", {"k": normal(4, 4, 3, 3)}),
    "ConvTranspose": Case(
        "ConvTranspose", "z = ConvTranspose<strides=[2,2]>(a, k, kb)", {"k": normal(4, 5, 2, 2), "kb": normal(5)}, 5
    ),
    "Gemm": Case(
        "Gemm", "f = Flatten(a) z = Gemm(f, k, kb)", {"k": normal(256, 10), "kb": normal(10)}, 10, matrix=True
    ),
    "Gemm transB": Case(
        "Gemm", "f = Flatten(a) z = Gemm<transB=1>(f, k, kb)", {"k": normal(10, 256), "kb": normal(10)}, 10, matrix=True
    ),
    "MatMul constant": Case("MatMul", "z = MatMul(a, k)", {"k": normal(8, 7)}),
    "MatMul dynamic": Case("MatMul", "t = Transpose<perm=[0,1,3,2]>(c) z = MatMul(a, t)"),
    "Add": Case("Add", "z = Add(a, c)"),
    "Add constant": Case("Add", "z = Add(a, k)", {"k": normal(4, 1, 1)}),
    "Sub": Case("Sub", "z = Sub(a, c)"),
    "Mul": Case("Mul", "z = Mul(a, c)"),
    "Mul constant": Case("Mul", "z = Mul(a, k)", {"k": positive(4, 1, 1)}),
    "Div": Case("Div", "z = Div(a, k)", {"k": positive(4, 1, 1)}),
    "Concat": Case("Concat", "z = Concat<axis=1>(a, c)", channels=8),
    "Split": Case("Split", "s, t = Split<axis=1>(a, parts) z = Concat<axis=1>(t, s)", {"parts": _ints(1, 3)}),
    "Relu": Case("Relu", "z = Relu(a)"),
    "Relu6": Case("Clip", "z = Clip(a, low, high)", {"low": _scalar(0), "high": _scalar(6)}),
    "Clip": Case("Clip", "z = Clip(a, low, high)", {"low": _scalar(-0.5), "high": _scalar(0.5)}),
    "Clip away from zero": Case("Clip", "z = Clip(a, low, high)", {"low": _scalar(0.25), "high": _scalar(1)}),
    "LeakyRelu": Case("LeakyRelu", "z = LeakyRelu<alpha=0.1>(a)"),
    "PRelu": Case("PRelu", "z = PRelu(a, k)", {"k": positive(4, 1, 1) * 0.2}),
    "HardSwish": Case("HardSwish", "z = HardSwish(a)"),
    "Sigmoid": Case("Sigmoid", "z = Sigmoid(a)"),
    "Tanh": Case("Tanh", "z = Tanh(a)"),
    "MaxPool": Case("MaxPool", "z = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)"),
    "AveragePool": Case("AveragePool", "z = AveragePool<kernel_shape=[2,2], strides=[2,2]>(a)"),
    "GlobalAveragePool": Case("GlobalAveragePool", "z = GlobalAveragePool(a)"),
    "ReduceMean": Case("ReduceMean", "z = ReduceMean<axes=[2,3]>(a)"),
    "Softmax": Case("Softmax", "z = Softmax<axis=1>(a)"),
    "Resize nearest": Case("Resize", 'z = Resize<mode="nearest">(a, , s)', {"s": np.array([1, 1, 2, 2], np.float32)}),
    "Resize linear": Case("Resize", 'z = Resize<mode="linear">(a, , s)', {"s": np.array([1, 1, 2, 2], np.float32)}),
    "Pad": Case("Pad", "z = Pad(a, p)", {"p": _ints(0, 0, 1, 1, 0, 0, 1, 1)}),
    "Reshape": Case("Reshape", "z = Reshape(a, s)", {"s": _ints(1, 4, 4, 16)}),
    "Transpose": Case("Transpose", "z = Transpose<perm=[0,1,3,2]>(a)"),
    "Squeeze and Unsqueeze": Case("Squeeze", "s = Squeeze(a, axis) z = Unsqueeze(s, axis)", {"axis": _ints(0)}),
    "Flatten": Case("Flatten", "z = Flatten(a)", channels=256, matrix=True),
    "Slice": Case("Slice", "z = Slice(a, low, high, axes)", {"low": _ints(1), "high": _ints(5), "axes": _ints(2)}),
    "ReduceMax": Case("ReduceMax", "z = ReduceMax<axes=[2,3]>(a)"),
    "ReduceSum": Case("ReduceSum", "z = ReduceSum(a, axes)", {"axes": _ints(2, 3)}),
    "GlobalMaxPool": Case("GlobalMaxPool", "z = GlobalMaxPool(a)"),
    "Max": Case("Max", "z = Max(a, c)"),
    "Min": Case("Min", "z = Min(a, c)"),
    "Elu": Case("Elu", "z = Elu(a)"),
    "HardSigmoid": Case("HardSigmoid", "z = HardSigmoid(a)"),
    "InstanceNormalization": Case(
        "InstanceNormalization", "z = InstanceNormalization(a, k, kb)", {"k": positive(4), "kb": normal(4)}
    ),
    "Expand": Case("Expand", "p = GlobalAveragePool(a) z = Expand(p, s)", {"s": _ints(1, 4, 3, 3)}),
    "Tile": Case("Tile", "z = Tile(a, s)", {"s": _ints(1, 1, 2, 1)}),
    "DepthToSpace": Case("DepthToSpace", "z = DepthToSpace<blocksize=2>(a)", channels=1),
    "SpaceToDepth": Case("SpaceToDepth", "z = SpaceToDepth<blocksize=2>(a)", channels=16),
    "Gather": Case("Gather", "z = Gather<axis=2>(a, rows)", {"rows": _ints(1, 3, 5)}),
}
