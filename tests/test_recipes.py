"""The recipes of README and docs run as they stand."""

import re
import sys
from datetime import date
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Strategy
from recipes import recipe_text
from typer.testing import CliRunner

from flwr_kld import Labels, Reference, Table
from flwr_kld.cli.app import app
from flwr_kld.clients import AggregatorKey, answer_drift_queries
from flwr_kld.common.errors import NobodyAnswered
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.report.stored_reference import stored_reference
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.simulations import simulate
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    Standing,
    Statistics,
    Trusted,
    TrustedAggregator,
)


def recipe(name: str) -> dict[str, object]:
    """Run one of the files and return its names."""
    names: dict[str, object] = {}
    exec(compile(recipe_text(name), name, "exec"), names)
    return names


@pytest.fixture
def grid():
    return InProcessGrid(recipe("client_app.py")["app"], nodes=40)


def test_the_server_recipe_checks_the_clients_of_the_client_recipe(grid, capsys):
    app = recipe("server_app.py")["app"]
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    app(grid, context)
    printed = capsys.readouterr().out
    assert "KL(reference ‖ clients) in nats" in printed
    assert "2,000 records of 20 of 20 drawn clients" in " ".join(printed.split())
    assert float(printed.splitlines()[-1]) > 0


def test_the_client_recipe_still_trains(grid):
    (reply,) = grid.send_and_receive([Message(RecordDict(), 1000, "train")])
    assert reply.content["metrics"]["loss"] == 0.1


TOWNS = ("ayr", "bern", "como", "delft")


def test_the_secure_recipes_check_four_nodes_with_pinned_keys(tmp_path):
    keys = {town: Identity.generate() for town in TOWNS}
    roster = Roster({town: key.public for town, key in keys.items()})
    (tmp_path / "roster.json").write_text(roster.to_json())
    domain = Labels(["bus", "car", "train", "walk"])
    Reference.from_counts(domain, [310, 250, 120, 320]).save(tmp_path / "reference.json")
    for town, key in keys.items():
        (tmp_path / town).touch(0o600)
        (tmp_path / town).write_bytes(key.to_bytes())
    app = recipe("secure_client.py")["app"]

    def dispatch(message, context):
        town = tmp_path / TOWNS[context.node_config["partition-id"]]
        files = {"drift-identity": str(town), "drift-roster": str(tmp_path / "roster.json")}
        context.node_config.update(files)
        return app(message, context)

    names: dict[str, object] = {}
    text = recipe_text("secure_server.py").replace("/etc/flwr-kld", str(tmp_path))
    exec(compile(text, "secure_server.py", "exec"), names)
    report = names["monitor"].check(InProcessGrid(dispatch, nodes=4))
    assert (report.cohort.survivors, report.reading.records, report.protection.aggregation) == (
        4,
        400,
        "secure-sum",
    )
    assert isinstance(names["strategy"], Strategy)


def test_the_nightly_recipe_decides_and_runs_once(tmp_path):
    """At 95 %, and with 3.7 nats of drift in 400 clients: far beyond what chance can hide."""
    domain = Labels(["bus", "car", "train", "walk"])
    Reference.from_counts(domain, [40, 40, 900, 20]).save(tmp_path / "reference.json")
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(1.0, 1e-6, window_days=30))
    names: dict[str, object] = {}
    text = recipe_text("nightly_server.py").replace("/etc/flwr-kld", str(tmp_path))
    text = text.replace("sqlite:////var/lib/flwr-kld/drift.db", url)
    assert "horizon=365" in text
    text = text.replace("horizon=365", "horizon=1")
    exec(compile(text, "nightly_server.py", "exec"), names)
    grid = InProcessGrid(recipe("client_app.py")["app"], nodes=400)
    config = {"drift-check": "2026-11-21"}
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=config)
    names["app"](grid, context)
    kept = Ledger(url).check("2026-11-21")
    assert kept.state == "settled"
    assert kept.report["verdict"]["outcome"] == "drift"


def test_the_reference_recipe_builds_one_and_checks_against_it(tmp_path):
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(3.0, 1e-6, window_days=30))
    text = recipe_text("reference_server.py").replace("/etc/flwr-kld", str(tmp_path))
    text = text.replace("sqlite:////var/lib/flwr-kld/drift.db", url)
    names: dict[str, object] = {}
    exec(compile(text, "reference_server.py", "exec"), names)
    grid = InProcessGrid(recipe("client_app.py")["app"], nodes=400)
    for config in (
        {"drift-statistics": "2026-09", "drift-check": ""},
        {"drift-statistics": "", "drift-check": "2026-11-21"},
    ):
        context = Context(
            run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=config
        )
        names["app"](grid, context)
        if config["drift-statistics"]:
            stored_reference(Ledger(url), "2026-09").save(tmp_path / "reference.json")
    assert Ledger(url).check("2026-11-21").report["verdict"]["outcome"] != "drift"


