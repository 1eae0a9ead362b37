"""Members of one node are counted together, and each answers, or is refused, by itself."""

import json
from collections import Counter

import numpy as np
import pytest
from federation import FRUIT, REFERENCE
from flwr.clientapp import ClientApp
from rows import values_of
from sealed_federation import KEY
from split_federation import KEYS, PAIR, Members
from splitting import output_of

from flwr_kld.ask.cohort import Participant
from flwr_kld.clients import aggregate_drift_checks, host_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.vector import ClientRows
from flwr_kld.secure_sums.prio3.shares import HELPER, LEADER
from flwr_kld.secure_sums.split_sum import FIELD, Parcel, _prio3
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    HostedClients,
    KLDrift,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)
from flwr_kld.trust.sealing import SealContext, open_sealed
from flwr_kld.trust.terms import Terms

HOSTED = 300
"""More than are counted together."""
GIANT = 20_000


class _Odd:
    def __array__(self, *_):
        raise RuntimeError("patient with measles")

    __iter__ = __len__ = __array__


def usual(member):
    """Members have different records, and as many of each kind as no other one."""
    return ["apple"] * (member + 1) + ["durian"] * (2 * member)


ODD = {
    3: [],
    5: usual(5)[:1] * GIANT,
    7: _Odd(),
    11: [float("nan"), None, b"\xff", 2**70],
    256: {"measles": 1 / 3},
}


def records(context, member):
    if member in (2, 290):
        raise KeyError("patient has measles")
    return ODD.get(member, usual(member))


def answers_of(trust, *, most=0, hosted=range(HOSTED), **options):
    """Run a check; return the terms, what the node replied, and the report if there is one."""
    app, told = ClientApp(), []
    host_drift_queries(
        app, records, lambda _: hosted, lambda _: FRUIT,
        secure_sum=Members(), aggregator=KEY.public, aggregators=PAIR, **options,
    )  # fmt: skip
    aggregators = [ClientApp() for _ in range(3)]
    for one, key in zip(aggregators, (KEY, *KEYS), strict=True):
        aggregate_drift_checks(one, key=key)

    def spy(message, context):
        place = context.node_id - 1001
        if place >= 0:
            return aggregators[place](message, context)
        reply = app(message, context)
        if message.metadata.message_type == "query.drift":
            told.append((message, reply.content, context))
        return reply

    grid = InProcessGrid(spy, 1 + len(aggregators) if trust.name != "trusted" else 1)
    monitor = KLDrift(REFERENCE, trust, population=HostedClients(), most_records=most or None)
    try:
        report = monitor.check(grid)
    except CheckFailed as error:
        report = str(error)
    ((message, reply, context),) = told
    return Terms.from_config(message.content["terms"]), reply, context, report


def test_each_member_is_counted_and_refused_by_itself():
    terms, reply, _, report = answers_of(Trusted(1.0))
    answer = json.loads(reply["answer"]["answer"])
    rows = dict(zip(answer["answered"], reply["numbers"]["numbers"], strict=True))
    refused = [m for m in range(HOSTED) if m not in rows]
    assert refused == [2, 7, 256, 290]
    assert ["KeyError" in why for why in answer["reasons"]] == [True, False, False, True]
    assert "measles" not in repr(reply)
    cell_of = terms.cell_of(FRUIT)
    for member, row in rows.items():
        own = FRUIT.encode(records(None, member))
        expected = np.bincount(cell_of[own], minlength=sum(terms.cells))
        assert np.frombuffer(row, "<i4")[: len(expected)].tolist() == expected.tolist()
    assert report.cohort.survivors == HOSTED - 5  # nobody compares no records
    assert report.cohort.dropouts["it has no records"] == 1
    assert report.one_client.name == "1000:5"


