"""A client that refused in a secure sum is asked again, under its number or a spelling of it."""

import pytest
from federation import REFERENCE, app_of, grid_of
from flwr.app import ConfigRecord, Message, RecordDict

from flwr_kld.clients import FirstUse
from flwr_kld.common.errors import QueryRefused, SecureSumError
from flwr_kld.secure_sums.messages import Survivors, decode
from flwr_kld.strategies import Distributed, KLDrift, SecureSum
from flwr_kld.trust.envelopes import member_of

SPELLINGS = ["0", "00", "+0", " 0", "0 ", "٠", "0_0", "-0", "0.0", "", "zero", "9" * 5000]


@pytest.mark.parametrize("key", SPELLINGS[1:])
def test_a_member_has_one_spelling(key):
    with pytest.raises(QueryRefused, match="number"):
        member_of(key)


@pytest.mark.parametrize("key", SPELLINGS)
def test_after_a_refusal_a_client_takes_no_further_part(key):
    """The list of survivors leaves the client out: it must refuse, whatever comes after."""
    app, refused = app_of(secure_sum=FirstUse()), []

    def survivors(message):
        for payload in message.content["phase"].values() if "phase" in message.content else ():
            try:
                request = decode(payload)
            except SecureSumError:
                return None
            if isinstance(request, Survivors):
                return request
        return None

    def lie(message, context):
        request = survivors(message)
        if context.node_id == 1000 and request is not None:
            bad = Survivors(request.session, request.size, bytes(len(request.alive)))
            content = RecordDict({"phase": ConfigRecord({key: bad.to_bytes()})})
            asked = Message(content, 1000, message.metadata.message_type)
            asked.metadata.__dict__.update(
                {k: v for k, v in message.metadata.__dict__.items() if k != "_message_type"}
            )
            refused.append(app(asked, context))
        return app(message, context)

    trust = Distributed(epsilon=1.0, min_clients=5)
    report = KLDrift(REFERENCE, trust, aggregation=SecureSum()).check(grid_of(lie, nodes=8))
    assert '"answered":[]' in str(refused[0].content["answer"])
    assert report.cohort.survivors == 8  # its vector was in the sum before
    assert sum(report.cohort.dropouts.values()) <= 1
