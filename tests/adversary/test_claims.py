"""A server that limits records, or claims another guarantee than its noise delivers: exact losses.

Terms that limit whole clients otherwise than they claim are none. Of all others the exact privacy
loss of what a client counts and noises, recomputed here over all small neighbours, is at most what
they claim.
"""

from collections import Counter
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from guard.files import question

from flwr_kld.ask.period import Period
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.trust.calibration import calibrated_laplace
from flwr_kld.trust.terms import AggregatorNoise, NoiseShares, RecordCounts

CELLS, MOST, REACH = 2, 3, 14
"""Symbols, records of a client, and how far from the counts outputs are compared."""
EPSILON, DELTA = 1.0, 1e-9
NIGHT = Period("visited", "2026-11-24", "2026-11-25")


def counted(records: tuple[int, ...], most: int) -> dict[tuple[int, ...], float]:
    """Law of a client's vector: all its records, or a uniform sample of `most` of them."""
    size = min(most, len(records)) if most else len(records)
    samples = list(combinations(records, size))
    law = Counter(tuple(s.count(c) for c in range(CELLS)) for s in samples)
    return {vector: n / len(samples) for vector, n in law.items()}


def density(law: dict[tuple[int, ...], float], noise: np.ndarray) -> np.ndarray:
    """Law of the noised vector on a grid of outputs around 0."""
    out = np.zeros((2 * REACH + 1,) * CELLS)
    for vector, weight in law.items():
        rows = [np.roll(noise, v)[MOST:-MOST] for v in vector]
        out += weight * np.multiply.outer(*rows)
    return out


def neighbours(protects: str, period: bool):
    """Pairs of what is counted; in a check of a period a record may leave it, or enter it."""
    datasets = [d for n in range(MOST + 1) for d in combinations_with_replacement(range(CELLS), n)]
    for one, other in product(datasets, repeat=2):
        a, b = Counter(one), Counter(other)
        gone, come = (a - b).total(), (b - a).total()
        if protects != "record":
            if not other:
                yield one, other
        elif (gone, come) == (1, 1) or (period and gone + come == 1):
            yield one, other


def loss(asked, most: int) -> float:
    """Exact pure loss, in nats, over all neighbours, of the implemented table."""
    if (share := asked.share()) is not None:
        table = share.noise(asked.noise.n_min)
    else:
        moves = asked.allotment.moves(asked.guarantee.protects)
        table = calibrated_laplace(Guarantee(EPSILON), moves).table
    reach = REACH + MOST
    p = np.array([float(table.probability(k)) for k in range(-reach, reach + 1)])
    worst = 0.0
    for one, other in neighbours(asked.guarantee.protected, asked.period is not None):
        vectors = [counted(d, most) for d in (one, other)]
        first, second = (density(v, p) for v in vectors)
        seen = (first > 0) & (second > 0)
        worst = max(worst, float(np.abs(np.log(first[seen] / second[seen])).max()))
    return worst


def asked_for(protects, most, trust, period=None):
    noise = {"noise": NoiseShares(2)} if trust == "distributed" else {}
    return question(
        protects=protects,
        most_records=most,
        delta=DELTA,
        asked_for=RecordCounts(Allotment.even(1), period),
        **noise,
    )


CASES = [
    *product(["record"], [0, 1, 2, 3], ["trusted", "distributed"], [None, NIGHT]),
    *((WholeClients(n), n, trust, None) for n in (1, 2, 3) for trust in ("trusted", "distributed")),
]


@pytest.mark.parametrize(("protects", "most", "trust", "period"), CASES)
def test_a_check_loses_no_more_than_is_claimed_and_not_much_less(protects, most, trust, period):
    asked = asked_for(protects, most, trust, period)
    assert 0.99 * EPSILON < loss(asked, most) <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize("trust", ["trusted", "distributed"])
def test_a_client_that_counts_more_than_is_claimed_would_lose_more(trust):
    """What the refusal is for."""
    assert loss(asked_for(WholeClients(2), 2, trust), 3) > 1.1 * EPSILON


@pytest.mark.parametrize("most", [0, 1, 3, 2**31 - 1])
@pytest.mark.parametrize("noise", [None, AggregatorNoise(("a" * 64,))])
def test_terms_limit_whole_clients_as_they_claim_or_are_none(most, noise):
    with pytest.raises(ValueError, match="most_records"):
        question(noise=noise, protects=WholeClients(2), most_records=most)
