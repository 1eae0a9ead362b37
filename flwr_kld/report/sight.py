"""Who saw what in a check."""

from __future__ import annotations

from dataclasses import dataclass

from flwr_kld.report.report import Report

_SEEN = {
    ("trusted", "plain-sum"): "The server saw each client's exact counts.",
    ("trusted", "secure-sum"): "The server saw the cohort's exact sum, and nobody's own counts.",
    ("distributed", "secure-sum"): (
        "The server saw the noised sum; nobody saw a clean one, or another's counts."
    ),
    ("trusted-aggregator", "sealed-sum"): (
        "The aggregator saw each client's exact counts; the server saw noised values only."
    ),
}


@dataclass(frozen=True)
class View:
    """What somebody sees of a check.

    Parameters
    ----------
    who, sees : str
        Words for a reader.
    """

    who: str
    sees: str


_ANYBODY = View(
    "readers of this page, reports and metrics", "what the guarantee allows, whatever they do"
)
_NETWORK = View("the network, where TLS is off", "what the server sees")
_STRANGERS = View("another client", "nothing")
_NEIGHBOURS = View("another client", "who its neighbours are, and whether they dropped out")
_VIEWS = {
    ("trusted", "plain-sum"): (
        View("the server", "each asked client's exact counts: it is trusted with them"),
        _STRANGERS,
    ),
    ("trusted", "secure-sum"): (
        View("the server", "the cohort's exact sum: it is trusted with it; nobody's own counts"),
        _NEIGHBOURS,
        View("some clients with the server", "the exact sum of the other clients"),
    ),
    ("distributed", "secure-sum"): (
        View("the server", "the noised sum; nobody's own counts"),
        _NEIGHBOURS,
        View("some clients with the server", "the noised sum, less their own counts and noise"),
    ),
    ("trusted-aggregator", "sealed-sum"): (
        View("the server", "sealed counts and noised values"),
        View("the aggregator", "each asked client's exact counts: it is trusted with them"),
        _STRANGERS,
        View("the aggregator with the server", "each asked client's exact counts"),
    ),
}
LOCAL_VIEWS = (
    _ANYBODY,
    View("the server", "one privatised symbol of each asked client: it is trusted with nothing"),
    _STRANGERS,
    _NETWORK,
)
"""What everybody sees of a predictor's round, those who see least first."""


def who_saw_what(report: Report) -> str:
    """Say who saw exact counts in a check."""
    return _SEEN[report.trust, report.aggregation]


def views(report: Report) -> tuple[View, ...]:
    """Say what everybody saw of a check, those who see least first."""
    return (_ANYBODY, *_VIEWS[report.trust, report.aggregation], _NETWORK)
