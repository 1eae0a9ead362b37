"""A server that clips, or claims another guarantee than its noise delivers: exact losses.

For every question a client either refuses, or the exact privacy loss of what it counts and noises,
recomputed here over all small neighbours, is at most what the question claims.
"""

from collections import Counter
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from guard.files import question

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.messages.terms import AggregatorNoise, NoiseShares
from flwr_kld.trust.worst_move import require_move

CELLS, MOST, REACH = 2, 3, 14
"""Symbols, records of a client, and how far from the counts outputs are compared."""
EPSILON, DELTA = 1.0, 1e-9


def counted(records: tuple[int, ...], clip: int) -> dict[tuple[int, ...], float]:
    """Law of a client's vector: all its records, or a uniform sample of `clip` of them."""
    size = min(clip, len(records)) if clip else len(records)
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


def neighbours(unit: str, adjacency: str):
    datasets = [d for n in range(MOST + 1) for d in combinations_with_replacement(range(CELLS), n)]
    for one, other in product(datasets, repeat=2):
        a, b = Counter(one), Counter(other)
        gone, come = (a - b).total(), (b - a).total()
        if unit == "client":
            if adjacency == "replace-one" or not other:
                yield one, other
        elif (gone, come) == ((1, 1) if adjacency == "replace-one" else (1, 0)):
            yield one, other


def loss(asked) -> float:
    """Exact pure loss, in nats, over all neighbours, of the implemented table."""
    if (share := asked.share()) is not None:
        table = share.noise(asked.noise.n_min)
    else:
        shifts = (asked.clip,) if asked.guarantee.unit == "client" else None
        table = calibrated_laplace(
            Guarantee(EPSILON, 0.0, asked.guarantee.adjacency), shifts=shifts
        ).table
    reach = REACH + MOST
    p = np.array([float(table.probability(k)) for k in range(-reach, reach + 1)])
    worst = 0.0
    for one, other in neighbours(asked.guarantee.unit, asked.guarantee.adjacency):
        vectors = [counted(d, asked.clip) for d in (one, other)]
        first, second = (density(v, p) for v in vectors)
        seen = (first > 0) & (second > 0)
        worst = max(worst, float(np.abs(np.log(first[seen] / second[seen])).max()))
    return worst


def asked_for(unit, adjacency, clip, trust):
    noise = {"noise": NoiseShares(2, "discrete-laplace")} if trust == "distributed" else {}
    return question(unit=unit, adjacency=adjacency, clip=clip, delta=DELTA, **noise)


CASES = list(product(["record", "client"], Adjacency, [0, 1, 2, 3], ["trusted", "distributed"]))


@pytest.mark.parametrize(("unit", "adjacency", "clip", "trust"), CASES)
def test_what_is_not_refused_loses_no_more_than_is_claimed(unit, adjacency, clip, trust):
    if trust == "distributed" and unit == "client":
        return  # whole clients are clipped by the noise's own bound: see kernel/test_clipping.py
    asked = asked_for(unit, str(adjacency), clip, trust)
    try:
        require_move(asked)
    except QueryRefused:
        return
    assert loss(asked) <= EPSILON * (1 + 1e-9)


def test_a_sample_of_records_that_come_and_go_would_lose_more_than_is_claimed():
    """What the refusal is for: another record takes the place of the one that left."""
    asked = asked_for("record", "add-remove", 1, "distributed")
    assert loss(asked) > 1.1 * EPSILON
    with pytest.raises(QueryRefused, match="clips records twice"):
        require_move(asked)
    central = asked_for("record", "add-remove", 1, "trusted")
    assert loss(central) > 1.1 * EPSILON
    with pytest.raises(QueryRefused, match="moves further than the claimed noise hides"):
        require_move(central)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unit": "client", "clip": 0, "adjacency": "add-remove"}, "clips nobody's records"),
        ({"unit": "client", "clip": 5, "adjacency": "replace-one"}, "moves further"),
        ({"unit": "record", "clip": 5, "adjacency": "add-remove"}, "moves further"),
        ({"unit": "client", "clip": 2**30, "adjacency": "add-remove"}, "no noise share serves"),
    ],
)
@pytest.mark.parametrize("noise", [None, AggregatorNoise(("a" * 64,), "least")])
def test_claims_below_the_worst_move_are_refused(changes, words, noise):
    with pytest.raises(QueryRefused, match=words):
        require_move(question(noise=noise, **changes))
