"""Decides whether a client answers a check: by its operator's limits, then by its budget."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from flwr_kld.common.errors import QueryRefused
from flwr_kld.common.search import edge
from flwr_kld.guard.limits import GuardFileError, Limits, read_limits
from flwr_kld.guard.receipts import CLAIMED, OWN, Claim, Receipt, Receipts, node_identity
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.kernel.arguments import InvalidArgument
from flwr_kld.kernel.promise import Protected
from flwr_kld.ledger.budget import UNBOUNDED, exact, shown
from flwr_kld.ledger.cost import Cost
from flwr_kld.trust.terms import NO_MODEL, Terms

logger = logging.getLogger("flwr_kld")

_Found = TypeVar("_Found")


class Guard:
    """One node's guard; only tests give it a clock."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] | None = None) -> None:
        self.limits = limits
        self._clock = clock or time.time

    @classmethod
    def from_file(cls, path: str | Path, *, clock: Callable[[], float] | None = None) -> Guard:
        """Read a guard file; the error says what has to be corrected."""
        return cls(read_limits(path), clock=clock)

    @property
    def policy(self) -> ClientPolicy:
        """What a secure sum must have."""
        own = self.limits.secure_sum
        return replace(own, min_asked=max(own.min_asked, self.limits.check.min_asked))

    def judge(self, terms: Terms) -> None:
        """Refuse terms beyond the limits, naming the limit and both numbers; spends nothing."""
        limits, allowed, promised = self.limits, self.limits.allow, terms.guarantee
        if terms.trust not in allowed.trust:
            raise QueryRefused(
                f"trust model {terms.trust!r}; this client answers "
                f"{', '.join(sorted(allowed.trust))} only"
            )
        if allowed.domains is not None and terms.domain not in allowed.domains:
            raise QueryRefused("the domain is not one that this client's operator allows")
        counts = terms.trust != "local" and terms.unlisted_labels is None
        if counts and allowed.plans is not None and terms.plan not in allowed.plans:
            raise QueryRefused("the plan is not one that this client's operator allows")
        column = terms.unlisted_labels.column if terms.unlisted_labels else None
        if column is not None and allowed.discovery is not None and column not in allowed.discovery:
            raise QueryRefused(
                f"a question for the unlisted labels of {column!r}, which this client's operator "
                "does not allow"
            )
        if promised.protected != limits.protects:
            raise QueryRefused(
                f"a check that protects each {promised.protected}; this client answers those that "
                f"protect each {limits.protects} only"
            )
        for name, asked, most in (
            ("epsilon", exact(promised.epsilon), limits.check.max_epsilon),
            ("delta", exact(promised.delta), limits.check.max_delta),
        ):
            if asked > most:
                raise QueryRefused(
                    f"{name} {shown(asked)}; this client's limit for a check is {shown(most)}"
                )
        if terms.asked < limits.check.min_asked:
            raise QueryRefused(
                f"a cohort of {terms.asked}; this client's minimum is {limits.check.min_asked}"
            )

    def admit(self, terms: Terms, account: str) -> Receipt:
        """Judge terms and reserve what they spend before anything is counted, or refuse.

        The receipt is on the disk when this returns: whatever happens later, it is spent.
        """
        return self._look_up(self._judged(terms, account), Receipts.reserve)

    def last_night(self, terms: Terms, account: str) -> int:
        """Refuse what `admit` would refuse of any night; return the last one that was answered.

        Of the terms' session: 0 for none. Spends nothing, so that a refusal loads no record.
        """
        return self._look_up(self._judged(terms, account), Receipts.last_night)

    def admit_round(self, message: str, claimed: float, account: str) -> tuple[float, float] | None:
        """Reserve a round of training by its message's id, or refuse it, before a record is read.

        `claimed` is the server's noise multiplier. Returns, where the node adds noise of its own,
        the largest l2 norm of an update and the noise's standard deviation.
        """
        training, protects = self.limits.training, self.limits.protects
        if training is None:
            raise QueryRefused("this client's operator allows no training")
        most, delta, clip = training.max_epsilon, training.max_delta, training.own_clipping_norm
        noise = claimed
        if clip is not None:  # the least that keeps the limit
            noise = edge(lambda z: _of_round(z, delta, protects) <= most, 1e9, 1e-9, within=1e-9)
        epsilon = _of_round(noise, delta, protects)
        if epsilon > most:
            cost = f"of epsilon {shown(epsilon)}" if epsilon < UNBOUNDED else "without noise"
            raise QueryRefused(
                f"a round of training {cost}; this client's limit for a round is {shown(most)}, at "
                f"delta {shown(delta)}"
            )
        spend = Claim(
            check=message,
            account=account,
            plan=NO_MODEL,
            terms=f"noise multiplier {noise!r}",
            model=NO_MODEL,
            trust=CLAIMED if clip is None else OWN,
            epsilon=epsilon,
            delta=delta,
            protects=protects,
            most_records=0,
            until=0,
        )
        self._look_up(spend, Receipts.reserve)
        return None if clip is None else (float(clip), float(clip) * noise)

    def _judged(self, terms: Terms, account: str) -> Claim:
        """Judge terms; return what they would spend."""
        self.judge(terms)
        promised = terms.guarantee
        return Claim(
            check=terms.check,
            account=account,
            plan=terms.plan,
            terms=terms.fingerprint,
            model=terms.model,
            trust=terms.trust,
            epsilon=exact(promised.epsilon),
            delta=exact(promised.delta),
            protects=promised.protected,
            most_records=terms.most_records,
            until=terms.last_release,
            session=terms.session,
            night=terms.night.number if terms.night else 0,
        )

    def _look_up(
        self, spend: Claim, look: Callable[[Receipts, Claim, float, Limits], _Found]
    ) -> _Found:
        limits = self.limits
        try:
            receipts = Receipts(limits.receipts, node_identity(limits.key))
            return look(receipts, spend, self._clock(), limits)
        except (sqlite3.Error, OSError, InvalidArgument, GuardFileError) as error:
            logger.error("no receipt can be written: %s: %s", type(error).__name__, error)
            raise QueryRefused("this client cannot write a receipt, so it counts nothing") from None


def _of_round(noise: float, delta: Fraction, protects: Protected) -> Fraction:
    """Return a round's epsilon by its noise multiplier, `UNBOUNDED` for none."""
    if noise < 1e-9 or not 0 < delta < 1:
        return Fraction(UNBOUNDED)
    return Cost.training(noise, float(delta), protects).epsilon
