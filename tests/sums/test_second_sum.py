"""A second sum over the survivors of the first: same keys set up, no secret used twice."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from exact import words
from sums.summing import (
    CLIENTS,
    EASY,
    Sum,
    alive_without,
    ask,
    at,
    fresh,
    majority,
    session_of,
)

from flwr_kld import errors
from flwr_kld.errors import TooFewSurvivors
from flwr_kld.kernel.channels import apply_masks
from flwr_kld.kernel.vector import SumVector
from flwr_kld.sums import keys
from flwr_kld.sums.client import CHANNEL, SumClient
from flwr_kld.sums.graph import Shape
from flwr_kld.sums.messages import MaskedVector, Phase, Survivors, decode
from flwr_kld.sums.shamir import combine

RNG = np.random.default_rng()
NEVER = 6
VALUES = SumVector(np.ones(4, np.uint32))


def first(n=CLIENTS, **options) -> Sum:
    """A sum that is open, and may be followed."""
    total = fresh(session_of(n, sums=2), **options)
    total.run()
    return total


def second(total: Sum, length: int = 4, **options) -> Sum:
    return total.again(np.full((total.session.size, length), 2, np.uint32), **options)


def mask_again(total: Sum, i: int, session, *, terms="second", length=4) -> MaskedVector:
    return total.client(i).mask_again(session, VALUES, terms=terms, length=length)


def of_both(session, leaves) -> list[np.ndarray | None]:
    """Run two sums; client i stops answering from phase leaves[i] on, 4 and 5 the second's."""
    one, two = (RNG.integers(0, 2**32, (session.size, 4), dtype=np.uint32) for _ in "ab")
    total, found = Sum(session, one, drop=dict(enumerate(leaves))), []
    try:
        found.append(words(total.run()))
        assert np.array_equal(found[0], one[leaves > Phase.MASK].sum(0, dtype=np.uint32))
        later = dict(enumerate((leaves - 2).tolist()))
        result = total.again(two, drop=later).run()
        found.append(words(result))
        assert np.array_equal(found[1], two[leaves > 4].sum(0, dtype=np.uint32))
        assert result.survivors == tuple(total.server.name(i) for i in np.flatnonzero(leaves > 4))
    except TooFewSurvivors:
        found += [None] * (2 - len(found))
    return found


@pytest.mark.parametrize("n", [2, 3])
def test_every_pattern_of_dropouts_gives_both_exact_sums_or_none(n):
    session = session_of(n, sums=2)
    threshold = session.shape.threshold
    for leaves in map(np.array, product(range(NEVER + 1), repeat=n)):
        one, two = of_both(session, leaves)
        assert (one is not None) == ((leaves > Phase.REVEAL).sum() >= threshold)
        assert (two is not None) == ((leaves == NEVER).sum() >= threshold)


def test_dropouts_on_a_ring_of_few_neighbours():
    session = session_of(24, shape=majority(24, 6), sums=2)
    order = session.order.tolist()
    for phases in ((2, 4), (3, 5), (1, 5), (4, 4)):
        leaves = np.full(24, NEVER)
        leaves[[order[0], order[12]]] = phases  # each client keeps five of its six neighbours
        assert all(found is not None for found in of_both(session, leaves))


def test_a_second_sum_of_another_length_with_clients_that_rest_in_between():
    total = first()
    for i, client in list(total.clients.items()):
        name = total.server.name(i)
        total.clients[i] = SumClient.resume(
            client.state(), total.who[name], name, total.roster, EASY
        )
    assert words(second(total, length=9).run()).tolist() == [2 * CLIENTS] * 9


def test_no_key_and_no_seed_is_used_in_both(monkeypatch):
    used = []

    def spy(vector, added, removed):
        used.extend(added + removed)
        apply_masks(vector, added, removed)

    monkeypatch.setattr("flwr_kld.kernel.vector.apply_masks", spy)
    total = first(label="known")
    in_first = set(used)
    used.clear()
    second(total).run()
    pairs = CLIENTS * (CLIENTS - 1) // 2
    assert (len(in_first), len(set(used))) == (CLIENTS + pairs,) * 2
    assert in_first.isdisjoint(used)


