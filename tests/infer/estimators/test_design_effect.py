"""The design effect from numbers of alike records: true for clients who differ, and on the safe
side of noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from flwr_kld import Labels, Reference
from flwr_kld.ask.noisy import NoisyCounts, noise_in_counts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.estimators.design_effect import Clients, DesignEffects, Spread, spread
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import ClientSizes, alike_records
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import Allotment
from flwr_kld.trust.trusted import Trusted

CELLS = 20
STEPS = Allotment((17,), 1)
TRUST = Trusted(1.0).over(STEPS)


def test_without_noise_it_is_what_was_seen():
    assert DesignEffects.of(Spread(3.0, 0.0), 50.0).average == pytest.approx(3.0)
    assert DesignEffects.of(Spread(0.4, 0.0), 50.0).average == 1.0
    assert DesignEffects.of(Spread(80.0, 0.0), 50.0).average == 50.0


def test_what_may_be_noise_is_added():
    assert DesignEffects.of(Spread(5.0, 10.0), 50.0).average == pytest.approx(15.0)
    assert DesignEffects.of(Spread(-20.0, 2.0), 50.0).average == 1.0


@pytest.mark.parametrize("concentration", [0.5, 5.0, 200.0])
@pytest.mark.parametrize("records", [2, 50])
def test_lots_are_as_large_as_clients_who_differ_have_them(records, concentration):
    """Exact: of a rare symbol, a client's records are beta-binomial."""
    h, rare = np.arange(1, records + 1), 1e-6
    law = stats.betabinom(records, concentration * rare, concentration * (1 - rare)).pmf(h)
    lot, effect = h @ law / law.sum(), h**2 @ law / (h @ law)
    effects = DesignEffects(effect, records)
    lump = effects.lump
    assert effect == pytest.approx(1 + (records - 1) / (concentration + 1), rel=1e-3)
    assert 1 <= lump <= effect
    assert (effect - lump) / np.log(effect / lump) == pytest.approx(lot, rel=0.01)


@given(
    records=st.one_of(st.integers(1, 100), st.floats(1, 1e12)),
    part=st.one_of(st.floats(0, 1), st.floats(0, 1e-6), st.floats(1 - 1e-6, 1)),
)
def test_any_design_effect_has_a_lump(records, part):
    effect = min(1 + part * (records - 1), records)
    assert 1 <= DesignEffects(effect, records).lump <= effect


def test_lumps_of_records_that_are_all_alike_or_not_at_all():
    assert DesignEffects(50.0, 50.0).lump == 50
    assert DesignEffects(1.0, 50.0).lump == 1
    assert DesignEffects(0.0, 1.0).lump == 1


def counted(sizes, correlation, seed) -> tuple[NoisyCounts, Clients]:
    """A check of clients of these sizes, whose records are drawn from laws of their own."""
    rng = np.random.default_rng(seed)
    law = np.full(CELLS, 1 / CELLS)
    concentration = 1e9 if correlation == 0 else 1 / correlation - 1
    laws = rng.dirichlet(concentration * law, len(sizes))
    counts = np.stack([rng.multinomial(n, p) for n, p in zip(sizes, laws, strict=True)])
    bits = SeededBits(seed)
    reference = Reference.from_probabilities(Labels([str(i) for i in range(CELLS)]), [*law, 0, 0])
    plan = Partition(100).draw(reference, rng).allotted(STEPS)
    event = TRUST.event(len(sizes))
    coins = bits.words(len(sizes)).reshape(-1, 1)
    alike = alike_records(counts, [0], Guarantee(1.0), 1, coins).sum()
    noisy = np.zeros(plan.cells, dtype=np.int64)
    np.add.at(noisy, plan.cell_of[:CELLS], counts.sum(axis=0))
    noisy += sample(noise_in_counts(event, plan), plan.cells, bits)
    steps = alike + sample(event.table, 1, bits)[0]
    found = NoisyCounts(noisy, float(sum(sizes)), event, plan, False, (2.0 * steps,))
    shared = ClientSizes.of(sizes, "largest")
    return found, Clients(shared.others, shared.single)


