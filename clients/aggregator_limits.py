"""What an aggregator insists on, whatever the server asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from flwr_kld.codec.model import Model, NotNegative, Real, Text, must
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import keep, real, whole


@dataclass(frozen=True, kw_only=True)
class _NodeConfig(
    Model,
    what="the aggregator's limits in its node config are not readable",
    refused=QueryRefused,
):
    min_clients: NotNegative = 0
    most_epsilon: Annotated[Real, Field(gt=0)] | None = None
    reference: Annotated[Text, Field(min_length=1)] | None = None
    memory: Annotated[Text, must("be an absolute path", os.path.isabs)] | None = None


@dataclass(frozen=True, kw_only=True)
class AggregatorLimits:
    """An aggregator's own limits. Its node config can make them stricter, but not looser.

    Parameters
    ----------
    min_clients : int
        Fewest clients in a sum; ``drift-min-clients``.
    most_epsilon : float, optional
        Largest epsilon of a check, in nats; ``drift-most-epsilon``.
    reference : str, optional
        Fingerprint of the only reference that it serves; ``drift-reference``.
    memory : Path, optional
        File in which it writes down every check before it answers; ``drift-memory``. By default
        one for its key in Flower's own folder (``FLWR_HOME``, else ``~/.flwr``); with a key that
        was given to the app, for tests and simulations, no file.
    """

    min_clients: int = 3
    most_epsilon: float | None = None
    reference: str | None = None
    memory: Path | None = None

    def __post_init__(self) -> None:
        # A sum over fewer than two clients hides nothing.
        keep(self, min_clients=whole("min_clients", self.min_clients, least=2, unit="clients"))
        if self.most_epsilon is not None:
            most = real("most_epsilon", self.most_epsilon, above=0, unit="nats")
            keep(self, most_epsilon=most)

    def stricter(self, config: Mapping[str, object]) -> AggregatorLimits:
        """Return what satisfies these limits and those of a node config.

        Raises
        ------
        QueryRefused
            If the config cannot be understood: without its limits nothing is answered.
        """
        keys = {name: f"drift-{name.replace('_', '-')}" for name in _NodeConfig.__annotations__}
        told = _NodeConfig.from_file({n: config[key] for n, key in keys.items() if key in config})
        if None not in (self.reference, told.reference) and told.reference != self.reference:
            raise QueryRefused("the aggregator's app and its node config name different references")
        bounds = [e for e in (told.most_epsilon, self.most_epsilon) if e is not None]
        return AggregatorLimits(
            min_clients=max(told.min_clients, self.min_clients),
            most_epsilon=min(bounds, default=None),
            reference=told.reference or self.reference,
            memory=self.memory if told.memory is None else Path(told.memory),
        )

    def hold(self, guarantee: Guarantee, reference: str) -> None:
        """Refuse a question beyond these limits, from its guarantee and fingerprint."""
        if self.most_epsilon is not None and not guarantee.epsilon <= self.most_epsilon:
            raise QueryRefused("EpsilonTooLarge: the check asks for more than the aggregator gives")
        if self.reference is not None and reference != self.reference:
            raise QueryRefused("the server's reference is not the one that the aggregator serves")

    def require(self, clients: int, least: int, what: str) -> None:
        """Refuse a sum over too few clients, by these limits or by the server's."""
        needed = max(self.min_clients, least)
        if clients < needed:
            raise QueryRefused(
                f"CohortTooSmall: {clients} clients {what}; the aggregator's minimum is {needed}"
            )
