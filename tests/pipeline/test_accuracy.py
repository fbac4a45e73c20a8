from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.errors import QualityError
from converter_lite.kernels.similarity import cosine_similarity
from converter_lite.pipeline.accuracy import ALL_ZERO, compare
from tests.support import normal

Array = NDArray[Any]


class Fixed:
    """A session that gives these outputs, whatever it is fed."""

    def __init__(self, **outputs: Array) -> None:
        self.output_names = list(outputs)
        self._outputs = outputs

    def run(self, feed: Any) -> dict[str, Array]:
        return {name: np.asarray(array + feed["shift"]) for name, array in self._outputs.items()}


def samples(*shifts: float) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    return [({"shift": np.float32(0)}, {"shift": np.float32(shift)}) for shift in shifts]


def test_equal_outputs_are_perfect() -> None:
    out = normal(3, 4)
    (accuracy,) = compare(Fixed(y=out), Fixed(y=out), samples(0, 0))
    assert accuracy.name == "y"
    assert accuracy.cosine == pytest.approx(1)
    assert accuracy.sqnr == float("inf")
    assert accuracy.max_error == 0
    assert accuracy.max_value == np.abs(out).max()


def test_outputs_that_are_nothing_but_zeros_prove_nothing(caplog: pytest.LogCaptureFixture) -> None:
    zeros, numbers = np.zeros((2, 3)), normal(2, 3)
    compare(Fixed(y=zeros, z=zeros), Fixed(y=zeros, z=zeros), samples(0, 0))
    assert caplog.messages == [ALL_ZERO]
    compare(Fixed(y=zeros, z=numbers), Fixed(y=zeros, z=numbers), samples(0, 0))
    compare(Fixed(y=zeros), Fixed(y=zeros), samples(0, 1))
    assert caplog.messages == [ALL_ZERO]


def test_figures_are_means_and_extremes_over_samples() -> None:
    out = np.array([3.0, 4.0])
    (accuracy,) = compare(Fixed(y=out), Fixed(y=out), samples(0, -7, 1))
    cosines = [cosine_similarity(out, out + shift) for shift in (0, -7, 1)]
    assert accuracy.cosine == pytest.approx(np.mean(cosines))
    assert accuracy.least_cosine == pytest.approx(min(cosines))
    assert accuracy.max_error == 7
    assert accuracy.max_value == 4
    assert accuracy.sqnr == pytest.approx(10 * np.log10(3 * 25 / (2 * 49 + 2 * 1)))


def test_figures_do_not_depend_on_the_number_of_threads() -> None:
    reference, written = Fixed(y=normal(3, 4)), Fixed(y=normal(3, 4) + 0.1)
    shifts = samples(*np.linspace(-1, 1, 9))
    assert compare(reference, written, shifts, threads=3) == compare(reference, written, shifts)


def test_outputs_are_compared_by_position_and_named_as_in_the_float_model() -> None:
    reference = Fixed(a=normal(2), b=normal(3))
    written = Fixed(c=normal(2), d=normal(3) + 1)
    first, second = compare(reference, written, samples(0))
    assert (first.name, second.name) == ("a", "b")
    assert first.max_error == 0
    assert second.max_error == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0, 0], [0, 0], 1),
        ([0, 0], [1, 0], 0),
        ([1, 0], [0, 0], 0),
        ([1, 0], [0, 2], 0),
        ([1, 1], [-3, -3], -1),
        ([], [], 1),
    ],
)
def test_the_cosine_of_zeros_is_one_only_where_both_are(a: list[float], b: list[float], expected: float) -> None:
    assert cosine_similarity(np.array(a), np.array(b)) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_only_the_written_model_spoils_are_refused(bad: float) -> None:
    with pytest.raises(QualityError, match="output y: the written model gives NaN or infinite"):
        compare(Fixed(y=np.array([1.0, 2.0])), Fixed(y=np.array([1.0, bad])), samples(0))
    with pytest.raises(QualityError, match="output y"):
        compare(Fixed(y=np.array([1.0, -np.inf])), Fixed(y=np.array([bad, -np.inf])), samples(0))


@pytest.mark.parametrize("mask", [-np.inf, np.inf, np.nan])
@pytest.mark.parametrize("given", [-np.inf, np.nan, -1e9])
def test_masked_values_of_the_float_model_are_left_out(mask: float, given: float) -> None:
    (accuracy,) = compare(Fixed(y=np.array([1.0, 2.0, mask])), Fixed(y=np.array([1.0, 2.5, given])), samples(0))
    assert accuracy.max_error == 0.5
    assert accuracy.max_value == 2
    assert 0.9 < accuracy.cosine < 1


