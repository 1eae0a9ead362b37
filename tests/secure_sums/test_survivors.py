"""One list of survivors for all: every way to bend it is refused by name."""

from dataclasses import replace

import pytest
from secure_sums.summing import CLIENTS, alive_without, ask, at, fresh, majority, session_of

from flwr_kld.common import errors
from flwr_kld.common.canonical_bytes import Slots, unpack_bits
from flwr_kld.secure_sums.messages import Phase, Survivors, decode
from flwr_kld.secure_sums.session import Seat, Session


def test_the_server_notices_a_client_that_signs_another_list():
    total = at(Phase.REVEAL)
    answer = ask(total, 0, Phase.REVEAL, Survivors(total.session.tag, CLIENTS, alive_without(3)))
    with pytest.raises(errors.EquivocatingSurvivors):
        total.server.receive(decode(answer))


def test_a_second_list_would_open_both_secrets():
    total = at(Phase.REVEAL)
    total.answer(0, Phase.REVEAL, total.requests[0])
    other = Survivors(total.session.tag, CLIENTS, alive_without(3))
    with pytest.raises(errors.BothShares):
        ask(total, 0, Phase.REVEAL, other)
    done = fresh()
    done.run()
    with pytest.raises(errors.BothShares):
        ask(done, 0, Phase.REVEAL, other)


def test_a_client_that_sent_its_vector_is_not_declared_dropped():
    total = at(Phase.REVEAL)
    with pytest.raises(errors.NotASurvivor):
        ask(total, 0, Phase.REVEAL, Survivors(total.session.tag, CLIENTS, alive_without(0)))


def test_fewer_survivors_than_promised_are_refused():
    total = at(Phase.REVEAL)
    with pytest.raises(errors.CohortTooSmall):
        ask(total, 0, Phase.REVEAL, Survivors(total.session.tag, CLIENTS, alive_without(1, 2, 3)))


def test_a_survivor_whose_shares_were_held_back_is_noticed():
    # Held-back shares would cut the circle of masks and open the sum of a part of the cohort.
    total = at(Phase.MASK)
    message = decode(total.requests[0])
    mask = message.boxes.mask()
    mask[0] = False
    total.requests[0] = replace(
        message, boxes=Slots.of(mask, message.boxes.items(84)[1:])
    ).to_bytes()
    total.step(Phase.MASK)
    with pytest.raises(errors.MissingMask):
        total.answer(0, Phase.REVEAL, total.requests[0])


def test_the_circle_is_not_cut_by_dropouts_in_a_row():
    # k/2 clients in a row called dropped out, here and opposite, would leave two separate sums.
    session = session_of(16, shape=majority(16, 6), least=9)
    order = session.order.tolist()
    cuts = [order[place] for place in (0, 1, 2, 8, 9, 10)]
    total = at(Phase.REVEAL, session)
    told = Survivors(session.tag, 16, alive_without(*cuts, n=16))
    for place in (3, 7, 11, 15):  # the ends of both arcs
        with pytest.raises(errors.TooFewSurvivors, match="3"):
            ask(total, order[place], Phase.REVEAL, told)


def test_a_list_over_another_cohort_is_refused():
    total = at(Phase.REVEAL)
    with pytest.raises(errors.Tampered):
        ask(total, 0, Phase.REVEAL, Survivors(total.session.tag, 4, alive_without(n=4)))


def test_a_client_is_told_of_all_who_is_asked_and_who_is_in_the_sum():
    """Of its neighbours and of others: what a report says that another client sees."""
    session = session_of(16, shape=majority(16, 6))
    total = fresh(session, drop={3: Phase.MASK})
    assert Session.from_bytes(total.requests[0]).cohort == tuple(range(16))
    total.until(Phase.REVEAL)
    strangers = set(range(1, 16)) - set(Seat.of(session, 0, total.who["c000"]).neighbours.tolist())
    assert len(strangers) == 9
    alive = unpack_bits(decode(total.requests[0]).alive, 16)
    assert not alive[3]
    assert alive.sum() == 15
