"""Segments of a column: their limits hold, and one that drifts is named."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from flwr_kld import Labels, Reference
from flwr_kld.domain.categories import Categories
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.design_effect import DesignEffects
from flwr_kld.inference.segments import lower_limit, moved_segments, segments
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner.setting import published
from flwr_kld.query.partition import Partition
from flwr_kld.trust.trusted import Trusted

SITES, BINS = 20, 10
DOMAIN = Categories(
    {
        "site": Labels([f"site {i}" for i in range(SITES)]),
        "age": Labels([str(i) for i in range(BINS)]),
    }
)
AGES = np.arange(5, 5 + BINS) / np.arange(5, 5 + BINS).sum()
MOVED = AGES[::-1] ** 2 / (AGES**2).sum()
NOISES = {"laplace": Trusted(1.0).over(4), "gaussian": Trusted(1.0, 1e-6).over(4)}


def law(sites=None):
    """Each site has a twentieth of the records; sites named have another law of ages."""
    p = np.zeros((SITES + 2, BINS + 2))
    p[:SITES, :BINS] = AGES / SITES
    for site, ages in (sites or {}).items():
        p[site, :BINS] = ages / SITES
    return p.ravel()


@cache
def plan_of(cells=1000):
    reference = Reference.from_probabilities(DOMAIN, law())
    return Partition(cells).draw(reference, np.random.default_rng(0))


def counts_of(p, records, trust, seed, cells=1000):
    h = np.random.default_rng(seed).multinomial(records, p / p.sum())
    plan = plan_of(cells)
    in_cells = np.bincount(plan.cell_of, h, plan.cells).astype(np.int64)
    return published(in_cells, plan, trust.event(1), SeededBits(seed))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("records", [4_000, 40_000])
def test_no_quiet_check_names_a_segment_more_often_than_said(noise, records, monkeypatch):
    """Of 200 seeded checks of twenty segments at 5 %, more than 26 name one in a millionth."""
    told = SimpleNamespace(value=0.0, error=SimpleNamespace(total=0.0))
    monkeypatch.setattr("flwr_kld.inference.segments.posterior_ratios", lambda *_, **__: told)
    monkeypatch.setattr("flwr_kld.inference.segments.upper_limit", lambda *_, **__: told)
    named = sum(
        segments(counts_of(law(), records, NOISES[noise], seed), "site")[0].lower > 0
        for seed in range(200)
    )
    assert named <= stats.binom.isf(1e-6, 200, 0.05)


def test_no_segment_is_named_for_what_few_rows_of_a_reference_are_by_chance():
    """Twenty segments of 60 public rows each, and very many records; 40 checks at 5 %."""
    named, rng = 0, np.random.default_rng(5)
    for seed in range(40):
        rows = rng.multinomial(60 * SITES, law() / law().sum())
        plan = Partition(1000).draw(Reference.from_counts(DOMAIN, rows), rng)
        h = rng.multinomial(400_000, law() / law().sum())
        in_cells = np.bincount(plan.cell_of, h, plan.cells).astype(np.int64)
        counts = published(in_cells, plan, NOISES["laplace"].event(1), SeededBits(seed))
        found = segments(counts, "site")
        named += found[0].lower > 0
    assert named <= stats.binom.isf(1e-6, 40, 0.05)


def test_no_segment_of_a_row_or_two_is_above_what_can_be():
    rows = np.zeros(DOMAIN.size, dtype=int)
    rows[:: DOMAIN.size // 30] = 1
    plan = Partition(1000).draw(Reference.from_counts(DOMAIN, rows), np.random.default_rng(0))
    counts = published(np.full(plan.cells, 400), plan, NOISES["laplace"].event(1), SeededBits(1))
    for one in segments(counts, "site"):
        assert one.lower <= one.upper <= -np.log(0.01) * (1 + 1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_one_drifted_site_is_named_and_its_limits_hold(noise):
    """The column as a whole reads a twentieth of what the site does."""
    drifted = law({7: MOVED})
    truth = skewed_divergence(AGES, MOVED, 0.01)
    found = segments(counts_of(drifted, 40_000, NOISES[noise], seed=3), "site", columns=3)
    assert len(found) == SITES
    assert found[0].name == "site 7"
    assert 0.3 * truth < found[0].lower < truth < found[0].upper
    assert found[0].estimate == pytest.approx(truth, abs=5 * found[0].deviation)
    assert found[0].records == pytest.approx(2000, abs=500)
    assert [one.lower for one in found[1:]] == [0.0] * (SITES - 1)
    assert moved_segments(found) == (
        f"with confidence 95 % above 0 nats by themselves: site 7 (at least "
        f"{found[0].lower:.3g} nats)"
    )
    assert moved_segments(found, threshold=1.0) is None
    whole = skewed_divergence(law(), drifted, 0.01)
    assert whole == pytest.approx(truth / SITES, rel=1e-6)


def test_a_lower_limit_is_below_the_truth_as_often_as_it_says():
    """Of 300 drifted segments at 95 %, more than 34 above the truth happen in a millionth."""
    truth = skewed_divergence(AGES, MOVED, 0.01)
    alone = dict.fromkeys(range(SITES), MOVED)
    above = 0
    for seed in range(15):
        noisy = counts_of(law(alone), 40_000, NOISES["gaussian"], seed)
        above += sum(one.lower > truth for one in fast(noisy))
    assert above <= stats.binom.isf(1e-6, 300, 0.05)


def fast(noisy):
    """Lower limits of each segment at 95 %, one by one."""
    from flwr_kld.inference.segments import counts_by

    return [
        SimpleNamespace(lower=lower_limit(own, theta=0.01, level=0.95))
        for _, own in counts_by(noisy, "site")
    ]


def test_clustered_records_tell_less():
    noisy = counts_of(law({7: MOVED}), 40_000, NOISES["gaussian"], seed=3)
    effects = DesignEffects(1.0), DesignEffects(4.0)
    alone, clustered = (segments(noisy, "site", effects=one)[0].lower for one in effects)
    assert 0 < clustered < 0.8 * alone


def test_a_limit_is_the_least_that_the_counts_allow():
    """Without noise and with many records it is the divergence itself."""
    silent = Trusted(40.0)
    noisy = counts_of(law({7: MOVED}), 40_000_000, silent, seed=0)
    truth = skewed_divergence(AGES, MOVED, 0.01)
    assert segments(noisy, "site")[0].lower == pytest.approx(truth, rel=0.02)


def test_too_few_records_are_not_read():
    assert segments(counts_of(law(), 200, NOISES["laplace"], seed=0), "site") == ()


def test_segments_that_share_cells_are_not_told_apart():
    noisy = counts_of(law(), 40_000, NOISES["laplace"], seed=0, cells=60)
    assert segments(noisy, "site") == ()


def test_what_has_no_segments_is_refused():
    noisy = counts_of(law(), 4_000, NOISES["laplace"], seed=0)
    with pytest.raises(ValueError, match="one of them 'region'"):
        segments(noisy, "region")
