"""What the models have in common in which a server or an aggregator adds the noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.arguments import choice, keep, whole
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.messages.question import MOST_COLUMNS
from flwr_kld.trust.trust_model import Trust


@dataclass(frozen=True)
class CentralNoise(Trust):
    """Noise that one party adds to a whole sum. Parameters and errors are those of `Trusted`."""

    epsilon: float
    delta: float = 0.0
    noise: Literal["least", "laplace", "gaussian"] = "least"
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    clip: int | None = None
    columns: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        guarantee = self.guarantee
        keep(
            self,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            noise=choice("noise", self.noise, ("least", "laplace", "gaussian")),
            adjacency=guarantee.adjacency,
            columns=whole("columns", self.columns, least=1, most=MOST_COLUMNS),
        )
        if self.clip is not None:
            keep(self, clip=whole("clip", self.clip, least=1, unit="records"))
            if self.adjacency is not Adjacency.ADD_REMOVE:
                raise ValueError("client-level privacy (clip=…) needs Adjacency.ADD_REMOVE")

    def over(self, columns: int) -> Self:
        """Return this model for a table."""
        return replace(self, columns=columns)

    @property
    def guarantee(self) -> Guarantee:
        """What each check promises."""
        unit = Unit.RECORD if self.clip is None else Unit.CLIENT
        return Guarantee(self.epsilon, self.delta, self.adjacency, unit)

    @property
    def most_records(self) -> int:
        """Records a client may count; 0 for no limit."""
        return self.clip or 0
