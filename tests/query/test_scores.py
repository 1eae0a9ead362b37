"""What a client is asked to add up, and how far a record or a client moves it."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import (
    LARGEST_SCORE,
    LARGEST_SUM,
    MOST_RECORDS,
    MOVES,
    NUMBERS,
    Scores,
    _units,
    answer_of,
    limits_of,
    numbers_of,
)
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import WholeClients

_CELLS, _MOST = 3, 4

score = st.integers(-20, 20)
tables = st.tuples(*[score] * _CELLS)


@st.composite
def any_scores(draw):
    return Scores(draw(tables), draw(tables), draw(st.integers(0, 100)), _MOST)


def counts_of(most):
    """All clients with at most so many records in three cells."""
    every = itertools.product(range(most + 1), repeat=_CELLS)
    return [np.array(c, dtype=np.int64) for c in every if sum(c) <= most]


@cache
def neighbours(protects):
    """All pairs of what may be counted of a client, capped, that differ in what is protected."""
    every = counts_of(_MOST)
    if protects != "record":
        return [(np.zeros(_CELLS, dtype=np.int64), c) for c in every]
    return [
        (one, other)
        for one, other in itertools.product(every, every)
        if one.sum() == other.sum() and np.abs(one - other).sum() == 2
    ]


@pytest.mark.parametrize("protects", ["record", WholeClients(_MOST)])
@given(scores=any_scores())
def test_nothing_protected_moves_a_number_further_than_is_said(protects, scores):
    guarantee = Guarantee(1.0, protects=protects)
    every = np.array(counts_of(_MOST))
    numbers = dict(zip(map(tuple, every), numbers_of((scores,), every), strict=True))
    pairs = [(numbers[tuple(a)], numbers[tuple(b)]) for a, b in neighbours(protects)]
    moved = [max(abs(a[i] - b[i]) for a, b in pairs) for i in range(len(NUMBERS))]
    for move, step, most in zip(moved, _units(scores, guarantee), MOVES, strict=True):
        assert move <= most * step  # exact: whole numbers and a fraction


@pytest.mark.parametrize("ceiling", [0, 100, LARGEST_SUM])
def test_large_scores_that_hardly_differ_move_no_further(ceiling):
    """A lying server's: float64 would round the numbers by more than a record moves them."""
    scores = Scores((LARGEST_SCORE, LARGEST_SCORE - 1), (1, 0), ceiling, MOST_RECORDS)
    units = _units(scores, Guarantee(1.0))
    for kept in (0, 1, 1000, MOST_RECORDS - 1):
        one = np.array([kept, MOST_RECORDS - 1 - kept])
        other = one + np.array([1, -1])
        for a, b, step, most in zip(
            *numbers_of((scores,), np.array([one, other])), units, MOVES, strict=True
        ):
            assert abs(a - b) <= most * step


@pytest.mark.parametrize("protects", ["record", WholeClients(_MOST)])
@given(table=st.tuples(*[st.integers(-LARGEST_SCORE, LARGEST_SCORE)] * 2), bits=st.integers(0, 35))
@example(table=(LARGEST_SCORE, LARGEST_SCORE - 1), bits=35)
@example(table=(LARGEST_SCORE, 1 - LARGEST_SCORE), bits=35)
@example(table=(LARGEST_SCORE, -LARGEST_SCORE), bits=35)
def test_whatever_is_asked_fits_32_bits(protects, table, bits):
    """One record more would move a sum that wraps by 2**32 steps."""
    scores = Scores(table, table, min(1 << bits, LARGEST_SUM), MOST_RECORDS)
    low, high = scores.limits(Guarantee(1.0, protects=protects))
    assert low.min() >= -(2**30) - 1
    assert high.max() <= 2**30 + 1


@pytest.mark.parametrize("protects", ["record", WholeClients(_MOST)])
def test_the_units_are_the_smallest(protects):
    """Some pair moves each number that can move by all of what is said."""
    scores = Scores((7, -5, 1), (9, -1, -1), 100, _MOST)
    guarantee = Guarantee(1.0, protects=protects)
    units = scores.units(guarantee)
    pairs = neighbours(protects)
    one, other = (numbers_of((scores,), np.array(side)) for side in zip(*pairs, strict=True))
    reached = (np.abs(one - other) / units).max(axis=0)
    for number, steps, most in zip(NUMBERS, reached, MOVES, strict=True):
        if number == "records" and protects == "record":
            assert steps == 0
        else:
            assert steps == pytest.approx(most, rel=1e-6)


