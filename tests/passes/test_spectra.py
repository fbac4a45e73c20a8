"""Fourier transforms as products: the numbers of onnxruntime's own kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.passes.pipeline import optimize
from converter_lite.passes.spelled_out import spectra
from converter_lite.passes.spelled_out.spectra import spell_out_dft, spell_out_stft
from tests.support import assert_same_outputs, build, clone, normal, operators, random_feed, run


def dft(shape: str, attributes: str, inputs: str, opset: int, **constants: int) -> ir.Model:
    text = f"g (float[{shape}] x) => (float[a,b,c,d] y) {{ y = DFT{attributes}(x{inputs}) }}"
    text = text.replace("[a,b,c,d]", f"[{','.join('abcdef'[: shape.count(',') + 1])}]")
    return build(text, opset=opset, **{name: np.array(value) for name, value in constants.items()})


Case = tuple[str, str, str, int, dict[str, int]]

BOTH_SIDES: list[Case] = [
    ("2,12", "", "", 17, {}),
    ("2,12", "<inverse=1>", "", 17, {}),
    ("2,3,8", "<axis=2>", "", 17, {}),
    ("4,6,8", "<axis=0>", "", 17, {}),
    ("4,6,8", "<axis=-2>", "", 17, {}),
    ("2,12", "", ", n", 17, {"n": 7}),
    ("2,12", "<inverse=1>", ", n", 17, {"n": 16}),
    ("2,3,8", "", "", 20, {}),
    ("5,6,8", "<inverse=1>", ", n, axis", 20, {"axis": 0, "n": 4}),
]
ONE_SIDE: list[Case] = [
    ("3,10", "<onesided=1>", "", 17, {}),
    ("3,9", "<onesided=1>", "", 17, {}),
    ("2,6,8", "<axis=1, onesided=1>", "", 17, {}),
    ("2,12", "<onesided=1>", ", n", 17, {"n": 16}),
    ("2,6,8", "<onesided=1>", ", , axis", 20, {"axis": 1}),
]
"""Real numbers only."""


@pytest.mark.parametrize(
    ("case", "parts"), [*((case, parts) for case in BOTH_SIDES for parts in (1, 2)), *((case, 1) for case in ONE_SIDE)]
)
def test_a_transform(case: Case, parts: int) -> None:
    shape, attributes, inputs, opset, constants = case
    model = dft(f"{shape},{parts}", attributes, inputs, opset, **constants)
    before = clone(model)
    assert spell_out_dft(model) == 1
    assert operators(model)["MatMul"] == 1 and "DFT" not in operators(model)
    assert_same_outputs(before, model, random_feed(before), rtol=1e-5)


@pytest.mark.parametrize(("places", "length"), [(9, None), (9, 16), (9, 17), (9, 12), (5, 16), (1, 1), (2, None)])
def test_back_from_one_side(places: int, length: int | None) -> None:
    given = {} if length is None else {"n": length}
    model = dft(f"3,{places},2", "<inverse=1, onesided=1>", ", n" if given else "", 20, **given)
    assert spell_out_dft(model) == 1
    feed = random_feed(model)
    spectrum = feed["x"][..., 0] + 1j * feed["x"][..., 1]
    expected = np.fft.irfft(spectrum.astype(np.complex128), length)
    np.testing.assert_allclose(run(model, feed)["y"][..., 0], expected, atol=1e-6)


def test_real_numbers_have_no_side_to_come_back_from() -> None:
    assert spell_out_dft(dft("3,9,1", "<inverse=1, onesided=1>", "", 20)) == 0


@pytest.mark.parametrize(
    ("attributes", "inputs"),
    [
        ("<onesided=1>", ", window"),
        ("<onesided=1>", ", , length"),
        ("<onesided=0>", ", window, length"),
        ("", ", window"),
    ],
)
@pytest.mark.parametrize("step", [3, 16])
def test_frames(attributes: str, inputs: str, step: int) -> None:
    given = {"step": np.array(step), "window": np.hanning(16).astype(np.float32), "length": np.array(16)}
    text = f"g (float[2,70,1] x) => (float[a,b,c,d] y) {{ y = STFT{attributes}(x, step{inputs}) }}"
    model = build(text, opset=17, **{name: array for name, array in given.items() if name in text})
    before = clone(model)
    assert spell_out_stft(model) == 1
    assert operators(model)["Conv"] == 1 and "STFT" not in operators(model)
    assert_same_outputs(before, model, random_feed(before), rtol=1e-5)


@pytest.mark.parametrize("step", [4, 16])
def test_frames_of_signals_without_an_axis_for_parts(step: int, tmp_path: Path) -> None:
    window = np.hanning(16).astype(np.float32)
    text = "g (float[2,70] x) => (float[a,b,c,d] y) { y = STFT(x, step, window) }"
    ir.save(build(text, opset=17, step=np.array(step), window=window), tmp_path / "m.onnx")
    model = read_onnx(tmp_path / "m.onnx")
    before = clone(model)
    assert spell_out_stft(model) == 1
    assert_same_outputs(before, model, random_feed(before), rtol=1e-5)


def test_many_frames_are_a_column_for_a_convolution() -> None:
    text = "g (float[1,24620,1] x) => (float[a,b,c,d] y) { y = STFT(x, step, window) }"
    model = build(text, opset=17, step=np.array(3), window=np.hanning(20).astype(np.float32))
    before = clone(model)
    optimize(model, spelled_out=frozenset({"STFT", "Conv of long rows"}))
    (conv,) = [node for node in model.graph if node.op_type == "Conv"]
    assert g.static_shape(conv.outputs[0]) == (1, 22, 8201, 1)
    assert_same_outputs(before, model, random_feed(before), rtol=1e-5)


def test_a_product_of_one_side_of_the_frequencies_is_read(tmp_path: Path) -> None:
    text = """g (float[n,70,1] x) => (float[a,b,c,d] y) {
        f = STFT(x, step, window) m = Transpose<perm=[0,3,1,2]>(f) y = MatMul(m, w) }"""
    ir.save(build(text, opset=17, step=np.array(4), window=normal(16), w=normal(9, 3)), tmp_path / "m.onnx")
    model = read_onnx(tmp_path / "m.onnx", input_shapes={"x": (2, 70, 1)})
    assert run(model, random_feed(model))["y"].shape == (2, 2, 14, 3)


LONG_ONES: list[tuple[str, str]] = [
    ("2,512,1", ""),
    ("2,512,1", "<onesided=1>"),
    ("3,600,1", "<onesided=1>"),
    ("1,625,2", ""),
    ("2,512,2", "<inverse=1>"),
    ("512,3,1", "<axis=0>"),
]


def transformed(x: np.ndarray, attributes: str) -> np.ndarray:
    """In double precision: onnxruntime's own kernel loses two digits where the length is no power of two."""
    numbers = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    axis = 0 if "axis=0" in attributes else 1
    found = np.fft.ifft(numbers, axis=axis) if "inverse" in attributes else np.fft.fft(numbers, axis=axis)
    if "onesided" in attributes:
        found = found[:, : x.shape[1] // 2 + 1]
    return np.stack([found.real, found.imag], axis=-1)


@pytest.mark.parametrize(("shape", "attributes"), LONG_ONES)
def test_a_long_transform_takes_two_small_products(shape: str, attributes: str) -> None:
    model = dft(shape, attributes, "", 17)
    assert spell_out_dft(model) == 1
    assert operators(model)["MatMul"] == 2
    weights = [g.constant(value) for value in model.graph.initializers.values() if g.FREQUENCIES in value.meta]
    assert sum(weight.size for weight in weights if weight is not None) < 150_000
    feed = random_feed(model)
    expected = transformed(feed["x"], attributes)
    np.testing.assert_allclose(run(model, feed)["y"], expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("shape", ["2,521,1", "2,2062,1"])
def test_a_long_transform_without_alike_factors_takes_one(shape: str) -> None:
    model = dft(shape, "<onesided=1>", "", 17)
    assert spell_out_dft(model) == 1
    assert operators(model)["MatMul"] == 1
    feed = random_feed(model)
    expected = transformed(feed["x"], "<onesided=1>")
    np.testing.assert_allclose(run(model, feed)["y"], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("shape", "attributes", "step", "has_window", "products"),
    [
        ("2,2000,1", "<onesided=1>", 128, True, 2),
        ("1,1111,2", "<onesided=0>", 256, False, 2),
        ("1,1024,1", "", 512, True, 2),
        ("1,1100,1", "<onesided=1>", 100, True, 0),
        ("1,600,1", "<onesided=1>", 16, True, 0),
    ],
)
def test_long_frames(shape: str, attributes: str, step: int, has_window: bool, products: int) -> None:
    hann = np.hanning(512).astype(np.float32)
    constants = {"step": np.array(step), **({"window": hann} if has_window else {"length": np.array(512)})}
    inputs = ", window" if has_window else ", , length"
    text = f"g (float[{shape}] x) => (float[a,b,c,d] y) {{ y = STFT{attributes}(x, step{inputs}) }}"
    model = build(text, opset=17, **constants)
    assert spell_out_stft(model) == 1
    assert operators(model)["MatMul"] == products
    feed = random_feed(model)
    numbers = feed["x"][..., 0] + (1j * feed["x"][..., 1] if feed["x"].shape[-1] == 2 else 0)
    frames = np.lib.stride_tricks.sliding_window_view(numbers.astype(np.complex128), 512, axis=1)[:, ::step]
    found = np.fft.fft(frames * (hann if has_window else 1))
    found = found if "onesided=0" in attributes else found[..., :257]
    expected = np.stack([found.real, found.imag], axis=-1)
    np.testing.assert_allclose(run(model, feed)["y"], expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_the_matrix_is_known_as_one_of_frequencies() -> None:
    model = dft("2,12,1", "", "", 17)
    spell_out_dft(model)
    (weight,) = [value for value in model.graph.initializers.values() if g.FREQUENCIES in value.meta]
    array = g.constant(weight)
    assert array is not None and array.shape == (12, 24)
    np.testing.assert_allclose(array[:, 0::2] + 1j * array[:, 1::2], np.fft.fft(np.eye(12)), atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[n,8,1] x) => (float[n,8,2] y) { y = DFT(x) }",
        "g (double[2,8,1] x) => (double[2,8,2] y) { y = DFT(x) }",
        "g (float[2,8,1] x, int64 n) => (float[2,m,2] y) { y = DFT(x, n) }",
        "g (float[2,8,1] x, float[4] w) => (float[2,a,b,2] y) { y = STFT(x, four, w) }",
        "g (float[2,8,1] x, int64 n) => (float[2,a,b,2] y) { y = STFT(x, n, hann) }",
        "g (float[n,8,1] x) => (float[n,a,b,2] y) { y = STFT(x, four, hann) }",
    ],
)
def test_what_is_not_known_stays(text: str) -> None:
    constants = {"four": np.array(4), "hann": normal(4)}
    model = build(text, opset=17, **{name: array for name, array in constants.items() if f", {name}" in text})
    assert spell_out_dft(model) + spell_out_stft(model) == 0


def test_a_matrix_beyond_the_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "LARGEST", 2 * 12 * 12 - 1)
    assert spell_out_dft(dft("2,12,1", "", "", 17)) == 0
    assert spell_out_dft(dft("2,11,1", "", "", 17)) == 1
