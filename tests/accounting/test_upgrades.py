"""Ledgers of older versions are brought up to date, with their spends and what they hinted at."""

import json
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from accounting.books import REPORT, ask, pure, stored
from accounting.conftest import NOW
from alembic import command
from alembic.config import Config

from flwr_kld.accounting import BudgetExhausted, Charge, Cost, Everyone, Kind, Ledger, sums
from flwr_kld.accounting.books import keep_cost
from flwr_kld.accounting.entry import AlreadyChecked, Failure, FailureKind
from flwr_kld.accounting.parts import pack
from flwr_kld.accounting.schema import EARLIER, metadata, spends
from flwr_kld.kernel import Guarantee, Unit

SINCE = int(NOW) - 3600
ROUND = Cost.claimed("local", Guarantee(0.02, unit=Unit.CLIENT))
DRAWS = Cost.claimed("integral box", Guarantee(0.05))
MADE = {"schema": "reference 1", "reference": "f00d"}


@contextmanager
def older(url, revision):
    """A connection to a ledger as the version that had this schema made it, with a budget."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", "flwr_kld.accounting:migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.execute(
            sa.text("INSERT INTO budgets VALUES (1, 'default', 0, 1000000000, 0, 2592000, "
                    "'replace-one', 'record', 'sum')")
        )  # fmt: skip
        yield connection
    engine.dispose()


def put(connection, key, cost, *, purpose="check", state="settled", report=None, note=None):
    """Write an entry of one client as those versions did."""
    number = 1 + (connection.execute(sa.text("SELECT max(number) FROM checks")).scalar() or 0)
    columns = {
        "number": number, "population": "default", "purpose": purpose, "key": key,
        "started": SINCE, "ended": None if state == "reserved" else SINCE, "state": state,
        "report": report if report is None or isinstance(report, str) else json.dumps(report),
        "note": note,
    }  # fmt: skip
    names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
    connection.execute(sa.text(f"INSERT INTO checks ({names}) VALUES ({values})"), columns)
    row = {"check": number, "asked": keep_cost(connection, cost), "family": "clients"}
    connection.execute(spends.insert().values(**row, members=pack([0])))


@pytest.mark.parametrize("revision", EARLIER)
def test_an_older_ledger_is_brought_up_to_date_with_its_spends(url, revision):
    with older(url, revision) as connection:
        for i in range(40):
            put(connection, f"old {i}", pure(0.01), report=REPORT)
        put(connection, "given up", pure(0.3), state="abandoned", note="no cohort")
        if revision != "0001":
            wrong = {"population": "default", "level": 1, "block": 0, "family": "clients"}
            connection.execute(sums.sums.insert().values(**wrong, packed=b""))
    ledger = Ledger(url)
    assert ledger.spent(now=NOW).epsilon == 0.4
    assert len(ledger.history()) == 41
    assert ledger.reserve("next", ask(0.6, "new"), now=NOW).number == 42
    with pytest.raises(BudgetExhausted):
        ledger.reserve("more", [Charge(pure(0.7), Everyone())], now=NOW)
    with ledger._database.writing() as connection:
        kept = stored(connection)
        sums.rebuild(connection)
        assert stored(connection) == kept


@pytest.mark.parametrize("revision", EARLIER)
def test_entries_of_older_ledgers_are_what_they_were_taken_for(url, revision):
    with older(url, revision) as connection:
        put(connection, "monday", pure(0.01), report=REPORT)
        put(connection, "night/1", pure(0.01), report={"schema": 2, "key": "reference "})
        put(connection, "torn", pure(0.01), report='{"schema": "reference')
        put(connection, "list", pure(0.01), report=["reference 1"])
        put(connection, "traffic/1", ROUND, report={"schema": "predictor 2"})
        put(connection, "traffic/2", ROUND, state="failed", note="0 clients reported")
        put(connection, "traffic/3", ROUND, state="reserved")
        put(connection, "june", pure(0.01), report=MADE)
        put(connection, "exemplars", DRAWS, report={"schema": "draws 1"})
        put(connection, "monday", pure(0.01), purpose="training", report={"compositions": []})
        put(connection, "odd", pure(0.01), state="failed", note="ZeroDivisionError")
        put(connection, "few", pure(0.01), state="failed", note="2 clients answered")
        put(connection, "mute", pure(0.01), state="failed")
        put(connection, "given up", pure(0.01), state="abandoned", note="no cohort")
        put(connection, "cut off", pure(0.01), state="reserved")
    ledger = Ledger(url)
    with ledger._database.writing() as connection:  # which no reader would accept
        connection.exec_driver_sql("UPDATE checks SET report = '{}' WHERE key = 'torn'")
    found = {(entry.key, entry.kind): entry for entry in ledger.history()}
    assert [(*key, entry.state) for key, entry in found.items()] == [
        ("monday", Kind.CHECK, "settled"),
        ("night/1", Kind.CHECK, "settled"),
        ("torn", Kind.CHECK, "settled"),
        ("list", Kind.CHECK, "settled"),
        ("traffic/1", Kind.ROUND, "settled"),
        ("traffic/2", Kind.ROUND, "failed"),
        ("traffic/3", Kind.ROUND, "reserved"),
        ("june", Kind.REFERENCE, "settled"),
        ("exemplars", Kind.DRAWS, "settled"),
        ("monday", Kind.TRAINING, "settled"),
        ("odd", Kind.CHECK, "failed"),
        ("few", Kind.CHECK, "failed"),
        ("mute", Kind.CHECK, "failed"),
        ("given up", Kind.CHECK, "failed"),
        ("cut off", Kind.CHECK, "reserved"),
    ]
    assert {key: entry.failure for (key, _), entry in found.items() if entry.failure} == {
        "traffic/2": Failure(FailureKind.UNANSWERED, "0 clients reported"),
        "odd": Failure(FailureKind.ERROR, "ZeroDivisionError"),
        "few": Failure(FailureKind.UNANSWERED, "2 clients answered"),
        "mute": Failure(FailureKind.UNANSWERED, ""),
        "given up": Failure(FailureKind.COHORT, "no cohort"),
    }
    assert [len(entry.releases) for entry in found.values()].count(0) == 1
    assert found["june", Kind.REFERENCE].report == MADE
    given_up = found["given up", Kind.CHECK]
    assert given_up.refused  # as then, its key may run
    assert ledger.reserve("given up", ask(0.01), now=NOW).number > given_up.number
    with pytest.raises(AlreadyChecked):
        ledger.reserve("few", ask(0.01), now=NOW)


def test_an_upgraded_ledger_has_the_tables_of_a_new_one(tmp_path):
    """To the letter: whether a table is strict, and what it refuses, no inspector tells."""
    made = sa.create_engine(f"sqlite:///{tmp_path}/made.db")
    metadata.create_all(made)
    with older(f"sqlite:///{tmp_path}/old.db", "0001") as connection:
        put(connection, "monday", pure(0.01), report=REPORT)
    upgraded = Ledger(f"sqlite:///{tmp_path}/old.db")._database._engine

    def tables(engine):
        query = "SELECT name, sql FROM sqlite_schema WHERE tbl_name = 'checks' AND sql NOT NULL"
        with engine.connect() as connection:
            return {n: words(sql) for n, sql in connection.exec_driver_sql(query)}

    def words(sql):
        lines = sql.replace("(\n", "(,").replace("\n)", ",)").split(",")
        return sorted(" ".join(line.replace('"', "").split()) for line in lines)

    assert tables(upgraded) == tables(made)
    with upgraded.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        keys = connection.exec_driver_sql("PRAGMA foreign_key_list(spends)").all()
        assert {key.table for key in keys} == {"checks", "costs"}


@pytest.mark.parametrize("kind", list(Kind))
def test_a_key_is_one_of_all_kinds_but_trainings(url, ledger, kind):
    """The tables themselves refuse what `reserve` would have to overlook."""
    insert = sa.text(
        "INSERT INTO checks (number, population, kind, key, started, state) "
        "VALUES (:number, 'default', :kind, 'monday', 0, 'reserved')"
    )
    with ledger._database.writing() as connection:
        connection.execute(insert, {"number": 1, "kind": "check"})
        connection.execute(insert, {"number": 2, "kind": "training"})
    database = ledger._database
    with pytest.raises(Exception, match=r"(?i)unique"), database.writing() as connection:
        connection.execute(insert, {"number": 3, "kind": str(kind)})
