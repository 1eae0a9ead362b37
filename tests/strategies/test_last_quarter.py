"""This quarter against the last one, both private: a check's release is the next reference."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from flwr.app import Context
from flwr.clientapp import ClientApp
from scipy import stats

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Alarm, KLDrift, Trusted, UniformCohort

ONCE = Alarm(horizon=1)


@dataclass
class World:
    """Clients whose records are drawn anew in each quarter, and a public law that is far off."""

    symbols: int = 20
    clients: int = 10
    records: int = 100
    epsilon: float = 1.0
    alike: float | None = None  # Concentration of each client's law around the population's

    def __post_init__(self) -> None:
        self.domain = Labels(list(range(self.symbols)))
        falling = np.arange(self.symbols, 0, -1.0)
        self.public = Reference.from_probabilities(self.domain, falling / falling.sum())
        self.law = np.sqrt(falling[::-1] + 2)
        self.law /= self.law.sum()

    def grid(self, rng: np.random.Generator, law: np.ndarray | None = None) -> InProcessGrid:
        """Draw a quarter's records."""
        law = self.law if law is None else law

        def records(context: Context) -> np.ndarray:
            own = np.random.default_rng([context.node_id % 2**32, seed])
            p = law if self.alike is None else own.dirichlet(self.alike * law)
            return own.choice(self.symbols, self.records, p=p)

        app, seed = ClientApp(), int(rng.integers(2**32))
        answer_drift_queries(app, records, self.domain)
        return InProcessGrid(app, self.clients)

    def monitor(self, reference: Reference, rng: np.random.Generator, **options) -> KLDrift:
        trust = Trusted(self.epsilon)
        options = {"threshold": 0.05, "alarm": ONCE, **options}
        return KLDrift(reference, trust, **options)

    def last(self, rng: np.random.Generator, **options) -> Reference:
        """Check against the public law, and take the reference of what was released."""
        report = self.monitor(self.public, rng, **options).check(self.grid(rng))
        return report.as_reference(self.public)


def exceeds(found: int, runs: int, rate: float) -> bool:
    return stats.binom.sf(found - 1, runs, rate) < 1e-6


WORLDS = {
    "few records": World(clients=4, records=60),
    "many records": World(clients=10, records=1000),
    "much noise": World(epsilon=0.2, records=300),
    "little noise": World(epsilon=5.0, records=200),
    "many symbols": World(symbols=100, records=300),
    "clients who differ, all asked": World(records=300, alike=20.0),
}


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_two_quarters_alike_are_no_drift(world):
    rng, runs, false = np.random.default_rng(1), 8, 0
    for _ in range(runs):
        quarter = world.monitor(world.last(rng), rng).check(world.grid(rng))
        false += quarter.drifted
    assert not exceeds(false, runs, ONCE.rate)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("allowed", [True, False], ids=["as it is", "taken for a law"])
def test_a_small_last_quarter_makes_no_drift_unless_it_is_taken_for_a_law(allowed):
    small, large = World(clients=4, records=60), World(clients=20, records=500)
    rng, runs, false = np.random.default_rng(1), 8, 0
    for _ in range(runs):
        last = small.last(rng)
        last = last if allowed else replace(last, records=None, noise=0.0)
        false += large.monitor(last, rng, threshold=0.01).check(large.grid(rng)).drifted
    assert exceeds(false, runs, ONCE.rate) is not allowed


def test_a_drift_between_quarters_is_found_and_where_there_are_enough_records_its_absence():
    world, rng = World(clients=20, records=1000), np.random.default_rng(2)
    moved = world.law[::-1].copy()
    moved[:5] = 0
    moved /= moved.sum()
    last = world.last(rng)
    assert skewed_divergence(np.append(world.law, [0, 0]), np.append(moved, [0, 0]), 0.01) > 0.3
    assert world.monitor(last, rng).check(world.grid(rng, moved)).outcome is Outcome.DRIFT
    alike = world.monitor(last, rng).check(world.grid(rng))
    assert alike.outcome in (Outcome.NO_DRIFT, Outcome.NO_ALARM)
    assert world.monitor(world.public, rng).check(world.grid(rng)).outcome is Outcome.DRIFT


def test_clustered_clients_of_a_cohort_count_for_fewer_records():
    world, rng = World(clients=200, records=50, alike=5.0), np.random.default_rng(3)
    report = world.monitor(world.public, rng, cohort=UniformCohort(100)).check(world.grid(rng))
    told, counted = report.as_reference(world.public), report.reading.records
    (column,) = report.columns.values()
    assert column.counts.design_effect > 3
    assert told.records == pytest.approx(counted / column.counts.design_effect)
    assert told.noise / told.records == pytest.approx(report.protection.noise / counted)


