"""Checks over a secure sum, in process, through Flower's own messages."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from federation import FAR, REFERENCE, SHARES, app_of, grid_of
from flwr.app import ConfigRecord
from rows import values_of

from flwr_kld.clients import FirstUse, SumMembers
from flwr_kld.common.errors import CheckFailed, QueryRefused
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel.vector import ClientRows
from flwr_kld.ledger import Cost
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Distributed, KLDrift, SecureSum, Trusted, WholeClients
from flwr_kld.trust.envelopes import Signers

TRUTH = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
SUMMING = partial(app_of, secure_sum=FirstUse())


def distributed(**options):
    return Distributed(**{"epsilon": 3.0, "min_clients": 10, **options})


@pytest.mark.parametrize(
    "trust",
    [
        distributed(),
        distributed(delta=0.3),
        distributed(min_clients=14, corrupted=4),
        distributed(epsilon=30.0, protects=WholeClients(100), min_clients=20),
        Trusted(epsilon=3.0),
    ],
)
def test_every_model_reads_the_truth_over_a_secure_sum(trust):
    monitor = KLDrift(REFERENCE, trust, aggregation=SecureSum())
    report = monitor.check(grid_of(SUMMING()))
    assert abs(report.reading.estimate - TRUTH) < FAR * report.reading.error.privacy + 0.02
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (20, 20, {})
    assert report.protection.trust == trust.name
    assert report.protection.private


@pytest.mark.parametrize("trust", [distributed(), Trusted(epsilon=3.0)])
def test_sums_of_thousands_of_millions_of_records_do_not_wrap(trust, monkeypatch):
    """Each client counts as many millions as it has records."""
    count = ClientRows.count

    def many(*arguments):
        rows = count(*arguments)
        return ClientRows(values_of(rows) * np.int32(2**22), rows.layout)

    monkeypatch.setattr(ClientRows, "count", many)
    report = KLDrift(REFERENCE, trust, aggregation=SecureSum()).check(grid_of(SUMMING()))
    assert report.reading.records == 20 * 100 * 2**22
    assert abs(report.reading.estimate - TRUTH) < 0.02


def test_noise_that_would_leave_no_room_for_records_is_refused_before_anybody_is_asked(monkeypatch):
    monkeypatch.setattr("flwr_kld.strategies.secure_sum._MOST_RECORDS", 2**63 - 2**8)
    counted = []
    monkeypatch.setattr(ClientRows, "count", lambda *_: counted.append(1))
    with pytest.raises(ValueError, match="64"):
        KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid_of(SUMMING()))
    assert not counted


def test_colluding_clients_are_not_counted_on():
    trusts = (distributed(min_clients=15), distributed(min_clients=20, corrupted=5))
    few, many = (
        KLDrift(REFERENCE, t, aggregation=SecureSum()).check(grid_of(SUMMING())) for t in trusts
    )
    assert few.cost.epsilon < many.cost.epsilon <= 3.0


@pytest.mark.parametrize("phase", range(5))
def test_dropouts_in_every_phase_are_survived_and_said(phase):
    """Four of twenty clients fall silent from the phase-th message on."""
    heard: dict[int, int] = {}

    def lose(message):
        node = message.metadata.dst_node_id
        heard[node] = heard.get(node, -1) + 1
        return node < 1004 and heard[node] >= phase + 1  # the first message asks for keys

    grid = grid_of(SUMMING(), lose=lose)
    report = KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid)
    in_the_sum = 20 if phase >= 3 else 16
    assert report.cohort.survivors == in_the_sum
    assert report.reading.records == 100 * in_the_sum
    assert sum(report.cohort.dropouts.values()) == 20 - in_the_sum


def test_too_many_dropouts_give_up_without_a_number():
    heard: dict[int, int] = {}

    def lose(message):
        node = message.metadata.dst_node_id
        heard[node] = heard.get(node, -1) + 1
        return node < 1012 and heard[node] >= 3

    monitor = KLDrift(REFERENCE, distributed(), aggregation=SecureSum())
    with pytest.raises(CheckFailed, match="sum"):
        monitor.check(grid_of(SUMMING(), lose=lose))


def test_clients_that_sign_nothing_take_no_part():
    with pytest.raises(CheckFailed, match="secure"):
        KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid_of(app_of()))


@dataclass(frozen=True)
class Pinned(SumMembers):
    """A key and a roster of an app's own; the key may be in no roster."""

    own_name: str
    key: Identity
    pinned: Roster

    def name(self, context, member):
        return self.own_name

    def identity(self, context, member):
        return self.key

    def roster(self, context, offered):
        if offered not in (self.pinned.fingerprint.hex(), self.pinned.to_json()):
            raise QueryRefused("not the one pinned here")
        return self.pinned


