"""Descriptions to look at and to keep: page, picture, table, metrics."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from flwr.clientapp import ClientApp
from matplotlib.image import imread
from prometheus_client.parser import text_string_to_metric_families
from report.samples import STATISTICS

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.infer.figures.numbers import Figure
from flwr_kld.report.statistics_report import StatisticsReport, what
from flwr_kld.report.words import in_digits
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Statistics, Trusted
from flwr_kld.views import Description

GROUPED = replace(
    STATISTICS,
    columns={
        name: replace(column, groups={"north": column.statistics})
        for name, column in STATISTICS.columns.items()
    },
)


@pytest.mark.usefixtures("no_plots")
def test_a_page_says_whom_it_is_about_and_what_is_protected():
    page = Description(STATISTICS).to_html()
    assert STATISTICS.whom in page
    assert "minutes (min)" in page
    assert "&lt;b&gt;us" in page
    assert "<b>us" not in page
    assert "Each description protects each record" in page


def test_no_name_of_a_column_steers_a_terminal():
    column = replace(next(iter(STATISTICS.columns.values())), unit="€")
    columns = {"\x1b[31mred": column, " ": replace(column, unit="")}
    text = str(replace(STATISTICS, columns=columns))
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text
    assert "' '" in text


def test_a_row_of_a_file_is_a_number_with_its_interval():
    rows = list(csv.DictReader(io.StringIO(Description(GROUPED).to_csv())))
    assert {(row["column"], row["group"]) for row in rows} == {
        (name, group) for name in STATISTICS.columns for group in ("", "north")
    }
    mean = next(row for row in rows if row["number"] == "mean")
    told = [float(mean[name]) for name in ("value", "at_least", "at_most")]
    assert told == [28.75, 18.0, 31.0]


def told(table: Table, rows: dict, epsilon: float, nodes: int = 5) -> StatisticsReport:
    app = ClientApp()
    answer_drift_queries(app, lambda context: rows, table)
    return Statistics(table, Trusted(epsilon)).ask(InProcessGrid(app, nodes))


def test_no_group_takes_the_place_of_one_that_prints_alike():
    names = ["a\u200b", r"a\u200b", r"'a\u200b'", "", "''", '"', "b"]
    table = Table({"g": Labels(names), "x": Binned([1, 2, 3])}, by="g")
    report = told(table, {"g": names * 9, "x": [1.5] * 9 * len(names)}, 5.0)
    groups = [row["group"] for row in csv.DictReader(io.StringIO(Description(report).to_csv()))]
    assert len(set(groups)) == 1 + len(names) + 2
    lines = str(report).splitlines()
    assert len({line[:20] for line in lines if line.startswith("  ")}) >= len(names) + 2


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ((54.0634, 53.91, 54.21), ("54.1", "53.9", "54.3")),
        ((54.06, 47.87, 60.24), ("54", "47", "61")),
        ((53.81, 52.86, 54.76), ("53.8", "52.8", "54.8")),
        ((0.000067, 0.0, 0.0009), ("0.0001", "0.0000", "0.0009")),
        ((54321.0, 54000.0, 54700.0), ("54,320", "54,000", "54,700")),
        ((-0.04, -0.3, 0.2), ("0.0", "-0.3", "0.2")),
        ((30.0, 30.0, 30.0), ("30", "30", "30")),
        ((1e75, 0.0, 1e75), ("1e+75", "0", "1e+75")),
        ((0.0, 0.0, 5e-324), ("0", "0", "4.941e-324")),
    ],
)
def test_digits_are_those_that_are_known_and_ends_are_rounded_outward(number, told):
    assert in_digits(*number) == told


@pytest.mark.usefixtures("no_plots")
def test_where_noise_explains_all_values_nothing_is_said_of_them():
    drowned = {}
    for name, column in STATISTICS.columns.items():
        own = replace(column.statistics, count=Figure(20.0, 90.0, 0.0, 200.0))
        drowned[name] = replace(column, statistics=own)
    page = Description(replace(STATISTICS, columns=drowned)).to_html()
    assert page.count("no more values than the noise") == 2
    assert "s.d." not in page


ODD = ["", " ", "line\nbreak", "\u202eevil", "[red]x[/red]", "other", "(other)"]


@pytest.mark.parametrize(("hot", "clamped"), [(0, False), (60, True)])
def test_a_mean_says_how_many_values_it_clamps(hot, clamped):
    """A site in Fahrenheit: a mean of 37.7 would be taken for that of all values, with a limit."""
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(37.1, 0.7, 120), np.full(hot, 98.8)]
    app, table = ClientApp(), Table({"celsius": Binned.uniform(34, 41, 14)})
    answer_drift_queries(app, lambda _: {"celsius": values}, table)
    report = Statistics(table, Trusted(1.0)).ask(InProcessGrid(app, 20))
    text = " ".join(what(report.columns["celsius"].statistics))
    said = re.search(r"with (\d+) % of the values clamped", text)
    assert (said is not None) is clamped
    assert said is None or abs(int(said[1]) - 100 * hot / (120 + hot)) < 4


def test_odd_labels_are_told_apart_and_spoil_no_line(tmp_path):
    table = Table({"site": Labels(ODD), "age": Binned([30, 60])}, by="site")
    rows = {"site": ODD * 20, "age": [40] * 20 * len(ODD)}
    found = told(table, rows, 30.0)
    said = str(found)
    assert "\u202e" not in said
    assert all(part in said for part in ("''", "' '", "line\\nbreak", "[red]x[/red]", "((other))"))
    kept = list(csv.DictReader(io.StringIO(Description(found).to_csv())))
    values = [row["group"] for row in kept if row["column"] == "site × age"]
    assert len(set(values)) == 1 + len(ODD) + 2
    assert len(set(map(str, kept))) == len(kept)
    Description(found).save(tmp_path / "d.prom")
    for sample in text_string_to_metric_families((tmp_path / "d.prom").read_text()):
        names = [tuple(sorted(one.labels.items())) for one in sample.samples]
        assert len(set(names)) == len(names)


def test_a_picture_shows_what_noise_does_not_explain():
    """All lie above the edges, or none anywhere, or in a range nobody knew; or none is listed."""
    table = Table(
        {
            "above": Binned([1, 2, 3]),
            "empty": Binned([1, 2, 3]),
            "wide": Binned.powers(),
            "none": Labels([]),
            "one": Labels(["x"]),
        }
    )
    rows = {
        "above": [9] * 400,
        "empty": [None] * 400,
        "wide": np.linspace(-60, 60, 400),
        "none": ["x"] * 400,
        "one": ["x"] * 400,
    }
    report = told(table, rows, 3.0)
    above, empty, wide, none, one, _ = Description(report).plot().axes
    for panel in (above, empty):
        assert panel.get_ylim()[1] >= 1.15 * 0.5
        assert max(patch.get_data().values.max() for patch in panel.patches) < 0.2
    said = any("mean" in text.get_text() for text in empty.texts)
    assert said == (report.columns["empty"].statistics.count.low > 0)  # by chance, in one of 40
    assert -70 < wide.get_xlim()[0] < -30
    assert 30 < wide.get_xlim()[1] < 70
    assert list(none.get_xticks()) == []
    assert one.get_ylim()[0] <= -2.5


def test_metrics_have_every_number_but_the_histogram(tmp_path):
    Description(GROUPED).save(tmp_path / "d.prom")
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


ONCE = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("domain", "values", "is_told"),
    [
        (Binned.powers(), ONCE.lognormal(8, 1.2, 2000), False),
        (Binned.powers(0), ONCE.poisson(0.05, 2000), False),
        (Binned.powers(0, 120), ONCE.normal(50, 15, 2000), True),
        (Binned.uniform(0, 100, 500), ONCE.uniform(0, 100, 2000), True),  # no bin stands out
        (Binned([1, 10, 100]), np.repeat([0, 50], [1900, 100]), True),  # nor do deciles differ
        (Binned([2020.5, 2021.5, 2022.5]), np.full(2000, 2021), True),
    ],
)
def test_a_mean_that_noise_far_out_leaves_anywhere_is_not_told(domain, values, is_told, tmp_path):
    # In one report of 200, noise alone lifts a bin far out beyond its interval, and it is.
    reports = [told(Table({"x": domain}), {"x": values}, 1.0) for _ in range(3)]
    lines = [list(what(report.columns["x"].statistics)) for report in reports]
    means = [any(part.startswith("mean ") for part in line) for line in lines]
    assert (sum(means) >= 2) == is_told
    usual = means.index(is_told)
    report, said = reports[usual], lines[usual]
    assert any(part.startswith("median ") for part in said)
    assert report.summary.startswith("Description of 1 column of ")
    Description(report).save(tmp_path / "d.prom")
    assert ("kld_described_mean{" in (tmp_path / "d.prom").read_text()) == is_told


@pytest.mark.parametrize("form", ["html", "png", "svg", "csv", "json", "prom"])
def test_every_form_is_written(form, tmp_path):
    file = tmp_path / f"d.{form}"
    Description(STATISTICS).save(file)
    assert file.stat().st_size > 100
    if form == "json":
        assert StatisticsReport.from_json(file.read_text()) == STATISTICS


def test_another_form_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="end"):
        Description(STATISTICS).save(tmp_path / "d.xlsx")
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
    Description(report).plot(tmp_path / "d.png", **look)
    pixels = imread(tmp_path / "d.png")[..., :3]
    assert pixels.std() > 0.02
