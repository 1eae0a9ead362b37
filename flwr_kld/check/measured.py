"""What a check published: counts, and if a cohort was halved, one half's sums of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flwr_kld.cohort.cohort import Participant
from flwr_kld.cohort.halves import Part
from flwr_kld.inference.contradictions import contradiction, contradiction_of_sums
from flwr_kld.inference.deciding import default_most_records
from flwr_kld.inference.estimators.design_effect import Clients, Spread, spread
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import MOST_RECORDS, ClientLimit
from flwr_kld.kernel.release import Release
from flwr_kld.query.noisy import ClientSums, NoisyCounts, NoisyLabels
from flwr_kld.report.report import OneClient


@dataclass(frozen=True)
class Exchanged:
    """Public: what came of one exchange."""

    values: NoisyCounts | ClientSums | NoisyLabels  # After the noise
    asked: int  # Clients in the cohort and in the sum
    survivors: int
    left_out: dict[Participant, str]  # Why each client that is not in the sum is not
    traffic: tuple[float, float]  # Bytes down and up for each client asked, mean
    # That a client counted at most, where that was agreed or left records out; 0 for all
    most_records: int = 0
    # What one client counts, where whoever adds up sees it and it is public
    limit: ClientLimit | None = None
    # Whether somebody saw each client's numbers, and held them to what one may answer
    holds_to_limits: bool = True
    carried: int = 0  # Clients of a session that are silent, and count as they did before

    @property
    def numbers(self) -> NoisyCounts | ClientSums:
        """What a check publishes: no labels, which are refused."""
        if isinstance(self.values, NoisyLabels):
            raise TypeError("labels are no numbers")
        return self.values

    @property
    def one_client(self) -> OneClient:
        """What a single client may do to these numbers."""
        limit, held = self.limit, self.holds_to_limits
        if limit is not None:
            return OneClient(
                most_records=limit.most_records,
                over=limit.over,
                left_out=1 - limit.counted / limit.claimed,
                share=limit.largest / limit.counted,
                held=held,
            )
        most = self.most_records
        share = self.share_of(most, self.survivors) if most and held else None
        return OneClient(most or None, share=share, held=held)

    def share_of(self, most: int, clients: int) -> float:
        """Return what fraction a client of so many records holds among usual ones."""
        others = self.numbers.records / self.survivors * (clients - 1)
        return most / (others + most)


@dataclass(frozen=True)
class Measured:
    """Public: what a check published."""

    first: Exchanged  # Counts for the estimate
    parts: Sequence[Part]  # Who was asked
    # Where the first half said to look, by column; empty if only one exchange was wanted
    witnesses: Mapping[str, Witness] = field(default_factory=dict)
    second: Exchanged | None = None  # The second half's sums of scores; None if it failed
    failure: str | None = None  # Why the exchange failed
    usual: float = (
        0.0  # Records that a client had when nothing limited them; 0 if that is not known
    )

    @property
    def published(self) -> NoisyCounts:
        """What the estimate is made of."""
        values = self.first.values
        if not isinstance(values, NoisyCounts):
            raise TypeError("the first exchange asks for counts")
        return values

    @property
    def events(self) -> list[Release]:
        """The releases; whoever is hidden is in one of them."""
        return [exchange.values.event for exchange in self._done]

    @property
    def _done(self) -> list[Exchanged]:
        return [exchange for exchange in self._exchanges if exchange is not None]

    @property
    def left_out(self) -> dict[Participant, str]:
        """Why clients did not answer everything that they were asked, each once."""
        reasons: dict[Participant, str] = {}
        if self.witnesses and self.second is None:
            others = self.parts[1].participants
            reasons = dict.fromkeys(others, "the second half of the check failed")
        for exchange in self._done:
            reasons |= exchange.left_out
        return reasons

    @property
    def asked(self) -> int:
        """Clients asked in all exchanges, each counted once."""
        return sum(len(part.participants) for part in self.parts)

    @property
    def survivors(self) -> int:
        """Clients that answered everything that they were asked."""
        return self.asked - len(self.left_out)

    def contradiction(self) -> str | None:
        """Say what cannot be in the published counts, if clients count what they agreed to."""
        for exchange in self._done:
            for column in exchange.numbers.columns.values():
                found = (
                    contradiction(column, exchange.survivors, exchange.most_records)
                    if isinstance(column, NoisyCounts)
                    else contradiction_of_sums(column)
                )
                if found is not None:
                    return found
        return None

    @property
    def columns(self) -> dict[str, Measured]:
        """What was published of each column, by name."""
        second = {} if self.second is None else _columns(self.second)
        return {
            name: replace(
                self,
                first=one,
                witnesses={name: self.witnesses[name]} if self.witnesses else {},
                second=second.get(name),
            )
            for name, one in _columns(self.first).items()
        }

    @property
    def witness(self) -> Witness:
        """Where the first half said to look: of one column, or of a table's first."""
        return next(iter(self.witnesses.values()))

    @property
    def counted(self) -> list[Participant]:
        """Whose records the first exchange counted."""
        return [p for p in self.parts[0].participants if p not in self.first.left_out]

    @property
    def population(self) -> str:
        """Whose divergence a check decides on."""
        if self.decides_by_counts:
            return self.estimated[0]
        return _population(self.survivors, False, self.witness.deciding.most_records)

    @property
    def estimated(self) -> tuple[str, str]:
        """Whose divergences the first exchange tells of: a population's, and the cohort's own."""
        clients, by_record = self.first.survivors, self.decides_by_counts
        cohort = f"these {clients} clients"
        if by_record:
            cohort = f"the records of {cohort}"
        whom = _population(clients, by_record, self.first.most_records)
        return whom + _as_counted(self.parts[0].changes), cohort

    @property
    def decides_by_counts(self) -> bool:
        """Whether the counts decide, about the very clients that were asked."""
        return self.parts[0].by == "record"

    @property
    def spread(self) -> Spread:
        """How far the counts of one column spread because records of a client are alike."""
        return self.spread_within(None)

    def spread_within(self, groups: NoisyCounts | None) -> Spread:
        """Return `spread` of the records within groups, whose own column's counts are given."""
        counts, limit = self.published, self.first.limit
        if not counts.alike or self.parts[0].by == "record":  # drawn by themselves
            return Spread(1.0, 0.0)
        clients = Clients(self.most_alike - 1, 0 if limit is None else limit.single)
        return spread(counts, clients, groups)

    @property
    def most_alike(self) -> float:
        """Design effect if all records of each client are alike, at most."""
        first = self.first
        if first.limit is not None:
            return first.limit.others + 1
        usual = default_most_records(first.numbers.records, first.survivors)
        return first.most_records or usual

    @property
    def sizes_are_hidden(self) -> bool:
        """Whether halves of clients count a limit that no client's size has set."""
        return len(self.parts) > 1 and self.first.limit is None

    @property
    def _left_out(self) -> float | None:
        """Fraction of the records that the deciding half did not count, about."""
        if self.second is None or not self.sizes_are_hidden or self.first.holds_to_limits:
            return None
        before = self.usual or self.first.numbers.records / self.first.survivors
        return 1 - self.second.numbers.records / self.second.survivors / before

    @property
    def one_client(self) -> OneClient:
        """What a single client may do to these numbers."""
        found = self.first.one_client
        if self.witnesses and (left_out := self._left_out) is not None:
            most = self.witness.deciding.most_records
            found = replace(found, most_records=most, left_out=max(left_out, 0.0))
        if found.share is None or not self.witnesses or self.second is None:
            return found
        most = self.witness.deciding.most_records
        deciding = self.first.share_of(most, self.second.survivors)
        return replace(found, share=max(found.share, deciding))

    @property
    def traffic(self) -> tuple[float, float]:
        """Bytes down and up for each client asked, mean."""
        down = sum(exchange.asked * exchange.traffic[0] for exchange in self._done)
        up = sum(exchange.asked * exchange.traffic[1] for exchange in self._done)
        return down / self.asked, up / self.asked

    @property
    def summed(self) -> list[int | None]:
        """Clients in the sum of each part that was asked; None for one that failed."""
        return [None if exchange is None else exchange.survivors for exchange in self._exchanges]

    @property
    def _exchanges(self) -> tuple[Exchanged | None, ...]:
        return (self.first, self.second) if self.witnesses else (self.first,)


def _as_counted(changes: int | None) -> str:
    """Say what a standing session does not see of records that change."""
    if changes is None:
        return ""
    if changes == 0:
        return ", each record as it was when it came"
    return f", counting at most {changes} {'change' if changes == 1 else 'changes'} of each record"


def _columns(exchange: Exchanged) -> dict[str, Exchanged]:
    columns = exchange.numbers.columns.items()
    return {name: replace(exchange, values=column) for name, column in columns}


def _population(clients: int, by_record: bool, most_records: int) -> str:
    """Name whom numbers of so many clients are about."""
    who = (
        f"these {clients} clients"
        if by_record
        else f"the clients that these {clients} were drawn from"
    )
    if not 0 < most_records < MOST_RECORDS:
        return who
    return f"{who}, counting at most {most_records:,} records of each"
