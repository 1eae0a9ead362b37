"""Whatever server, clients and one aggregator do, sums of two aggregators show noised sums only.

Each test is one attack on the protocol; docs/proofs/two-aggregators.md says which claim it is of.
"""

from dataclasses import replace
from hashlib import sha256
from itertools import product

import numpy as np
import pytest
from session_nights import TOMORROW, a_night
from splitting import (
    CELLS,
    RUN,
    Actors,
    agreed,
    boxes_of,
    output_of,
    taken_by,
    terms_of,
    verified_by,
)

from flwr_kld.ask.period import Period
from flwr_kld.common.errors import CheckFailed, QueryRefused
from flwr_kld.common.identity import Identity
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import field_mask, from_field, seal
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.kernel.vector import LARGEST_CLIENT, Held
from flwr_kld.secure_sums.split_sum import (
    FIELD,
    NOT_PROVED,
    Addition,
    Parcel,
    Portion,
    kept_bytes,
    split,
)
from flwr_kld.trust.sealing import AggregatorKey, SealContext, open_sealed
from flwr_kld.trust.session_book import SessionBook
from flwr_kld.trust.terms import AggregatorNoise, RecordCounts, Terms
from flwr_kld.trust.trusted import TwoAggregators

NEAR = 10**5
"""A sum is below it; a uniformly random word of 32 bits with probability 5e-5."""


@pytest.fixture
def actors():
    return Actors()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"guarantee": Guarantee(1.0, protects=WholeClients(100)), "most_records": 100},
    ],
)
def test_the_two_answers_add_up_to_the_sum_and_both_noises(options):
    actors = Actors(options=options)
    first, second = actors.added(*actors.portions())
    agreed(first, second)
    total = actors.together(*actors.answers((first, second)))
    noise = actors.noise(0) + actors.noise(1)
    assert noise.any()
    np.testing.assert_array_equal(total, actors.total() + noise)
    assert first.clients == second.clients == len(actors.who)
    public = "guarantee" not in options
    assert first.records == second.records == (actors.total().sum() if public else 0)
    assert (first.sizes is not None) == public


def test_counts_without_a_proof_are_in_no_frame_of_the_refusal(actors):
    row = np.full(CELLS, 12345)
    row[0] = -row[1:].sum()  # as no honest client counts: they have no proof
    with pytest.raises(QueryRefused, match="NotProved") as refused:
        actors.parcel("client-0", row=row)
    raised, shown = refused.value, []
    while raised is not None:
        frames = raised.__traceback__
        while frames is not None:
            if "flwr_kld" in frames.tb_frame.f_code.co_filename:
                shown += frames.tb_frame.f_locals.values()
            frames = frames.tb_next
        raised = raised.__context__
    assert shown
    assert not [value for value in shown if isinstance(value, np.ndarray)]
    assert "12345" not in str(refused.value)


def test_what_an_aggregator_took_shows_no_box(actors):
    first, _ = actors.portions()
    taken = taken_by(actors.addition(0, first))["client-0"]
    assert repr(taken.raw)[-20:-2] not in repr(taken)


def uniform(words) -> bool:
    """Whether words look random: a bit is set as often as not, within 7 deviations."""
    ones = np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).mean()
    return abs(ones - 0.5) < 7 * 0.5 / np.sqrt(words.nbytes * 8)


def test_one_answer_alone_is_random():
    actors = Actors(options={"cells": [2000]})
    additions = actors.added(*actors.portions())
    for answer in actors.answers(additions):
        assert uniform(actors.words(answer))
    assert not uniform(actors.total().astype("<u8")), "the test sees no difference"


