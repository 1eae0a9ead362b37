"""What a client insists on before it takes part, and whose keys it trusts."""

from dataclasses import replace

import pytest
from secure_sums.summing import CLIENTS, EASY, at, fresh, majority, people, session_of

from flwr_kld.common import errors
from flwr_kld.guard.secure_sum_policy import ClientPolicy, Collusion
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Phase
from flwr_kld.secure_sums.session import Session


def join(session, policy=EASY, terms="plan", length=4, client=0):
    who, roster = people(session.listed)
    name = roster.names[session.cohort[client]]
    return SumClient(who[name], name, roster, policy).advertise(session, terms=terms, length=length)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"terms": "other"}, errors.WrongSession),
        ({"length": 5}, errors.WrongSession),
        ({"policy": ClientPolicy(min_asked=6)}, errors.CohortTooSmall),
        ({"policy": ClientPolicy(min_clients=4)}, errors.CohortTooSmall),
        ({"policy": ClientPolicy(min_threshold=0.7)}, errors.ThresholdTooLow),
        (
            {"policy": ClientPolicy(corrupted=0.2, collusion=Collusion.LYING)},
            errors.TooFewNeighbours,
        ),
    ],
)
def test_a_client_holds_the_session_against_question_and_policy(change, error):
    with pytest.raises(error):
        join(session_of(CLIENTS), **change)


def test_a_client_wants_enough_neighbours():
    thin = session_of(40, shape=majority(40, 8))
    with pytest.raises(errors.TooFewNeighbours, match="8 neighbours"):
        join(thin, ClientPolicy(min_neighbours=10, corrupted=0.0))
    with pytest.raises(errors.TooFewNeighbours):
        join(thin, ClientPolicy(min_neighbours=8, corrupted=0.3))
    join(thin, ClientPolicy(min_neighbours=8, corrupted=0.0))


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_the_server_cannot_lower_the_threshold_to_half(threshold):
    session = session_of(CLIENTS + 1)
    sizes = b"".join(x.to_bytes(4, "little") for x in (4, CLIENTS, session.shape.threshold))
    data = bytearray(session.to_bytes())
    data[bytes(data).index(sizes) + 8] = threshold
    with pytest.raises(errors.ThresholdTooLow):
        Session.from_bytes(bytes(data))


def test_a_sum_over_half_the_cohort_is_not_offered():
    with pytest.raises(errors.ThresholdTooLow):
        session_of(6, least=3)


def test_another_roster_is_refused():
    with pytest.raises(errors.RosterMismatch):
        join(replace(session_of(CLIENTS), roster=bytes(32)))


@pytest.mark.parametrize("change", ["another key", "one client more"])
def test_a_client_does_not_go_on_under_another_roster(change):
    """Else a server could put its own keys in the neighbours' places between two phases."""
    total = at(Phase.SHARE)
    listed = dict(zip(total.roster.names, total.roster.keys, strict=True))
    listed |= {"c001" if change == "another key" else "more": Identity.generate().public}
    client, who = total.client(0), total.who["c000"]
    with pytest.raises(errors.RosterMismatch):
        SumClient.resume(client.state(), who, "c000", Roster(listed), EASY)
    SumClient.resume(client.state(), who, "c000", total.roster, EASY)


def test_a_client_that_is_not_asked_stays_out():
    who, roster = people(CLIENTS)
    session = replace(session_of(CLIENTS), cohort=(1, 2, 3, 4), shape=Shape(3, 3), min_clients=3)
    client = SumClient(who["c000"], "c000", roster, EASY)
    with pytest.raises(errors.NotInvited):
        client.advertise(session, terms="plan", length=4)
    impostor = SumClient(Identity.generate(), "c001", roster, EASY)
    with pytest.raises(errors.NotInvited):
        impostor.advertise(session, terms="plan", length=4)
    with pytest.raises(errors.NotInvited):
        SumClient(who["c000"], "stranger", roster)


def test_default_minimums_suit_three_hospitals_and_not_two():
    join(session_of(3, least=3), ClientPolicy())
    with pytest.raises(errors.CohortTooSmall):
        join(session_of(2), ClientPolicy())


def test_a_client_runs_once():
    total = at(Phase.SHARE)
    with pytest.raises(errors.KeyReused):
        total.client(0).advertise(total.session, terms="plan", length=4)
    with pytest.raises(errors.KeyReused):
        total.client(0).advertise(session_of(CLIENTS, check="next"), terms="plan", length=4)
    done = fresh()
    done.run()
    with pytest.raises(errors.KeyReused):
        done.client(0).advertise(session_of(CLIENTS, check="next"), terms="plan", length=4)
    left = {name: value for name, value in done.client(0).state().items() if value}
    assert set(left) == {"phase", "session", "alive"}  # and no secret


def test_rosters_come_back_and_never_change_a_pinned_key():
    _, roster = people(4)
    assert Roster.from_json(roster.to_json()) == roster
    newcomer = Identity.generate().public
    grown = roster.extended(Roster({"new": newcomer}))
    assert grown.names == (*roster.names, "new")
    with pytest.raises(errors.RosterMismatch):
        grown.extended(Roster({"new": Identity.generate().public}))
    with pytest.raises(errors.RosterMismatch):
        grown.extended(Roster({"alias": newcomer}))
    with pytest.raises(ValueError, match="key"):
        Roster({"a": newcomer, "b": newcomer})
    key = newcomer.hex()
    bad = ["", "[1]", "{", '{"a": 1}', f'{{"a": "{key[1:]}"}}', f'{{"a": " {key}"}}',
           f'{{"a": "{key}", "b": "{key}"}}']  # fmt: skip
    for text in bad:
        with pytest.raises(errors.Malformed, match="64"):
            Roster.from_json(text)
