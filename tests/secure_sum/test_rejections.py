"""Each way to cheat is refused by its name, and a refusal is final."""

from dataclasses import replace

import numpy as np
import pytest
from secure_sum.summing import EASY, PHASES, Sum, majority, people, session_of

from flwr_kld.secure_sum import (
    ClientPolicy,
    Collusion,
    Identity,
    Phase,
    Roster,
    Session,
    Shape,
    SumClient,
    decode,
    errors,
)
from flwr_kld.secure_sum.messages import Advert, Survivors, signed_text
from flwr_kld.secure_sum.wire import Slots, pack_bits

CLIENTS = 5


def fresh(session=None, **options) -> Sum:
    session = session or session_of(CLIENTS)
    return Sum(session, np.ones((session.size, session.length), np.uint32), **options)


def at(phase: Phase, session=None, **options) -> Sum:
    return fresh(session, **options).until(phase)


def ask(total: Sum, i: int, phase: Phase, message) -> bytes:
    data = message if isinstance(message, bytes) else message.to_bytes()
    return total.answer(i, phase, data)


def alive_without(*gone: int, n: int = CLIENTS) -> bytes:
    mask = np.ones(n, bool)
    mask[list(gone)] = False
    return pack_bits(mask)


# -- what a client insists on before it takes part ----------------------------------------------


def join(session, policy=EASY, plan="plan", length=4, bits=32, client=0):
    who, roster = people(session.listed)
    name = roster.names[session.cohort[client]]
    return SumClient(who[name], name, roster, policy).advertise(
        session, plan=plan, length=length, bits=bits
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"plan": "other"}, errors.WrongSession),
        ({"length": 5}, errors.WrongSession),
        ({"bits": 64}, errors.WrongSession),
        ({"policy": ClientPolicy(min_cohort=6)}, errors.CohortTooSmall),
        ({"policy": ClientPolicy(min_survivors=4)}, errors.CohortTooSmall),
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
    with pytest.raises(errors.TooFewNeighbours, match="do not withstand"):
        join(thin, ClientPolicy(min_neighbours=8, corrupted=0.3))
    join(thin, ClientPolicy(min_neighbours=8, corrupted=0.0))


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_the_server_cannot_lower_the_threshold_to_half(threshold):
    session = session_of(CLIENTS + 1)
    sizes = b"".join(x.to_bytes(4, "little") for x in (4, CLIENTS, session.shape.threshold))
    data = bytearray(session.to_bytes())
    data[bytes(data).index(sizes) + 8] = threshold
    with pytest.raises(errors.ThresholdTooLow, match="no majority"):
        Session.from_bytes(bytes(data))


def test_a_sum_over_half_the_cohort_is_not_offered():
    with pytest.raises(errors.ThresholdTooLow, match="half of its cohort"):
        session_of(6, least=3)


def test_another_roster_is_refused():
    with pytest.raises(errors.RosterMismatch):
        join(replace(session_of(CLIENTS), roster=bytes(32)))


def test_a_client_that_is_not_asked_stays_out():
    who, roster = people(CLIENTS)
    session = replace(session_of(CLIENTS), cohort=(1, 2, 3, 4), shape=Shape(3, 3), min_survivors=3)
    client = SumClient(who["c000"], "c000", roster, EASY)
    with pytest.raises(errors.NotInvited):
        client.advertise(session, plan="plan", length=4)
    impostor = SumClient(Identity.generate(), "c001", roster, EASY)
    with pytest.raises(errors.NotInvited, match="another key"):
        impostor.advertise(session, plan="plan", length=4)
    with pytest.raises(errors.NotInvited):
        SumClient(who["c000"], "stranger", roster)


def test_default_minimums_suit_three_hospitals_and_not_two():
    join(session_of(3, least=3), ClientPolicy())
    with pytest.raises(errors.CohortTooSmall):
        join(session_of(2), ClientPolicy())


def test_a_client_runs_once():
    total = at(Phase.SHARE)
    with pytest.raises(errors.KeyReused):
        total.client(0).advertise(total.session, plan="plan", length=4)
    with pytest.raises(errors.KeyReused):
        total.client(0).advertise(session_of(CLIENTS, check="next"), plan="plan", length=4)
    done = fresh()
    done.run()
    with pytest.raises(errors.KeyReused):
        done.client(0).advertise(session_of(CLIENTS, check="next"), plan="plan", length=4)
    left = {name: value for name, value in done.client(0).state().items() if value}
    assert set(left) == {"phase", "session", "index", "alive"}  # and no secret
    assert left["index"] == -1


# -- order, repetition, session ------------------------------------------------------------------


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
    with pytest.raises(errors.OutOfOrder, match="MASK comes after SHARE"):
        behind.answer(0, Phase.MASK, ahead.requests[0])
    behind.answer(0, Phase.SHARE, behind.requests[0])  # and the session goes on


