"""A table's columns in the terminal, in files and in metrics."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from report.samples import REPORT, decided, in_notebook
from report.tables import NAMES, drifted, table_report

from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.column import columns_table
from flwr_kld.report.parts import metrics
from flwr_kld.report.words import as_text
from flwr_kld.views import CheckSeries
from flwr_kld.views.prometheus import MonitorState, save_metrics
from flwr_kld.views.text import check_lines

TABLE = drifted()
STILL = table_report(dict.fromkeys(NAMES, 0.0))


def test_the_first_line_is_the_verdict_and_the_columns_follow_in_rank():
    head, *lines = str(TABLE).splitlines()
    assert head.startswith("ALARM: age <years>. Below 20: 10 % → ")
    rows = [line for line in lines if line.startswith(NAMES)]
    assert rows[0].startswith("age <years>")
    assert "▲ drift" in rows[0]
    assert all("✓ no drift" in row for row in rows[1:])
    assert len(rows) == 4
    assert "below 20: 10 % → " in " ".join(lines)
    assert max(map(len, rows)) <= 80
    undecided = table_report(dict.fromkeys(NAMES, 0.0), threshold=False)
    assert str(undecided).startswith("Not judged: no threshold is set.\n")
    assert str(undecided).count("– not judged") == 4


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("report", [TABLE, STILL, REPORT])
def test_no_line_is_longer_than_the_terminal(report, width):
    assert max(map(len, check_lines(report, width=width))) <= width


def test_words_below_a_table_are_as_wide_as_the_terminal():
    lines = as_text(columns_table(STILL.columns), width=100).splitlines()
    below = lines[next(n for n, line in enumerate(lines) if line.startswith("changed: ")) :]
    rows = lines[: len(lines) - len(below)]
    assert max(map(len, rows)) < 80 < max(map(len, below)) <= 100


def undecided(report, key):
    """The report with nothing decided in any column, of a check with a budget."""
    verdict = decided(Outcome.INCONCLUSIVE, 0.1).verdict
    columns = {name: replace(one, verdict=verdict) for name, one in report.columns.items()}
    return replace(
        report, columns=columns, key=key, cost=replace(report.cost, budget=10.0, left=7.25)
    )


KEYS = ("2026-11-21T03:00:00Z", "2026-11-22T03:00:00Z")
LONG = CheckSeries([undecided(TABLE, KEYS[0]), undecided(STILL, KEYS[1])]).table()


def test_an_outcome_is_a_whole_word_where_other_columns_can_shrink():
    assert as_text(LONG, width=80).count(" inconclusive") == 2
    for width in (40, 60, 80):
        columns = as_text(columns_table(undecided(TABLE, KEYS[0]).columns), width=width)
        assert columns.count("inconclusive ") == 4


def test_a_key_is_folded_before_shorter_words_are():
    lines = as_text(LONG, width=80).splitlines()
    assert KEYS[0] not in "".join(lines)
    assert all(any(word in line for line in lines) for word in ("drifted", "population", "0.189"))


@pytest.mark.parametrize("width", range(30, 120, 10))
def test_no_table_is_wider_than_the_terminal(width):
    lines = as_text(LONG, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.endswith(("18/20", "18/")) for line in lines)  # the last column is there


def test_of_many_columns_the_calm_ones_are_summed_up():
    one = TABLE.columns["wage"]
    many = TABLE.columns | {f"calm {n}": one for n in range(50)}
    text = as_text(columns_table(many), width=80)
    assert sum("✓ no drift" in line for line in text.splitlines()) == 19
    assert "34 more columns: 34 no drift" in " ".join(text.split())
    moved = {f"moved {n}": TABLE.columns[NAMES[1]] for n in range(30)}
    assert as_text(columns_table(moved)).count("▲ drift") == 30


def test_a_series_says_which_columns_drifted():
    table = CheckSeries([TABLE, None, STILL])
    shown = {column.header: list(column.cells) for column in table.table().columns}
    assert shown["drifted"] == ["age <years>", "", "0 of 4"]
    assert "age &lt;years&gt;" in in_notebook(table)
    assert "drifted" not in as_text(CheckSeries([REPORT]).table())


def test_a_file_has_a_row_for_each_check_and_column():
    rows = list(csv.DictReader(io.StringIO(CheckSeries([STILL, None, TABLE]).to_csv())))
    assert [(row["number"], row["column"]) for row in rows] == [
        *(("1", name) for name in STILL.columns), ("2", ""),
        *(("3", name) for name in TABLE.columns),
    ]  # fmt: skip
    first, others = rows[5], rows[6:]
    moved = TABLE.columns[NAMES[1]]
    assert (first["outcome"], {row["outcome"] for row in others}) == ("drift", {"no drift"})
    assert (float(first["estimate"]), first["of"]) == (moved.reading.headline.value, "population")
    assert float(first["figures.psi.value"]) == moved.figures.psi.value
    wasserstein = "figures.ordered.wasserstein.value"
    assert float(first[wasserstein]) == moved.figures.ordered.wasserstein.value
    assert first["cost.epsilon"] == "1.0"
    assert next(row for row in others if row["column"] == "job")[wasserstein] == ""


def scraped(path: Path, *states: MonitorState) -> dict[tuple[str, ...], float]:
    save_metrics(states, path / "kld.prom")
    families = text_string_to_metric_families((path / "kld.prom").read_text())
    samples = (sample for family in families for sample in family.samples)
    names = ("monitor", "column", "outcome")
    return {(s.name, *(s.labels[n] for n in names if n in s.labels)): s.value for s in samples}


def test_columns_are_labels_and_every_check_has_the_same_ones(tmp_path: Path):
    name = 'say "b"\n\\'
    report = table_report(dict.fromkeys(NAMES, 0.0) | {name: 0.3})
    got = scraped(tmp_path, MonitorState("m", report), MonitorState("plain", REPORT))
    moved = report.columns[name]
    assert got["kld_column_divergence", "m", name] == moved.reading.of_population.value
    assert got["kld_column_deviation", "m", name] == moved.reading.of_population.deviation
    assert got["kld_column_threshold", "m", name] == 0.05
    assert got["kld_column_changed_share", "m", name] == moved.changed.value
    assert got["kld_changed_share", "m"] == moved.changed.value
    assert got["kld_column_lower_bound", "m", name] == pytest.approx(0.18)
    assert got["kld_column_outcome", "m", name, "drift"] == 1
    assert got["kld_column_outcome", "m", "wage", "drift"] == 0
    assert math.isnan(got["kld_column_outside_share", "m", name])
    assert got["kld_columns_drifted", "m"] == 1
    assert not [key for key in got if key[0].startswith("kld_column") and key[1] == "plain"]
    still = table_report(dict.fromkeys((*NAMES, name), 0.0), threshold=False)
    assert {k for k in scraped(tmp_path, MonitorState("m", still)) if "column" in k[0]} == {
        k for k in got if "column" in k[0]
    }


def test_flower_is_told_of_each_column():
    told = metrics(TABLE)
    assert told["kld.columns_drifted"] == 1
    assert told[f"kld.population.{NAMES[1]}"] == TABLE.reading.population_estimate
    assert {f"kld.population.{name}" for name in NAMES} < told.keys()
    assert not any(key.startswith(("kld.population.", "kld.columns")) for key in metrics(REPORT))


def test_a_report_of_one_column_stands_alone():
    parts = {part.column: part for part in TABLE.by_column}
    assert parts["wage"].outcome is Outcome.NO_DRIFT
    assert parts["wage"].reading == TABLE.columns["wage"].reading
    assert list(decided(Outcome.DRIFT, 0.2).by_column) == [decided(Outcome.DRIFT, 0.2)]
