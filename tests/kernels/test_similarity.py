"""Cosine similarity."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.kernels import similarity
from converter_lite.kernels.similarity import as_numbers, cosine_similarity


def test_orthogonal_arrays_have_no_similarity_and_scaled_ones_have_all_of_it() -> None:
    a = np.array([[1.0, 0.0], [2.0, 0.0]], np.float32)
    assert cosine_similarity(a, a[:, ::-1]) == 0.0
    assert cosine_similarity(a, 3 * a) == pytest.approx(1.0, abs=1e-15)
    assert cosine_similarity(a, -a) == pytest.approx(-1.0, abs=1e-15)


def test_two_zero_arrays_are_alike_and_a_zero_array_is_like_nothing_else() -> None:
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert cosine_similarity(zero, zero) == 1.0
    assert cosine_similarity(zero, one) == 0.0
    assert cosine_similarity(one, zero) == 0.0


def test_squares_beyond_float32_do_not_overflow() -> None:
    large = np.array([3e38, 1e38], np.float32)
    assert cosine_similarity(large, large) == pytest.approx(1.0, abs=1e-15)


def test_the_sum_over_blocks_is_the_sum_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(7, 11)).astype(np.float32), rng.normal(size=(7, 11)).astype(np.float32)
    whole = cosine_similarity(a, b)
    monkeypatch.setattr(similarity, "BLOCK", 5)
    assert cosine_similarity(a, b) == pytest.approx(whole, rel=1e-14)
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    assert whole == pytest.approx(float(x @ y / np.sqrt((x @ x) * (y @ y))), rel=1e-14)


def test_texts_are_right_or_wrong() -> None:
    given, expected = (np.array(words.split(), object).reshape(2, 1) for words in ("cat dog", "cat cow"))
    assert [array.tolist() for array in as_numbers(expected, given)] == [[[1.0], [1.0]], [[1.0], [0.0]]]
