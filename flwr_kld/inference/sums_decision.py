"""The decision of a check whose second half answered with sums over clients.

Drift is said on a lower confidence bound of one check (asymptotic, in the number of clients), on
evidence added up over checks (a theorem within the bound on a client's records), or on the share
outside the reference. "No drift" is said only on an upper confidence limit, which holds for every
law that the domain can show. The point estimate never alarms.
Proof notes: ``docs/proofs/lower-bound.md``, ``docs/proofs/outside-share.md``,
``docs/proofs/e-detector.md``.
"""

from __future__ import annotations

from typing import Protocol

from flwr_kld.inference.decision import Outside, found_drift, with_outside
from flwr_kld.inference.e_detector import Standing
from flwr_kld.inference.sums_bound import SumsBound
from flwr_kld.inference.verdict import Outcome, Verdict


class Upper(Protocol):
    """An upper confidence limit of D_θ, in nats."""

    @property
    def value(self) -> float:
        """D_θ is at most this."""
        ...

    @property
    def level(self) -> float:
        """With this probability."""
        ...

    def resolves(self, wanted: float) -> str:
        """Say what would bring the limit down to a wanted value, in nats."""
        ...


def decide_by_sums(
    bound: SumsBound,
    at_once: SumsBound,
    upper: Upper | None,
    standing: Standing,
    outside: Outside,
    *,
    threshold: float,
    resolution: float,
    population: str,
) -> Verdict:
    """Decide a check.

    Parameters
    ----------
    bound, at_once : SumsBound
        Of the second half, as reports show it, and at the level at which a single check alarms.
    upper : Upper or None
        Limit of D_θ from above; None if there is none, and then "no drift" is not said.
    standing : Standing
        Evidence over checks, this one included.
    outside : Outside
        The share of records outside the reference, and what is tolerated of it.
    threshold : float
        Nats of D_θ that are tolerated.
    resolution : float
        Nats beyond it that "no drift" has to exclude.
    population : str
        Whose divergence the second half tells of.

    Returns
    -------
    Verdict
        A false "drift" has probability at most ``1 - at_once.level`` in each check for the
        divergence and as much for the share outside (both asymptotic), and the detector's rate over
        its horizon (a theorem).
    """
    outcome, reason, resolve = found_drift(
        bound, at_once, standing, outside, threshold
    ) or _excluded(bound, upper, threshold + resolution)
    if outcome is Outcome.NO_DRIFT:
        outcome, reason, resolve = with_outside(reason, outside)
    limits = outside.limits
    return Verdict(
        outcome=outcome,
        reason=f"{reason}; this is about {population}",
        resolve=resolve,
        threshold=threshold,
        lower_bound=bound.lower,
        level=bound.level,
        interval=None if upper is None else (max(bound.lower, 0.0), max(upper.value, bound.lower)),
        interval_note="no upper limit" if upper is None else None,
        evidence=standing.evidence,
        alarm_at=standing.alarm_at,
        population=population,
        outside_lower=None if limits is None else limits.lower,
        outside_upper=None if limits is None else limits.upper,
        outside_tolerated=outside.tolerated,
    )


def _excluded(
    bound: SumsBound, upper: Upper | None, excluded: float
) -> tuple[Outcome, str, str | None]:
    """Return "no drift" if everything from `excluded` nats on is excluded."""
    if upper is None:
        reason = f"no drift was found, but nothing excludes one of {excluded:.3g} nats"
        return Outcome.INCONCLUSIVE, reason, "more records or fewer cells"
    confident = f"with confidence {100 * upper.level:g} %"
    if upper.value > excluded:
        reason = (
            f"no drift was found, but {confident} the divergence is only known to be at most "
            f"{upper.value:.3g} nats, not {excluded:.3g}"
        )
        return Outcome.INCONCLUSIVE, reason, upper.resolves(excluded)
    if bound.point > excluded:
        reason = (
            f"the second half's own reading of {bound.point:.3g} nats is above the "
            f"{excluded:.3g} that the first half's limit excludes"
        )
        return Outcome.INCONCLUSIVE, reason, "the next checks, if it is a drift"
    reason = f"the divergence is at most {upper.value:.3g} nats {confident}, whatever its shape"
    return Outcome.NO_DRIFT, reason, None
