"""Quantized models in the forms that other tools write: onnxruntime, NNCF, Quark, PyTorch, Brevitas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.support import build_proto

rng = np.random.default_rng(17)

PICTURE = (1, 4, 8, 8)
STEP = np.float32(0.03125)
"""Scale of what the cases quantize: 256 steps of it hold almost all of a normal distribution."""


def _integers(*shape: int, low: int = -127, high: int = 127) -> NDArray[np.int8]:
    return rng.integers(low, high + 1, shape).astype(np.int8)


def _scales(count: int) -> NDArray[np.float32]:
    return np.linspace(0.002, 0.006, count, dtype=np.float32)


W = _integers(6, 4, 3, 3)
WF = rng.normal(0, 0.2, (6, 4, 3, 3)).astype(np.float32)
M = _integers(8, 5)
COMMON: dict[str, Any] = {
    "s": STEP,
    "z8": np.int8(0),
    "z": np.uint8(120),
    "middle": np.uint8(128),
    "w": W,
    "wf": WF,
    "ws": _scales(6),
    "wz": np.zeros(6, np.int8),
    "b": rng.integers(-900, 900, 6).astype(np.int32),
    "bs": (STEP * _scales(6)).astype(np.float32),
    "low": np.int8(-127),
    "high": np.int8(127),
    "m": M,
    "mt": np.ascontiguousarray(M.T),
    "ms": _scales(5),
    "mz": np.zeros(5, np.int8),
    "ys": np.float32(0.125),
}
CONV = "dw = DequantizeLinear<axis=0>(w, ws, wz) y = Conv<pads=[1,1,1,1]>(d, dw)"


@dataclass(frozen=True)
class Case:
    """A model with one form.

    Attributes:
        graph: Nodes from ``x`` to ``y`` in ONNX's textual syntax.
        integer: Nodes that compute with integers in the plan.
        scales: Tensors -> their scales in the plan.
        rows: ``x`` is a matrix.
        constants: Beside the common ones.
        opset: Operator set.
        tolerance: Difference that the plan may make: operators between products are float in it.
        cosine: Least similarity of a written file.
    """

    graph: str
    integer: int = 1
    scales: tuple[str, ...] = ("x",)
    rows: bool = False
    constants: tuple[tuple[str, Any], ...] = ()
    opset: int = 17
    tolerance: float = 0.1
    cosine: float = 0.999


def model(case: Case) -> onnx.ModelProto:
    """The file of a case."""
    known = {**COMMON, **dict(case.constants)}
    shape, result = ("[3,8]", "[3,5]") if case.rows else ("[1,4,8,8]", "[N,C,H,W]")
    text = f"g (float{shape} x) => (float{result} y) {{ {case.graph} }}"
    read = {name: array for name, array in known.items() if name in _names(text)}
    proto = build_proto(text, opset=case.opset, **read)
    for domain in ("com.microsoft", "org.openvinotoolkit", "com.amd.quark"):
        if domain in text:
            proto.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def _names(text: str) -> set[str]:
    return set("".join(char if char.isalnum() or char == "_" else " " for char in text).split())


def feed(case: Case) -> dict[str, NDArray[np.float32]]:
    """Numbers of which a few lie beyond the grid."""
    return {"x": np.random.default_rng(5).normal(0, 1.5, (3, 8) if case.rows else PICTURE).astype(np.float32)}


CASES = {
    "int8, no zero points, int32 bias": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s) dw = DequantizeLinear<axis=0>(w, ws) "
        "db = DequantizeLinear<axis=0>(b, bs) y = Conv<pads=[1,1,1,1]>(d, dw, db)"
    ),
    "uint8, scale of a Constant node": Case(
        f"k = Constant<value_float=0.03125>() q = QuantizeLinear(x, k, z) d = DequantizeLinear(q, k, z) {CONV}"
    ),
    "Q/DQ of onnxruntime": Case(
        "q = com.microsoft.QuantizeLinear(x, s, z) d = com.microsoft.DequantizeLinear(q, s, z) "
        "dw = com.microsoft.DequantizeLinear<axis=0>(w, ws, wz) y = Conv<pads=[1,1,1,1]>(d, dw)"
    ),
    "int16 activations": Case(
        f"q = com.microsoft.QuantizeLinear(x, s, z16) d = com.microsoft.DequantizeLinear(q, s, z16) {CONV}",
        constants=(("z16", np.int16(0)),),
    ),
    "a pair on a weight": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) qw = QuantizeLinear<axis=0>(wf, ws, wz) "
        "dw = DequantizeLinear<axis=0>(qw, ws, wz) y = Conv<pads=[1,1,1,1]>(d, dw)"
    ),
    "a clipped weight of four bits": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) qw = QuantizeLinear(wf, s, z8) "
        "c = Clip(qw, l, h) dw = DequantizeLinear(c, s, z8) y = Conv<pads=[1,1,1,1]>(d, dw)",
        constants=(("l", np.int8(-7)), ("h", np.int8(7))),
    ),
    "a narrow grid": Case(f"q = QuantizeLinear(x, s, z8) c = Clip(q, low, high) d = DequantizeLinear(c, s, z8) {CONV}"),
    "a grid of four bits": Case(
        f"q = QuantizeLinear(x, s4, z8) c = Clip(q, l, h) d = DequantizeLinear(c, s4, z8) {CONV}",
        scales=(),
        cosine=0.996,  # a product whose result has no grid is one of floats in .ms files
        constants=(("l", np.int8(-8)), ("h", np.int8(7)), ("s4", np.float32(0.25))),
    ),
    "a Cast to the same type": Case(
        f"q = QuantizeLinear(x, s, z) c = Cast<to=2>(q) d = DequantizeLinear(c, s, z) {CONV}"
    ),
    "a computed zero point": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) n = Shape(ws) "
        "zeros = ConstantOfShape<value=int8[1] {0}>(n) dw = DequantizeLinear<axis=0>(w, ws, zeros) "
        "y = Conv<pads=[1,1,1,1]>(d, dw)"
    ),
    "uint8 around 128": Case(
        f"q = QuantizeLinear(x, s, middle) d = DequantizeLinear(q, s, middle) {CONV}",
    ),
    "a transposed weight": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) dm = DequantizeLinear<axis=0>(mt, ms, mz) "
        "t = Transpose<perm=[1,0]>(dm) y = MatMul(d, t)",
        rows=True,
    ),
    "two grids of one tensor": Case(
        f"q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) {CONV.replace('y =', 'a =')} "
        "q2 = QuantizeLinear(x, ys, z8) d2 = DequantizeLinear(q2, ys, z8) "
        "c = Conv<pads=[1,1,1,1]>(d2, dw) y = Add(a, c)",
        integer=2,
    ),
    "a grid on a grid": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) q2 = QuantizeLinear(d, s2, z8) "
        f"d2 = DequantizeLinear(q2, s2, z8) {CONV.replace('y =', 'a =')} "
        "c = Conv<pads=[1,1,1,1]>(d2, dw) y = Add(a, c)",
        integer=2,
        constants=(("s2", np.float32(0.02)),),
        tolerance=0.2,
    ),
    "a Relu that the grid does": Case(
        f"q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) {CONV.replace('y =', 'a =')} "
        "qa = QuantizeLinear(a, ys, lowest) da = DequantizeLinear(qa, ys, lowest) "
        "dv = DequantizeLinear<axis=0>(w6, ws, wz) y = Conv(da, dv)",
        integer=2,
        scales=("x", "a"),
        constants=(("lowest", np.int8(-128)), ("w6", _integers(6, 6, 3, 3))),
    ),
    "a Relu that the grid of the output does": Case(
        f"q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) {CONV.replace('y =', 'a =')} "
        "qa = QuantizeLinear(a, ys, lowest) y = DequantizeLinear(qa, ys, lowest)",
        scales=("x", "a"),
        constants=(("lowest", np.int8(-128)),),
    ),
    "integers that are moved": Case(
        "q = QuantizeLinear(x, s, z) p = MaxPool<kernel_shape=[2,2],strides=[2,2]>(q) t = Transpose<perm=[0,1,3,2]>(p) "
        f"j = Concat<axis=2>(t, t) d = DequantizeLinear(j, s, z) {CONV}",
        scales=("x", "p", "t", "j"),
    ),
    "integer operators, pictures": Case(
        "q = QuantizeLinear(x, s, z) c = QLinearConv<pads=[1,1,1,1]>(q, s, z, w, ws, wz, ys, z, b) "
        "a = com.microsoft.QLinearAdd(c, ys, z, c, ys, z, ys, z) p = MaxPool<kernel_shape=[2,2],strides=[2,2]>(a) "
        "r = com.microsoft.QLinearLeakyRelu<alpha=0.1>(p, ys, z, ys, z) "
        "k = com.microsoft.QLinearConcat<axis=1>(ys, z, r, ys, z, p, ys, z) "
        "g = com.microsoft.QLinearGlobalAveragePool<channels_last=0>(k, ys, z, s, z) f = Flatten(g) "
        "o = com.microsoft.QGemm<transB=1>(f, s, z, v, vs, vz, vb, ys, z) y = DequantizeLinear(o, ys, z)",
        integer=2,
        scales=("x", "c_real", "a_real"),
        tolerance=0.4,
        cosine=0.998,
        constants=(
            ("v", _integers(5, 12)),
            ("vs", _scales(5)),
            ("vz", np.zeros(5, np.int8)),
            ("vb", rng.integers(-900, 900, 5).astype(np.int32)),
        ),
    ),
    "integer operators, matrices": Case(
        "q = QuantizeLinear(x, s, z) c = QLinearMatMul(q, s, z, m, ms, mz, ys, z) "
        "u = com.microsoft.QLinearMul(c, ys, z, c, ys, z, ys, z) g = com.microsoft.QLinearSigmoid(u, ys, z, t, zero) "
        "o = com.microsoft.QLinearSoftmax<axis=-1,opset=13>(g, t, zero, t, zero) y = DequantizeLinear(o, t, zero)",
        rows=True,
        scales=("x", "c_real"),
        tolerance=0.02,
        constants=(("t", np.float32(1 / 256)), ("zero", np.uint8(0))),
    ),
    "a FakeQuantize": Case(
        "d = org.openvinotoolkit.FakeQuantize<levels=256>(x, lo, hi, lo, hi) "
        "v = org.openvinotoolkit.FakeQuantize<levels=255>(wf, wl, wh, wl, wh) y = Conv<pads=[1,1,1,1]>(d, v)",
        constants=(
            ("lo", np.array([-100 / 32], np.float32)),
            ("hi", np.array([155 / 32], np.float32)),
            ("wl", np.linspace(-0.7, -0.4, 6, dtype=np.float32).reshape(6, 1, 1, 1)),
            ("wh", np.linspace(0.7, 0.4, 6, dtype=np.float32).reshape(6, 1, 1, 1)),
        ),
    ),
    "four-bit weights": Case(
        "q = QuantizeLinear(x, s, z8) d = DequantizeLinear(q, s, z8) dm = DequantizeLinear<axis=1>(m4, ms, mz4) "
        "y = MatMul(d, dm)",
        rows=True,
        opset=21,
    ),
    "a scale per block": Case(
        "dm = DequantizeLinear<axis=0,block_size=3>(m, blocks) y = MatMul(x, dm)",
        integer=0,
        scales=(),
        rows=True,
        opset=21,
        constants=(("blocks", rng.uniform(0.01, 0.02, (3, 5)).astype(np.float32)),),
        tolerance=1e-5,
    ),
    "blocks in an operator of onnxruntime": Case(
        "y = com.microsoft.MatMulNBits<K=8,N=5,bits=4,block_size=16>(x, packed, ms)",
        integer=0,
        scales=(),
        rows=True,
        opset=21,
        constants=(("packed", rng.integers(0, 256, (5, 1, 8)).astype(np.uint8)),),
        tolerance=1e-5,
    ),
}
"""Name of a form -> case; the constants of the last one need a type that NumPy lacks, see :func:`four_bits`."""

DYNAMIC = {
    "a product": Case(
        "q, qs, qz = DynamicQuantizeLinear(x) p = MatMulInteger(q, m, qz, mz) f = Cast<to=1>(p) k = Mul(qs, ms) "
        "y = Mul(f, k)",
        rows=True,
    ),
    "a convolution": Case(
        "q, qs, qz = DynamicQuantizeLinear(x) p = ConvInteger<pads=[1,1,1,1]>(q, wu, qz, middle) f = Cast<to=1>(p) "
        "k = Mul(qs, s1) y = Mul(f, k)",
        constants=(("wu", (W + 128.0).astype(np.uint8)), ("s1", np.float32(0.004))),
    ),
    "convolutions with rounded biases": Case(
        "q, qs, qz = DynamicQuantizeLinear(x) p = ConvInteger<pads=[1,1,1,1]>(q, wu, qz, middle) "
        "bstep = Mul(qs, s1) bd = Div(floats, bstep) bf = Floor(bd) bi = Cast<to=6>(bf) br = Reshape(bi, wide) pb = Add(p, br) "
        "f = Cast<to=1>(pb) k = Mul(qs, s1) first = Mul(f, k) "
        "v, vs, vz = DynamicQuantizeLinear(first) c = ConvInteger(v, ones, vz) g = Cast<to=1>(c) l = Mul(vs, s1) y = Mul(g, l)",
        constants=(
            ("wu", (W + 128.0).astype(np.uint8)),
            ("s1", np.float32(0.004)),
            ("floats", np.linspace(-3, 3, len(W), dtype=np.float32)),
            ("wide", np.array([1, -1, 1, 1])),
            ("ones", rng.integers(-100, 100, (len(W), len(W), 1, 1)).astype(np.int8)),
        ),
    ),
    "activations": Case(
        "t = Transpose<perm=[1,0]>(x) q, qs, qz = DynamicQuantizeLinear(x) r, rs, rz = DynamicQuantizeLinear(t) "
        "p = MatMulInteger(q, r, qz, rz) f = Cast<to=1>(p) k = Mul(qs, rs) y = Mul(f, k)",
        rows=True,
    ),
}
"""What quantizes at run time."""


def four_bits(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same with ``m4`` and ``mz4`` as four-bit constants."""
    values = np.clip(M // 16, -8, 7)
    for name, array in (("m4", values), ("mz4", np.zeros(5, np.int8))):
        proto.graph.initializer.append(
            onnx.helper.make_tensor(name, onnx.TensorProto.INT4, array.shape, array.reshape(-1).tolist())
        )
    return proto
