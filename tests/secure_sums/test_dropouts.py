"""Every pattern of dropouts gives the exact sum over the survivors, or none."""

import doctest
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from exact import words
from secure_sums.summing import (
    EASY,
    NEVER,
    PHASES,
    Sum,
    exact_or_given_up,
    majority,
    people,
    session_of,
)

from flwr_kld import secure_sums
from flwr_kld.common.errors import OutOfOrder, TooFewSurvivors
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.graph import Shape, Tolerance
from flwr_kld.secure_sums.messages import Phase
from flwr_kld.secure_sums.session import Session

RNG = np.random.default_rng()
SLOW = pytest.mark.slow


def run(session, leaves, policy=EASY) -> bool:
    vectors = RNG.integers(0, 2**64, (session.size, session.length), dtype=np.uint64)
    total = Sum(session, vectors, policy, drop=dict(enumerate(leaves)))
    return exact_or_given_up(total, leaves)


def can_be_opened(leaves, threshold: int) -> bool:
    """With everybody a neighbour: as many must stay to the end as open a secret."""
    return sum(leave == NEVER for leave in leaves) >= threshold


@pytest.mark.parametrize("n", [2, 3, pytest.param(4, marks=SLOW)])
def test_every_pattern_of_few_clients(n):
    session = session_of(n)
    for leaves in product(range(NEVER + 1), repeat=n):
        assert run(session, leaves) == can_be_opened(leaves, session.shape.threshold)


@pytest.mark.parametrize("n", [4, pytest.param(5, marks=SLOW), pytest.param(6, marks=SLOW)])
def test_every_pattern_of_more_clients_up_to_who_is_who(n):
    # Everybody is everybody's neighbour, so only how many leave at each phase matters.
    session = session_of(n)
    for counts in combinations_with_replacement(range(NEVER + 1), n):
        leaves = tuple(RNG.permutation(counts).tolist())
        assert run(session, leaves) == can_be_opened(leaves, session.shape.threshold)


@pytest.mark.parametrize("patterns", [25, pytest.param(150, marks=SLOW)])
def test_patterns_on_a_ring_of_few_neighbours(patterns):
    """All stay in 32 and 18 % of the patterns of 4 and 6; half leave in 26 and 17 % at least."""
    opened = 0
    for n, k in ((4, 2), (6, 2), (6, 4)):
        session = session_of(n, shape=majority(n, k))
        for _ in range(patterns):
            leaves = RNG.choice(NEVER + 1, n, p=[0.0625, 0.0625, 0.0625, 0.0625, 0.75]).tolist()
            opened += run(session, leaves)
    assert 0 < opened < 3 * patterns  # missed in one run of ten million


def test_a_ring_opens_whenever_every_secret_keeps_its_holders():
    session = session_of(24, shape=majority(24, 6))
    order = session.order.tolist()
    for phase in range(NEVER):
        leaves = [NEVER] * 24
        for place in (0, 8, 16):  # spread around the circle: each keeps 6 of 7 holders
            leaves[order[place]] = phase
        assert run(session, leaves)


def test_a_sum_that_cannot_open_is_given_up_before_a_share_is_revealed():
    session = session_of(20, shape=majority(20, 6))
    gone = session.order.tolist()[1:5]  # the first of the circle keeps 3 of its 7 holders
    total = Sum(session, np.ones((20, 4), np.uint64), drop=dict.fromkeys(gone, Phase.MASK))
    with pytest.raises(TooFewSurvivors, match="holders"):
        total.until(Phase.REVEAL)


@pytest.mark.parametrize(
    "gone", [5, 30, *(pytest.param(n, marks=SLOW) for n in (0, 10, 15, 20, 25, 35, 40))]
)
def test_random_patterns_of_a_hundred_clients(gone):
    opened = run_hundred(gone, Tolerance(dropout=0.1))
    assert opened or gone > 10  # 10% dropouts end a sum with probability below 2⁻³⁰


@SLOW
def test_a_hundred_clients_who_are_all_neighbours_lose_forty():
    assert run_hundred(40, Tolerance(dropout=0.45))


def run_hundred(gone: int, tolerance: Tolerance) -> bool:
    """Some of a hundred clients leave, each in a phase of its own."""
    _, roster = people(100)
    session = Session.open(
        roster, list(roster.names), check=f"{gone}", terms="plan", length=4, tolerance=tolerance
    )
    leaves = np.full(100, NEVER)
    leaves[RNG.permutation(100)[:gone]] = RNG.integers(0, NEVER, gone)
    return run(session, leaves.tolist(), ClientPolicy())


def test_a_message_lost_on_its_way_is_a_dropout():
    session = session_of(5)
    vectors = RNG.integers(0, 9, (5, 4), dtype=np.uint64)
    total = Sum(session, vectors)
    total.collect(Phase.ADVERTISE)
    total.requests = {i: m.to_bytes() for i, m in total.server.advance().items() if i != 3}
    total.step(Phase.SHARE)
    for phase in (Phase.MASK, Phase.REVEAL):
        total.step(phase)
    assert np.array_equal(words(total.server.result()), vectors[[0, 1, 2, 4]].sum(0))


def test_answers_may_arrive_in_any_order():
    vectors = RNG.integers(0, 2**32, (6, 4), dtype=np.uint64)
    total = Sum(session_of(6, shape=majority(6, 4)), vectors)
    for phase in PHASES:
        order = RNG.permutation(list(total.requests)).tolist()
        total.requests = {i: total.requests[i] for i in order}
        total.step(phase)
    assert np.array_equal(words(total.server.result()), vectors.sum(0, dtype=np.uint64))


def test_a_client_continues_from_its_state_in_another_process():
    session = session_of(4)
    vectors = RNG.integers(0, 9, (4, 4), dtype=np.uint64)
    total = Sum(session, vectors)
    for phase in range(4):
        total.step(Phase(phase))
        for i, client in list(total.clients.items()):
            name = total.server.name(i)
            total.clients[i] = SumClient.resume(
                client.state(), total.who[name], name, total.roster, EASY
            )
    assert np.array_equal(words(total.server.result()), vectors.sum(0))


def test_nothing_is_opened_below_the_threshold():
    total = Sum(
        session_of(5, shape=Shape(4, 4)),
        np.ones((5, 4), np.uint64),
        drop={0: Phase.REVEAL, 1: Phase.REVEAL},
    )
    with pytest.raises(TooFewSurvivors, match="4"):
        total.run()
    assert total.server.phase is Phase.REFUSED
    with pytest.raises(OutOfOrder):
        total.server.result()


def test_the_package_example_runs():
    assert doctest.testmod(secure_sums).failed == 0
