"""The preprocessing doctor on networks that know what they were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx_ir as ir
import pytest
from PIL import Image

from converter_lite.config.names import ImageFormat, InputType
from converter_lite.config.sections.data import DataPreprocessParam
from converter_lite.data.inputs import InputSpec
from converter_lite.data.layout import Layout
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.passes.pipeline import optimize
from converter_lite.preprocessing.doctor import (
    FEW,
    FIRST_SAMPLES,
    SURE,
    Finding,
    Mistake,
    Preparation,
    _Examination,
    certainty,
    examine,
    preparation_of,
)
from converter_lite.preprocessing.normalization import IMAGENET, PIXELS, SIGNED, UNIT, USUAL, Normalization, View, guess
from converter_lite.preprocessing.pictures import picture, write_preview
from converter_lite.preprocessing.probe import Probe, Statistics
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import DEFAULT_ENGINE, Feed
from tests.support import build, normal

COUNT = 16
SAMPLES = Path(__file__).parents[2] / "samples"
UNKNOWN = Preparation()
Pictures = list[np.ndarray]


def pictures(count: int = COUNT) -> Pictures:
    """Smooth pictures of 16x16 with much red and little blue, 0 to 255."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:16, 0:16] / 16
    found = []
    for _ in range(count):
        a, b, c = rng.uniform(0.5, 3, 3)
        wave = np.stack([np.sin(a * x + i) * np.cos(b * y + c) for i in range(3)], axis=-1)
        found.append(np.clip(np.array([190, 120, 50]) + 60 * wave + rng.normal(0, 4, wave.shape), 0, 255))
    return found


def feeds(
    made: Pictures, used: Normalization, *, swapped: bool = False, turned: bool = False
) -> list[dict[str, np.ndarray]]:
    mean, std = used.vectors(3, blue_first=False)
    found = []
    for one in made:
        values = ((one[..., ::-1] if swapped else one) - mean) / std
        array = values.reshape(3, 16, 16) if turned else values.transpose(2, 0, 1)
        found.append({"x": np.ascontiguousarray(array[np.newaxis], np.float32)})
    return found


def trained(used: Normalization, *, bias: float | None = None) -> ir.Model:
    """Two convolutions with the BatchNormalization that training on the pictures leaves behind; ``bias``: folded already."""
    w1, w2 = normal(12, 3, 3, 3, seed=1), normal(12, 12, 3, 3, seed=2) / 6
    constants = {"w1": w1, "w2": w2, "w3": normal(4, 12, seed=3)}
    if bias is not None:
        graph = "c1 = Conv(x, w1, b1) r1 = Relu(c1) c2 = Conv(r1, w2)"
        constants["b1"] = np.full(12, bias, np.float32)
    else:
        graph = "k1 = Conv(x, w1) c1 = BatchNormalization(k1, s1, t1, m1, v1) r1 = Relu(c1)"
        graph += " k2 = Conv(r1, w2) c2 = BatchNormalization(k2, s1, t1, m2, v2)"
        constants |= {"s1": np.ones(12, np.float32), "t1": np.zeros(12, np.float32)}
        constants |= dict.fromkeys(("m1", "m2"), np.zeros(12, np.float32)) | dict.fromkeys(
            ("v1", "v2"), np.ones(12, np.float32)
        )
    head, tail = (
        "g (float[1,3,16,16] x) => (float[1,4] y)",
        "p = GlobalAveragePool(c2) f = Flatten(p) y = Gemm<transB = 1>(f, w3)",
    )
    text = f"{head} {{ {graph} {tail} }}"
    model = build(text, **constants)
    for name, mean, variance in () if bias is not None else (("k1", "m1", "v1"), ("k2", "m2", "v2")):
        values = np.stack([_values(model, name, feed) for feed in feeds(pictures(64), used)])
        for constant, array in ((mean, values.mean((0, 1, 3, 4))), (variance, values.var((0, 1, 3, 4)))):
            model.graph.initializers[constant].const_value = ir.Tensor(array.astype(np.float32), name=constant)
    return optimize(model, level="general").model


def _values(model: ir.Model, name: str, feed: dict[str, np.ndarray]) -> np.ndarray:
    copy = model.clone()
    values = {output.name: output for node in copy.graph for output in node.outputs}
    copy.graph.outputs[:] = [values[name]]
    return DEFAULT_ENGINE.session(ir.to_proto(copy).SerializeToString(), threads=1).run(feed)[name]


