"""Descriptions to look at and to keep: page, picture, table, metrics."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from flwr.clientapp import ClientApp
from matplotlib.image import imread
from prometheus_client.parser import text_string_to_metric_families
from report.samples import STATISTICS

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Statistics, Trusted

GROUPED = replace(
    STATISTICS,
    columns={
        name: replace(column, groups={"north": column.statistics})
        for name, column in STATISTICS.columns.items()
    },
)


@pytest.mark.usefixtures("no_plots")
def test_a_page_says_whom_it_is_about_and_what_is_protected():
    page = STATISTICS.to_html()
    assert STATISTICS.whom in page
    assert "minutes (min)" in page
    assert "&lt;b&gt;us" in page
    assert "<b>us" not in page
    assert "Each description hides one record" in page


def test_a_row_of_a_file_is_a_number_with_its_interval():
    rows = list(csv.DictReader(io.StringIO(GROUPED.to_csv())))
    assert {(row["column"], row["group"]) for row in rows} == {
        (name, group) for name in STATISTICS.columns for group in ("", "north")
    }
    mean = next(row for row in rows if row["number"] == "mean")
    told = [float(mean[name]) for name in ("value", "at_least", "at_most")]
    assert told == [28.75, 18.0, 31.0]


def test_metrics_have_every_number_but_the_histogram(tmp_path):
    GROUPED.save(tmp_path / "d.prom")
    found = {
        (sample.name, *(sample.labels.get(name) for name in ("column", "group", "end", "level")))
        : sample.value
        for family in text_string_to_metric_families((tmp_path / "d.prom").read_text())
        for sample in family.samples
    }  # fmt: skip
    for group in ("", "north"):
        assert found["kld_described_mean", "minutes", group, "low", None] == 18.0
        assert found["kld_described_quantile", "minutes", group, "value", "0.5"] == 20.0
    assert found["kld_described_records", None, None, None, None] == STATISTICS.records


@pytest.mark.parametrize("form", ["html", "png", "svg", "csv", "json", "prom"])
def test_every_form_is_written(form, tmp_path):
    file = tmp_path / f"d.{form}"
    STATISTICS.save(file)
    assert file.stat().st_size > 100
    if form == "json":
        assert StatisticsReport.from_json(file.read_text()) == STATISTICS


def test_another_form_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="must end in one of"):
        STATISTICS.save(tmp_path / "d.xlsx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("look", [{}, {"dark": True, "narrow": True}])
def test_odd_columns_are_drawn_too(look, tmp_path):
    """One edge, thousands of bins, labels that are long or many, and columns without a value."""
    table = Table(
        {
            "one edge": Binned([0.0]),
            "fine": Binned(np.arange(3000.0).tolist()),
            "long": Labels(["x" * 200, r"$\bad$", *map(str, range(30))]),
            "nothing": Binned([1.0, 2.0]),
        }
    )
    rows = {
        "one edge": [1.0, -1.0],
        "fine": [3.0, 4e9],
        "long": ["x" * 200] * 2,
        "nothing": [None] * 2,
    }
    app = ClientApp()
    answer_drift_queries(app, lambda context: rows, table)
    report = Statistics(table, Trusted(1.0, 1e-6)).ask(InProcessGrid(app, 3))
    report.plot(tmp_path / "d.png", **look)
    pixels = imread(tmp_path / "d.png")[..., :3]
    assert pixels.std() > 0.02