@pytest.mark.parametrize("phase", PHASES)
def test_the_server_refuses_repetition(phase):
    total = at(phase)
    total.collect(phase)
    again = decode(total.sent[phase, 0])
    with pytest.raises(errors.Replayed):
        total.server.receive(again)
    if phase < Phase.UNMASK:
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


# -- signatures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_the_server_refuses_any_changed_byte(phase):
    total = at(phase)
    data = total.answer(0, phase, total.requests[0])
    rng = np.random.default_rng(phase)
    for where in {5, 21, len(data) - 1, *rng.integers(5, len(data), 25).tolist()}:
        changed = bytearray(data)
        changed[where] ^= 1 << int(rng.integers(8))
        with pytest.raises(errors.SecureSumError):
            total.server.receive(decode(bytes(changed)))
    total.server.receive(decode(data))


def test_clients_refuse_a_key_that_its_owner_did_not_sign():
    total = at(Phase.SHARE)
    message = decode(total.requests[0])
    forged = bytearray(message.adverts.data)
    forged[0] ^= 1  # the server puts its own key in a neighbour's place
    bad = replace(message, adverts=replace(message.adverts, data=bytes(forged)))
    with pytest.raises(errors.BadSignature):
        ask(total, 0, Phase.SHARE, bad)
    with pytest.raises(errors.OutOfOrder):  # a refusal is final
        ask(total, 0, Phase.SHARE, message)
    assert total.client(0).phase is Phase.REFUSED


def test_clients_refuse_neighbours_in_each_others_place():
    total = at(Phase.SHARE)
    message = decode(total.requests[0])
    first, second, *rest = message.adverts.items(128)
    swapped = replace(message.adverts, data=b"".join([second, first, *rest]))
    with pytest.raises(errors.BadSignature):
        ask(total, 0, Phase.SHARE, replace(message, adverts=swapped))


def test_clients_refuse_a_key_used_twice():
    total = at(Phase.SHARE)
    message = decode(total.requests[0])
    rows = message.adverts.items(128)
    peer = int(total.client(0)._neighbours[1])
    body = rows[0][:64]  # a neighbour signs another's keys as its own
    text = signed_text(total.session.digest, Advert.kind, peer, body)
    rows[1] = body + total.who[total.server.name(peer)].sign(text)
    with pytest.raises(errors.KeyReused):
        ask(
            total,
            0,
            Phase.SHARE,
            replace(message, adverts=replace(message.adverts, data=b"".join(rows))),
        )


def test_clients_refuse_a_key_of_low_order():
    total = at(Phase.SHARE)
    message = decode(total.requests[0])
    rows = message.adverts.items(128)
    peer = int(total.client(0)._neighbours[0])
    body = rows[0][:32] + bytes(32)
    text = signed_text(total.session.digest, Advert.kind, peer, body)
    rows[0] = body + total.who[total.server.name(peer)].sign(text)
    with pytest.raises(errors.Tampered):
        ask(
            total,
            0,
            Phase.SHARE,
            replace(message, adverts=replace(message.adverts, data=b"".join(rows))),
        )


# -- shares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["flip", "swap", "echo"])
def test_clients_refuse_shares_that_do_not_open(change):
    total = at(Phase.MASK)
    message = decode(total.requests[0])
    boxes = message.boxes.items(84)
    if change == "flip":
        boxes[0] = bytes([boxes[0][0] ^ 1]) + boxes[0][1:]
    elif change == "swap":
        boxes[0], boxes[1] = boxes[1], boxes[0]
    else:  # what this client itself sealed for that neighbour comes back
        boxes[0] = decode(total.sent[Phase.SHARE, 0]).boxes.items(84)[0]
    bad = replace(message, boxes=replace(message.boxes, data=b"".join(boxes)))
    with pytest.raises(errors.Tampered):
        ask(total, 0, Phase.MASK, bad)


def test_clients_refuse_shares_from_nobody():
    total = at(Phase.SHARE)
    message = decode(total.requests[0])
    mask = message.adverts.mask()
    mask[0] = False
    fewer = Slots.of(mask, message.adverts.items(128)[1:])
    total.requests[0] = replace(message, adverts=fewer).to_bytes()
    peer = int(total.client(0)._neighbours[0])
    total.collect(Phase.SHARE)
    assert total.refusals == {0: "Tampered"}  # the server misses a box
    boxes = np.zeros((4, 84), np.uint8)
    with pytest.raises(errors.UnknownSender):
        ask(
            total,
            0,
            Phase.MASK,
            replace(decode(at(Phase.MASK).requests[0]), boxes=Slots.of(np.ones(4, bool), boxes)),
        )
    assert peer in total.clients


def test_a_client_that_deals_bad_shares_spoils_the_sum_but_no_number_comes_out():
    total = at(Phase.UNMASK)
    total.collect(Phase.UNMASK)
    total.server._shares[1, 0, 0] ^= 1
    with pytest.raises(errors.Tampered, match="another seed"):
        total.server.advance()
    with pytest.raises(errors.OutOfOrder):
        total.server.result()


