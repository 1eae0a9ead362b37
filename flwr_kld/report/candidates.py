"""Which of a few candidate laws the clients follow, read off a report: post-processing, no cost.

A candidate's likelihood is that of multinomial counts plus the noise of the release, whose law is
known. Multinomial counts are independent Poisson counts given their total, so the likelihood is a
product over cells, each a convolution of a Poisson law with the noise, times the density of the
total given the noisy counts, which is taken as normal. Records of one client are alike, so that
each says less than an independent one: the log-likelihood is divided by the design effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, softmax, xlogy

from flwr_kld.ask.plan import cells_by_symbol
from flwr_kld.kernel.arguments import finite, instance, text
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.reference import Reference
from flwr_kld.report.report import Report
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.trust.noise_laws import noise_law

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDING = 1e-6
"""By how much a candidate's probabilities may miss 1."""
_NEGLIGIBLE = 40.0
"""Nats below the likeliest count of a cell from which on counts are left out of its sum."""
_BLOCK = 1 << 21
"""Numbers in memory at a time."""


@dataclass(frozen=True)
class BestCandidate:
    """The likeliest candidate, and how likely each is. Everything in it is public."""

    best: str  # Name of the likeliest candidate
    probabilities: dict[str, float]  # Posterior probability of each, the likeliest first
    certainty: float  # That was asked for

    @property
    def undecided(self) -> bool:
        """Whether the likeliest candidate is less probable than the certainty that was asked."""
        return self.probabilities[self.best] < self.certainty

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {p:.2g}" for name, p in self.probabilities.items())
        return f"{'undecided' if self.undecided else self.best}: {parts}"


def best_candidate(
    report: Report | StatisticsReport,
    candidates: Mapping[str, Reference | ArrayLike],
    *,
    column: str | None = None,
    reference: Reference | None = None,
    certainty: float = 0.95,
    design_effect: float | None = None,
) -> BestCandidate:
    """Find which of a few candidate laws the clients of a report follow.

    Post-processing of what was released: it costs no further epsilon. All candidates are equally
    probable beforehand and taken as exactly known. The nearest one is found even if none is true.

    Parameters
    ----------
    report : Report or StatisticsReport
        Of a check, or of statistics.
    candidates : Mapping[str, Reference or array-like]
        At least two laws by name: references over the column's domain or over the report's table,
        or one probability for each of the column's counts in the report, in their order.
    column : str, optional
        Which column of a table the candidates are laws of.
    reference : Reference, optional
        What the check compared with, which says what each of its counts is of. Needed where a
        candidate is a reference and the report is of a check.
    certainty : float
        In (0, 1): the answer is undecided below this posterior probability. Default 0.95.
    design_effect : float, optional
        At least 1: variance of the counts over that of as many independent records. By default as
        the release shows it, which is 1 where a check is about the very records that it counted.

    Returns
    -------
    BestCandidate
        The likeliest candidate, and the posterior probability of each.

    Raises
    ------
    ValueError
        If there are fewer than two candidates, one is not a law over the column's counts, or the
        report has no counts of the column or no design effect.

    Examples
    --------
    >>> from flwr_kld import Labels, Reference
    >>> from flwr_kld.report import best_candidate
    >>> from flwr_kld.simulations import simulate
    >>> from flwr_kld.strategies import KLDrift, Trusted
    >>> names = Labels(["bus", "car", "train", "walk"])
    >>> usual, strike, summer = (
    ...     Reference.from_counts(names, counts)
    ...     for counts in ([310, 250, 120, 320], [400, 390, 20, 190], [200, 150, 50, 600])
    ... )
    >>> trips = ["bus"] * 400 + ["car"] * 400 + ["train"] * 10 + ["walk"] * 190
    >>> report = simulate(KLDrift(usual, Trusted(1.0)), trips, clients=50)
    >>> candidates = {"as usual": usual, "a rail strike": strike, "summer": summer}
    >>> best_candidate(report, candidates, reference=usual).best
    'a rail strike'
    """
    instance("report", report, Report | StatisticsReport, "the report of a check or of statistics")
    instance("candidates", candidates, Mapping, "a mapping, {name: Reference}")
    certainty = finite("certainty", certainty, above=0, below=1)
    if len(candidates) < 2:
        raise ValueError("give at least two candidates: a single one is always the best")
    for name in candidates:
        text("a candidate's name", name)
    own = _column(report, column)
    counts = report.columns[own].counts
    if counts is None:
        raise ValueError(
            f"the check did not count each symbol of {own!r} by itself: check with more cells, "
            "KLDrift(…, cells=…), or ask clients what they hold (Statistics)"
        )
    if design_effect is None:
        design_effect = counts.design_effect
    if design_effect is None:
        raise ValueError(
            "the release does not show how alike a client's records are, so that nothing says for "
            "how many they count: give design_effect="
        )
    design_effect = max(finite("design_effect", design_effect, least=0), 1.0)
    records = (
        report.records
        if isinstance(report, StatisticsReport)
        else report.columns[own].reading.records
    )
    cells = _Cells(report, own, reference, len(counts.values))
    found = log_likelihood(
        np.array([cells.law(name, law) for name, law in candidates.items()]),
        np.array(counts.values),
        records,
        noise_law(report.protection.mechanism, counts.noise),
    )
    posterior = softmax(found / design_effect).tolist()
    likeliest = sorted(zip(candidates, posterior, strict=True), key=lambda one: -one[1])
    return BestCandidate(likeliest[0][0], dict(likeliest), certainty)


