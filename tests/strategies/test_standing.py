"""Standing sessions under every trust model: counts, silence, crashes, and a server that lies."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sealed_federation
import split_federation
from federation import FRUIT, REFERENCE, app_of, grid_of
from flwr.app import ArrayRecord, ConfigRecord, Message
from session_nights import a_night

from flwr_kld import Labels, Reference
from flwr_kld.ask.noisy import on_coarser_grid
from flwr_kld.clients import AggregatorLimits
from flwr_kld.common.errors import CheckFailed, SessionBusy, SessionOver
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.vector import ClientRows
from flwr_kld.ledger import Budget, BudgetExhausted, Kind, Ledger
from flwr_kld.report.report import Report
from flwr_kld.simulations import simulate
from flwr_kld.strategies import (
    Alarm,
    Distributed,
    KLDrift,
    RotatingCohort,
    SecureSum,
    Standing,
    Statistics,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
    UniformCohort,
)
from flwr_kld.strategies.count_strategy import publish
from flwr_kld.trust.envelopes import TERMS
from flwr_kld.trust.terms import MARK, Terms
from flwr_kld.views import CheckSeries

PUBLISH = "flwr_kld.strategies.count_strategy.publish"  # what asks, once all is paid for
NODES, NIGHTS, EACH = 8, 12, 250
MODELS = ("trusted", "sealed", "split")
DELTA = 1e-6

pytestmark = pytest.mark.usefixtures("no_waiting")


class Federation:
    """Nodes whose records a test changes from night to night."""

    def __init__(self, model: str, folder: Path, nodes: int = NODES) -> None:
        self.model, self.folder, self.nodes = model, folder, nodes
        self.records = {
            1000 + node: {f"{node}-{i}": FRUIT.names[i % 3] for i in range(EACH)}
            for node in range(nodes)
        }
        self.silent: set[int] = set()
        self.meddle = lambda message: None
        options = {"record_ids": lambda context: list(self.records[context.node_id])}
        limits = AggregatorLimits(memory=folder / "aggregated.db")

        def load(context):
            return list(self.records[context.node_id].values())

        def lost(message: Message) -> bool:
            asked = message.metadata.message_type == "query.drift"
            return asked and message.metadata.dst_node_id in self.silent

        if model == "trusted":
            self.grid = grid_of(app_of(load, **options), nodes, lost)
        elif model == "sealed":
            app = app_of(load, aggregator=sealed_federation.KEY.public, **options)
            self.grid = sealed_federation.federation(app, limits=limits, nodes=nodes, lose=lost)
        else:
            apps = [
                split_federation.aggregators(limits=replace(limits, memory=folder / name))[i]
                for i, name in enumerate(("first.db", "second.db"))
            ]
            self.grid = split_federation.federation(
                split_federation.people(load, **options), apps, nodes, lose=lost
            )
        self.remember(folder)

    def remember(self, folder: Path) -> None:
        """Give each node a memory in a folder."""
        for node, context in self.grid.contexts.items():
            if node < 1000 + self.nodes:
                context.node_config["drift-memory"] = str(folder / f"{node}.lives")

    def trust(self, epsilon: float = 1.0, **options):
        if self.model == "trusted":
            return Trusted(epsilon, DELTA, **options)
        if self.model == "sealed":
            key = sealed_federation.KEY.public
            return TrustedAggregator(epsilon, DELTA, aggregator=key, **options)
        return TwoAggregators(epsilon, DELTA, aggregators=split_federation.PAIR, **options)

    def standing(self, epsilon: float = 1.0, nights: int = NIGHTS, **options) -> Standing:
        book = self.folder / "standing.db"
        return Standing(self.trust(epsilon), nights=nights, book=book, **options)

    def monitor(self, **options) -> KLDrift:
        return KLDrift(REFERENCE, self.standing(), **{"timeout": 5.0} | options)

    def truth(self) -> np.ndarray:
        """Counts of each fruit, and of the two cells outside."""
        eaten = [fruit for own in self.records.values() for fruit in own.values()]
        return np.array([eaten.count(name) for name in FRUIT.names] + [0, 0])


@pytest.fixture(params=MODELS)
def federation(request, tmp_path) -> Federation:
    return Federation(request.param, tmp_path)


@pytest.fixture
def trusted(tmp_path) -> Federation:
    return Federation("trusted", tmp_path)


def counts_of(report: Report) -> np.ndarray:
    counts = report.columns[report.column].counts
    assert counts is not None
    return np.array(counts.values)


def off(report: Report, truth: np.ndarray) -> float:
    """How many standard deviations the counts are off, at most."""
    return float(np.abs(counts_of(report) - truth).max() / report.protection.noise)


# --------------------------------------------------------------------------------------- counts


def test_every_night_counts_what_is_there_with_the_noise_that_it_says(federation):
    monitor, off_by = federation.monitor(), []
    for night in range(1, NIGHTS + 1):
        for own in federation.records.values():  # one record goes, another comes
            own.pop(next(iter(own)))
            own[f"new {night} {len(own)} {next(iter(own))}"] = "durian"
        report = monitor.check(federation.grid)
        assert (report.cost.night, report.cost.nights) == (night, NIGHTS)
        assert report.cohort.survivors == NODES
        off_by.append(counts_of(report) - federation.truth())
        assert off(report, federation.truth()) < 7
    # Of the same noise on every night, what is off would hardly change.
    assert np.std(np.diff(off_by, axis=0)) > 1


def test_silent_clients_count_as_they_did(federation):
    monitor = federation.monitor()
    monitor.check(federation.grid)
    before = federation.truth()
    quiet = list(federation.records)[:3]
    federation.silent = set(quiet)
    for node in quiet:
        federation.records[node] = dict.fromkeys(federation.records[node], "durian")
    report = monitor.check(federation.grid)
    assert (report.cohort.survivors, report.cohort.silent) == (NODES - 3, 3)
    assert "3 more count as they did before" in str(report.cohort)
    assert off(report, before) < 7
    federation.silent = set()
    for node in quiet:
        federation.records[node] = {f"other {own}": "durian" for own in federation.records[node]}
    report = monitor.check(federation.grid)
    assert report.cohort.silent == 0
    assert off(report, federation.truth()) < 7


def test_the_largest_client_may_be_a_silent_one(federation):
    monitor = federation.monitor()
    most = max(federation.records)
    federation.records[most] = {f"more {i}": "durian" for i in range(12 * EACH)}
    monitor.check(federation.grid)
    federation.silent = {most}
    report = monitor.check(federation.grid)
    assert (report.cohort.silent, report.cohort.survivors) == (1, NODES - 1)
    assert report.one_client.name is not None
    assert "silent" in report.one_client.name


def test_a_node_that_comes_back_under_another_id_is_not_counted_twice(federation):
    if federation.model == "split":
        pytest.skip("clients of a roster have names")
    monitor, grid, (gone, back) = federation.monitor(), federation.grid, (1000, 1001)
    federation.silent = {back}
    monitor.check(grid)
    # What one node remembers moves to another, which was not there: so do its records.
    federation.silent = {gone}
    federation.records[back] = federation.records[gone]
    grid.contexts[back].node_config |= {
        key: grid.contexts[gone].node_config[key] for key in ("drift-memory", "partition-id")
    }
    report = monitor.check(grid)
    assert report.cohort.silent == 0
    assert report.cohort.survivors == NODES - 1


def test_a_node_that_lost_its_memory_counts_as_before(federation):
    """It has no guard whose receipts would tell."""
    monitor = federation.monitor()
    for night in range(3):
        report = monitor.check(federation.grid)
        assert off(report, federation.truth()) < 7
        assert report.reading.records == NODES * EACH
        assert report.cohort.silent == (night > 0)
        assert ("lost its memory" in str(report.cohort)) == (night > 0)
        for file in federation.folder.glob("1000.lives*"):
            file.unlink()


def test_a_node_whose_memory_was_put_back_counts_as_before(federation):
    """Without a guard: among the nights that it says it has counted, the last one is missing."""
    monitor, memory = federation.monitor(), federation.folder / "1000.lives.standing"
    monitor.check(federation.grid)
    copy = memory.read_bytes()
    before = federation.records[1000]
    federation.records[1000] = {}  # all go
    monitor.check(federation.grid)
    memory.write_bytes(copy)
    federation.records[1000] = before  # and would come again
    for _ in range(3):  # also once it has counted nights that were answered by others
        report = monitor.check(federation.grid)
        assert report.cohort.silent == 1
        assert "lost its memory" in str(report.cohort)
        assert report.reading.records == (NODES - 1) * EACH


def test_a_client_of_a_roster_does_not_take_the_place_of_another(tmp_path):
    """It has learned the token of one that is silent, which the server sees."""
    federation = Federation("split", tmp_path)
    monitor, grid, (victim, liar) = federation.monitor(), federation.grid, (1000, 1001)
    monitor.check(grid)
    before = federation.truth()
    federation.silent = {victim}
    federation.records[liar] = dict.fromkeys(federation.records[victim], "durian")
    memory = grid.contexts[victim].node_config["drift-memory"]
    grid.contexts[liar].node_config |= {"drift-memory": memory}
    own = grid.contexts[victim].node_config["partition-id"]
    grid.contexts[liar].node_config |= {"partition-id": own}
    report = monitor.check(grid)
    assert report.cohort.silent == 2
    assert "lost its memory" in str(report.cohort)
    assert off(report, before) < 7


def test_values_that_change_are_frozen_unless_moves_are_for_them(trusted):
    frozen = KLDrift(REFERENCE, trusted.standing())
    changing = KLDrift(REFERENCE, trusted.standing(moves=4, name="changing"))
    before = trusted.truth()
    frozen.check(trusted.grid), changing.check(trusted.grid)
    for node, own in trusted.records.items():
        trusted.records[node] = dict.fromkeys(own, "apple")
    assert off(frozen.check(trusted.grid), before) < 7
    assert off(changing.check(trusted.grid), trusted.truth()) < 7
    for node, own in trusted.records.items():
        trusted.records[node] = dict.fromkeys(own, "durian")
    apples = before[0]  # have changed once now, as all others before
    once = [NODES * EACH - apples, 0, 0, apples, 0, 0]
    assert off(changing.check(trusted.grid), np.array(once)) < 7


def test_a_verdict_is_taken_back_once_too_many_records_differ_from_what_they_count_as(federation):
    """All values are broken in place: a session with 2 moves counts none of that, and says so."""
    reference = Reference.from_probabilities(FRUIT, [0.34, 0.33, 0.33, 0])
    trust = federation.standing(epsilon=8.0)
    monitor = KLDrift(reference, trust, threshold=0.3, timeout=5.0)
    first = monitor.check(federation.grid)
    assert first.outcome in ("no drift", "no alarm")
    assert "changed since" not in str(first.verdict)
    first_own = federation.records[1000]
    first_own |= dict.fromkeys(list(first_own)[:100], "apple")
    few = monitor.check(federation.grid)
    assert few.outcome == first.outcome  # a few could not have made it
    for node, own in federation.records.items():
        federation.records[node] = dict.fromkeys(own, "apple")
    report = monitor.check(federation.grid)
    assert report.outcome == "inconclusive"
    assert "the picture is old" in str(report.verdict)
    assert "name=" in str(report.verdict.resolve)


def test_a_changed_record_that_the_session_counts_is_not_frozen(trusted):
    monitor = KLDrift(REFERENCE, trusted.standing(epsilon=8.0, moves=4), threshold=0.3)
    monitor.check(trusted.grid)
    for fruit, frozen in (("apple", False), ("durian", True)):
        for node, own in trusted.records.items():
            trusted.records[node] = dict.fromkeys(own, fruit)
        report = monitor.check(trusted.grid)
        assert ("changed since" in str(report.verdict)) == frozen


def test_a_heavy_client_counts_in_full_on_every_night(federation):
    """A sample of its records, another each night, would move more than lives do."""
    federation.records[1000] = {f"heavy {i}": "apple" for i in range(16 * EACH)}
    monitor = federation.monitor()
    for _ in range(3):
        report = monitor.check(federation.grid)
        assert off(report, federation.truth()) < 7
        assert report.reading.records == federation.truth().sum()


def test_a_late_client_joins_and_one_whose_records_are_gone_stays(federation):
    monitor = federation.monitor()
    late = federation.records.pop(1000)
    federation.records[1000] = {}
    monitor.check(federation.grid)
    federation.records[1000], federation.records[1001] = late, {}
    report = monitor.check(federation.grid)
    assert off(report, federation.truth()) < 7


def test_a_client_whose_records_are_gone_may_be_silent(federation):
    """It counts none as it did before, and the others are enough."""
    monitor = federation.monitor(min_clients=NODES - 2)
    monitor.check(federation.grid)
    federation.records |= {1000: {}, 1001: {}}
    assert monitor.check(federation.grid).cohort.survivors == NODES
    federation.silent = {1000, 1001}
    report = monitor.check(federation.grid)
    assert (report.cohort.survivors, report.cohort.silent) == (NODES - 2, 2)
    assert off(report, federation.truth()) < 7


def test_a_client_that_answers_nonsense_stops_nobody(federation, monkeypatch):
    """Once, and never again: it is not carried as what no sum takes."""
    if federation.model == "split":
        pytest.skip("nobody sees what it answers")
    honest = ClientRows.to_wire

    def lying(rows: ClientRows, client: int, token: bytes = b"") -> bytes:
        counts = np.frombuffer(honest(rows, client), "<i4")
        return token + (-counts if counts.sum() == EACH + 1 else counts).astype("<i4").tobytes()

    monkeypatch.setattr(ClientRows, "to_wire", lying)
    monitor = federation.monitor(min_clients=NODES - 1)
    monitor.check(federation.grid)
    federation.records[1000]["liar"] = "apple"
    assert "counts must not be negative" in str(monitor.check(federation.grid).cohort)
    federation.silent = {1000}
    report = monitor.check(federation.grid)
    assert (report.cohort.survivors, report.cohort.silent) == (NODES - 1, 0)
    del federation.records[1000]
    assert off(report, federation.truth()) < 7


def test_a_table_has_a_verdict_and_says_what_all_nights_cost(trusted, tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(1.0, DELTA, window_days=400))
    monitor = trusted.monitor(threshold=0.05, ledger=ledger)
    for night in range(3):
        report = monitor.check(trusted.grid, key=f"night {night}")
        assert report.verdict is not None
        assert ledger.spent().epsilon == 1.0
    assert "ε = 1 for each record, all columns and 12 nights together" in " ".join(
        str(report).split()
    )
    assert Report.from_json(report.to_json()) == report
    assert [entry.kind for entry in ledger.history()].count(Kind.SESSION) == 1


def test_nights_that_show_nothing_never_add_up_to_an_alarm(trusted):
    monitor = trusted.monitor(threshold=1.0, alarm=Alarm(rate=0.5, horizon=1))
    reports = [monitor.check(trusted.grid) for _ in range(4)]
    assert "drift" not in [report.outcome for report in reports]
    assert [report.verdict.detector for report in reports] == [None] * 4


@pytest.mark.usefixtures("no_plots")
def test_a_series_says_since_when_a_column_has_changed(trusted, tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(1.0, DELTA, window_days=400))
    monitor = trusted.monitor(threshold=0.3, ledger=ledger)
    for night in range(1, 7):
        if night == 5:
            for node in list(trusted.records)[:6]:
                trusted.records[node] = {f"new {node} {i}": "durian" for i in range(EACH)}
        monitor.check(trusted.grid)
    series = CheckSeries.from_ledger(ledger)
    assert series.reports[-1].outcome == "drift"
    (said,) = series.since
    assert "since night 5" in said
    assert "since night 5" in series.to_html()


# --------------------------------------------------------------------------------- the session


def test_a_session_goes_on_in_another_process(federation, tmp_path):
    """The monitor is made anew for every night, as by a scheduler."""
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(1.0, DELTA, window_days=400))
    for night in range(1, 4):
        report = federation.monitor(ledger=url).check(federation.grid)
        assert report.cost.night == night
        assert off(report, federation.truth()) < 7


def test_when_its_nights_are_over_another_begins_and_is_paid_for(federation, tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(2.0, DELTA * 4, window_days=400))
    trust = federation.standing(nights=2)
    monitor = KLDrift(REFERENCE, trust, ledger=ledger)
    nights = [monitor.check(federation.grid).cost.night for _ in range(4)]
    assert nights == [1, 2, 1, 2]
    assert ledger.spent().epsilon > 1.0
    with pytest.raises(BudgetExhausted):
        monitor.check(federation.grid)


def test_a_night_that_fails_is_a_night_and_the_next_one_works(federation):
    monitor = federation.monitor(min_clients=4)
    monitor.check(federation.grid)
    federation.silent = set(federation.records)
    with pytest.raises(CheckFailed):
        monitor.check(federation.grid)
    federation.silent = set()
    report = monitor.check(federation.grid)
    assert report.cost.night == 3
    assert off(report, federation.truth()) < 7


def test_another_question_is_not_the_same_session(federation, tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(9.0, DELTA * 9, window_days=400))
    KLDrift(REFERENCE, federation.standing(), ledger=ledger).check(federation.grid)
    other = Reference.from_probabilities(FRUIT, [0.1, 0.2, 0.3, 0.4])
    for trust, reference in (
        (federation.standing(), other),
        (federation.standing(epsilon=2.0), REFERENCE),
    ):
        monitor = KLDrift(reference, trust, ledger=ledger)
        with pytest.raises(CheckFailed, match="else"):
            monitor.check(federation.grid)
    named = federation.standing(name="another")
    assert KLDrift(other, named, ledger=ledger).check(federation.grid).cost.night == 1
    assert ledger.spent().epsilon > 1.0


def test_a_session_goes_on_as_it_began(federation, tmp_path):
    """Other nights and moves are those of the next session: noise so far was drawn for these."""
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(9.0, DELTA * 9, window_days=400))
    noise = []
    for trust in (
        federation.standing(nights=3),
        federation.standing(nights=99),
        federation.standing(nights=2, moves=4),
        federation.standing(nights=9),
    ):
        report = KLDrift(REFERENCE, trust, ledger=ledger).check(federation.grid)
        assert off(report, federation.truth()) < 7
        noise.append((report.cost.night, report.cost.nights, report.protection.noise))
    session = federation.standing(nights=3).over(1)
    expected = [session.on(a_night("s", n, 3, 2)).event(1).noise for n in (1, 2, 3)]
    (steps,) = session.allotment.counts
    deviations = [math.sqrt(on_coarser_grid(law, steps).variance) for law in expected]
    assert noise[:3] == [(n + 1, 3, deviation) for n, deviation in enumerate(deviations)]
    assert noise[3][:2] == (1, 9)


def test_two_processes_do_not_ask_for_the_same_night(federation, tmp_path):
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(1.0, DELTA, window_days=400))
    one, other = federation.monitor(ledger=url), federation.monitor(ledger=url)
    one.check(federation.grid)
    advance = other._session.advance
    advance(other.ledger)
    one.check(federation.grid)
    other._session.advance = lambda _: advance(None)  # it has read the ledger, and goes on later
    with pytest.raises(Exception, match=r"(?i)written|answered"):
        other.check(federation.grid)


@pytest.fixture
def before_asking(monkeypatch):
    """Have something done once all is paid for, before the next check asks."""

    def next_time(do):
        def asks(*about):
            monkeypatch.setattr(PUBLISH, publish)
            do()
            return publish(*about)

        monkeypatch.setattr(PUBLISH, asks)

    return next_time


def test_a_second_server_is_refused_before_it_asks_or_pays_and_starves_nobody(
    federation, tmp_path, before_asking
):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(1.0, DELTA, window_days=400))
    second = []

    def while_one_asks():
        spent = ledger.spent()
        with pytest.raises(SessionBusy):
            federation.monitor(ledger=Ledger(f"sqlite:///{tmp_path}/drift.db")).check(
                federation.grid, "the second"
            )
        second.append((ledger.spent() == spent, ledger.check("the second")))

    for night in range(1, 4):
        before_asking(while_one_asks)
        report = federation.monitor(ledger=ledger).check(federation.grid)
        assert report.cost.night == 2 * night - 1
        unspent, entry = second.pop()
        assert unspent
        assert entry.refused
        # Once the first has ended, the slot of the second runs.
        report = federation.monitor(ledger=ledger).check(federation.grid, f"later {night}")
        assert report.cost.night == 2 * night
        assert report.cohort.survivors == NODES


def test_a_server_that_is_killed_before_it_asks_pays_for_one_session(
    trusted, tmp_path, before_asking
):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(1.0, DELTA, window_days=400))

    def killed():
        raise SystemExit

    before_asking(killed)
    with pytest.raises(SystemExit):
        trusted.monitor(ledger=ledger).check(trusted.grid)
    assert ledger.spent().epsilon == 1.0
    trusted.monitor(ledger=ledger).check(trusted.grid)
    assert ledger.spent().epsilon == 1.0
    assert [entry.kind for entry in ledger.history()].count(Kind.SESSION) == 1


def test_a_budget_that_is_lowered_stops_a_session_until_it_is_raised(trusted, tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(1.0, DELTA, window_days=400))
    monitor, charged = trusted.monitor(ledger=ledger), []
    for epsilon in (1.0, 0.5, 1.0):
        ledger.set_budget(Budget(epsilon, DELTA, window_days=400))
        if epsilon < 1.0:
            with pytest.raises(BudgetExhausted):
                monitor.check(trusted.grid)
        else:
            charged.append(monitor.check(trusted.grid).cost.night)
        assert ledger.spent().epsilon == 1.0
    assert charged == [1, 2]


def test_aggregators_whose_books_differ_by_a_night_agree_once_its_clients_answer(tmp_path):
    federation = Federation("split", tmp_path)
    monitor, grid = federation.monitor(), federation.grid
    monitor.check(grid)
    silent, lose, reached = {1000}, grid.lose, []

    def first_goes_down(message: Message) -> bool:
        """Lose what the first is sent after its verifier shares: the second has added up then."""
        to_first = message.metadata.dst_node_id == 1000 + NODES
        if to_first and message.metadata.message_type == "query.drift_aggregate":
            reached.append(message)
        return lose(message) or (to_first and len(reached) > 1)

    grid.lose = first_goes_down
    with pytest.raises(CheckFailed):
        monitor.check(grid)
    grid.lose, federation.silent = lose, silent
    with pytest.raises(CheckFailed, match="same"):
        monitor.check(grid)  # the second has another last answer of the silent client
    federation.silent = set()
    assert off(monitor.check(grid), federation.truth()) < 7
    federation.silent = silent
    report = monitor.check(grid)
    assert report.cohort.silent == 1
    assert off(report, federation.truth()) < 7


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("trust", "why"),
    [
        (Trusted(1.0), "delta > 0"),
        (Trusted(1.0, DELTA, protects=WholeClients(5)), "records"),
        (Distributed(1.0, 5), "Trusted"),
        (1.0, "Trusted"),
    ],
)
def test_other_trust_models_do_not_stand(trust, why):
    with pytest.raises((TypeError, ValueError), match=why):
        Standing(trust)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"cohort": RotatingCohort(5)}, "cohort"),
        ({"cohort": UniformCohort(5)}, "cohort"),
        ({"aggregation": SecureSum()}, "PlainSum"),
        ({"most_records": 5}, "most_records"),
    ],
)
def test_what_a_session_cannot_ask_is_refused(options, why):
    with pytest.raises(ValueError, match=why):
        KLDrift(REFERENCE, Standing(Trusted(1.0, DELTA)), **options)


def test_no_model_is_shown_in_a_session():
    monitor = KLDrift(REFERENCE, Standing(Trusted(1.0, DELTA)))
    with pytest.raises(ValueError, match="model"):
        monitor.check(grid_of(), model=ArrayRecord())
    assert monitor.checks == 0


def lie(change) -> object:
    """A server that changes the terms it sends."""

    def meddle(message: Message) -> None:
        told = message.content.get(TERMS)
        if isinstance(told, ConfigRecord) and told.get("night"):
            terms = change(Terms.from_config(told))
            message.content[TERMS] = ConfigRecord(terms.to_config())

    return meddle


def night_of(terms: Terms, **changes: object) -> Terms:
    assert terms.night is not None
    return replace(terms, night=replace(terms.night, **changes))


CHANGES = {
    "first": lambda terms: night_of(terms, number=1, released=0, marks=terms.night.marks[:MARK]),
    "again": lambda terms: night_of(
        terms, number=2, released=0, marks=terms.night.marks[: 2 * MARK]
    ),
    "longer": lambda terms: night_of(terms, nights=NIGHTS + 1),
    "moves": lambda terms: night_of(terms, moves=4),
    "epsilon": lambda terms: replace(terms, guarantee=replace(terms.guarantee, epsilon=2.0)),
    "plan": lambda terms: replace(terms, plan="another"),
}


def test_a_server_that_changes_a_session_is_answered_by_nobody(federation):
    monitor, pushed = federation.monitor(), federation.grid.push_messages
    for _ in range(2):
        monitor.check(federation.grid)
    for name, change in CHANGES.items():

        def push(messages, change=change):
            messages = list(messages)
            for message in messages:
                lie(change)(message)
            return pushed(messages)

        federation.grid.push_messages = push
        with pytest.raises(CheckFailed):
            pytest.fail(f"{name}: {monitor.check(federation.grid)}")
    federation.grid.push_messages = pushed
    assert monitor.check(federation.grid).cohort.survivors == NODES


def test_a_client_cannot_end_a_session_that_begins(trusted):
    """Nobody has counted a night of it: whoever says so is left out."""
    push = trusted.grid.pull_messages

    def lying(ids):
        replies = list(push(ids))
        for reply in replies[:1]:
            told = reply.content["answer"]
            answer = json.loads(str(told["answer"])) | {"other_night": 1}
            told["answer"] = json.dumps(answer, sort_keys=True, separators=(",", ":"))
        return replies

    trusted.grid.pull_messages = lying
    monitor = trusted.monitor()
    report = monitor.check(trusted.grid)
    ((why, clients),) = report.cohort.dropouts.items()
    assert ("session that begins" in why, clients) == (True, 1)
    with pytest.raises(SessionOver):
        monitor.check(trusted.grid)  # later nights may have been: nobody can tell


def test_whoever_adds_up_and_has_forgotten_says_so(federation, tmp_path):
    monitor = federation.monitor()
    monitor.check(federation.grid)
    for path in [*tmp_path.glob("*.sessions*"), *tmp_path.glob("standing.db*")]:
        if not path.name.endswith(".key"):
            path.unlink()
    with pytest.raises(SessionOver, match="SessionForgotten"):
        monitor.check(federation.grid)


def test_a_book_that_cannot_be_kept_is_refused_before_anything_is_paid_for(trusted, tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(1.0, DELTA, window_days=400))
    trust = Standing(Trusted(1.0, DELTA), book=tmp_path / "nowhere" / "standing.db")
    with pytest.raises(CheckFailed, match="nowhere"):
        KLDrift(REFERENCE, trust, ledger=ledger).check(trusted.grid)
    assert ledger.spent().epsilon == 0


def test_a_night_outside_of_its_session_cannot_be_said():
    for number, nights, released in ((0, 5, 0), (6, 5, 5), (3, 5, 3)):
        with pytest.raises(ValueError, match="number"):
            a_night("s", number, nights, 2, released)


def test_a_notebook_deals_the_same_rows_on_every_night(tmp_path, environment):
    environment["FLWR_HOME"] = str(tmp_path)
    trust = Standing(Trusted(1.0, DELTA), nights=5, book=tmp_path / "b.db")
    monitor, rows = KLDrift(REFERENCE, trust), ["apple", "banana", "cherry"] * 400
    for night in range(1, 4):
        report = simulate(monitor, rows, clients=6, seed=1)
        assert (report.cost.night, report.reading.records) == (night, len(rows))
        assert off(report, np.array([400, 400, 400, 0, 0, 0])) < 7


# --------------------------------------------------------------------------------- descriptions


def ledger_in(folder: Path) -> Ledger:
    ledger = Ledger(f"sqlite:///{folder}/drift.db")
    ledger.set_budget(Budget(1.5, 2 * DELTA, window_days=400))
    return ledger


def test_a_year_of_descriptions_costs_one_charge(federation):
    """Each night says what is there that night: half of the apples turn into cherries."""
    ledger = ledger_in(federation.folder)
    for night in range(1, 5):
        session = federation.standing(moves=4)
        report = Statistics(FRUIT, session, ledger=ledger, timeout=5.0).ask(
            federation.grid, f"night-{night}"
        )
        (column,) = report.columns.values()
        seen = np.array(column.counts.values)
        assert np.abs(seen - federation.truth()).max() <= 6 * report.protection.noise
        assert (report.cost.night, report.cost.nights) == (night, NIGHTS)
        apple = column.statistics.histogram[0]
        there = federation.truth()[0] / federation.truth().sum()
        assert abs(apple.value - there) <= 6 * apple.deviation
        assert apple.low < apple.value < apple.high
        assert report.as_reference(FRUIT).fingerprint == report.reference
        if night == 2:
            for own in federation.records.values():
                changed = [row for row, fruit in own.items() if fruit == FRUIT.names[0]][::2]
                own |= dict.fromkeys(changed, FRUIT.names[2])
    assert ledger.spent().epsilon == pytest.approx(1.0, abs=1e-4)


def test_silent_clients_are_described_as_they_were(federation):
    asked = Statistics(FRUIT, federation.standing(), timeout=5.0)
    asked.ask(federation.grid)
    federation.silent = {1000, 1001}
    report = asked.ask(federation.grid)
    assert report.cohort.silent == 2
    assert np.abs(report.records - NODES * EACH) < 1


def test_another_table_is_another_session(trusted):
    ledger = ledger_in(trusted.folder)
    Statistics(FRUIT, trusted.standing(), ledger=ledger, timeout=5.0).ask(trusted.grid)
    other = Labels([*FRUIT.names, "kiwi"])
    with pytest.raises(CheckFailed, match="else"):
        Statistics(other, trusted.standing(), ledger=ledger, timeout=5.0).ask(trusted.grid)
    assert ledger.spent().epsilon == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    "options",
    [{"cohort": UniformCohort(10)}, {"most_records": 5}],
)
def test_what_no_night_is_asked_for_is_refused(trusted, options):
    with pytest.raises(ValueError, match=r"session|population"):
        Statistics(FRUIT, trusted.standing(), **options)