def test_a_dropouts_bad_shares_are_noticed_too():
    total = at(Phase.UNMASK, drop={1: Phase.MASK})
    total.collect(Phase.UNMASK)
    holder = int(np.flatnonzero(total.server._held[1])[0])
    total.server._shares[1, holder, 1] ^= 16  # not a bit that X25519 ignores
    with pytest.raises(errors.Tampered, match="another key"):
        total.server.advance()


def test_a_neighbourhood_below_the_threshold_is_left():
    total = at(Phase.SHARE, session_of(12, shape=Shape(6, 4)))
    message = decode(total.requests[0])
    mask = message.adverts.mask()
    mask[1:-1] = False
    first, *_, last = message.adverts.items(128)
    few = replace(message, adverts=Slots.of(mask, [first, last]))
    with pytest.raises(errors.TooFewSurvivors, match="3 of this client's holders"):
        ask(total, 0, Phase.SHARE, few)


# -- the list of survivors -----------------------------------------------------------------------


def test_clients_told_different_lists_reveal_nothing():
    # The server tells 0 and 1 that 4 dropped out and the others that 3 did: it would get shares of
    # both secrets of 3 and 4. Every client sees that its neighbours confirmed another list.
    lists = {i: alive_without(4) if i < 2 else alive_without(3) for i in range(4)}
    total = at(Phase.AGREE)
    answers = {
        i: decode(ask(total, i, Phase.AGREE, Survivors(total.session.tag, CLIENTS, lists[i])))
        for i in (0, 1, 2)
    }
    honest = at(Phase.UNMASK)
    template = decode(honest.requests[0])
    neighbours = total.client(0)._neighbours.tolist()
    for teller, told in ((2, errors.EquivocatingSurvivors),):
        slot = neighbours.index(teller)
        back = total.client(teller)._neighbours.tolist().index(0)
        sent = answers[teller].tags
        place = int(sent.mask()[:back].sum())
        tags = Slots.of(np.arange(4) == slot, [sent.items(16)[place]])
        nothing = Slots.of(np.zeros(4, bool), [])
        with pytest.raises(told):
            ask(
                total,
                0,
                Phase.UNMASK,
                replace(template, seeds=nothing, mask_keys=nothing, tags=tags),
            )


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


# -- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_only_canonical_bytes_are_messages(phase):
    total = at(phase)
    total.collect(phase)
    blobs = [total.sent[phase, 0]] + ([total.requests[0]] if phase else [])
    for data in blobs:
        assert decode(data).to_bytes() == data
        for bad in (data[:-1], data + b"\0", b"kss0" + data[4:], data[:4] + b"\x63" + data[5:]):
            with pytest.raises(errors.Malformed):
                decode(bad)
        for cut in range(0, len(data), 7):
            with pytest.raises(errors.Malformed):
                decode(data[:cut])


def test_spare_bits_of_a_bitmap_are_zero():
    data = bytearray(Survivors(bytes(16), 5, b"\x1f").to_bytes())
    assert decode(bytes(data)).alive == b"\x1f"
    data[-1] = 0x3F
    with pytest.raises(errors.Malformed):
        decode(bytes(data))


@pytest.mark.parametrize(("n", "listed"), [(4, 4), (4, 64), (4, 65), (40, 10_000)])
def test_sessions_are_canonical_bytes(n, listed):
    session = replace(session_of(n), listed=listed, cohort=tuple(range(listed - n, listed)))
    data = session.to_bytes()
    assert Session.from_bytes(data) == session
    for bad in (data[:-1], data + b"\0", b"kss2" + data[4:], data[:5] + b"\x10" + data[6:]):
        with pytest.raises(errors.SecureSumError):
            Session.from_bytes(bad)


def test_a_cohort_names_nobody_twice():
    session = replace(session_of(4), listed=1000)
    data = bytearray(session.to_bytes())
    data[-4:] = data[-8:-4]
    with pytest.raises(errors.Malformed, match="once"):
        Session.from_bytes(bytes(data))


# -- rosters -------------------------------------------------------------------------------------


def test_rosters_come_back_and_never_change_a_pinned_key():
    _, roster = people(4)
    assert Roster.from_json(roster.to_json()) == roster
    newcomer = Identity.generate().public
    grown = roster.extended(Roster({"new": newcomer}))
    assert grown.names == (*roster.names, "new")
    with pytest.raises(errors.RosterMismatch, match="not the pinned"):
        grown.extended(Roster({"new": Identity.generate().public}))
    with pytest.raises(errors.RosterMismatch, match="another name"):
        grown.extended(Roster({"alias": newcomer}))
    with pytest.raises(ValueError, match="share a key"):
        Roster({"a": newcomer, "b": newcomer})
    with pytest.raises(errors.Malformed):
        Roster.from_json("[1]")
