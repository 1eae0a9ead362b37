"""What one client may do to a check: it is held to a limit, or said that nothing holds it."""

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from sealed_federation import KEY, federation
from sealed_federation import monitor as sealing
from tables import REFERENCE as TABLE
from tables import rows, table_app

from flwr_kld.clients import FirstUse
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.report import Outcome
from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    Period,
    SecureSum,
    Statistics,
    Trusted,
    UniformCohort,
)
from flwr_kld.views import CheckSeries
from flwr_kld.views.text import check_lines as report_lines
from flwr_kld.views.text import next_step

SAME = (*REFERENCE.probabilities[: len(FRUIT.names)], 0.0, 0.0)
LIAR = 1000
NAME = f"{LIAR}:0"


def world(each=100, own=30_000, shares=SHARES, of_liar=SAME, **options):
    """Clients of `each` records, but the first one: of so many, in other shares."""

    def records(context):
        first = context.node_id == LIAR
        return basket(context, own if first else each, of_liar if first else shares)

    return app_of(records, **options)


def divergence(*parts):
    """Exact D_θ of records in these shares, each given with its weight."""
    law = sum(weight * np.array(shares) for weight, shares in parts)
    return skewed_divergence(REFERENCE.probabilities, law / law.sum(), 0.01)


def check(path, app_options, nodes=20, epsilon=3.0, **options) -> Report:
    options = {"threshold": 0.05, **options}
    if path == "sealed":
        return sealing(epsilon, **options).check(
            federation(world(**app_options, aggregator=KEY.public))
        )
    return KLDrift(REFERENCE, Trusted(epsilon), **options).check(
        grid_of(world(**app_options), nodes)
    )


@pytest.mark.parametrize(("path", "nodes"), [("plain", 20), ("sealed", 20), ("plain", 60)])
def test_a_heavy_client_is_named_in_every_verdict_that_it_could_have_made(path, nodes):
    """It holds 300 times the records of each of the others, who have drifted; or it has itself."""
    hidden = check(path, {"own": 30_000}, nodes)
    made = check(path, {"own": 30_000, "shares": SAME, "of_liar": SHARES}, nodes)
    assert made.outcome is Outcome.DRIFT
    for report in (hidden, made):
        assert report.outcome is not Outcome.INCONCLUSIVE
        assert report.verdict.by_one_client
        assert report.one_client.name == NAME
        assert NAME in report.one_client.note
    assert "alone could have made this" in str(made)
    assert "alone could have made this" not in str(hidden)
    assert "holds only if it counts truly" in " ".join(str(hidden).split())


def test_no_client_is_singled_out_among_alike_ones():
    """Each of three that have all drifted could have made it, and the largest is none but that."""
    report = check("plain", {"each": 1_990, "own": 2_000, "of_liar": SHARES}, 3)
    assert report.outcome is Outcome.DRIFT
    assert report.verdict.by_one_client
    following = next_step(report)
    assert NAME not in following
    assert "report --mine" in following


def test_what_one_drawn_client_alone_could_have_made_is_no_drift_of_a_population():
    cohort = UniformCohort(60)
    options = {"own": 4_000, "of_liar": SHARES}
    found = [check("plain", options, 61, cohort=cohort) for _ in range(3)]
    asked = [report for report in found if report.one_client.name == NAME]
    assert asked
    assert {report.outcome for report in asked} == {Outcome.INCONCLUSIVE}
    assert all("chance of who was drawn" in report.verdict.reason for report in asked)


def test_clients_of_one_size_cannot_make_a_large_drift_alone():
    report = check("plain", {"own": 100}, nodes=60)
    assert report.outcome is Outcome.DRIFT
    assert report.verdict.by_one_client is False
    assert report.one_client.share == pytest.approx(1 / 60)
    assert report.one_client.note is None
    assert report.reading.records == 6000


def test_all_records_of_an_honest_giant_count():
    report = check("plain", {"own": 950, "shares": SAME, "of_liar": SHARES}, epsilon=20.0)
    everybody = divergence((19 * 100, SAME), (950, SHARES))
    assert abs(report.reading.estimate - everybody) < 0.03  # six standard deviations
    assert report.reading.records == 2850


def test_the_operator_may_limit_what_a_giant_counts():
    report = check("plain", {"own": 950}, most_records=1000)
    assert report.one_client.most_records == 1000
    assert report.one_client.share == pytest.approx(950 / 2850)


def test_a_giant_of_a_table_is_named_in_each_column():
    def records(context):
        lies = context.node_id == LIAR
        return rows(context, 30_000, (0.4, 0.3, 0.2, 0.1)) if lies else rows(context)

    grid = grid_of(table_app(records), 20)
    report = KLDrift(TABLE, Trusted(8.0, 1e-6), threshold=0.05).check(grid)
    for column in report.columns.values():
        assert column.outcome is Outcome.INCONCLUSIVE or column.verdict.by_one_client
    assert NAME in str(report)
    assert len({round(column.reading.records) for column in report.columns.values()}) == 1


def test_statistics_name_who_holds_much():
    report = Statistics(FRUIT, Trusted(3.0)).ask(grid_of(world()))
    assert NAME in str(report)


def test_hidden_sizes_allow_no_limit_and_that_is_said():
    night = Period("day", "2026-11-24", "2026-11-25")
    app = table_app(lambda context: rows(context) | {"day": ["2026-11-24"] * 100})
    report = KLDrift(TABLE, Trusted(3.0), period=night, threshold=0.05).check(grid_of(app, 60))
    assert (report.one_client.most_records, report.one_client.share) == (None, None)
    assert "WholeClients" in report.one_client.note
    for column in report.columns.values():
        if column.outcome is not Outcome.INCONCLUSIVE:
            assert column.verdict.by_one_client
    said = " ".join(" ".join(report_lines(report)).split())
    assert "nothing limits" in said
    assert "one client alone could" in said
    whole = Trusted(20.0, protects=WholeClients(100))
    report = KLDrift(REFERENCE, whole, threshold=0.05).check(grid_of(world(own=100), 60))
    assert report.one_client.most_records == 100
    assert 0 < report.one_client.share < 0.2
    assert report.one_client.note is None


def reports_of_sums_that_nobody_sees():
    app = app_of(secure_sum=FirstUse())
    monitor = KLDrift(REFERENCE, Trusted(3.0), aggregation=SecureSum(), threshold=0.05)
    yield monitor.check(grid_of(app))
    shares = Distributed(3.0, min_clients=10)
    monitor = KLDrift(REFERENCE, shares, aggregation=SecureSum(), threshold=0.05)
    yield monitor.check(grid_of(app_of(secure_sum=FirstUse())))


@pytest.mark.usefixtures("no_plots")
def test_where_nobody_sees_a_client_everything_holds_if_none_lies():
    condition = "if no client lies"
    for report in reports_of_sums_that_nobody_sees():
        assert condition in report.verdict.reason
        assert condition in str(report)
        assert condition in "\n".join(report_lines(report))
        assert condition in CheckSeries([Point(1, report)]).to_html(title="t")
        read = Report.from_json(report.to_json())
        assert condition in read.verdict.reason
        assert read.one_client == report.one_client
        assert not read.one_client.held


@pytest.mark.usefixtures("no_plots")
def test_where_somebody_sees_clients_text_and_page_say_what_one_may_hold():
    report = check("plain", {})
    for said in (
        str(report),
        "\n".join(report_lines(report)),
        CheckSeries([Point(1, report)]).to_html(title="t"),
    ):
        assert NAME in said
        assert "if no client lies" not in said
    assert Report.from_json(report.to_json()).one_client == report.one_client