def mistakes(model: ir.Model, samples: list[dict[str, np.ndarray]], preparation: Preparation = UNKNOWN) -> set[Mistake]:
    return {finding.mistake for finding in found(model, samples, preparation)}


def found(model: ir.Model, samples: list[dict[str, np.ndarray]], preparation: Preparation = UNKNOWN) -> list[Finding]:
    return examine(model, samples, preparation=preparation, samples=100, context=RunContext())


@pytest.mark.parametrize("used", [PIXELS, UNIT, SIGNED, IMAGENET])
def test_right_samples_are_not_doubted(used: Normalization) -> None:
    assert mistakes(trained(used), feeds(pictures(), used)) == set()


@pytest.mark.parametrize(("right", "used"), [(SIGNED, PIXELS), (SIGNED, UNIT), (PIXELS, SIGNED), (IMAGENET, UNIT)])
def test_another_normalization_is_found_and_the_right_one_named(right: Normalization, used: Normalization) -> None:
    (finding,) = found(trained(right), feeds(pictures(), used))
    assert (finding.mistake, finding.wanted) == (Mistake.NORMALIZATION, right)
    assert finding.input == "x"


def test_the_right_normalization_is_named_where_the_first_samples_lean_to_another_one_only() -> None:
    model = optimize(read_onnx(SAMPLES / "shapes.onnx"), level="general").model
    files = sorted((SAMPLES / "calibration").glob("*.jpg"))[:5]
    samples = [{"input": np.asarray(Image.open(file), np.float32).transpose(2, 0, 1)[np.newaxis]} for file in files]
    (finding,) = found(model, samples)
    assert finding.wanted == SIGNED


def test_the_message_says_which_keys_to_set() -> None:
    (finding,) = found(trained(SIGNED), feeds(pictures(), PIXELS))
    assert "normalize_mean=[127.5, 127.5, 127.5] and normalize_std=[127.5, 127.5, 127.5]" in finding.message


@pytest.mark.parametrize(
    ("order", "swapped", "first"),
    [("RGB", False, 123.675), ("BGR", False, 103.53), ("BGR", True, 123.675)],
)
def test_the_keys_are_in_the_order_of_the_channels_after_the_advice(order: str, swapped: bool, first: float) -> None:
    samples = feeds(pictures(), PIXELS, swapped=swapped)
    findings = found(trained(IMAGENET), samples, Preparation(True, PIXELS, order))
    assert [finding.mistake for finding in findings][1:] == [Mistake.CHANNELS] * swapped
    assert f"set normalize_mean=[{first}, 116.28," in findings[0].message


def test_the_keys_of_grey_pictures_have_one_number_each() -> None:
    assert UNIT.keys(1, blue_first=False) == "normalize_mean=[0] and normalize_std=[255]"


@pytest.mark.parametrize(
    ("order", "advice"), [("RGB", "image_to_format=BGR"), ("BGR", "image_to_format=RGB"), ("", "exchange")]
)
def test_exchanged_channels_are_found(order: str, advice: str) -> None:
    preparation = Preparation(True, SIGNED, order) if order else Preparation()
    (finding,) = found(trained(SIGNED), feeds(pictures(), SIGNED, swapped=True), preparation)
    assert finding.mistake is Mistake.CHANNELS
    assert advice in finding.message


