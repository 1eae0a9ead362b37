"""Keys that their owner did not sign, and shares that do not open, are refused by name."""

from dataclasses import replace

import numpy as np
import pytest
from secure_sums.summing import EASY, PHASES, ask, at, session_of, signed_again

from flwr_kld.common import errors
from flwr_kld.common.canonical_bytes import Slots
from flwr_kld.secure_sums.client import SHARES, SumClient
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Advert, Phase, decode, signed_text
from flwr_kld.secure_sums.shamir import SHARE


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


@pytest.mark.parametrize(
    ("slot", "keys", "error"),
    [
        (1, lambda first, own: first, errors.KeyReused),  # another neighbour's keys
        (0, lambda first, own: first[:32] + own, errors.KeyReused),
        (0, lambda first, own: first[:32] + bytes(32), errors.Tampered),  # of low order
    ],
)
def test_clients_refuse_keys_that_are_no_neighbours_own(slot, keys, error):
    """Although the neighbour signed them as its own."""
    total = at(Phase.SHARE)
    message, own = decode(total.requests[0]), decode(total.sent[Phase.ADVERTISE, 0])
    rows = message.adverts.items(128)
    peer = int(total.neighbours(0)[slot])
    body = keys(rows[0][:64], own.seal_key)
    text = signed_text(total.session.digest, Advert.kind, peer, body)
    rows[slot] = body + total.who[total.server.name(peer)].sign(text)
    changed = replace(message.adverts, data=b"".join(rows))
    with pytest.raises(error):
        ask(total, 0, Phase.SHARE, replace(message, adverts=changed))


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
    peer = int(total.neighbours(0)[0])
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


def lying_holder(total, i: int, **lies) -> None:
    """Let a client go on from a memory with a bit changed in it, at a byte each."""
    client = total.client(i)
    state = client.state()
    for name, where in lies.items():
        changed = bytearray(state[name])
        changed[where] ^= 16  # not a bit that X25519 ignores
        state[name] = bytes(changed)
    name = total.server.name(i)
    total.clients[i] = SumClient.resume(state, total.who[name], name, total.roster, EASY)


def test_a_client_that_deals_bad_shares_spoils_the_sum_but_no_number_comes_out():
    total = at(Phase.REVEAL)
    lying_holder(total, 1, own=0)
    total.collect(Phase.REVEAL)
    with pytest.raises(errors.Tampered, match="seed"):
        total.server.advance()
    with pytest.raises(errors.OutOfOrder):
        total.server.result()


def test_a_dropouts_bad_shares_are_noticed_too():
    total = at(Phase.REVEAL, drop={1: Phase.MASK})
    holder = int(total.collected.table[1, 0])
    slot = total.neighbours(holder).tolist().index(1)
    lying_holder(total, holder, shares=slot * SHARES.itemsize + SHARE + 1)
    total.collect(Phase.REVEAL)
    with pytest.raises(errors.Tampered, match="key"):
        total.server.advance()


@pytest.mark.parametrize("change", [-34, 34, 1])
def test_the_server_refuses_shares_of_other_neighbours(change):
    total = at(Phase.REVEAL, drop={1: Phase.MASK})
    told = decode(total.answer(0, Phase.REVEAL, total.requests[0]))
    changed = replace(told, sealed=bytes(len(told.sealed) + change))
    with pytest.raises(errors.Tampered, match="neighbours"):
        total.server.receive(decode(signed_again(total, changed).to_bytes()))
    total.server.receive(told)  # the session goes on


@pytest.mark.parametrize("phase", [Phase.SHARE, Phase.REVEAL])
def test_the_server_refuses_answers_about_other_neighbours(phase):
    total = at(phase)
    answer = decode(total.answer(0, phase, total.requests[0]))
    name, width = ("boxes", 84) if phase is Phase.SHARE else ("locks", 34)
    items = getattr(answer, name).items(width)
    for lie in (
        Slots.of(np.array([True, True, True, False]), items[:3]),
        Slots.of(np.ones(6, bool), [*items, *items[:2]]),
    ):
        changed = signed_again(total, replace(answer, **{name: lie}))
        with pytest.raises(errors.Tampered):
            total.server.receive(decode(changed.to_bytes()))
    total.server.receive(answer)


def test_the_server_refuses_a_vector_of_another_length():
    total = at(Phase.MASK)
    answer = decode(total.answer(0, Phase.MASK, total.requests[0]))
    for values in (answer.values[:-4], answer.values + bytes(4), answer.values[:-1], b""):
        with pytest.raises(errors.Tampered, match="length"):
            total.server.receive(signed_again(total, replace(answer, values=values)))
    total.server.receive(answer)


def test_a_neighbourhood_below_the_threshold_is_left():
    total = at(Phase.SHARE, session_of(12, shape=Shape(6, 6)))
    message = decode(total.requests[0])
    mask = message.adverts.mask()
    mask[1:-1] = False
    first, *_, last = message.adverts.items(128)
    few = replace(message, adverts=Slots.of(mask, [first, last]))
    with pytest.raises(errors.TooFewSurvivors, match="5 are"):
        ask(total, 0, Phase.SHARE, few)