def test_each_part_of_a_parcel_is_random_and_new():
    """Either aggregator's part, as it opens it, tells nothing of numbers that are all alike."""
    actors = Actors(options={"cells": [2000]})
    name, row = "client-0", np.eye(1, 2000, dtype=np.int64)[0]
    context = SealContext(RUN, actors.terms.fingerprint, name)
    parcels = [actors.parcel(name, row=row) for _ in range(2)]
    seeds = [open_sealed(actors.keys[0], parcel.seeds, context) for parcel in parcels]
    elements = [open_sealed(actors.keys[1], parcel.elements, context) for parcel in parcels]
    assert len({*seeds, bytes(64)}) == 3
    one, other = (np.frombuffer(part[:-32], "<u8") for part in elements)
    assert uniform(one)
    assert uniform(one - other)


def test_lists_that_differ_show_nothing(actors):
    """Not the sum over either list, and not the difference."""
    first, second = actors.portions()
    fewer = {name: portion for name, portion in first.items() if name != "client-3"}
    one, other = actors.added(first, second, again=fewer)
    with pytest.raises(CheckFailed):
        agreed(one, other)
    total = actors.together(*actors.answers((one, other)))
    assert (np.abs(total) > NEAR).sum() >= CELLS - 4


def test_a_client_of_the_servers_own_lets_no_two_lists_differ(actors):
    """The server knows that client's numbers, and takes them off by itself."""
    first, second = actors.portions()
    fewer = {name: portion for name, portion in first.items() if name != "client-3"}
    one, other = actors.added(first, second, again=fewer)
    shared = Actors.addition(actors, 0, {"client-3": first["client-3"]})
    [(_, checked, _)] = verified_by(shared)
    read = FIELD.add(*map(actors.words, actors.answers((one, other))))
    for known in (FIELD.subtract(read, output_of(checked)), FIELD.add(read, output_of(checked))):
        assert (np.abs(from_field(known)) > NEAR).sum() >= CELLS - 4


def test_a_client_that_sealed_twice_is_in_neither_list(actors):
    """One parcel's seeds do not go with another's elements; the others' sum is read."""
    again = actors.parcel("client-3")
    first, second = actors.portions()
    first["client-3"] = again.portions()[0]
    both = actors.added(first, second)
    agreed(*both)
    assert all(addition.rejected == {"client-3": NOT_PROVED} for addition in both)
    rest = actors.total([name for name in actors.who if name != "client-3"])
    noise = actors.noise(0) + actors.noise(1)
    np.testing.assert_array_equal(actors.together(*actors.answers(both)), rest + noise)


@pytest.mark.parametrize("place", [0, 1])
def test_what_one_of_two_cannot_open_is_in_neither_list(actors, place):
    portions = actors.portions()
    portions[place]["client-3"] = portions[place]["client-3"][:-1]
    both = actors.added(*portions)
    agreed(*both)
    assert both[1 - place].rejected == {"client-3": NOT_PROVED}
    assert both[place].rejected.keys() == {"client-3"}


@pytest.mark.parametrize("byte", [0, 20, -1])
def test_a_changed_list_of_verifiers_is_refused(actors, byte):
    first, second = actors.portions()
    box = bytearray(actors.addition(0, first).start())
    box[byte] ^= 1
    for lie in (bytes(box), b"", bytes(box[:30])):
        with pytest.raises(QueryRefused):
            actors.addition(1, second).decide(lie)
        with pytest.raises(QueryRefused):
            actors.addition(0, first).finish(lie)


def test_an_aggregators_own_list_is_not_the_others(actors):
    first, second = actors.portions()
    box = actors.addition(0, first).start()
    with pytest.raises(QueryRefused):
        actors.addition(0, first).finish(box)
    said = actors.addition(1, second).decide(box)
    with pytest.raises(QueryRefused):
        actors.addition(1, second).decide(said)


