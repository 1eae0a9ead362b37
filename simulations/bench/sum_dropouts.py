"""Sums under dropouts, each held against the truth: exact over the survivors, or given up."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from sum_in_process import NEVER, Federation, is_sum

from flwr_kld.errors import TooFewSurvivors
from flwr_kld.sums.graph import Shape, Tolerance
from flwr_kld.sums.messages import Phase
from flwr_kld.sums.policy import ClientPolicy

EXACT, GIVEN_UP, WRONG = "exact", "given up", "WRONG"
_RANDOM = np.random.default_rng()
_CELLS = 16
_LEAST = 3
"""Clients in any sum: one of two would know the other's vector."""


def every_pattern(clients: int) -> Counter[str]:
    """Run every pattern: each client leaves before one of the four phases, or never (5^n).

    Everybody is everybody's neighbour. A sum must open exactly if a majority, which is the
    threshold, stays to the end, and at least `_LEAST` are in it; anything else counts as wrong.
    """
    federation, threshold = Federation(clients), clients // 2 + 1
    policy = ClientPolicy(min_asked=2, min_clients=2, min_neighbours=1, corrupted=0.0)
    shape = Shape(clients - 1, threshold)
    outcome: Counter[str] = Counter()
    patterns = product(range(NEVER + 1), repeat=clients)
    total = (NEVER + 1) ** clients
    for leaves in track(patterns, f"{total:,} patterns of {clients} clients", total):
        found = _run(federation, np.array(leaves), policy=policy, shape=shape)
        there = sum(leave > Phase.MASK for leave in leaves)
        opens = leaves.count(NEVER) >= threshold and there >= _LEAST
        outcome[found if found == (EXACT if opens else GIVEN_UP) else WRONG] += 1
    return outcome


def random_patterns(runs: int, clients: int, most: float) -> Counter[str]:
    """Let up to `most` of the clients leave at random; one graph in ten is complete."""
    federation = Federation(clients)
    outcome: Counter[str] = Counter()
    for _ in track(range(runs), f"{clients} clients"):
        leaves = np.full(clients, NEVER)
        gone = _RANDOM.permutation(clients)[: _RANDOM.integers(0, int(most * clients) + 1)]
        leaves[gone] = _RANDOM.integers(0, NEVER, len(gone))
        tolerance = Tolerance(dropout=0.45 if _RANDOM.random() < 0.1 else 0.1)
        outcome[_run(federation, leaves, tolerance=tolerance)] += 1
    return outcome


def _run(
    federation: Federation,
    leaves: NDArray[np.int64],
    *,
    policy: ClientPolicy | None = None,
    shape: Shape | None = None,
    tolerance: Tolerance | None = None,
) -> str:
    """One sum of uniform vectors; how it ended."""
    vectors = _RANDOM.integers(0, 2**32, (len(leaves), _CELLS), dtype=np.uint32)
    try:
        result, _ = federation.run(
            vectors, tolerance=tolerance, shape=shape, policy=policy, leaves=leaves
        )
    except TooFewSurvivors:
        return GIVEN_UP
    alive = leaves > Phase.MASK
    exact = is_sum(result, vectors[alive].sum(0, dtype=np.uint32))
    names = tuple(name for name, there in zip(federation.who, alive, strict=True) if there)
    return EXACT if exact and result.survivors == names else WRONG
