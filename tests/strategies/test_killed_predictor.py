"""After kill -9 a predictor goes on with what was settled: no report lost, or counted twice."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from forks import forked, joined
from killed_predictor import NODES, REMEMBERED, mixture, run

from flwr_kld.ledger import Budget, Ledger
from flwr_kld.predictors.tally import LocalReports
from flwr_kld.strategies import PrivatePredictor

DEATHS = ((3, "asked"), (5, "learnt"), (8, "settled"))
"""One process after the other; each starts after the round in which the one before died."""
SETTLED = [1, 2, 4, 6, 7, 8]


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    """The ledger that three killed processes left."""
    home = tmp_path_factory.mktemp("killed")
    url = f"sqlite:///{home}/drift.db"
    Ledger(url).set_budget(Budget(100.0, 0.0, window_days=30, protects="client"))
    for number, when in DEATHS:
        process = forked(lambda: run(url, f"{home}/notes", number, when))  # noqa: B023
        assert joined(process) == [-signal.SIGKILL]
    return url


@pytest.fixture(scope="module")
def notes(url: str) -> dict[int, LocalReports]:
    """What each round's clients reported, the one that was learnt and lost included."""
    lines = map(json.loads, Path(url.removeprefix("sqlite:///")).with_name("notes").open())
    return {
        r: LocalReports(r, np.array(queries), np.array(symbols)) for r, queries, symbols in lines
    }


def test_every_round_is_in_the_ledger_and_paid(url: str, notes: dict[int, LocalReports]):
    ledger = Ledger(url)
    states = {entry.key: entry.state for entry in ledger.history()}
    assert states == {
        f"predictor/{r}": "settled" if r in SETTLED else "reserved" for r in range(1, 9)
    }
    assert ledger.spent().epsilon == pytest.approx(8.0)
    assert list(notes) == [1, 2, 4, 5, 6, 7, 8]
    assert all(len(reports.queries) == NODES for reports in notes.values())


def test_it_goes_on_to_the_last_bit(url: str, notes: dict[int, LocalReports]):
    """As if one process had learnt from the settled rounds alone."""
    twin = mixture()
    for number in SETTLED:
        twin.update(notes[number])
        twin.settle(number - REMEMBERED)
    again = PrivatePredictor(mixture(), ledger=url)
    assert (again.rounds, again.taken) == (8, len(SETTLED) * NODES)
    assert json.dumps(again.predictor.state()) == json.dumps(twin.state())
    assert again.predictor.log_weights.tobytes() == twin.log_weights.tobytes()
    reports = LocalReports(9, notes[5].queries, notes[5].symbols)
    for one in (again.predictor, twin):
        one.update(reports)
    assert again.predictor.log_weights.tobytes() == twin.log_weights.tobytes()
