"""A server asks about a far longer list of clients than anybody has pinned."""

from dataclasses import replace

import pytest
from federation import REFERENCE, app_of
from flwr.app import Message
from sealed_federation import WatchedGrid

from flwr_kld.clients import FirstUse
from flwr_kld.common.errors import CheckFailed
from flwr_kld.secure_sums import admission
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.session import Session
from flwr_kld.strategies import Distributed, KLDrift, SecureSum


def test_a_client_works_out_no_tails_for_a_list_that_is_not_its_own(monkeypatch):
    """They would take minutes of processor time for a megabyte of a server's."""
    held = []
    monkeypatch.setattr(admission, "require_secure", lambda cohort, *_: held.append(cohort))

    def lengthen(message: Message) -> None:
        if message.metadata.message_type == "query.drift_sum":
            for member, payload in message.content["phase"].items():
                asked = Session.from_bytes(payload)
                longer = replace(
                    asked, listed=9000, cohort=range(9000), shape=Shape(500, 400), min_clients=5000
                )
                message.content["phase"][member] = longer.to_bytes()

    trust = Distributed(epsilon=1.0, min_clients=5)
    monitor = KLDrift(REFERENCE, trust, aggregation=SecureSum())
    with pytest.raises(CheckFailed, match="RosterMismatch"):
        monitor.check(WatchedGrid(app_of(secure_sum=FirstUse()), 8, meddle=lengthen))
    assert not held
