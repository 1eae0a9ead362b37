"""Who saw what in a check."""

from __future__ import annotations

from flwr_kld.report.report import Report
from flwr_kld.trust.sight import (
    AGGREGATOR_SEES_PARTS,
    CLIENTS_ADD_NOISE,
    SERVER_SEES_PARTS,
    SERVER_SEES_SUM,
    Sight,
    View,
)

_ANYBODY = View(
    "readers of this page, reports and metrics", "what the guarantee allows, whatever they do"
)
_NETWORK = View("the network, where TLS is off", "what the server sees")
LOCAL_VIEWS = (
    _ANYBODY,
    View("the server", "one privatised symbol of each asked client: it is trusted with nothing"),
    View("another client", "nothing"),
    _NETWORK,
)
"""What everybody sees of a predictor's round, those who see least first."""
_UNWRITTEN = {
    ("trusted", "plain-sum"): SERVER_SEES_PARTS,
    ("trusted", "secure-sum"): SERVER_SEES_SUM,
    ("distributed", "secure-sum"): CLIENTS_ADD_NOISE,
    ("trusted-aggregator", "sealed-sum"): AGGREGATOR_SEES_PARTS,
}
"""For reports of before trust models wrote it down."""


def who_saw_what(report: Report) -> str:
    """Say who saw exact counts in a check."""
    return _sight(report).exact


def views(report: Report) -> tuple[View, ...]:
    """Say what everybody saw of a check, those who see least first."""
    return (_ANYBODY, *_sight(report).views, _NETWORK)


def _sight(report: Report) -> Sight:
    protection = report.protection
    return protection.sight or _UNWRITTEN[protection.trust, protection.aggregation]
