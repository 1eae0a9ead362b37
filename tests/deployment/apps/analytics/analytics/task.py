"""What both sides know of the patients' table, and how it is read."""

import sqlite3
from contextlib import closing

import numpy as np

COLUMNS = ["age", "bmi", "systolic_bp", "diastolic_bp", "heart_rate", "ldl"]


def query_database(database: str, columns: list[str]) -> dict[str, np.ndarray]:
    """Read columns of the table ``measurements`` of an SQLite file."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM measurements").fetchall()
    return dict(zip(columns, np.array(rows, dtype=float).reshape(-1, len(columns)).T, strict=True))
