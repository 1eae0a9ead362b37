"""Reports as files: complete, self-contained, readable without the network."""

import csv
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flwr_kld.report import Check, Report, plot_history, save_csv, save_html, save_json

REPORT = Report(
    check="c0ffee", started="2026-11-21T02:00:00+00:00", estimate=0.25, theta=0.01,
    estimator="posterior_counts", target="cohort", sampling=0.03, monte_carlo=0.0,
    privacy=0.04, note=None, trust="trusted", aggregation="plain-sum",
    mechanism="discrete-laplace", adjacency="replace-one", unit="record", epsilon=1.0,
    delta=0.0, delivered=1.0, noise=2.8, private=True, asked=20, survivors=18,
    dropouts={"no reply": 1, "refused: <b>injected</b>": 1}, records=1800.0, cells=4,
    domain="d" * 64, reference="e" * 64, plan="f" * 64, seconds=0.5, bytes_down=500.0,
    bytes_up=100.0,
)  # fmt: skip
CHECKS = [
    Check(1, REPORT, truth=0.26),
    Check(2, None, truth=0.3),
    Check(3, replace(REPORT, estimate=None, privacy=None, note="theta=0 is infinite here")),
    Check(4, replace(REPORT, estimate=0.5, sampling=None, monte_carlo=None), truth=0.55),
]


def test_error_is_the_root_of_the_sum_of_squares():
    assert REPORT.error == pytest.approx(0.05)
    assert CHECKS[3].report.error == pytest.approx(0.04)


def test_text_says_direction_theta_epsilon_and_who():
    text = str(REPORT)
    assert "KL(reference || clients) = 0.250 ± 0.050 nats, θ = 0.01; ε = 1 per record" in text
    assert "18 of 20 clients, 1800 records" in text
    assert "no estimate" in str(CHECKS[2].report)


def test_html_is_self_contained_and_escapes_what_clients_sent(tmp_path: Path):
    page = tmp_path / "report.html"
    save_html(CHECKS, page, title="Checks & balances", drift_from=4)
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "Checks &amp; balances" in text
    assert "<b>injected" not in text
    assert "&lt;b&gt;injected" in text
    assert "0.500 ± 0.040" in text
    assert "failed: no number was released" in text
    assert "ε = 1 nats, δ = 0" in text


def test_html_without_a_single_report_and_with_seeded_noise(tmp_path: Path):
    page = tmp_path / "report.html"
    save_html([Check(1, None)], page, title="t")
    assert "No check succeeded" in page.read_text()
    save_html([Check(1, replace(REPORT, private=False))], page, title="t")
    assert "private for\nnobody" in page.read_text()


def test_csv_and_json(tmp_path: Path):
    save_csv(CHECKS, tmp_path / "c.csv")
    rows = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert [r["number"] for r in rows] == ["1", "2", "3", "4"]
    assert (rows[0]["estimate"], rows[0]["truth"], rows[1]["estimate"]) == ("0.25", "0.26", "")
    save_json(CHECKS, tmp_path / "c.json")
    read = [Check.from_dict(c) for c in json.loads((tmp_path / "c.json").read_text())]
    assert read == CHECKS


@pytest.mark.parametrize("name", ["history.png", "history.svg"])
def test_plots(tmp_path: Path, name: str):
    plot_history(CHECKS, tmp_path / name, drift_from=4, title="t")
    assert (tmp_path / name).stat().st_size > 5000
    plot_history([Check(1, None)], tmp_path / name)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"flwr-kld\[plots\]"):
        plot_history(CHECKS, tmp_path / "history.png")
