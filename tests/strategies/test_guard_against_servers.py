"""What guarded and unguarded nodes refuse: guard files that are no use, and servers that lie."""

import logging
from dataclasses import replace

import pytest
from adversary.mutations import fit_sessions
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import ConfigRecord
from flwr.clientapp import ClientApp
from guard.files import guard_file
from guarded_nodes import plain, summed, summing
from trust.vector_forms import claim

from flwr_kld.clients import (
    AggregatorKey,
    FirstUse,
    host_drift_queries,
)
from flwr_kld.clients.own_records import OwnRecords
from flwr_kld.common.errors import CheckFailed
from flwr_kld.ledger import Cost
from flwr_kld.strategies import (
    Distributed,
    HostedClients,
    KLDrift,
    TrustedAggregator,
)
from flwr_kld.trust import terms
from flwr_kld.trust.terms import NoiseShares


def test_a_broken_file_refuses_everything_and_tells_the_operator_only(limits, caplog):
    limits(("min_asked = 5", "min_asked = 5\nsecret_plan = 7"))
    for monitor in (plain, summed):
        with caplog.at_level(logging.ERROR), pytest.raises(CheckFailed) as failure:
            monitor().check(grid_of(summing()))
        assert "this client's guard is not usable" in str(failure.value)
        assert "secret_plan" not in str(failure.value)
        assert "unknown key check.secret_plan" in caplog.text
        caplog.clear()


def test_a_file_that_breaks_during_a_sum_ends_it(limits):
    path, app = limits(), summing()

    def spoil(message, context):
        if "terms" not in message.content and "phase" in message.content:
            path.write_text("")
        return app(message, context)

    with pytest.raises(CheckFailed, match="guard"):
        summed().check(grid_of(spoil))


@pytest.mark.parametrize("place", ["guard.toml", "", "./guard.toml"])
def test_a_relative_path_is_refused(environment, place):
    environment["FLWR_KLD_GUARD"] = place
    with pytest.raises(CheckFailed, match="guard"):
        plain().check(grid_of())


def test_a_missing_file_is_refused_without_its_name(environment, tmp_path):
    environment["FLWR_KLD_GUARD"] = str(tmp_path / "hospital.toml")
    with pytest.raises(CheckFailed, match="guard") as failure:
        plain().check(grid_of())
    assert "hospital" not in str(failure.value)


def test_neither_message_nor_run_config_names_the_file(limits, receipts, tmp_path):
    limits(("max_epsilon = 1.0", "max_epsilon = 0.5"))
    (tmp_path / "loose").mkdir()
    loose = str(guard_file(tmp_path / "loose"))

    def ask(message, context):
        message.content["drift-guard"] = ConfigRecord({"drift-guard": loose})
        return app_of()(message, context)

    grid = grid_of(ask)
    grid.set_run_config({"drift-guard": loose, "FLWR_KLD_GUARD": loose})
    with pytest.raises(CheckFailed, match=r"0\.5"):
        plain().check(grid)


class Thinning(Distributed):
    """Tells clients of noise for many clients, and would open the sum of a few."""

    def event(self, clients):
        return Distributed(self.epsilon, self.min_clients).event(self.min_clients)

    def cost(self, survivors=None):
        return Cost.of(self.event(self.min_clients))

    @property
    def noise_before(self):
        return replace(super().noise_before, n_min=18)


SHARES = NoiseShares(10).to_json()


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(
    ("monitor", "lie", "message"),
    [
        (plain(), {"noise": SHARES}, "trusted"),
        (
            plain(),
            {"guarantee": claim(protects={"most_records": 5})},
            "most_records",
        ),
        (summed(), {"noise": "null"}, "session"),
        (summed(), {"guarantee": claim(protects={"most_records": 5})}, "most_records"),
        (summed(Thinning(1.0, min_clients=3)), {}, "noise"),
    ],
)
def test_claims_are_held_against_what_really_happens(
    limits, receipts, monitor, lie, message, guarded
):
    if guarded:
        limits()
    app = summing()

    def told(message, context):
        if "terms" in message.content:
            message.content["terms"].update(lie)
        return app(message, context)

    with pytest.raises(CheckFailed, match=message):
        monitor.check(grid_of(told))
    assert receipts() == ()


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"guarantee": claim(epsilon=2.0)}, "limit"),
        ({"noise": NoiseShares(2**20).to_json()}, "noise"),
        ({}, "minimum"),
    ],
)
def test_no_noise_is_computed_for_terms_that_are_refused_anyway(
    limits, receipts, monkeypatch, lie, message
):
    """Odd noise takes a client minutes, and a server could ask for it again and again."""
    limits(*(() if lie else [("[check]", "[secure_sum]\nmin_asked = 30\n[check]")]))
    app, calibrate = summing(), terms.calibrate_shares
    asking, computed = [], []

    def watched(*arguments, **options):
        computed.extend(asking)
        return calibrate(*arguments, **options)

    monkeypatch.setattr(terms, "calibrate_shares", watched)

    def told(message, context):
        if "terms" in message.content:
            message.content["terms"].update(lie)
            fit_sessions(message.content)
        asking.append(context.node_id)
        reply = app(message, context)
        asking.clear()
        return reply

    with pytest.raises(CheckFailed, match=message):
        summed().check(grid_of(told))
    assert computed == []
    assert receipts() == ()