def test_what_opens_in_the_second_sum_leaves_the_vectors_of_the_first_hidden():
    """A survivor's seed of the first is open; its mask key of the first must not open now."""
    total = at(Phase.MASK, session_of(CLIENTS, sums=2))
    secret = total.client(3).state()["mask_secret"]  # of the first sum, then of the second
    total.step(Phase.MASK)
    total.step(Phase.REVEAL)
    again = second(total, drop={3: Phase.MASK})
    again.run()
    state, threshold = again.server._state, again.session.shape.threshold
    assert combine(state.shares[[3]], state.held[[3]], threshold) == [secret[32:]]
    opened = combine(total.server._state.shares, total.server._state.held, threshold)
    assert secret[:32] not in opened


def test_between_the_sums_a_client_keeps_the_seconds_secrets_only():
    total = at(Phase.SHARE, session_of(CLIENTS, sums=2))
    before = total.client(0).state()
    total.step(Phase.SHARE)
    own = total.client(0).state()["own"]
    total.step(Phase.MASK)
    inward = np.frombuffer(total.client(0).state()["channels"], CHANNEL)["inward"].tolist()
    total.step(Phase.REVEAL)
    after = total.client(0).state()
    assert after["phase"] == Phase.AGAIN
    assert after["seed"] == before["seed"][32:]
    assert after["mask_secret"] == before["mask_secret"][32:]
    assert after["own"] == own[34:]
    assert len(after["shares"]) == 68 * (CLIENTS - 1)
    everything = b"".join(value for value in after.values() if isinstance(value, bytes))
    gone = [
        before["seed"][:32],
        before["mask_secret"][:32],
        before["seal_secret"],
        own[:34],
        *inward,
    ]
    assert not any(secret in everything for secret in gone)


def test_a_client_that_sums_once_keeps_nothing():
    total = fresh()
    total.run()
    assert total.client(0).phase is Phase.DONE
    with pytest.raises(errors.OutOfOrder, match="no second sum"):
        second(total)


@pytest.mark.parametrize(
    "lie",
    [
        {"min_clients": 5},
        {"shape": Shape(5, 5)},
        {"listed": 7},
        {"bits": 64},
        {"roster": bytes(32)},
        {"follows": b""},
        {"follows": bytes(64)},
    ],
)
def test_a_second_sum_has_the_terms_of_the_first(lie):
    total = first(6)
    right = total.session.following(alive_without(n=6), check="b", terms="second", length=4)
    told = replace(right, **lie)
    with pytest.raises((errors.WrongSession, errors.RosterMismatch)):
        mask_again(total, 0, told)


def test_a_second_sum_is_what_the_client_was_asked():
    total = first()
    told = second(total).session
    with pytest.raises(errors.WrongSession, match="other terms than those beside it"):
        mask_again(total, 0, told, terms="other")
    with pytest.raises(errors.WrongSession, match="length is not"):
        mask_again(total, 1, told, length=5)
    with pytest.raises(errors.OutOfOrder):  # a refusal is final
        mask_again(total, 0, told)


def test_a_second_sum_over_other_survivors_is_refused():
    total = first()
    told = total.session.following(alive_without(4), check="b", terms="second", length=4)
    with pytest.raises(errors.WrongSession, match="survivors of the first"):
        mask_again(total, 0, told)


@pytest.mark.parametrize("phase", [Phase.SHARE, Phase.MASK, Phase.REVEAL])
def test_a_second_sum_does_not_come_before_the_first(phase):
    total = at(phase, session_of(CLIENTS, sums=2))
    told = total.session.following(alive_without(), check="b", terms="second", length=4)
    with pytest.raises(errors.OutOfOrder):
        mask_again(total, 0, told)
    with pytest.raises(errors.WrongSession):
        total.client(0).require_next(told)
    total.run()  # and the first goes on


def test_a_client_gives_one_vector_for_a_second_sum_and_none_for_a_third():
    again = second(first())
    again.step(Phase.MASK)
    for told in (again.session, replace(again.session, terms="other", check="c")):
        with pytest.raises(errors.WrongSession):
            mask_again(again, 0, told, terms=told.terms)
    again.step(Phase.REVEAL)
    assert words(again.server.result()).tolist() == [2 * CLIENTS] * 4
    with pytest.raises(errors.OutOfOrder, match="no second sum"):
        second(again)
    third = replace(again.session, follows=again.session.digest + bytes(32))
    with pytest.raises(errors.SecureSumError):
        mask_again(again, 0, third)


