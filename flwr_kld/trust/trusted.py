"""The Trusted model: the server sees exact counts, what it publishes is private."""

from __future__ import annotations

from dataclasses import dataclass

from flwr_kld.accounting import Cost
from flwr_kld.calibration.central import (
    ball_event,
    calibrated_gaussian,
    calibrated_laplace,
    least_noise,
    pure_laplace,
)
from flwr_kld.kernel.promise import Clip
from flwr_kld.kernel.release import Release
from flwr_kld.messages.published import Published
from flwr_kld.query.noisy import ClientSums, NoisyCounts
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust.central_noise import CentralNoise


@dataclass(frozen=True)
class Trusted(CentralNoise):
    """Central noise, added once by a server that everybody trusts (PRIEST-KLD, Algorithm 1).

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check.
    delta : float
        In [0, 1). Default 0: pure epsilon, from discrete Laplace noise.
    noise : {"least", "laplace", "gaussian"}
        Discrete Laplace, or discrete Gaussian, which needs ``delta > 0``; by default whichever has
        the smaller variance.
    adjacency : Adjacency
        Replace-one (default; the number of records is public) or add-remove (it is protected;
        who took part is public).
    clip : int, optional
        Protect whole clients of at most this many records each instead of single records. Needs
        add-remove adjacency; clients with more records count a uniform sample of theirs. Which
        clients took part is public.
    columns : int
        Symbols that a record has: 1, or of a table as many as columns; a strategy says it (`over`).

    Raises
    ------
    ValueError
        If the arguments contradict each other, before anything is asked or spent.
    """

    name = "trusted"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.event(1)  # calibrated now: a bad pair fails before anything is asked

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; how many survive changes nothing."""
        return Cost.of(self.event(1))

    def restore(self, told: Published, plan: QueryPlan) -> NoisyCounts | ClientSums:
        """Rebuild what `publish` returned at an aggregator from the numbers that travelled.

        Raises
        ------
        InvalidReply
            If they are not such numbers.
        """
        counts = told.counts(plan.length)
        if plan.scores is not None:
            event = self.sums_event(told.clients)
            return ClientSums(counts, told.clients, event, plan, told.private)
        return NoisyCounts(counts, told.records, self.event(told.clients), plan, told.private)

    def event(self, clients: int) -> Release:
        """Return the release of counts; how many clients there are changes nothing."""
        if self.clip is None:
            calibrated = {"laplace": calibrated_laplace, "gaussian": calibrated_gaussian}
            shifts = self.adjacency.table_shifts(self.columns)
            return calibrated.get(self.noise, least_noise)(self.guarantee, shifts=shifts)
        if self.noise == "gaussian":
            raise ValueError(
                "client-level counts are protected by pure discrete Laplace noise, or by Gaussian "
                "noise where that is less: leave noise='least'"
            )
        ball = Clip(self.clip).moves(self.adjacency, self.columns)
        if self.noise == "laplace":
            return pure_laplace(self.guarantee, ball.l1)
        return ball_event(self.guarantee, ball)