@pytest.mark.parametrize("in_session", [False, True])
def test_portions_add_up_as_all_boxes_at_once(tmp_path, in_session):
    """From one to the next, the second aggregator knows what it had sealed, and its book."""
    night = {"night": a_night("s", 1, 9), "guarantee": Guarantee(1.0, 1e-6)} if in_session else {}
    actors = Actors(options=night)
    if in_session:
        actors.rows = {name: np.append(row, 0) for name, row in actors.rows.items()}
        history = (1).to_bytes(actors.terms.night.history, "little")
        tokens = {name: bytes([i]) * 16 + history for i, name in enumerate(actors.who)}
        parcels = {
            name: split(Held(row), actors.terms, actors.who[name], name, RUN, tokens[name])
            for name, row in actors.rows.items()
        }
    first, second = actors.portions(parcels if in_session else None)

    def addition(place, boxes):
        kept = SessionBook(tmp_path / str(place), bytes(32))
        opened = kept.open(actors.terms, kept_bytes(actors.terms)) if in_session else None
        made = Addition(actors.keys[place], actors.terms, RUN, actors.roster, opened)
        made.take(boxes)
        return made

    names, said, saved = sorted(actors.who), [], b""
    for some in (names[:2], names[2:5], names[5:]):
        start = addition(0, {name: first[name] for name in some}).start()
        second_one = addition(1, {})
        if saved:
            second_one.resume(saved)
        second_one.take({name: second[name] for name in some})
        said.append(second_one.decide(start))
        saved = second_one.saved()
    finishes = addition(0, first)
    finishes.finish(*said)
    both = finishes, second_one
    for one in both:
        one.close()
    agreed(*both)
    assert finishes.sizes == second_one.sizes
    words = FIELD.add(*map(actors.held, both))
    np.testing.assert_array_equal(from_field(words), sum(actors.rows.values()))
    with pytest.raises(QueryRefused, match="Duplicated"):
        second_one.take(second)
    with pytest.raises(QueryRefused, match="NotOpened"):
        addition(0, {}).resume(saved)
    if in_session:
        second_one._night.claim(SeededBits(1))
        later = replace(actors.terms, check="later", night=a_night("s", 2, 9))
        book = SessionBook(tmp_path / "1", bytes(32))
        assert len(book.last(later, kept_bytes(later))) == len(names)


def test_the_order_of_boxes_is_nobodys_matter(actors):
    first, second = actors.portions()
    agreed(*actors.added(first, dict(reversed(second.items()))))


@pytest.mark.parametrize("place", [0, 1])
def test_a_box_under_two_names_counts_for_neither(actors, place):
    portions = actors.portions()[place]
    portions["another"] = portions["client-2"]
    assert actors.addition(place, portions).rejected.keys() == {"another", "client-2"}
    assert actors.opened(place, portions) == len(actors.who) - 1


@pytest.mark.parametrize("place", [0, 1])
def test_two_boxes_of_one_client_count_for_neither(actors, place):
    portions = actors.portions()[place]
    portions["another"] = actors.parcel("client-2").portions()[place]
    assert actors.addition(place, portions).rejected.keys() == {"another", "client-2"}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("part", ["run", "check"])
def test_a_box_of_another_check_is_refused(actors, place, part):
    portions = actors.portions()[place]
    now = {"run": 8} if part == "run" else {"terms": replace(actors.terms, check="other")}
    assert actors.opened(place, portions, **now) == 0
    addition = actors.addition(place, portions, **now)
    assert {why.split(":")[0] for why in addition.rejected.values()} == {"BadSignature"}


@pytest.mark.parametrize("place", [0, 1])
def test_a_stolen_box_does_not_open_under_another_name(actors, place):
    """A client signs another's boxes as its own, to be counted with them."""
    stolen = actors.parcel("client-1")
    as_mine = SealContext(RUN, actors.terms.fingerprint, "client-2")
    boxes = [Portion.from_bytes(raw).other for raw in reversed(stolen.portions())]
    head = replace(stolen.head, name="client-2")
    signature = actors.who["client-2"].sign(head.signed_text(as_mine, *boxes))
    mine = replace(stolen, head=replace(head, signature=signature))
    addition = actors.addition(place, {"client-2": mine.portions()[place]})
    assert not boxes_of(addition)
    assert addition.rejected["client-2"].startswith("NotOpened")


