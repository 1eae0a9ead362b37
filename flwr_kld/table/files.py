"""Reads rows from a text file, a Parquet file or a folder of them, or a database."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from flwr_kld.common.errors import DomainError
from flwr_kld.table.dialect import FILES, Dialect, distinct, is_text_file
from flwr_kld.table.frame import TextFile

DATABASES = (".db", ".sqlite", ".sqlite3")
_ELSEWHERE = "is not on this machine's disk: copy it here, and give its path"


def rows_in(
    place: str | Path,
    query: str | None = None,
    *,
    own: Mapping[str, Any] | None = None,
    dialect: Dialect | None = None,
    public: bool = False,
) -> Any:
    """Return the rows of a file, a folder of Parquet files, or a database's query.

    A node's own file is there: its door is `node_records`, which looks first.
    """
    if "://" in str(place):
        return _of_url(str(place), query)
    if query:
        raise DomainError(f"a query is of a database, and {place} is a file: leave it out")
    file = Path(place)
    _require_there(file)
    if file.is_dir() or file.suffix.lower() == ".parquet":
        return _of_parquet(file)
    if not is_text_file(file):
        if file.suffix.lower() in DATABASES:
            raise DomainError(f"{file} is a database: give its URL, sqlite:////…, and a query")
        raise DomainError(f"the name of {file} ends in none of these: give public rows, {FILES}")
    return TextFile(file, own, dialect, public=public)


def parquet_parts(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, as Spark writes them, in the order of their names."""
    return sorted(file for file in folder.rglob("*.parquet") if file.name[0] not in "._")


def _require_there(file: Path) -> None:
    """Refuse a file that is not there, and name one that may be meant."""
    if file.exists():
        return
    try:
        beside = [other.name for other in file.parent.iterdir()]
    except OSError:
        beside = []
    near = get_close_matches(file.name, beside, 1)
    meant = f": did you mean {near[0]}?" if near else f": give public rows, {FILES}"
    raise FileNotFoundError(f"there is no file {file.absolute()}{meant}")


def _of_parquet(place: Path) -> Any:
    """Read Parquet by pyarrow: polars refuses whole files for one text that is not UTF-8."""
    import narwhals as nw
    from pyarrow import ArrowException, concat_tables, parquet

    if place.is_dir() and not parquet_parts(place):
        raise DomainError(f"the folder {place} has no Parquet files, and no others are read there")
    tables = []
    for file in parquet_parts(place) if place.is_dir() else [place]:
        try:
            tables.append(parquet.ParquetFile(file).read())
        except (ArrowException, OSError):
            raise DomainError(
                f"{file} is not a Parquet file, whatever its name: give another, or a .csv file"
            ) from None
        distinct(tables[-1].column_names)
    try:
        return nw.from_native(concat_tables(tables)).to_native()
    except ArrowException:
        raise DomainError(
            f"the files in {place} have other columns or types each: write them alike, or give one"
        ) from None


def require_database(url: str) -> None:
    """Refuse the URL of anything else, and say what to give."""
    scheme = _scheme(url)
    if scheme == "file":
        raise DomainError(f"give the file's path, {url.removeprefix('file://')}")
    if scheme in ("http", "https", "s3", "s3a", "gs", "abfs", "abfss", "hdfs", "ftp"):
        raise DomainError(f"what {scheme}:// names {_ELSEWHERE}")


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def _of_url(url: str, query: str | None) -> Any:
    require_database(url)
    if not query:
        raise DomainError("a database needs a query, which selects its rows")
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    from flwr_kld.table.database import read_rows

    try:
        held = make_url(url)
        if held.get_backend_name() == "sqlite" and held.database not in (None, "", ":memory:"):
            _require_there(Path(str(held.database)))  # else SQLite makes an empty one
        return read_rows(url, query)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise DomainError(f"the rows cannot be selected from {_scheme(url)}: {cause}") from None
