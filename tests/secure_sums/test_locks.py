"""A reveal opens with c confirmations of its own list, and tells nothing with c − 1."""

import os
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from exact import words
from secure_sums.summing import CLIENTS, alive_without, ask, at, majority, session_of, signed_again

from flwr_kld.common import errors
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.locks import lock, unlock
from flwr_kld.secure_sums.messages import LOCK, Phase, Reveal, Survivors, decode
from flwr_kld.secure_sums.shamir import PRIME, combine, split

EVERYBODY = alive_without()
NEEDED = 2
"""Of five clients three open a secret: itself and two confirmations."""


def told(total, i: int, alive: bytes) -> Reveal:
    """What a client answers to a list of survivors."""
    size = total.session.size
    return decode(ask(total, i, Phase.REVEAL, Survivors(total.session.tag, size, alive)))


def confirmation(total, answer: Reveal, owner: int) -> bytes:
    """What opens the owner's lock in another client's answer."""
    beside = total.neighbours(answer.sender)[answer.locks.mask()].tolist()
    fields = np.frombuffer(answer.locks.data, dtype=LOCK)
    return fields["confirmation"][beside.index(owner)].tobytes()


def pried(total, mine: Reveal, keys: dict[int, bytes], *, box: bytes | None = None) -> bytes | None:
    """What a lying server gets out of a reveal with these neighbours' confirmations."""
    neighbours = total.neighbours(mine.sender)
    locks = np.zeros((len(neighbours), 17), np.uint8)
    locks[mine.locks.mask()] = np.frombuffer(mine.locks.data, dtype=LOCK)["lock"]
    held = np.flatnonzero(np.isin(neighbours, list(keys)))
    for slot in held:
        locks[slot] ^= np.frombuffer(keys[int(neighbours[slot])], np.uint8)
    owner, sealed = mine.sender, box or mine.sealed
    for size in range(1, len(held) + 1):
        for some in combinations(held, size):
            chosen = np.isin(np.arange(len(neighbours)), some)[None]
            for _, plain in unlock([sealed], mine.survivors, [owner], locks[None], chosen, size):
                return plain
    return None


def test_exactly_as_many_confirmations_as_needed_open_a_reveal():
    total = at(Phase.REVEAL, drop={3: Phase.MASK})
    alive = alive_without(3)
    answers = {i: told(total, i, alive) for i in (0, 1, 2, 4)}
    keys = {i: confirmation(total, answers[i], 0) for i in (1, 2, 4)}
    for count in range(4):
        for some in combinations(keys, count):
            opened = pried(total, answers[0], {i: keys[i] for i in some})
            assert (opened is not None) == (count >= NEEDED)


def test_a_reveal_holds_one_share_of_each_neighbour_and_never_the_other():
    total = at(Phase.REVEAL, drop={3: Phase.MASK})
    state = total.client(0).state()
    kept = np.frombuffer(state["shares"], np.uint8).reshape(-1, 2, 34)  # seed, mask key
    neighbours = total.neighbours(0)
    answers = {i: told(total, i, alive_without(3)) for i in (0, 1, 2)}
    keys = {i: confirmation(total, answers[i], 0) for i in (1, 2)}
    opened = np.frombuffer(pried(total, answers[0], keys), np.uint8).reshape(-1, 34)
    assert opened[0].tobytes() == state["own"]
    for row, neighbour, (seed, mask_key) in zip(opened[1:], neighbours, kept, strict=True):
        assert np.array_equal(row, mask_key if neighbour == 3 else seed)


