"""`make bench`: every bench gives rows, and what is made of them."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[3] / "simulations" / "bench"


@pytest.fixture(autouse=True)
def beside(monkeypatch) -> None:
    """Benches import each other as scripts do."""
    monkeypatch.syspath_prepend(BENCHES)


def rows_of(name: str) -> Iterator:
    module = importlib.import_module(name)
    if name == "scaling":  # in this process
        return iter([module.point("clients", size, 1) for size in (5, 10)])
    return module.rows(1, quick=True)


def test_a_bench_gives_rows_beside_the_yardsticks(tmp_path: Path):
    run = importlib.import_module("run")
    rows = list(rows_of("sampler"))
    assert {row.bench for row in rows} == {"sampler"}
    assert all(row.seconds > 0 and row.x25519 > 0 and row.numpy > 0 for row in rows)
    run.save(rows, tmp_path)
    told = json.loads((tmp_path / "bench.json").read_text())
    assert [row["seconds"] for row in told["rows"]] == [row.seconds for row in rows]


def test_the_page_has_the_rows_under_their_commit(tmp_path: Path):
    run, measuring = importlib.import_module("run"), importlib.import_module("measuring")
    page = tmp_path / "page.md"
    page.write_text("before\n" + "\nold\n".join(run.MARKS) + "\nafter\n")
    rows = [
        measuring.Row("sums", "clients", 0.002 * size, 1e-4, 1e-3, size=size, megabytes=90.0)
        for size in (10, 1000)
    ]
    rows.append(measuring.Row("noise", "draws", 0.5, 1e-4, 1e-3, peer="a peer", peer_seconds=2.0))
    told = run.save(rows, tmp_path)
    run.write_page(told, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert f"`{told['commit']}`" in text
    lines = [re.split(" {2,}", line) for line in text.splitlines()]
    assert ["sums", "10–1,000 clients, as n^1.00", "20–2,000", "90"] in lines
    assert ["noise", "draws", "500", "4 × a peer"] in lines
    run.write_page(told, page)
    assert page.read_text() == text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="make bench"):
        run.write_page(told, page)


def test_rows_of_the_same_commit_are_kept(tmp_path: Path, monkeypatch):
    run, measuring = importlib.import_module("run"), importlib.import_module("measuring")
    row = measuring.Row("sampler", "draws", 0.5, 1e-4, 1e-3, peer="a peer", peer_seconds=2.0)
    for commit, found in (("1234567890ab", [row]), ("1234567890ab-dirty", [])):
        monkeypatch.setattr(run, "_commit", lambda commit=commit: commit)
        run.save([row], tmp_path)
        assert run.kept(tmp_path) == found
    monkeypatch.setattr(run, "_commit", lambda: "1234567890ab")
    run.save([row], tmp_path)
    assert run.run(("sampler",), 1, tmp_path, quick=False) == [row]
    assert run.run(("sampler",), 1, tmp_path / "other", quick=True)[0].bench == "sampler"


def test_the_docs_have_the_marks():
    run = importlib.import_module("run")
    text = (BENCHES.parents[1] / "docs/benchmarks.md").read_text()
    assert all(text.count(mark) == 1 for mark in run.MARKS)


@pytest.mark.slow
def test_every_bench_gives_rows_beside_the_yardsticks(tmp_path: Path):
    pytest.importorskip("evidently", reason="peers are in the environment of `make bench`")
    run = importlib.import_module("run")
    rows = [row for name in run.BENCHES for row in rows_of(name)]
    assert {row.bench for row in rows} == set(run.BENCHES)
    assert all(row.seconds > 0 and row.x25519 > 0 and row.numpy > 0 for row in rows)
    assert run.table_of(rows).row_count == len(rows)
    run.save(rows, tmp_path)
    told = json.loads((tmp_path / "bench.json").read_text())
    assert [row["seconds"] for row in told["rows"]] == [row.seconds for row in rows]
    assert {"scaling: clients", "secure_sum: clients"} <= told["exponents"].keys()


def test_peers_run_in_turn_and_medians_count():
    measuring = importlib.import_module("measuring")
    order, times = [], iter([1.0, 5.0, 2.0])

    def ours() -> float:
        order.append("ours")
        return next(times)

    def theirs() -> float:
        order.append("theirs")
        return 6.0

    row = measuring.measured("b", "w", ours, repeats=3, peer="p", theirs=theirs)
    assert order == ["ours", "theirs"] * 3
    assert (row.seconds, row.ratio) == (2.0, 3.0)


def test_exponents_are_those_of_the_law():
    measuring = importlib.import_module("measuring")
    rows = [measuring.Row("b", "w", 3e-3 * n**1.5, 1, 1, size=n) for n in (10, 100, 10_000)]
    assert measuring.exponents(rows) == pytest.approx((1.5, 1.5))
