"""What a predictor's page says, whatever shows it, and what its tables and files hold."""

import csv
import json
import re

import pytest
from report.samples import learnt, mornings

from flwr_kld.report.envelope import Point
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.views import RoundSeries

pytestmark = pytest.mark.usefixtures("no_plots")


def words(rounds) -> str:
    """The page's text on one line, its tags included."""
    return " ".join(RoundSeries(rounds).to_html(title="t").split())


def test_the_leader_comes_first_with_its_certified_odds():
    text = words(mornings(8, change_at=7))
    order = [
        text.index(part)
        for part in (
            '<p class="outcome">&lt;strike&gt;</p>',
            "Of 3 candidates it has 90.0 % of the weight, and would lead still if any "
            "2 of the reports were lies.",
            "2.500 nats <small>against usual, the runner-up",
            "another leader: each moves log-odds by 1 nats at most",
            "57 of 60 <small>456 in all rounds",
            "ε = 0.5 <small>nats for each client that reported in this round; the client charged "
            "most has 4 of 4 left in the window",
            "<h2>History</h2>",
            "<h2>The candidates</h2>",
            "<h2>What is protected, from whom</h2>",
            "<h2>Rounds</h2>",
            "<h3>Clients left out, added up</h3>",
        )
    ]
    assert order == sorted(order)


def test_a_lead_that_one_lie_ends_is_none():
    text = words([Point(1, learnt(1, outlasts=0))])
    assert '<section class="decision inconclusive">' in text
    assert "? No firm leader" in text
    assert "usual has the largest weight, 90.0 %, and a single false report could" in text


def test_refuted_candidates_lead_nobody():
    mixture = {"usual": 0.6, "<strike>": 0.0, "summer": 0.3, "winter": 0.1}
    report = learnt(1, refuted=True, mixture=mixture)
    text = words([Point(1, report)])
    assert '<section class="decision inconclusive">' in text
    assert '<p class="outcome">? No candidate fits</p>' in text
    assert "The recent rounds refute each of 3 candidates" in text
    assert "explains them best: 60 % usual, 30 % summer, 10 % winter and others." in text
    assert '<td class="words">usual (refuted)' in text
    assert str(report).startswith("Round 1: no candidate alone explains the reports.")
    assert "60% 'usual', 30% 'summer', 10% 'winter'" in " ".join(str(report).split())
    assert PredictorReport.from_json(report.to_json()) == report


def test_what_a_predictor_does_not_claim_is_not_shown():
    report = learnt(1, mixture={}, left=None, delta=1e-6)
    text = words([Point(1, report)])
    assert '<th scope="col">share' not in text
    assert "left in the window" not in text
    assert "δ = 1e-06" in text


def test_a_failed_last_round_is_said_before_the_last_good_one():
    text = words([Point(1, learnt(1)), Point(2, None, failure="<b>nobody</b>")])
    assert text.index("The last round failed") < text.index('<p class="outcome">usual</p>')
    assert "Round 2 taught nothing: &lt;b&gt;nobody&lt;/b&gt;. The last one that taught" in text
    assert "No round succeeded" in words([Point(1, None)])
    going = Point(2, None, started=learnt(1).started, ended=False)
    text = words([Point(1, learnt(1)), going])
    assert text.index("The last round has not ended") < text.index('<p class="outcome">usual</p>')
    assert "failed" not in text
    assert "No round yet" in words([])


def test_candidates_have_weights_the_heaviest_first():
    text = words([Point(1, learnt(1))])
    candidates = re.findall(r'<tr><th scope="row">([^<]+)<td>([\d.]+) %', text)
    assert candidates[0] == ("usual", "90.0")
    assert [float(weight) for _, weight in candidates] == [90.0, 5.0, 5.0]


def test_the_table_has_every_round_and_a_column_a_weight(tmp_path):
    rounds = mornings(4, change_at=2)
    rounds.append(Point(5, learnt(5, "new")))
    RoundSeries(rounds).save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["number"] for row in rows] == list("12345")
    assert (rows[2]["reading.leader"], rows[2]["failure"]) == ("", rounds[2].failure)
    assert [row["reading.weights.<strike>"] for row in rows] == ["0.05", "0.9", "", "0.9", "0.05"]
    assert [row["reading.weights.new"] for row in rows] == ["", "", "", "", "0.9"]
    assert {float(row["reading.swing"]) for row in rows if row["reading.leader"]} == {1.0}


def test_the_file_has_every_report_in_full(tmp_path):
    rounds = mornings(4, change_at=2)
    RoundSeries(rounds).save(tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text())
    assert [line["round"] for line in found] == [1, 2, 3, 4]
    assert (found[2]["failure"], found[2]["report"]) == (rounds[2].failure, None)
    assert found[2]["ended"]
    assert PredictorReport.from_dict(found[3]["report"]) == rounds[3].report
