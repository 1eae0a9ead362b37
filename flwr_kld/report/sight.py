"""Who saw what in a check."""

from __future__ import annotations

from flwr_kld.report.report import Report
from flwr_kld.trust.sight import View

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


def views(report: Report) -> tuple[View, ...]:
    """Say what everybody saw of a check, those who see least first."""
    return (_ANYBODY, *report.protection.sight.views, _NETWORK)
