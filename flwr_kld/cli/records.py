"""A node's own records: ``flwr-kld doctor --data``, and ``flwr-kld report --mine``."""

from __future__ import annotations

import logging
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld.ask.period import of_period
from flwr_kld.cli.common import LONGEST_REPORT, pairs_in, print_json, print_note, results
from flwr_kld.cli.ledger_url import absolute_url
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.common.json_text import json_text
from flwr_kld.reference import Reference
from flwr_kld.report.node_comparison import NodeComparison, stored_in
from flwr_kld.report.report import Report
from flwr_kld.report.words import table_of
from flwr_kld.table.base import Domain, Symbols
from flwr_kld.table.categories import Categories
from flwr_kld.table.dialect import NO_VALUE
from flwr_kld.table.frame import TextFile, columns_of, texts_in
from flwr_kld.table.labels import Labels
from flwr_kld.table.sniff import SPELLINGS, sniff
from flwr_kld.table.table import Table
from flwr_kld.views import CheckSeries

logger = logging.getLogger("flwr_kld")

_STRANGE = 0.1
"""So much more of a column than in the reference is a reason to look at how it is read."""
_LIKELY = {*NO_VALUE, *SPELLINGS}
_CONFIG = ("delimiter", "encoding", "decimal", "dates", "line_end")
"""Of a dialect, what a node config says under its name."""


def check_records(data: str, table: Path, *, query: str, node_config: str, as_json: bool) -> None:
    """Print what of a node's records each column would read as 'other' or 'missing'.

    Records are read as in a check, and counted for this terminal alone: what it prints is private.
    """
    made = None if table.suffix == ".toml" else Reference.load(table)
    known = Table.from_toml(table) if made is None else made.domain
    if not isinstance(known, Table):
        raise ValueError(f"{table} is a reference of one column: there is no table to check")
    with _saying_why():
        loaded = _load(data, known, query=query, node_config=node_config)
        if isinstance(loaded, TextFile):
            for hint in _hints(loaded):
                print_note(hint)
        symbols = known.encode(loaded)
    found = list(_unlisted(known, symbols, made))
    likely = dict(_likely_missing(known, loaded, symbols))
    if as_json:
        print_json({"unlisted": found, "looks_missing": likely})
        return
    heads = ("column", "read as", "records", "share", *(["in the reference"] if made else []))
    results.print(table_of(heads, map(_row, found), left=heads[:2]))
    for name, texts in likely.items():
        for text, times in texts.items():
            print_note(
                f"{name}: {text!r}, in {times:,} records, looks like a missing value: add it under "
                f"missing, in {table.name} for all nodes, or to drift-missing for this one"
            )
    if any(map(_is_strange, found)):
        print_note(
            "in red: far more than in the reference. If the records are right, this node's file is "
            "written otherwise: say how in its node config (drift-delimiter, drift-decimal, "
            "drift-dates, drift-missing, drift-encoding)"
        )


def compare_records(
    published: Path, data: str, reference: Path, *, query: str, node_config: str
) -> NodeComparison:
    """Compare a node's records with a reference and a published report; nothing leaves the node."""
    known = Reference.load(reference)
    if not isinstance(known.domain, Table | Categories):
        raise ValueError(f"{reference} is of records that no file holds: a table's is needed")
    if published.is_dir() or published.suffix != ".json":
        returned = stored_in(published, known.fingerprint)
        if not returned:
            raise ValueError(
                f"no report of a check against {reference} has been returned to {published}: is it "
                "the folder that drift-reports of the node config names? Else give a report's file"
            )
        published = returned[-1]
    report = _published(published)
    with _saying_why(), of_period(report.period):
        loaded = _load(data, known.domain, query=query, node_config=node_config)
        try:
            symbols = known.domain.encode(loaded)
            if report.period is not None:
                dialect = known.domain.dialect if isinstance(known.domain, Table) else None
                symbols = symbols[report.period.holds(loaded, dialect)]
        except (DomainError, QueryRefused):  # in words that show no record
            raise
        except Exception as error:
            raise ValueError(f"the records could not be read ({type(error).__name__})") from None
    return NodeComparison.of(report, known, symbols)


@contextmanager
def _saying_why() -> Iterator[None]:
    """Say of refused records what a SuperNode logs: here is no other log than the terminal."""
    logged = _Kept()
    logger.addHandler(logged)
    try:
        yield
    except QueryRefused as error:
        raise (ValueError(logged.words[-1]) if logged.words else error) from None
    finally:
        logger.removeHandler(logged)


