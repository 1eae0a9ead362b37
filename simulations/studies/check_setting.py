"""A setting in which studies run checks again and again, as plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA, Floats
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.release import Release
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.handwriting.style import OTHER_HAND
from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies.federations import (
    Clients,
    Equal,
    Federation,
    Groups,
    Pareto,
    Silos,
)
from flwr_kld.simulations.studies.hands import Hands, Writers
from flwr_kld.simulations.studies.runner import generator
from flwr_kld.trust import Trust
from flwr_kld.trust.calibration import calibrated_gaussian
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.sealing import AggregatorKey
from flwr_kld.trust.trusted import Trusted, TrustedAggregator

_WRITERS, _PAST, _POOL = range(800), range(1_000_000, 1_001_500), 150
"""Virtual writers who are clients, those who make the reference, and images of each."""
UNEQUAL = ("one giant", "two sizes", "Pareto sizes", "Dirichlet laws")
"""One client has 30 % of all records; a tenth have 300 and the others 40; …"""
_DIRICHLET = 0.3
_FEW = 40
"""Clients below which a whole number of them drifts."""
Noise = Literal["trusted", "gaussian", "aggregator", "distributed", "client level"]


class _Gaussian(Trusted):
    """Gaussian noise, although less of another law would do."""

    def event(self, clients: int) -> Release:
        """Return the release of counts."""
        return calibrated_gaussian(self.guarantee, moves=self.allotment.moves("record"))


@dataclass(frozen=True)
class Setting:
    """What drifts, by how much, who is asked, and with how much noise."""

    symbols: int  # Of a power law; of a table if `levels` is given; not used of writers
    # A function of `drifts`; "label 0", …, that vanishes; "column 0", …, "pair"; "one group", of
    # clients who tilt far; "digit mix" or "other hand", of writers; one of `UNEQUAL`
    drift: str
    nats: float  # D_θ of the population; it follows where clients are unequal
    clients: int  # Of a check
    records: int  # Of a client; the most that it counts where clients are unequal
    epsilon: float = 1.0  # Of a check
    levels: int = 0  # Of each column of a table; 0 for one column
    alike: float | None = None  # See `Clients`
    noise: Noise = "trusted"  # Who adds it, and what it protects
    drawn: bool = False  # Whether clients are drawn from more

    @property
    def name(self) -> str:
        """All of it, in short."""
        kind = f"{self.levels}-level table" if self.levels else "labels"
        alike = "" if self.alike is None else f" alike {self.alike:g}"
        return (
            f"{self.drift} of {self.symbols} {kind}, {self.clients}x{self.records}{alike}, "
            f"ε {self.epsilon:g} {self.noise}{', drawn' * self.drawn}"
        )

    @cached_property
    def pi(self) -> Floats:
        """Π over the listed symbols."""
        if not self.levels:
            return drifts.zipf(self.symbols)
        return drifts.table(round(np.log(self.symbols) / np.log(self.levels)), self.levels)

    @cached_property
    def reference(self) -> Reference:
        """Π, with 'other' and 'missing'."""
        return _handwriting().reference if self._written else drifts.reference_of(self.pi)

    @cached_property
    def federation(self) -> Federation:
        """Clients at this D_θ."""
        if self._written:
            return _handwriting().at(self.drift, self.nats, self.records)
        sizes, rng = Equal(self.records), generator(self.drift, self.symbols)
        if self.drift in UNEQUAL:
            return self._unequal(rng)
        if self.drift == "one group" and self.nats:
            return self._one_group(sizes, rng)
        law = drifts.law_at(self._family(rng), self.pi, self.nats) if self.nats else self._padded
        return Clients(law, sizes, self.alike)

    @cached_property
    def trust(self) -> Trust:
        """Who adds the noise."""
        if self.noise == "distributed":
            return Distributed(self.epsilon, max(4 * self.clients // 5, 2))
        if self.noise == "client level":
            return Trusted(self.epsilon, protects=WholeClients(self.records))
        if self.noise == "aggregator":
            key = AggregatorKey.generate().public
            return TrustedAggregator(self.epsilon, aggregator=key)
        if self.noise == "gaussian":
            return _Gaussian(self.epsilon, 1e-6)
        return Trusted(self.epsilon)

    @property
    def truth(self) -> float:
        """D_θ of the population, in nats."""
        law = self.federation.law(self.records)
        return skewed_divergence(self.reference.probabilities, law, THETA)

    @property
    def _padded(self) -> Floats:
        """Π, and nothing in 'other' and 'missing'."""
        return np.append(self.pi, [0.0, 0.0])

    @property
    def _written(self) -> bool:
        return self.drift in ("digit mix", "other hand")

    def _family(self, rng: np.random.Generator) -> drifts.Family:
        if self.drift.startswith("column"):
            return drifts.column(self.pi, self.levels, int(self.drift.split()[1]), rng)
        if self.drift.startswith("label"):
            return drifts.without(self.pi, int(self.drift.split()[1]))
        if self.drift == "pair":
            return drifts.pair(self.pi, self.levels, rng)
        family: drifts.Family = getattr(drifts, self.drift.replace(" ", "_"))(self.pi, rng)
        return family

    def _unequal(self, rng: np.random.Generator) -> Federation:
        """Let clients differ in size or law, and large ones in both from the reference."""
        if self.drift == "Dirichlet laws":
            each = _DIRICHLET * np.ones(self.symbols)
            return Silos(rng.dirichlet(each, self.clients), self.records, pad=2)
        if self.drift == "Pareto sizes":
            return Clients(self._padded, Pareto(10, 1.1))
        few, usual, large = 1, 50, round(0.3 / 0.7 * 50 * (self.clients - 1))
        if self.drift == "two sizes":
            few, usual, large = max(self.clients // 10, 1), 40, 300
        far = drifts.law_at(drifts.tilted(self.pi, rng), self.pi, 1.0)
        one, other = Clients(self._padded, Equal(usual)), Clients(far, Equal(large))
        share = few / self.clients
        return Groups(((1 - share, one), (share, other)), exact=True)

    def _one_group(self, sizes: Equal, rng: np.random.Generator) -> Groups:
        """Let some clients tilt as far as they can, or a whole number of a few nearly so."""
        usual, far = np.append(self.pi, 0.0), drifts.tilted(self.pi, rng)(1.0)
        amount = drifts.amount_at(lambda a: (1 - a) * usual + a * far, self.pi, self.nats)
        few = self.clients < _FEW
        share = math.ceil(amount * self.clients) / self.clients if few else amount
        laws = usual, (1 - amount / share) * usual + amount / share * far
        undrifted, drifted = (Clients(np.append(law, 0.0), sizes, self.alike) for law in laws)
        return Groups(((1 - share, undrifted), (share, drifted)), exact=few)


class _Handwriting:
    """Virtual writers of scikit-learn's digits, and as reference what others wrote before."""

    def __init__(self) -> None:
        domain, past = load_digits(1).patterns(), Hands.virtual(_PAST, _POOL)
        self.reference = Reference.from_probabilities(domain, past.law(domain.size))
        self._usual = Hands.virtual(_WRITERS, _POOL)
        self._drifted = {
            "digit mix": Hands.virtual(_WRITERS, _POOL, digits=(1, 7)),
            "other hand": Hands.virtual(_WRITERS, _POOL, styles=OTHER_HAND),
        }

    def at(self, drift: str, nats: float, records: int) -> Writers:
        """Let so much of what is written drift that D_θ over the symbols is this."""
        size = self.reference.domain.size
        drifted = self._drifted[drift]
        laws = self._usual.law(size), drifted.law(size)

        def excess(part: float) -> float:
            mixed = (1 - part) * laws[0] + part * laws[1]
            return skewed_divergence(self.reference.probabilities, mixed, THETA) - nats

        part = float(brentq(excess, 0.0, 1.0)) if excess(0.0) < 0 else 0.0
        return Writers(self._usual, drifted, part, records, size)


@lru_cache(maxsize=1)
def _handwriting() -> _Handwriting:
    return _Handwriting()
