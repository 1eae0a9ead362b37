"""Messages out of order, repeated, or of another session are refused."""

from dataclasses import replace

import pytest
from secure_sums.summing import CLIENTS, EASY, PHASES, at, fresh, session_of, signed_again

from flwr_kld.common import errors
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Phase, decode


@pytest.mark.parametrize("phase", PHASES[1:])
def test_clients_refuse_repetition_and_disorder(phase):
    total = at(phase)
    request = total.requests[0]
    early = fresh()
    early.client(0)
    with pytest.raises(errors.OutOfOrder):
        early.answer(0, phase, request)
    total.answer(0, phase, request)
    with pytest.raises(errors.Replayed):
        total.answer(0, phase, request)


def test_clients_refuse_a_later_phase_first():
    ahead, behind = at(Phase.MASK), at(Phase.SHARE)
    with pytest.raises(errors.OutOfOrder):
        behind.answer(0, Phase.MASK, ahead.requests[0])
    behind.answer(0, Phase.SHARE, behind.requests[0])  # and the session goes on


@pytest.mark.parametrize("phase", PHASES)
def test_the_server_refuses_repetition(phase):
    total = at(phase)
    total.collect(phase)
    again = decode(total.sent[phase, 0])
    with pytest.raises(errors.Replayed):
        total.server.receive(again)
    if phase < Phase.REVEAL:
        total.requests = {i: m.to_bytes() for i, m in total.server.advance().items()}
        with pytest.raises(errors.Replayed):
            total.server.receive(again)


@pytest.mark.parametrize("phase", PHASES[1:])
def test_messages_of_another_session_are_refused(phase):
    here, there = at(phase), at(phase, session_of(CLIENTS, check="elsewhere"))
    with pytest.raises(errors.WrongSession):
        here.answer(0, phase, there.requests[0])
    there.collect(phase)
    assert not there.refusals
    with pytest.raises(errors.WrongSession):
        here.server.receive(decode(there.sent[phase, 0]))
    relabelled = replace(decode(there.sent[phase, 0]), session=here.session.tag)
    with pytest.raises(errors.BadSignature):
        here.server.receive(relabelled)


def test_the_server_refuses_a_later_phase_and_strangers():
    ahead, behind = at(Phase.SHARE), fresh()
    ahead.collect(Phase.SHARE)
    with pytest.raises(errors.OutOfOrder):
        behind.server.receive(decode(ahead.sent[Phase.SHARE, 0]))
    behind.collect(Phase.ADVERTISE)
    advert = decode(behind.sent[Phase.ADVERTISE, 0])
    with pytest.raises(errors.UnknownSender):
        behind.server.receive(replace(advert, sender=99))
    with pytest.raises(errors.UnknownSender, match="transport"):
        fresh().server.receive(advert, sender="c003")
    gone = at(Phase.SHARE, drop={2: 0})
    late = fresh()
    late.collect(Phase.ADVERTISE)
    with pytest.raises(errors.Replayed):
        gone.server.receive(decode(late.sent[Phase.ADVERTISE, 2]))


@pytest.mark.parametrize(
    "change",
    [{"shape": Shape(4, 3)}, {"min_clients": 4}, {"check": "other"}, {"cohort": (0, 1, 2, 3, 5)}],
)
def test_a_server_that_shows_one_client_another_session_is_noticed(change):
    # A lower threshold for one client alone: its neighbours signed their keys for another session.
    session = replace(session_of(6), cohort=(0, 1, 2, 3, 4), shape=Shape(4, 4), min_clients=3)
    total, told = at(Phase.SHARE, session), replace(session, **change)
    name = total.server.name(0)
    client = SumClient(total.who[name], name, total.roster, EASY)
    client.advertise(told, terms="plan", length=4)
    shown = replace(decode(total.requests[0]), session=told.tag)
    with pytest.raises(errors.BadSignature):
        client.share(shown)


def test_the_server_takes_no_vector_from_a_client_that_dealt_no_shares():
    total = at(Phase.MASK, drop={2: Phase.SHARE})
    vector = decode(total.answer(0, Phase.MASK, total.requests[0]))
    with pytest.raises(errors.UnknownSender):
        total.server.receive(signed_again(total, replace(vector, sender=2)))
    total.server.receive(vector)


def test_a_client_keeps_no_secret_longer_than_it_needs():
    total = fresh()
    held = {}
    for phase in PHASES:
        total.step(phase)
        state = total.client(0).state()
        secrets = ("mask_secret", "seal_secret", "seed", "channels", "shares")
        held[phase] = {name for name in secrets if state[name]}
    assert held == {
        Phase.ADVERTISE: {"mask_secret", "seal_secret", "seed"},
        Phase.SHARE: {"mask_secret", "seed", "channels"},
        Phase.MASK: {"channels", "shares"},
        Phase.REVEAL: set(),
    }
