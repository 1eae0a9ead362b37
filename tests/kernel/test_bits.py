"""Private random bits: no two processes, copies or threads ever get the same.

In this file the product asks the operating system; elsewhere tests do, for the same numbers always.
"""

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from federation import REFERENCE, grid_of
from forks import in_a_fork

from flwr_kld.kernel.law import SeededBits, SystemBits
from flwr_kld.strategies import KLDrift, Trusted

pytestmark = pytest.mark.noise(None)
SEEN = set()


def test_noise_is_the_operating_systems(monkeypatch):
    told = bytes(range(16)) * 2
    monkeypatch.setattr(os, "urandom", lambda count: told[:count])
    assert SystemBits().words(3).tobytes() == told[:24]


@pytest.mark.noise(7)
@pytest.mark.parametrize("again", [False, True])
def test_in_tests_noise_begins_at_a_number(again):
    """Whatever ran before; a fork's still differs."""
    SEEN.add(SystemBits().words(4).tobytes())
    assert len(SEEN) == 1
    assert in_a_fork(lambda: SystemBits().words(4).tobytes()) not in SEEN


def test_a_fork_draws_other_bits_than_its_parent():
    bits = SystemBits()
    bits.words(3)  # a stream kept from here would go on alike in both
    assert in_a_fork(lambda: bits.words(4).tobytes()) != bits.words(4).tobytes()


def test_a_fork_of_a_strategy_that_was_built_before_releases_other_noise():
    """With one stream the difference of two releases would be that of the exact counts."""
    monitor = KLDrift(REFERENCE, Trusted(epsilon=0.1))
    grid = grid_of(nodes=3)

    def released() -> bytes:
        return np.float64(monitor.check(grid).reading.estimate).tobytes()

    assert in_a_fork(released) != released()


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))],  # noqa: S301
)
def test_a_copy_draws_other_bits(duplicate):
    bits = SystemBits()
    bits.words(3)
    assert duplicate(bits).words(4).tolist() != bits.words(4).tolist()


def test_threads_draw_distinct_bits():
    bits = SystemBits()
    with ThreadPoolExecutor(8) as threads:
        words = np.concatenate(list(threads.map(lambda _: bits.words(100), range(80))))
    assert len(set(words.tolist())) == 8000  # two alike: once in 5e11 runs


def test_a_seed_gives_the_same_bits_and_says_that_they_protect_nobody():
    assert SeededBits(1).words(3).tolist() == SeededBits(1).words(3).tolist()
    assert (SeededBits(1).private, SystemBits().private) == (False, True)
