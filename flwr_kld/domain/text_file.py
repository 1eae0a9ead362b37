"""A text file as a table reads it: a header of names, and a record in every line below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from flwr_kld.domain.dialect import Dialect
from flwr_kld.errors import DomainError

if TYPE_CHECKING:
    import pyarrow

_PACKED = {".gz": "gzip", ".zst": "zstd"}


class TextFile(Mapping[str, list[str | None]]):
    """A text file whose dialect its reader knows: a table's, but for what its owner says.

    As a mapping it gives columns by name. A table encodes it a few lines at a time.

    Parameters
    ----------
    file : Path
        The file.
    own : Mapping of str to value
        Of the dialect, what this file has otherwise than the table that reads it.
    dialect : Dialect
        The table's.
    public : bool
        Whether it is refused rather than mended where it is odd.
    rows : slice
        Which of its rows, by a first one and a step; by default all.
    """

    def __init__(
        self,
        file: str | Path,
        own: Mapping[str, Any] | None = None,
        dialect: Dialect | None = None,
        *,
        public: bool = False,
        rows: slice = slice(None),
    ) -> None:
        self.file, self.own, self.public, self.rows = Path(file), dict(own or {}), public, rows
        self.dialect = replace(dialect or Dialect(), **self.own)

    def read_by(self, dialect: Dialect) -> Self:
        """Return the file as a table of this dialect reads it."""
        if self.dialect == replace(dialect, **self.own):
            return self
        return type(self)(self.file, self.own, dialect, public=self.public, rows=self.rows)

    def blocks(self, names: Iterable[str] | None = None) -> Iterator[dict[str, pyarrow.Array]]:
        """Yield columns of texts, None where there is none, some lines at a time.

        Parameters
        ----------
        names : Iterable of str, optional
            Columns that are wanted, of which the file may lack some; by default all.

        Raises
        ------
        DomainError
            If it cannot be read; says which file, and why.
        """
        from flwr_kld.domain.lines import Lines  # a node that reads no text needs no pyarrow

        try:
            with opened(self.file) as stream:
                lines = Lines(stream, self.dialect, public=self.public)
                yield from lines.blocks(lines.names if names is None else names, self.rows)
        except UnicodeDecodeError:
            raise DomainError(
                f"{self.file} is not {self.dialect.encoding} text: convert it, or name its encoding"
            ) from None
        except DomainError as error:
            raise DomainError(f"{self.file}: {error}") from None

    @cached_property
    def _columns(self) -> dict[str, list[str | None]]:
        from flwr_kld.domain.texts import as_list

        columns: dict[str, list[str | None]] = {}
        for block in self.blocks():
            for name, texts in block.items():
                columns.setdefault(name, []).extend(as_list(texts))
        return columns

    def __getitem__(self, name: str) -> list[str | None]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def is_text_file(file: str | Path) -> bool:
    """Whether a file is one of text by its name, which may say that it is compressed."""
    suffixes = Path(file).suffixes
    if suffixes[-1:] and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1:] in ([".csv"], [".tsv"])


@contextmanager
def opened(file: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read, decompressed if its name ends in .gz or .zst."""
    suffix = Path(file).suffix
    with open(file, "rb") as stream:
        if suffix not in _PACKED:
            yield stream
            return
        from pyarrow import CompressedInputStream

        try:
            yield CompressedInputStream(stream, _PACKED[suffix])
        except OSError:
            raise DomainError(f"it is not what its name says, {suffix}: decompress it") from None