def _column(report: Report | StatisticsReport, column: str | None) -> str:
    if column is None and len(report.columns) > 1:
        raise ValueError(f"say which column=: the report has {', '.join(report.columns)}")
    if column is not None and column not in report.columns:
        raise ValueError(f"no column {column!r}: the report has {', '.join(report.columns)}")
    return next(iter(report.columns)) if column is None else column


@dataclass(frozen=True)
class _Cells:
    """What a report counted of a column."""

    report: Report | StatisticsReport
    column: str
    reference: Reference | None  # What a check compared with
    number: int  # Of the counts

    def law(self, name: str, candidate: Reference | ArrayLike) -> Floats:
        """Return a candidate's probability of each cell."""
        if isinstance(candidate, Reference):
            law = self._of(name, candidate)
        else:
            try:
                law = np.array(candidate, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"candidate {name!r} must be a Reference or a list of probabilities"
                ) from None
        if law.shape != (self.number,):
            raise ValueError(
                f"candidate {name!r} needs one probability for each of the {self.number} counts "
                f"of {self.column!r}, got shape {law.shape}"
            )
        if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum() - 1) > _ROUNDING:
            raise ValueError(f"candidate {name!r} must have probabilities that sum to 1")
        return law

    def _of(self, name: str, candidate: Reference) -> Floats:
        own = self._own(f"candidate {name!r}", candidate)
        if isinstance(self.report, StatisticsReport):
            return own.probabilities
        if self.reference is None:
            raise ValueError("give reference=, what the check compared with")
        compared = instance("reference", self.reference, Reference, "the check's Reference")
        if compared.fingerprint != self.report.compared.reference:
            raise ValueError(
                f"this check compared with the reference {self.report.compared.reference[:12]}, "
                f"not with {compared.fingerprint[:12]}: give that one"
            )
        basis = self._own("reference", compared)
        if own.domain != basis.domain:
            raise ValueError(f"candidate {name!r} is over another domain than the check")
        found = np.bincount(cells_by_symbol(basis), own.probabilities, self.number)
        return np.asarray(found, dtype=np.float64)

    def _own(self, what: str, reference: Reference) -> Reference:
        if not reference.is_table:
            return reference
        if self.column not in reference.columns:
            raise ValueError(f"{what} has no column {self.column!r}")
        return reference.columns[self.column]


def log_likelihood(laws: Floats, counts: Integers, records: float, noise: NoiseTable) -> Floats:
    """Log-likelihood of noisy counts under each law, in nats, up to what all laws share.

    Shapes: laws [K, cells], counts [cells]; returns [K].
    """
    pairs = np.stack([records * laws, np.broadcast_to(counts, laws.shape)]).reshape(2, -1)
    (means, noisy), place = np.unique(pairs, axis=1, return_inverse=True)
    log, mean, variance = (
        one[place].reshape(laws.shape).sum(axis=1) for one in _convolved(means, noisy, noise)
    )
    # The total is a whole number: where it is certain, its probability is 1.
    variance += 1 / (2 * np.pi)
    return np.asarray(log - (records - mean) ** 2 / (2 * variance) - np.log(variance) / 2)


def _convolved(means: Floats, noisy: Floats, noise: NoiseTable) -> Floats:
    """Log-probability of Poisson counts plus noise, and mean and variance of the count behind each.

    Shapes: means and noisy [cells]; returns [3, cells].
    """

    def joint(count: Floats, mean: Floats = means, seen: Floats = noisy) -> Floats:
        poisson = xlogy(count, mean) - mean - gammaln(count + 1)
        return np.asarray(poisson + _log_noise(noise, seen - count))

    # Both laws are log-concave: from the likeliest count on, their product falls to both sides.
    most = np.where(means > 0, np.ceil(np.maximum(means, noisy)), 0.0)
    mode = _last(lambda count: joint(count) >= joint(np.maximum(count - 1, 0)), most)
    floor = joint(mode) - _NEGLIGIBLE
    first = mode - _last(lambda step: joint(mode - step) > floor, mode)
    reach = np.ceil(10 * np.sqrt(mode)) + 100  # enough, by Bernstein's inequality
    width = mode - first + _last(lambda step: joint(mode + step) > floor, reach)
    found = np.empty((3, len(means)))
    order = np.argsort(-width)
    while len(order):
        wide = int(width[order[0]]) + 1
        block, order = np.split(order, [max(1, _BLOCK // wide)])
        count = first[block, None] + np.arange(wide)
        log = joint(count, means[block, None], noisy[block, None])
        total = logsumexp(log, axis=1)
        chance = np.exp(log - total[:, None])
        mean = (chance * count).sum(axis=1)
        found[:, block] = total, mean, (chance * (count - mean[:, None]) ** 2).sum(axis=1)
    return found


def _last(holds: Callable[[Floats], NDArray[np.bool_]], high: Floats) -> Floats:
    """Largest whole number from 0 to `high` up to which something holds, of each cell."""
    low = np.zeros_like(high)
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        yes = holds(middle)
        low, high = np.where(yes, middle, low), np.where(yes, high, middle - 1)
    return low


def _log_noise(noise: NoiseTable, at: Floats) -> Floats:
    """``ln P(Z = k)``; beyond the table it falls as between its last two."""
    log, distance = np.log(noise.probabilities[noise.reach :]), np.abs(at)
    inside = np.minimum(distance, noise.reach).astype(np.int64)
    return np.asarray(log[inside] + (distance - inside) * (log[-1] - log[-2]))