HOSPITALS = {f"hospital-{i}": Identity.generate() for i in range(5)}


def pinned_federation(*others: tuple[str, Identity], claim=None):
    """Nodes with long-term identities and a pinned list; `others` come after them."""
    roster = Roster({name: identity.public for name, identity in HOSPITALS.items()})
    apps = [
        app_of(secure_sum=Pinned(name, identity, roster))
        for name, identity in [*HOSPITALS.items(), *others]
    ]

    def dispatch(message, context):
        return apps[context.node_config["partition-id"]](message, context)

    return InProcessGrid(impostor(dispatch, claim, 1005) if claim else dispatch, len(apps)), roster


def impostor(app, claim, node):
    """Let a node say that it signs as another does: `claim` makes its answer of that one's."""
    seen = {}

    def answer(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "query.drift_identity":
            own = Signers.from_config(reply.content["answer"]).signers.get("0")
            if context.node_id == node:
                told = Signers({"0": claim(seen["victim"], own)}, ())
                reply.content["answer"] = ConfigRecord(told.to_config())
            seen.setdefault("victim", own)  # the first node that is asked
        return reply

    return answer


CLAIMS = {
    "name": lambda victim, own: (victim[0], *own[1:]),
    "key": lambda victim, own: (own[0], victim[1], own[2]),
    "name and key": lambda victim, own: (*victim[:2], own[2]),
    "all of it": lambda victim, own: victim,
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("late", [False, True])
def test_where_keys_are_believed_on_first_use_nobody_takes_anothers_place(claim, late):
    """Whoever claims another's name or key is left out; the others sum up, now and later."""
    grid = grid_of(impostor(SUMMING(), CLAIMS[claim], 1011), nodes=12)
    cohorts = [list(range(1000, 1012))] * 2
    if late:
        cohorts[0] = cohorts[0][:-1]
    monitor = KLDrift(REFERENCE, distributed(), aggregation=SecureSum())
    for connected in cohorts:
        grid.get_node_ids = lambda connected=connected: connected
        report = monitor.check(grid)
        assert report.cohort.survivors == 11
        assert sum(report.cohort.dropouts.values()) == len(connected) - 11
        assert all("name or key" in why for why in report.cohort.dropouts)


@pytest.mark.parametrize("claim", CLAIMS)
def test_nobody_takes_the_place_of_a_client_whose_key_is_pinned(claim):
    """Neither by its name, nor by the public key beside it, which is no secret."""
    stranger = ("stranger", Identity.generate())
    grid, roster = pinned_federation(stranger, claim=CLAIMS[claim])
    monitor = KLDrift(REFERENCE, distributed(min_clients=4), aggregation=SecureSum(roster=roster))
    for _ in range(2):
        report = monitor.check(grid)
        assert report.cohort.survivors == 5
        assert sum(report.cohort.dropouts.values()) == 1
        assert "no reply" not in report.cohort.dropouts


def test_a_client_that_comes_back_under_another_node_id_is_summed_up_once():
    grid, roster = pinned_federation(*list(HOSPITALS.items())[:1])
    connected = [1000, 1001, 1002, 1003, 1004]
    grid.get_node_ids = lambda: connected
    monitor = KLDrift(REFERENCE, distributed(min_clients=4), aggregation=SecureSum(roster=roster))
    assert monitor.check(grid).cohort.survivors == 5
    connected.append(1005)  # the SuperLink has not noticed yet that node 1000 is gone
    grid.lose = lambda message: message.metadata.dst_node_id == 1000
    report = monitor.check(grid)
    assert report.cohort.survivors == 5
    assert sum(report.cohort.dropouts.values()) == 1


def test_hospitals_with_pinned_keys():
    grid, roster = pinned_federation()
    monitor = KLDrift(REFERENCE, distributed(min_clients=4), aggregation=SecureSum(roster=roster))
    assert monitor.check(grid).cohort.survivors == 5


def test_a_server_with_another_list_is_refused():
    grid, pinned = pinned_federation()
    own = dict(zip(pinned.names, pinned.keys, strict=True))
    others = {name: Identity.generate().public for name in own}
    whys = "5: its name and key are not in the server's roster", "not the one pinned here"
    for roster, why in zip((others, own | {"another": bytes(32)}), whys, strict=True):
        summing = SecureSum(roster=Roster(roster))
        monitor = KLDrift(REFERENCE, distributed(min_clients=4), aggregation=summing)
        with pytest.raises(CheckFailed, match=why):
            monitor.check(grid)


def test_the_server_sees_no_client_counts():
    """Every message a client sends in a check, searched for its counts in any usual form.

    Six bytes of 64,000 are these by chance once in four billion runs.
    """
    sent = []
    app = SUMMING()

    def spy(message, context):
        reply = app(message, context)
        sent.extend(
            value
            for record in reply.content.values()
            for value in record.values()
            if isinstance(value, bytes)
        )
        return reply

    KLDrift(REFERENCE, Trusted(epsilon=1.0), aggregation=SecureSum()).check(grid_of(spy))
    counts = np.array([10, 20, 30, 40, 0, 0])
    assert len(sent) == 4 * 20
    for form in ("<u4", "<i4", ">u4", "<i8", "u1"):
        assert not any(counts.astype(form).tobytes() in message for message in sent)


def test_secrets_leave_the_nodes_state_when_a_sum_is_over():
    contexts = {}
    app = SUMMING()

    def spy(message, context):
        contexts[context.node_id] = context
        return app(message, context)

    KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid_of(spy))
    for context in contexts.values():
        assert "flwr_kld.sum.0" not in context.state


@pytest.mark.parametrize("payload", [b"", b"junk", bytes(200)])
def test_a_client_that_sends_junk_is_left_out(payload):
    app = SUMMING()

    def junk(message, context):
        reply = app(message, context)
        if context.node_id == 1000 and "phase" in reply.content:
            reply.content["phase"] = ConfigRecord({"0": payload})
        return reply

    report = KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid_of(junk))
    assert report.cohort.survivors == 19
    assert any(reason.startswith("invalid reply") for reason in report.cohort.dropouts)