@pytest.mark.parametrize("ask", ["plain", "sealed"])
def test_an_error_that_nobody_foresaw_tells_its_type_only(monkeypatch, aggregator_is, ask):
    def broken(self, *arguments):
        raise RuntimeError("the secret is durian")

    monkeypatch.setattr(OwnRecords, "load", broken)
    key = AggregatorKey.generate().public
    aggregator_is(1019)
    trusted = TrustedAggregator(1.0, aggregator=key)
    monitor = plain() if ask == "plain" else KLDrift(REFERENCE, trusted)
    with pytest.raises(CheckFailed, match="RuntimeError") as error:
        monitor.check(grid_of(app_of(aggregator=key)))
    assert "durian" not in str(error.value)


@pytest.mark.parametrize(
    "phase", [{"0": 10**12}, {"0": "text"}, {"zero": b""}, {"-1": b""}, {"7": b""}]
)
@pytest.mark.parametrize("opening", [True, False])
def test_a_phase_that_is_none_is_refused_in_words(limits, receipts, phase, opening):
    limits()
    app, replies, states = summing(), [], []

    def garble(message, context):
        if "phase" in message.content and opening == ("terms" in message.content):
            message.content["phase"] = ConfigRecord(phase)
            replies.append(app(message, context))
            states.append(context.state)
            return replies[-1]
        return app(message, context)

    with pytest.raises(CheckFailed, match="QueryRefused"):
        summed().check(grid_of(garble))
    assert len(receipts()) == (0 if opening else 20)
    assert all('"answered":[]' in str(reply.content["answer"]) for reply in replies)
    if "7" not in phase:  # whose request it was cannot be told: nobody's part goes on
        assert not any("flwr_kld.sum.0" in state for state in states)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"guarantee": claim(epsilon=9.0)}, "epsilon"),
        ({"wire": b"\0"}, "plan"),
        ({"asked": 2}, "minimum"),
        ({"until": 1}, "TooLate"),
    ],
)
@pytest.mark.parametrize("lied_to", [1000, 1003])
def test_terms_that_were_read_do_not_stand_for_others_of_the_same_id(
    limits, receipts, change, refusal, lied_to
):
    """All nodes of one process are sent the same bytes, but for one: it judges its own."""
    limits()
    app, answers = app_of(), []

    def ask(message, context):
        if context.node_id != lied_to:
            return app(message, context)
        message.content["terms"].update(change)
        reply = app(message, context)
        answers.append(str(reply.content["answer"]))
        return reply

    report = plain().check(grid_of(ask, nodes=8))
    assert report.cohort.survivors == 7
    (answer,) = answers
    assert '"answered":[]' in answer
    assert refusal in answer
    assert {r.account for r in receipts()} == {f"{n}:0" for n in range(8) if n != lied_to - 1000}


def test_a_member_does_not_answer_by_the_terms_of_another(limits):
    """A second sum, opened for one hosted client, must not loosen the noise of the other."""
    limits()
    app = ClientApp()
    host_drift_queries(
        app, lambda c, _: basket(c), lambda _: [0, 1], lambda _: FRUIT, secure_sum=FirstUse()
    )
    reopened = []

    def reopen(message, context):
        reply = app(message, context)
        if "terms" in message.content:
            terms, phase = message.content["terms"], message.content["phase"]
            terms["check"] = "another"
            message.content["phase"] = ConfigRecord({"1": phase["1"]})
            fit_sessions(message.content)
            reopened.append(app(message, context))
        return reply

    with pytest.raises(CheckFailed, match="secure"):
        summed(population=HostedClients()).check(grid_of(reopen, nodes=10))
    assert all('"answered":[1]' in str(reply.content["answer"]) for reply in reopened)
