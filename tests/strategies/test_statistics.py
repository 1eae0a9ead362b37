"""What one period's clients hold, which serves as a reference for the next one's checks."""

from dataclasses import replace

import numpy as np
import pytest
from chance import most
from federation import FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from flwr.app import Context
from flwr.clientapp import ClientApp
from report.samples import checksummed

from flwr_kld import Binned, BlockPatterns, Categories, Labels, Reference, Table
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.ledger.entry import AlreadyChecked
from flwr_kld.report import Outcome
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.stored_reference import reference_state, stored_reference
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Alarm,
    Distributed,
    KLDrift,
    SecureSum,
    Statistics,
    Trusted,
    UniformCohort,
)

TABLE = Categories({"sex": ["f", "m"], "age": Binned([18, 65])})


def test_it_is_near_what_the_clients_hold():
    """Gaussian noise passes the six deviations from which one is believed once in a billion."""
    trust = Trusted(2.0, 1e-6)
    reference = Statistics(FRUIT, trust).ask(grid_of()).as_reference(FRUIT)
    assert skewed_divergence(reference.probabilities, SHARES, 0.0) < 0.01
    assert reference.probabilities[:4].min() > 0
    assert reference.probabilities[4:].tolist() == [0, 0]


def test_what_many_clients_lack_is_in_it():
    """100 of 2,000 records are missing: over 20 deviations of the noise."""

    def records(context):
        return [None] * 5 + basket(context)[5:]

    trust = Trusted(2.0, 1e-6)
    reference = Statistics(FRUIT, trust).ask(grid_of(app_of(records))).as_reference(FRUIT)
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
    statistics = Statistics(clients.digits, trust, aggregation=SecureSum(), ledger=ledger)
    june = statistics.ask(grid, key="june")
    monitor = KLDrift(
        june.as_reference(clients.digits),
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
    kept = list(ledger.history())
    assert [entry.key for entry in kept] == ["june", "july", "august"]
    assert StatisticsReport.from_dict(kept[0].report) == june
    assert [entry.report["cost"]["population"] for entry in kept] == ["default"] * 3
    spent = sum(entry.report["cost"]["epsilon"] for entry in kept)
    assert ledger.spent().epsilon == pytest.approx(spent, abs=1e-6)
    with pytest.raises(AlreadyChecked):
        statistics.ask(grid, key="june")


@pytest.mark.parametrize("domain", [FRUIT, BlockPatterns(), Binned([0.5]), TABLE], ids=str)
def test_the_ledger_keeps_a_reference_bit_by_bit(tmp_path, domain):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    shares = np.random.default_rng(0).dirichlet(np.full(domain.size, 0.01))
    reference = Reference(domain, np.maximum(shares, 5e-324))
    ledger.store_state(reference_state(reference, "june", "fleet"))
    kept = stored_reference(Ledger(f"sqlite:///{tmp_path}/drift.db"), "june", population="fleet")
    assert kept.probabilities.tobytes() == reference.probabilities.tobytes()
    assert kept.fingerprint == reference.fingerprint
    with pytest.raises(ValueError, match="june"):
        stored_reference(ledger, "june")


def test_what_was_settled_is_what_was_made(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 0.0, window_days=30, population="fleet"))
    statistics = Statistics(FRUIT, Trusted(1.0), ledger=ledger, budget="fleet")
    for key in ("june", None):
        report = statistics.ask(grid_of(), key)
        entry = list(ledger.history("fleet"))[-1]
        assert StatisticsReport.from_dict(entry.report) == report
        kept = stored_reference(ledger, entry.key, population="fleet")
        assert kept.fingerprint == report.as_reference(FRUIT).fingerprint == report.reference
    with pytest.raises(ValueError, match="statistics"):
        StatisticsReport.from_dict(checksummed({**report.to_dict(), "schema": 2}))


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
    kept = reference_state(REFERENCE, "june")
    assert stored_reference(_keeping(ledger, kept), "june").fingerprint == REFERENCE.fingerprint
    damaged = None if change is None else kept.value | change
    with pytest.raises(ValueError, match="damaged"):
        stored_reference(_keeping(ledger, replace(kept, value=damaged, version=1)), "june")


def _keeping(ledger, state):
    ledger.store_state(state)
    return ledger


