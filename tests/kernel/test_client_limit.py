"""One client counts for at most four times the mean of the others; the others lose nothing."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered import Numbered
from scipy.stats import chi2
from tables import REFERENCE as TABLE

from flwr_kld import Reference
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import TIMES, Scores, fair_limit, sampled
from flwr_kld.kernel.law import SeededBits, SystemBits
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClearSum, Held
from flwr_kld.query.partition import Partition

REPLACE = Guarantee(1.0)
PLAN = Partition(16).draw(Reference.from_counts(Numbered(3), [3, 2, 1]), np.random.default_rng(0))


def added(rows, plan=PLAN, guarantee=REPLACE, most=0, bits=None) -> ClearSum:
    names = [f"{i}:0" for i in range(len(rows))]
    wire = Held([np.array(row, "<i4").tobytes() for row in rows])
    return ClearSum.of_answers(
        [(names, wire)], plan.layout, guarantee, bits or SystemBits(), most=most
    )


@given(st.lists(st.integers(0, 60), min_size=1, max_size=9).filter(any))
def test_the_limit_is_the_largest_that_the_others_allow(sizes):
    known = [size for size in sizes if size > 0]
    limit = fair_limit(sizes)
    assert limit >= 1
    if len(known) == 1:
        assert limit == known[0]
        return

    def allows(b):
        """Whether b is at most so many times the mean of the others, for whoever has b or more."""
        counted = sorted(min(size, b) for size in known)
        return counted[-1] < b or TIMES * sum(counted[:-1]) >= b * (len(known) - 1)

    if max(known) <= limit:
        assert TIMES * (sum(known) - max(known)) // (len(known) - 1) == limit
    else:
        assert allows(limit)
        assert not allows(limit + 1)


@pytest.mark.parametrize(
    ("sizes", "limit"),
    [
        ([100] * 3, 400),
        ([100, 100, 30_000], 400),
        ([100, 100, LARGEST_CLIENT], 400),
        ([0, 0, 100, 100, 0, 30_000], 400),
        ([100] * 29 + [30_000], 400),
        ([LARGEST_CLIENT] * 40, 4 * LARGEST_CLIENT),
        ([7], 7),
    ],
)
def test_what_one_client_may_count(sizes, limit):
    assert fair_limit(sizes) == limit


@pytest.mark.parametrize(
    "sizes",
    [
        [50] * 40,
        range(10, 90),
        [1] * 20 + [1000] * 10,
        [40] * 45 + [150] * 5,
    ],
    ids=["alike", "10 to 89", "tiny and large", "some large"],
)
def test_ordinarily_unequal_clients_lose_nothing(sizes):
    assert fair_limit(list(sizes)) >= max(sizes)


def test_a_heavy_tail_loses_little():
    """Lognormal sizes with σ = 1 lose 8 % in the mean; seeded, so always the same."""
    rng = np.random.default_rng(0)
    lost = []
    for _ in range(20):
        sizes = np.exp(rng.normal(4, 1, 1000)).astype(int) + 1
        lost.append(1 - np.minimum(sizes, fair_limit(sizes)).sum() / sizes.sum())
    assert np.mean(lost) == pytest.approx(0.08, abs=0.02)


@pytest.mark.parametrize("liars", [1, 2, 4, 6])
def test_a_fifth_of_liars_do_not_lift_the_limit_beyond_any_measure(liars):
    honest = 30 - liars
    limit = fair_limit([100] * honest + [LARGEST_CLIENT] * liars)
    assert limit < 100 * TIMES * 30 / (30 - TIMES * liars)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize(("counts", "most"), [((2, 1, 3), 2), ((2, 1, 3), 5), ((0, 4, 1), 3)])
def test_a_sample_is_uniform(counts, most):
    """Against the law of a draw without replacement."""
    bits, draws = SeededBits(5), 20_000
    law = {
        drawn: math.prod(map(math.comb, counts, drawn)) / math.comb(sum(counts), most)
        for drawn in itertools.product(*(range(count + 1) for count in counts))
        if sum(drawn) == most
    }
    seen = dict.fromkeys(law, 0)
    for _ in range(draws):
        seen[tuple(sampled(np.array(counts, np.int32), most, bits).tolist())] += 1
    distance = sum((seen[x] - draws * p) ** 2 / (draws * p) for x, p in law.items())
    assert distance < chi2.isf(1e-6, len(law) - 1)


@pytest.mark.parametrize("most", [1, 400, 10**5])
def test_a_sample_of_what_nobody_has_takes_no_memory(most):
    claimed = np.array([LARGEST_CLIENT - 3, 0, 3], np.int32)
    drawn = sampled(claimed, most, SystemBits())
    assert drawn.sum() == most
    assert (drawn >= 0).all()
    assert (drawn <= claimed).all()


def test_one_record_still_moves_a_sample_by_one_record():
    """Exactly: laws of neighbours' samples mix the same parts, less one record and plus another."""

    def law(counts, most):
        ways = Fraction(1, math.comb(sum(counts), most)) if most <= sum(counts) else Fraction(0)
        found = {}
        for drawn in itertools.product(*(range(count + 1) for count in counts)):
            if sum(drawn) == most:
                found[drawn] = ways * math.prod(map(math.comb, counts, drawn))
        return found

    others, most = (2, 1, 2), 3
    picked = Fraction(most, sum(others) + 1)
    for cell in range(3):
        own = tuple(count + (i == cell) for i, count in enumerate(others))
        mixed = {x: (1 - picked) * p for x, p in law(others, most).items()}
        for drawn, p in law(others, most - 1).items():
            with_it = tuple(count + (i == cell) for i, count in enumerate(drawn))
            mixed[with_it] = mixed.get(with_it, Fraction(0)) + picked * p
        assert mixed == law(own, most)  # whatever the cell: one coin says whether it is picked


