"""Clients, two aggregators and a server of a split sum, each an actor, without Flower."""

from dataclasses import dataclass, field, replace

import numpy as np

from flwr_kld.errors import CheckFailed
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.vector import SumVector
from flwr_kld.messages.sealing import AggregatorKey, SealContext
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.sums import Identity, Roster
from flwr_kld.sums.two_aggregators import Addition, Parcel, split
from flwr_kld.trust.two_aggregators import central_of

CELLS = 20
CONTEXT = SealContext(7, "check", "reference", "plan", "", "")


def terms_of(keys, **options) -> SplitTerms:
    usual = {
        "guarantee": Guarantee(1.0), "noise": "least", "clip": None, "columns": 1,
        "numbers": CELLS, "scored": False,
    }  # fmt: skip
    seeds, vectors = (key.public.hex() for key in keys)
    return SplitTerms(seeds=seeds, vectors=vectors, **usual | options)


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
        self.context = replace(CONTEXT, terms=self.terms.to_json())
        rng = np.random.default_rng(1)
        size = self.terms.length - 1
        self.rows = {name: rng.integers(0, 1000, size) for name in self.who}

    def parcel(self, name, *, terms=None, context=None, row=None, key=None) -> Parcel:
        terms, row = terms or self.terms, self.rows[name] if row is None else row
        context = replace(context or self.context, sender=name)
        return split(SumVector(row), terms, key or self.who[name], context)

    def portions(self, parcels=None) -> tuple[dict, dict]:
        """What the server hands to either aggregator, by sender."""
        parcels = parcels or {name: self.parcel(name) for name in self.who}
        both = {sender: parcel.portions() for sender, parcel in parcels.items()}
        first, second = ({s: parts[i] for s, parts in both.items()} for i in range(2))
        return first, second

    def addition(self, place, portions, *, terms=None, context=None) -> Addition:
        terms = terms or self.terms
        context = context or replace(self.context, terms=terms.to_json())
        made = Addition(self.keys[place], terms, context, self.roster)
        made.take(portions)
        return made

    def answer(self, place, addition, terms=None) -> bytes:
        return addition.answer(central_of(terms or self.terms), SeededBits(place))

    def noise(self, place) -> np.ndarray:
        """What that aggregator's seeded bits make it add."""
        return sample(central_of(self.terms).table, self.terms.numbers, SeededBits(place))

    def words(self, answer) -> np.ndarray:
        return np.frombuffer(answer, f"<u{self.terms.bits // 8}")

    def together(self, first: bytes, second: bytes) -> np.ndarray:
        return from_ring(self.words(first) + self.words(second), self.terms.bits)

    def total(self, names=None) -> np.ndarray:
        return sum(np.append(self.rows[name], 1) for name in names or self.who)


def agreed(*additions: Addition) -> None:
    """What an honest server looks at before it adds up."""
    if len({addition.transcript for addition in additions}) > 1:
        raise CheckFailed("lists differ")
