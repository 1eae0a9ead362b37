"""Federations of the studies have the law that they state, and answer as the product's clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.ask.partition import Partition
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies.federations import Clients, Equal, Groups, Static
from flwr_kld.simulations.studies.records import Records

PI = drifts.zipf(12)
REFERENCE = drifts.reference_of(PI)
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))
MANY, CLOSE = 20_000, 5.0
"""Clients, and standard errors that shares may be off: less than one run in 10^6 is."""
FAMILIES = (
    drifts.vanishing,
    drifts.new_category,
    drifts.rare_category,
    drifts.tilted,
    drifts.alternating,
    drifts.spread,
    drifts.sparse,
)


def shares_of(records):
    return records.counts(PLAN.cells) / len(records.cells)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nats", [0.01, 0.2, 0.4])
def test_a_drift_has_its_divergence(family, nats):
    law = drifts.law_at(family(PI, np.random.default_rng(1)), PI, nats)
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1)
    assert skewed_divergence(REFERENCE.probabilities, law, drifts.THETA) == pytest.approx(nats)


def test_a_pair_of_columns_keeps_both_margins():
    pi = drifts.table(3, 4)
    family = drifts.pair(pi, 4, np.random.default_rng(0))
    moved, still = (family(a)[:-1].reshape(4, 4, 4) for a in (0.7, 0.0))
    for others in ((1, 2), (0, 2), (0, 1)):
        assert moved.sum(axis=others) == pytest.approx(still.sum(axis=others))
    assert skewed_divergence(pi, moved.reshape(-1), 0.01) > 0.05


@pytest.mark.parametrize("alike", [None, 0.0, 3.0])
def test_clients_have_the_law_of_the_population(alike):
    clients = Clients(
        drifts.law_at(drifts.tilted(PI, np.random.default_rng(0)), PI, 0.1), Equal(5), alike
    )
    found = shares_of(clients.draw(PLAN, MANY, np.random.default_rng(2)))
    wanted = np.bincount(PLAN.cell_of, clients.law(5), PLAN.cells)
    error = np.sqrt(wanted * (1 - wanted) / MANY)  # of clients: their records may be all alike
    assert (np.abs(found - wanted) <= CLOSE * error + 1e-9).all()


def test_records_of_a_client_are_as_alike_as_is_said():
    clients = Clients(np.append(PI, [0.0, 0.0]), Equal(2), alike=3.0)
    first, second = clients.draw(PLAN, MANY, np.random.default_rng(3)).cells.reshape(-1, 2).T
    chance = float(PI @ PI)
    wanted = (1 + 3 * chance) / 4  # a copy with probability 1 / (1 + alike)
    error = np.sqrt(wanted * (1 - wanted) / MANY)
    assert abs(float(np.mean(first == second)) - wanted) <= CLOSE * error


def test_groups_count_by_their_records():
    ends = np.eye(14)[[0, 11]]
    groups = Groups(((0.9, Clients(ends[0], Equal(10))), (0.1, Clients(ends[1], Equal(1_000)))))
    assert groups.law(10**6)[[0, 11]] == pytest.approx([9 / 109, 100 / 109])
    assert groups.law(10)[[0, 11]] == pytest.approx([0.9, 0.1])


def test_a_rotation_asks_everybody_before_anybody_again():
    rng = np.random.default_rng(4)
    fixed = Static(np.arange(12), np.ones(12, dtype=np.int64), 14, rotates=True)
    asked = np.concatenate([fixed.draw(PLAN, 4, rng).cells for _ in range(3)])
    assert sorted(asked) == sorted(PLAN.cell_of[:12])


@given(seed=st.integers(0, 99), most=st.integers(1, 12))
def test_a_sample_has_as_many_records_as_it_may(seed, most):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 20, 30)
    records = Records(rng.integers(0, 5, sizes.sum()), sizes)
    kept = records.at_most(most, rng)
    assert kept.sizes.tolist() == np.minimum(sizes, most).tolist()
    assert (kept.counts(5) <= records.counts(5)).all()