def test_a_limit_is_each_members_own():
    terms, reply, _, _ = answers_of(Trusted(1.0), most=50)
    answer = json.loads(reply["answer"]["answer"])
    counts = slice(sum(terms.cells))
    sizes = [np.frombuffer(row, "<i4")[counts].sum() for row in reply["numbers"]["numbers"]]
    for member, size in zip(answer["answered"], sizes, strict=True):
        assert size == min(len(records(None, member)), 50)
    assert max(sizes) == 50


def test_members_that_are_not_hosted_are_refused_and_no_other(monkeypatch):
    asked = [Participant(1000, member) for member in (0, 1, 999, 4)]
    monkeypatch.setattr(HostedClients, "present", lambda *_: asked)
    _, reply, _, report = answers_of(Trusted(1.0), hosted=range(10))
    assert json.loads(reply["answer"]["answer"])["answered"] == [0, 1, 4]
    assert report.cohort.dropouts == {
        "refused: this node does not host the client that is asked": 1
    }


@pytest.mark.parametrize("failing", ["count", "to_wire"])
def test_what_counting_raises_is_told_by_its_type_and_takes_no_other_group_along(
    failing, monkeypatch
):
    """A giant is counted by itself: what its memory does not hold costs the others nothing."""
    honest = getattr(ClientRows, failing)

    def exhausted(*given, **more):
        if failing == "count" and any(len(own) == GIANT for own in given[0]):
            raise MemoryError("measles")
        if failing == "to_wire" and GIANT in values_of(given[0])[given[1]]:
            raise MemoryError("measles")
        return honest(*given, **more)

    monkeypatch.setattr(ClientRows, failing, exhausted)
    _, reply, _, _ = answers_of(Trusted(1.0))
    answer = json.loads(reply["answer"]["answer"])
    assert 5 not in answer["answered"]
    assert len(answer["answered"]) == HOSTED - 5
    assert Counter(answer["reasons"])["the client could not go on (MemoryError)"] == 1
    assert "measles" not in repr(reply)


def test_a_box_holds_the_row_of_its_sender_only():
    terms, reply, context, _ = answers_of(TrustedAggregator(1.0, aggregator=KEY.public))
    answered = json.loads(reply["answer"]["answer"])["answered"]
    cell_of = terms.cell_of(FRUIT)
    assert len(answered) == HOSTED - 4
    for member, box in zip(answered, reply["numbers"]["numbers"], strict=True):
        sender = f"{context.node_id}:{member}"
        sealed_for = SealContext(context.run_id, terms.fingerprint, sender)
        row = np.frombuffer(open_sealed(KEY, box, sealed_for), "<i4")
        own = FRUIT.encode(records(None, member))
        assert (
            row[: sum(terms.cells)].tolist()
            == np.bincount(cell_of[own], minlength=sum(terms.cells)).tolist()
        )


def test_two_parts_add_up_to_the_row_of_their_sender_only():
    """And either is another for each member, and for members alike."""
    terms, reply, context, _ = answers_of(TwoAggregators(1.0, aggregators=PAIR))
    answered = json.loads(reply["answer"]["answer"])["answered"]
    seeds = set()
    cell_of = terms.cell_of(FRUIT)
    for member, raw in zip(answered, reply["numbers"]["numbers"], strict=True):
        parcel = Parcel.from_bytes(raw)
        head = parcel.head
        sealed_for = SealContext(context.run_id, terms.fingerprint, head.name)
        assert head.name == Members().name(context, member)
        prio3 = _prio3(terms, head.records, sealed_for)
        opened = [
            open_sealed(key, box, sealed_for)
            for key, box in zip(KEYS, (parcel.seeds, parcel.elements), strict=True)
        ]
        shares = [
            output_of(prio3.checked(place, head.nonce, head.public, own))
            for place, own in zip((HELPER, LEADER), opened, strict=True)
        ]
        own = FRUIT.encode(records(None, member))
        counts = np.bincount(cell_of[own], minlength=sum(terms.cells)).tolist()
        assert FIELD.add(*shares).tolist() == counts
        assert head.records == len(own)
        seeds.add(opened[0])
    assert len(seeds) == len(answered) == HOSTED - 4