def test_samples_in_which_the_float_model_fails_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    out = normal(2)
    pairs = [(bad, bad) for bad in ({"shift": np.float32("nan")},) * 2]
    (accuracy,) = compare(Fixed(y=out), Fixed(y=out), [*pairs, *samples(0)])
    assert accuracy.cosine == pytest.approx(1)
    assert "output y of the float model is NaN or infinite in 2 of 3 samples" in caplog.text
    (accuracy,) = compare(Fixed(y=out), Fixed(y=out), pairs)
    assert (accuracy.cosine, accuracy.sqnr) == (0, 0)


def test_outputs_that_are_nan_in_part_are_named(caplog: pytest.LogCaptureFixture) -> None:
    half, masked = np.array([1.0, np.nan]), np.array([1.0, -np.inf])
    compare(Fixed(y=half, z=masked), Fixed(y=half, z=masked), samples(0, 0))
    assert [record.getMessage() for record in caplog.records] == [
        "output y of the float model holds NaN, which is not compared, in 2 of 2 samples"
    ]


def test_other_shapes_are_refused() -> None:
    with pytest.raises(QualityError, match=r"output y: the written model gives shape \[3\] instead of \[2\]"):
        compare(Fixed(y=np.ones(2)), Fixed(y=np.ones(3)), samples(0))


def test_empty_and_integer_outputs_can_be_compared() -> None:
    empty, whole = compare(
        Fixed(e=np.zeros((0, 4)), i=np.array([1, 2])), Fixed(e=np.zeros((0, 4)), i=np.array([1, 3])), samples(0)
    )
    assert (empty.cosine, empty.max_error) == (1, 0)
    assert whole.max_error == 1


class Growing:
    """A session whose output has one value more in every sample."""

    output_names = ("y",)

    def __init__(self, length: int = 2) -> None:
        self._length = length

    def run(self, feed: Any) -> dict[str, Array]:
        self._length += 1
        return {"y": np.ones((1, self._length))}


def test_samples_whose_length_depends_on_the_result_are_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (accuracy,) = compare(Fixed(y=np.ones((1, 4))), Growing(), samples(0, 0, 0), open_axes={"y": frozenset({1})})
    assert accuracy.cosine == pytest.approx(1)
    assert "output y has another length than that of the float model in 2 of 3 samples" in caplog.text


def test_an_output_that_can_never_be_compared_has_cosine_zero() -> None:
    (accuracy,) = compare(Fixed(y=np.ones((1, 9))), Growing(), samples(0, 0), open_axes={"y": frozenset({1})})
    assert (accuracy.cosine, accuracy.least_cosine, accuracy.sqnr) == (0, 0, 0)


@pytest.mark.parametrize("open_axes", [{}, {"y": frozenset({0})}, {"other": frozenset({1})}])
def test_another_length_of_an_axis_that_is_known_is_an_error(open_axes: dict[str, frozenset[int]]) -> None:
    with pytest.raises(QualityError, match="shape"):
        compare(Fixed(y=np.ones((1, 9))), Growing(), samples(0), open_axes=open_axes)


def test_samples_in_which_neither_model_finds_anything_have_no_cosine() -> None:
    class Found(Fixed):
        def run(self, feed: Any) -> dict[str, Array]:
            return {"y": self._outputs["y"] * feed["shift"]}

    reference, written = Found(y=np.array([1.0, 0.0])), Found(y=np.array([0.6, 0.8]))
    pairs = [({"shift": np.float32(scale)},) * 2 for scale in (1e-3, 1.0, 1e-7, 1e-3)]
    (accuracy,) = compare(reference, written, pairs, thresholds={"y": 1 / 256})
    assert (accuracy.cosine, accuracy.least_cosine) == pytest.approx((0.6, 0.6))
    assert accuracy.empty == 3
    (plain,) = compare(reference, written, pairs)
    assert (plain.cosine, plain.empty) == (pytest.approx(0.6), 0)


def test_a_file_that_finds_what_is_not_there_has_a_cosine() -> None:
    (accuracy,) = compare(
        Fixed(y=np.array([1e-7, 0])), Fixed(y=np.array([0, 1e-2])), samples(0), thresholds={"y": 1 / 256}
    )
    assert (accuracy.cosine, accuracy.empty) == (0, 0)


def test_an_output_that_finds_nothing_in_any_sample_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    empty = Fixed(y=np.array([1e-7, 0])), Fixed(y=np.array([0, 1e-7]))
    (accuracy,) = compare(*empty, samples(0, 0), thresholds={"y": 1 / 256})
    assert (accuracy.cosine, accuracy.empty) == (1, 2)
    assert "output y: nothing is found in any sample" in caplog.text
