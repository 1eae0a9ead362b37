"""Parses lines of text to columns by pyarrow, where it agrees with `Dialect.rows`.

The others, which have quotes inside of fields, line breaks of another kind, or too few or too many
fields, are first written anew, as what the rule makes of them. Proof: docs/proofs/records.md.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from flwr_kld.common.errors import DomainError
from flwr_kld.table.dialect import Dialect

logger = logging.getLogger("flwr_kld")

_BLOCK = 1 << 22
"""Bytes that are read at a time; a line may be longer."""
_LONGEST = 1 << 26
"""Bytes of a line in UTF-8; a longer one is blank, as it could exhaust a node's memory."""
_LINE_END = {"header": re.compile(rb"\r?\n|\r"), "lf": re.compile(rb"\r?\n")}
"""What may end the header, by `Dialect.line_end`."""
_MIXED, _UNUSUAL = 2.0, 1.1
"""Line breaks of another kind than the header's, for each of its kind, with which public lines are
refused, and a node says so in its log. Doubled, half of a file's lines pass for parts of others;
halved, texts of several lines do not pass."""
_BYTE_ORDER_MARK = "\ufeff".encode()
_LF, _CR, _QUOTE = b'\n\r"'
_CODED = pa.dictionary(pa.int32(), pa.string())
_FEW_TWICE = 0.9
"""Different texts of each row, from which on a dictionary of a column takes more than it saves."""
Buffer = bytes | bytearray | memoryview