def test_swapped_boxes_are_refused(actors):
    first, second = actors.portions()
    for place, wrong in enumerate((second, first)):
        assert actors.opened(place, wrong) == 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_changed_byte_anywhere_is_refused(actors, place):
    honest = actors.parcel("client-0").portions()[place]
    for at in range(len(honest)):
        changed = honest[:at] + bytes([honest[at] ^ 1]) + honest[at + 1 :]
        assert actors.opened(place, {"client-0": changed}) == 0, at
    for cut in (honest[:-1], honest + b"\0", honest[:10], b""):
        assert actors.opened(place, {"client-0": cut}) == 0
    assert actors.opened(place, {"client-0": honest}) == 1


def test_a_stranger_is_refused(actors):
    actors.who["stranger"], actors.rows["stranger"] = Identity.generate(), actors.rows["client-0"]
    for place, portions in enumerate(actors.portions()):
        addition = actors.addition(place, portions)
        assert addition.rejected == {"stranger": "NotInvited: not in the aggregator's roster"}


def test_nobody_signs_for_another(actors):
    forged = actors.parcel("client-0", key=actors.who["client-1"])
    addition = actors.addition(0, {"client-0": forged.portions()[0]})
    assert addition.rejected["client-0"].startswith("BadSignature")


LIES = {
    "check": ["another"],
    "domain": ["e" * 64],
    "plan": ["e" * 64],
    "cells": [[1], [CELLS - 1], [CELLS + 1], [10, 10]],
    "wire": [b"\0"],
    "guarantee": [
        Guarantee(9.0),
        Guarantee(1.0, 1e-6),
    ],
    "asked": [7],
    "until": [TOMORROW + 1],
    "most_records": [5],
    "asked_for": [
        RecordCounts(Allotment((3,))),
        RecordCounts(Allotment((1,)), Period("visited", "2026-11-24", "2026-11-25")),
    ],
    "model": ["a" * 64],
    "night": [a_night("5e", 1, 9, 2)],
    "noise": [(0, 2), (2, 1), (1, 0)],
}
RESHAPED = {
    "cells": {"asked_for": None},
    "night": {"guarantee": Guarantee(1.0, 1e-6)},
}
"""Another value of each of the terms; of the noise whose keys: 2 is a stranger."""


@pytest.mark.parametrize(("place", "name"), list(product([0, 1], LIES)))
def test_an_aggregator_that_is_told_other_terms_opens_no_box(actors, place, name):
    assert LIES.keys() == set(Terms.__annotations__)
    portions = actors.portions()[place]
    keys = [key.public.hex() for key in (*actors.keys, AggregatorKey.generate())]
    lies = [
        {name: AggregatorNoise(tuple(keys[i] for i in value))}
        if name == "noise"
        else {name: value} | RESHAPED.get(name, {})
        for value in LIES[name]
    ]
    clients = Guarantee(1.0, 0.0, protects=WholeClients(5))
    for told in [*lies, {"guarantee": clients, "most_records": 5}]:
        lie = replace(actors.terms, **told)
        if actors.keys[place].public.hex() not in lie.aggregators:
            with pytest.raises(QueryRefused, match="WrongAggregator"):
                actors.addition(place, portions, terms=lie)
        else:
            assert actors.opened(place, portions, terms=lie) == 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_box_of_the_wrong_length_is_left_out_by_both(actors, place):
    context = SealContext(RUN, actors.terms.fingerprint, "client-0")
    honest = actors.parcel("client-0")
    content = b"short".ljust(64 if place == 0 else 5)[: 63 if place == 0 else 5]
    box = seal(actors.keys[place].public, content, context.to_bytes())
    lie = signed(actors, honest, **{("seeds", "elements")[place]: box})
    parcels = {n: actors.parcel(n) for n in actors.who} | {"client-0": lie}
    both = actors.added(*actors.portions(parcels))
    agreed(*both)
    assert all(addition.rejected.keys() == {"client-0"} for addition in both)


