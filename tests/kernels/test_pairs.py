"""Weights with which no kernel can saturate, against loops over pairs and against the arithmetic of the processor."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.kernels import pairs as kernels
from converter_lite.kernels.pairs import (
    PAIR_LIMIT,
    PairRule,
    convolution_rule,
    count_pairs,
    count_violations,
    matrix_rule,
    may_grow,
    repair,
    repair_rows,
    step_factors,
)
from converter_lite.kernels.params import QuantSpec, weight_params

SEEDS = st.integers(0, 2**31)
CONVOLUTIONS = st.tuples(
    st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(1, 3), min_size=0, max_size=2).map(tuple)
)
"""Output channels, input channels of a group, kernel."""

FULL = settings(derandomize=True, deadline=None, max_examples=40)


def weights(shape: tuple[int, ...], seed: int) -> NDArray[np.int8]:
    """Integers of which many are large."""
    rng = np.random.default_rng(seed)
    return np.clip(np.rint(rng.normal(size=shape) * 90), -127, 127).astype(np.int8)


def elements(rule: PairRule, shape: tuple[int, ...]) -> list[set[frozenset[tuple[int, ...]]]]:
    """The pairs of each order as places of the weight's summed axes, for the first sum."""
    axes = sorted(rule.summed)
    places = list(product(*(range(shape[axis]) for axis in axes)))
    return [{frozenset((places[a], places[b])) for a, b in columns.tolist()} for columns in rule.pairs(shape)]


def convolution(shape: tuple[int, ...], group: int) -> PairRule:
    rule = convolution_rule(shape, group)
    assert rule is not None
    return rule


def violations_of_runs(runs: list[list[int]]) -> int:
    found = 0
    for run in runs:
        for a, b in zip(run[0::2], run[1::2], strict=False):
            found += max(a, 0) + max(b, 0) > 128 or min(a, 0) + min(b, 0) < -128
    return found


def test_neighbours_are_input_channels_of_one_position() -> None:
    (found,) = elements(convolution((8, 4, 2, 1), 1), (8, 4, 2, 1))
    pairs = [((c, p, 0), (c + 1, p, 0)) for p in (0, 1) for c in (0, 2)]
    assert found == {frozenset(pair) for pair in pairs}


def test_odd_channels_of_several_positions_have_two_orders() -> None:
    through, apart = elements(convolution((8, 3, 2, 1), 1), (8, 3, 2, 1))
    crossing = frozenset(((2, 0, 0), (0, 1, 0)))
    first, second = frozenset(((0, 0, 0), (1, 0, 0))), frozenset(((1, 1, 0), (2, 1, 0)))
    assert through == {first, crossing, second}
    assert apart == {first, frozenset(((0, 1, 0), (1, 1, 0)))}


@pytest.mark.parametrize("shape", [(4, 3, 1, 1), (4, 3), (4, 4, 3, 3), (4, 3, 1)])
def test_one_position_or_even_channels_have_one_order(shape: tuple[int, ...]) -> None:
    assert len(convolution(shape, 1).pairs(shape)) == 1


def test_single_channels_that_one_channel_reads_have_no_rule() -> None:
    assert convolution_rule((8, 1, 3, 3), 8) is None


def test_neighbours_of_single_channels_that_several_read_are_positions() -> None:
    (found,) = elements(convolution((8, 1, 3, 1), 4), (8, 1, 3, 1))
    assert found == {frozenset(((0, 0, 0), (0, 1, 0)))}


@pytest.mark.parametrize("transposed", [False, True])
def test_neighbours_of_a_matrix_are_elements_of_a_sum(transposed: bool) -> None:
    shape = (5, 3) if not transposed else (3, 5)
    rule = matrix_rule(2, transposed=transposed)
    assert (rule.rows, rule.summed) == (((1,), (0,)) if not transposed else ((0,), (1,)))
    assert elements(rule, shape) == [{frozenset(((0,), (1,))), frozenset(((2,), (3,)))}]


def test_matrices_in_a_stack_and_vectors_have_rules_too() -> None:
    assert matrix_rule(3) == PairRule((0, 2), (1,))
    assert matrix_rule(1) == PairRule((), (0,))
    vector = np.array([100, 100, 100], np.int8)
    assert count_violations(vector, (matrix_rule(1),)) == 1
    stack = np.zeros((2, 4, 3), np.int8)
    stack[1, 2:, 0] = 100
    assert count_violations(stack, (matrix_rule(3),)) == 1


