"""Files that a reference is built from: public domains, counts and records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.cli.common import say
from flwr_kld.domain.base import Domain, domain_from_spec
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.categories import Categories
from flwr_kld.domain.dialect import Dialect, is_text_file
from flwr_kld.domain.frame import TextFile, read_parquet
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.sniff import in_words, sniff
from flwr_kld.domain.table import Table

_COUNT, _SYMBOL = "count", "symbol"


def read_domain(file: Path) -> Domain:
    """Read a domain's JSON form."""
    return domain_from_spec(_json(file))


def read_counts(file: Path, domain: Domain) -> NDArray[np.float64]:
    """Read how often each symbol occurs, shape [domain.size] or one for each listed symbol."""
    # ``.npz``: an array ``counts``. ``.json``: a list in the order of the symbols ('other' and
    # 'missing' may be left out), or for labels an object of counts by label. ``.csv``: a column
    # ``count``, and beside it either a column ``symbol`` of numbers or the columns of a record;
    # rows of the same symbol add up, and an empty field is missing.
    if file.suffix == ".npz":
        return _sized(_arrays(file, "counts")["counts"], domain, file)
    if file.suffix == ".json":
        content = _json(file)
        if isinstance(content, list):
            return _sized(content, domain, file)
        if isinstance(content, dict) and isinstance(domain, Labels):
            return _added(domain.encode(list(content)), content.values(), domain, file)
        raise ValueError(f"{file} must hold a list of counts or, for labels, an object")
    columns = _without_blank_lines(_csv(file))
    if _COUNT not in columns:
        raise ValueError(f"{file} has no column '{_COUNT}'")
    counts = columns.pop(_COUNT)
    if _SYMBOL in columns:
        symbols = _integers(columns[_SYMBOL], file)
        if len(symbols) and not 0 <= symbols.min() <= symbols.max() < domain.size:
            raise ValueError(f"{file} has a symbol that is not in 0 to {domain.size - 1}")
    else:
        symbols = domain.encode(_as_records(columns, domain, file))
    return _added(symbols, counts, domain, file)


def read_records(file: Path, domain: Domain) -> Any:
    """Read raw records as ``domain.encode`` takes them."""
    # ``.npz``: the arrays of the features of `Categories`, else one array ``records``, or
    # ``images``. ``.json``: a list, or an object of lists by feature. ``.csv``: a column a feature;
    # an empty field is missing.
    if file.suffix == ".npz":
        if isinstance(domain, Categories | Table):
            named = domain.sources.values() if isinstance(domain, Table) else domain.features
            return _arrays(file, *named)
        held = _arrays(file)
        for name in ("records", "images"):
            if name in held:
                return held[name]
        raise ValueError(f"{file} has no array 'records' or 'images'")
    if file.suffix == ".json":
        return _json(file)
    return _as_records(_csv(file), domain, file)


def read_frame(file: Path, domain: Domain | None = None) -> Any:
    """Read public rows of several columns; say how text was taken to be written."""
    if is_text_file(file):
        if domain is not None:
            return TextFile(file, dialect=getattr(domain, "dialect", None), public=True)
        dialect = sniff(file)
        say_dialect(str(file), dialect)
        return TextFile(file, dialect=dialect, public=True)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    try:
        return read_parquet(str(file))
    except Exception as error:  # whatever the readers make of other bytes
        raise ValueError(f"{file} is not a Parquet file: give another, or a .csv file") from error


def say_dialect(place: str, dialect: Dialect) -> None:
    """Say what was recognised of how public rows are written."""
    if words := ", ".join(in_words(dialect)):
        say(f"{place} is read with {words}")


def _as_records(columns: dict[str, list[str | None]], domain: Domain, file: Path) -> Any:
    """Turn a table's text into records of a domain."""
    if isinstance(domain, Categories | Table):
        return columns
    if not isinstance(domain, Labels | Binned):
        raise ValueError(f"records of {domain.kind!r} do not fit a table: use an .npz file")
    if len(columns) != 1:
        raise ValueError(f"{file} must have one column of records, but has {len(columns)}")
    return next(iter(columns.values()))


def _added(
    symbols: NDArray[np.int64], counts: Iterable[Any], domain: Domain, file: Path
) -> NDArray[np.float64]:
    try:
        each = np.array(list(counts), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{file} has a count that is not a number") from None
    return np.asarray(np.bincount(symbols, each, domain.size), dtype=np.float64)


def _sized(counts: Any, domain: Domain, file: Path) -> NDArray[np.float64]:
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{file} has a count that is not a number") from None
    listed = int(np.count_nonzero(domain.unlisted_way() < 0))
    if array.shape not in ((domain.size,), (listed,)):
        raise ValueError(
            f"{file} must hold {domain.size} counts, one for each symbol of the domain, or "
            f"{listed}, one for each that its spec lists, but has shape {list(array.shape)}"
        )
    return array


def _integers(texts: list[str | None], file: Path) -> NDArray[np.int64]:
    try:
        return np.array(texts, dtype=np.int64)
    except (TypeError, ValueError):
        raise ValueError(f"{file} has a symbol that is not a whole number") from None


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None


def _csv(file: Path) -> dict[str, list[str | None]]:
    if file.suffix != ".csv":
        raise ValueError(f"{file} must end in .csv, .json or .npz")
    return dict(TextFile(file, public=True))


def _without_blank_lines(columns: dict[str, list[str | None]]) -> dict[str, list[str | None]]:
    rows = [row for row in zip(*columns.values(), strict=True) if any(row)]
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def _arrays(file: Path, *names: str) -> dict[str, NDArray[Any]]:
    """Read an .npz file; refuse one without the arrays that are named."""
    try:
        with np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever numpy, zipfile and zlib make of other bytes
        raise ValueError(f"{file} is not a readable .npz file without pickles") from error
    if missing := [name for name in names if name not in arrays]:
        raise ValueError(f"{file} has no array {missing[0]!r}")
    return arrays
