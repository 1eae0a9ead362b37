"""Who is asked: disjoint turns, equal shares, refusals."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.ask.cohort import Participant, RotatingCohort, UniformCohort
from flwr_kld.common.errors import CheckFailed


def people(*numbers) -> list[Participant]:
    return [Participant(n) for n in numbers]


def disjoint(cohorts) -> bool:
    return all(not set(a) & set(b) for a, b in combinations(cohorts, 2))


@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 2**32))
def test_rotation_is_disjoint_over_every_window_and_asks_everybody_equally(n, size, seed):
    if n < size:
        return
    cohort, rng, present = RotatingCohort(size), np.random.default_rng(seed), people(*range(n))
    checks = [cohort.draw(present, rng) for _ in range(60)]
    assert all(len(set(chosen)) == size for chosen in checks)
    window = n // size
    assert all(disjoint(checks[t : t + window]) for t in range(60 - window + 1))
    for t in range(1, 61):
        asked = Counter(p for chosen in checks[:t] for p in chosen)
        assert max(asked.values()) - min(asked[p] for p in present) <= 1


@given(st.integers(1, 5), st.integers(0, 2**32), st.data())
def test_with_churn_any_window_is_disjoint_that_always_had_enough_present(size, seed, data):
    """k checks in a row with at least k * size present at each, whoever came or went between."""
    cohort, rng = RotatingCohort(size), np.random.default_rng(seed)
    crowd = st.sets(st.integers(0, 25), min_size=size)
    presents = [people(*sorted(who)) for who in data.draw(st.lists(crowd, max_size=25))]
    checks = [cohort.draw(present, rng) for present in presents]
    for chosen, present in zip(checks, presents, strict=True):
        assert len(set(chosen)) == size
        assert set(chosen) <= set(present)
    for t in range(len(checks)):
        for k in range(2, len(checks) - t + 1):
            if min(map(len, presents[t : t + k])) >= k * size:
                assert disjoint(checks[t : t + k])


def test_newcomers_are_asked_before_anybody_is_asked_again():
    cohort, rng = RotatingCohort(2), np.random.default_rng(0)
    cohort.draw(people(1, 2), rng)
    assert set(people(8, 9)) == set(cohort.draw(people(1, 2, 8, 9), rng))


def test_who_went_and_came_back_keeps_the_place():
    cohort, rng = RotatingCohort(2), np.random.default_rng(0)
    first = cohort.draw(people(1, 2, 3, 4), rng)
    others = [p for p in people(1, 2, 3, 4) if p not in first]
    cohort.draw(others, rng)
    assert set(cohort.draw(people(1, 2, 3, 4), rng)) == set(first)


def test_members_of_one_node_are_told_apart():
    hosted = [Participant(1, m) for m in range(6)]
    cohort, rng = RotatingCohort(3), np.random.default_rng(0)
    assert set(cohort.draw(hosted, rng)) | set(cohort.draw(hosted, rng)) == set(hosted)


def test_the_first_turn_is_in_random_order():
    first = {
        RotatingCohort(1).draw(people(1, 2, 3), np.random.default_rng(s))[0] for s in range(40)
    }
    assert first == set(people(1, 2, 3))  # misses one with probability 3 (2/3)**40 < 3e-7, seeded


def test_too_few_for_the_rotation_fails_and_forgets_nothing():
    cohort, rng = RotatingCohort(3), np.random.default_rng(0)
    first = cohort.draw(people(1, 2, 3, 4, 5, 6), rng)
    with pytest.raises(CheckFailed, match="needs 3"):
        cohort.draw(people(1, 2), rng)
    assert disjoint([first, cohort.draw(people(1, 2, 3, 4, 5, 6), rng)])


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("rule", [UniformCohort, RotatingCohort])
def test_an_empty_cohort_is_refused(rule, size):
    with pytest.raises(ValueError, match=f"got {size}"):
        rule(size)


@given(st.integers(0, 20), st.one_of(st.none(), st.integers(1, 25)), st.integers(0, 2**32))
def test_uniform_cohorts_have_the_size_asked_for_or_everybody(n, size, seed):
    present = people(*range(n))
    chosen = UniformCohort(size).draw(present, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen)) == (n if size is None else min(n, size))
    assert set(chosen) <= set(present)


@pytest.mark.rate(1e-6)
def test_uniform_cohorts_are_uniform():
    """Each of 6 clients in 2,000 of 4,000 cohorts, within 6 standard deviations (P < 2e-8)."""
    rng, cohort = np.random.default_rng(3), UniformCohort(3)
    asked = Counter(p for _ in range(4000) for p in cohort.draw(people(*range(6)), rng))
    assert all(abs(asked[p] - 2000) <= 6 * 1000**0.5 for p in people(*range(6)))


def remembered(last=()):
    """What a ledger knows of a rotation."""
    return lambda names: np.array([dict(last).get(name, 0) for name in names])


def test_a_recalled_queue_goes_on_where_it_was():
    people = [Participant(i, i % 3) for i in range(12)]
    again = RotatingCohort(4)
    again.recall(remembered({str(p): 1 + i // 4 for i, p in enumerate(people[:8])}), people)
    rng = np.random.default_rng(1)
    assert set(again.draw(people, rng)) == set(people[8:])
    assert set(again.draw(people, rng)) == set(people[:4])
