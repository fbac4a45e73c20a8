"""Operators that the formats lack and that are written in others, through the command line, on every device: loops, branches and
single numbers among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.passes.spelled_out.trigonometry import FUNCTIONS
from tests.cli.workshop import command
from tests.runtimes.conftest import Tally
from tests.runtimes.device_files import RUNTIMES, written_for
from tests.runtimes.ms_runtime import PLATFORMS, Platform
from tests.support import build, normal, run

pytestmark = pytest.mark.runtime

COUNT = {"turns": np.array(4, np.int64), "yes": np.array(True)}
CELL = """
    g (float[2,6] x) => (float[2,5] y) {
        h, all = Loop(turns, yes, start) <
            body = b (int64 i, bool c, float[2,5] s) => (bool d, float[2,5] n, float[2,5] row) {
                d = Identity(c)
                t = MatMul(s, r) u = MatMul(x, w) v = Add(t, u) n = Tanh(v) row = Neg(n)
            }
        >
        last = Gather<axis=0>(all, two)
        y = Add(h, last)
    }
"""
PROJECTED = """
    g (float[5,2,6] x) => (float[2,3] y) {
        y, memory = Loop(turns, yes, start, cell) <
            body = b (int64 i, bool c, float[2,3] s, float[2,4] k) => (bool d, float[2,3] o, float[2,4] l) {
                d = Identity(c)
                at = Gather<axis=0>(x, i)
                g1 = MatMul(at, w) g2 = MatMul(s, r) gates = Add(g1, g2)
                a0, f0, c0, o0 = Split<axis=1, num_outputs=4>(gates)
                a = Sigmoid(a0) f = Sigmoid(f0) m = Tanh(c0) e = Sigmoid(o0)
                kept = Mul(f, k) new = Mul(a, m) l = Add(kept, new)
                t = Tanh(l) full = Mul(e, t) o = MatMul(full, p)
            }
        >
    }
"""
"""A layer with long and short memory whose output is projected."""

GELU = """
    g (float[2,7] x) => (float[2,7] y) {
        n = Neg(x) q = Mul(n, root) e = Erf(q) c = Sub(one, e) h = Mul(half, x) y = Mul(h, c)
    }
"""
PICTURE = "g (float[1,6,5,7] x) => (float[1,{0},{1},{2}] y) {{ y = {3} }}"
CLOSE = 5e-4
"""Of the largest result; the tanh of Paddle-Lite's library for ARM is an approximation."""

FACTORS = {"one": np.float32(1), "half": np.float32(0.5), "root": np.float32(0.5**0.5)}


