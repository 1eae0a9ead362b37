"""Makes references from noised histograms: post-processing, at no further cost.

Draws of a `Sampler` protect everybody at once, but all together carry at most their total epsilon
in nats: they are exemplars, and a reference mixed of many would be nearly the base.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.ask.plan import cells_by_symbol
from flwr_kld.infer.allowance import CLEAR
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.reference import Reference
from flwr_kld.report.column import ColumnReport
from flwr_kld.table.base import Domain
from flwr_kld.trust.noise_laws import noise_law

Floats = NDArray[np.float64]

_SPACING = 0.2
"""Of the grid of ln(expected count)."""
_SHARP = 20.0
"""Counts of this many noise deviations are read as they are."""
_RAREST = 1e-4
"""Least expected count believed in, in records."""
_STEPS = 200
"""Of EM; stopped early on purpose: where the noise drowns the counts, more steps overfit it."""
_LEAST = 1e-15
"""Likelihood at least, so that a value that no expected count explains tells nothing of the law."""
_FEW = 8
"""Pairs of a value and a count, for each number of the noise, that take less than a transform."""


def denoised_fractions(values: NDArray[np.int64], noise: NoiseTable) -> Floats:
    """Estimate the distribution that a noised histogram was counted from: empirical Bayes."""
    # Each cell's expected count is believed to come from one unknown law, which the noised counts
    # themselves show (EM on a grid); the noise is known exactly. The posterior mean of the expected
    # count minimises the expected KL from the truth, and is never 0. It replaces 'clip at 0, mix
    # with a floor, normalise', even with the floor that is best in hindsight: ``docs/integral.md``.
    # Shapes: values [cells].
    deviation = math.sqrt(noise.variance)
    sharp = values > _SHARP * max(deviation, 1.0)
    rates = np.where(sharp, values, 0).astype(np.float64)
    if not sharp.all():
        rates[~sharp] = _posterior_rates(values[~sharp], noise, deviation)
    shares: Floats = rates / rates.sum()
    return shares


def _posterior_rates(values: NDArray[np.int64], noise: NoiseTable, deviation: float) -> Floats:
    """Posterior mean of the expected count behind each value, shape [cells]."""
    top = _SHARP * max(deviation, 1.0)
    rate = np.exp(np.arange(math.log(_RAREST), math.log(2 * top) + _SPACING, _SPACING))
    places, cell, times = np.unique(values, return_inverse=True, return_counts=True)
    likelihood = np.full((len(places), len(rate)), _LEAST)
    for column, one in zip(likelihood.T, rate.tolist(), strict=True):
        column += _likelihood(places, one, noise)
    prior = np.full(len(rate), 1 / len(rate))
    for _ in range(_STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = (times @ posterior + 1 / len(rate)) / (times.sum() + 1)
    posterior = likelihood * prior
    mean: Floats = (posterior @ rate) / posterior.sum(axis=1)
    return mean[cell]


def _likelihood(values: NDArray[np.int64], rate: float, noise: NoiseTable) -> Floats:
    """Probability of each value, shape [values]: a Poisson count, and noise."""
    far = 10 * math.sqrt(rate)
    counts = np.arange(max(math.floor(rate - far), 0), math.ceil(rate + far) + 30)
    poisson = np.exp(counts * math.log(rate) - rate - scipy.special.gammaln(counts + 1))
    place = values - int(counts[0]) + noise.reach
    if len(values) * len(counts) < _FEW * len(noise.probabilities):
        beyond = np.zeros(1)  # of what the noise reaches, at either end
        law = np.concatenate([beyond, noise.probabilities, beyond])
        places = place[:, None] - np.arange(len(counts)) + 1
        found: Floats = law[np.clip(places, 0, len(law) - 1)] @ poisson
        return found
    size = len(noise.probabilities) + len(counts)
    padded = scipy.fft.next_fast_len(size, real=True)
    law = scipy.fft.irfft(
        scipy.fft.rfft(noise.probabilities, padded) * scipy.fft.rfft(poisson, padded), padded
    )
    return np.where((place < 0) | (place >= size), 0, np.maximum(law[place.clip(0, size - 1)], 0))


@dataclass(frozen=True)
class ColumnCells:
    """What was released of a column's symbols. Public."""

    prior: Reference  # Law of the symbols that share a cell
    cell_of: NDArray[np.int32]  # Shape [symbols]: the cell that counts each
    values: NDArray[np.int64]  # Shape [cells], in records
    mechanism: str  # What made the noise
    deviation: float  # Its standard deviation, in records
    records: float  # How many were counted
    # Variance of the counts over that of as many independent records
    design_effect: float

    @property
    def fractions(self) -> Floats:
        """The law that the records were drawn from, shape [symbols]; in a cell the prior's."""
        noise, cell_of, prior = noise_law(self.mechanism, self.deviation), self.cell_of, self.prior
        shares, cells = denoised_fractions(self.values, noise), len(self.values)
        unlisted = np.bincount(cell_of, prior.domain.unlisted_index() < 0, cells) == 0
        drowned = unlisted & (self.values < CLEAR * math.sqrt(noise.variance))
        if not drowned.all():  # of a domain that lists nothing, one of them is all there is
            shares[drowned] = 0
        shares /= shares.sum()
        empty = np.bincount(cell_of, prior.probabilities, cells)[cell_of] == 0
        within = np.where(empty, 1.0, prior.probabilities)
        of_cell = np.bincount(cell_of, within, cells)
        return np.asarray((shares / of_cell)[cell_of] * within)


