"""The prior law of ``ln r``, one for every mass bin, learnt from the noisy counts (EM)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.estimators.groups import Groups
from flwr_kld.inference.estimators.score import Floats

_BANDWIDTH = 1.0
"""Bins share evidence over about this distance in ln Π: rare symbols may have another law of r
than frequent ones. One law for all is what over-shrinks at P = Π."""
_TO_BASE = 1.0
_TO_GLOBAL = 4.0
"""Pseudo-cells that pull each bin's law to the base law and to the law of all bins."""

_BASES = ((0.1, 0.002), (0.3, 0.01), (1.0, 0.02), (2.0, 0.05), (2.0, 0.4))
"""(Deviation of ln r, fraction of unseen symbols) of the candidate base laws, least drift first.
Each is centred so that its mean ratio is the one that the known total implies."""
_MEAN_DEVIATION = 0.2
"""Deviation of ln of the mean ratio, over that of ln r: P leaves Π's support as it drifts."""


def base_law(
    grid: Floats, rows: Floats, groups: Groups, total: float, total_variance: float
) -> Floats:
    """Average of the candidate base laws by their evidence, shape [U + 1]."""
    expected = np.exp(groups.log_expected)[groups.bin_of]
    sum_expected = float(groups.size @ expected)
    crowding = float(groups.size @ expected**2) / sum_expected**2
    known = max(total, total_variance**0.5, 1.0)
    log_mean = float(np.log(known / sum_expected))
    laws, evidence = [], []
    for deviation, unseen in _BASES:
        bell = np.exp(-0.5 * ((grid - _centre(grid, deviation, log_mean, unseen)) / deviation) ** 2)
        law = np.concatenate([[unseen], (1 - unseen) * bell / bell.sum()])
        spread = deviation**2 * (_MEAN_DEVIATION**2 + crowding)
        spread += (total_variance + known) / known**2
        laws.append(law)
        evidence.append(
            groups.size @ np.log(rows @ law + 1e-300)
            - 0.5 * log_mean**2 / spread
            - 0.5 * np.log(spread)
        )
    shares = np.exp(np.array(evidence) - max(evidence))
    mixed: Floats = shares / shares.sum() @ np.array(laws)
    return mixed


def _centre(grid: Floats, deviation: float, log_mean: float, unseen: float) -> float:
    """Centre of a normal law of ln r with this mean ratio, kept on the grid."""
    centre = log_mean - np.log1p(-unseen) - deviation**2 / 2
    return float(np.clip(centre, grid[0], grid[-1]))


@dataclass(eq=False)
class Mixture:
    """Weights of the components in each mass bin."""

    groups: Groups  # G groups in B bins
    base: Floats  # The law that bins without evidence keep, shape [U + 1]

    def __post_init__(self) -> None:
        centre = self.groups.log_expected
        self.weights: Floats = np.tile(self.base, (len(centre), 1))
        """Shape [B, U + 1], each row summing to 1."""
        self._kernel = np.exp(-0.5 * ((centre[:, None] - centre) / _BANDWIDTH) ** 2)

    def fit(self, rows: Floats, steps: int) -> None:
        """Run EM from the present weights; `rows` is the likelihood, [G, U + 1]."""
        # Few steps on purpose: the law of r is only weakly identified through wide noise, and EM
        # stopped early stays near the base in the directions that the counts do not determine.
        groups, starts = self.groups, self.groups.starts
        merged = len(starts) < len(rows)
        for _ in range(steps):
            share = rows * self.weights[groups.bin_of]
            share *= (groups.size / share.sum(axis=1))[:, None]
            in_bin = np.add.reduceat(share, starts, axis=0) if merged else share
            everywhere = in_bin.sum(axis=0)
            everywhere *= _TO_GLOBAL / everywhere.sum()
            weights = self._kernel @ in_bin + everywhere + _TO_BASE * self.base
            self.weights = weights / weights.sum(axis=1, keepdims=True)
