"""``flwr-kld doctor --data``: a node's operator learns how its records are read."""

import json

import pytest

from flwr_kld import Binned, Dialect, Reference, Table, Times


@pytest.fixture
def visits(tmp_path):
    """A data dictionary, its reference, and a node's file that is written otherwise."""
    table = Table({"paid": Binned([100.0, 200.0]), "ward": ["a", "b"]})
    table.to_toml(tmp_path / "table.toml")
    rows = {"paid": ["50", "150", "250", None], "ward": ["a", "b", "c", None]}
    Reference.from_frame(table, rows).save(tmp_path / "reference.json")
    file = tmp_path / "node.csv"
    file.write_text("paid;ward\n" + "50,5;a\n150,5;b\n250,5;SECRET\n?;--\n" * 25)
    return tmp_path


def check(cli, folder, *options, table="table.toml", records="node.csv"):
    return cli("doctor", "--data", folder / records, "--table", folder / table, *options)


OWN = ("--node-config", 'drift-delimiter=";"')


def test_what_would_be_other_or_missing_is_counted_for_the_nodes_operator_alone(cli, visits):
    done = check(cli, visits, *OWN, "--json")
    assert done.exit_code == 0, done.output
    found = {(one["column"], one["way"]): one for one in json.loads(done.stdout)["unlisted"]}
    assert found["paid", "missing"]["records"] == 100
    assert found["paid", "missing"]["share"] == pytest.approx(1.0)
    assert found["paid", "missing"]["in_reference"] is None
    assert found["ward", "other"]["records"] == 50
    assert "SECRET" not in check(cli, visits, *OWN).output


def test_a_reference_says_what_is_usual(cli, visits):
    done = check(cli, visits, *OWN, "--json", table="reference.json")
    found = {(one["column"], one["way"]): one for one in json.loads(done.stdout)["unlisted"]}
    assert found["paid", "missing"]["in_reference"] == pytest.approx(0.25)
    assert "drift-decimal" in check(cli, visits, *OWN, table="reference.json").stderr
    right = ("--node-config", f"{OWN[1]} drift-decimal=',' drift-missing='NA|?|--'")
    shown = check(cli, visits, *right, table="reference.json")
    assert "in red" not in shown.stderr
    assert "25.0%" in shown.stdout


def test_spellings_that_would_help_are_named(cli, visits):
    shown = check(cli, visits, *OWN)
    words = " ".join(shown.stderr.split())
    assert "ward: '--', in 25 records, looks like a missing value" in words
    assert 'drift-decimal=","' in words
    likely = json.loads(check(cli, visits, *OWN, "--json").stdout)["looks_missing"]
    assert likely == {"ward": {"--": 25}}


def test_how_the_file_looks_is_said_even_where_it_cannot_be_read(cli, visits):
    done = check(cli, visits)
    assert done.exit_code == 4
    words = " ".join(done.stderr.split())
    assert 'drift-delimiter=";"' in words
    assert "'paid'" in words


def test_what_is_said_is_what_the_option_takes(cli, tmp_path):
    Table({"age": Binned([30.0]), "job": ["clerk"]}).to_toml(tmp_path / "table.toml")
    rows = "".join(f"{20 + i},clerk\t\n" for i in range(20))
    (tmp_path / "node.csv").write_text("age\tjob\n" + rows.replace(",", "\t").replace("\t\n", "\n"))
    words = check(cli, tmp_path).stderr.replace("\n", " ").split()
    (told,) = (word for word in words if word.startswith("drift-delimiter="))
    done = check(cli, tmp_path, "--node-config", told, "--json")
    assert done.exit_code == 0, done.output
    assert not any(one["records"] for one in json.loads(done.stdout)["unlisted"])


def test_a_sentinel_and_an_order_of_dates_are_noticed(cli, tmp_path):
    table = Table({"income": Binned([1000.0]), "day": Times("weekday")})
    table.to_toml(tmp_path / "table.toml")
    rows = "".join(f"{1000 + i},{i % 28 + 1:02}.01.2024\n" for i in range(40))
    (tmp_path / "node.csv").write_text("income,day\n" + rows + "-999,13.01.2024\n" * 9)
    words = " ".join(check(cli, tmp_path).stderr.split())
    assert "income: '-999'" in words
    assert 'drift-dates="day-first"' in words
    dialect = Dialect(dates="day-first", sentinels={"income": ["-999"]})
    Table(table.features, dialect=dialect).to_toml(tmp_path / "table.toml")
    done = check(cli, tmp_path, "--json")
    found = {one["column"]: one["records"] for one in json.loads(done.stdout)["unlisted"]}
    assert found == {"income": 9, "day": 0}
    assert "looks" not in done.stderr


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_what_is_usual_elsewhere_is_noticed_where_the_table_says_otherwise(
    cli, tmp_path, delimiter
):
    dialect = Dialect(delimiter=";", encoding="cp1252", decimal=",", dates="month-first")
    Table({"paid": Binned([1.0]), "ward": ["é"]}, dialect=dialect).to_toml(tmp_path / "table.toml")
    rows = "".join(f"{i}.5{delimiter}é\n" for i in range(40))
    (tmp_path / "node.csv").write_text(f"paid{delimiter}ward\n{rows}", encoding="utf-8")
    words = " ".join(check(cli, tmp_path).stderr.split())
    assert ('drift-delimiter=","' in words) is (delimiter == ",")
    assert 'drift-decimal="."' in words
    assert 'drift-encoding="utf-8"' in words
    assert "drift-dates" not in words
    (tmp_path / "node.csv").write_text("paid;ward\n1,5;é\n" * 20, encoding="latin-1")
    assert "looks as if" not in check(cli, tmp_path).stderr


@pytest.mark.parametrize(
    ("records", "config", "words"),
    [
        ("/nowhere/rows.csv", "", "No such file"),
        ("node.csv", "drift-decimal='x'", "'x'"),
        ("node.csv", "drift-decimal=,", 'drift-decimal=","'),
        ("node.txt", "", ".csv"),
        ("sqlite:///none.db", "drift-query='SELECT 1'", "No such file"),
    ],
)
def test_records_that_cannot_be_read_are_refused_with_the_reason(
    cli, visits, caplog, records, config, words
):
    done = check(cli, visits, "--node-config", config, records=records)
    assert done.exit_code == 4
    assert words in caplog.text + done.stderr
    assert "SECRET" not in caplog.text + done.output


def test_a_reference_of_one_column_has_no_table(cli, tmp_path):
    Reference.from_samples(Binned([1]), [0, 2]).save(tmp_path / "r.json")
    done = check(cli, tmp_path, table="r.json")
    assert done.exit_code == 4
    assert "no table" in done.stderr
