"""Survival from what clients released: read, refused where it cannot be, drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from flwr.clientapp import ClientApp
from recipes import recipe_text

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.report import Survival
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Statistics, Trusted

CLINICS, PATIENTS = 5, 800
DIED = Survival("months", "died", by="arm")
TABLE = Table(
    {
        "months": Binned(list(range(24))),
        "died": Labels(["no", "yes"]),
        "arm": Labels(["old", "new"]),
    },
    interactions=[DIED.columns],
    units={"months": "months"},
)


def patients(clinic: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(clinic)
    new = rng.random(PATIENTS) < 0.5
    time, seen = rng.weibull(1.3, PATIENTS) * np.where(new, 22, 10), rng.uniform(4, 30, PATIENTS)
    died = np.where(rng.random(PATIENTS) < 0.005, "unknown", np.where(time <= seen, "yes", "no"))
    months = np.minimum(time, seen)
    return {"months": months, "died": died, "arm": np.where(new, "new", "old")}


def clinics(table: Table) -> InProcessGrid:
    app = ClientApp()
    answer_drift_queries(app, lambda own: patients(int(own.node_config["partition-id"])), table)
    return InProcessGrid(app, CLINICS)


@pytest.fixture(scope="module")
def report():
    return Statistics(TABLE, Trusted(3.0, 1e-6)).ask(clinics(TABLE))


def exact(arm: str) -> np.ndarray:
    """Of the times themselves, at the end of each month; who is unknown is left out."""
    rows = [patients(clinic) for clinic in range(CLINICS)]
    time, died, of = (np.concatenate([own[name] for own in rows]) for name in TABLE.features)
    keep = (of == arm) & (died != "unknown")
    order = np.argsort(time[keep])
    time, died = time[keep][order], died[keep][order] == "yes"
    curve = np.cumprod(1 - died / np.arange(len(time), 0, -1))
    return curve[np.searchsorted(time, TABLE.features["months"].edges[1:], side="right") - 1]


@pytest.mark.rate(1e-6)
def test_arms_are_told_apart_and_their_curves_lie_near_their_bands(report):
    """Within its own width of each: a band is some six deviations wide, so at nine of them."""
    found = DIED.of(report, TABLE)
    assert found.log_rank < 1e-6
    assert [curve.group for curve in found.curves] == ["old", "new"]
    for curve in found.curves:
        truth = exact(curve.group)
        low, high = (np.array(x)[: len(found.times)] for x in (curve.low, curve.high))
        width = high - low
        assert ((low - width <= truth + 1e-9) & (truth <= high + width + 1e-9)).all()
        assert np.abs(np.array(curve.survival)[: len(found.times)] - truth).max() < 0.15
    text = str(found)
    assert "old" in text
    assert "Log-rank" in text
    assert json.loads(json.dumps(found.to_dict()))["times"] == list(found.times)


def test_what_the_same_records_lack_is_left_out_once():
    """Half of the patients have neither a time nor an outcome."""
    asked = Survival("months", "died")
    table = Table(TABLE.features, interactions=[asked.columns])

    def some(context):
        held = patients(int(context.node_config["partition-id"]))
        lost = np.arange(PATIENTS) % 2 == 0
        months = np.where(lost, np.nan, held["months"])
        return {**held, "months": months, "died": np.where(lost, "", held["died"])}

    app = ClientApp()
    answer_drift_queries(app, some, table)
    report = Statistics(table, Trusted(3.0, 1e-6)).ask(InProcessGrid(app, CLINICS))
    (curve,) = asked.of(report, table).curves
    assert curve.at_risk[0] == pytest.approx(0.995 / 2 * CLINICS * PATIENTS, rel=0.05)
    assert 0.1 < curve.survival[15] < 0.6


def asked_of(rows, survival, features=None):
    table = Table(features or TABLE.features, interactions=[survival.columns])
    app = ClientApp()
    answer_drift_queries(app, lambda _: rows, table)
    report = Statistics(table, Trusted(3.0, 1e-6)).ask(InProcessGrid(app, 3))
    return survival.of(report, table)


def lives(rng, records=4000, scale=12.0):
    time, seen = rng.exponential(scale, records), rng.uniform(4, 40, records)
    return np.minimum(time, seen), time <= seen


def of_times(time, event, at):
    order = np.argsort(time)
    curve = np.append(1.0, np.cumprod(1 - event[order] / np.arange(len(time), 0, -1)))
    return curve[np.searchsorted(time[order], at, side="right")]


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("code", ["", "2"])
def test_who_has_no_event_is_censored_or_counted_as_left_out(code):
    """As many tables have it: the event is empty until it happens, or another code."""
    months, died = lives(np.random.default_rng(1))
    rows = {"months": months, "died": np.where(died, "yes", code), "arm": ["old"] * len(months)}
    truth = of_times(months, died, np.arange(1.0, 24))
    found = asked_of(rows, Survival("months", "died", others="censored"))
    off = np.array(found.curves[0].survival[:-1]) - truth
    assert np.abs(off).max() < 0.05
    assert found.left_out[0].value < 5 * found.left_out[0].deviation
    left_out = asked_of(rows, Survival("months", "died"))
    assert left_out.left_out[0].value == pytest.approx(3 * (~died).sum(), rel=0.1)
    assert f"{left_out.left_out[0].value:,.0f} (" in str(left_out)
    labels = {**TABLE.features, "died": Labels(["no", "yes", "2"])}
    with_code = asked_of(rows, Survival("months", "died", others="censored"), labels)
    assert with_code.curves[0].survival[11] == pytest.approx(truth[11], abs=0.05)


@pytest.mark.rate(1e-6)
def test_equal_arms_are_not_told_apart_by_whom_they_leave_out():
    """Of one arm, who lives has no event written down."""
    months, died = lives(np.random.default_rng(2), 8000)
    arm = np.where(np.arange(8000) % 2, "old", "new")
    written = np.where(died, "yes", np.where(arm == "new", "", "no"))
    found = asked_of({"months": months, "died": written, "arm": arm}, DIED)
    assert found.log_rank is None
    assert "no log-rank test" in str(found)
    both = Survival("months", "died", by="arm", others="censored")
    assert asked_of({"months": months, "died": written, "arm": arm}, both).log_rank > 1e-6


@pytest.mark.rate(1e-6)
def test_a_negative_time_is_no_time():
    rng = np.random.default_rng(3)
    months, died = lives(rng)
    wrong = rng.random(len(months)) < 0.1
    rows = {
        "months": np.where(wrong, -months, months),
        "died": np.where(died, "yes", "no"),
        "arm": ["old"] * len(months),
    }
    found = asked_of(rows, Survival("months", "died"))
    truth = of_times(months[~wrong], died[~wrong], np.arange(1.0, 24))
    assert found.times[0] == 1
    assert np.abs(np.array(found.curves[0].survival[:-1]) - truth).max() < 0.05
    assert found.left_out[0].value == pytest.approx(3 * wrong.sum(), rel=0.15)
    with_those = {**TABLE.features, "months": Binned.uniform(0, 24, 24)}
    assert "edge at 0" in " ".join(
        str(asked_of(rows, Survival("months", "died"), with_those)).split()
    )


@pytest.mark.parametrize("unnamed", ["months", "died", "arm"])
def test_a_feature_may_have_an_empty_name(unnamed):
    """As the first column of many files has: a curve of all has no group by it."""
    names = {own: "" if own == unnamed else own for own in TABLE.features}
    by = names["arm"] if unnamed == "arm" else None
    asked = Survival(names["months"], names["died"], by=by)
    table = Table({names[own]: domain for own, domain in TABLE.features.items()}, [asked.columns])
    rows = {"months": [5.0] * 200, "died": ["yes"] * 200, "arm": ["old"] * 200}
    app = ClientApp()
    answer_drift_queries(app, lambda _: {names[own]: held for own, held in rows.items()}, table)
    found = asked.of(Statistics(table, Trusted(3.0, 1e-6)).ask(InProcessGrid(app, 3)), table)
    assert [curve.group for curve in found.curves] == ([""] if by is None else ["old", "new"])
    assert found.curves[0].at_risk[0] == pytest.approx(600, rel=0.1)


def test_odd_labels_are_told_apart_and_an_event_may_be_a_number(tmp_path):
    asked = Survival("months", "died", happened="1", by="arm")
    features = {**TABLE.features, "died": Labels([0, 1]), "arm": Labels(["", "\x1b[31m\n"])}
    table = Table(features, [asked.columns])
    rows = {"months": [5.0] * 200, "died": [1] * 200, "arm": ["", "\x1b[31m\n"] * 100}
    app = ClientApp()
    answer_drift_queries(app, lambda _: rows, table)
    found = asked.of(Statistics(table, Trusted(3.0, 1e-6)).ask(InProcessGrid(app, 3)), table)
    assert found.curves[0].survival[6] < 0.1
    named = [line.split("  ")[0] for line in str(found).splitlines()]
    assert {"''", r"'\x1b[31m\n'"} <= set(named)
    found.plot(tmp_path / "curves.png")


WRONG = {
    "no such pair": (Survival("months", "died"), TABLE, "does not count"),
    "time and event exchanged": (
        Survival("died", "months"),
        Table(TABLE.features, interactions=[("died", "months")]),
        "no edges",
    ),
    "an event of one label": (
        Survival("months", "died"),
        Table({**TABLE.features, "died": Labels(["no", "yes", "lost"])}, [("months", "died")]),
        "two labels",
    ),
    "a label that is none": (
        Survival("months", "died", happened="dead"),
        Table(TABLE.features, interactions=[("months", "died")]),
        "no label 'dead'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_read_is_refused(wrong, report):
    asked, table, why = WRONG[wrong]
    columns = dict.fromkeys(table.columns, report.columns["arm"])
    with pytest.raises(ValueError, match=why):
        asked.of(replace(report, columns=columns, domain=table.fingerprint), table)


def test_another_table_is_refused(report):
    with pytest.raises(ValueError, match="table"):
        DIED.of(report, Table({**TABLE.features, "more": ["a"]}, interactions=[DIED.columns]))


@pytest.mark.parametrize("asked", [DIED, Survival("months", "died")])
def test_a_federation_whose_patients_all_die_late_is_told_and_drawn(asked, tmp_path):
    """Beyond the last edge: by a time that has no end."""
    table = Table(TABLE.features, interactions=[asked.columns], units={"months": "$\\bad$"})
    rows = {"months": [99.0] * 200, "died": ["yes"] * 200, "arm": ["old"] * 200}
    app = ClientApp()
    answer_drift_queries(app, lambda _: rows, table)
    found = asked.of(Statistics(table, Trusted(3.0, 1e-6)).ask(InProcessGrid(app, 3)), table)
    assert "half not reached" in str(found)
    found.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_the_guides_recipe_draws_them(tmp_path, here, capsys):
    exec(compile(recipe_text("survival.py"), "survival.py", "exec"), {"grid": clinics(TABLE)})
    assert "Log-rank test of a difference: p" in capsys.readouterr().out
    assert (tmp_path / "survival.png").exists()