def test_the_predictor_recipe_learns(capsys):
    names = recipe("predictor.py")
    grid = InProcessGrid(names["client_app"], nodes=300)
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    names["server_app"](grid, context)
    assert re.search(r"300\s+of\s+300\s+clients", capsys.readouterr().out)


@pytest.mark.rate(1e-5)
def test_the_recipe_with_contexts_learns_on_weekends():
    names = recipe("weekends.py")
    grid = InProcessGrid(names["client_app"], nodes=200)
    weekdays = names["rounds"](grid, ["weekday"] * 2).reading.weights
    assert weekdays["July"] == pytest.approx(0.5)
    assert names["rounds"](grid, ["weekday", "weekend", "weekend"]).reading.weights["July"] > 0.9


def test_the_recipe_for_few_clients_reads_all_records_on_every_night(tmp_path):
    """Of 12,000 records at each of three clients; 0.04 nats from Π."""
    client = recipe("small_client.py")["app"]
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(1.0, 1e-6, window_days=30))

    def dispatch(message, context):
        context.node_config["drift-memory"] = str(tmp_path / str(context.node_id))
        return client(message, context)

    text = recipe_text("small_server.py").replace("sqlite:////var/lib/flwr-kld/drift.db", url)
    text = text.replace("/var/lib/flwr-kld/standing.db", str(tmp_path / "standing.db"))
    names: dict[str, object] = {}
    exec(compile(text, "small_server.py", "exec"), names)
    grid = InProcessGrid(dispatch, nodes=3)
    for night in range(2):
        report = names["monitor"].check(grid, key=str(night))
        assert report.cohort.survivors == 3
        assert report.verdict is not None
        assert report.reading.records == 36_000
    assert Ledger(url).spent().left < 1e-4


def test_the_aggregators_recipes_check_through_it(tmp_path, here, capsys):
    key = recipe("aggregator_key.py")["key"]
    assert capsys.readouterr().out.strip() == key.public.hex()
    apps = {}
    for side, file in (("client", "aggregator_client.py"), ("server", "aggregator_server.py")):
        text = recipe_text(file)
        (pinned,) = re.findall(r"[0-9a-f]{64}", text)
        names: dict[str, object] = {}
        exec(compile(text.replace(pinned, key.public.hex()), file, "exec"), names)
        apps[side] = names

    def dispatch(message, context):
        if context.node_config["partition-id"] == 0:
            own = {"drift-role": "aggregator", "drift-key": str(tmp_path / "aggregator.key")}
            context.node_config.update(own | {"drift-memory": str(tmp_path / "memory.db")})
        return apps["client"]["app"](message, context)

    report = apps["server"]["monitor"].check(InProcessGrid(dispatch, nodes=6))
    assert (report.cohort.survivors, report.protection.trust) == (5, "trusted-aggregator")


def people(rng: np.random.Generator, rows: int, of_60: float) -> pd.DataFrame:
    shares = [0.15, 0.25, 0.85 - 0.25 - of_60, of_60 * 0.6, of_60 * 0.4]
    bins = rng.choice(5, size=rows, p=np.array(shares) / sum(shares))
    wards = rng.choice(["surgery", "medicine", "icu"], size=rows, p=[0.4, 0.5, 0.1])
    return pd.DataFrame({"age": np.array([20, 35, 50, 65, 80])[bins], "ward": wards})


