"""Published vectors: a second implementation reads what they say is read, and refuses the rest."""

import json

import pytest
from trust.make_vectors import FOLDER, KINDS, meaning, text

FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
VALID = [(name, case) for name, file in FILES.items() for case in file["valid"]]
TAMPERED = [(name, case) for name, file in FILES.items() for case in file["tampered"]]


def described(cases):
    return [pytest.param(name, case, id=f"{name}: {case['note']}") for name, case in cases]


def test_every_kind_of_message_has_vectors():
    assert FILES.keys() == KINDS.keys()
    assert {name for name, _ in VALID} == {name for name, _ in TAMPERED} == KINDS.keys()
    assert len(TAMPERED) >= 20


@pytest.mark.parametrize("name", KINDS)
def test_the_published_vectors_are_this_versions(name):
    """Else write them anew: python tests/trust/make_vectors.py."""
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text(name)


@pytest.mark.parametrize(("name", "case"), described(VALID))
def test_a_valid_message_means_what_is_said_and_is_written_like_that(name, case):
    value = KINDS[name].read(case["message"])
    assert meaning(value) == case["meaning"]
    assert KINDS[name].write(value) == case["message"]


@pytest.mark.parametrize(("name", "case"), described(TAMPERED))
def test_a_tampered_message_is_refused_for_the_reason_that_is_said(name, case):
    with pytest.raises(KINDS[name].model._refused) as refusal:
        KINDS[name].read(case["message"])
    assert str(refusal.value) == case["refusal"]