def test_channels_of_right_samples_are_compared_on_a_few_of_them_only(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    original = _Examination._both_orders

    def counting(self: _Examination, wanted: Normalization | None, count: int) -> tuple[Statistics, Statistics]:
        compared.append(count)
        return original(self, wanted, count)

    monkeypatch.setattr(_Examination, "_both_orders", counting)
    assert mistakes(trained(SIGNED), feeds(pictures(), SIGNED)) == set()
    assert compared == [FEW]
    assert mistakes(trained(SIGNED), feeds(pictures(), SIGNED, swapped=True)) == {Mistake.CHANNELS}
    assert compared[2] > FEW


def test_normalizations_are_compared_on_few_samples_unless_these_lean_to_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []
    original = Probe.__call__

    def counting(self: Probe, feeds: Sequence[Feed]) -> Statistics:
        runs.append(len(feeds))
        return original(self, feeds)

    monkeypatch.setattr(Probe, "__call__", counting)
    assert mistakes(trained(SIGNED), feeds(pictures(), SIGNED)) == set()
    assert sum(runs) == FIRST_SAMPLES * (len(USUAL) - 1) + 2 * FEW
    runs.clear()
    assert mistakes(trained(SIGNED), feeds(pictures(), PIXELS)) == {Mistake.NORMALIZATION}
    assert sum(runs) > FIRST_SAMPLES * (len(USUAL) - 1) + 2 * FEW


def test_a_turned_layout_is_found_before_anything_else() -> None:
    assert mistakes(trained(SIGNED), feeds(pictures(), SIGNED, turned=True)) == {Mistake.LAYOUT}


def test_equal_and_constant_samples_are_found() -> None:
    model, one = trained(SIGNED), feeds(pictures(1), SIGNED)
    assert mistakes(model, one * 4) == {Mistake.EQUAL}
    assert mistakes(model, one) == set()
    assert mistakes(model, [{"x": np.full((1, 3, 16, 16), 0.5, np.float32)}] * 2) == {Mistake.CONSTANT}


def test_without_batch_normalization_the_first_bias_shows_a_range_that_is_far_off() -> None:
    model = trained(SIGNED, bias=0.8)
    assert Mistake.NORMALIZATION in mistakes(model, feeds(pictures(), PIXELS))
    assert mistakes(model, feeds(pictures(), SIGNED)) == set()


def test_values_of_no_usual_normalization_are_compared_with_none() -> None:
    """Sensor data, or pictures whose own mean was taken away; a small first bias says nothing about them."""
    samples = [{"x": 4 * normal(1, 3, 16, 16, seed=seed)} for seed in range(COUNT)]
    assert mistakes(trained(SIGNED, bias=0.001), samples) == set()


COLOURED = """
g (float[1,3,16,16] x) => (float[1,4] y) {
    c1 = Conv(x, w1)
    r1 = Relu(c1)
    c2 = Conv(r1, w2)
    r2 = Relu(c2)
    p = GlobalAveragePool(r2)
    f = Flatten(p)
    y = Gemm<transB = 1>(f, w3)
}
"""


@pytest.mark.parametrize("swapped", [False, True])
def test_without_batch_normalization_the_answers_to_both_orders_are_compared(swapped: bool) -> None:
    w1 = np.abs(normal(12, 3, 3, 3)) * np.array([1.0, 0.1, -1.0], np.float32).reshape(1, 3, 1, 1)  # red, not blue
    model = build(COLOURED, w1=w1, w2=normal(12, 12, 3, 3, seed=2) / 6, w3=normal(4, 12, seed=3))
    samples = feeds(pictures(), SIGNED, swapped=swapped)
    assert mistakes(optimize(model, level="general").model, samples) == ({Mistake.CHANNELS} if swapped else set())


@pytest.mark.parametrize(
    ("graph", "x", "expected"),
    [
        ("(float[1,4] x) => (float[1,4] y) { y = MatMul(x, w) }", [[1, 2, 3, 6]], 3.0),
        ("(float[1,4] x) => (float[1,4] y) { m = MatMul(x, w) y = Softmax(m) }", [[1, 2, 3, 6]], 3.0),
        ("(float[1,2,2] x) => (float[1,2,2] y) { m = MatMul(x, w) y = Softmax(m) }", [[[0, 0], [0, 60]]], 15.0),
        ("(float[1,2,2] x) => (float[1,2,2] y) { y = MatMul(x, w) }", [[[0, 0], [0, 60]]], 0.0),
    ],
    ids=["logits", "probabilities", "places", "no classes"],
)
def test_the_margin_is_that_of_the_strongest_class_or_place(graph: str, x: list[object], expected: float) -> None:
    feed = np.array(x, np.float32)
    model = build(f"g {graph}", w=np.eye(feed.shape[-1], dtype=np.float32))
    measured = Probe(model, RunContext())([{"x": feed}])
    assert measured.margins.tolist() == pytest.approx([expected], abs=0.5)


def test_certainty_grows_with_samples_that_agree_and_leaves_out_what_says_nothing() -> None:
    told = np.array([1.0, 2.0, 3.0, 2.0] * 4)
    assert certainty(np.stack([told, told * 0])) == certainty(told[np.newaxis]) > SURE
    assert certainty(-told[np.newaxis]) < -SURE
    assert 0 < certainty(told[np.newaxis, :3]) < SURE  # three samples are few
    assert certainty(np.zeros((2, 16))) == 0.0


def test_inputs_that_are_no_pictures_are_left_alone() -> None:
    model = build("g (float[1,40] x) => (float[1,4] y) { y = MatMul(x, w) }", w=normal(40, 4))
    assert mistakes(model, [{"x": 1000 * normal(1, 40, seed=seed)} for seed in range(4)]) == set()


def test_states_of_no_step_are_passed_over() -> None:
    model = build("g (float[1,T,4] past, float[1,4] x) => (float[1,T,4] y) { y = Add(past, x) }")
    lengths, x = (2, 0), normal(1, 4)
    assert mistakes(model, [{"past": normal(1, length, 4), "x": x + length} for length in lengths]) == set()
    zeros = [{"past": np.zeros((1, length, 4), np.float32), "x": x + length} for length in lengths]
    assert [(finding.mistake, finding.input) for finding in found(model, zeros)] == [(Mistake.CONSTANT, "past")]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        *(
            (0, 255, PIXELS),
            (0, 1, UNIT),
            (-1, 1, SIGNED),
            (-0.992, 1.0, SIGNED),
            (-2.1, 2.6, IMAGENET),
            (0, 40, PIXELS),
        ),
        *((-3.5, 3.5, None), (-123, 151, None), (0, 1024, None)),
    ],
)
def test_the_range_of_the_values_tells_their_normalization(
    low: float, high: float, expected: Normalization | None
) -> None:
    assert guess(low, high, channels=3) is expected


