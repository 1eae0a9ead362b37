"""Who saw what in a check, in a sentence."""

from __future__ import annotations

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


def who_saw_what(report: Report) -> str:
    """Say who saw exact counts in a check."""
    return _SEEN[report.trust, report.aggregation]
