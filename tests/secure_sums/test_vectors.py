"""Known answers: every byte of one sum, and changed bytes that must be refused by name."""

import json

import pytest
from secure_sums.make_vectors import FILE, known, refusal, transcript

VECTORS = json.loads(FILE.read_text())


def test_every_message_of_the_known_sum():
    assert transcript() == VECTORS["known"]
    assert VECTORS["known"]["sum"] == [1011, 2022, 13]
    assert VECTORS["known"]["survivors"] == ["c000", "c001", "c003"]


def test_there_are_enough_tampered_messages():
    assert len(VECTORS["tampered"]) >= 12
    assert len({case["error"] for case in VECTORS["tampered"].values()}) >= 8


@pytest.mark.parametrize("name", VECTORS["tampered"])
def test_tampered_message_is_refused_by_name(name):
    case = VECTORS["tampered"][name]
    _, error = refusal(name, bytes.fromhex(case["message"]))
    assert error == case["error"]


def test_without_injected_randomness_nothing_repeats():
    one, other = known(), known()
    one.label = other.label = None
    one.run()
    other.run()
    assert all(one.sent[key] != other.sent[key] for key in one.sent)
