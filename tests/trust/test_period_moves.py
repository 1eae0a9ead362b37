"""Records that enter and leave a period: every small table, counted as a client does it.

Of up to three records with two columns and a time; one of them changes to any other record.
"""

from itertools import combinations_with_replacement, product
from math import exp

import numpy as np
import pytest
from rows import values_of
from session_nights import TOMORROW

from flwr_kld import Labels, Reference, Table
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.period import Period
from flwr_kld.clients.own_records import Records
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.promise import Allotment
from flwr_kld.kernel.vector import ClearSum, Held
from flwr_kld.trust.calibration import least_noise
from flwr_kld.trust.trusted import Trusted

TABLE = Table({"a": Labels(["x", "y"]), "b": Labels(["u"])})
NIGHT = Period("day", "2026-11-24", "2026-11-25")
VALUES = list(product(["x", "y"], ["u", "v"], ["2026-11-24", "2026-11-25"]))
"""Columns of the table, and the time: inside, and outside."""
PLAN = (
    Partition(16)
    .draw(Reference.from_counts(TABLE, np.ones(TABLE.size)), np.random.default_rng(0))
    .of(NIGHT)
)


def rows_of(table, plan, trust):
    """What a client with these records sends."""
    a, b, day = zip(*table, strict=True)
    rows = {"a": list(a), "b": list(b), "day": list(day)}
    inside = Held(NIGHT.holds(rows, TABLE.dialect))
    records = Records(Held(TABLE.encode(rows)), inside=inside)
    terms = trust.terms(plan, check="c", asked=2, until=TOMORROW)
    assert not terms.counted
    return Records.counted([records], terms, plan.cell_of)


def tables(most=3):
    return [t for n in range(1, most + 1) for t in combinations_with_replacement(VALUES, n)]


@pytest.mark.parametrize("allotment", [Allotment.even(2), Allotment((3, 5), 2)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_change_of_a_record_costs_more_than_the_release_promises(allotment, epsilon):
    """By the exact loss of the implemented table, for the moves of all pairs of neighbours."""
    promised = Guarantee(epsilon, 1e-6)
    trust, plan = Trusted(epsilon, 1e-6).over(allotment), PLAN.allotted(allotment)
    layout, release = plan.layout, least_noise(promised, allotment.moves(promised.protects))
    counted = {table: values_of(rows_of(table, plan, trust))[0].astype(int) for table in tables()}
    moves = set()
    for table in counted:
        for i, other in product(range(len(table)), VALUES):
            neighbour = tuple(sorted((*table[:i], *table[i + 1 :], other)))
            move = np.abs(counted[table] - counted[neighbour]) * layout.steps
            moves.add(tuple(sorted(move[move > 0].tolist())))
    assert {sum(move) for move in moves} >= {0, sum(allotment.counts), 2 * sum(allotment.counts)}
    for move in filter(None, moves):
        assert hockey_stick(release.table, move, epsilon) <= 1e-6


def test_the_number_inside_shows_only_in_noised_counts():
    """Neither the number itself, nor whether there is none, nor a client's size is released."""
    trust = Trusted(1.0)
    for table in (VALUES * 3, [("x", "u", "2026-11-25")] * 9):
        rows = rows_of(table, PLAN.allotted(trust.over(2).allotment), trust.over(2))
        clear = ClearSum(rows.layout, rows)
        with pytest.raises(ValueError, match="records"):
            clear.is_empty(trust.guarantee)
        released = clear.release(trust.over(2).event(1), SystemBits())
        assert released.records == rows.layout.records(released.values)
        answer = [0], Held([rows.to_wire(0)])
        found = ClearSum.of_answers([answer], rows.layout, trust.guarantee, most=1)
        assert found.sizes is None


def test_the_number_outside_would_be_hidden_as_well():
    """It moves with the columns' cells: fewer coordinates than of a record that stays inside."""
    release = least_noise(Guarantee(1.0), Allotment((3, 5)).moves("record"))
    law = release.table
    for crosses in ((3, 5, 3), (3, 5, 5)):
        assert hockey_stick(law, crosses, 1.0) == 0
        assert sum(crosses) <= sum(map(abs, release.moves))
    assert law.step_ratio ** sum(map(abs, release.moves)) <= exp(1.0)