def test_grey_pictures_are_not_taken_for_those_with_a_mean_per_colour(tmp_path: Path) -> None:
    grey = [{"x": np.clip(normal(1, 1, 16, 16, seed=seed), -2.0, 2.6)} for seed in range(4)]
    model = build(
        "g (float[1,1,16,16] x) => (float[1,4,14,14] y) { y = Conv(x, w, b) }", w=normal(4, 1, 3, 3), b=normal(4)
    )
    assert mistakes(model, grey) == set()
    assert write_preview(tmp_path, [InputSpec("x", np.dtype(np.float32), (1, 1, 16, 16))], grey, UNKNOWN) == 4


def test_a_view_changes_and_swaps_pictures_and_back() -> None:
    view = View(Layout.NCHW, IMAGENET, blue_first=False)
    array = feeds(pictures(1), IMAGENET)[0]["x"]
    np.testing.assert_allclose(view.swapped(view.swapped(array)), array, atol=1e-5)
    np.testing.assert_allclose(view.changed(array, SIGNED), feeds(pictures(1), SIGNED)[0]["x"], atol=1e-5)
    np.testing.assert_allclose(view.swapped(array), feeds(pictures(1), IMAGENET, swapped=True)[0]["x"], atol=1e-5)


def test_a_configuration_without_pictures_says_nothing_about_the_values() -> None:
    assert preparation_of(None) == Preparation()


def test_the_preview_shows_the_first_channel_as_red(tmp_path: Path) -> None:
    spec = InputSpec("x", np.dtype(np.float32), (None, 3, 16, 16))
    made = pictures(10)
    assert write_preview(tmp_path / "new/folder", [spec], feeds(made, SIGNED), Preparation(True, SIGNED)) == 8
    shown = np.asarray(Image.open(tmp_path / "new/folder/000.png"))
    np.testing.assert_allclose(shown, made[0], atol=1.0)
    turned = picture(spec, feeds(made, SIGNED, swapped=True)[0], Preparation(True, SIGNED))
    np.testing.assert_allclose(turned, made[0][..., ::-1], atol=1.0)


def test_the_preview_of_blue_first_takes_back_the_numbers_of_each_channel() -> None:
    spec = InputSpec("x", np.dtype(np.float32), (None, 3, 16, 16))
    preparation = preparation_of(
        DataPreprocessParam(
            input_type=InputType.IMAGE,
            image_to_format=ImageFormat.BGR,
            normalize_mean=IMAGENET.mean[::-1],
            normalize_std=IMAGENET.std[::-1],
        )
    )
    (one,) = pictures(1)
    mean, std = IMAGENET.vectors(3, blue_first=True)
    prepared = ((one[..., ::-1] - mean) / std).transpose(2, 0, 1)[np.newaxis].astype(np.float32)
    np.testing.assert_allclose(picture(spec, {"x": prepared}, preparation), one[..., ::-1], atol=1.0)


def test_a_network_too_large_for_a_single_run_is_not_loaded() -> None:
    model = build("g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }", w=normal(4, 3, 3, 3))
    engine = Mock(wraps=DEFAULT_ENGINE)
    probe = Probe(model, RunContext(engine=engine))
    assert probe.is_observed and not engine.session.called
    probe([{"x": normal(1, 3, 8, 8)}])
    assert engine.session.call_count == 1
