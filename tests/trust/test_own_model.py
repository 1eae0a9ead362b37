"""A trust model of somebody else's, as the docs write it, in check, ledger, report and planner."""

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from federation import REFERENCE, SHARES, app_of, grid_of
from flwr.clientapp import ClientApp
from recipes import recipe_text

from flwr_kld import Labels, Reference, Report
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel.promise import Guarantee, WholeClients
from flwr_kld.kernel.release import NotPrivateEnough
from flwr_kld.ledger import Budget, BudgetExhausted, Cost, Ledger
from flwr_kld.planner import Setting, forecast
from flwr_kld.report import Outcome
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    PlainSum,
    SecureSum,
    Statistics,
    UniformCohort,
)
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.trust.visibility import SERVER_SEES_PARTS, SERVER_SEES_SUM
from flwr_kld.views import CheckSeries
from flwr_kld.views.series import views

DOCUMENTED: dict[str, object] = {"__name__": "bounded_noise"}
exec(recipe_text("bounded_noise.py"), DOCUMENTED)
Bounded = DOCUMENTED["Bounded"]

BOUND = 40
TRUST = Bounded(epsilon=1.0, delta=1e-6, bound=BOUND)
TRUTH = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)


class OurShares(Distributed):
    """Clients add the noise; the rest is named by the house."""

    name = "our-shares"


def boasting(promise):
    """Promises more than its event keeps, or less."""

    class Boasting(Bounded):
        guarantee = promise

        def event(self, clients):
            return TRUST.event(clients)

    return Boasting(1.0, 1e-6, BOUND)


class Cheap(Bounded):
    """Charges a tenth of what its event costs."""

    def cost(self, survivors=None):
        return Cost.claimed("bounded-laplace", replace(self.guarantee, epsilon=0.1))


class Narrow(Bounded):
    """Hides that a count grows by 1, where a record that changes moves two counts."""

    def event(self, clients):
        return replace(super().event(clients), moves=(1,))


def grid(**options):
    return grid_of(partial(app_of, **options)())


def test_the_noise_is_its_own_and_within_its_bound():
    monitor = KLDrift(REFERENCE, TRUST)
    report = monitor.check(grid())
    assert (report.protection.trust, report.protection.aggregation) == ("bounded", "plain-sum")
    assert report.protection.mechanism == "bounded-laplace"
    assert report.protection.noise == pytest.approx(TRUST.event(20).table.variance ** 0.5)
    assert report.reading.estimate == pytest.approx(TRUTH, abs=0.2)
    table = TRUST.event(20).table
    assert (table.reach, table.tail) == (BOUND, 0)


def test_a_claim_that_its_own_table_does_not_keep_is_refused():
    with pytest.raises(NotPrivateEnough):
        Bounded(epsilon=1.0, delta=1e-6, bound=10)


@pytest.mark.parametrize(
    "boast",
    [
        Guarantee(0.5, 1e-6),
        Guarantee(1.0),
        Guarantee(1.0, 1e-6, protects=WholeClients(1)),
    ],
)
@pytest.mark.parametrize(
    "monitor", [partial(KLDrift, REFERENCE), partial(Statistics, REFERENCE.domain)]
)
def test_a_promise_that_its_own_event_does_not_keep_is_refused(boast, monitor):
    said = re.escape(f"promises {boast}, but its event keeps {TRUST.guarantee}")
    with pytest.raises(ValueError, match=said):
        monitor(boasting(boast))


def test_a_promise_may_be_looser_than_its_event():
    assert KLDrift(REFERENCE, boasting(Guarantee(2.0, 1e-5))).trust.guarantee.epsilon == 2.0


