"""Writers who redraw real digits, each in a hand of their own, and federations of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.infer.estimators.score import Floats
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.handwriting.style import StylePopulation
from flwr_kld.simulations.studies.records import Integers, Records


@dataclass(frozen=True, eq=False)
class Hands:
    """What each of many writers may write: a pool of symbols for each."""

    symbols: Integers  # All pools, one after the other
    start: Integers  # Of each writer's pool, shape [writers]
    size: Integers

    @classmethod
    def of(cls, data: Handwriting) -> Hands:
        """Take what each writer of a data set wrote."""
        order = np.argsort(data.writer, kind="stable")
        _, start, size = np.unique(data.writer[order], return_index=True, return_counts=True)
        symbols = data.patterns(cropped=False).encode(data.images[order])
        return cls(symbols, start.astype(np.int64), size.astype(np.int64))

    @classmethod
    def virtual(
        cls,
        writers: range,
        records: int,
        *,
        styles: StylePopulation | None = None,
        digits: tuple[int, ...] = (),
    ) -> Hands:
        """Make virtual writers of scikit-learn's digits, who mostly write `digits` if given."""
        resampler = WriterResampler(load_digits(1), seed=1, styles=styles)
        mix = resampler.mostly(*digits) if digits else None
        parts = [resampler.writer(i, records, mix) for i in writers]
        encode = parts[0].patterns().encode
        pools = np.concatenate([encode(part.images) for part in parts])
        starts = np.arange(len(parts), dtype=np.int64) * records
        return cls(pools, starts, np.full(len(parts), records, dtype=np.int64))

    def law(self, domain_size: int) -> Floats:
        """P over symbols of a population of these writers, shape [domain_size]."""
        weight = np.repeat(1 / self.size, self.size) / len(self.size)
        return np.asarray(np.bincount(self.symbols, weight, domain_size), dtype=np.float64)

    def write(self, who: Integers, records: int, rng: np.random.Generator) -> Integers:
        """Let these writers write anew: symbols, shape [len(who), records]."""
        place = (rng.random((len(who), records)) * self.size[who, None]).astype(np.int64)
        return np.asarray(self.symbols[self.start[who, None] + place])


@dataclass(frozen=True, eq=False)
class Writers:
    """A federation of writers, with new records at each check; part of them may have drifted."""

    usual: Hands  # What the same writers write usually, and drifted
    drifted: Hands
    part: float  # Of each client's records that is drifted, in [0, 1]
    records: int  # Of a client
    domain_size: int  # Number of symbols

    def law(self, most_records: int) -> Floats:
        """P over the symbols."""
        laws = self.usual.law(self.domain_size), self.drifted.law(self.domain_size)
        mixed: Floats = (1 - self.part) * laws[0] + self.part * laws[1]
        return mixed

    def draw(self, plan: QueryPlan, clients: int, rng: np.random.Generator) -> Records:
        """Draw a cohort of different writers."""
        return self.written(plan, rng.choice(len(self.usual.size), clients, replace=False), rng)

    def written(self, plan: QueryPlan, who: Integers, rng: np.random.Generator) -> Records:
        """Let these writers write anew."""
        symbols = self.usual.write(who, self.records, rng)
        if self.part:
            other = self.drifted.write(who, self.records, rng)
            symbols = np.where(rng.random(symbols.shape) < self.part, other, symbols)
        cells = plan.cell_of[symbols.reshape(-1)].astype(np.int64)
        return Records(cells, np.full(len(who), self.records))