def test_the_readmes_table_is_checked_column_by_column(tmp_path, monkeypatch, capsys):
    """Of 60 nodes with 200 rows each; 0.2 nats beyond the threshold, so both verdicts are sure."""
    rng = np.random.default_rng(1)
    people(rng, 100_000, of_60=0.25).to_csv(tmp_path / "public.csv", index=False)
    client = recipe("client.py")
    module = ModuleType("hospital.client_app")
    module.table = client["table"]
    monkeypatch.setitem(sys.modules, "hospital", ModuleType("hospital"))
    monkeypatch.setitem(sys.modules, "hospital.client_app", module)
    for node in range(60):
        people(rng, 200, of_60=0.55).to_csv(tmp_path / f"{node}.csv", index=False)

    def dispatch(message, context):
        file = tmp_path / f"{context.node_config['partition-id']}.csv"
        context.node_config["drift-records"] = str(file)
        return client["app"](message, context)

    text = recipe_text("server.py").replace("/srv/hospital", str(tmp_path))
    names: dict[str, object] = {}
    exec(compile(text, "server.py", "exec"), names)
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    grid = InProcessGrid(dispatch, nodes=60)
    names["app"](grid, context)
    age, ward = capsys.readouterr().out.splitlines()
    assert age.startswith("age: drift, 0.")
    assert "and over: 25 % → 5" in age
    assert ward.startswith(("ward: no drift, ", "ward: inconclusive, "))

    exec(compile(recipe_text("describe.py"), "describe.py", "exec"), names | {"grid": grid})
    printed = capsys.readouterr().out
    assert "about these 60 clients" in printed
    assert re.search(r"^ward +1[12],\d{3} .*medicine \d", printed, re.MULTILINE)


def test_sites_on_one_machine_are_checked_by_what_init_wrote(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)

    def write(file, rows, icu):
        wards = rng.choice(["icu", "surgery"], rows, p=[icu, 1 - icu])
        lines = zip(wards, rng.normal(100, 15, rows).round(1), strict=True)
        file.write_text("ward,height\n" + "".join(f"{w},{h}\n" for w, h in lines))

    write(tmp_path / "sample.csv", 3000, 0.2)
    for place in (1, 2, 3):
        write(tmp_path / f"site-{place}.csv", 2000, 0.2 if place == 3 else 0.9)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flwr_kld.cli.init.foreseen", lambda *_: ())
    done = CliRunner().invoke(app, ["init", "sample.csv", "--out", "app"])
    assert done.exit_code == 0, done.output
    exec(compile(recipe_text("three_sites.py"), "three_sites.py", "exec"), {})
    assert "ALARM: ward" in capsys.readouterr().out
    asked = ("--mine", "report.json", "--reference", "app/app/reference.json", "--data")
    codes = [CliRunner().invoke(app, ["report", *asked, f"site-{i}.csv"]).exit_code for i in (1, 3)]
    assert codes == [1, 0]  # the node's own ward moved, and did not


def test_a_cohort_rule_of_ones_own_asks_by_its_day():
    rule = recipe("by_weekday.py")["ByWeekday"](lambda: date(2026, 11, 24))
    reference = Reference.from_counts(Labels(["bus", "car"]), [300, 300, 1, 1])
    report = simulate(KLDrift(reference, Trusted(3.0), cohort=rule), ["bus"] * 210, clients=21)
    assert (report.cohort.asked, report.reading.records) == (3, 30)


def test_an_aggregation_of_ones_own_asks_its_sites_or_nobody():
    made = recipe("sites.py")["SumOfSites"]
    domain = Labels(["bus", "car"])
    reference = Reference.from_counts(domain, [300, 300, 1, 1])
    app = ClientApp()
    answer_drift_queries(app, lambda context: ["bus"] * 10, domain)
    grid = InProcessGrid(app, nodes=5)
    nodes = list(grid.get_node_ids())
    report = KLDrift(reference, Trusted(3.0), aggregation=made(nodes[:3])).check(grid)
    assert (report.cohort.asked, report.reading.records) == (3, 30)
    assert report.protection.aggregation == "sum-of-sites"
    with pytest.raises(RuntimeError, match="1 of 4"):
        KLDrift(reference, Trusted(3.0), aggregation=made([*nodes[:3], 1])).check(grid)
    statistics = Statistics(Table({"trip": domain}), Trusted(3.0), aggregation=made(nodes[:2]))
    assert statistics.aggregation.name == "sum-of-sites"

    class Boast(made):
        hides_parts = True

    distributed = KLDrift(reference, Distributed(3.0, min_clients=3), aggregation=Boast(nodes[:4]))
    with pytest.raises(NobodyAnswered, match="refused"):
        distributed.check(grid)
    sealed = TrustedAggregator(1.0, aggregator=AggregatorKey.generate().public)
    for trust in (sealed, Distributed(1.0, min_clients=2)):
        with pytest.raises(ValueError, match="aggregation"):
            KLDrift(reference, trust, aggregation=made(nodes))
    with pytest.raises(ValueError, match="PlainSum"):
        KLDrift(reference, Standing(Trusted(1.0, 1e-6), nights=7), aggregation=made(nodes))
