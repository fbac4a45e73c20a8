"""Gains that held-out samples are enough to tell."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from converter_lite.learning.judge import LIKELY, Judge
from converter_lite.quantization.score import Score
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from tests.support import Feed, build, normal, random_feed

BEFORE = (0.10, 0.20, 0.30, 0.40, 0.50)


def judge(count: int, *, of_pictures: bool = False) -> Judge:
    size = 16 if of_pictures else 8
    model = build(f"g (float[1,3,{size},{size}] x) => (float[1,3,{size},{size}] y) {{ y = Relu(x) }}")
    feeds: list[Feed] = [random_feed(model, seed=seed) for seed in range(count)]
    return Judge(model, feeds, 0, RunContext())


def score(*noises: float, cosine: float = 0.99) -> Score:
    return Score(cosine, 0.5, sum(noises) / len(noises), noises=noises)


@pytest.mark.parametrize(
    ("after", "is_gain"),
    [
        (score(0.08, 0.17, 0.25, 0.33, 0.41), True),
        (score(0.08, 0.21, 0.29, 0.41, 0.45), False),  # in the mean, by chance
        (score(0.12, 0.25, 0.36, 0.48, 0.10), False),  # one sample alone
        (score(0.08, 0.17, 0.25, 0.33, 0.70), False),
        (score(0.08, 0.17, 0.25, 0.33, 0.41, cosine=0.98), False),
    ],
)
def test_a_gain_is_clear_or_none(after: Score, is_gain: bool) -> None:
    assert judge(5).is_gain(score(*BEFORE), after) is is_gain


def test_of_two_ways_a_likely_gain_is_enough() -> None:
    after = score(0.08, 0.21, 0.29, 0.41, 0.45)
    assert judge(5).is_gain(score(*BEFORE), after, LIKELY)
    assert not judge(5).is_gain(score(*BEFORE), score(0.12, 0.25, 0.36, 0.48, 0.10), LIKELY)


def test_copies_of_a_picture_are_one_observation() -> None:
    pictures = judge(2, of_pictures=True)
    assert pictures.count == 2
    # one picture gains and one loses, however often both are looked at
    assert not pictures.is_gain(score(*(0.10, 0.10) * 4), score(*(0.05, 0.11) * 4))
    assert judge(8).is_gain(score(*(0.10, 0.10) * 4), score(*(0.05, 0.09) * 4))


def test_samples_without_an_error_tell_nothing() -> None:
    assert judge(5).is_gain(score(0.0, 0.2, 0.3, 0.4, 0.5), score(0.0, 0.17, 0.25, 0.33, 0.41))


def test_a_single_sample_has_no_doubt() -> None:
    assert judge(1).is_gain(score(0.10), score(0.09))


def test_pictures_are_judged_with_their_copies() -> None:
    quantized = quantize_weights(classifier(), WeightSettings(bits=4), target="CPU", context=RunContext())
    feeds: list[Feed] = [random_feed(classifier(), seed=seed) for seed in range(2)]
    found = Judge(classifier(), feeds, 0, RunContext()).score(quantized)
    assert len(found.noises) == 8
    assert found.noise == pytest.approx(sum(found.noises) / 8)


def classifier() -> ir.Model:
    return build("g (float[1,3,16,16] x) => (float[1,64,16,16] y) { y = Conv(x, w) }", w=normal(64, 3, 1, 1))
