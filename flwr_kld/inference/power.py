"""How small a drift the lower bound finds: a closed-form forecast, before or after a check.

The drift that is forecast is idiosyncratic: ln(P / Π) of the cells is normal and independent from
cell to cell: hard for a witness, which can learn nothing of one cell from another, and not the
hardest. Symbols of one tail bin that move against each other show in no cell at all.
`flwr_kld.planner` simulates a plan's very own drift instead, in seconds rather than milliseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri, stdtrit

from flwr_kld.arguments import keep, real, whole
from flwr_kld.inference.estimators.score import Floats, check_theta, score
from flwr_kld.inference.witness import GROUPS, check_level

_SPREADS = np.geomspace(0.01, 4.0, 120)
"""Standard deviations of ln(P / Π) that are tried."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_CAPS = (1.25, 1.5, 2.0, 3.0, 5.0, 20.0)
_LEVELS = np.array([-1.9, -1.0, -0.3, 0.3, 1.0, 1.9])
"""Where the levels of a typical witness lie, in standard deviations of what it has learnt."""
_KEPT = 0.95
"""Part of what could be seen that is left by a witness of few levels and a prior that is fitted."""
_LOG_STEP = 0.1
"""Cells whose ln Π differs by less are taken as equal."""


@dataclass(frozen=True, eq=False)
class Power:
    """A check whose power is wanted. Everything in it is public.

    Parameters
    ----------
    mass : Floats
        Π of each cell, shape [cells].
    records : float
        In each half.
    noise : float
        Variance of the noise in a count, in squared records.
    groups : int
        J of the second half.
    theta : float
        In [0, 1).
    design_effect : float
        Variance of a cohort's sums over that of as many independent records, >= 1.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    mass: Floats
    records: float
    noise: float
    groups: int = GROUPS
    theta: float = 0.01
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        keep(
            self,
            records=real("records", self.records, above=0),
            noise=real("noise", self.noise, least=0),
            groups=whole("groups", self.groups, least=2),
            theta=check_theta(self.theta),
            design_effect=real("design_effect", self.design_effect, least=1),
        )

    def detectable(self, threshold: float, *, errors: float) -> float:
        """Smallest D_θ whose witness stands `errors` standard errors above the threshold.

        Returns
        -------
        float
            In nats; inf if not even the largest drift (of spread 4) does.
        """
        drift = _lognormal(self.theta, _CAPS[-1])[0][1:]
        spare = np.max([self._spare(cap, threshold, errors) for cap in _CAPS], axis=0)
        found = np.flatnonzero(spare >= 0)
        if not len(found):
            return math.inf
        i = max(int(found[0]), 1)
        return float(np.interp(0.0, spare[i - 1 : i + 1], drift[i - 1 : i + 1]))

    def _spare(self, cap: float, threshold: float, errors: float) -> Floats:
        """By how much a witness of this F exceeds what is needed, in nats, for each spread."""
        expected, weight = self._cells
        unknown = (self.design_effect * expected + self.noise) / expected**2
        learnt = _SPREADS[:, None] / np.sqrt(1 + unknown / _SPREADS[:, None] ** 2)
        _, seen, variance, squares = _lognormal(self.theta, cap)
        spreads = np.append(0.0, _SPREADS)
        sampling = self.design_effect * (np.interp(learnt, spreads, variance) @ weight)
        typical = np.sqrt(learnt**2 @ weight)
        noise = self.groups * self.noise * np.interp(typical, spreads, squares) / self.records
        error = (1 - self.theta) * np.sqrt((sampling + noise) / self.records)
        kept: Floats = _KEPT * (np.interp(learnt, spreads, seen) @ weight)
        return kept - threshold - errors * error

    @cached_property
    def _cells(self) -> tuple[Floats, Floats]:
        """Records that Π expects in a cell, and Π of all such cells, for each size of cells."""
        mass = self.mass[self.mass > 0]
        _, size = np.unique(np.floor(np.log(mass) / _LOG_STEP), return_inverse=True)
        weight = np.bincount(size, mass)
        expected = self.records * np.bincount(size, mass**2) / weight
        return expected, np.asarray(weight, dtype=np.float64)


def errors_for_one_check(level: float, power: float, groups: int = GROUPS) -> float:
    """Return how many standard errors above the threshold one check finds with this power."""
    level, power = check_level(level), check_level(power)
    return float(stdtrit(groups - 1, level) + stdtrit(groups - 1, power))


def errors_for_checks(
    checks: int, *, rate: float, horizon: int, power: float, groups: int = GROUPS
) -> float:
    """Return how many standard errors the alarm over checks finds in so many with this power.

    A bet on d standard errors grows by ``g = d² / 2 (1 + d² / J)`` nats a check, give or take
    ``d``, and has to grow by ``ln(horizon / rate)``. inf if so few checks cannot alarm.
    """
    power = check_level(power)
    sure = float(ndtri(power))
    sizes = np.geomspace(0.05, 20.0, 400)
    growth = checks * sizes**2 / 2 / (1 + sizes**2 / groups)
    enough = np.flatnonzero(growth - sure * sizes * math.sqrt(checks) >= math.log(horizon / rate))
    return float(sizes[enough[0]]) if len(enough) else math.inf


@lru_cache(maxsize=64)
def _lognormal(theta: float, cap: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute what a best ``1 / cap <= f <= cap`` sees if ln r is normal and ``E r = 1``.

    Returns D_θ, what is seen of it, Var_P f, and Σ (f_l - 1)² over typical levels, each for spread
    0 and `_SPREADS`.
    """
    spreads = np.append(0.0, _SPREADS)[:, None]
    weights = _WEIGHTS / _WEIGHTS.sum()

    def ratio_and_f(z: Floats) -> tuple[Floats, Floats]:
        r: Floats = np.exp(spreads * z - spreads**2 / 2)
        return r, np.clip(1 / ((1 - theta) * r + theta), 1 / cap, cap)

    r, f = ratio_and_f(_NODES)
    mean = (r * f) @ weights
    seen = np.log(f) @ weights - np.log((1 - theta) * mean + theta * (f @ weights))
    variance = np.maximum((r * f**2) @ weights - mean**2, 0.0)
    squares = ((ratio_and_f(_LEVELS)[1] - 1) ** 2).sum(axis=1)
    return score(r, theta) @ weights, seen, variance, squares
