"""The verdict on a table: that of its columns together.

Drift is said if any column has drifted: each of d columns uses up a d-th of the rate of false
alarms (Bonferroni), whatever the dependence between them. "No drift" is said if every column says
so: a drifted one hides with the probability of its own limit, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from flwr_kld.inference.verdict import Outcome, Verdict

_NAMED = 5
"""Columns that a sentence names."""


def ranked(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return the columns, first those that drifted, then by how much over their threshold."""
    order = [Outcome.DRIFT, Outcome.INCONCLUSIVE, Outcome.NO_DRIFT]

    def place(name: str) -> tuple[int, float]:
        verdict = verdicts[name]
        bound = -math.inf if verdict.lower_bound is None else verdict.lower_bound
        return order.index(verdict.outcome), verdict.threshold - bound

    return sorted(verdicts, key=place)


def table_verdict(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict on all columns, with the numbers of the one that is ranked first."""
    names = ranked(verdicts)
    leading = verdicts[names[0]]
    alike = [name for name in names if verdicts[name].outcome is leading.outcome]
    several, all_of_them = _listed(alike), len(verdicts)
    why = f"{names[0]}: {leading.reason}"
    if leading.outcome is Outcome.NO_DRIFT:
        last = max(verdicts.values(), key=lambda v: v.interval[1] if v.interval else math.inf)
        reason = (
            f"none of {all_of_them} columns has drifted; the largest upper limit: {last.reason}"
        )
    elif leading.outcome is Outcome.DRIFT:
        reason = f"{len(alike)} of {all_of_them} columns drifted: {several}; {why}"
    else:
        reason = (
            f"no column is known to have drifted, and {len(alike)} of {all_of_them} may have: "
            f"{several}; {why}"
        )
    return replace(leading, reason=reason)


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
