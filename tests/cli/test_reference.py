"""``reference build`` and ``reference show``: a table and its reference, of public rows."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow
import pytest

from flwr_kld import Labels, Reference, Table


@pytest.fixture
def folder(tmp_path):
    """A folder with domains and files, and a way to write more."""

    class Folder:
        def write(self, name: str, text: str):
            (tmp_path / name).write_text(text)
            return tmp_path / name

        out = tmp_path / "reference.json"

    return Folder()


def test_show_names_fingerprints_and_the_heaviest(cli, folder):
    made = Reference.from_counts(Labels(["[red]bus", "car"]), [1, 3])
    made.save(folder.out)
    text = cli("reference", "show", folder.out).stdout
    assert made.fingerprint in text
    assert made.domain.fingerprint in text
    assert "[red]bus" in text
    assert text.index("75.000%") < text.index("25.000%")
    told = json.loads(cli("reference", "show", folder.out, "--json").stdout)
    assert len(told["heaviest"]) == 2


def test_a_floor_leaves_nothing_impossible(cli, folder):
    rows = folder.write("rows.csv", "job\n" + "bus\n" * 30 + "car\n" * 10)
    done = cli("reference", "build", rows, "--out", folder.out, "--floor", 0.1)
    assert done.exit_code == 0, done.output
    assert Reference.load(folder.out).probabilities[:2].tolist() == pytest.approx([0.725, 0.275])


def test_show_reads_references_alone(cli, folder):
    done = cli("reference", "show", folder.write("domain.json", "{}"))
    assert (done.exit_code, "not a flwr-kld reference" in done.stderr) == (4, True), done.output


def test_a_table_and_its_reference_are_made_of_public_rows(cli, folder):
    ages = [17, 30, 70, 20] * 50
    rows = {
        "age": ages,
        "job": ["nurse", "clerk, chief"] * 100,
        "id": list(range(200)),
        "day": ["2024-01-01", None, "2024-01-07", "2024-02-01"] * 50,
    }
    parquet = folder.out.with_name("public.parquet")
    pl.DataFrame(rows).write_parquet(parquet)
    pl.DataFrame(rows).write_csv(parquet.with_suffix(".csv"))
    table = Table.from_frame(rows, bins=3)
    for file in (parquet, parquet.with_suffix(".csv")):
        done = cli("reference", "build", file, "--bins", 3)
        assert done.exit_code == 0, done.output
        assert "id is left out: its numbers rise from each row to the next" in done.stderr
        made = Reference.load(parquet.with_suffix(".json"))
        assert made.fingerprint == Reference.from_frame(table, rows).fingerprint
    dictionary = folder.out.with_name("table.toml")
    table = Table.from_frame(rows, bins=3, interactions=[("age", "job")])
    table.to_toml(dictionary)
    done = cli("reference", "build", parquet, "--out", folder.out, "--table", dictionary, "--json")
    made = Reference.load(folder.out)
    assert made.fingerprint == Reference.from_frame(table, rows).fingerprint
    told = json.loads(done.stdout)
    assert (told["file"], told["reference"]) == (str(folder.out), made.fingerprint)
    assert (told["records"], told["records_needed"].keys()) == (200, made.columns.keys())
    shown = cli("reference", "show", folder.out)
    assert "age × job" in shown.stdout
    assert "categories" in shown.stdout
    columns = json.loads(cli("reference", "show", folder.out, "--json").stdout)["columns"]
    assert columns[2] == {
        "name": "day: weekday", "kind": "times", "symbols": 8, "unlisted": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.tsv", "rows.csv.gz", "rows.tsv.zst", "rows.parquet"]
)
def test_help_names_the_ending_of_every_file_that_is_read(cli, tmp_path, name):
    file = tmp_path / name
    rows = pl.DataFrame({"age": [20 + i % 40 for i in range(300)], "job": ["clerk", "nurse"] * 150})
    if file.suffix == ".parquet":
        rows.write_parquet(file)
    else:
        text = rows.write_csv(separator="\t" if ".tsv" in name else ",")
        with pyarrow.output_stream(str(file)) as stream:  # compressed if the name says so
            stream.write(text.encode())
    for command, out in ((("reference", "build"), "made.json"), (("init",), "app")):
        assert cli(*command, file, "--out", tmp_path / out).exit_code == 0
        assert file.suffix in cli(*command, "--help").stdout


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("no.parquet", [], "there is no file"),
        ("bytes.parquet", [], "is not a Parquet file"),
        ("ids.csv", [], "no column of the frame is left"),
        ("rows.csv", ["--table", "t.toml", "--bins", 3], "give --table alone"),
        ("rows.csv", ["--table", "t.toml", "--labels", 3], "give --table alone"),
        ("rows.csv", ["--table", "t.toml"], "no file t.toml"),
        ("rows.csv", ["--out", "x.txt"], "not x.txt"),
        ("out.json", [], "give public rows"),
    ],
)
def test_no_table_of_public_rows(cli, folder, file, options, message):
    folder.write("bytes.parquet", "PAR1")
    folder.write("ids.csv", "id\n" + "".join(f"{i}\n" for i in range(200)))
    folder.write("rows.csv", "age,job\n17,nurse\n20,clerk\n")
    done = cli("reference", "build", folder.out.with_name(file), *options)
    assert done.exit_code == 4
    assert message in " ".join(done.stderr.split())


def test_a_score_becomes_a_column_of_the_reference_and_of_its_dictionary(cli, folder):
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    lines = [f"{a:.3f},{'north' if a > 0 else 'south'}" for a in x]
    public = folder.write("public.csv", "\n".join(["x,place", *lines]))
    table = public.with_name("table.toml")
    Reference.from_csv(public).domain.to_toml(table)
    for _ in range(2):  # the second time in place of the first
        done = cli(
            "reference", "build", public, "--table", table, "--score", "fit", "--out", folder.out
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        made = Reference.load(folder.out, Table.from_toml(table))
        assert list(made.columns) == ["x", "place", "fit"]
        assert made.records == 201
    done = cli("reference", "build", public, "--score", "x")
    assert done.exit_code == 4
    assert "name of its own" in done.stderr
