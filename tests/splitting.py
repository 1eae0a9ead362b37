"""Clients, two aggregators and a server of a split sum, each an actor, without Flower."""

from dataclasses import dataclass, field, replace

import numpy as np
from session_nights import TOMORROW

from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.vector import SumVector
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.trust.sealing import AggregatorKey
from flwr_kld.trust.split_sum import Addition, Parcel, split
from flwr_kld.trust.terms import AggregatorNoise, Terms

CELLS = 20
RUN = 7


def terms_of(keys, *, check="check", **options) -> Terms:
    told = Terms(
        check=check, domain="d" * 64, plan="p" * 64, cells=[CELLS], wire=b"",
        guarantee=Guarantee(1.0), asked=6, until=TOMORROW,
        noise=AggregatorNoise(tuple(key.public.hex() for key in keys)),
    )  # fmt: skip
    return replace(told, **options)


@dataclass
class Actors:
    """Honest ones; tests lie in their place."""

    clients: int = 6
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        self.keys = [AggregatorKey.generate() for _ in range(2)]
        self.who = {f"client-{i}": Identity.generate() for i in range(self.clients)}
        self.roster = Roster({name: one.public for name, one in self.who.items()})
        self.terms = terms_of(self.keys, **self.options)
        rng = np.random.default_rng(1)
        size = self.terms.length
        self.rows = {name: rng.integers(0, 1000, size) for name in self.who}

    def parcel(self, name, *, terms=None, row=None, key=None, run=RUN) -> Parcel:
        terms, row = terms or self.terms, self.rows[name] if row is None else row
        return split(SumVector(row), terms, key or self.who[name], name, run)

    def portions(self, parcels=None) -> tuple[dict, dict]:
        """What the server hands to either aggregator, by sender."""
        parcels = parcels or {name: self.parcel(name) for name in self.who}
        both = {sender: parcel.portions() for sender, parcel in parcels.items()}
        first, second = ({s: parts[i] for s, parts in both.items()} for i in range(2))
        return first, second

    def addition(self, place, portions, *, terms=None, run=RUN) -> Addition:
        made = Addition(self.keys[place], terms or self.terms, run, self.roster)
        made.take(portions)
        return made

    def answer(self, place, addition, terms=None) -> bytes:
        return addition.answer((terms or self.terms).central(), SeededBits(place))

    def noise(self, place) -> np.ndarray:
        """What that aggregator's seeded bits make it add."""
        return sample(self.terms.central().table, self.terms.numbers, SeededBits(place))

    def words(self, answer) -> np.ndarray:
        return np.frombuffer(answer, "<u8")

    def together(self, first: bytes, second: bytes) -> np.ndarray:
        return from_ring(self.words(first) + self.words(second))

    def total(self, names=None) -> np.ndarray:
        return sum(np.append(self.rows[name], 1) for name in names or self.who)


def agreed(*additions: Addition) -> None:
    """What an honest server looks at before it adds up."""
    if len({addition.transcript for addition in additions}) > 1:
        raise CheckFailed("lists differ")
