from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from converter_lite.kernels.histogram import MAX_BINS, Histogram, coarsen, histogram, merge

MAGNITUDES = st.just(0.0) | st.floats(2.0**-80, 2.0**40, width=32)
VALUES = hnp.arrays(np.float32, st.integers(1, 40), elements=MAGNITUDES.flatmap(lambda x: st.sampled_from([x, -x])))


def same(a: Histogram, b: Histogram) -> bool:
    return (a.exponent, a.first) == (b.exponent, b.first) and np.array_equal(a.counts, b.counts)


@settings(derandomize=True, deadline=None)
@given(VALUES, st.data())
def test_the_histogram_does_not_depend_on_split_and_order(values: NDArray[np.float32], data: st.DataObject) -> None:
    whole = histogram(values)
    order = data.draw(st.permutations(range(len(values))))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(values) - 1, 1)), max_size=4)))
    parts = [part for part in np.split(values[order], cuts) if part.size]
    merged = histogram(parts[0])
    for part in parts[1:]:
        merged = merge(merged, histogram(part))
    assert same(merged, whole)


@settings(derandomize=True, deadline=None)
@given(VALUES, VALUES, VALUES)
def test_merging_is_commutative_and_associative(
    a: NDArray[np.float32], b: NDArray[np.float32], c: NDArray[np.float32]
) -> None:
    x, y, z = histogram(a), histogram(b), histogram(c)
    assert same(merge(x, y), merge(y, x))
    assert same(merge(merge(x, y), z), merge(x, merge(y, z)))


@settings(derandomize=True, deadline=None)
@given(VALUES)
def test_every_value_is_counted_in_the_bin_that_holds_it(values: NDArray[np.float32]) -> None:
    h = histogram(values)
    assert h.total == values.size
    assert 1 <= len(h.counts) <= MAX_BINS
    exact = values.astype(np.float64)
    for i in np.flatnonzero(h.counts):
        assert np.count_nonzero((h.edges[i] <= exact) & (exact < h.edges[i + 1])) == h.counts[i]
    assert h.edges[0] <= exact.min()
    assert exact.max() < h.edges[-1]


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -1e-40, 1e-38, 1.0, -1.0, 3.4e38, -3.4e38])
def test_equal_values_fill_one_bin_at_any_magnitude(value: float) -> None:
    h = histogram(np.full((2, 3), value, np.float32))
    assert h.counts.sum() == h.counts.max() == 6
    assert h.edges[int(h.counts.argmax())] <= np.float32(value)


def test_the_full_float32_range_fits() -> None:
    h = histogram(np.array([-3.4e38, 0.0, 3.4e38], np.float32))
    assert h.total == 3
    assert np.all(np.isfinite(h.edges))


def test_wider_bins_keep_the_counts_and_an_edge_at_zero() -> None:
    h = histogram(np.linspace(-3, 5, 1000, dtype=np.float32))
    wide = coarsen(h, h.exponent + 3)
    assert wide.width == 8 * h.width
    assert wide.total == h.total
    assert 0.0 in wide.edges
    assert coarsen(h, h.exponent) is h


def test_a_spread_distribution_uses_at_least_half_of_the_bins() -> None:
    h = histogram(np.linspace(-1, 1.7, 100_000, dtype=np.float32))
    assert MAX_BINS // 2 <= len(h.counts) <= MAX_BINS