def test_nobody_beyond_the_limit_counts_more_and_everybody_else_counts_all():
    total = added([[50, 30, 20]] * 4 + [[3000, 0, 0], [0, 0, LARGEST_CLIENT]])
    most = fair_limit([100] * 4 + [3000, LARGEST_CLIENT])
    assert total.limit.over == {"4:0": 3000, "5:0": LARGEST_CLIENT}
    assert (total.limit.most_records, total.limit.largest) == (most, most)
    assert total.limit.claimed == 400 + 3000 + LARGEST_CLIENT
    assert total._values.tolist() == [200 + most, 120, 80 + most]
    assert total.limit.counted == total._values.sum()


def test_a_table_counts_as_many_records_in_each_column():
    plan = Partition(64).draw(TABLE, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    row = np.zeros((6, plan.length), np.int32)
    for part in plan.parts:
        cells = part.stop - part.start
        row[:, part] = [rng.multinomial(n, np.full(cells, 1 / cells)) for n in [80] * 5 + [9000]]
    total = added(row, plan)
    assert total.limit.most_records == 320
    assert {int(total._values[part].sum()) for part in plan.parts} == {5 * 80 + 320}


def test_of_many_clients_only_the_largest_are_held():
    """600 of 3,600 exceed the limit, more than are held: it is raised to the largest that is not,
    and nobody holds a noticeable part all the same."""
    sizes = [10] * 3000 + list(range(400, 1000))
    total = added([[size, 0, 0] for size in np.random.default_rng(0).permutation(sizes)])
    assert len(total.limit.over) == 256
    assert total.limit.most_records == sorted(sizes)[-257]
    assert total.limit.most_records / total.limit.counted < 1 / 257
    assert total._values.sum() == total.limit.counted


def test_sizes_that_are_hidden_make_no_limit():
    whole = Guarantee(1.0, protects=WholeClients(30_000))
    total = added([[100, 0, 0]] * 9 + [[0, 0, 30_000], [0, 0, 30_001]], guarantee=whole)
    assert total.limit is None
    assert total._values.tolist() == [900, 0, 30_000]


def test_an_agreed_limit_is_the_limit():
    total = added([[100, 0, 0]] * 9 + [[0, 0, 900]], most=1000)
    assert (total.limit.most_records, total.limit.largest, total.limit.over) == (1000, 900, {})


def test_nobody_has_a_limit_where_nobody_has_records():
    assert added([[0, 0, 0]] * 3).limit is None


def test_sums_of_scores_are_held_to_limits_of_their_own():
    scores = (Scores((1, 0, -1), (0, 0, 0), 3, 5),)
    assert added([[0] * 5], PLAN.scored(scores)).limit is None
