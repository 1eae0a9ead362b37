"""How much more a cohort's counts vary than those of as many independent records would.

Records of one client are alike, so counts of whole clients vary more. Between groups of clients it
shows: Rao and Scott 1981, less what the noise adds, whose variance is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CONFIDENCE = 0.9


@dataclass(frozen=True)
class DesignEffect:
    """Variance over that of independent records.

    Parameters
    ----------
    value : float
        Average over the levels of a witness, >= 1.
    upper : float
        Upper 90 % confidence limit, >= 1.
    """

    value: float
    upper: float


def design_effect(counts: NDArray[np.int64], noise: float) -> DesignEffect:
    """Compare the spread of groups around common shares with the multinomial's.

    ``Σ_lj (y_lj - n_j p_l)²`` has mean ``(J - 1) [effect · N / J · Σ p (1 - p) + noise · Σ_l (1 -
    2 p_l + L p_l²)]``; the degrees of freedom are Satterthwaite's.

    Parameters
    ----------
    counts : NDArray[np.int64]
        Noisy counts, shape [levels, groups].
    noise : float
        Variance of the noise in each, in squared records.
    """
    levels, groups = counts.shape
    size = counts.sum(axis=0)
    seen = np.maximum(counts.sum(axis=1), 0)  # noise may take a level below 0
    share = seen / max(int(seen.sum()), 1)
    spread = float(((counts - np.outer(share, size)) ** 2).sum())
    by_noise = noise * (groups - 1) * float((1 - 2 * share + levels * share**2).sum())
    each = share * (1 - share)
    expected = (groups - 1) * float(size.mean()) * float(each.sum())
    if not expected > 0:
        return DesignEffect(1.0, 1.0)
    covariance = np.diag(share) - np.outer(share, share)
    degrees = (groups - 1) * float(each.sum()) ** 2 / float((covariance**2).sum())
    most = spread * degrees / float(chdtri(degrees, _CONFIDENCE))
    value, upper = (max((total - by_noise) / expected, 1.0) for total in (spread, most))
    return DesignEffect(value, upper)
