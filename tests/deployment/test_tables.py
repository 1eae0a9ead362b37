"""A Flower team's afternoon: drift checks for a federated analytics app over SQL databases."""

import difflib
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from flower_deployment import Deployment, deployed

NODES, PATIENTS, MOST_ADDED = 3, 4000, 10
APPS = Path(__file__).parent / "apps"
BEFORE = APPS / "analytics"
PUBLIC = "/srv/analytics/public.db"
USUAL = {
    "age": (55, 15), "bmi": (27, 5), "systolic_bp": (128, 16),
    "diastolic_bp": (78, 10), "heart_rate": (72, 11), "ldl": (120, 33),
}  # fmt: skip
"""Mean and standard deviation of each column."""
HEAVIER = 4.0
"""Added to the nodes' bmi: D = 0.3, six times what is tolerated."""


def checked(side: str) -> str:
    """One side of the app once it has drift checks."""
    return (APPS / "checked" / "analytics" / f"{side}_app.py").read_text()


def write(file: Path, rows: int, rng: np.random.Generator, heavier: float = 0.0) -> Path:
    values = {name: rng.normal(*law, size=rows) for name, law in USUAL.items()}
    values["bmi"] += heavier
    columns = [[None if i % 50 == 0 else float(v) for i, v in enumerate(values["age"])]]
    columns += [column.tolist() for name, column in values.items() if name != "age"]
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE TABLE measurements ({', '.join(USUAL)})")
        marks = ", ".join("?" * len(USUAL))
        rows_of = zip(*columns, strict=True)
        connection.executemany(f"INSERT INTO measurements VALUES ({marks})", rows_of)
        connection.commit()
    return file


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    rng = np.random.default_rng(5)
    with deployed(tmp_path) as running:
        for i in range(NODES):
            database = write(tmp_path / f"node{i}.db", PATIENTS, rng, HEAVIER)
            running.add_node(f"node{i}", f'database="{database}"')
        yield running


@pytest.mark.parametrize("side", ["client", "server"])
def test_drift_checks_are_a_few_more_lines(side: str):
    before = (BEFORE / "analytics" / f"{side}_app.py").read_text().splitlines()
    after = checked(side).splitlines()
    told = [line for line in difflib.ndiff(before, after) if line[:1] in "+-" and line[2:].strip()]
    removed = [line for line in told if line.startswith("-")]
    # The server reads the public table by the app's own function, which it has to import.
    assert removed == (["- from analytics.task import COLUMNS"] if side == "server" else [])
    assert 0 < len(told) - len(removed) <= MOST_ADDED


@pytest.mark.slow
def test_a_table_behind_sql_gets_drift_checks(deployment: Deployment, tmp_path: Path):
    app = shutil.copytree(BEFORE, tmp_path / "app")
    public = write(tmp_path / "public.db", 50_000, np.random.default_rng(6))
    server = checked("server")
    assert PUBLIC in server
    (app / "analytics" / "client_app.py").write_text(checked("client"))
    (app / "analytics" / "server_app.py").write_text(server.replace(PUBLIC, str(public)))
    printed = deployment.run(app)
    assert "Traceback" not in printed, printed[-3000:]
    assert printed.count(" on average") == len(USUAL)  # what it did before, it does
    (found,) = re.findall(r"bmi: drift, (\S+) ± ", printed)
    assert 0.2 < float(found) < 0.4
    # Noise is not seeded: any false column in 5 % of checks at most, by bounds that few reach.
    others = USUAL.keys() - {"bmi"}
    assert not [name for name in others if f"{name}: drift" in printed], printed[-3000:]
    assert sum(f"{name}: no drift" in printed for name in others) >= len(others) - 2
