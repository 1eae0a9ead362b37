"""A lying server alone that tells clients different lists: what opens is the sum of one list.

The rules of the protocol by themselves, for every server of a kind: who answers, whose reveal
opens, which secrets open, and of which sets of clients no mask hides the sum. And the same attack
on the clients as they are.
"""

from itertools import combinations

import numpy as np
import pytest
from secure_sums.summing import at, session_of
from secure_sums.test_locks import confirmation, pried, told

from flwr_kld.common.errors import ThresholdTooLow
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Phase


def neighbours(n, k):
    place = np.arange(n)
    apart = (place[:, None] - place) % n
    return (apart != 0) & (np.minimum(apart, n - apart) <= k // 2)


def opened(lists, near, threshold):
    """Sums that open: shape [servers, n, n], v is in the sum of u; all False where none opens.

    Parameters
    ----------
    lists : shape [servers, n, n], whether v is in the list that u is told.
    """
    n, c = len(near), threshold - 1
    itself = np.arange(n)
    answers = lists[:, itself, itself] & ((lists & near).sum(2) >= c)
    alike = (lists[:, :, None] == lists[:, None]).all(3)
    agree = alike & near & answers[:, :, None] & answers[:, None]
    reveals = answers & (agree.sum(2) >= c)
    seeds = (reveals[:, :, None] & lists & (near | np.eye(n, dtype=bool))).sum(1) >= threshold
    keys = (reveals[:, :, None] & ~lists & near).sum(1) >= threshold
    assert not (seeds & keys).any()
    together = near & ~keys[:, :, None] & ~keys[:, None] | np.eye(n, dtype=bool)
    for _ in range(n.bit_length()):
        together = (together.astype(np.uint8) @ together.astype(np.uint8)) > 0
    return together & (~together | seeds[:, None]).all(2)[:, :, None]


def two_lists(n, gone):
    """Every way to tell each client one of two lists, of all but few clients each."""
    says = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
    missing = [
        np.isin(np.arange(n), some) for k in range(gone + 1) for some in combinations(range(n), k)
    ]
    for one in missing:
        for other in missing:
            yield np.where(says[:, :, None], ~one, ~other)


def regions(n, count, missing):
    """Each region is told that some in its middle are missing; they are told that nobody is."""
    lists, size = np.ones((1, n, n), bool), n // count
    for start in range(0, size * count, size):
        middle = start + (size - missing) // 2
        lists[0, start : start + size, middle : middle + missing] = False
        lists[0, middle : middle + missing] = True
    return lists


def false_sums(lists, near, threshold):
    """How many servers open a sum that is of no list that somebody was told."""
    sums = opened(lists, near, threshold)
    told_so = (sums[:, :, None] == lists[:, None]).all(3).any(2)
    return int((sums.any(2) & ~told_so).any(1).sum())


def searched(n, k, threshold):
    near = neighbours(n, k)
    return sum(false_sums(lists, near, threshold) for lists in two_lists(n, 1))


@pytest.mark.parametrize("n", [9, 10])
def test_no_two_lists_open_a_sum_of_neither(n):
    assert searched(n, 4, Shape.fewest_shares(4, n)) == 0


def test_one_share_fewer_would_open_such_sums():
    """The power of the search: a region each for two lists."""
    assert searched(10, 4, Shape.fewest_shares(4, 10) - 1) > 0


@pytest.mark.parametrize("k", [4, 6, 8, 16, 24, 30])
def test_regions_that_are_told_different_lists_open_nothing(k):
    n, least = 6 * k + 12, Shape.fewest_shares(k, 10 * k)
    ways = [regions(n, count, gone) for count in (2, 3, 4) for gone in (1, 2, k // 4, k // 2)]
    near, found = neighbours(n, k), {least: 0, least - 1: 0}
    for threshold in found:
        found[threshold] = sum(false_sums(lists, near, threshold) for lists in ways)
    assert found[least] == 0
    assert found[least - 1] > 0  # and none fewer would do


def test_no_session_has_fewer_shares():
    for k in (4, 6, 24, 62):
        Shape(k, Shape.fewest_shares(k, 100)).require_ring(100)
        with pytest.raises(ThresholdTooLow):
            Shape(k, Shape.fewest_shares(k, 100) - 1).require_ring(100)


@pytest.mark.parametrize("fewer", [0, 1])
def test_clients_of_two_regions_are_in_no_sum_together(fewer, monkeypatch):
    """The attack itself: with one share fewer it opens 14 of 16 clients, where each list has 15."""
    n, k = 16, 4
    least = Shape.fewest_shares(k, n) - fewer
    monkeypatch.setattr(Shape, "fewest_shares", staticmethod(lambda k, n: least))
    session = session_of(n, shape=Shape(k, least), least=9)
    order, lists = session.order.tolist(), regions(n, 2, 1)[0]
    total, answers = at(Phase.REVEAL, session), {}
    for place, client in enumerate(order):
        alive = np.zeros(n, bool)
        alive[order] = lists[place]
        packed = np.packbits(alive, bitorder="little").tobytes()
        if alive[client]:
            answers[client] = told(total, client, packed)
    reveals = np.zeros(n, bool)
    for client, mine in answers.items():
        others = {
            other: confirmation(total, answers[other], client)
            for other in total.neighbours(client)[mine.locks.mask()].tolist()
            if other in answers and answers[other].survivors == mine.survivors
        }
        reveals[order.index(client)] = pried(total, mine, others) is not None
    near = neighbours(n, k) | np.eye(n, dtype=bool)
    held = (reveals[:, None] & lists & near).sum(0) >= least
    assert (held.sum() >= 14) == bool(fewer)