@FULL
@given(CONVOLUTIONS, SEEDS)
def test_violations_are_those_that_a_loop_finds(sizes: tuple[int, int, tuple[int, ...]], seed: int) -> None:
    shape = (*sizes[:2], *sizes[2])
    rule = convolution_rule(shape, 1)
    if rule is None:
        return
    weight, expected, total = weights(shape, seed), 0, 0
    for row in weight.reshape(*shape[:2], -1):
        runs = [[int(v) for v in position] for position in row.T]
        orders = [[[element for run in runs for element in run]]]
        if shape[1] % 2 and shape[1] > 1 and len(runs) > 1:
            orders.append(runs)
        expected += sum(map(violations_of_runs, orders))
        total += sum(len(run) // 2 for order in orders for run in order)
    assert count_violations(weight, (rule,)) == expected
    assert count_pairs(shape, (rule,)) == total


def test_signs_that_differ_cost_nothing_and_the_limit_itself_fits() -> None:
    fitting = np.array([[127, -127], [64, 64], [-64, -64], [127, 1], [-127, -1]], np.int8)
    assert count_violations(fitting, (matrix_rule(2, transposed=True),)) == 0
    beyond = np.array([[65, 64], [-65, -64], [127, 2]], np.int8)
    assert count_violations(beyond, (matrix_rule(2, transposed=True),)) == 3


def test_large_weights_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, rules = weights((9, 3, 2, 2), 1), (convolution((9, 3, 2, 2), 1),)
    whole, mended = count_violations(weight, rules), repair(weight.astype(np.int32), lambda: weight * 1.0, rules)
    monkeypatch.setattr(kernels, "BLOCK_VALUES", 25)
    assert count_violations(weight, rules) == whole > 0
    np.testing.assert_array_equal(repair(weight.astype(np.int32), lambda: weight * 1.0, rules), mended)


@FULL
@given(CONVOLUTIONS, SEEDS)
def test_a_weight_comes_back_from_its_matrix(sizes: tuple[int, int, tuple[int, ...]], seed: int) -> None:
    shape = (*sizes[:2], *sizes[2])
    weight = weights(shape, seed)
    for rule in (convolution_rule(shape, 1), matrix_rule(len(shape)), matrix_rule(len(shape), transposed=True)):
        if rule is not None:
            np.testing.assert_array_equal(rule.as_weight(rule.matrix(weight), shape), weight)


@FULL
@given(CONVOLUTIONS, SEEDS)
def test_repaired_weights_have_no_violation_and_only_pairs_that_had_one_move(
    sizes: tuple[int, int, tuple[int, ...]], seed: int
) -> None:
    shape = (*sizes[:2], *sizes[2])
    rules = tuple(rule for rule in (convolution_rule(shape, 1), matrix_rule(len(shape))) if rule is not None)
    before = weights(shape, seed).astype(np.int32)
    exact = before + np.random.default_rng(seed).uniform(-0.5, 0.5, shape)
    after = repair(before, lambda: exact, rules)
    assert count_violations(after, rules) == 0
    assert np.all(np.abs(after) <= np.abs(before))
    assert np.all(after * before >= 0)
    may_move = np.zeros(shape, bool)
    for rule in rules:
        matrix, moves = rule.matrix(before), rule.matrix(may_move).copy()
        for columns in rule.pairs(shape):
            a, b = matrix[:, columns[:, 0]], matrix[:, columns[:, 1]]
            is_large = (np.sign(a) == np.sign(b)) & (np.abs(a) + np.abs(b) > PAIR_LIMIT)
            for side in (0, 1):
                moves[:, columns[:, side]] |= is_large
        may_move |= rule.as_weight(moves, shape)
    assert not np.any((after != before) & ~may_move)
    np.testing.assert_array_equal(repair(after, lambda: exact, rules), after)


def test_what_fits_is_not_even_asked_for() -> None:
    integers = np.array([[1, 2], [3, 4]], np.int32)

    def exact() -> NDArray[np.float64]:
        raise AssertionError

    assert repair(integers, exact, (matrix_rule(2),)) is integers


@FULL
@given(st.integers(-127, 127), st.integers(-127, 127), SEEDS)
def test_a_pair_moves_with_least_squared_error(first: int, second: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    exact = np.array([[first, second]]) + rng.uniform(-0.5, 0.5, (1, 2))
    rows = np.array([[first, second]], np.int32)
    repair_rows(rows, exact, [np.array([[0, 1]])])
    if np.sign(first) != np.sign(second) or abs(first) + abs(second) <= PAIR_LIMIT:
        assert rows.tolist() == [[first, second]]
        return
    sign = int(np.sign(first))
    fitting = [(sign * a, sign * (PAIR_LIMIT - a)) for a in range(abs(first) + 1) if 0 <= PAIR_LIMIT - a <= abs(second)]
    least = min(float(np.square(np.array(pair) - exact[0]).sum()) for pair in fitting)
    assert np.square(rows - exact).sum() == pytest.approx(least)


@FULL
@given(SEEDS, st.booleans(), st.sampled_from([(4, 4, 2, 2), (3, 3, 3, 1), (5, 7)]))
def test_grown_steps_leave_nothing_to_repair(seed: int, is_heavy: bool, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    weight = (rng.standard_t(2, shape) if is_heavy else rng.uniform(-1, 1, shape)).astype(np.float32)
    rule = convolution(shape, 1)
    params = weight_params(weight, QuantSpec(8, symmetric=True, narrow_range=True, axis=0))
    factors = step_factors(weight, params.scale.reshape(-1, *(1,) * (len(shape) - 1)), rule)
    assert factors.shape == (shape[0],)
    assert factors.min() >= 1
    assert factors.max() <= 2
    grown = params.without_saturation(weight, (rule,))
    assert np.all(grown.scale >= params.scale)
    assert count_violations(grown.quantize(weight), (rule,)) == 0
    alone = np.rint(weight / grown.scale.reshape(-1, *(1,) * (len(shape) - 1)))
    assert np.abs(grown.quantize(weight) - alone).max() <= 1  # the last digit of a scale at most
    unharmed = factors == 1
    np.testing.assert_array_equal(grown.scale[unharmed], params.scale[unharmed])


@FULL
@given(SEEDS)
def test_one_step_for_a_weight_leaves_what_remains_to_repair(seed: int) -> None:
    weight = np.random.default_rng(seed).uniform(-1, 1, (6, 8)).astype(np.float32)
    rule = matrix_rule(2, transposed=True)
    params = weight_params(weight, QuantSpec(8, symmetric=True, narrow_range=True))
    grown = params.without_saturation(weight, (rule,))
    assert grown.scale.shape == ()
    assert 1 <= grown.scale / params.scale <= 2.001
    assert count_violations(grown.quantize(weight), (rule,)) == 0


@FULL
@given(CONVOLUTIONS, SEEDS)
def test_free_elements_can_all_move_away_from_zero(sizes: tuple[int, int, tuple[int, ...]], seed: int) -> None:
    shape = (*sizes[:2], *sizes[2])
    rule = convolution_rule(shape, 1)
    if rule is None:
        return
    integers = repair(weights(shape, seed).astype(np.int32), lambda: weights(shape, seed) * 1.0, (rule,))
    rows = rule.matrix(integers)
    free = may_grow(rows, rule.pairs(shape))
    grown = np.clip(rows + np.where(free, np.where(rows < 0, -1, 1), 0), -127, 127)
    assert count_violations(rule.as_weight(grown, shape), (rule,)) == 0


def saturating_sum(codes: NDArray[np.uint8], weight: NDArray[np.int8]) -> int:
    """One sum as ``vpmaddubsw`` and ``vpmaddwd`` compute it: pairs of products in saturating 16 bits."""
    count = len(codes) + len(codes) % 2
    products = np.zeros(count, np.int64)
    products[: len(codes)] = codes.astype(np.int64) * weight
    return int(np.clip(products.reshape(-1, 2).sum(axis=1), -(2**15), 2**15 - 1).sum())


@FULL
@given(SEEDS, st.integers(2, 40))
def test_the_processor_is_exact_for_repaired_weights_and_for_no_others(seed: int, count: int) -> None:
    row = weights((1, count), seed)
    rule = matrix_rule(2, transposed=True)
    found = count_violations(row, (rule,))
    worst = [np.where(row[0] * sign > 0, 255, 0).astype(np.uint8) for sign in (1, -1)]
    differs = [saturating_sum(codes, row[0]) != int(codes.astype(np.int64) @ row[0]) for codes in worst]
    assert any(differs) == (found > 0)
    mended = repair(row.astype(np.int32), lambda: row * 1.0, (rule,)).astype(np.int8)[0]
    random = np.random.default_rng(seed).integers(0, 256, (4, count), np.uint8)
    for codes in (*worst, np.full(count, 255, np.uint8), *random):
        assert saturating_sum(codes, mended) == int(codes.astype(np.int64) @ mended)
