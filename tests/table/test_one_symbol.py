"""What takes one symbol a record says so of a table, before anything is asked, drawn or spent."""

import pytest
from federation import REFERENCE as FRUIT
from federation import grid_of
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries, answer_predictor_queries
from flwr_kld.clients.predictor_queries import host_predictor_queries
from flwr_kld.common.errors import CheckFailed, DomainError
from flwr_kld.infer.drift import Drift
from flwr_kld.integral import FiniteBase, Mollifier, mbde, mollify
from flwr_kld.planner import Setting, forecast
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.strategies import KLDrift, PrivatePredictor, Statistics, Trusted
from flwr_kld.table.table import Table

FEATURES = {"hand": Labels(["left", "right"]), "coin": Labels(["heads", "tails"])}
TABLE = Table(FEATURES)
ROWS = {"hand": 70 * ["left"] + 30 * ["right"], "coin": 50 * ["heads", "tails"]}
REFERENCE = Reference.from_samples(TABLE, ROWS, floor=0.01)
OTHER = Reference.from_counts(TABLE, {"hand": [1, 1], "coin": [1, 9]})
BOX = Mollifier.symmetric(1.0)

ENTRIES = {
    "Hypotheses": lambda: Hypotheses({"usual": REFERENCE, "odd": OTHER}),
    "Hypotheses by context": lambda: Hypotheses({"usual": {"x": REFERENCE}, "odd": {"x": OTHER}}),
    "answer_predictor_queries": lambda: answer_predictor_queries(ClientApp(), ROWS.copy, TABLE),
    "FiniteBase.of": lambda: FiniteBase.of(REFERENCE),
    "FiniteBase.uniform": lambda: FiniteBase.uniform(TABLE),
    "Drift": lambda: Drift(REFERENCE),
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_table_is_refused_with_what_to_take_instead(entry):
    with pytest.raises(DomainError, match="Categories"):
        ENTRIES[entry]()


@pytest.mark.parametrize("fit", [mollify, mbde])
def test_rows_of_a_table_are_no_draws_of_a_base(fit):
    base = FiniteBase.of(REFERENCE.columns["hand"])
    with pytest.raises(ValueError, match="Categories"):
        fit(TABLE.encode(ROWS), base, BOX if fit is mollify else 1.0)


def test_a_column_is_a_domain_like_any_other():
    column, records = REFERENCE.columns["hand"], ROWS["hand"]
    symbols = TABLE.columns["hand"].encode(records)
    assert mollify(symbols, FiniteBase.of(column), BOX)


def test_a_node_with_a_table_reports_no_label():
    """One that hosts many knows its domain when it is asked only."""
    app = ClientApp()
    host_predictor_queries(app, lambda context, _: ROWS, lambda _: [0], lambda _: TABLE)
    usual = {"apples": FRUIT, "others": Reference.from_probabilities(FRUIT.domain, [0, 0, 0, 1])}
    predictor = PrivatePredictor(BayesMixture(Hypotheses(usual), epsilon=1.0))
    with pytest.raises(CheckFailed, match="domain"):
        predictor.ask(grid_of(app))


def test_clients_make_a_reference_of_every_column():
    """With the noise that hides a row in all of them, which no count of a hundred leaves."""
    app = ClientApp()
    answer_drift_queries(app, lambda _: ROWS, TABLE)
    report = Statistics(TABLE, Trusted(2.0)).ask(grid_of(app))
    made = report.as_reference(TABLE)
    assert report.protection.noise == pytest.approx(2 * 2 / 2.0 * 2**0.5, rel=0.1)
    assert made.columns["hand"].probabilities == pytest.approx([0.7, 0.3, 0, 0], abs=0.02)
    assert made.columns["coin"].probabilities == pytest.approx([0.5, 0.5, 0, 0], abs=0.02)
    assert KLDrift(made, Trusted(2.0)).check(grid_of(app)).columns


def test_a_forecast_takes_a_table():
    setting = Setting(clients=20, records=100, trust=Trusted(1.0), threshold=None)
    assert set(forecast(REFERENCE, setting).columns) == {"hand", "coin"}
