"""First lines: short, with few numbers, in every world and of every kind of report."""

import json
import re
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
from report.samples import REPORT, STATISTICS, altered, decided, learnt

from flwr_kld import Binned, Labels, Reference
from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.verdict import Cause, Outcome
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.column import in_rank, word_of
from flwr_kld.report.conclusions import Conclusions
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
from flwr_kld.report.summary import MOST_WORDS, first_line, words_in
from flwr_kld.report.words import brief
from flwr_kld.trust.calibration import calibrated_laplace

WARDS = ["surgery", "intensive care of the children's hospital, second floor", "<b>", "maternity"]
LONG = "a column of a name that is longer than there is room for"
REFERENCES = {
    "ward": Reference.from_counts(Labels(WARDS), [500, 300, 200, 100]),
    "age": Reference.from_counts(Binned([20.0, 40.0, 60.0]), [100, 300, 400, 200, 0]),
    LONG: Reference.from_counts(Binned([1.0, 2.0, 3.0]), [100, 200, 300, 200, 3]),
}
TWO = ("ward", LONG)
CLIENTS = {drawn: AskedClients([Participant(n, 0) for n in range(40)], drawn) for drawn in (0, 1)}
DRIFTS = ("none", "little", "much", "unlisted", "vanished", "missing")


def law_of(reference, drift):
    law = reference.probabilities.copy()
    if drift == "vanished":
        law[0] = 0
    elif drift != "none":
        part = {"little": 0.05, "much": 0.3, "unlisted": 0.25, "missing": 0.25}[drift]
        law *= 1 - part
        law[{"unlisted": -2, "missing": -1}.get(drift, 0)] += part
    return law / law.sum()