def test_a_node_with_an_unreadable_identity_is_not_in_the_cohort():
    app = SUMMING()

    def odd(message, context):
        reply = app(message, context)
        if context.node_id == 1000 and "phase" not in reply.content:
            reply.content["answer"] = ConfigRecord(
                {"version": 5, "signers": '{"0":7}', "refused": "[]"}
            )
        return reply

    report = KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid_of(odd))
    assert (report.cohort.survivors, report.cohort.dropouts) == (19, {"no reply": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_clients": 1}, "min_clients"),
        ({"corrupted": -1}, "corrupted"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"protects": 5}, "protects"),
    ],
)
def test_contradictions_fail_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        distributed(**options)


def test_what_goes_wrong_inside_a_sum_is_said_by_type_only():
    class Forgetful(FirstUse):
        def identity(self, context, member):
            if context.node_id == 1000 and "flwr_kld.sum.0" in context.state:
                raise KeyError("measles")
            return super().identity(context, member)

    grid = grid_of(app_of(secure_sum=Forgetful()))
    report = KLDrift(REFERENCE, distributed(), aggregation=SecureSum()).check(grid)
    assert report.cohort.survivors == 19
    assert report.cohort.dropouts == {"refused: the client could not go on (KeyError)": 1}


def test_clients_that_pin_no_list_take_no_part_under_one():
    roster = Roster({f"other-{i}": Identity.generate().public for i in range(3)})
    monitor = KLDrift(REFERENCE, distributed(min_clients=4), aggregation=SecureSum(roster=roster))
    with pytest.raises(CheckFailed, match="roster"):
        monitor.check(grid_of(SUMMING()))


def test_what_survivors_cost_is_never_too_little_and_of_few_kinds():
    trust = Distributed(1.0, min_clients=16)
    exact = [Cost.of_shares(trust.share(), n) for n in range(16, 33)]
    booked = [trust.cost(n) for n in range(16, 33)]
    assert booked[0] == trust.cost() == exact[0]
    assert all(b.epsilon >= e.epsilon for b, e in zip(booked, exact, strict=True))
    assert booked[-1].epsilon < 0.95 * booked[0].epsilon
    assert len(set(booked)) == 9
