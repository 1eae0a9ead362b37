"""The Trusted model: the server sees exact counts, what it publishes is private."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from flwr_kld.accounting import Cost
from flwr_kld.calibration.central import (
    ball_event,
    calibrated_gaussian,
    calibrated_laplace,
    least_noise,
    pure_laplace,
)
from flwr_kld.counts.client_sums import ClientSums
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.counts.private_counts import ClearSum
from flwr_kld.counts.scalar import NoisyScalar, Scalar, ScalarRelease
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.promise import Adjacency, Clip
from flwr_kld.kernel.release import Release
from flwr_kld.messages.published import Published
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
    release : "counts" or Scalar
        Noised counts (default; estimates are post-processing and measure better), or the paper's
        single noised number.

    Raises
    ------
    ValueError
        If the arguments contradict each other, before anything is asked or spent.
    """

    release: Literal["counts"] | Scalar = field(default="counts", kw_only=True)

    name = "trusted"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.release, Scalar):
            if self.columns > 1:
                raise ValueError('a table needs release="counts": one number tells of one column')
            needs_records = self.adjacency is Adjacency.ADD_REMOVE
            if needs_records != (self.release.records is not None):
                raise ValueError(
                    "give Scalar(records=…), a public number, under add-remove adjacency, "
                    "and only there"
                )
            if self.noise == "gaussian" and self.delta == 0:
                raise ValueError("Gaussian noise needs delta > 0")
        elif self.release != "counts":
            raise ValueError(f"release must be 'counts' or a Scalar, got {self.release!r}")
        else:
            self._counts_event()  # calibrated now: a bad pair fails before anything is asked

    @property
    def releases_counts(self) -> bool:
        """Whether counts are published, not a single number."""
        return not isinstance(self.release, Scalar)

    def event(self, clients: int) -> Release:
        """Return the release of counts; how many clients there are changes nothing.

        Raises
        ------
        ValueError
            If a single number is released: its noise depends on the plan.
        """
        if isinstance(self.release, Scalar):
            raise ValueError("the noise of a single number depends on the plan")
        return self._counts_event()

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; how many survive changes nothing."""
        if isinstance(self.release, Scalar):  # its grid depends on the plan
            return Cost.claimed("scalar", self.guarantee)
        return Cost.of(self._counts_event())

    def prepare(self, plan: QueryPlan, clients: int) -> None:
        """Refuse a plan whose release could fail for some counts, before anything is counted.

        Raises
        ------
        ValueError
            Why; from public numbers only.
        """
        if isinstance(self.release, Scalar):
            self._scalar(self.release).prepare(plan, clients)

    def publish(self, clear: ClearSum, bits: BitSource) -> NoisyCounts | NoisyScalar | ClientSums:
        """Add the noise: the one place where privacy is spent."""
        if isinstance(self.release, Scalar):
            return self._scalar(self.release).release(clear, bits)
        return super().publish(clear, bits)

    def restore(self, told: Published, plan: QueryPlan) -> NoisyCounts | NoisyScalar | ClientSums:
        """Rebuild what `publish` returned at an aggregator from the numbers that travelled.

        Raises
        ------
        InvalidReply
            If they are not such numbers.
        """
        if isinstance(self.release, Scalar):
            scalar = self._scalar(self.release)
            return scalar.describe(told.number(), told.records, plan, private=told.private)
        counts = told.counts(plan.length)
        if plan.scores is not None:
            event = self.sums_event(told.clients)
            return ClientSums(counts, told.clients, event, plan, told.private)
        return NoisyCounts(counts, told.records, self._counts_event(), plan, told.private)

    def _scalar(self, options: Scalar) -> ScalarRelease:
        noise = "laplace" if self.noise == "least" else self.noise
        return ScalarRelease(options, self.guarantee, self.clip, noise)

    def _counts_event(self) -> Release:
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