def test_a_price_below_what_its_event_costs_is_refused_before_anything_is_asked(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/l.db")
    ledger.set_budget(Budget(3.0, 1e-5, 30))
    monitor = KLDrift(REFERENCE, Cheap(1.0, 1e-6, BOUND), ledger=ledger)
    with pytest.raises(ValueError, match="event"):
        monitor.check(grid())
    assert ledger.spent().epsilon == 0


@pytest.mark.parametrize("threshold", [None, 0.05])
def test_an_event_for_a_smaller_move_releases_nothing(threshold):
    with pytest.raises(ValueError, match="hides"):
        KLDrift(REFERENCE, Narrow(1.0, 1e-6, BOUND), threshold=threshold).check(grid())


def test_it_decides():
    verdict = KLDrift(REFERENCE, TRUST, threshold=0.05).check(grid()).verdict
    assert verdict.outcome != "no drift"
    assert verdict.lower_bound > 0.05  # of about 0.35; what it takes for an alarm is more


@pytest.mark.parametrize(
    ("trust", "aggregation", "seen"),
    [
        (TRUST, PlainSum(), SERVER_SEES_PARTS.exact),
        (TRUST, SecureSum(), SERVER_SEES_SUM.exact),
        (OurShares(1.0, min_clients=16), SecureSum(), "The server saw the noised sum;"),
    ],
)
@pytest.mark.usefixtures("no_plots")
def test_its_report_says_who_saw_what_to_readers_who_do_not_know_it(trust, aggregation, seen):
    report = KLDrift(REFERENCE, trust, aggregation=aggregation).check(grid(secure_sum=FirstUse()))
    read = Report.from_dict(json.loads(report.to_json()))
    assert read == report
    assert read.protection.visibility.exact.startswith(seen)
    assert views(read)[1:-1] == trust.visibility(aggregation.hides_parts).views
    assert f"Trust model: {trust.name}, {aggregation.name}." in CheckSeries([read]).to_html()


def test_the_ledger_charges_its_table(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(epsilon=1.7, delta=1e-5, window_days=30))
    monitor = KLDrift(REFERENCE, TRUST, ledger=ledger)
    report = monitor.check(grid(), key="monday")
    assert report.cost.left == pytest.approx(0.7, abs=1e-4)
    entry = ledger.check("monday")
    assert Report.from_dict(entry.report) == report
    assert TRUST.cost().table == TRUST.event(1).table
    with pytest.raises(BudgetExhausted):
        monitor.check(grid(), key="tuesday")


def test_an_aggregation_that_breaks_its_promise_is_refused():
    with pytest.raises(ValueError, match="Bounded"):
        KLDrift(REFERENCE, TRUST, aggregation=SealedSum())
    with pytest.raises(ValueError, match="OurShares"):
        KLDrift(REFERENCE, OurShares(1.0, min_clients=16))
    with pytest.raises(CheckFailed, match="21"):
        KLDrift(REFERENCE, OurShares(1.0, 21), aggregation=SecureSum()).check(grid())


def test_the_planner_forecasts_it():
    setting = Setting(clients=20, records=100, trust=TRUST, threshold=None)
    row = forecast(REFERENCE, setting)
    assert row.noise == pytest.approx(TRUST.event(20).table.variance ** 0.5)
    assert (row.to_dict()["trust"], row.to_dict()["delta"]) == ("bounded", 1e-6)
    assert row.setting.epsilon_per_year < 365
    with pytest.raises(ValueError, match="bounded"):
        Setting(clients=20, records=100, trust=TRUST, aggregation="sealed-sum")


def test_drawn_clients_are_a_sample_of_clients_where_nothing_tells_how_alike_their_records_are():
    """1,000 clients of one label each: D is 0. As 10,000 draws, 200 of them are .1 nats off."""
    labels = Labels(list(range(50)))
    reference = Reference.from_probabilities(labels, [0.02] * 50 + [0.0, 0.0])
    app = ClientApp()
    answer_drift_queries(app, lambda c: [int(c.node_config["partition-id"]) % 50] * 50, labels)
    grid = InProcessGrid(app, 1000)
    for _ in range(3):
        monitor = KLDrift(reference, TRUST, cohort=UniformCohort(200), threshold=0.05)
        assert monitor.check(grid).outcome is not Outcome.DRIFT
