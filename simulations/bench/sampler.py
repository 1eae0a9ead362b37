"""Speed of the noise sampler, against OpenDP's discrete Laplace (the extra `bench`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Draw noise for a hundred thousand cells, beside OpenDP; where it has to be quick, alone."""
    draws = 1000 if quick else 100_000
    for epsilon in (0.05, 0.5, 1.0, 3.0):
        table, bits = calibrated_laplace(Guarantee(epsilon)).table, SystemBits()
        peer = None if quick else opendp_laplace(2 / epsilon)
        yield measured(
            "noise",
            f"{draws:,} draws at ε = {epsilon:g}",
            cpu(lambda t=table, b=bits: sample(t, draws, b)),
            repeats=repeats,
            peer=None if peer is None else "OpenDP",
            theirs=None if peer is None else cpu(lambda m=peer: m(draws)),
        )
