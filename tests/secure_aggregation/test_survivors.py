"""One list of survivors for all: every way to bend it is refused by name."""

from dataclasses import replace

import numpy as np
import pytest
from secure_aggregation.summing import CLIENTS, ask, at, fresh, majority, session_of

from flwr_kld.secure_aggregation import errors
from flwr_kld.secure_aggregation.messages import Phase, Survivors, decode
from flwr_kld.secure_aggregation.wire import Slots, pack_bits


def alive_without(*gone: int, n: int = CLIENTS) -> bytes:
    mask = np.ones(n, bool)
    mask[list(gone)] = False
    return pack_bits(mask)


def test_clients_told_different_lists_reveal_nothing():
    # The server tells 0 that 4 dropped out and 2 that 3 did: from enough of either it would get
    # shares of both secrets of 3 and 4. But 0 sees that 2 confirmed another list.
    total = at(Phase.AGREE)
    told = {0: alive_without(4), 2: alive_without(3)}
    answers = {
        i: decode(ask(total, i, Phase.AGREE, Survivors(total.session.tag, CLIENTS, alive)))
        for i, alive in told.items()
    }
    tags, slots = answers[2].tags, total.client(2)._seat.neighbours
    for_zero = tags.items(16)[slots[tags.mask()].tolist().index(0)]
    nothing = Slots.of(np.zeros(4, bool), [])
    from_two = Slots.of(total.client(0)._seat.neighbours == 2, [for_zero])
    request = decode(at(Phase.UNMASK).requests[0])
    bent = replace(request, seeds=nothing, mask_keys=nothing, tags=from_two)
    with pytest.raises(errors.EquivocatingSurvivors, match="did not confirm"):
        ask(total, 0, Phase.UNMASK, bent)


def test_the_server_notices_a_client_that_signs_another_list():
    total = at(Phase.AGREE)
    answer = ask(total, 0, Phase.AGREE, Survivors(total.session.tag, CLIENTS, alive_without(3)))
    with pytest.raises(errors.EquivocatingSurvivors):
        total.server.receive(decode(answer))


def test_a_second_list_would_open_both_secrets():
    total = at(Phase.AGREE)
    total.answer(0, Phase.AGREE, total.requests[0])
    other = Survivors(total.session.tag, CLIENTS, alive_without(3))
    with pytest.raises(errors.BothShares):
        ask(total, 0, Phase.AGREE, other)
    done = fresh()
    done.run()
    with pytest.raises(errors.BothShares):
        ask(done, 0, Phase.AGREE, other)


def test_both_shares_of_one_client_are_never_revealed():
    total = at(Phase.UNMASK)
    request = decode(total.requests[0])
    with pytest.raises(errors.BothShares):
        ask(total, 0, Phase.UNMASK, replace(request, mask_keys=request.seeds))


@pytest.mark.parametrize("which", ["survivor's mask key", "dropout's seed", "dropout's tag"])
def test_requests_that_contradict_the_list_are_refused(which):
    total = at(Phase.UNMASK, drop={1: Phase.MASK})
    request = decode(total.requests[0])
    nothing = Slots.of(np.zeros(4, bool), [])
    bad = {
        "survivor's mask key": replace(request, mask_keys=request.seeds, seeds=nothing),
        "dropout's seed": replace(request, seeds=request.mask_keys, mask_keys=nothing),
        "dropout's tag": replace(request, tags=Slots.of(request.mask_keys.mask(), [bytes(16)])),
    }[which]
    with pytest.raises(errors.EquivocatingSurvivors):
        ask(total, 0, Phase.UNMASK, bad)


def test_a_share_that_a_client_never_had_is_not_revealed():
    total = at(Phase.UNMASK, drop={1: Phase.SHARE})
    request = decode(total.requests[0])
    silent = total.client(0)._seat.neighbours == 1
    with pytest.raises(errors.UnknownSender, match="never had"):
        ask(total, 0, Phase.UNMASK, replace(request, mask_keys=Slots.of(silent, [])))


def test_too_few_confirmations_reveal_nothing():
    total = at(Phase.UNMASK)
    request = decode(total.requests[0])
    mask = request.tags.mask()
    mask[1:] = False
    few = replace(request, tags=Slots.of(mask, request.tags.items(16)[:1]))
    with pytest.raises(errors.TooFewSurvivors):
        ask(total, 0, Phase.UNMASK, few)


def test_a_changed_confirmation_is_noticed():
    total = at(Phase.UNMASK)
    request = decode(total.requests[0])
    tags = bytearray(request.tags.data)
    tags[-1] ^= 128
    with pytest.raises(errors.EquivocatingSurvivors):
        ask(total, 0, Phase.UNMASK, replace(request, tags=replace(request.tags, data=bytes(tags))))


def test_a_client_that_sent_its_vector_is_not_declared_dropped():
    total = at(Phase.AGREE)
    with pytest.raises(errors.NotASurvivor):
        ask(total, 0, Phase.AGREE, Survivors(total.session.tag, CLIENTS, alive_without(0)))


def test_fewer_survivors_than_promised_are_refused():
    total = at(Phase.AGREE)
    with pytest.raises(errors.CohortTooSmall):
        ask(total, 0, Phase.AGREE, Survivors(total.session.tag, CLIENTS, alive_without(1, 2, 3)))


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
        total.answer(0, Phase.AGREE, total.requests[0])


def test_the_circle_is_not_cut_by_dropouts_in_a_row():
    # k/2 clients in a row called dropped out, here and opposite, would leave two separate sums.
    session = session_of(16, shape=majority(16, 6), least=9)
    order = session.order.tolist()
    cuts = [order[place] for place in (0, 1, 2, 8, 9, 10)]
    total = at(Phase.AGREE, session)
    told = Survivors(session.tag, 16, alive_without(*cuts, n=16))
    for place in (3, 7, 11, 15):  # the ends of both arcs
        with pytest.raises(errors.TooFewSurvivors, match="one side"):
            ask(total, order[place], Phase.AGREE, told)


def test_a_list_over_another_cohort_is_refused():
    total = at(Phase.AGREE)
    with pytest.raises(errors.Tampered):
        ask(total, 0, Phase.AGREE, Survivors(total.session.tag, 4, alive_without(n=4)))
