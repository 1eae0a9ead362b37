"""``flwr-kld report --mine``: is it this node? Exact, on the node, and in no message."""

import csv
import json
import pickle
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import hold
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from prometheus_client.parser import text_string_to_metric_families
from report.samples import checksummed
from sealed_federation import KEY, WatchedGrid
from sites import (
    BROKEN,
    EACH,
    SITES,
    TABLE,
    carried,
    compared,
    people,
    private_numbers,
    reference,
    site,
)

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.clients import aggregate_drift_checks, answer_drift_queries
from flwr_kld.infer.verdict import Cause, Outcome
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.report.node_comparison import NodeComparison, to_return
from flwr_kld.report.report import Report
from flwr_kld.report.summary import MOST_WORDS, words_in
from flwr_kld.strategies import KLDrift, Period, Trusted, TrustedAggregator


def checked(trust, site, sites=SITES, folder=None, **options) -> tuple[Report, WatchedGrid]:
    """Run a check; `site` makes the records of each, and a node more is the aggregator.

    With a `folder`, the report is returned to each site, and stored in a folder there.
    """
    app, aggregator = ClientApp(), ClientApp()
    sealed = {"aggregator": KEY.public} if isinstance(trust, TrustedAggregator) else {}
    answer_drift_queries(app, lambda c: site(c.node_config["partition-id"]), TABLE, **sealed)
    aggregate_drift_checks(aggregator, key=KEY)

    def either(message, context: Context):
        own = context.node_config["partition-id"] == sites
        return (aggregator if own else app)(message, context)

    grid = WatchedGrid(either, sites + bool(sealed))
    for place, context in enumerate(grid.contexts.values() if folder else ()):
        (folder / str(place)).mkdir()
        context.node_config["drift-reports"] = str(folder / str(place))
    checks = KLDrift(reference(), trust, threshold=0.05, **options)
    report = checks.check(grid)
    assert folder is None or checks.return_report(grid, report) == sites
    return report, grid


@pytest.fixture
def node(cli, tmp_path):
    """Write a node's file, the reference and a report, if none is stored; run the command."""
    reference().save(tmp_path / "reference.json")

    def run(report: Report | str | Path, rows, *options, out=(), **environment):
        place = report if isinstance(report, Path) else tmp_path / "report.json"
        if place is not report:
            place.write_text(report if isinstance(report, str) else report.to_json())
        with (tmp_path / "node.csv").open("w", newline="") as file:
            csv.writer(file).writerows([rows, *zip(*rows.values(), strict=True)])
        return cli(
            "report", *out, "--mine", place, "--data", tmp_path / "node.csv",
            "--reference", tmp_path / "reference.json", *options, COLUMNS="100", **environment,
        )  # fmt: skip

    return run


# ------------------------------------------------------------------------------- whose fault it is


@pytest.mark.usefixtures("no_plots")
def test_the_broken_sites_own_page_says_so_and_no_message_carries_it(node, tmp_path, monkeypatch):
    trust = TrustedAggregator(3.0, aggregator=KEY.public)
    report, grid = checked(trust, site, folder=tmp_path)
    for way in ("connect", "connect_ex", "bind", "sendto"):  # the command itself reaches nobody
        monkeypatch.setattr(f"socket.socket.{way}", None, raising=False)
    assert [name for name, one in report.columns.items() if one.drifted] == ["height"]
    answers = []
    for place in range(SITES):
        done = node(tmp_path / str(place), site(place))
        answers.append(done.exit_code)
        first = " ".join(done.stdout.partition("Check of")[0].split())
        assert words_in(first) <= MOST_WORDS
        if place == BROKEN:
            assert first.startswith("Yes: height. 100 % ")
            assert len(re.findall(r"[\d.–]+ %", first)) == 2
            written = node(tmp_path / str(place), site(place), out=[tmp_path / "mine.html"])
            assert written.exit_code == done.exit_code
            page = (tmp_path / "mine.html").read_text()
            assert "Yes: height. 100 % " in page
            assert "must stay on the node" in page
            assert (tmp_path / "mine.html").stat().st_mode & 0o077 == 0
        else:
            assert first.startswith("No: height ")
        assert "PRIVATE" in done.stdout
    assert answers == [0, 1, 0]
    assert not list((tmp_path / str(SITES)).iterdir())  # the aggregator was not counted
    returned = [m for m in grid.sent if m.metadata.message_type == "query.drift_report"]
    replies = [m for m in grid.received if m.metadata.message_type == "query.drift_report"]
    assert (len(returned), len(replies)) == (SITES, SITES)
    assert not any(reply.content for reply in replies)
    assert {message.content["published_report"]["published_report"] for message in returned} == {
        to_return(report).to_json()  # as it was before any node looked at it
    }
    for place in range(SITES):
        assert not carried(private_numbers(site(place), report), handled(grid))


