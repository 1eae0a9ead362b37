"""`make bench`: every bench gives rows, and what is made of them."""

import importlib
import json
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
    assert {row.bench for row in rows} == {"noise"}
    assert all(row.seconds > 0 and row.x25519 > 0 and row.numpy > 0 for row in rows)
    run.save(rows, tmp_path)
    told = json.loads((tmp_path / "bench.json").read_text())
    assert [row["seconds"] for row in told["rows"]] == [row.seconds for row in rows]


@pytest.mark.slow
def test_every_bench_gives_rows_beside_the_yardsticks(tmp_path: Path):
    run = importlib.import_module("run")
    rows = [row for name in run.BENCHES for row in rows_of(name)]
    assert {row.bench for row in rows} == {
        "against Flower", "secure sum", "two aggregators", "noise", "scaling",
    }  # fmt: skip
    assert all(row.seconds > 0 and row.x25519 > 0 and row.numpy > 0 for row in rows)
    assert run.table_of(rows).row_count == len(rows)
    run.save(rows, tmp_path)
    told = json.loads((tmp_path / "bench.json").read_text())
    assert [row["seconds"] for row in told["rows"]] == [row.seconds for row in rows]
    assert {"scaling: clients", "secure sum: clients"} <= told["exponents"].keys()


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
