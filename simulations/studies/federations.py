"""Federations whose law over the symbols is known, and cohorts of clients from them.

Clients differ as real ones do: not at all, by a Dirichlet law around the population's, by one
symbol each, in their number of records, by group; they bring new records to each check or always
the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.estimators.score import Floats
from flwr_kld.simulations.studies.records import Integers, Records


class Federation(Protocol):
    """Where cohorts come from."""

    def law(self, most_records: int) -> Floats:
        """P over the symbols if each client counts at most so many records."""
        ...

    def draw(self, plan: QueryPlan, clients: int, rng: np.random.Generator) -> Records:
        """Draw one check's cohort."""
        ...


class Sizes(Protocol):
    """How many records clients have."""

    def draw(self, clients: int, rng: np.random.Generator) -> Integers:
        """Draw a number for each client, >= 0."""
        ...


@dataclass(frozen=True)
class Equal:
    """All clients have the same number of records."""

    records: int

    def draw(self, clients: int, rng: np.random.Generator) -> Integers:
        """Give each client its number."""
        return np.full(clients, self.records, dtype=np.int64)


@dataclass(frozen=True)
class Geometric:
    """Numbers of records are geometric, of this mean."""

    mean: float

    def draw(self, clients: int, rng: np.random.Generator) -> Integers:
        """Draw a number for each client."""
        return rng.geometric(1 / self.mean, clients)


@dataclass(frozen=True)
class Pareto:
    """Numbers of records are ``least · U^(-1 / index)``: a few clients have most of them."""

    least: float
    index: float

    def draw(self, clients: int, rng: np.random.Generator) -> Integers:
        """Draw a number for each client, none above 10^5."""
        drawn = self.least * rng.random(clients) ** (-1 / self.index)
        return np.minimum(drawn, 1e5).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Clients:
    """Clients around one law, with new records at each check."""

    symbols: Floats  # P over the symbols
    sizes: Sizes  # How many records they have, whatever these are
    # Concentration of the Dirichlet law that each client's own law is drawn from: 0 if each has one
    # symbol only; None if all records are independent
    alike: float | None = None

    def law(self, most_records: int) -> Floats:
        """P over the symbols: sizes tell nothing of them."""
        return self.symbols

    def draw(self, plan: QueryPlan, clients: int, rng: np.random.Generator) -> Records:
        """Draw a cohort."""
        sizes = self.sizes.draw(clients, rng)
        shares = np.asarray(np.bincount(plan.cell_of, self.symbols, plan.cells), dtype=np.float64)
        return Records(self.cells(shares, sizes, rng), sizes)

    def cells(self, shares: Floats, sizes: Integers, rng: np.random.Generator) -> Integers:
        """Draw the cells of such clients' records, by a Pólya urn for each client."""
        total = int(sizes.sum())
        drawn = np.repeat(np.arange(len(shares)), rng.multinomial(total, shares / shares.sum()))
        rng.shuffle(drawn)
        if self.alike is None or not total:
            return drawn
        start = np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.arange(total) - start
        copied = rng.random(total) * (self.alike + place) < place
        source = np.arange(total)
        source[copied] = start[copied] + (rng.random(total) * place)[copied].astype(np.int64)
        while copied.any():  # follow copies of copies to what was drawn
            further = source[source]
            copied = further != source
            source = further
        return np.asarray(drawn[source])


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of clients, each with a law of its own."""

    # Fraction of the clients that is in each group, and the group
    parts: tuple[tuple[float, Clients], ...]
    # Whether each cohort has exactly these fractions, as one of few clients who are all asked
    exact: bool = False

    def law(self, most_records: int) -> Floats:
        """P over the symbols: groups count by their records."""
        rng = np.random.default_rng(0)
        weight = [
            share * np.minimum(group.sizes.draw(100_000, rng), most_records).mean()
            for share, group in self.parts
        ]
        laws = np.array([group.law(most_records) for _, group in self.parts])
        mixed: Floats = np.array(weight) @ laws / np.sum(weight)
        return mixed

    def draw(self, plan: QueryPlan, clients: int, rng: np.random.Generator) -> Records:
        """Draw a cohort, the groups one after the other."""
        shares = np.array([share for share, _ in self.parts])
        if self.exact:
            ends = np.rint(np.cumsum(shares) * clients).astype(int)
            numbers = np.diff(ends, prepend=0)
        else:
            numbers = rng.multinomial(clients, shares)
        drawn = [
            group.draw(plan, int(number), rng)
            for number, (_, group) in zip(numbers, self.parts, strict=True)
        ]
        return Records(
            np.concatenate([part.cells for part in drawn]),
            np.concatenate([part.sizes for part in drawn]),
        )


@dataclass(frozen=True, eq=False)
class Static:
    """Clients who bring the same records to every check; cohorts are drawn or rotate."""

    symbols: Integers  # Of all records, one client's after the other's
    sizes: Integers  # Shape [clients]
    domain_size: int  # Number of symbols
    rotates: bool = False  # Whether everybody is asked once before anybody is asked again
    _queue: list[int] = field(default_factory=list, repr=False)

    @classmethod
    def of(
        cls,
        clients: Clients | Groups,
        number: int,
        whole: QueryPlan,
        rng: np.random.Generator,
        *,
        rotates: bool = False,
    ) -> Static:
        """Draw so many clients once and for all; `whole` has each symbol in a cell of its own."""
        drawn = clients.draw(whole, number, rng)
        symbol_of = np.argsort(whole.cell_of, kind="stable")
        return cls(symbol_of[drawn.cells], drawn.sizes, len(whole.cell_of), rotates)

    @cached_property
    def _start(self) -> Integers:
        return np.cumsum(self.sizes) - self.sizes

    def law(self, most_records: int) -> Floats:
        """P over the symbols of these very clients."""
        weight = np.repeat(np.minimum(most_records / np.maximum(self.sizes, 1), 1.0), self.sizes)
        law = np.bincount(self.symbols, weight, self.domain_size)
        return np.asarray(law / law.sum(), dtype=np.float64)

    def draw(self, plan: QueryPlan, clients: int, rng: np.random.Generator) -> Records:
        """Ask the next clients."""
        if self.rotates:
            while len(self._queue) < clients:
                self._queue.extend(rng.permutation(len(self.sizes)).tolist())
            who = np.array(self._queue[:clients])
            del self._queue[:clients]
        else:
            who = rng.choice(len(self.sizes), clients, replace=False)
        sizes = self.sizes[who]
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.repeat(self._start[who], sizes) + inside
        cells = plan.cell_of[self.symbols[place]].astype(np.int64)
        return Records(cells, sizes)


@dataclass(frozen=True, eq=False)
class Silos:
    """The same few clients at each check, each with a law of its own, and new records."""

    laws: Floats  # Shape [clients, symbols]
    records: int  # Of a client
    pad: int = 0  # Symbols that none of them has, such as 'other', after the others

    def law(self, most_records: int) -> Floats:
        """P over the symbols, of these very clients."""
        return np.append(self.laws.mean(axis=0), np.zeros(self.pad))

    def draw(self, plan: QueryPlan, clients: int, rng: np.random.Generator) -> Records:
        """Ask all of them for new records, whose order does not matter."""
        counts = rng.multinomial(self.records, self.laws)
        symbols = np.tile(np.arange(self.laws.shape[1]), len(self.laws))
        cells = plan.cell_of[np.repeat(symbols, counts.reshape(-1))]
        return Records(cells.astype(np.int64), np.full(len(self.laws), self.records))
