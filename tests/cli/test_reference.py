"""``reference build`` and ``reference show``: every file format gives the same reference."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

from flwr_kld import Binned, BlockPatterns, Categories, Labels, Reference, Table

LABELS = Labels(["bus", "car", "train"])
TABLE = Categories({"sex": ["f", "m"], "age": Binned([18, 65]), "year": [2025, 2026]})


@pytest.fixture
def folder(tmp_path):
    """A folder with domains and files, and a way to write more."""

    class Folder:
        def write(self, name: str, text: str):
            (tmp_path / name).write_text(text)
            return tmp_path / name

        def arrays(self, name: str, **arrays):
            np.savez(tmp_path / name, **arrays)
            return tmp_path / name

        def domain(self, domain):
            return self.write("domain.json", json.dumps(domain.spec()))

        out = tmp_path / "reference.npz"

    return Folder()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", "[3, 1, 0]"),
        ("c.json", '{"car": 1, "bus": 3}'),
        ("c.csv", "mode,count\nbus,2\ncar,1\nbus,1\n"),
        ("c.csv", "\ufeffsymbol,count\n0,3\n1,1\n\n"),
    ],
)
def test_counts_of_labels(cli, folder, name, text):
    done = cli(
        "reference", "build", folder.out, "--domain", folder.domain(LABELS),
        "--counts", folder.write(name, text),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    expected = Reference.from_counts(LABELS, [3, 1, 0])
    assert Reference.load(folder.out).fingerprint == expected.fingerprint
    assert expected.fingerprint in done.stderr


def test_a_program_is_told_the_fingerprint(cli, folder):
    counts = folder.write("c.json", "[3, 1, 0]")
    done = cli(
        "reference", "build", folder.out, "--domain", folder.domain(LABELS), "--counts", counts,
        "--json",
    )  # fmt: skip
    made = Reference.from_counts(LABELS, [3, 1, 0]).fingerprint
    assert json.loads(done.stdout) == {
        "file": str(folder.out),
        "reference": made,
        "unlisted": {},
        "records": 4,
        "records_needed": {"labels": 2600},
    }


def test_records_that_are_not_listed_are_counted_and_told(cli, folder):
    files = {
        "--counts": folder.write("c.csv", "mode,count\nbus,2\n,1\ntram,3\nbus,2\n"),
        "--records": folder.write("r.csv", "mode\n" + "bus\n" * 4 + '""\n' + "tram\n" * 3),
    }
    for option, file in files.items():
        done = cli(
            "reference", "build", folder.out, "--domain", folder.domain(LABELS), option, file,
            "--json",
        )  # fmt: skip
        made = Reference.from_counts(LABELS, [4, 0, 0, 3, 1])
        assert Reference.load(folder.out).fingerprint == made.fingerprint
        assert json.loads(done.stdout)["unlisted"] == {"other": 0.375, "missing": 0.125}
        assert "37.50% of the records are other" in done.stderr
        assert "12.50% of the records are missing" in done.stderr


def test_a_domain_of_another_version_is_refused_with_what_to_do(cli, folder):
    old = folder.write("old.json", '{"kind": "labels", "version": 2, "names": ["bus", "car"]}')
    counts = folder.write("c.json", "[3, 1]")
    done = cli("reference", "build", folder.out, "--domain", old, "--counts", counts)
    assert done.exit_code == 4
    assert "install the same release" in done.stderr


def test_counts_as_an_array_and_a_floor(cli, folder):
    counts = folder.arrays("c.npz", counts=np.array([3, 1, 0]))
    done = cli(
        "reference", "build", folder.out, "--domain", folder.domain(LABELS), "--counts", counts,
        "--floor", 0.1,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    listed = Reference.load(folder.out).probabilities[:3]
    assert listed.min() == pytest.approx(0.1 / 3)


COLUMNS = {"sex": ["f", "m", "f"], "age": [17.0, 70.5, 17.5], "year": [2025, 2026, 2025]}


def test_records_of_a_table_in_every_format(cli, folder):
    domain = folder.domain(TABLE)
    text = "note,sex,age,year\n" + "x,f,17,2025\nx,m,70.5,2026\nx,f,17.5,2025\n"
    files = [
        folder.write("r.csv", text),
        folder.write("r.json", json.dumps(COLUMNS)),
        folder.arrays("r.npz", **{n: np.array(c) for n, c in COLUMNS.items()}),
    ]
    expected = Reference.from_samples(TABLE, COLUMNS).fingerprint
    for file in files:
        assert cli(
            "reference", "build", folder.out, "--domain", domain, "--records", file
        ).exit_code == 0  # fmt: skip
        assert Reference.load(folder.out).fingerprint == expected


def test_counted_rows_of_a_table(cli, folder):
    rows = folder.write("c.csv", "sex,age,year,count\nf,17,2025,2\nm,70.5,2026,1\n")
    cli("reference", "build", folder.out, "--domain", folder.domain(TABLE), "--counts", rows)
    expected = Reference.from_samples(TABLE, COLUMNS)
    assert Reference.load(folder.out).fingerprint == expected.fingerprint


def test_records_of_one_feature(cli, folder):
    numbers = Binned([0, 10])
    rows = folder.write("r.csv", "x\n-1\n5\n11\n7\n")
    cli("reference", "build", folder.out, "--domain", folder.domain(numbers), "--records", rows)
    assert Reference.load(folder.out).probabilities.tolist() == [0.25, 0.5, 0.25, 0]
    rows = folder.write("r.csv", "x\n-1\n\n11\n\n")  # a blank line is a missing value
    cli("reference", "build", folder.out, "--domain", folder.domain(numbers), "--records", rows)
    assert Reference.load(folder.out).probabilities.tolist() == [0.25, 0, 0.25, 0.5]


def test_images(cli, folder):
    images = np.zeros((5, 28, 28), dtype=np.uint8)
    images[0, :7, :7] = 255
    file = folder.arrays("i.npz", images=images)
    domain = folder.domain(BlockPatterns())
    cli("reference", "build", folder.out, "--domain", domain, "--records", file)
    shown = json.loads(cli("reference", "show", folder.out, "--json").stdout)
    assert (shown["kind"], shown["symbols"], shown["possible"]) == ("block_patterns", 65537, 2)
    assert [s["symbol"] for s in shown["heaviest"]] == [65535, 65534]
    assert shown["heaviest"][1] == {
        "symbol": 65534,
        "name": "#.../..../..../....",
        "probability": 0.2,
    }


def test_show_names_fingerprints_and_the_heaviest(cli, folder):
    made = Reference.from_counts(Labels(["[red]bus", "car"]), [1, 3])
    made.save(folder.out)
    text = cli("reference", "show", folder.out).stdout
    assert made.fingerprint in text
    assert made.domain.fingerprint in text
    assert "[red]bus" in text
    assert text.index("75.000%") < text.index("25.000%")
    assert (
        len(
            json.loads(cli("reference", "show", folder.out, "--json", "--top", 1).stdout)[
                "heaviest"
            ]
        )
        == 1
    )


@pytest.mark.parametrize(
    ("option", "name", "text", "why"),
    [
        ("--counts", "c.json", "[1, 2]", "must hold 5 counts"),
        ("--counts", "c.json", "[1, 2, null]", "no number|finite"),
        ("--counts", "c.json", '[1, 2, "x"]', "is not a number"),
        ("--counts", "c.json", "[1, 2, -3]", "non-negative"),
        ("--counts", "c.json", "7", "a list of counts"),
        ("--counts", "c.json", "{", "is not JSON"),
        ("--counts", "c.csv", "", "is empty"),
        ("--counts", "c.csv", "mode\nbus\n", "no column 'count'"),
        ("--counts", "c.csv", "symbol,count\n5,1\n", "not in 0 to 4"),
        ("--counts", "c.csv", "symbol,count\nx,1\n", "is not a whole number"),
        ("--counts", "c.csv", "mode,count\nbus,x\n", "is not a number"),
        ("--counts", "c.csv", "mode,count\nbus\n", "line 2 has 1 fields"),
        ("--counts", "c.csv", "a,b,count\nbus,x,1\n", "one column"),
        ("--counts", "c.npz", "no zip", "not a readable .npz"),
        ("--counts", "c.txt", "1", "must end in"),
        ("--records", "r.json", '"bus"', "must be a list"),
        ("--records", "missing.csv", None, "there is no file"),
    ],
)
def test_files_that_say_something_else_are_explained(cli, folder, option, name, text, why):
    domain = folder.domain(LABELS)
    file = folder.out.parent / name if text is None else folder.write(name, text)
    done = cli("reference", "build", folder.out, "--domain", domain, option, file)
    assert done.exit_code == 4
    assert any(w in done.stderr for w in why.split("|"))
    assert "Traceback" not in done.output
    assert not folder.out.exists()


def test_mistakes_of_the_command(cli, folder):
    domain, counts = folder.domain(LABELS), folder.write("c.json", "[1, 2, 3]")
    for arguments, why in (
        (["build", folder.out, "--domain", domain], "give --counts or --records"),
        (
            ["build", folder.out, "--domain", domain, "--counts", counts, "--records", counts],
            "give --counts or --records",
        ),
        (["build", folder.out, "--counts", counts], "give --domain"),
        (
            ["build", folder.out, "--domain", domain, "--counts", counts, "--key", "a"],
            "give --from clients, or leave out --key",
        ),
        (
            ["build", folder.out, "--counts", counts, "--app", "x", "--connection", "y"],
            "leave out --app, --connection",
        ),
        (["build", folder.out, "--from", "thin air"], "thin air"),
        (["build", "r.txt", "--domain", domain, "--counts", counts], "is an .npz or .json file"),
        (["build", folder.out, "--domain", counts, "--counts", counts], "mapping with a 'kind'"),
        (["show", domain], "not a flwr-kld reference"),
    ):
        done = cli("reference", *arguments)
        assert (done.exit_code, why in done.stderr) == (4, True), done.output


def advice(cli, **options):
    given = {"draws": 1, "epsilon": 1.0, "records": 60, "size": 2000, **options}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    return cli("reference", "recommend", *words, "--json")


def test_the_recommended_way_depends_on_the_records(cli):
    few, many = (json.loads(advice(cli, records=n, size=10_000).stdout) for n in (60, 60_000))
    assert (few["way"], many["way"]) == ("draws", "histogram")
    assert few["exemplar_kl"] < few["histogram_kl"] < few["base_kl"] == many["base_kl"]
    assert many["histogram_kl"] < 0.3 * many["exemplar_kl"]
    assert few["box"]["epsilon"] == 1.0


def test_a_guess_of_the_truth_is_a_reference(cli, folder):
    Reference.from_counts(Labels(list(range(50))), np.ones(50)).save(folder.out)
    arguments = ("--draws", 2, "--epsilon", 1, "--records", 100, "--guess", folder.out)
    found = json.loads(cli("reference", "recommend", *arguments, "--json").stdout)
    assert (found["way"], found["base_kl"]) == ("neither", pytest.approx(math.log(52 / 50)))
    text = cli("reference", "recommend", *arguments, COLUMNS="100").stdout
    assert "k = 2 draws: the law of each" in text
    *_, advice, warning = text.splitlines()
    assert advice.startswith("neither way is worth its budget")
    assert f"reads about {found['read_unchanged']:.3f} nats where nothing has changed" in warning


def test_questions_without_an_answer(cli, folder):
    made = folder.out
    Reference.from_counts(LABELS, [1, 1, 1]).save(made)
    words = ("--draws", 1, "--epsilon", 1, "--records", 9)
    assert "give --size or --guess" in cli("reference", "recommend", *words).stderr
    for options, why in (
        ({"epsilon": 0}, "epsilon must be"),
        ({"records": 0}, "records"),
        ({"draws": 0}, "draws"),
        ({"size": 1}, "size"),
        ({"guess": made}, "give --size or --guess"),
    ):
        done = advice(cli, **options)
        assert (done.exit_code, why in done.stderr) == (4, True), done.output


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
    table = Table.from_frame(rows, bins=3, interactions=[("age", "job")])
    for file in (parquet, parquet.with_suffix(".csv")):
        done = cli("reference", "build", file, "--bins", 3, "--interaction", "age,job")
        assert done.exit_code == 0, done.output
        assert "id is left out: its numbers rise from each row to the next" in done.stderr
        made = Reference.load(parquet.with_suffix(".npz"))
        assert made.fingerprint == Reference.from_frame(table, rows).fingerprint
    done = cli("reference", "build", parquet, "--out", folder.out, "--domain", folder.domain(table))
    assert Reference.load(folder.out).fingerprint == made.fingerprint
    picture = folder.out.with_name("columns.png")
    shown = cli("reference", "show", folder.out, "--picture", picture)
    assert "age × job" in shown.stdout
    assert "categories" in shown.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    columns = json.loads(cli("reference", "show", folder.out, "--json").stdout)["columns"]
    assert columns[3] == {
        "name": "day: weekday", "kind": "times", "symbols": 8, "unlisted": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("no.parquet", [], "there is no file"),
        ("bytes.parquet", [], "is not a Parquet file"),
        ("ids.csv", [], "no column of the frame is left"),
        ("rows.csv", ["--interaction", "age"], "as 'age,job', not 'age'"),
        ("rows.csv", ["--column", "x"], "no column 'x'"),
        ("rows.csv", ["--table", "t.toml", "--column", "age"], "give --table alone"),
        ("out.npz", ["--table", "t.toml"], "go with public rows"),
        ("rows.csv", ["--table", "t.toml"], "no file t.toml"),
        ("rows.csv", ["--records", "r.csv"], "leave out --records"),
        ("rows.csv", ["--from", "clients"], "an .npz file, not rows.csv"),
        ("rows.csv", ["--out", "x.txt"], "not x.txt"),
        ("out.npz", ["--column", "age"], "go with public rows"),
    ],
)
def test_no_table_of_public_rows(cli, folder, file, options, message):
    folder.write("bytes.parquet", "PAR1")
    folder.write("ids.csv", "id\n" + "".join(f"{i}\n" for i in range(200)))
    folder.write("rows.csv", "age,job\n17,nurse\n20,clerk\n")
    done = cli("reference", "build", folder.out.with_name(file), *options)
    assert done.exit_code == 4
    assert message in " ".join(done.stderr.split())


def test_what_is_recognised_and_left_out_is_said_of_any_kind_of_file(cli, folder):
    """Two files of the same rows, one of them typed: each left-out column has its true reason."""
    rows = {
        "income": [(-999.0, 5.5, 7.25, 9.0, 11.5)[i * 7 % 5] for i in range(400)],
        "patient": [f"P{i * 7919}" for i in range(400)],
        "note": [" ".join(["word"] * (20 + i % 30)) for i in range(400)],
        "year": [2015] * 400,
        "admitted": [f"2024-{1 + i * 5 % 12:02}-{1 + i * 7 % 28:02}" for i in range(400)],
    }
    file = folder.out.with_name("public.parquet")
    pl.DataFrame(rows).write_parquet(file)
    pl.DataFrame(rows).write_csv(file.with_suffix(".csv"))
    for place in (file, file.with_suffix(".csv")):
        done = cli("reference", "build", place)
        assert done.exit_code == 0, done.output
        for words in (
            "missing in income as -999", "patient is left out: 400 different values in 400 rows",
            "note is left out: long texts, 34 words on average", "year is left out: a calendar's",
            "admitted: hour is left out", "admitted: date, admitted: weekday",
        ):  # fmt: skip
            assert words in done.stderr.replace("\n", " ")


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
