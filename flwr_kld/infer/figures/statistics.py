"""What the values of a column are, from its noised counts alone: no reference, no comparison.

Intervals are of the population that clients were drawn from, or, with a design effect of 0, of the
very records that were counted. Post-processing: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.cell_fractions import as_law, noisy_fractions
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.fractions import Fraction, fractions
from flwr_kld.infer.figures.numbers import Figure, Numbers, Quantile
from flwr_kld.infer.fraction_interval import (
    LEVEL,
    Floats,
    count_interval,
    fraction_intervals,
    fraction_variance,
)
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.rounded import RoundedNumbers
from flwr_kld.table.times import CALENDARS

DECILES = tuple(tenth / 10 for tenth in range(1, 10))  # Not tuned: by definition


@dataclass(frozen=True)
class NumberStatistics:
    """Where the numbers of a column lie, in its unit. Everything in it is public.

    Values beyond an outer edge count as their bin's public mean, or as the edge where the domain
    has none. Intervals hold however values lie between edges.
    """

    mean: Figure
    deviation: Figure  # Their standard deviation
    quantiles: tuple[Quantile, ...]  # The deciles
    edges: tuple[float, ...]  # Public: where the bins of the histogram end


@dataclass(frozen=True)
class ColumnStatistics:
    """What one column holds. Everything in it is public. Intervals are at 95 %."""

    count: Figure  # Records whose value the domain lists, among those asked
    # Fractions of the records that have none of these, by name: 'other', 'missing'
    unlisted: tuple[Fraction, ...]
    # Fraction of the records that each listed symbol has, in the domain's order. All intervals of
    # a column hold at once, so that the most frequent may be picked.
    histogram: tuple[Fraction, ...]
    numbers: NumberStatistics | None  # Of `Binned` columns of two edges or more

    def drowned(self, figure: Figure) -> bool:
        """Whether noise in bins far from all values leaves their mean, or s.d., anywhere.

        Then its interval is more than twice as wide as the range of the values that are seen: in
        the deciles, or in bins that hold records for certain; beyond an edge, as wide as the bin
        before it.
        """
        if self.numbers is None:
            return False
        edges = self.numbers.edges
        held = [place for place, one in enumerate(self.histogram) if one.low > 0]
        seen = [end for one in self.numbers.quantiles for end in (one.low, one.high)]
        firsts = (min(max(place - 1, 0), len(edges) - 2) for place in held)
        seen += [end for first in firsts for end in edges[first : first + 2]]
        return figure.high - figure.low > 2 * (max(seen) - min(seen))

    @property
    def by_calendar(self) -> bool:
        """Whether symbols are hours, weekdays or months: their order is what people expect."""
        return tuple(one.name for one in self.histogram) in CALENDARS

    def most_frequent(self, most: int) -> tuple[Fraction, ...]:
        """Return so many symbols at most, the most frequent first."""
        return tuple(sorted(self.histogram, key=lambda one: -one.value)[:most])


def column_statistics(noisy: NoisyCounts, effects: DesignEffects) -> ColumnStatistics:
    """Estimate them from counts of which every symbol has a cell of its own.

    Of numbers that are counted at grid points, the histogram is that of the column's own bins.
    """
    domain = noisy.plan.reference.domain
    seen, index = noisy_fractions(noisy), domain.unlisted_index()
    listed = np.flatnonzero(index < 0)
    unlisted = fractions(
        noisy,
        seen,
        domain.unlisted,
        index == np.arange(len(domain.unlisted))[:, None],
        effects,
    )
    numbers = Numbers.from_counts(noisy, seen, effects)
    found = None
    if numbers is not None:
        found = NumberStatistics(*numbers.between(), numbers.quantiles(DECILES), _edges(domain))
    cells = np.zeros(noisy.plan.cells, dtype=np.bool_)
    cells[noisy.plan.cell_of[listed]] = True
    count = Figure(*count_interval(noisy, cells, level=LEVEL))
    if isinstance(domain, RoundedNumbers):
        histogram = _histogram_of_bins(noisy, seen, domain, effects)
    else:
        histogram = tuple(_histogram(noisy, seen, listed, effects))
    return ColumnStatistics(count, unlisted, histogram, found)


def _edges(domain: Domain) -> tuple[float, ...]:
    if isinstance(domain, RoundedNumbers):
        domain = domain.binned
    return tuple(domain.edges) if isinstance(domain, Binned) else ()


def _histogram_of_bins(
    noisy: NoisyCounts, seen: Floats, domain: RoundedNumbers, effects: DesignEffects
) -> tuple[Fraction, ...]:
    own = domain.binned
    listed = np.arange(own.size - len(own.unlisted))
    # Together they err as often as one alone may: each by its part.
    level = 1 - (1 - LEVEL) / own.size
    names = [own.name_of(symbol) for symbol in listed]
    return fractions(noisy, seen, names, domain.bin_of == listed[:, None], effects, level=level)


def _histogram(
    noisy: NoisyCounts, seen: Floats, listed: NDArray[np.int64], effects: DesignEffects
) -> Iterator[Fraction]:
    domain, cells = noisy.plan.reference.domain, noisy.plan.cell_of[listed]
    law = as_law(seen, noisy.plan.mass)
    low, high = fraction_intervals(noisy, level=LEVEL, effects=effects)
    effect = effects.of_shares(law, np.ones(len(law), dtype=np.int64), law)
    variance = fraction_variance(noisy, law, design_effect=effect)
    numbers = np.array([np.clip(seen, low, high), np.sqrt(np.maximum(variance, 0)), low, high])
    for symbol, of_cell in zip(listed.tolist(), numbers[:, cells].T.tolist(), strict=True):
        yield Fraction(domain.name_of(symbol), *of_cell)
