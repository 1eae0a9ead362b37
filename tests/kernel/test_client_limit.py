"""How the records of a sum are shared out among its clients, where that is public."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numbered import Numbered
from rows import answered, values_of

from flwr_kld import Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.vector import ClearSum, Held, Layout

REPLACE = Guarantee(1.0)
PLAN = Partition(16).draw(Reference.from_counts(Numbered(3), [3, 2, 1]), np.random.default_rng(0))


def added(rows, guarantee=REPLACE, most=0) -> ClearSum:
    names = [f"{i}:0" for i in range(len(rows))]
    wire = Held([np.array(row, "<i4").tobytes() for row in rows])
    return ClearSum.of_answers([(names, wire)], PLAN.layout, guarantee, most=most)


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


def test_sizes_that_are_hidden_are_not_shown():
    guarantee = Guarantee(1.0, protects=WholeClients(30_000))
    total = added([[100, 0, 0]] * 9 + [[0, 0, 30_000]], guarantee=guarantee)
    assert total.sizes is None
    assert values_of(total).tolist() == [900, 0, 30_000]


def test_all_records_of_a_heavy_client_count_and_it_is_named():
    sizes = added([[100, 0, 0]] * 59 + [[0, 1, 0], [0, 0, 30_000], [0, 0, 0]]).sizes
    assert (sizes.records, sizes.largest, sizes.holder, sizes.single) == (35_901, 30_000, "60:0", 1)
    assert sizes.share == pytest.approx(30_000 / 35_901)
    assert sizes.others == pytest.approx((59 * 100 * 99 + 30_000 * 29_999) / 35_901)


def test_a_client_beyond_an_agreed_limit_is_left_out():
    total = added([[100, 0, 0]] * 9 + [[0, 0, 900]], most=500)
    assert list(total.refused) == ["9:0"]
    assert total.sizes.largest == 100


def test_nobody_is_named_where_nobody_has_records():
    assert added([[0, 0, 0]] * 3).sizes is None


def test_of_a_period_no_number_of_records_is_public():
    """How many of a client's records lie in it is what one of them may change."""
    for of_period in (False, True):
        layout = Layout((2,), of_period=of_period)
        assert layout.total_is_public(Guarantee(1.0)) is not of_period
        total = answered(layout, [3, 4], [1, 0])
        assert (total.sizes is None) is of_period