def test_whom_the_first_sum_left_out_is_left_out_of_the_second():
    total = first(drop={2: Phase.MASK})
    assert total.client(2).phase is Phase.MASK
    again = second(total)
    assert again.server.asked_first == (0, 1, 3, 4)
    with pytest.raises(errors.OutOfOrder):
        mask_again(again, 2, again.session)
    assert words(again.run()).tolist() == [8] * 4


@pytest.mark.parametrize(
    ("gone", "error"),
    [
        ((), errors.MissingMask),  # filled up with a client of whom there is no vector
        ((2, 0), errors.NotASurvivor),
        ((2, 3, 4), errors.CohortTooSmall),
    ],
)
def test_a_list_of_the_second_sum_is_held_to_what_one_of_the_first_is(gone, error):
    again = second(first(drop={2: Phase.MASK}))
    again.step(Phase.MASK)
    with pytest.raises(error):
        ask_list(again, 0, again.session.tag, alive_without(*gone))


def test_a_second_list_would_open_both_secrets_in_the_second_sum_too():
    again = second(first())
    again.step(Phase.MASK)
    ask_list(again, 0, again.session.tag, alive_without())
    with pytest.raises(errors.BothShares):
        ask_list(again, 0, again.session.tag, alive_without(3))
    assert not again.client(0).state()["shares"]


def test_clients_asked_for_different_second_sums_reveal_nothing_to_each_other():
    """Masks do not cancel, and a confirmation in one sum opens no reveal in the other."""
    total = first(label="known")
    sessions = [second(total, terms=terms).session for terms in ("a", "b")]
    told = [sessions[i % 2] for i in range(CLIENTS)]
    vectors = [
        np.frombuffer(mask_again(total, i, session, terms=session.terms).values, "<u4")
        for i, session in enumerate(told)
    ]
    beside = at(Phase.SHARE, total.session, label="known")  # as they drew their secrets
    seeds = [beside.client(i).state()["seed"][32:] for i in range(CLIENTS)]
    left = np.sum(vectors, axis=0, dtype=np.uint32)
    for i, (seed, session) in enumerate(zip(seeds, told, strict=True)):
        apply_masks(left, [], [keys.self_mask_key(seed, session.digest, i)])
    assert not (left == CLIENTS).any()  # pairwise masks are left, of which 32 bits are 0 by chance
    lists = [session.survivors_digest(alive_without()) for session in told]
    for i in range(CLIENTS):
        answer = decode(ask_list(total, i, told[i].tag, alive_without()))
        assert answer.survivors == lists[i]
    channels = np.frombuffer(beside_keys(total), CHANNEL)["confirm"].tolist()
    assert keys.confirmation(channels[0], lists[0], 1) != keys.confirmation(
        channels[0], lists[1], 1
    )


def beside_keys(total: Sum) -> bytes:
    """The keys that client 0 of a sum with known randomness shares with its neighbours."""
    return at(Phase.MASK, total.session, label=total.label).client(0).state()["channels"]


def ask_list(total: Sum, i: int, tag: bytes, alive: bytes) -> bytes:
    return ask(total, i, Phase.REVEAL, Survivors(tag, total.session.size, alive))


def test_messages_of_the_first_sum_are_refused_in_the_second():
    total = first()
    again = second(total)
    for phase in (Phase.MASK, Phase.REVEAL):
        with pytest.raises(errors.WrongSession):
            again.server.receive(decode(total.sent[phase, 0]))
    again.step(Phase.MASK)
    with pytest.raises(errors.WrongSession):
        ask_list(again, 0, total.session.tag, alive_without())
    again.run()


@pytest.mark.parametrize("phase", [Phase.SHARE, Phase.MASK])
def test_both_sides_hold_messages_to_the_number_of_sums(phase):
    one, two = at(phase), at(phase, session_of(CLIENTS, sums=2))
    for here, there in ((one, two), (two, one)):
        told = replace(decode(there.requests[0]), session=here.session.tag)
        with pytest.raises(errors.Tampered, match="neighbours and sums"):
            ask(here, 0, phase, told)


def test_no_session_is_for_three_sums_or_follows_one_that_follows():
    with pytest.raises(ValueError, match="sums"):
        session_of(CLIENTS, sums=3)
    told = session_of(CLIENTS, sums=2).following(alive_without(), check="b", terms="p", length=1)
    with pytest.raises(errors.Malformed, match="follows"):
        replace(told, sums=2)
    with pytest.raises(errors.Malformed, match="follows"):
        replace(told, follows=bytes(32))
    assert type(told).from_bytes(told.to_bytes()) == told