def test_metrics_of_it_are_written_on_demand_and_say_that_they_are_private(node, tmp_path):
    report, _ = checked(Trusted(1.0), site)
    done = node(report, site(BROKEN), out=[tmp_path / "mine.prom"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert (tmp_path / "mine.prom").stat().st_mode & 0o077 == 0
    families = [*text_string_to_metric_families((tmp_path / "mine.prom").read_text())]
    assert all("PRIVATE" in family.documentation for family in families)
    found = {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }
    own = compared(report, site(BROKEN)).columns
    assert found["kld_node_answer", "yes"] == 1
    assert found["kld_node_answer", "no"] == found["kld_node_answer", "unknown"] == 0
    for name, one in own.items():
        assert found["kld_node_column_divergence", one.answer, name] == one.divergence
        for whose in ("own", "elsewhere", "elsewhere_low", "elsewhere_high", "reference"):
            key = "kld_node_column_share", name, whose, one.records
            assert found[key] == getattr(one, whose)


def test_a_picture_of_it_is_drawn(tmp_path):
    report, _ = checked(Trusted(1.0), site)
    compared(report, site(BROKEN)).save(tmp_path / "mine.svg")
    assert "<svg" in (tmp_path / "mine.svg").read_text()


def test_metrics_leave_out_what_the_report_does_not_say(node, tmp_path):
    report, _ = checked(Trusted(1.0), site)
    columns = {n: replace(c, counts=None) for n, c in report.columns.items()}
    done = node(replace(report, columns=columns), site(0), out=[tmp_path / "mine.prom"])
    assert done.exit_code == 2
    assert "elsewhere" not in (tmp_path / "mine.prom").read_text()


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_a_report_of_this_reference_is_named(node, tmp_path, exists):
    folder = tmp_path / "reports"
    if exists:
        folder.mkdir()
    done = node(folder, site(0))
    assert (done.exit_code, done.stdout) == (4, "")
    assert "no report of a check against" in done.stderr
    assert "drift-reports" in done.stderr


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_nodes_zone_does_not_change_what_it_is_told(node, zone, monkeypatch):
    report, _ = checked(Trusted(1.0), dated, period=Period("day", "2026-11-01", "2026-12-01"))
    here = node(report, dated(BROKEN))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        there = node(report, dated(BROKEN))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert here.exit_code == 1
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    assert f"{EACH:,} records of this node" in here.stdout


def dated(place: int):
    """Half of the records are in November, by a second: the others are of the months beside."""
    rows = {name: np.repeat(values, 2) for name, values in site(place).items()}
    ends = ["2026-11-01T00:00:00", "2026-10-31T23:59:59", "2026-11-30T23:59:59", "2026-12-01"]
    return rows | {"day": np.resize(ends, 2 * EACH)}


def handled(grid: WatchedGrid) -> list[bytes]:
    """Every value of every message of a run."""
    return [v if isinstance(v, bytes) else str(v).encode() for v in grid.handled()]


def test_the_search_finds_what_a_server_is_shown():
    report, grid = checked(Trusted(1.0), site)
    for place in range(SITES):
        assert carried(private_numbers(site(place), report), handled(grid))


def test_the_search_finds_a_number_in_a_returned_report(tmp_path):
    report, grid = checked(TrustedAggregator(3.0, aggregator=KEY.public), site, folder=tmp_path)
    own = compared(report, site(0)).columns["ward"].own
    content = {"published_report": ConfigRecord({"published_report": f'{{"share": {own!r}}}'})}
    grid.sent.append(Message(RecordDict(content), 1000, "query.drift_report"))
    assert carried(private_numbers(site(0), report), handled(grid)) == {repr(own).encode()}


def test_what_moved_everywhere_is_no_nodes_fault():
    report, _ = checked(Trusted(1.0), lambda place: people(place, icu=0.5))
    for place in range(SITES):
        found = compared(report, people(place, icu=0.5))
        assert (found.answer, found.columns["ward"].answer) == ("no", "as elsewhere")
        assert found.summary.startswith("No: ward ")


def test_each_of_several_broken_sites_is_told_and_no_other():
    broken = {1, 4, 7}
    report, _ = checked(Trusted(1.0), lambda place: people(place, feet=place in broken), sites=10)
    for place in range(10):
        found = compared(report, people(place, feet=place in broken))
        assert found.answer == ("yes" if place in broken else "no")


def test_a_site_that_is_most_of_the_records_is_told():
    def unequal(place):
        return people(place, 8000 if place == BROKEN else 500, feet=place == BROKEN)

    report, _ = checked(Trusted(1.0), unequal)
    assert [compared(report, unequal(place)).answer for place in range(SITES)] == [
        "no",
        "yes",
        "no",
    ]


def test_a_small_fault_that_no_check_shows_is_seen_here():
    report, _ = checked(
        Trusted(1.0), lambda place: people(place, icu=0.5 * (place == 0) or 0.2), 40
    )
    assert not report.drifted
    found = compared(report, people(0, icu=0.5))
    assert (found.answer, found.columns["ward"].answer) == ("yes", "only here")
    assert found.summary.startswith("Yes: ward ")
    assert {one.answer for one in compared(report, people(1)).columns.values()} == {""}


def decided(report, outcome, cause):
    """The report with another decision on each column."""

    def other(column):
        return replace(column, verdict=replace(column.verdict, outcome=outcome, cause=cause))

    return replace(report, columns={name: other(one) for name, one in report.columns.items()})


@pytest.mark.parametrize("cause", [Cause.NEAR, Cause.DRAW])
def test_whose_records_are_suspected_is_said_as_of_a_drift(cause):
    report, _ = checked(Trusted(1.0), site)
    suspected = decided(report, Outcome.INCONCLUSIVE, cause)
    for place in range(SITES):
        assert compared(suspected, site(place)).columns["height"].answer == (
            "yes" if place == BROKEN else "no"
        )


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [(Outcome.INCONCLUSIVE, Cause.LIMITS), (Outcome.NO_ALARM, Cause.FORECAST)],
)
def test_what_moved_everywhere_too_little_for_a_drift_is_not_passed_over(outcome, cause):
    report, _ = checked(Trusted(1.0), lambda place: people(place, icu=0.5))
    found = compared(decided(report, outcome, cause), people(0, icu=0.5))
    assert (found.answer, found.columns["ward"].answer) == ("no", "as elsewhere")
    assert found.summary.startswith("No: ward ")


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("total_is_noised", [False, True])
def test_the_interval_of_the_other_nodes_holds(total_is_noised):
    """At 95 %, of 100 releases of the same counts, with the noise that has the heaviest tails."""
    report, _ = checked(Trusted(1.0), people)
    ward, rows = report.columns["ward"], [TABLE.encode(people(place)) for place in range(SITES)]
    start, names = TABLE.parts[1].start, [*TABLE.columns["ward"].names, "other", "missing"]
    counts = np.bincount(np.concatenate(rows)[:, 1] - start, minlength=5)
    others = np.bincount(np.concatenate(rows[1:])[:, 1] - start, minlength=5) / (2 * EACH)
    rng, held = np.random.default_rng(0), []
    for _ in range(100):
        values = (counts + rng.laplace(0, 300 / 2**0.5, 5)).round().astype(int)
        total = float(values.sum() if total_is_noised else counts.sum())
        noised = replace(
            ward,
            counts=replace(ward.counts, values=tuple(values.tolist()), noise=300.0),
            reading=replace(ward.reading, records=total),
        )
        found = compared(replace(report, columns={**report.columns, "ward": noised}), people(0))
        one = found.columns["ward"]
        truth = others[names.index(one.records.split(" ")[0])]
        held.append(one.elsewhere_low <= truth <= one.elsewhere_high)
        assert 0 <= one.elsewhere_low <= one.elsewhere <= one.elsewhere_high <= 1
    assert hold(held)


@pytest.mark.rate(1e-5)
def test_the_interval_holds_of_that_of_many_labels_which_noise_moved_most():
    hours, rng = Labels([str(hour) for hour in range(24)]), np.random.default_rng(0)
    public = Reference.from_counts(hours, np.full(24, 500))
    sites = [rng.choice(24, 2000).astype(str) for _ in range(SITES)]
    others, held, app = np.concatenate(sites[1:]), [], ClientApp()
    answer_drift_queries(app, lambda c: sites[c.node_config["partition-id"]], hours)
    for _ in range(60):
        monitor = KLDrift(public, Trusted(0.2), threshold=0.1)
        report = monitor.check(WatchedGrid(app, SITES))
        (one,) = NodeComparison.of(report, public, hours.encode(sites[0])).columns.values()
        held.append(one.elsewhere_low <= np.mean(others == one.records) <= one.elsewhere_high)
    assert hold(held)


def test_a_healthy_site_is_not_blamed_for_its_chance():
    report, _ = checked(Trusted(1.0), site)
    for seed in range(200, 240):
        assert compared(report, people(seed, 100)).answer == "no"


@pytest.mark.parametrize("rows", [500, 5_000])
@pytest.mark.parametrize("each", [50, 2_000])
def test_a_healthy_site_is_not_blamed_for_labels_that_a_small_reference_missed(rows, each):
    rng, codes = np.random.default_rng(rows + each), [f"c{i}" for i in range(300)]
    law = np.arange(1.0, 301) ** -1.2
    table = Table({"code": codes, "x": Binned.uniform(0, 1, 40)})

    def drawn(number):
        of = rng.choice(codes, number, p=law / law.sum())
        return {"code": of, "x": rng.random(number)}

    public, sites = Reference.from_frame(table, drawn(rows)), [drawn(each) for _ in range(5)]
    app = ClientApp()
    answer_drift_queries(app, lambda c: sites[c.node_config["partition-id"]], table)
    report = KLDrift(public, Trusted(1.0, 1e-6), threshold=0.05).check(WatchedGrid(app, 5))
    for one in sites:
        assert NodeComparison.of(report, public, table.encode(one)).answer == "no"


def test_numbers_are_exact():
    report, _ = checked(Trusted(1.0), site)
    rows = site(0)
    found = compared(report, rows).columns["ward"]
    assert found.own == pytest.approx(float(np.mean(rows["ward"] == found.records)), abs=1e-15)
    expected = reference().columns["ward"].probabilities
    own = np.array([np.mean(rows["ward"] == name) for name in ("surgery", "medicine", "icu")])
    ratio = own / expected[:3]
    wanted = -float(expected[:3] @ np.log(0.99 * ratio + 0.01))
    assert found.divergence == pytest.approx(wanted, abs=1e-12)


# -------------------------------------------------------------------------------------- odd records


def test_missing_and_unknown_values_are_named(node):
    report, _ = checked(Trusted(1.0), lambda place: site(place) | lost(place))
    rows = site(BROKEN) | lost(BROKEN)
    done = node(report, rows)
    assert done.exit_code == 1, done.output
    assert "SECRET" not in done.output
    assert " other " in done.stdout
    found = compared(report, rows)
    assert found.columns["age"].answer == found.columns["ward"].answer == "yes"
    assert (found.columns["age"].records, found.columns["ward"].records.split()[0]) == (
        "missing (not in the reference)",
        "other",
    )


def lost(place: int):
    if place != BROKEN:
        return {}
    return {"age": [float("nan")] * EACH, "ward": ["SECRET"] * EACH}


def test_a_node_without_records_or_a_column_is_told_so(node):
    report, _ = checked(Trusted(1.0), site)
    empty = {name: [] for name in TABLE.columns}
    done = node(report, empty)
    assert (done.exit_code, done.stdout) == (4, "")
    assert "no records" in done.stderr
    done = node(report, {"height": [173.25], "ward": ["SECRET"]})
    assert done.exit_code == 4
    assert "'age'" in done.stderr
    assert not {"173.25", "SECRET"} & set(done.output.split())


def test_pairs_long_columns_and_whole_clients_are_compared():
    pair = Table({"a": ["x", "y"], "b": ["u", "v"]}, interactions=[("a", "b")])
    known = Reference.from_frame(pair, {"a": ["x", "x", "y", "y"], "b": ["u", "v"] * 2})
    long = Table({"long": Binned.uniform(0, 1e6, 3000), "few": ["x"]})
    of_long = Reference.from_frame(
        long, {"long": np.linspace(0, 1e6, 99_999), "few": ["x"] * 99_999}
    )
    trust = Trusted(1.0, 1e-6, protects=WholeClients(most_records=300))
    for table, public, usual, broken in (
        (pair, known, {"a": ["x", "y"] * 500, "b": ["u", "u", "v", "v"] * 250},
         {"a": ["x", "y"] * 500, "b": ["u", "v"] * 500}),
        (long, of_long, {"long": np.linspace(0, 1e6, 1000), "few": ["x"] * 1000},
         {"long": np.zeros(1000), "few": ["x"] * 1000}),
    ):  # fmt: skip
        rows = [broken if place == BROKEN else usual for place in range(8)]
        app = ClientApp()
        answer_drift_queries(app, lambda c, r=rows: r[c.node_config["partition-id"]], table)
        report = KLDrift(public, trust, cells=100, threshold=0.01).check(WatchedGrid(app, 8))
        found = [NodeComparison.of(report, public, table.encode(one)) for one in rows]
        moved = "a × b" if table is pair else "long"
        assert found[0].columns[moved].divergence < found[BROKEN].columns[moved].divergence
        if report.columns[moved].drifted and report.columns[moved].counts:
            assert [one.answer for one in found] == ["no", "yes", *["no"] * 6]
        else:
            assert found[0].answer != "yes"


def test_a_reference_of_no_table_is_refused(cli, tmp_path):
    Reference.from_counts(Labels(["a"]), [1]).save(tmp_path / "reference.json")
    (tmp_path / "node.csv").write_text("a\na\n")
    done = cli(
        "report", "--mine", "none.json", "--data", tmp_path / "node.csv",
        "--reference", tmp_path / "reference.json",
    )  # fmt: skip
    assert (done.exit_code, "table" in done.stderr) == (4, True)


# ----------------------------------------------------------------------------------- a lying server


def of_column(report: Report, **changed) -> Report:
    column = replace(report.columns["ward"], **changed)
    return replace(report, columns={**report.columns, "ward": column})


def counted(report: Report, **changed) -> Report:
    return of_column(report, counts=replace(report.columns["ward"].counts, **changed))


def read_as(report: Report, **changed) -> Report:
    return of_column(report, reading=replace(report.columns["ward"].reading, **changed))


def forged(report: Report, **changed) -> str:
    return json.dumps(checksummed({**report.to_dict(), **changed}))


JANUARY = {"column": "age", "start": "2026-01-01", "end": "2026-02-01"}
LIES = {
    "another reference": lambda r: replace(r, compared=replace(r.compared, reference="\x1b[2J")),
    "another column": lambda r: replace(r, columns={**r.columns, "\x1b[31m": r.columns["ward"]}),
    "a column less": lambda r: replace(r, columns={"ward": r.columns["ward"]}),
    "more counts": lambda r: counted(r, values=(1,) * 1000),
    "no counts at all": lambda r: counted(r, values=()),
    "huge counts": lambda r: counted(r, values=(10**400,) * 5),
    "NaN records": lambda r: read_as(r, records=float("nan")),
    "no records": lambda r: read_as(r, records=0.0),
    "infinite records": lambda r: read_as(r, records=float("inf")),
    "no time": lambda r: replace(r, started="\x1b[2Jtoday"),
    "no time zone": lambda r: replace(r, started="2026-11-30T03:00:00"),
    "a time before time": lambda r: replace(r, started="0001-01-01T00:00:00+14:00"),
    "a period of no column": lambda r: forged(r, period=JANUARY | {"column": "no"}),
    "an odd period": lambda r: forged(r, period=JANUARY | {"end": "\x1b[2J"}),
    "another kind": lambda r: forged(r, kind="statistics"),
    "changed": lambda r: r.to_json().replace('"asked": 3', '"asked": 4'),
    "nothing": lambda r: "",
    "no text": lambda r: "\0\x1b[2J",
    "an empty series": lambda r: "[]",
    "a series of something": lambda r: "[1, {}]",
    "nested without end": lambda r: "[" * 100_000,
    "deep in an object": lambda r: '{"a":' * 100_000,
    "a number without end": lambda r: "9" * 100_000,
    "too long": lambda r: "[" + " " * (1 << 26),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_a_lying_server_gives_is_refused_in_clear_words(node, lie):
    report, _ = checked(Trusted(1.0), site)
    rows = {name: values[:50] for name, values in people(5).items()} | {"ward": ["SECRET"] * 50}
    done = node(LIES[lie](report), rows)
    assert (done.exit_code, done.stdout) == (4, ""), done.output
    assert len(done.stderr) < 500
    assert "error: " in done.stderr
    assert "bug" not in done.stderr
    assert "SECRET" not in done.stderr
    assert not any(repr(float(value)) in done.stderr for value in rows["height"])
    assert "\x1b[2J" not in done.stderr


def test_a_wrong_path_says_why_here_as_there_is_no_log(cli, node, tmp_path):
    report, _ = checked(Trusted(1.0), site)
    assert node(report, site(0)).exit_code == 0
    wrong = tmp_path / "nodes.csv"
    known = tmp_path / "reference.json"
    for command in (
        ["report", "--mine", tmp_path / "report.json", "--data", wrong, "--reference", known],
        ["doctor", "--data", wrong, "--table", known],
    ):
        done = cli(*command, COLUMNS="200")
        assert done.exit_code == 4
        assert str(wrong) in done.stderr
        assert "log" not in done.stderr


def test_what_the_command_lacks_is_said(cli, tmp_path):
    for options in (["--mine", "r.json"], ["--data", "x.csv"], ["--reference", "r.json"]):
        done = cli("report", *options)
        assert done.exit_code == 4
        assert "--mine" in done.stderr


@pytest.mark.parametrize(
    "other",
    [("--ledger", "sqlite:///other.db"), ("--last", 3), ("--key", "a"), ("--predictor", "p")],
)
def test_what_chooses_checks_of_a_ledger_is_refused(cli, tmp_path, other):
    mine = ("--mine", tmp_path, "--data", "rows.csv", "--reference", "reference.json")
    done = cli("report", *mine, *other)
    assert done.exit_code == 4
    assert other[0] in done.stderr


def test_a_report_without_counts_or_threshold_answers_what_it_can():
    report, _ = checked(Trusted(1.0), site)
    blind = compared(
        replace(report, columns={n: replace(c, counts=None) for n, c in report.columns.items()}),
        site(BROKEN),
    )
    assert blind.answer == "unknown"
    assert blind.summary.startswith("Unknown: the report has no counts of height")
    assert blind.columns["height"].elsewhere is None
    undecided = replace(
        report, columns={n: replace(c, verdict=None) for n, c in report.columns.items()}
    )
    assert {one.answer for one in compared(undecided, site(BROKEN)).columns.values()} == {""}


def test_it_shows_no_number_where_logs_would():
    report, _ = checked(Trusted(1.0), site)
    found = compared(report, site(BROKEN))
    assert repr(found) == "NodeComparison(<private>)"
    assert "100" not in repr(found.columns["height"])
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(found)