WORLDS = {
    "alike clients": ([50] * 400, 0.0),
    "a design effect of 3": ([50] * 400, 2 / 49),
    "a design effect of 9": ([50] * 400, 8 / 49),
    "clients of one law each": ([50] * 400, 0.999),
    "two sizes": ([10] * 300 + [200] * 60, 0.05),
    "one giant": ([50] * 300 + [6000], 0.05),
    "half of the clients have one record": ([1] * 500 + [60] * 300, 0.05),
}


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("world", WORLDS)
def test_it_is_that_of_clients_who_differ(world):
    """True: one plus the other records of a record's client, by how correlated records are."""
    sizes, correlation = WORLDS[world]
    found = [spread(*counted(sizes, correlation, seed)) for seed in range(40)]
    ratio, noise = np.array([(one.ratio, one.noise) for one in found]).T
    sizes = np.array(sizes)
    true = 1 + correlation * (sizes @ (sizes - 1)) / sizes.sum()
    error = np.hypot(ratio.std() / np.sqrt(len(ratio)), 0.03 * true)
    assert abs(ratio.mean() - true) < 5.5 * error
    if correlation == 0:  # then the noise in it is all its error
        assert 0.5 < ratio.std() / noise.mean() < 1.7


def test_a_part_of_the_records_may_have_what_makes_all_alike():
    """One of a fifth of them, whose clients have an effect of 9: 2.6 on average."""
    assert DesignEffects(1 + 0.2 * 8, most=50.0).of_part(0.2).average == pytest.approx(9)
    assert DesignEffects(3.0, most=50.0).of_part(0.01).average == 50
    assert DesignEffects().of_part(0.01).average == 1
    assert DesignEffects(3.0, most=50.0).of_part(1.2).average == 3


LAWS = {
    "one heavy cell": [0.9, 0.05, 0.03, 0.02],
    "a rare far cell": [0.49, 0.49, 0.02],
    "even": [0.1] * 10,
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("effect", [1.05, 3.0, 20.0, 50.0])
def test_the_largest_effect_is_reached_and_not_exceeded(law, effect):
    """Of any way b in which clients differ, with b' S⁻¹ b <= 1 and b'b = t: all are below."""
    p, rng, most = np.array(law), np.random.default_rng(0), 50.0
    w = rng.normal(size=len(p)) ** 3
    (found,) = DesignEffects(effect, most).of_groups(w[None], p)
    trace = (effect - 1) / (most - 1) * (1 - p @ p)
    variance = p @ w**2 - (p @ w) ** 2
    reached = 0.0
    for r in np.append(0.0, np.geomspace(1e-4, 1e9, 3000)):
        part = p / (1 + r * p)
        b = part * (w - part @ w / part.sum())
        b *= min(np.sqrt(trace / (b @ b)), 1 / np.sqrt(b**2 / p @ np.ones(len(p))))
        reached = max(reached, (w @ b) ** 2)
    tried = rng.normal(size=(2000, len(p))) * p ** rng.uniform(0, 1, (2000, 1))
    tried -= tried.sum(axis=1, keepdims=True) * p
    tried *= np.minimum(
        np.sqrt(trace / (tried**2).sum(axis=1)), 1 / np.sqrt((tried**2 / p).sum(axis=1))
    )[:, None]
    bound = (found - 1) / (most - 1) * variance
    assert ((tried @ w) ** 2).max() <= bound * (1 + 1e-9)
    assert reached <= bound * (1 + 1e-9)
    assert bound <= max(1.04 * reached, (effect - 1) / (most - 1) * variance * (1 + 1e-9))


def test_a_label_that_nobody_has_is_as_alike_as_its_share_allows():
    """A kind of clients that holds nothing else: the average tells how many there may be."""
    law, single = np.array([0.6, 0.4, 0.0]), np.ones(3, dtype=np.int64)
    effects = DesignEffects(1.01, 500.0)
    few, some = effects.of_shares(np.full(3, 1e-8), single, law)[0], 0.01
    assert few == pytest.approx(500, rel=0.05)
    assert effects.of_shares(np.full(3, some), single, law)[0] == pytest.approx(1.5, abs=0.2)