def test_what_fails_is_spent_and_releases_nothing(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 0.0, window_days=30))
    statistics = Statistics(FRUIT, Trusted(1.0), ledger=ledger)
    with pytest.raises(CheckFailed, match="reply"):
        statistics.ask(grid_of(lose=lambda message: True), key="june")
    assert ledger.check("june").state == "failed"
    assert ledger.spent().epsilon == 1.0
    with pytest.raises(ValueError, match="reference"):
        stored_reference(ledger, "june")


def people(context):
    """100 a node: of some sites all are old, so that records of a client are alike."""
    old = context.node_id % 2
    return {
        "site": ["n" if old else "s"] * 100,
        "age": [70.0 if old else 30.0] * 90 + [None] * 10,
        "job": ["a"] * 80 + ["b"] * 15 + ["z"] * 5,
    }


PEOPLE = Table(
    {"site": ["n", "s"], "age": Binned([20, 40, 60, 80]), "job": ["a", "b"]},
    [("age", "job")],
    "site",
    units={"age": "years"},
)


def people_grid(nodes=60):
    app = ClientApp()
    answer_drift_queries(app, people, PEOPLE)
    return InProcessGrid(app, nodes)


def test_every_column_is_described_with_its_groups_and_cross_tables():
    report = Statistics(PEOPLE, Trusted(20.0)).ask(people_grid())
    assert list(report.columns) == list(PEOPLE.columns)
    age, job = report.columns["age"].statistics, report.columns["job"].statistics
    assert (report.records, report.whom) == (6000, "these 60 clients")
    assert age.count.value == pytest.approx(5400, abs=20)
    assert [one.name for one in age.unlisted] == ["missing"]
    assert age.unlisted[0].value == pytest.approx(0.1, abs=0.01)
    assert job.unlisted[0].value == pytest.approx(0.05, abs=0.01)
    assert [one.name for one in job.most_frequent(1)] == ["a"]
    assert age.numbers.mean.low < 50 < age.numbers.mean.high
    groups = report.columns["site × age"].groups
    assert groups["n"].numbers.mean.value == pytest.approx(70, abs=1)
    assert groups["s"].numbers.mean.value == pytest.approx(30, abs=1)
    assert groups["other"].count.value < 20
    crossed = {one.name: one.value for one in report.columns["age × job"].statistics.histogram}
    assert crossed["age=[60, 80), job=a"] == pytest.approx(0.4, abs=0.01)
    said = str(report)
    assert all(word in said for word in ("age (years)", "missing", "mean", "ε = 20"))


