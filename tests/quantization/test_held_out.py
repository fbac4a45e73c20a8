"""Samples that judge what is learnt, and copies of those that it is learnt from."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.quantization import held_out
from converter_lite.quantization.held_out import COPIES, FittingSamples, split, times, with_copies
from converter_lite.quantization.pictures import changed, channel_axis
from converter_lite.runtime.engine import Feed
from tests.support import Samples, normal


def test_every_fifth_sample_is_held_out() -> None:
    fitted, held_out = split(range(12))
    assert fitted == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]
    assert held_out == [4, 9]
    assert len(split(range(200))[1]) <= 24
    assert split([1]) == ([1], [1])
    assert split([1, 2]) == ([1], [2])


def test_layers_are_fitted_to_changed_copies_but_not_to_what_judges() -> None:
    samples = Samples({"x": normal(1, 3, 16, 16, seed=seed)} for seed in range(10))
    fitting = FittingSamples(samples)
    found = fitting.head(100)
    assert len(found) == 8 * COPIES
    assert all(not np.array_equal(feed["x"], samples[i]["x"]) for feed in found for i in (4, 9))
    assert found[0] is samples[0]
    np.testing.assert_array_equal(found[9]["x"], fitting.head(100)[9]["x"])
    assert len(list(fitting)) == len(fitting) == 10


def test_samples_that_are_no_pictures_have_no_copies() -> None:
    assert len(FittingSamples(Samples({"x": normal(1, 7)} for _ in range(10))).head(100)) == 8


def test_a_copy_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a hundred pictures are 180 MB; learning stores them in half precision."""
    made: list[Feed] = []

    def copy(feed: Feed, *_: object) -> Feed:
        made.append(feed)
        return feed

    monkeypatch.setattr(held_out, "changed", copy)
    pictures = [{"x": normal(1, 3, 16, 16, seed=seed)} for seed in range(3)]
    copies = with_copies(pictures, 0)
    given = [next(copies) for _ in range(4)]
    assert all(given[i] is pictures[i % 3] for i in range(4))
    assert len(made) == 1
    assert 4 + len(list(copies)) == len(pictures) * times(pictures) == 3 * COPIES


def test_as_many_copies_are_made_as_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [{"x": normal(1, 3, 16, 16, seed=seed)} for seed in range(3)]
    monkeypatch.setattr(held_out, "COPIES_BYTES", 2 * 3 * pictures[0]["x"].nbytes)
    assert times(pictures) == 2
    monkeypatch.setattr(held_out, "COPIES_BYTES", 1)
    assert times(pictures) == 1


def test_pictures_are_mirrored_and_cut() -> None:
    picture = np.broadcast_to(np.linspace(0, 1, 32, dtype=np.float32), (8, 3, 20, 32))
    made = changed({"x": picture}, 1, np.random.default_rng(1))["x"]
    assert made.shape == picture.shape
    assert made.dtype == np.float32
    assert len(set(made[:, 0, 0, -1] > made[:, 0, 0, 0])) == 2
    assert (np.ptp(made, axis=(1, 2, 3)) < 1).all()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 3, 20, 32), 1), ((1, 20, 32, 3), 3), ((1, 8, 20, 32), None), ((1, 3, 8, 8), None), ((3, 9), None)],
)
def test_pictures_are_known_by_their_shape(shape: tuple[int, ...], axis: int | None) -> None:
    assert channel_axis({"x": np.zeros(shape, np.float32)}) == axis