def signed(actors, parcel, head=None, **boxes):
    """A parcel as a client that lies signs it."""
    changed = replace(parcel, head=head or parcel.head, **boxes)
    context = SealContext(RUN, actors.terms.fingerprint, changed.head.name)
    digests = sha256(changed.seeds).digest(), sha256(changed.elements).digest()
    signature = actors.who[changed.head.name].sign(changed.head.signed_text(context, *digests))
    return replace(changed, head=replace(changed.head, signature=signature))


@pytest.mark.parametrize("bad", [b"", b"\0" * 32, "key", (1).to_bytes(32, "little")])
def test_keys_that_hide_nothing_are_refused(bad):
    good = AggregatorKey.generate().public
    for pair in ((good, bad), (bad, good), (good,), good, (good, good)):
        with pytest.raises(ValueError, match=r"key|low-order"):
            TwoAggregators(1.0, aggregators=pair)
    with pytest.raises(ValueError, match="aggregators"):
        terms_of([AggregatorKey(bytes(31) + b"\1")] * 2)


@pytest.mark.parametrize("place", [0, 1])
def test_one_aggregator_with_the_server_is_left_with_the_others_noise(actors, place):
    """It takes off the mask, and adds what it holds itself: the sum, and noise that suffices."""
    both = actors.added(*actors.portions())
    words = actors.words(actors.answer(1 - place, both[1 - place]))
    lying = both[place]
    key = actors.shared_key(lying)
    mask = field_mask(key, CELLS)
    words = FIELD.add(words, mask) if place == 0 else FIELD.subtract(words, mask)
    seen = from_field(FIELD.add(words, actors.held(lying)))
    np.testing.assert_array_equal(seen - actors.total(), actors.noise(1 - place))


@pytest.mark.parametrize(
    ("guarantee", "columns"),
    [
        (Guarantee(0.7), 1),
        (Guarantee(0.7, protects=WholeClients(100)), 1),
        (Guarantee(0.7, 1e-6), 3),
    ],
)
def test_one_aggregators_noise_keeps_the_promise_exactly(guarantee, columns):
    """The exact loss of the farthest move, under one noise of the two."""
    most = guarantee.most_records
    event = terms_of(
        [AggregatorKey.generate(), AggregatorKey.generate()],
        guarantee=guarantee, cells=[CELLS] * columns, asked_for=None, most_records=most,
    ).central()  # fmt: skip
    each = (most,) if most else (1, -1)
    assert hockey_stick(event.table, each * columns, guarantee.epsilon) <= guarantee.delta
    half = hockey_stick(event.table, each * columns, 0.9 * guarantee.epsilon)
    assert half > guarantee.delta, "more noise than is promised"


def test_a_ledger_charges_one_noise_and_estimators_know_both():
    pair = AggregatorKey.generate().public, AggregatorKey.generate().public
    two = TwoAggregators(1.0, aggregators=pair)
    single = terms_of([AggregatorKey.generate(), AggregatorKey.generate()]).central()
    assert two.event(10).noise.variance == pytest.approx(2 * single.table.variance)
    assert float(two.cost(10).epsilon) == pytest.approx(1.0, rel=1e-6)
    assert two.event(10).table == single.table


def test_what_is_not_a_parcel_is_refused():
    for raw in (b"", b"\xff" * 300, bytes(100), "text", 1.0):
        with pytest.raises(InvalidReply):
            Parcel.from_bytes(raw)


def test_no_sum_of_the_largest_clients_wraps():
    """Each of them has as many records in one cell as counts can carry, in many steps."""
    actors = Actors(options={"asked_for": RecordCounts(Allotment((59,)))})
    for row in actors.rows.values():
        row[:] = 0
        row[0] = LARGEST_CLIENT
    answers = actors.answers(actors.added(*actors.portions()))
    noise = actors.noise(0) + actors.noise(1)
    counted = actors.total() * actors.terms.layout.steps
    assert np.array_equal(actors.together(*answers), counted + noise)