def _grouped(kernel: int, dilation: int, groups: int) -> ir.Model:
    """Filters longer than the five rows of the picture, of one channel and of several."""
    pads = (kernel - 1) * dilation // 2
    conv = f"Conv<group={groups}, dilations=[{dilation},{dilation}], pads=[{pads},{pads},{pads},{pads}]>(x, w)"
    return build(PICTURE.format(6, 5, 7, conv), w=normal(6, 6 // groups, kernel, kernel))


CHOICE = """
    g (float[2,4] x) => (float[2,4] y) {{
        total = ReduceSum<keepdims={0}>(x) positive = {1}(total, zero)
        y = If(positive) <then_branch = a () => (float[2,4] t) {{ h = Exp(x) t = Add(h, w) }},
                          else_branch = b () => (float[2,4] e) {{ e = Mul(x, w) }}>
    }}
"""
NUMBERS = {
    "Mul": "m = ReduceMean<keepdims=0>(x) y = Mul(m, half)",
    "Sigmoid": "m = ReduceMax<keepdims=0>(x) y = Sigmoid(m)",
    "Squeeze": "m = ReduceSum(x) s = Squeeze(m) a = Add(s, half) y = Tanh(a)",
}
"""What ends in a single number, which devices have as a row of one."""

BLOCKS = "g (float[2,{0},{1}] x) => (float[2,3,9,7] y) {{ y = Col2Im{2}(x, size, block) }}"
PEEPHOLES = "g (float[4,2,6] x) => (float[4,{0},2,5] y) {{ y, h, c = LSTM<hidden_size=5{1}>(x, w, r, b, , , , p) }}"


def _blocks(rows: int, columns: int, attributes: str, block: tuple[int, int]) -> ir.Model:
    text = BLOCKS.format(3 * block[0] * block[1], rows * columns, attributes)
    return build(text, opset=18, size=np.array([9, 7]), block=np.array(block))


def _peepholes(directions: int, attributes: str = "") -> ir.Model:
    weights = {"w": normal(directions, 20, 6), "r": normal(directions, 20, 5), "b": normal(directions, 40)}
    return build(PEEPHOLES.format(directions, attributes), opset=14, p=normal(directions, 15, seed=3), **weights)


def _loudness(signals: str, results: str, length: int, step: int) -> ir.Model:
    """Logarithms of six bands of frames."""
    return build(
        f"""g (float[{signals}] x) => (float[{results}] y) {{
            s = Unsqueeze(x, last) f = STFT<onesided=1>(s, step, window) q = Mul(f, f) p = ReduceSum<keepdims=0>(q, last)
            b = MatMul(p, bands) a = Add(b, least) y = Log(a) }}""",
        opset=17,
        step=np.array(step),
        window=np.hanning(length).astype(np.float32),
        bands=np.abs(normal(length // 2 + 1, 6)),
        last=np.array([-1]),
        least=np.float32(1e-3),
    )


CASES: dict[str, ir.Model] = {
    "a loop": build(
        CELL, w=normal(6, 5), r=normal(5, 5, seed=2) / 3, start=normal(2, 5, seed=3), two=np.array(2), **COUNT
    ),
    "a projected LSTM": build(
        PROJECTED,
        opset=20,
        w=normal(6, 16),
        r=normal(3, 16, seed=2),
        p=normal(4, 3, seed=3),
        start=normal(2, 3, seed=4),
        cell=normal(2, 4, seed=5),
        **COUNT,
    ),
    "ReverseSequence": build(
        "g (float[2,6,3] x) => (float[2,6,3] y) { y = ReverseSequence<batch_axis=0, time_axis=1>(x, lengths) }",
        lengths=np.array([4, 4]),
    ),
    "ReverseSequence of truth values": build(
        "g (float[2,6,3] x) => (float[2,6,3] y) { t = Greater(x, zero) "
        "r = ReverseSequence<batch_axis=0, time_axis=1>(t, lengths) y = Where(r, x, zero) }",
        lengths=np.array([4, 4]),
        zero=np.float32(0),
    ),
    "a Gelu of Erfc": build(GELU, **FACTORS),
    **{f"LRN of {size}": build(PICTURE.format(6, 5, 7, f"LRN<size={size}, alpha=0.3>(x)")) for size in (1, 5, 7)},
    "SpaceToDepth by 1": build(PICTURE.format(6, 5, 7, "SpaceToDepth<blocksize=1>(x)")),
    "DepthToSpace by 1": build(PICTURE.format(6, 5, 7, "DepthToSpace<blocksize=1>(x)")),
    **{
        f"{groups} groups of {kernel} apart {dilation}": _grouped(kernel, dilation, groups)
        for kernel, dilation, groups in ((7, 2, 6), (7, 2, 3), (7, 2, 2), (7, 2, 1), (5, 3, 6), (5, 3, 3), (3, 5, 2))
    },
    **{
        f"a branch by {kept} of {test}": build(CHOICE.format(kept, test), zero=np.float32(0), w=normal(2, 4))
        for kept, test in ((0, "Greater"), (1, "Less"))
    },
    "a Clip with computed bounds": build(
        "g (float[2,6] x) => (float[2,6] y) { most = ReduceMax<keepdims=0>(x) b = Sub(most, half) y = Clip(x, , b) }",
        **FACTORS,
    ),
    **{
        f"a single number of {end}": build(f"g (float[2,3] x) => (float y) {{ {nodes} }}", half=np.float32(0.5))
        for end, nodes in NUMBERS.items()
    },
    "blocks side by side": _blocks(3, 1, "<strides=[3,7]>", (3, 7)),
    "blocks that overlap": _blocks(5, 4, "<strides=[2,2], pads=[1,1,1,1]>", (3, 3)),
    "blocks with gaps": _blocks(5, 5, "<dilations=[2,1]>", (3, 3)),
    "blocks with a rest": _blocks(4, 3, "<strides=[2,2]>", (2, 2)),
    **{
        name: build(
            f"g (float[3,40] x) => (float[3,40] y) {{ {inside} y = {name}(z) }}",
            one=np.float32(1),
            half=np.float32(0.5),
        )
        for names, inside in (
            (("Acos", "Asin", "Atanh", "Tan"), "z = Tanh(x)"),
            (("Asinh", "Atan", "Cosh", "Sinh"), "t = Mul(x, half) z = Add(t, x)"),
            (("Acosh",), "e = Exp(x) z = Add(e, one)"),
        )
        for name in names
    },
    "a long LSTM backwards": build(
        """g (float[2,70,6] x) => (float[70,1,2,5] y) {
            t = Transpose<perm=[1,0,2]>(x) a, h = LSTM<hidden_size=5, direction="reverse">(t, w, r) y = Sub(a, h) }""",
        w=normal(1, 20, 6) / 3,
        r=normal(1, 20, 5) / 3,
    ),
    "a Fourier transform": build(
        "g (float[2,3,20,1] x) => (float[2,3,20,2] y) { y = DFT(x, , axis) }", opset=20, axis=np.array(2)
    ),
    "a Fourier transform of one side": build(
        "g (float[4,30,1] x) => (float[4,13,2] y) { y = DFT<onesided=1>(x, n) }", opset=20, n=np.array(24)
    ),
    "back from a spectrum": build(
        "g (float[6,8,2] x) => (float[6,8,2] y) { y = DFT<inverse=1>(x, , axis) }", opset=20, axis=np.array(0)
    ),
    "loudness of frames": _loudness("1,480", "1,14,6", 64, 32),
    "a long Fourier transform of one side": build(
        "g (float[2,3,640,1] x) => (float[2,3,321,2] y) { y = DFT<axis=2, onesided=1>(x) }", opset=17
    ),
    "a long Fourier transform of one signal": build(
        "g (float[1,512,1] x) => (float[1,512,2] y) { y = DFT(x) }", opset=17
    ),
    "back from a long spectrum": build(
        "g (float[576,3,2] x) => (float[576,3,2] y) { y = DFT<inverse=1>(x, , axis) }", opset=20, axis=np.array(0)
    ),
    "loudness of long frames": _loudness("2,3000", "2,20,6", 512, 128),
    "a bound without an end": build(
        "g (float[2,8,6,6] x) => (float[2,8,6,6] y) { a = Conv(x, w) y = Max(a, low) }",
        w=normal(8, 8, 1, 1),
        low=np.float32(-np.inf),
    ),
    "a convolution of a long row": build(
        "g (float[1,8,12000] x) => (float[1,3,12000] y) { y = Conv<pads=[3,3]>(x, w) }", w=normal(3, 8, 7) / 8
    ),
    "an LSTM with peepholes": _peepholes(1),
    "an LSTM with peepholes both ways": _peepholes(2, ', direction="bidirectional"'),
    "an RNN of Relu both ways": build(
        """g (float[4,2,6] x) => (float[4,2,2,5] y) {
            y = RNN<hidden_size=5, direction="bidirectional", activations=["Relu","Relu"]>(x, w, r) }""",
        opset=14,
        w=normal(2, 5, 6) / 2,
        r=normal(2, 5, 5) / 2,
    ),
    "an LSTM of hard sigmoids": build(
        """g (float[4,2,6] x) => (float[4,1,2,5] y) {
            y = LSTM<hidden_size=5, activations=["HardSigmoid","Tanh","Softsign"]>(x, w, r) }""",
        opset=14,
        w=normal(1, 20, 6) / 2,
        r=normal(1, 20, 5) / 2,
    ),
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", CASES)
def test_a_device_gives_the_models_numbers(name: str, runtime: str, tally: Tally, tmp_path: Path) -> None:
    model, on_device = CASES[name], RUNTIMES[runtime][-1]
    ir.save(model, "model.onnx")
    path = written_for(runtime)
    shape = model.graph.inputs[0].shape
    assert shape is not None
    x = normal(*shape.numpy(), seed=9)
    Path("run").mkdir()
    found = on_device(path.read_bytes(), x, tmp_path / "run")
    assert not isinstance(found, str), found
    expected = run(model, {"x": x})["y"]
    error = float(np.abs(found.reshape(expected.shape) - expected).max() / np.abs(expected).max())
    tally(runtime, "operators that are written out", wrong=int(error > CLOSE))
    assert error <= CLOSE


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_hold_with_constants_of_float16(name: str, platform: Platform, tmp_path: Path) -> None:
    platform.skip_if_missing()
    model = CASES[name]
    ir.save(model, "model.onnx")
    flags = ["--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--saveType=MINDIR_LITE", "--fp16=on"]
    assert command(*flags).status == 0
    x = normal(3, 40, seed=9)
    x[0, :2] = 0, 1e-3
    Path("run").mkdir()
    outcome = platform.run({"m": (Path("out.ms").read_bytes(), {"x": x})}, tmp_path / "run")["m"]
    assert not outcome.error
    expected = run(model, {"x": x})["y"]
    np.testing.assert_allclose(outcome.outputs["y"], expected, rtol=0, atol=CLOSE * np.abs(expected).max())
