"""Speed of the noise sampler, beside OpenDP's discrete Laplace (the extra `bench`).

And beside the random bits that no sampler can do without: the entropy of its law.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from functools import partial

from measuring import Row, cpu, measured

from flwr_kld.common.extras import require
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits, sample
from flwr_kld.trust.calibration import calibrated_laplace


def opendp_laplace(scale: float) -> Callable[[int], object]:
    """OpenDP's vector discrete Laplace mechanism."""
    dp = require("opendp.prelude", extra="bench")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    mechanism = dp.m.make_laplace(*space, scale=scale)
    return lambda n: mechanism([0] * n)


def entropy(scale: float) -> float:
    """Return the bits of one draw of a discrete Laplace law."""
    q = math.exp(-1 / scale)
    p = (1 - q) / (1 + q)  # of 0; of ±k, p q^k
    return -math.log2(p) + 2 * p * q / (1 - q) ** 2 / scale / math.log(2)


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Draw noise for a hundred thousand cells."""
    draws = 1000 if quick else 100_000
    for epsilon in (0.05, 1.0) if quick else (0.05, 0.5, 1.0, 3.0):
        table, bits = calibrated_laplace(Guarantee(epsilon)).table, SystemBits()
        needed = math.ceil(draws * entropy(2 / epsilon) / 8)
        peers: dict[str, Callable[[], object]] = {"its random bits": partial(os.urandom, needed)}
        if not quick:
            peers["OpenDP"] = partial(opendp_laplace(2 / epsilon), draws)
        for peer, theirs in peers.items():
            yield measured(
                "sampler", f"{draws:,} draws at ε = {epsilon:g}",
                cpu(lambda t=table, b=bits: sample(t, draws, b)),
                repeats=repeats, peer=peer, theirs=cpu(theirs),
            )  # fmt: skip