class Lines:
    """The lines of a stream, a header first; public ones are refused where they are odd."""

    def __init__(self, stream: BinaryIO, dialect: Dialect, *, public: bool = False) -> None:
        self._dialect, self._public = dialect, public
        self._text = self._decoded(iter(partial(stream.read, _BLOCK), b""))
        self._held, found = bytearray(), None
        line_end = _LINE_END[dialect.line_end]
        for piece in self._text:
            searched = max(len(self._held) - 1, 0)
            self._held += piece
            found = line_end.search(self._held, searched)
            if found and (found[0] != b"\r" or found.end() < len(self._held)):
                break  # else it may be the half of CR LF
        start, stop = found.span() if found else (len(self._held), len(self._held))
        head = self._held[:start].removeprefix(_BYTE_ORDER_MARK)
        self._end = bytes(self._held[start:stop]) if dialect.line_end == "header" else b""
        self._end = self._end or b"\n"
        self.names = dialect.names(head.decode(errors="replace"))
        del self._held[:stop]
        # also keeps pyarrow from taking the first record's bytes for a byte order mark
        self._header = dialect.delimiter.join(map(str, range(len(self.names)))).encode() + b"\n"
        self._edges = np.isin(np.arange(256), [ord(dialect.delimiter), _LF, _CR, _QUOTE])

    def blocks(
        self, names: Iterable[str] | None = None, rows: slice = slice(None)
    ) -> Iterator[dict[str, pa.Array]]:
        """Yield those columns that are there, some lines at a time; shape [lines].

        All columns and rows are dictionaries, where texts of a column are in several lines.
        """
        coded = names is None and rows == slice(None)
        wanted = self.names if names is None else names
        places = {name: str(self.names.index(name)) for name in wanted if name in self.names}
        step, seen = rows.step or 1, 0
        kinds = dict.fromkeys(places.values(), _CODED if coded else pa.string())
        for block in self._whole_lines():
            table = self._table(block, seen, kinds)
            first = (rows.start or 0) - seen
            these = slice(first if first >= 0 else first % step, None, step)
            seen += len(table)
            columns = {
                name: held.chunk(0) if held.num_chunks == 1 else held.combine_chunks()
                for name, held in zip(places, table.itercolumns(), strict=False)
            }
            yield columns if rows == slice(None) else {n: c[these] for n, c in columns.items()}
            for name, own in columns.items() if coded else ():
                if own.type == _CODED and len(own.dictionary) > _FEW_TWICE * len(own):
                    kinds[places[name]] = pa.string()

    def _table(self, block: bytearray, before: int, kinds: Mapping[str, pa.DataType]) -> pa.Table:
        """Parse lines; where no mark but a delimiter is odd, pyarrow finds odd lines by itself."""
        if self._end == b"\n" and not any(byte in block for byte in (_CR, _QUOTE)):
            try:
                return self._parsed([block], kinds)
            except pa.ArrowInvalid:  # of a line that has too few fields or too many
                pass
        return self._parsed(self._mended(block, before), kinds)

    def _parsed(self, lines: Iterable[Buffer], kinds: Mapping[str, pa.DataType]) -> pa.Table:
        """Parse lines by pyarrow, under a header of numbers."""
        content = b"".join([self._header, *lines])
        return csv.open_csv(  # unlike read_csv, it waits for no other thread
            pa.py_buffer(content),
            csv.ReadOptions(use_threads=False, block_size=len(content) + 1),
            csv.ParseOptions(delimiter=self._dialect.delimiter, ignore_empty_lines=False),
            csv.ConvertOptions(
                check_utf8=False, column_types=kinds, include_columns=[*kinds] or ["0"]
            ),
        ).read_all()

    def _check_line_ends(self, marks: NDArray[np.uint8], ends: int) -> None:
        """Reject public lines that end otherwise than their header; on a node, log a warning."""
        breaks = max(np.count_nonzero(marks == byte) for byte in (_LF, _CR)) / max(ends, 1)
        words = (
            "many lines do not end as its header line does, and are read as one: write the file "
            "with one line end (dos2unix), or say "
        )
        if self._public and breaks > _MIXED:
            raise DomainError(f'{words}line_end = "lf" in its dialect')
        if not self._public and breaks > _UNUSUAL:
            logger.warning("a text file of records: %s", f'{words}drift-line-end="lf"')

    def _decoded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the text in UTF-8; of a node, what is not in UTF-8 stays until fields are cut."""
        encoding = self._dialect.encoding
        if encoding == "utf-8" and not self._public:
            yield from pieces
            return
        decoder = None
        for piece in pieces:
            if decoder is None:
                if encoding == "utf-16":
                    encoding += "-be" if piece.startswith(b"\xfe\xff") else "-le"
                errors = "strict" if self._public else "replace"
                decoder = codecs.getincrementaldecoder(encoding)(errors)
            plain = piece.isascii() and decoder.getstate()[0] == b"" and encoding == "utf-8"
            yield piece if plain else decoder.decode(piece).encode()
        if decoder is not None:
            yield decoder.decode(b"", final=True).encode()

    def _whole_lines(self) -> Iterator[bytearray]:
        """Yield bytes that end where a line does; a line that is too long is blank."""
        held, end, too_long = bytearray(), self._end, False
        for piece in chain((bytes(self._held),), self._text):
            held += piece
            if too_long or len(held) > _LONGEST + len(end):
                first = held.find(end)
                if too_long or not 0 <= first <= _LONGEST:
                    self._require_node()
                    too_long = first < 0  # it goes on; what is left may be the half of CR LF
                    del held[: len(held) - len(end) + 1 if too_long else first]
            stop = held.rfind(end) + len(end)
            if stop >= len(end):
                yield held[:stop]
                del held[:stop]
        if too_long or len(held) > _LONGEST:
            self._require_node()
            yield bytearray(end)
        else:
            yield held + end if held else held

    def _require_node(self) -> None:
        if self._public:
            raise DomainError(f"a line is longer than {_LONGEST >> 20} MiB: shorten its texts")

    def _mended(self, block: bytearray, before: int) -> list[Buffer]:
        """Return lines that pyarrow reads as the dialect does."""
        delimiter, columns = self._dialect.delimiter, len(self.names)
        pieces: list[Buffer] = []
        stops, odd = self._odd_lines(block)
        starts = np.concatenate(([0], stops[:-1])) if len(stops) else stops
        spans = list(zip(starts[odd].tolist(), stops[odd].tolist(), strict=True))
        texts = (block[a : b - len(self._end)].decode(errors="replace") for a, b in spans)
        done = 0
        for line, (start, stop), row in zip(
            odd.tolist(), spans, self._dialect.rows(texts), strict=True
        ):
            if self._public and row and len(row) != columns:
                raise DomainError(
                    f"line {before + line + 2} has {len(row)} fields and the header {columns}: "
                    "each line is a row, so texts must have no line breaks"
                )
            fields = [*row, *[""] * (columns - len(row))][:columns]
            quoted = ('"' + field.replace('"', '""') + '"' for field in fields)
            pieces += bytes(block[done:start]), delimiter.join(quoted).encode() + b"\n"
            done = stop
        return [*pieces, memoryview(block)[done:]]

    def _odd_lines(self, block: bytearray) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Return where lines end, and which of them pyarrow may read otherwise."""
        data, delimiter = np.frombuffer(block, np.uint8), ord(self._dialect.delimiter)
        there = {byte for byte in (_LF, _CR, _QUOTE) if byte in block}
        marked = data == delimiter
        for byte in there:
            marked |= data == byte
        places = np.flatnonzero(marked)
        marks = data[places]
        ends = marks == self._end[-1]
        if len(self._end) > 1:
            ends &= data[places - 1] == self._end[0]
        stops = np.flatnonzero(ends)
        self._check_line_ends(marks, len(stops))

        def each(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
            """Count the marks of each line."""
            return np.diff(np.cumsum(mask, dtype=np.int32)[stops], prepend=np.int32(0))

        breaks = (marks == _LF) | (marks == _CR)
        odd = each(breaks) != len(self._end)
        between = marks == delimiter
        if _QUOTE in there:
            inside = np.cumsum(marks == _QUOTE, dtype=np.uint8) & 1 != 0
            before = np.concatenate(([False], inside[stops[:-1]]))
            odd |= inside[stops] != before  # a quote is left open
            inside ^= np.repeat(before, np.diff(stops, prepend=-1))
            between &= ~inside
            quotes = np.flatnonzero(marks == _QUOTE)
            beside = data[places[quotes] + np.where(inside[quotes], -1, 1)]
            odd[np.searchsorted(stops, quotes[~self._edges[beside]])] = True
        odd |= each(between) != len(self.names) - 1
        return places[stops] + 1, np.flatnonzero(odd)