def reference_of_cells(domain: Domain, columns: Iterable[ColumnCells]) -> Reference:
    """Make a reference of released counts, which knows its records and its noise.

    Every listed symbol is possible unless the prior rules it out in a shared cell. 'Other' and
    'missing' ones are where they stand out of the noise: else they have no mass, so that checks see
    records of theirs as outside the reference.
    """
    held = list(columns)
    return Reference(
        domain,
        np.concatenate([one.fractions for one in held]),
        min(one.records / one.design_effect for one in held),
        max(one.deviation / one.design_effect for one in held),
    )


def reference_of_columns(
    columns: Mapping[str, ColumnReport], compared: str, mechanism: str, reference: Reference
) -> Reference:
    """Make a reference of what a check released that compared with another one.

    It is given by its fingerprint, and by itself, as public laws of symbols that shared a cell.
    """
    instance("reference", reference, Reference, "the Reference that the check compared with")
    if compared != reference.fingerprint:
        raise ValueError(
            f"this check compared with the reference {compared[:12]}, not with "
            f"{reference.fingerprint[:12]}: give that one"
        )
    cells = [_cells(columns, name, own, mechanism) for name, own in reference.columns.items()]
    return reference_of_cells(reference.domain, cells)


def _cells(
    columns: Mapping[str, ColumnReport], name: str, own: Reference, mechanism: str
) -> ColumnCells:
    counts = columns[name].counts if name in columns else None
    if counts is None:
        raise ValueError(
            f"the check did not count each symbol of {name!r} by itself: ask clients what they "
            "hold (Statistics), or check with more cells, KLDrift(…, cells=…)"
        )
    effect = counts.design_effect
    if effect is None:
        raise ValueError(
            "the check did not ask how alike a client's records are, so that nothing tells for "
            "how many they count: its trust model releases whole counts only"
        )
    cell_of, values = cells_by_symbol(own), np.array(counts.values)
    if len(values) != cell_of.max() + 1 or not counts.noise > 0 or not effect >= 1:
        raise ValueError(f"the report's counts of {name!r} are damaged: take the ledger's own")
    _require_distinguishable(name, own, cell_of, values, counts.noise)
    records = columns[name].reading.records
    return ColumnCells(own, cell_of, values, mechanism, counts.noise, records, effect)


def _require_distinguishable(
    name: str,
    own: Reference,
    cell_of: NDArray[np.int32],
    values: NDArray[np.int64],
    noise: float,
) -> None:
    """Refuse records whose symbols the check's reference lacks, and that share a cell."""
    together = (np.bincount(cell_of, minlength=len(values)) > 1) & (values > CLEAR * noise)
    if together.any():
        part = 100 * values[together].sum() / values.sum()
        raise ValueError(
            f"about {part:.2g} % of the records of {name!r} are of symbols that the check's "
            "reference lacks and that it counted together: ask clients what they hold "
            "(Statistics), which counts each by itself"
        )
