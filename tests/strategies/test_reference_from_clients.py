"""A reference made from one period's clients serves the next one's checks."""

from dataclasses import replace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Binned, BlockPatterns, Categories, Labels, Reference
from flwr_kld.accounting import Budget, Ledger
from flwr_kld.accounting.entry import AlreadyChecked
from flwr_kld.accounting.kept_reference import kept_as, kept_reference
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.errors import CheckFailed
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.report import Outcome
from flwr_kld.report.reference_report import ReferenceReport
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Adjacency,
    Alarm,
    Distributed,
    KLDrift,
    ReferenceFromClients,
    SecureSum,
    Trusted,
)

TABLE = Categories({"sex": ["f", "m"], "age": Binned([18, 65])})


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_it_is_near_what_the_clients_hold(adjacency):
    """Gaussian noise passes the six deviations from which one is believed once in a billion."""
    trust = Trusted(2.0, 1e-6, noise="gaussian", adjacency=adjacency)
    reference, _ = ReferenceFromClients(FRUIT, trust).build(grid_of())
    assert skewed_divergence(reference.probabilities, SHARES, 0.0) < 0.01
    assert reference.probabilities[:4].min() > 0
    assert reference.probabilities[4:].tolist() == [0, 0]


def test_what_many_clients_lack_is_in_it():
    """100 of 2,000 records are missing: over 20 deviations of the noise."""

    def records(context):
        return [None] * 5 + basket(context)[5:]

    trust = Trusted(2.0, 1e-6, noise="gaussian")
    reference, _ = ReferenceFromClients(FRUIT, trust).build(grid_of(app_of(records)))
    assert reference.unlisted == {"missing": pytest.approx(0.05, abs=0.015)}


WRITERS, THRESHOLD = 20, 0.1
USUAL, MOSTLY_1_AND_7 = [100] * 10, [40, 340, 40, 40, 40, 40, 40, 340, 40, 40]


class Months:
    """Writers of a thousand digits a month, in the same mix on every node."""

    digits = Labels(list(range(10)))
    mix = USUAL

    def grid(self) -> InProcessGrid:
        app = ClientApp()
        answer_drift_queries(app, self.records, self.digits, secure_sum=FirstUse())
        return InProcessGrid(app, WRITERS)

    def records(self, context: Context) -> np.ndarray:
        return np.repeat(np.arange(10), self.mix)


def test_one_months_reference_serves_the_next_ones_checks(tmp_path):
    """No false alarm where nothing changed, an alarm where the digit mix did, all on one ledger."""
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 1e-6, window_days=90, composition="sum"))
    trust, clients = Distributed(1.0, min_clients=16), Months()
    grid = clients.grid()
    making = ReferenceFromClients(clients.digits, trust, aggregation=SecureSum(), ledger=ledger)
    reference, made = making.build(grid, key="june")
    monitor = KLDrift(
        reference,
        trust,
        aggregation=SecureSum(),
        threshold=THRESHOLD,
        alarm=Alarm(horizon=1),
        ledger=ledger,
    )
    found = {}
    for clients.mix, key in ((USUAL, "july"), (MOSTLY_1_AND_7, "august")):
        found[key] = monitor.check(grid, key=key)
    assert found["july"].outcome is not Outcome.DRIFT
    assert found["august"].outcome is Outcome.DRIFT
    assert found["august"].verdict.lower_bound > THRESHOLD
    kept = ledger.history()
    assert [entry.key for entry in kept] == ["june", "july", "august"]
    assert ReferenceReport.from_dict(kept[0].report) == made
    assert [entry.report["cost"]["population"] for entry in kept] == ["default"] * 3
    spent = sum(entry.report["cost"]["epsilon"] for entry in kept)
    assert ledger.spent().epsilon == pytest.approx(spent, abs=1e-6)
    with pytest.raises(AlreadyChecked):
        making.build(grid, key="june")


@pytest.mark.parametrize("domain", [FRUIT, BlockPatterns(), Binned([0.5]), TABLE], ids=str)
def test_the_ledger_keeps_a_reference_bit_by_bit(tmp_path, domain):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    shares = np.random.default_rng(0).dirichlet(np.full(domain.size, 0.01))
    reference = Reference(domain, np.maximum(shares, 5e-324))
    ledger.keep_state(kept_as(reference, "june", "fleet"))
    kept = kept_reference(Ledger(f"sqlite:///{tmp_path}/drift.db"), "june", population="fleet")
    assert kept.probabilities.tobytes() == reference.probabilities.tobytes()
    assert kept.fingerprint == reference.fingerprint
    with pytest.raises(ValueError, match="no reference under key 'june' of 'default'"):
        kept_reference(ledger, "june")


def test_what_was_settled_is_what_was_made(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 0.0, window_days=30, population="fleet"))
    making = ReferenceFromClients(FRUIT, Trusted(1.0), ledger=ledger, budget="fleet")
    for key in ("june", None):
        made, report = making.build(grid_of(), key)
        entry = ledger.history("fleet")[-1]
        assert ReferenceReport.from_dict(entry.report) == report
        kept = kept_reference(ledger, entry.key, population="fleet")
        assert kept.fingerprint == made.fingerprint == report.reading.reference
    with pytest.raises(ValueError, match="not the report of a reference"):
        ReferenceReport.from_dict({**report.to_dict(), "schema": "reference 0"})


@pytest.mark.parametrize(
    "change",
    [
        {"probabilities": ["1.0", "0", "0", "0", "0", "0"]},
        {"probabilities": [True, False, False, False, False, False]},
        {"probabilities": {}},
        {"probabilities": [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]},
        {"probabilities": [0.5, 0.5]},
        {"probabilities": [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]},
        {"domain": "labels"},
        {"domain": {}},
        {"more": 1},
        None,
    ],
)
def test_a_damaged_reference_in_the_ledger_is_refused(tmp_path, change):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    kept = kept_as(REFERENCE, "june")
    assert kept_reference(_keeping(ledger, kept), "june").fingerprint == REFERENCE.fingerprint
    damaged = None if change is None else kept.value | change
    with pytest.raises(ValueError, match="keeps as 'june' is damaged"):
        kept_reference(_keeping(ledger, replace(kept, value=damaged, version=1)), "june")


def _keeping(ledger, state):
    ledger.keep_state(state)
    return ledger


def test_what_fails_is_spent_and_releases_nothing(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 0.0, window_days=30))
    making = ReferenceFromClients(FRUIT, Trusted(1.0), ledger=ledger)
    with pytest.raises(CheckFailed, match="no reply"):
        making.build(grid_of(lose=lambda message: True), key="june")
    assert ledger.check("june").state == "failed"
    assert ledger.spent().epsilon == 1.0
    with pytest.raises(ValueError, match="no reference"):
        kept_reference(ledger, "june")
