"""How finely each column of a table is released: chosen from public numbers, before a check.

Whatever is released beside the counts takes of their noise's budget: numbers of alike records so
little that the error of counts grows by less than 3 %. With a threshold, columns whose upper limits
are far from what "no drift" allows get less noise, at the cost of those that hardly notice.
Proof note: ``docs/proofs/counts.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.search import edge
from flwr_kld.infer.upper_limit import usual_margin
from flwr_kld.kernel.count import alike_sensitivity
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Allotment
from flwr_kld.trust import Trust

_USUAL = 10_000.0
"""Records that are expected of a check whose reference does not say how many it has."""
_SMALL = 3_000.0
"""Records of a small check: where noise hardly shows in its counts, alike records show best."""
_USUAL_STEPS, _ALIKE = 15, 3
"""Of a count of a column that gets as much noise as if all got the same, and of alike records."""
_GROWTH, _MOST_NOISE = 1.03, 1.5
"""What the error of a column's counts may grow by, for the sake of others, and their noise."""
_LONGEST = {"laplace": 4000.0, "shares": 64.0, "gaussian": 20_000.0}
"""Standard deviations of noise, in steps, whose tables are quickly made."""
_MOST = 4
"""Times the usual steps that a column gets at most."""


def allot(trust: Trust, plan: QueryPlan, allowed: Mapping[str, float], *, drawn: bool) -> Allotment:
    """Return how a check's counts are released, of all columns a trust model is bound to.

    `allowed` has the nats up to which "no drift" is said of each column; empty without a decision.
    Of clients who are `drawn` from more, sampling may hide what noise does.
    """
    columns = max(len(plan.columns), trust.allotment.columns)  # of one column among as many
    even = Allotment.even(columns)
    if trust.nights > 1:  # its own, of changes of counts
        return trust.over(columns).allotment
    if type(trust).over is Trust.over:  # it knows of whole counts only
        return even
    release = trust.over(even).event(max(trust.min_clients, 1))
    deviation, law = math.sqrt(release.noise.variance), release.mechanism
    gaussian = not law.endswith("laplace")
    kind = "gaussian" if gaussian else "shares" if law.startswith("distributed") else "laplace"
    most = _LONGEST[kind] / deviation
    by_need = len(plan.columns) > 1 and trust.guarantee.protects == "record"
    if allowed and by_need and gaussian and most >= _USUAL_STEPS:
        return _by_need(plan, allowed, release.noise)
    # So many that the one step of alike records takes as much as there is room for, of all moves.
    norm, moves = 2 if gaussian else 1, alike_sensitivity(trust.guarantee)
    room = _GROWTH**2
    if drawn:
        room = min(_room(own, release.noise, _SMALL) for own in plan.columns.values())
    steps = (moves * (min(room**0.5, _MOST_NOISE) ** norm - 1)) ** (-1 / norm)
    if most < min(steps, 3 if gaussian else 17):
        return even
    return Allotment((_odd(min(steps, most - 1)),) * columns, 1)


def _by_need(plan: QueryPlan, allowed: Mapping[str, float], noise: NoiseTable) -> Allotment:
    """Allot Gaussian noise so that the largest margin, by what is allowed, is the smallest."""
    # The noise of all columns together hides a move of Σ steps²: that stays as it is.
    usual = _USUAL_STEPS
    margins = {name: usual_margin(own, noise, _records(own)) for name, own in plan.columns.items()}
    least = {name: _least(own, noise, usual) for name, own in plan.columns.items()}

    def steps(ratio: float) -> Iterator[int]:
        for name, margin in margins.items():
            tried = range(least[name], _MOST * usual, 2)
            enough = (n for n in tried if margin(usual / n) <= ratio * allowed[name])
            yield next(enough, _MOST * usual - 1)

    def affordable(ratio: float) -> bool:
        return sum(n * n for n in steps(ratio)) <= usual**2 * len(margins)

    worst = max(margin(1.0) / allowed[name] for name, margin in margins.items())
    ratio = edge(affordable, worst, 0.0, within=1e-3 * worst)
    return Allotment(tuple(steps(ratio)), _ALIKE)


def _records(plan: QueryPlan) -> float:
    return plan.reference.records or _USUAL


def _least(plan: QueryPlan, noise: NoiseTable, usual: int) -> int:
    """Return the fewest steps of a column: the error of its counts grows by `_GROWTH` at most."""
    return _odd(usual / math.sqrt(_room(plan, noise, _records(plan))))


def _room(plan: QueryPlan, noise: NoiseTable, records: float) -> float:
    """Return how many times the variance of its noise a column may get."""
    # The error of a fraction is about that of sampling times √(1 + cells · noise² / records).
    by_noise = max(plan.cells * noise.variance / records, 1e-9)
    return _GROWTH**2 + (_GROWTH**2 - 1) / by_noise


def _odd(steps: float) -> int:
    """Round up to an odd number."""
    fewest = math.ceil(steps)
    return fewest + 1 - fewest % 2
