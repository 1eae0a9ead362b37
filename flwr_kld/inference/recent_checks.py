"""What recent checks published tells of where records lie now: at most one change point among them.

A single check's noisy counts show where to look only dimly. A drift that lasts shows in all checks
since it began; so the counts of recent checks are remembered (they are public already), and Bayes'
rule says since when they agree. A witness that was learnt so is as valid as any other: all that it
rests on was published before the half that decides was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flwr_kld.codec.model import Model
from flwr_kld.inference.estimators.design_effect import Spread
from flwr_kld.inference.estimators.posterior_counts import expected_shares
from flwr_kld.inference.estimators.score import Floats

if TYPE_CHECKING:
    from flwr_kld.query.noisy import NoisyCounts
    from flwr_kld.query.plan import QueryPlan

_SCHEMA: Final = 1

_CHECKS, _SYMBOLS = 16, 1000
"""Checks that are remembered, and symbols of each: the heaviest."""

_DEVIATIONS = np.array((0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6))
"""Of ratios P / Π around 1, before counts are seen: equally likely."""

_CHANGE = 0.02
"""Probability of a change before each check."""

_TOO_FEW = 1e-3
"""Records that a cell is expected to hold, below which its count tells nothing of its ratio."""

_MEDIAN = 0.455
"""Of the square of a standard normal variable."""

_Number = Annotated[float, Field(allow_inf_nan=False)]

_Records = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class _Check(Model, what="a remembered check"):
    symbols: tuple[int, ...]
    values: tuple[int, ...]
    records: _Records
    variance: _Number
    spread: _Number
    noise: _Number


@dataclass(frozen=True)
class RecentChecks(Model, what="the recent checks"):
    """Noisy counts of symbols that had a cell of their own, and the spread of clients. Public."""

    schema: Literal[1] = _SCHEMA  # Version
    checks: tuple[_Check, ...] = ()  # At most `_CHECKS`, oldest first
    # That a client counts in both halves where nobody sees how many it has, as the first check set
    # it; and how many it had then, on average. 0 before that.
    most_records: Annotated[int, Field(ge=0)] = 0
    usual: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    def with_check(self, noisy: NoisyCounts, spread: Spread) -> RecentChecks:
        """Remember what a check's halves published, and forget the oldest if there are too many."""
        plan = noisy.plan
        cells = np.flatnonzero((plan.symbols_in == 1) & ~plan.outside)
        cells = cells[np.argsort(-plan.mass[cells], kind="stable")[:_SYMBOLS]]
        check = _Check(
            symbols=tuple(_symbol_of(plan)[cells].tolist()),
            values=tuple(noisy.values[cells].tolist()),
            records=float(noisy.records),
            variance=float(noisy.noise.variance),
            spread=spread.ratio,
            noise=spread.noise,
        )
        return replace(self, checks=(*self.checks, check)[-_CHECKS:])

    @property
    def spreads(self) -> list[Spread]:
        """How far clients' sums spread in each check."""
        return [Spread(check.spread, check.noise) for check in self.checks]

    def shares(self, noisy: NoisyCounts, *, theta: float) -> Floats:
        """Posterior mean of P over the cells of the newest check, shape [cells], summing to 1."""
        alone = expected_shares(noisy, theta=theta)
        if not self.checks:
            return alone
        inside = np.flatnonzero(noisy.records * noisy.plan.mass > _TOO_FEW)
        excess, precision = self._seen(noisy, inside)
        since = np.cumsum(precision[::-1], axis=0), np.cumsum((precision * excess)[::-1], axis=0)
        before = since[0][-1] - since[0], since[1][-1] - since[1]
        likelihood = _evidence(*since) + np.logaddexp.reduce(_evidence(*before), axis=1)[:, None]
        prior = np.full(len(excess), _CHANGE)
        prior[-1] = 1 - _CHANGE * (len(excess) - 1)
        weight = np.exp(likelihood - likelihood.max()) * prior[:, None]
        weight /= weight.sum()
        share, newest = alone.copy(), float(weight[0].sum())
        means = since[1][..., None] / (since[0][..., None] + _DEVIATIONS**-2.0)
        ratio = np.einsum("td,tcd->c", weight[1:], 1 + means[1:])
        lasting = noisy.plan.mass[inside] * np.maximum(ratio, 0)
        share[inside] = newest * alone[inside] + lasting
        normal: Floats = share / share.sum()
        return normal

    def _seen(self, noisy: NoisyCounts, inside: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return r - 1 as each check saw it, and its precision: 0 for what it did not ask."""
        # Shape [checks + 1, inside], the newest last. Clients' records hang together: by as much as
        # checks differ from each other beyond their sampling and noise, all precisions are smaller.
        plan = noisy.plan
        counts = np.zeros((len(self.checks) + 1, len(inside)))
        known = np.zeros_like(counts, dtype=bool)
        own = np.where(plan.symbols_in == 1, _symbol_of(plan), -1)[inside]
        for i, check in enumerate(self.checks):
            _, at, there = np.intersect1d(check.symbols, own, return_indices=True)
            known[i, there], counts[i, there] = True, np.array(check.values)[at]
        known[-1], counts[-1] = True, noisy.values[inside]
        records = np.array([*(check.records for check in self.checks), noisy.records])[:, None]
        variance = np.array([*(c.variance for c in self.checks), noisy.noise.variance])[:, None]
        expected = records * plan.mass[inside]
        excess = np.where(known, counts / expected - 1, 0.0)
        error = (expected + variance) / expected**2
        both = known[1:] & known[:-1]
        steps = np.diff(excess, axis=0)[both] ** 2 / (error[1:] + error[:-1])[both]
        inflation = 1.0
        if len(self.checks) > 1 and len(steps):
            inflation = max(float(np.median(steps)) / _MEDIAN, 1.0)
        return excess, np.where(known, 1 / (error * inflation), 0.0)


def _symbol_of(plan: QueryPlan) -> NDArray[np.int64]:
    """One symbol of each cell, shape [cells]."""
    symbol = np.zeros(plan.cells, dtype=np.int64)
    symbol[plan.cell_of] = np.arange(len(plan.cell_of))
    return symbol


def _evidence(precision: Floats, pull: Floats) -> Floats:
    """Log likelihood of checks for each prior deviation, shape [.., deviations]."""
    prior = _DEVIATIONS**2
    precision, pull = precision[..., None], pull[..., None]
    cells = pull**2 / (precision + 1 / prior) - np.log1p(prior * precision)
    found: Floats = cells.sum(axis=-2) / 2 - np.log(len(prior))
    return found
