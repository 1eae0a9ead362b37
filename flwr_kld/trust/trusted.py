"""Central noise: added by the server, by an aggregator, or by each of two."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from flwr_kld.common.guesses import suggests
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import instance, set_fields
from flwr_kld.kernel.law import noise_sum
from flwr_kld.kernel.promise import Allotment, Protects
from flwr_kld.kernel.release import Release
from flwr_kld.ledger import Cost
from flwr_kld.trust.calibration import least_noise, selection_release
from flwr_kld.trust.noise_laws import TWICE
from flwr_kld.trust.sealing import check_pair, check_public
from flwr_kld.trust.terms import AggregatorNoise, Noise
from flwr_kld.trust.trust_model import OTHER_WORDS, Trust, allotted_to
from flwr_kld.trust.visibility import AGGREGATOR_SEES_LABELS, SERVER_SEES_LABELS, Visibility


@dataclass(frozen=True)
class CentralNoise(Trust):
    """Noise that one party adds to a whole sum. Parameters and errors are those of `Trusted`."""

    epsilon: float
    delta: float = 0.0
    protects: Protects = "record"
    allotment: Allotment = field(default=Allotment.even(1), kw_only=True)

    def __post_init__(self) -> None:
        guarantee = self.guarantee
        set_fields(
            self,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            allotment=instance("allotment", self.allotment, Allotment, "an Allotment"),
        )
        self.event(1)  # calibrated now: a bad pair fails before anything is asked

    def over(self, allotment: Allotment | int) -> Self:
        """Return this model for a table."""
        return replace(self, allotment=allotted_to(allotment))

    @property
    def guarantee(self) -> Guarantee:
        """What each check promises."""
        return Guarantee(self.epsilon, self.delta, self.protects)

    def event(self, clients: int) -> Release:
        """Return the release of counts; how many clients there are changes nothing."""
        return least_noise(self.guarantee, self.allotment.moves(self.protects))

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; how many survive changes nothing."""
        return Cost.of(self.event(1))


@suggests(arguments=OTHER_WORDS)
@dataclass(frozen=True)
class Trusted(CentralNoise):
    """Central noise, added once by a server that everybody trusts (PRIEST-KLD, Algorithm 1).

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check.
    delta : float
        In [0, 1). Default 0: pure epsilon, from discrete Laplace noise. With more, the noise is
        discrete Laplace or discrete Gaussian, whichever has the smaller variance.
    protects : "record" or WholeClients
        ``"record"`` (default): that one record changes its value. How many records each client has
        is public, and ε is that of replacing a record. Adding or removing one costs ε/2 under
        Laplace noise of counts alone, and up to .7 ε at the same δ under Gaussian noise.
        ``WholeClients(most_records=50)``: that one client's records are replaced by none; clients
        with more records count a uniform sample of theirs. Which clients took part is public.
    allotment : Allotment
        How finely each column's counts are released; a strategy says it (`over`).
    """

    name = "trusted"


@dataclass(frozen=True)
class ForLabels(Trust):
    """Whom a model trusts sees clients' unlisted labels, and shows those that many share.

    Raises `ValueError` for another model, or one by which no release shows any.
    """

    model: Trust

    def __post_init__(self) -> None:
        model = self.model
        serves = isinstance(model, Trusted | TrustedAggregator)
        if not serves or model.guarantee.protects != "record" or not model.guarantee.delta:
            raise ValueError(
                "labels are discovered under Trusted(epsilon, delta) or TrustedAggregator(epsilon, "
                "delta, aggregator=…): with delta above 0, for single records, asked once; this is "
                f"{type(model).__name__}(…)"
            )
        self.event(1)  # calibrated now, as in `CentralNoise`

    @property
    def name(self) -> str:
        """Name in reports: that of the model."""
        return self.model.name

    @property
    def guarantee(self) -> Guarantee:
        """What each question promises."""
        return self.model.guarantee

    @property
    def noise_before(self) -> Noise:
        """Return whose noise it is, if it is not the server's."""
        return self.model.noise_before

    def event(self, clients: int) -> Release:
        """Return the release of labels; how many clients there are changes nothing."""
        return selection_release(self.guarantee)

    def visibility(self, hides_parts: bool) -> Visibility:
        """Say who sees what: no sum hides parts of labels."""
        return AGGREGATOR_SEES_LABELS if self.aggregator_keys else SERVER_SEES_LABELS


@suggests(arguments=OTHER_WORDS)
@dataclass(frozen=True)
class TrustedAggregator(CentralNoise):
    """Central noise, added once by a separate node that clients trust instead of the server.

    Clients seal their counts to the aggregator's public key, which they pinned; the server relays
    boxes that it cannot open, and receives noised numbers.

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check.
    aggregator : bytes
        The aggregator's 32-byte public key, ``AggregatorKey.public``.
    delta, protects, allotment
        As in `Trusted`.
    """

    aggregator: bytes = field(kw_only=True)

    name = "trusted-aggregator"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_public(self.aggregator)

    @property
    def noise_before(self) -> AggregatorNoise:
        """Return the noise that the aggregator adds."""
        return AggregatorNoise((self.aggregator.hex(),))


@suggests(arguments=OTHER_WORDS)
@dataclass(frozen=True)
class TwoAggregators(CentralNoise):
    """Central noise, added twice, by two nodes neither of which sees a count.

    Every client splits its counts in two parts, each random by itself, and seals one to each
    aggregator's public key, which it pinned; the server relays boxes that it cannot open, and can
    read the two answers only together. Each aggregator's noise keeps the guarantee by itself, so
    the promise holds unless both aggregators collude; the variance is twice that of
    `TrustedAggregator`. Clients sign, and both aggregators know them from a pinned list. Both check
    a proof of each client's counts, without seeing one; all clients are asked, as how alike the
    records of one client are is not proved.

    Parameters
    ----------
    epsilon : float
        In nats, > 0, for each check, against the server together with one of the aggregators.
    aggregators : tuple[bytes, bytes]
        The two 32-byte public keys, ``AggregatorKey.public``: the first receives seeds, some 300
        bytes a client, and the second eight bytes for each bit of its counts.
    delta, protects, allotment
        As in `Trusted`.
    """

    aggregators: tuple[bytes, bytes] = field(kw_only=True)

    name = "two-aggregators"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pair(self.aggregators)

    @property
    def noise_before(self) -> AggregatorNoise:
        """Return the noise that either aggregator adds."""
        return AggregatorNoise(tuple(key.hex() for key in self.aggregators))

    def over(self, allotment: Allotment | int) -> Self:
        """Return this model for a table; two aggregators can check counts alone."""
        return super().over(replace(allotted_to(allotment), alike=0))

    def event(self, clients: int) -> Release:
        """Return the release of counts: the noise of both, of which one has to suffice."""
        return _twice(super().event(clients))

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs by one aggregator's noise."""
        return Cost.of(super().event(1))


def _twice(one: Release) -> Release:
    """Return a release with two draws of its noise, which promises what one of them keeps."""
    return replace(one, mechanism=f"{TWICE}{one.mechanism}", added=noise_sum(one.table, 2))
