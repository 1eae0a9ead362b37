"""Guard files for tests."""

import re
from decimal import Decimal
from pathlib import Path

from session_nights import TOMORROW

from flwr_kld.guard.limits import Allowed, Limits, OneCheck, Period
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.kernel import Guarantee
from flwr_kld.trust.terms import Terms

PAGE = Path(__file__).parents[2] / "docs" / "guard.md"
DOMAIN, PLAN = "d" * 64, "f" * 64

FILE = """
receipts = "receipts.db"
key = "node.key"
[allow]
trust = ["trusted", "distributed"]
domains = "any"
plans = "any"
[check]
max_epsilon = 1.0
max_delta = 1e-6
min_asked = 5
[period]
days = 30
max_epsilon = 3.0
max_delta = 1e-5
"""


def example() -> str:
    """The complete file that the operator's page shows."""
    (text,) = re.findall(r"<!-- example: guard.toml -->\n```toml\n(.*?)```", PAGE.read_text(), re.S)
    return text


def guard_file(folder: Path, *changes: tuple[str, str], more: str = "") -> Path:
    text = FILE + more
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "guard.toml"
    path.write_text(text)
    return path


def period_of(seconds: int, epsilon: int, delta: int, **more: object) -> Limits:
    """Limits of all checks together; those of one check are far away."""
    limits = {
        "receipts": Path(), "key": Path(), "protects": "record",
        "allow": Allowed(trust=frozenset(), domains=None, plans=None),
        "check": OneCheck(max_epsilon=10**18, max_delta=10**18, min_asked=1),
        "period": Period(days=Decimal(seconds) / 86400, max_epsilon=epsilon, max_delta=delta),
        "secure_sum": ClientPolicy(),
    }  # fmt: skip
    return Limits(**{**limits, **more})


def protecting(protects: str) -> tuple[str, str]:
    """A change of the file: whom its amounts protect."""
    return 'key = "node.key"', f'key = "node.key"\nprotects = "{protects}"'


def question(check: str = "c1", **changes: object) -> Terms:
    values = {
        "check": check,
        "domain": DOMAIN,
        "plan": PLAN,
        "cells": [4],
        "wire": b"",
        "asked": 20,
        "until": TOMORROW,
    }
    promised = Guarantee(
        changes.pop("epsilon", 1.0),
        changes.pop("delta", 0.0),
        changes.pop("protects", "record"),
    )
    values |= {"most_records": promised.most_records} | changes
    return Terms(**values, guarantee=promised)