def test_it_costs_what_the_two_checks_cost(tmp_path):
    world, rng = World(), np.random.default_rng(4)
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(9.0, 0.0, window_days=365, composition="sum"))
    first = world.monitor(world.public, rng, ledger=ledger).check(world.grid(rng), key="q1")
    stored = Report.from_dict(ledger.check("q1").report)
    last = stored.as_reference(world.public)
    assert last.fingerprint == first.as_reference(world.public).fingerprint
    world.monitor(last, rng, ledger=ledger).check(world.grid(rng), key="q2")
    assert ledger.spent().epsilon == pytest.approx(2 * world.epsilon)


def test_a_tables_columns_keep_their_names_and_notes():
    table = Table({"b": [1, 2], "a": Binned([0.5])}, thresholds={"a": 0.2, "b": 0.1})
    public = Reference.from_counts(table, {"b": [5, 5], "a": [9, 1]})
    app, rng = ClientApp(), np.random.default_rng(0)
    rows = {"b": rng.choice([1, 2], 2000, p=[0.2, 0.8]), "a": rng.choice([0.0, 1.0], 2000)}
    answer_drift_queries(app, lambda context: rows, table)
    report = KLDrift(public, Trusted(2.0)).check(InProcessGrid(app, 4))
    made = Report.from_json(report.to_json()).as_reference(public)
    assert dict(made.domain.thresholds) == {"a": 0.2, "b": 0.1}
    assert made.columns["b"].probabilities[:2] == pytest.approx([0.2, 0.8], abs=0.05)
    assert made.columns["a"].probabilities[:2] == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.fixture
def report() -> Report:
    world, rng = World(), np.random.default_rng(5)
    return world.monitor(world.public, rng).check(world.grid(rng))


def test_another_reference_is_refused(report):
    other = Reference.from_probabilities(World().domain, np.full(20, 0.05))
    with pytest.raises(ValueError, match=other.fingerprint[:12]):
        report.as_reference(other)
    with pytest.raises(ValueError, match="Reference"):
        report.as_reference("public.json")


def test_a_check_that_did_not_ask_how_alike_records_are_does_not_serve(report):
    (column,) = report.columns.values()
    for draws, match in (("client", "did not ask how alike"), ("record", "did not ask how alike")):
        counts = replace(column.counts, design_effect=None, draws=draws)
        asked = replace(report, columns={"labels": replace(column, counts=counts)})
        with pytest.raises(ValueError, match=match):
            asked.as_reference(World().public)


def test_a_check_that_decides_nothing_counts_all_its_records():
    world, rng = World(), np.random.default_rng(6)
    report = world.monitor(world.public, rng, threshold=None, alarm=None).check(world.grid(rng))
    assert report.as_reference(world.public).records <= world.clients * world.records


def test_symbols_that_share_cells_are_refused():
    world, rng = World(symbols=60), np.random.default_rng(7)
    report = world.monitor(world.public, rng, cells=32).check(world.grid(rng))
    with pytest.raises(ValueError, match="cells"):
        report.as_reference(world.public)


def test_new_symbols_that_were_counted_together_are_refused():
    world, rng = World(records=500), np.random.default_rng(8)
    public = world.public.probabilities.copy()
    public[:2] = 0
    some = Reference.from_probabilities(world.domain, public / public.sum())
    report = world.monitor(some, rng).check(world.grid(rng))
    with pytest.raises(ValueError, match="together"):
        report.as_reference(some)
    public[1] = 0.1  # one alone is told
    all_but_one = Reference.from_probabilities(world.domain, public / public.sum())
    report = world.monitor(all_but_one, rng).check(world.grid(rng))
    assert report.as_reference(all_but_one).probabilities[0] > 0.01


@pytest.mark.parametrize(
    "change",
    [
        {"values": [1, 2]},
        {"noise": 0.0},
        {"noise": -1.0},
        {"design_effect": 0.0, "draws": "client"},
        {"values": []},
    ],
)
def test_damaged_counts_are_refused(report, change):
    stored = json.loads(report.to_json())
    stored["columns"]["labels"]["counts"] |= change
    with pytest.raises(ValueError, match="damaged"):
        Report.from_dict(stored).as_reference(World().public)