@given(scores=any_scores(), seed=st.integers(0, 2**32))
def test_answers_are_whole_steps_beside_the_numbers_and_within_limits(scores, seed):
    guarantee = Guarantee(1.0)
    low, high = scores.limits(guarantee)
    every = np.array(counts_of(_MOST))
    exact = numbers_of((scores,), every) / scores.units(guarantee)
    coins = SeededBits(seed).words(5 * len(every)).reshape(-1, 5)
    steps = answer_of((scores,), every, guarantee, coins)
    assert (np.abs(steps - exact) < 1).all()
    assert (steps >= low).all()
    assert (steps <= high).all()


def test_rounding_keeps_the_mean():
    scores = Scores((7, -5, 1), (9, -1, -1), 100, _MOST)
    guarantee, counts = Guarantee(1.0), np.array([1, 2, 0])
    bits, runs = SeededBits(3), 4000
    coins = bits.words(5 * runs).reshape(runs, 5)
    mean = answer_of((scores,), np.tile(counts, (runs, 1)), guarantee, coins).mean(axis=0)
    exact = numbers_of((scores,), counts[None])[0] / scores.units(guarantee)
    assert np.abs(mean - exact).max() < 6 * 0.5 / runs**0.5


def test_one_move_is_as_many_steps_at_most_under_the_same_coins():
    """The rounding is private: neighbours' answers differ by no more steps than is said."""
    scores = Scores((20, -20, 3), (9, -1, -1), 50, _MOST)
    coins = SeededBits(0).words(5 * 20).reshape(20, 5)
    answers = {
        tuple(c): answer_of((scores,), np.tile(c, (20, 1)), Guarantee(1.0), coins)
        for c in counts_of(_MOST)
    }
    for one, other in neighbours("record"):
        assert (np.abs(answers[tuple(one)] - answers[tuple(other)]) <= np.array(MOVES)).all()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"divergence": ()}, "outside"),
        ({"outside": (0,)}, "outside"),
        ({"ceiling": float("nan")}, "ceiling"),
        ({"ceiling": -1}, "ceiling"),
        ({"ceiling": LARGEST_SUM + 1}, "ceiling"),
        ({"most_records": 0}, "most_records"),
        ({"most_records": MOST_RECORDS + 1}, "most_records"),
        ({"divergence": (2**15, 0, 0)}, "divergence"),
    ],
)
def test_odd_scores_are_refused(changed, words):
    fields = {"divergence": (7, -5, 1), "outside": (0, 0, 0), "ceiling": 30, "most_records": 4}
    with pytest.raises(ValueError, match=words):
        Scores(**(fields | changed))


@given(data=st.data(), seed=st.integers(0, 2**32))
def test_columns_together_answer_as_each_by_itself(data, seed):
    ceilings = st.integers(0, LARGEST_SUM)
    scores = tuple(
        Scores(data.draw(tables), data.draw(tables), data.draw(ceilings), MOST_RECORDS)
        for _ in range(3)
    )
    counts = np.random.default_rng(seed).integers(0, MOST_RECORDS // 3, (3, _CELLS), dtype=np.int32)
    coins = SeededBits(seed).words(15).reshape(3, 5)
    alone = [
        answer_of((own,), count[None], Guarantee(1.0), thrown[None])[0]
        for own, count, thrown in zip(scores, counts, coins, strict=True)
    ]
    (together,) = answer_of(scores, counts.reshape(1, -1), Guarantee(1.0), coins.reshape(1, -1))
    assert together.tolist() == np.concatenate(alone).tolist()
    low, high = limits_of(scores, Guarantee(1.0))
    assert ((low <= together) & (together <= high)).all()


def test_numbers_beyond_64_bits_are_exact():
    scores = Scores((LARGEST_SCORE, -1), (-LARGEST_SCORE, 1), LARGEST_SUM, MOST_RECORDS)
    most, s = MOST_RECORDS, LARGEST_SCORE
    square = (most * s) ** 2
    counts = np.array([most, 0], dtype=np.int32)
    found = numbers_of((scores,), counts[None])
    assert found.tolist() == [[most * s, square, most, -most * s, square]]
