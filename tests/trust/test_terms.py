"""Terms, members and answer: what survives the wire and what is turned away."""

import gc
import json
import weakref
from dataclasses import replace

import pytest
from flwr.app import ConfigRecord
from session_nights import a_night
from trust.vector_forms import claim, said_otherwise

from flwr_kld.ask.period import Period
from flwr_kld.ask.unlisted_labels import UnlistedLabels
from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.trust.envelopes import ANSWER, Answer, Members
from flwr_kld.trust.terms import ChannelNoise, NoiseShares, RecordCounts, Terms

QUESTION = Terms(
    check="00ff",
    domain="d",
    plan="p",
    cells=[3, 4],
    wire=b"\x00\xff",
    guarantee=Guarantee(0.5, 1e-9),
    asked=20,
    until=1796000000,
)
ANSWERED = Answer("00ff", [0, 4], ["no"])


@pytest.mark.parametrize("most", [0, 12])
def test_a_question_survives_a_flower_record(most):
    question = replace(QUESTION, most_records=most)
    assert Terms.from_config(ConfigRecord(question.to_config())) == question


@pytest.mark.parametrize("name", sorted(set(QUESTION.to_config()) - {"version"}))
def test_boxes_and_sessions_are_for_all_that_is_asked(name):
    told = QUESTION.to_config()
    assert said_otherwise(QUESTION, told).fingerprint == QUESTION.fingerprint
    changed = told | {name: b"another"}
    assert said_otherwise(QUESTION, changed).fingerprint != QUESTION.fingerprint


@pytest.mark.parametrize("version", [None, 0, 2, "1", 1.0, True])
def test_another_version_says_what_to_install(version):
    config = {**QUESTION.to_config(), "version": version}
    with pytest.raises(QueryRefused, match="install"):
        Terms.from_config(config)


@pytest.mark.parametrize("name", sorted(set(QUESTION.to_config()) - {"version"}))
def test_an_incomplete_question_says_what_it_lacks(name):
    config = QUESTION.to_config()
    del config[name]
    with pytest.raises(QueryRefused, match=name) as refusal:
        Terms.from_config(config)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("check", ""),
        ("plan", "x" * 65),
        ("plan", ""),
        ("cells", [1, "1"]),
        ("cells", [True]),
        ("cells", []),
        ("guarantee", claim(epsilon=-1.0)),
        ("guarantee", claim(delta=-1e-9)),
        ("guarantee", claim(delta=float("nan"))),
        ("asked", 0),
        ("asked", 2**31),
        ("cells", [2**31]),
        ("most_records", -1),
        ("most_records", 2**31),
    ],
)
def test_terms_out_of_range_is_refused(name, value):
    with pytest.raises(QueryRefused, match=name):
        Terms.from_config({**QUESTION.to_config(), name: value})


def test_shares_of_more_clients_than_their_sum_is_computed_for_at_once_are_refused():
    """The law of 2³¹ shares takes a client most of a minute."""
    assert NoiseShares(2**20).n_min == 2**20
    with pytest.raises(QueryRefused, match="n_min"):
        NoiseShares.from_json(
            '{"n_min":1048577,"mechanism":"discrete-gaussian","bound":0,"norm":1}'
        )


@pytest.mark.parametrize(
    "change",
    [
        {"cells": [3.0, 4]},
        {"most_records": False},
        {"asked": 20.0},
        {"guarantee": claim(delta=-0.0)},
        {"wire": []},
    ],
)
def test_a_question_that_was_read_is_not_taken_for_one_that_equals_it(change):
    """It is kept, and Python takes True for 1."""
    config = QUESTION.to_config()
    assert Terms.from_config(config) == Terms.from_config(config) == QUESTION
    with pytest.raises(QueryRefused, match=next(iter(change))):
        Terms.from_config({**config, **change})


@pytest.mark.parametrize("lie", [[False], [0.0], [0, 0], ["0"], 0, [[0]], None])
def test_members_that_were_read_are_not_taken_for_ones_that_equal_them(lie):
    assert Members.from_config({"members": [0]}).members == [0]
    with pytest.raises(QueryRefused):
        Members.from_config({"members": lie})


def test_a_server_cannot_make_a_client_keep_a_long_list():
    Members.from_config({"members": [0]})
    kept = weakref.ref(Members.from_config({"members": list(range(10_000))}))
    gc.collect()
    assert kept() is None


def test_a_field_that_is_not_ours_is_refused_and_not_repeated():
    with pytest.raises(QueryRefused, match="known") as refusal:
        Terms.from_config({**QUESTION.to_config(), "secret-8675309": 1})
    assert "8675309" not in str(refusal.value)


