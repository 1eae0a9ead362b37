"""Clients, two aggregators and a server of a split sum, each an actor, without Flower."""

from dataclasses import dataclass, field, replace

import numpy as np
from session_nights import TOMORROW

from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_field
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.vector import Held
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.secure_sums.split_sum import FIELD, Addition, Parcel, split
from flwr_kld.trust.sealing import AggregatorKey
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


def boxes_of(addition) -> list:
    """What an aggregator opens of what it took."""
    return [*addition._opened()]


def taken_by(addition) -> dict:
    """What an aggregator took, by client."""
    return addition._taken


def verified_by(addition) -> list:
    """What an aggregator has checked of it."""
    return addition._verified()


def output_of(checked):
    """The share of a client's counts in what an aggregator checks."""
    return checked._output


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
        self.rows = {name: self.drawn(rng) for name in self.who}

    def drawn(self, rng) -> np.ndarray:
        """Counts of one client: as many records in each column."""
        records = rng.integers(1, self.terms.most_records or 1000, endpoint=True)
        return np.concatenate(
            [rng.multinomial(records, np.full(n, 1 / n)) for n in self.terms.cells]
        )

    def parcel(self, name, *, terms=None, row=None, key=None, run=RUN) -> Parcel:
        terms, row = terms or self.terms, self.rows[name] if row is None else row
        return split(Held(row), terms, key or self.who[name], name, run)

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

    def shared_key(self, addition) -> bytes:
        """Of the mask of both aggregators' answers."""
        about = addition._about(b"answer") + addition.transcript
        return addition._key.shared(addition._other, about)

    def held(self, addition) -> np.ndarray:
        """What an aggregator has added up by itself."""
        return addition._total

    def opened(self, place, portions, **options) -> int:
        """Of how many clients an aggregator opens the boxes."""
        return len(boxes_of(self.addition(place, portions, **options)))

    def added(self, first, second, *, again=None) -> tuple[Addition, Addition]:
        """What both hold of portions at the end; `again` is what the first is handed then."""
        decides = self.addition(1, second)
        said = decides.decide(self.addition(0, first).start())
        finishes = self.addition(0, first if again is None else again)
        finishes.finish(said)
        return finishes, decides

    def answer(self, place, addition, terms=None) -> bytes:
        return addition.answer((terms or self.terms).central(), SeededBits(place))

    def answers(self, additions) -> list[bytes]:
        return [self.answer(place, addition) for place, addition in enumerate(additions)]

    def noise(self, place) -> np.ndarray:
        """What that aggregator's seeded bits make it add."""
        return sample(self.terms.central().table, self.terms.numbers, SeededBits(place))

    def words(self, answer) -> np.ndarray:
        return FIELD.decode(answer)

    def together(self, first: bytes, second: bytes) -> np.ndarray:
        return from_field(FIELD.add(self.words(first), self.words(second)))

    def total(self, names=None) -> np.ndarray:
        return sum(self.rows[name] for name in names or self.who)


def agreed(*additions: Addition) -> None:
    """What an honest server looks at before it adds up."""
    if len({addition.transcript for addition in additions}) > 1:
        raise CheckFailed("lists differ")