@pytest.mark.parametrize("others", range(5))
def test_clients_told_different_lists_never_open_both_secrets_of_one(others):
    """Every way to tell some of 0 to 3 that 4 dropped out, and the rest that it did not."""
    for gone in combinations(range(4), others):
        total = at(Phase.REVEAL)
        lists = [alive_without(4) if i in gone else EVERYBODY for i in range(CLIENTS)]
        answers = [told(total, i, alive) for i, alive in enumerate(lists)]
        opened = []
        for i, mine in enumerate(answers):
            others_keys = {
                j: confirmation(total, answers[j], i)
                for j in range(CLIENTS)
                if j != i and not (4 in (i, j) and (i in gone or j in gone))
            }
            opened.append(pried(total, mine, others_keys) is not None)
            same = sum(alive == lists[i] for alive in lists) - 1
            assert opened[-1] == (same >= NEEDED)
        of_mask_key = sum(opened[i] for i in gone)
        of_seed = sum(opened) - of_mask_key
        assert min(of_mask_key, of_seed) < total.session.shape.threshold


def test_confirmations_of_another_session_open_nothing():
    # The same keys and randomness, another check: the session's digest is in every key.
    here, there = (
        at(Phase.REVEAL, session_of(CLIENTS, check=check), label="same") for check in "ab"
    )
    mine = told(here, 0, EVERYBODY)
    keys = {i: confirmation(there, told(there, i, EVERYBODY), 0) for i in (1, 2, 3, 4)}
    assert pried(here, mine, keys) is None


def test_a_confirmation_opens_its_receivers_lock_and_no_other():
    total = at(Phase.REVEAL)
    answers = {i: told(total, i, EVERYBODY) for i in range(CLIENTS)}
    for_one = {i: confirmation(total, answers[i], 1) for i in (2, 3, 4)}
    assert pried(total, answers[0], for_one) is None
    assert pried(total, answers[1], for_one) is not None
    its_own = {i: confirmation(total, answers[0], i) for i in (2, 3, 4)}  # 0 to them
    assert pried(total, answers[0], its_own) is None


def test_a_reveal_opens_for_its_owner_and_its_list_only():
    total = at(Phase.REVEAL)
    answers = {i: told(total, i, EVERYBODY) for i in range(CLIENTS)}
    keys = {i: confirmation(total, answers[i], 0) for i in (1, 2, 3)}
    assert pried(total, answers[0], keys) is not None
    assert pried(total, answers[0], keys, box=answers[1].sealed) is None
    assert pried(total, replace(answers[0], survivors=bytes(32)), keys) is None


def test_with_a_confirmation_too_few_every_secret_fits_as_well():
    """Exact: for each other key there is one sharing, and one set of confirmations not shown, under
    which the server sees the very same locks. So locks and c − 1 confirmations say nothing of it.
    """
    k, c = 4, 3
    secrets = {what: os.urandom(16) for what in ("true", "other")}
    shares = split(secrets["true"], k, c, size=16)
    hidden = np.frombuffer(os.urandom(17 * k), np.uint8).reshape(k, 1, 17)
    seen = shares ^ hidden
    for shown in combinations(range(k), c - 1):
        # The one polynomial through the other secret at 0 and the shares that are shown.
        points = np.array([0, *(slot + 1 for slot in shown)])
        values = [np.frombuffer(secrets["other"], "<u2").astype(object)]
        values += [limbs(shares[slot, 0]) for slot in shown]
        other = np.stack([_at(points, values, x) for x in range(1, k + 1)])
        for slot in shown:
            assert np.array_equal(other[slot], limbs(shares[slot, 0]))
        packed = np.stack([packed_limbs(row) for row in other])[:, None]
        held = np.ones((1, k), bool)
        assert combine(packed.transpose(1, 0, 2), held, c) == [secrets["other"]]
        not_shown = packed ^ seen  # what the other confirmations would have to be
        assert np.array_equal(not_shown[list(shown)], hidden[list(shown)])


def limbs(share):
    low = share[:16].view("<u2").astype(object)
    return low + np.unpackbits(share[16:], bitorder="little").astype(object) * 65536


def packed_limbs(values):
    numbers = values.astype(np.int64)
    high = np.packbits((numbers >> 16).astype(np.uint8), bitorder="little")
    return np.concatenate([(numbers & 0xFFFF).astype("<u2").view(np.uint8), high])