def altered(**changes) -> dict[str, str]:
    raw = {**json.loads(ANSWERED.to_json()), **changes}
    return {ANSWER: json.dumps(raw, sort_keys=True, separators=(",", ":"))}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {ANSWER: 3.5},
        {ANSWER: None},
        {ANSWER: b"\xff"},
        {ANSWER: "[]"},
        {ANSWER: "{}"},
        {ANSWER: "[" * 100_000},
        {ANSWER: '{"check": ' + "9" * 10_000 + "}"},
        altered(check=5),
        altered(answered=[True]),
        altered(answered={}),
        altered(reasons=None),
        altered(reasons="text"),
        altered(check="x" * 65),
        altered(reasons=["x" * 10_001]),
    ],
)
def test_what_is_not_an_answer_is_turned_away(config):
    with pytest.raises(InvalidReply, match="answer"):
        Answer.from_config(config)


def test_the_refusal_does_not_repeat_what_was_sent():
    with pytest.raises(InvalidReply) as refusal:
        Answer.from_config({ANSWER: '{"secret-8675309": 8675309}'})
    assert "8675309" not in str(refusal.value)
    assert refusal.value.__context__ is None


NIGHT = replace(
    QUESTION, guarantee=Guarantee(0.5, 1e-9), night=a_night("s", 3, 9, 4, 2), check="00aa"
)


@pytest.mark.parametrize(
    "change",
    [
        {"most_records": 5},
        {
            "asked_for": RecordCounts(
                Allotment.even(2), Period("visited", "2026-11-24", "2026-11-25")
            )
        },
        {"model": "a" * 64},
        {"asked_for": RecordCounts(Allotment((1, 1), 1))},
        {"asked_for": RecordCounts(Allotment.even(2), rounded=True)},
        {"guarantee": Guarantee(0.5)},
        {"guarantee": Guarantee(0.5, 1e-9, WholeClients(5)), "most_records": 5},
        {"noise": NoiseShares(5)},
        {"noise": ChannelNoise()},
        {"cells": [3], "asked_for": UnlistedLabels("job")},
    ],
)
def test_a_night_counts_all_records_of_no_model_under_central_noise(change):
    assert NIGHT.session
    with pytest.raises(ValueError, match="must"):
        replace(NIGHT, **change)


@pytest.mark.parametrize("change", [{"number": 2}, {"number": 10}, {"released": 3}, {"moves": 3}])
def test_a_night_is_of_its_session_and_after_the_last_one(change):
    with pytest.raises(ValueError, match="must"):
        replace(NIGHT.night, **change)


def test_what_differs_from_night_to_night_is_not_in_the_sessions_name():
    later = a_night("s", 5, 9, 4, 4)
    assert replace(NIGHT, check="00bb", asked=7, night=later).session == NIGHT.session
    for name, value in (("nights", 8), ("moves", 2), ("session", "t")):
        other = replace(NIGHT.night, **{name: value})
        assert replace(NIGHT, night=other).session != NIGHT.session
    assert QUESTION.session == ""


def test_whole_clients_are_those_of_as_many_records_as_count():
    clients = Guarantee(0.5, 1e-9, WholeClients(5))
    assert replace(QUESTION, guarantee=clients, most_records=5).most_records == 5
    for most in (0, 4, 6):
        with pytest.raises(ValueError, match="most_records"):
            replace(QUESTION, guarantee=clients, most_records=most)


DAY = 24 * 60 * 60


@pytest.mark.parametrize(
    ("question", "over", "night_over"),
    [(5 * DAY, 5 * DAY, None), (5 * DAY, 5 * DAY, 6 * DAY), (5 * DAY, 4 * DAY, 4 * DAY)],
)
def test_a_question_is_over_when_it_or_its_session_is(question, over, night_over):
    terms = replace(QUESTION, until=question)
    if night_over is not None:
        terms = replace(NIGHT, until=question, night=replace(NIGHT.night, until=night_over))
    terms.require_in_time(over)
    with pytest.raises(QueryRefused, match="TooLate"):
        terms.require_in_time(over + 1)


@pytest.mark.parametrize(("days", "night_days"), [(7, None), (7, 30), (3, 2000)])
def test_a_question_stays_open_for_so_many_days_at_most(days, night_days):
    terms = replace(QUESTION, until=days * DAY)
    if night_days is not None:
        night = replace(NIGHT.night, until=night_days * DAY)
        terms = replace(NIGHT, until=days * DAY, night=night)
    terms.require_in_time(0)
    with pytest.raises(QueryRefused, match="open"):
        terms.require_in_time(-1)