class _Kept(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the words."""
        self.words.append(record.getMessage())


def _published(file: Path) -> Report:
    """Read a report, or the last one of a series; it may be anybody's."""
    with file.open("rb") as opened:
        written = opened.read(LONGEST_REPORT + 1)
    try:
        if len(written) > LONGEST_REPORT:
            raise ValueError(f"it is longer than {LONGEST_REPORT >> 20} MB")
        text = written.decode()
        series = text.lstrip().startswith("[")
        return CheckSeries.from_json(text).reports[-1] if series else Report.from_json(text)
    except Exception as error:  # whatever a forged one raises
        why = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise ValueError(f"{file} is not the report of a check: {why}") from None


def _load(data: str, domain: Domain, *, query: str, node_config: str) -> Any:
    """Load a node's records as in a check."""
    from flwr_kld.clients.records_of_node import load_records  # only nodes read records

    if query and "://" not in data:
        raise ValueError("--query is of a database, and the records are a file: leave it out")
    place = absolute_url(data) if "://" in data else str(Path(data).absolute())
    config = {"drift-records": place, "drift-query": query} | _read(node_config)
    loaded = load_records(config)
    if isinstance(loaded, TextFile) and isinstance(domain, Table):
        return loaded.read_by(domain.dialect)
    return loaded


def _row(one: Mapping[str, Any]) -> tuple[list[str], bool]:
    shares = [f"{one[of]:.1%}" for of in ("share", "in_reference") if one[of] is not None]
    return [one["column"], one["way"], f"{one['records']:,}", *shares], _is_strange(one)


def _read(node_config: str) -> dict[str, Any]:
    """Read pairs of keys and values of TOML, as flower-supernode does."""
    try:
        pairs = pairs_in(node_config)
        return tomllib.loads("\n".join(f"{key} = {value}" for key, value in pairs))
    except tomllib.TOMLDecodeError:
        raise ValueError(
            f"--node-config {node_config} is not as flower-supernode takes it: put texts in "
            'quotes, \'drift-decimal="," drift-dates="day-first"\''
        ) from None


def _hints(file: TextFile) -> Iterator[str]:
    """Yield how a file looks as if it were written, where it is read otherwise."""
    looks = sniff(file.file, file.dialect)
    for field in _CONFIG:
        seen, given = getattr(looks, field), getattr(file.dialect, field)
        if seen != given:
            key = field.replace("_", "-")
            yield (
                f"{file.file} looks as if its {key} were {seen!r}, and it is read with {given!r}: "
                f"say drift-{key}={json_text(seen)} in the node config"
            )
    for name, texts in looks.sentinels.items():
        if set(texts) - {*file.dialect.sentinels.get(name, ()), *file.dialect.missing}:
            yield (
                f"{name}: {', '.join(map(repr, texts))} looks like a missing value: add it under "
                f"missing of this column in table.toml"
            )


def _is_strange(one: Mapping[str, Any]) -> bool:
    usual = one["in_reference"]
    return usual is not None and bool(one["share"] > usual + _STRANGE)


def _unlisted(table: Table, symbols: Symbols, made: Reference | None) -> Iterator[dict[str, Any]]:
    """Count the records of each name in `unlisted`, column by column."""
    usual = {} if made is None else made.columns
    for own, part, (name, domain) in zip(
        symbols.T, table.parts, table.columns.items(), strict=True
    ):
        index = domain.unlisted_index()[own - part.start]
        for way, words in enumerate(() if domain.joins else domain.unlisted):
            times = int((index == way).sum())
            yield {
                "column": name,
                "way": words,
                "records": times,
                "share": times / max(len(own), 1),
                "in_reference": usual[name].unlisted.get(words, 0.0) if usual else None,
            }


def _likely_missing(
    table: Table, records: Any, symbols: Symbols
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield columns in which texts of a fixed list, which often stand for no value, are values."""
    columns = columns_of(records)
    for own, part, (name, domain) in zip(
        symbols.T, table.parts, table.columns.items(), strict=True
    ):
        column = texts_in(columns[name]) if name in columns else None
        if not isinstance(domain, Labels) or column is None or isinstance(column, np.ndarray):
            continue
        odd = domain.unlisted_index()[own - part.start] == 0
        texts = (value for value, is_odd in zip(column, odd.tolist(), strict=True) if is_odd)
        spelt = Counter(t.strip() for t in texts if isinstance(t, str) and t.strip() in _LIKELY)
        if spelt:
            yield name, dict(spelt.most_common())