def _at(points, values, x: int):
    """The polynomial through the points, at x, by Lagrange in exact numbers."""
    total = np.zeros(8, dtype=object)
    for i, value in enumerate(values):
        weight = 1
        for j, point in enumerate(points.tolist()):
            if j != i:
                weight = weight * (x - point) * pow(int(points[i]) - point, -1, PRIME) % PRIME
        total = (total + weight * value) % PRIME
    return total


@pytest.mark.parametrize("k", [2, 4, 6, 24])
def test_on_a_ring_the_confirmations_needed_do_not_stand_on_one_side(k):
    for t in range(Shape.fewest_shares(k, k + 2), k + 2):
        c = Shape(k, t).confirmations
        assert k // 2 < c <= min(t, k)
        assert c + 1 == t


def test_confirmations_from_one_side_of_the_circle_open_nothing():
    session = session_of(16, shape=majority(16, 6), least=9)
    total, everybody = at(Phase.REVEAL, session), alive_without(n=16)
    mine = told(total, 0, everybody)
    ahead, behind = total.neighbours(0).reshape(2, 3).tolist()
    some = (*ahead, *behind[:2])
    keys = {i: confirmation(total, told(total, i, everybody), 0) for i in some}
    assert pried(total, mine, {i: keys[i] for i in ahead}) is None
    assert pried(total, mine, keys) is not None


def spoiled(total, answer: Reveal, field: str, places=slice(None)) -> Reveal:
    """A lying client's answer, with other locks or confirmations in it."""
    locks = np.frombuffer(answer.locks.data, dtype=LOCK).copy()
    locks[field][places] ^= 1
    return signed_again(total, replace(answer, locks=replace(answer.locks, data=locks.tobytes())))


def finished(total, liars: dict[int, str]):
    """Let everybody answer, some of them with a field spoiled; open the sum."""
    for i, request in total.requests.items():
        answer = decode(total.answer(i, Phase.REVEAL, request))
        total.server.receive(spoiled(total, answer, liars[i]) if i in liars else answer)
    total.server.advance()
    return words(total.server.result()).tolist()


@pytest.mark.parametrize("liar", range(CLIENTS))
def test_one_client_that_lies_is_left_out_and_spoils_nothing(liar):
    total = at(Phase.REVEAL)
    assert finished(total, {liar: "confirmation"}) == [CLIENTS] * 4
    assert total.collected.held.all()  # whoever's lock it should have opened
    total = at(Phase.REVEAL)
    assert finished(total, {liar: "lock"}) == [CLIENTS] * 4
    assert np.flatnonzero(~total.collected.held[:, 0]).tolist() == [liar]


def test_a_sealed_reveal_that_does_not_open_counts_as_none():
    total = at(Phase.REVEAL)
    for i, request in total.requests.items():
        answer = decode(total.answer(i, Phase.REVEAL, request))
        if i == 2:
            answer = signed_again(total, replace(answer, sealed=bytes(len(answer.sealed))))
        total.server.receive(answer)
    total.server.advance()
    assert not total.collected.held[2, 0]
    assert words(total.server.result()).tolist() == [CLIENTS] * 4


def test_too_many_lies_give_the_sum_up_and_name_whose_answers_stay_shut():
    with pytest.raises(errors.TooFewSurvivors, match="cohort"):
        finished(at(Phase.REVEAL), dict.fromkeys((0, 1, 2), "confirmation"))


def test_with_no_confirmation_to_spare_a_lie_gives_the_sum_up():
    session = session_of(CLIENTS, shape=Shape(4, 5), least=5)
    with pytest.raises(errors.TooFewSurvivors, match="open"):
        finished(at(Phase.REVEAL, session), {1: "confirmation"})


def test_a_lock_is_fresh_each_time():
    beside = np.ones(4, bool)
    confirmed = np.zeros((4, 17), np.uint8)
    one, other = (lock(bytes(34), bytes(32), 0, beside, confirmed, 3, os.urandom) for _ in "ab")
    assert one[0] != other[0]
    assert not np.array_equal(one[1], other[1])
