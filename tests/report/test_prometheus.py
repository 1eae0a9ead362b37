"""Metrics as Prometheus reads them."""

import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from report.samples import REPORT, altered

from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.views.prometheus import OUTCOMES, MonitorState, save_metrics, serve_metrics

DRIFTED = altered(
    REPORT,
    verdict=Verdict(
        outcome=Outcome.DRIFT,
        cause=Cause.DIVERGENCE,
        reason="r",
        resolve=None,
        threshold=0.1,
        alarm=Alarm(),
        lower_bound=0.17,
        upper_limit=0.37,
        detector=EDetector(rate=0.05, checks=5, evidence=2.5),
    ),
    left=0.4,
    dropouts={
        "no reply": 3,
        "refused: limit \n 7": 1,
        "refused: another": 2,
        "client error (Flower code 1)": 4,
        "invalid reply: counts": 5,
        "struck by lightning": 6,
    },
)


def read(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def saved(folder: Path, *states: MonitorState) -> dict[tuple[str, ...], float]:
    save_metrics(states, folder / "kld.prom")
    assert [p.name for p in folder.iterdir()] == ["kld.prom"]  # nothing temporary is left
    return read((folder / "kld.prom").read_text())


def test_a_finished_check_tells_all_it_knows(tmp_path: Path):
    got = saved(tmp_path, MonitorState("digits", DRIFTED))
    assert got["kld_estimate", "digits"] == 0.25
    assert got["kld_estimate_deviation", "digits"] == pytest.approx(0.05)
    assert got["kld_lower_bound", "digits"] == 0.17
    assert got["kld_upper_limit", "digits"] == pytest.approx(0.37)
    assert (got["kld_evidence", "digits"], got["kld_evidence_alarm", "digits"]) == (2.5, 20.0)
    assert got["kld_threshold", "digits"] == 0.1
    assert got["kld_epsilon", "digits"] == 1.0
    assert got["kld_epsilon_left", "digits"] == 0.4
    assert (got["kld_asked", "digits"], got["kld_survivors", "digits"]) == (20, 18)
    assert got["kld_check_seconds", "digits"] == 0.5
    assert got["kld_check_waiting_seconds", "digits"] == 0.25
    assert got["kld_last_success_timestamp_seconds", "digits"] == 1795226400.5
    outcomes = {o: got["kld_last_check_outcome", "digits", o] for o in OUTCOMES}
    assert outcomes == {**dict.fromkeys(OUTCOMES, 0.0), "drift": 1.0}


def test_reasons_are_few_whatever_clients_write(tmp_path: Path):
    got = saved(tmp_path, MonitorState("digits", DRIFTED))
    assert {key[2]: value for key, value in got.items() if key[0] == "kld_dropouts"} == {
        "no reply": 3, "refused": 3, "client error": 4, "invalid reply": 5, "other": 6,
    }  # fmt: skip


def test_what_is_not_known_is_left_out(tmp_path: Path):
    got = saved(tmp_path, MonitorState("digits", REPORT))
    names = {key[0] for key in got}
    assert names.isdisjoint({"kld_lower_bound", "kld_threshold", "kld_epsilon_left"})
    assert "kld_survivors" in names
    assert not any(got["kld_last_check_outcome", "digits", o] for o in OUTCOMES)


def test_a_refused_check_keeps_the_last_finished_one(tmp_path: Path):
    got = saved(tmp_path, MonitorState("digits", DRIFTED, outcome="refused"))
    assert got["kld_last_check_outcome", "digits", "refused"] == 1
    assert got["kld_last_check_outcome", "digits", "drift"] == 0
    assert got["kld_last_success_timestamp_seconds", "digits"] == 1795226400.5
    got = saved(tmp_path, MonitorState("digits", outcome="error"))
    assert {key[0] for key in got} == {"kld_last_check_outcome"}


def test_monitors_side_by_side_and_names_with_quotes(tmp_path: Path):
    states = MonitorState("a", DRIFTED), MonitorState('say "b"\n', altered(REPORT, estimate=0.5))
    got = saved(tmp_path, *states)
    assert (got["kld_estimate", "a"], got["kld_estimate", 'say "b"\n']) == (0.25, 0.5)


def test_the_endpoint_tells_the_present_state():
    states = [MonitorState("digits", outcome="refused")]
    with serve_metrics(lambda: states, 0) as port:

        def scrape() -> dict[tuple[str, ...], float]:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}/metrics") as answer:
                return read(answer.read().decode())

        assert scrape()["kld_last_check_outcome", "digits", "refused"] == 1
        states[0] = MonitorState("digits", DRIFTED)
        assert scrape()["kld_lower_bound", "digits"] == 0.17
        assert ("kld_last_check_outcome", "digits", "refused") in scrape()
    with pytest.raises(OSError, match="refused"):
        scrape()


def test_wrong_names_and_a_missing_extra(tmp_path: Path, without):
    with pytest.raises(ValueError, match=r"\.prom"):
        save_metrics([], tmp_path / "kld.txt")
    with pytest.raises(ValueError, match="fine"):
        MonitorState("digits", outcome="fine")
    without("prometheus_client")
    with pytest.raises(ImportError, match=r"flwr-kld\[metrics\]"):
        save_metrics([], tmp_path / "kld.prom")