@cache
def column(name, drift, records, epsilon, threshold, drawn):
    """A column as a check concludes on it."""
    reference, rng = REFERENCES[name], np.random.default_rng(records)
    plan = Partition().draw(reference, rng)
    values = np.bincount(plan.cell_of, rng.multinomial(records, law_of(reference, drift)))
    event = calibrated_laplace(Guarantee(epsilon))
    noise = rng.choice(event.table.support, plan.cells, p=event.table.probabilities)
    noisy = (values + noise).astype(np.int64)
    counts = NoisyCounts(noisy, float(records), event, plan, private=True)
    (only,) = reference.columns
    tolerated = None if threshold is None else {only: (threshold, 0.05)}
    measured = CohortRelease(counts, CLIENTS[drawn], 40, {}, (0.0, 0.0), most_records=records // 40)
    columns, _ = Conclusions(reference, tolerated, Alarm()).conclude(measured, "budget")
    return columns[only]


WORLDS = (
    (400, 0.3, 0.15, False), (8000, 3.0, 0.15, False), (8000, 3.0, 0.15, True),
    (8000, 3.0, None, False), (8000, 3.0, 0.0, False),
)  # fmt: skip
"""Records, ε, threshold, and whether clients are drawn."""


def checks():
    """Every table of two columns that drifted somehow, in every world; and each column alone."""
    for world in WORLDS:
        for drifts in product(DRIFTS, DRIFTS):
            pair = zip(TWO, drifts, strict=True)
            table = {name: column(name, drift, *world) for name, drift in pair}
            yield replace(REPORT, columns=table)
        for name, drift in product(TWO, DRIFTS):
            yield replace(REPORT, columns={name: column(name, drift, *world)})


CAUSES = {
    Outcome.DRIFT: (Cause.DIVERGENCE, Cause.OUTSIDE, Cause.EVIDENCE),
    Outcome.NO_DRIFT: (Cause.LIMITS,),
    Outcome.NO_ALARM: (Cause.FORECAST,),
    Outcome.INCONCLUSIVE: (Cause.LIMITS, Cause.DRAW, Cause.NEAR, Cause.OLD, Cause.CONTRADICTION),
}


def of_every_cause():
    """Checks with each outcome that rests on each cause; in one, nothing is known to have moved."""
    for drift, (outcome, causes) in product(("none", "much"), CAUSES.items()):
        moved = column("age", drift, 8000, 3.0, 0.15, drawn=False)
        for cause in causes:
            verdict = replace(decided(outcome, 0.1).verdict, cause=cause)
            yield replace(REPORT, columns={"age": replace(moved, verdict=verdict)})


def others():
    """Reports of every other kind."""
    yield from (
        STATISTICS,
        learnt(1),
        altered(learnt(2), outlasts=0),
        altered(learnt(3), refuted=True),
    )
    found = FoundLabel("Krankenpflegerin", 40.0, 31.0, 49.0)
    for labels in ((), (found,), (found, replace(found, name="x" * 70))):
        yield DiscoveryReport(
            reading=Discovered("job", labels, 20, 33),
            **{name: getattr(REPORT, name) for name in (
                "started", "guarantee", "cohort", "cost", "protection", "one_client",
            )},
        )  # fmt: skip


def measured_in(line):
    """Numbers of a line that were measured: its fractions."""
    return re.findall(r"[\d.,]+ %", line)


def test_first_lines_are_short_and_have_few_numbers():
    reports = [*checks(), *of_every_cause(), *others()]
    assert len(reports) > 200
    for report in reports:
        line = report.summary
        assert words_in(line) <= MOST_WORDS, line
        assert len(measured_in(line)) <= 2, line
        assert "\n" not in line
        assert not re.search(r"[()\[\]]", line), line
        assert line.endswith("."), line
        assert str(report).startswith(line[:40])


def test_with_too_few_data_a_first_line_has_a_limit_and_no_change():
    lines = [
        report.summary
        for report in checks()
        if report.outcome in (Outcome.INCONCLUSIVE, Outcome.NO_ALARM)
        and "too few data" in report.summary
        and not any(one.moved for one in report.columns.values())
    ]
    limits = [line for line in lines if measured_in(line)]
    assert len(limits) > 5
    assert all(re.search(r"Up to .* may have (another|changed)", line) for line in limits)
    blind = column("ward", "none", *WORLDS[0])
    far = replace(blind.figures.total_variation, high=0.999)
    blind = replace(blind, figures=replace(blind.figures, total_variation=far))
    assert "excludes nothing" in replace(REPORT, columns={"ward": blind}).summary


def test_reports_can_be_written_and_read():
    for report in (*checks(), *of_every_cause(), *others()):
        assert type(report).from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_no_two_outcomes_have_a_first_word_in_common():
    heads = {}
    for report in (*checks(), *of_every_cause()):
        heads.setdefault(report.outcome, set()).add(re.split("[:,]", report.summary)[0])
    assert heads.keys() == {*Outcome, None}
    assert len(set.union(*heads.values())) == sum(map(len, heads.values()))
    assert len(heads[Outcome.INCONCLUSIVE]) == 2  # too few data, or a drift that is not sure


def test_what_a_first_line_names_ended_as_it_says():
    for report in checks():
        if report.verdict is None:
            continue
        head = re.split("[:,]", report.summary)[0].lower()
        words = {name: word_of(one.verdict) for name, one in report.columns.items()}
        if report.outcome is Outcome.INCONCLUSIVE:
            assert (head == "suspected") is ("suspected" in words.values())
        said = {word for name, word in words.items() if brief(name) in report.summary}
        first = next(iter(words.values()))
        if first != "no drift":
            assert said == {first} or "moved" in report.summary


def test_what_moved_outside_the_reference_is_no_more_than_what_changed():
    for report in checks():
        for one in report.columns.values():
            changed, outside = one.changed, one.reading.outside
            assert 0 <= changed.low <= changed.value <= changed.high <= 1
            limits = None if one.reading.drawn or one.verdict is None else one.verdict.outside
            if limits is not None and limits.lower > limits.tolerated:
                assert outside.share <= changed.value
                assert limits.lower - limits.tolerated <= changed.low
                assert limits.upper <= changed.high


def test_what_drawn_clients_have_outside_is_no_limit_of_who_they_were_drawn_from():
    asked, drawn = (column("ward", "unlisted", 8000, 3.0, 0.15, drawn=who) for who in (0, 1))
    for one, held in ((asked, True), (drawn, False)):
        limits = one.verdict.outside
        assert (one.changed.low >= limits.lower - limits.tolerated) is held


def test_an_inconclusive_check_names_what_moved_in_a_column_that_is_decided():
    """Too few data for one column, and a clear but tolerated change in another."""
    counted = {
        "ward": column("ward", "much", 40_000, 1.0, 0.5, False),
        "age": column("age", "none", 300, 0.05, 0.001, False),
    }
    outcomes = {name: one.outcome for name, one in counted.items()}
    assert outcomes == {"ward": Outcome.NO_DRIFT, "age": Outcome.INCONCLUSIVE}
    line = first_line(in_rank(counted), counted["age"].verdict)
    assert "judge age" in line
    assert "ward moved too little" in line
