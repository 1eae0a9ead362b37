"""Which of a client's records are counted: public, and by no value but their time, if at all.

Buckets of records are public keyed hashes of *salted* record ids: each client enciphers its ids
with a secret of its own first (`salted`). A record that changes its value keeps its id, so checks
over different buckets touch different records and compose in parallel. Two clients' records with
the same id fall independently of each other, and no server knows where any record falls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from flwr_kld.codec.model import Model
from flwr_kld.domain.base import Symbols
from flwr_kld.domain.dialect import Dialect
from flwr_kld.domain.records import as_column, values_in
from flwr_kld.domain.table import Table
from flwr_kld.domain.times import Times
from flwr_kld.errors import DomainError
from flwr_kld.kernel.arguments import Unfit, keep, several, whole
from flwr_kld.kernel.vector import Held

_MOST_BUCKETS = 2**16
_LONGEST_KEY = 128
_WHOLE = re.compile(r"(-?[0-9]{1,20})(?:\.0*)?")
"""Whole numbers of at most 64 bits or little more, as a file or a column of floats writes them."""
_MASK = (1 << 64) - 1
_LONGEST_NAME = 300
"""Characters of a column's name."""
_BETWEEN = 1
"""Symbol of a time between two edges."""
_NO_ID = 0
"""Id of what is none."""


@dataclass(frozen=True)
class Period(Model, what="the period of records"):
    """From one time to before another, in a column of the records.

    A record is in it by its own value alone; one whose value is no time is in no period.

    Parameters
    ----------
    column : str
        Column of the records, which the table need not have.
    start, end : str
        Text in ISO 8601, such as ``"2024-01-31"``, without a time zone; times are compared on their
        own clock, as `Times` does.

    Raises
    ------
    ValueError
        If one is no such text, or the end does not come after the start.
    """

    column: str
    start: str
    end: str

    def __post_init__(self) -> None:
        check_column(self.column)
        try:
            start, end = map(str, Times((self.start, self.end)).by)
        except DomainError:
            raise Unfit(
                "period", "from one time in ISO 8601 to a later one", (self.start, self.end)
            ) from None
        keep(self, start=start, end=end)

    def holds(self, rows: Any, dialect: Dialect | None) -> NDArray[np.bool_]:
        """Which records are in it, each by itself; shape [records]."""
        times = Table({self.column: Times((self.start, self.end))}, dialect=dialect or Dialect())
        inside: NDArray[np.bool_] = times.encode(rows)[:, 0] == _BETWEEN
        return inside

    def __str__(self) -> str:
        return f"{self.column} from {self.start} to before {self.end}"


@dataclass(frozen=True)
class Selection(Model, what="the selection of records"):
    """A public rule; by default every record."""

    # Keys the hash: at most 128 printable characters. Rotations over the same records must keep it.
    key: str = ""
    modulus: int = 1  # Buckets in all, 1 to 2**16
    residues: tuple[int, ...] = (0,)  # Buckets that are counted, ascending
    # Time of the records that are counted (docs/proofs/records.md)
    period: Period | None = None

    def __post_init__(self) -> None:
        if type(self.key) is not str or len(self.key) > _LONGEST_KEY or not self.key.isprintable():
            raise Unfit("key", f"at most {_LONGEST_KEY} printable characters", self.key)
        keep(
            self,
            modulus=whole("modulus", self.modulus, least=1, most=_MOST_BUCKETS),
            residues=tuple(whole("a residue", r) for r in several("residues", self.residues)),
        )
        inside = all(0 <= residue < self.modulus for residue in self.residues)
        if not self.residues or not inside or list(self.residues) != sorted(set(self.residues)):
            raise Unfit("residues", "ascending and below the modulus", self.residues)

    @property
    def takes_all(self) -> bool:
        """Whether no bucket is left out."""
        return len(self.residues) == self.modulus

    @property
    def partition(self) -> str:
        """Name of the partition of records that the residues refer to; empty for all records."""
        return "" if self.takes_all else f"{self.modulus}:{self.key}"

    def selected(self, ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which records are counted, by their salted ids; shape [records]."""
        if self.takes_all:
            return np.ones(len(ids), dtype=bool)
        bucket = _hashed(ids, f"bucket:{self.key}") % np.uint64(self.modulus)
        counted = np.zeros(self.modulus, dtype=bool)
        counted[list(self.residues)] = True
        return np.asarray(counted[bucket])


def check_column(name: object) -> None:
    """Refuse what is no name of a column."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise Unfit("column", f"a column's name, at most {_LONGEST_NAME} characters", name)


EVERYTHING = Selection()
"""Every record."""


def record_ids(symbols: Held[Symbols], given: object) -> NDArray[np.uint64]:
    """Turn a client's own ids of its records into 64 bits each; by default their positions."""
    if given is None:
        return np.arange(symbols.into(len), dtype=np.uint64)
    column = as_column(given)
    if len(column) != symbols.into(len):
        raise ValueError("there must be one id for each record")
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return np.array(column, np.uint64)  # of a masked one what is beneath
    return np.array([_id_of(value) for value in values_in(column)], dtype=np.uint64)


def _id_of(value: Any) -> int:
    """Return 64 bits of any value at all: of a whole number, a text, a UUID or a date its own."""
    try:
        value = value.decode("latin-1") if isinstance(value, bytes) else value
        value = str(value) if isinstance(value, UUID | date) else value
        if isinstance(value, str):
            whole_number = _WHOLE.fullmatch(value)
            if whole_number is None:
                digest = hashlib.sha256(value.encode(errors="surrogatepass")).digest()
                return int.from_bytes(digest[:8], "little")
            value = int(whole_number[1])
        if not isinstance(value, Integral):
            value = int(value) if value == int(value) else _NO_ID
        return int(value) & _MASK
    except Exception:  # not even a number, or an odd one
        return _NO_ID


def salted(ids: NDArray[np.uint64], secret: bytes) -> NDArray[np.uint64]:
    """Encipher ids with a client's secret: a pseudorandom function, AES-256 of one block an id."""
    # Shapes: ids [records].
    blocks = np.zeros((len(ids), 2), dtype="<u8")
    blocks[:, 0] = ids
    # One block an id, and nobody sees the result: what ECB gives away (equal ids) is wanted here.
    enciphered = Cipher(AES(secret), ECB()).encryptor().update(blocks.tobytes())
    return np.frombuffer(enciphered, dtype="<u8").reshape(-1, 2)[:, 0].astype(np.uint64)


def _hashed(ids: NDArray[np.uint64], key: str) -> NDArray[np.uint64]:
    """Mix 64-bit ids under a key (the finaliser of SplitMix64, twice)."""
    first, second = np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], dtype="<u8")
    mixed = ids
    for salt in (first, second):
        mixed = mixed ^ salt
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed


_ASKED: ContextVar[Period | None] = ContextVar("period", default=None)


@contextmanager
def of_period(period: Period | None) -> Iterator[None]:
    """Load records for a check of this period."""
    token = _ASKED.set(period)
    try:
        yield
    finally:
        _ASKED.reset(token)


def asked_period() -> Period | None:
    """Return the period of the check for which records are being loaded; None if it has none.

    A loader may leave out what lies outside, so that a large store selects; the node selects again,
    by the column that the period names, which the loader has to give.
    """
    return _ASKED.get()
