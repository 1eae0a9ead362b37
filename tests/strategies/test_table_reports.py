"""A check of a table from clients' rows to what its reader sees."""

import numpy as np
import pytest
from federation import grid_of
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.report import Report
from flwr_kld.strategies import KLDrift, Trusted
from flwr_kld.views import CheckSeries

TABLE = Table(
    {"age": Binned([20, 40, 60]), "sex": ["f", "m"], "job": ["a", "b", "c"]},
    interactions=[("sex", "job")],
    units={"age": "years"},
    descriptions={"age": "at admission, not <today>"},
    thresholds={"job": 0.2},
)


def rows(n: int, rng: np.random.Generator, shift: float = 0.0) -> dict[str, np.ndarray]:
    """Rows of one client; drifted, all are older."""
    return {
        "age": rng.normal(40 + shift, 15, n),
        "sex": rng.choice(["f", "m"], n),
        "job": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
    }


@pytest.fixture(scope="module")
def report() -> Report:
    reference = Reference.from_samples(TABLE, rows(20_000, np.random.default_rng(0)))
    app = ClientApp()

    def load(context: Context) -> dict[str, np.ndarray]:
        return rows(200, np.random.default_rng(context.node_id % 2**32), 25)

    answer_drift_queries(app, load, TABLE)
    monitor = KLDrift(reference, Trusted(1.0, 1e-6), threshold=0.05)
    return monitor.check(grid_of(app, 40))


def test_the_column_that_drifted_is_named_and_described(report):
    assert (report.outcome, report.column) == (Outcome.DRIFT, "age")
    assert set(report.columns) == set(TABLE.columns)
    age = report.columns["age"]
    assert age.outcome is Outcome.DRIFT
    assert " and over: " in age.sentence
    assert age.histogram.names[:4] == ("< 20", "[20, 40)", "[40, 60)", ">= 60")
    assert age.figures.ordered.mean.value > age.figures.ordered.reference_mean + 5
    for name in ("sex", "job", "sex × job"):
        calm = report.columns[name]
        assert calm.outcome is not Outcome.DRIFT
        assert calm.figures.psi.value < 0.1 < age.figures.psi.value
        assert sum(calm.histogram.clients) == pytest.approx(1, abs=0.1)


def test_a_columns_own_threshold_unit_and_description_reach_the_reader(report):
    thresholds = {name: column.verdict.threshold for name, column in report.columns.items()}
    assert thresholds == {"age": 0.05, "sex": 0.05, "job": 0.2, "sex × job": 0.05}
    age = report.columns["age"]
    assert (age.unit, age.description) == ("years", "at admission, not <today>")
    assert "years" in age.sentence
    assert "age (years)" in str(report)
    frame = CheckSeries([report]).to_frame().set_index("column")
    assert frame.loc["age", "unit"] == "years"
    page = CheckSeries([report]).to_html()
    assert "at admission, not &lt;today&gt;" in page
    mean = age.figures.ordered.mean
    assert f"{mean.value:.4g} years" in page


@pytest.mark.parametrize("threshold", [None, {"age": 0.1, "sex": 0.3}])
def test_thresholds_are_the_tables_unless_a_check_is_told_otherwise(threshold):
    own = {"age": 0.01, "sex": 0.02}
    table = Table({name: TABLE.columns[name] for name in own}, thresholds=own)
    reference = Reference.from_samples(table, rows(100, np.random.default_rng(0)))
    monitor = KLDrift(reference, Trusted(1.0), threshold=threshold)
    told = {name: nats for name, (nats, _) in monitor.tolerated.items()}
    assert told == (threshold or own)


def test_a_table_with_a_threshold_for_some_columns_needs_one_for_the_others():
    reference = Reference.from_samples(TABLE, rows(100, np.random.default_rng(0)))
    with pytest.raises(ValueError, match="'age'"):
        KLDrift(reference, Trusted(1.0))


@pytest.mark.parametrize("threshold", [4.7, {"age": 0.1, "sex": 5.0}])
def test_a_threshold_that_nothing_can_exceed_is_refused(threshold):
    table = Table({name: TABLE.columns[name] for name in ("age", "sex")})
    reference = Reference.from_samples(table, rows(100, np.random.default_rng(0)))
    with pytest.raises(ValueError, match="threshold"):
        KLDrift(reference, Trusted(1.0), threshold=threshold)
