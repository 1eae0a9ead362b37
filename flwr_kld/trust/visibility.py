"""What each party sees of a check under each trust model, in words for a report."""

from __future__ import annotations

from dataclasses import dataclass

from flwr_kld.kernel.arguments import text


@dataclass(frozen=True)
class View:
    """What one party sees of a check, in words for a report."""

    who: str
    sees: str

    def __post_init__(self) -> None:
        text("who", self.who)
        text("sees", self.sees)


@dataclass(frozen=True)
class Visibility:
    """What every party of a trust model sees of a check."""

    exact: str  # Who saw exact counts, as a sentence
    views: tuple[View, ...]  # Each party's, and what some see together

    def __post_init__(self) -> None:
        text("exact", self.exact)


_STRANGERS = View("another client", "nothing")

_MEMBERS = View("another client", "who is asked, and whose counts are in the sum")
"""The session names its cohort to each client, and the list of survivors is what all confirm."""

SERVER_SEES_PARTS = Visibility(
    "The server saw each client's counts before the noise, and must be trusted with them.",
    (
        View("the server", "each asked client's exact counts: it is trusted with them"),
        _STRANGERS,
    ),
)
"""The server adds the noise to counts that it adds up itself."""

SERVER_SEES_LABELS = Visibility(
    "The server saw each client's unlisted labels, and how many of its records have each.",
    (
        View("the server", "each asked client's unlisted labels: it is trusted with them"),
        _STRANGERS,
    ),
)
"""The server adds the noise to how many records have each label, and shows those that many have."""

SERVER_SEES_SUM = Visibility(
    "The server saw the cohort's exact sum, and nobody's own counts.",
    (
        View("the server", "the cohort's exact sum: it is trusted with it; nobody's own counts"),
        _MEMBERS,
        View("some clients with the server", "the exact sum of the other clients"),
    ),
)
"""The server adds the noise to a secure sum."""

CLIENTS_ADD_NOISE = Visibility(
    "The server saw the noised sum; nobody saw a clean one, or another's counts.",
    (
        View("the server", "the noised sum; nobody's own counts"),
        _MEMBERS,
        View("some clients with the server", "the noised sum, less their own counts and noise"),
    ),
)
"""Each client adds a share of the noise before a secure sum."""

AGGREGATOR_SEES_PARTS = Visibility(
    "The aggregator saw each client's exact counts; the server saw noised values only.",
    (
        View("the server", "sealed counts and noised values"),
        View("the aggregator", "each asked client's exact counts: it is trusted with them"),
        _STRANGERS,
        View("the aggregator with the server", "each asked client's exact counts"),
    ),
)
"""A node of its own opens sealed counts and adds the noise."""

AGGREGATOR_SEES_LABELS = Visibility(
    "The aggregator saw each client's unlisted labels; the server saw those that are shown only.",
    (
        View("the server", "sealed labels, how many records each client has, and what is shown"),
        View("the aggregator", "each asked client's unlisted labels: it is trusted with them"),
        _STRANGERS,
        View("the aggregator with the server", "each asked client's unlisted labels"),
    ),
)
"""A node of its own opens sealed labels, adds the noise, and publishes which are shown."""

AGGREGATORS_SEE_SHARES = Visibility(
    "Nobody saw exact counts; the server saw noised values only.",
    (
        View("the server", "sealed parts of counts, and the noised sum"),
        View("either aggregator", "random numbers, and who took part"),
        _STRANGERS,
        View("either aggregator with the server", "the sum with the other aggregator's noise"),
        View("both aggregators together", "each asked client's exact counts"),
    ),
)
"""Two nodes each receive one part of every client's counts, and each adds noise that suffices."""

VISIBILITY = {
    "trusted": SERVER_SEES_PARTS,
    "distributed": CLIENTS_ADD_NOISE,
    "trusted-aggregator": AGGREGATOR_SEES_PARTS,
    "two-aggregators": AGGREGATORS_SEE_SHARES,
}
"""By who adds the noise."""