def in_five_bins(client: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(client)
    ages = rng.normal(54, 12, 50)
    return {"age": ages, "los": rng.gamma(2.0, 3.0, 50), "sex": rng.integers(0, 2, 50)}


@pytest.mark.rate(1e-4)
@pytest.mark.noise(1)
def test_a_mean_is_told_of_3000_records_in_a_users_five_bins():
    """At ε = 1, and whatever the bins: nobody has to choose a hundred."""
    table = Table({
        "age": Binned([30, 45, 60, 75]), "los": Binned([2, 4, 8, 12]), "sex": Labels([0, 1])
    })  # fmt: skip
    app = ClientApp()
    answer_drift_queries(app, lambda c: in_five_bins(int(c.node_config["partition-id"])), table)
    report = Statistics(table, Trusted(1.0)).ask(InProcessGrid(app, 60))
    for name in ("age", "los"):
        edges, numbers = table.features[name].edges, report.columns[name].statistics.numbers
        values = np.concatenate([in_five_bins(client)[name] for client in range(60)])
        values = values.clip(edges[0], edges[-1])
        assert numbers.mean.high - numbers.mean.low < 0.15 * values.std()
        assert abs(numbers.mean.value - values.mean()) < 4.5 * numbers.mean.deviation
        assert abs(numbers.deviation.value - values.std()) < 4.5 * numbers.deviation.deviation
        assert numbers.edges == edges
        assert len(report.columns[name].counts.values) == table.features[name].size
    assert "edges 30, 45, 60, 75" in " ".join(str(report).split())


def test_what_is_described_can_be_watched_at_no_further_cost(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(2.0, 0.0, window_days=30))
    report = Statistics(PEOPLE, Trusted(1.0), ledger=ledger).ask(people_grid(), "first")
    assert ledger.spent().epsilon == 1.0
    watched = KLDrift(report.as_reference(PEOPLE), Trusted(1.0), threshold=0.1, ledger=ledger)
    assert watched.check(people_grid()).outcome is not Outcome.DRIFT
    with pytest.raises(ValueError, match="domain"):
        report.as_reference(FRUIT)


def test_a_drawn_cohort_tells_of_the_population_and_its_clients_alike_records():
    drawn = Statistics(PEOPLE, Trusted(20.0), cohort=UniformCohort(50)).ask(people_grid())
    own = Statistics(PEOPLE, Trusted(20.0)).ask(people_grid())
    assert "drawn from" in drawn.whom
    assert own.whom.startswith("these")

    def width(report):
        share = report.columns["site"].statistics.histogram[0]
        return share.high - share.low

    assert width(drawn) > 10 * width(own)
    # all of a client's records are of one site: the site's fraction varies as that of 50 clients
    assert width(drawn) == pytest.approx(2 * 2.7 * 0.5 / 50**0.5, rel=0.35)
    assert drawn.columns["site"].counts.design_effect > 50
    reference = drawn.as_reference(PEOPLE)
    assert reference.records < 100


@pytest.mark.rate(1e-5)
def test_a_rare_kind_of_clients_is_within_the_limits_of_what_only_they_have():
    """15 of 300 clients have other fruit only: alike in that, as nobody is in any other."""
    rng = np.random.default_rng(0)
    names = ["apple", "fig", "pear", "plum"]
    held = [rng.choice(names, 40).tolist() if i >= 15 else ["quince"] * 40 for i in range(300)]
    app, table = ClientApp(), Table({"fruit": names})
    answer_drift_queries(app, lambda c: {"fruit": held[int(c.node_config["partition-id"])]}, table)
    grid, within, runs = InProcessGrid(app, 300), 0, 30
    for _ in range(runs):
        report = Statistics(table, Trusted(5.0, 1e-6), cohort=UniformCohort(80)).ask(grid)
        other, _ = report.columns["fruit"].statistics.unlisted
        within += other.low <= 15 / 300 <= other.high
    assert runs - within <= most(runs, 0.05)  # by the average over cells, half


def test_few_clients_tell_of_themselves_only():
    few = Statistics(PEOPLE, Trusted(20.0), cohort=UniformCohort(30)).ask(people_grid())
    assert few.whom.startswith("these 30 clients")


def in_group(client: int) -> dict[str, np.ndarray]:
    """Hundred values, and which of them are of a group where all of a client are the same."""
    own = np.arange(100) < (2 if client % 2 else 50)
    spread = np.random.default_rng(client).uniform(0, 9, 100)
    return {"x": np.where(own, 9.5 if client % 3 else 0.5, spread), "g": np.where(own, "b", "a")}


def test_a_group_whose_records_are_alike_has_wide_intervals_among_others_whose_are_not():
    """Its clients' mean varies from cohort to cohort, by more than that of all records' law."""
    table = Table({"x": Binned.uniform(0, 10, 10), "g": ["a", "b"]}, by="g")
    app = ClientApp()
    answer_drift_queries(app, lambda c: in_group(int(c.node_config["partition-id"])), table)
    asked = Statistics(table, Trusted(1.0, 1e-6), cohort=UniformCohort(60))
    reports = [asked.ask(InProcessGrid(app, 300)) for _ in range(4)]
    means = [report.columns["g × x"].groups["b"].numbers.mean for report in reports]
    rng, clients = np.random.default_rng(0), np.arange(300)
    held, high = np.where(clients % 2, 2, 50), np.where(clients % 3, 9, 1)  # by the outer edges
    cohorts = [rng.choice(clients, 60, replace=False) for _ in range(2_000)]
    spread = np.std([np.average(high[who], weights=held[who]) for who in cohorts])
    # By the design effect of all records it is about 2.4 of them.
    assert np.mean([mean.high - mean.low for mean in means]) > 3.1 * spread


def test_a_limit_on_a_clients_records_is_kept_and_said():
    report = Statistics(PEOPLE, Trusted(5.0), most_records=40).ask(people_grid())
    assert report.records == 60 * 40
    assert report.one_client.most_records == 40
    assert "at most 40 records of each" in report.whom


@pytest.mark.rate(1e-5)
def test_where_whole_clients_are_protected_records_are_estimated():
    trust = Trusted(500.0, protects=WholeClients(100))
    report = Statistics(PEOPLE, trust).ask(people_grid())
    assert report.records == pytest.approx(6000, abs=200)
    mean = report.columns["age"].statistics.numbers.mean
    assert mean.value == pytest.approx(50, abs=4.5 * mean.deviation)


def incomes(client: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(client)
    of = np.where(rng.random(500) < 0.1, -1, 1) * rng.lognormal(8, 1.2, 500)
    return {"income": of, "children": rng.poisson(1.3, 500)}


def test_numbers_whose_range_nobody_knows_are_cut_after_a_first_look():
    """At ε = .1, of 20,000 records: bins then hold about as many of them as they are to."""
    table = Table({"income": Binned.powers(), "children": Binned.powers(0)}, units={"income": "€"})
    app = ClientApp()
    answer_drift_queries(app, lambda c: incomes(int(c.node_config["partition-id"])), table)
    first = Statistics(table, Trusted(0.1, 1e-6)).ask(InProcessGrid(app, 40))
    found = first.rebinned(table, bins=10)
    assert found.units == table.units
    held = np.concatenate([incomes(client)["income"] for client in range(40)])
    shares = np.bincount(found.features["income"].encode(held), minlength=11)[:-1] / len(held)
    assert len(shares) >= 8
    assert shares[1:-1].max() < 0.3
    assert max(shares[0], shares[-1]) < 0.15
    children = np.arange(8)
    assert len(set(found.features["children"].encode(children[:4]))) == 4
    assert len(found.features["children"].edges) <= 10


def test_numbers_far_from_zero_are_cut_as_finely_as_others():
    """Years: three digits of each would leave a bin for every ten of them."""
    table = Table({"year": Binned.uniform(1024, 2048, 100)})
    app = ClientApp()
    answer_drift_queries(app, lambda _: {"year": np.repeat(np.arange(1990, 2025), 30)}, table)
    first = Statistics(table, Trusted(1.0)).ask(InProcessGrid(app, 10))
    edges = first.rebinned(table).features["year"].edges
    assert len(edges) == 19
    assert edges == tuple(round(edge, 1) for edge in edges)


@pytest.mark.parametrize("protects", ["record", WholeClients(9)])
def test_a_column_that_noise_drowns_is_no_reason_to_lose_what_was_paid_for(protects):
    """All that a column without labels can hold is 'other', which does not stand out of it."""
    table = Table({"note": Labels([]), "age": Binned([30, 60])})
    app = ClientApp()
    answer_drift_queries(app, lambda _: {"note": ["x"] * 9, "age": [40] * 9}, table)
    dim = Statistics(table, Trusted(0.01, protects=protects)).ask(InProcessGrid(app, 2))
    probabilities = dim.as_reference(table).columns["note"].probabilities
    assert probabilities.sum() == pytest.approx(1)
    assert "values" in str(dim)


def laplace(rng, deviation, size):
    p = 1 - np.exp(-2 * np.arcsinh(1 / (np.sqrt(2) * deviation)))
    return rng.geometric(p, size) - rng.geometric(p, size)


def gaussian(rng, deviation, size):
    return np.rint(rng.normal(0, deviation, size)).astype(int)


@pytest.mark.parametrize("law", [laplace, gaussian])
@pytest.mark.parametrize("epsilon", [0.01, 5.0])
def test_a_first_look_that_sees_only_noise_is_no_range(law, epsilon):
    table, app = Table({"income": Binned.powers()}), ClientApp()
    answer_drift_queries(app, lambda c: {"income": incomes(0)["income"]}, table)
    look = Statistics(table, Trusted(epsilon)).ask(InProcessGrid(app, 2))
    column, cut = look.columns["income"], 0
    for seed in range(100):
        rng, counts = np.random.default_rng(seed), column.counts
        values = law(rng, counts.noise, len(counts.values)).tolist()
        noise = replace(column, counts=replace(counts, values=values))
        try:
            replace(look, columns={"income": noise}).rebinned(table)
        except ValueError:
            continue
        cut += 1
    assert cut <= 4
    with pytest.raises(ValueError, match="table"):
        look.rebinned(Table({"children": Binned.powers()}))
