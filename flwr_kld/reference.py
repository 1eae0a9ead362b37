"""The public reference distribution Π that clients are compared with."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import StrictFloat, StrictInt, StrictStr

from flwr_kld.common.durable_files import put_in_place
from flwr_kld.common.guesses import suggests
from flwr_kld.common.strict_model import Model, parsed
from flwr_kld.kernel.arguments import finite, instance, set_fields
from flwr_kld.table.base import Domain, domain_from_spec
from flwr_kld.table.blind import require_listed_values
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.files import rows_in
from flwr_kld.table.frame import TextFile
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table

_FORMAT = 1
_BAD_COUNTS = (
    "reference counts must be finite, non-negative and not all zero (in any column of a table)"
)
_ROWS = 10_000
"""That are counted at a time: NumPy makes wider integers of them all."""
_ROUNDING = 1e-12
"""Distance from 1 that float64 leaves to the sum of normalised probabilities at most."""


@suggests(
    {
        "kl": "flwr_kld.infer.divergence.skewed_divergence",
        "plot": "reference.columns[name].probabilities",
        "to_frame": "reference.columns[name].probabilities",
    }
)
@dataclass(frozen=True, eq=False)
class Reference:
    """A public distribution over a domain.

    Build it with `from_file`, `from_frame`, `from_counts`, `from_samples` or `from_probabilities`.
    Everything in it is shown to clients: never build it from private data without a private
    mechanism in between.

    Parameters
    ----------
    domain : Domain
        What the symbols mean.
    probabilities : NDArray[np.float64]
        Shape [domain.size], non-negative, summing to 1, in a table in each column. May be given for
        the symbols that the domain's spec lists only: 'other' and 'missing' then get 0.
    records : float or None
        Records that they were counted from, which verdicts allow for: a sample of few is a law of
        its own. None, the default, for a law that is known exactly.
    noise : float
        Standard deviation of the noise in each count, in records, if they were counted privately.

    Raises
    ------
    ValueError
        If the probabilities are not a distribution over the domain, or a number is out of range.
    """

    domain: Domain
    probabilities: NDArray[np.float64]
    records: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        _require_domain(self.domain)
        try:
            p = _of_all(self.domain, np.array(self.probabilities, dtype=np.float64) + 0.0)
        except (TypeError, ValueError):
            raise ValueError(
                "reference probabilities must be numbers: Reference.from_frame(domain, rows) and "
                "Reference.from_samples(domain, records) count records"
            ) from None
        if p.shape != (self.domain.size,):
            raise ValueError(
                f"a reference needs one probability for each of the domain's {self.domain.size} "
                f"symbols, or for each that its spec lists, got shape {p.shape}"
            )
        if not np.isfinite(p).all() or (p < 0).any():
            raise ValueError("reference probabilities must be finite and non-negative")
        for name, part in self._parts.items():
            total = _sum(p[part])
            if abs(total - 1) > 1e-6:
                raise ValueError(
                    f"reference probabilities{name} sum to {total:.6g}, not 1: "
                    "pass counts to Reference.from_counts to have them normalised"
                )
            if abs(total - 1) > _ROUNDING:  # dividing again would change bits, and the fingerprint
                p[part] /= total
        p.setflags(write=False)
        if self.records is not None:
            set_fields(self, records=finite("records", self.records, above=0))
        set_fields(self, probabilities=p, noise=finite("noise", self.noise, least=0))

    @classmethod
    def from_probabilities(
        cls, domain: Domain, probabilities: ArrayLike, *, floor: float = 0.0
    ) -> Reference:
        """Take probabilities as they are, mixed with the uniform law if a floor is given.

        Parameters
        ----------
        floor : float
            In [0, 1): the reference becomes ``(1 - floor) Π + floor U``, U uniform over the listed
            symbols (of each column), so that none of them is impossible. Default 0.
        """
        floor = finite("floor", floor, least=0, below=1)
        plain = cls(domain, np.asarray(probabilities, dtype=np.float64))  # checked before the floor
        if not floor:
            return plain
        uniform = _normalised(domain, (domain.unlisted_index() < 0).astype(np.float64))
        return cls(domain, (1 - floor) * plain.probabilities + floor * uniform)

    @classmethod
    def from_counts(
        cls, domain: Domain, counts: ArrayLike | Mapping[str, ArrayLike], *, floor: float = 0.0
    ) -> Reference:
        """Normalise public counts, in records, one for each symbol or for each listed one.

        Those of a table may be given by column, those of labels by name. Their sum, in a table that
        of the column with fewest, is the reference's `records`. Counts that are not whole are taken
        for proportions of a law that is known exactly, as in `from_probabilities`.
        """
        _require_domain(domain)
        if isinstance(domain, Labels) and isinstance(counts, Mapping):
            counts = _of_names(domain, counts)
        if isinstance(domain, Table) and isinstance(counts, Mapping):
            counts = _joined(domain, counts)
        c = np.asarray(counts, dtype=np.float64)
        if not np.isfinite(c).all() or (c < 0).any():
            raise ValueError(_BAD_COUNTS)
        if not c.sum() > 0:
            raise ValueError(_BAD_COUNTS)
        if c.ndim != 1:
            return cls.from_probabilities(domain, c)  # refused by its shape
        c = _of_all(domain, c)
        found = cls.from_probabilities(domain, _normalised(domain, c), floor=floor)
        if (c % 1).any():
            return found
        return replace(found, records=min(_sum(c[part]) for part in domain.parts))

    @classmethod
    def from_samples(
        cls,
        domain: Domain,
        records: Any,
        *,
        floor: float = 0.0,
        score: str | None = None,
        allow_unlisted: bool = False,
    ) -> Reference:
        """Count public raw records (anything that ``domain.encode`` accepts).

        `score` and `allow_unlisted` are as in `from_frame`.
        """
        _require_domain(domain)
        symbols = domain.encode(records)
        if not len(symbols):
            raise ValueError("there are no public rows, of which a reference is counted")
        if not allow_unlisted:
            require_listed_values(domain, symbols, records)
        if score is None:
            counts = np.zeros(domain.size, dtype=np.int64)
            for some in np.array_split(symbols.ravel("K"), len(symbols) // _ROWS + 1):
                counts += np.bincount(some, minlength=domain.size)
            return cls.from_counts(domain, counts, floor=floor)
        if not isinstance(domain, Table):
            raise ValueError("score= is of how the columns of a Table go together")
        scored, law = domain.with_score(score, symbols)
        by_column = {
            name: np.bincount(own - part.start, minlength=part.stop - part.start)
            for name, own, part in zip(domain.columns, symbols.T, domain.parts, strict=True)
        }
        return cls.from_counts(scored, {**by_column, score: law}, floor=floor)

    @overload
    @classmethod
    def from_frame(
        cls,
        frame: Any,
        /,
        *,
        floor: float = 0.0,
        score: str | None = None,
        allow_unlisted: bool = False,
    ) -> Reference: ...

    @overload
    @classmethod
    def from_frame(
        cls,
        domain: Domain,
        frame: Any,
        *,
        floor: float = 0.0,
        score: str | None = None,
        allow_unlisted: bool = False,
    ) -> Reference: ...

    @classmethod
    def from_frame(
        cls,
        domain: Any,
        frame: Any = None,
        *,
        floor: float = 0.0,
        score: str | None = None,
        allow_unlisted: bool = False,
    ) -> Reference:
        """Count the rows of a public frame, in each column of a table.

        Parameters
        ----------
        domain : Domain, optional
            A `Table`, or `Categories`. By default ``Table.from_frame(frame)``, whose `left_out`
            says which columns are not checked, and why.
        frame : data frame, mapping of feature to array [n], structured array [n], list of dicts
            Public rows.
        floor : float
            Weight of the uniform law, as in `from_probabilities`.
        score : str, optional
            Name of one more column of the table: a `Score` of how its columns go together, fitted
            to half of the rows, while its law is counted from the other half. A score of that name
            is fitted anew. One that `domain` has already is counted from all of the rows: let these
            not be those that it was fitted to.
        allow_unlisted : bool
            Take a column of which more than 90 % of the rows are 'other' or 'missing'. By default
            it is refused: its clients' records would be, too, and no drift of it would show.

        Raises
        ------
        ValueError
            If the rows do not fit the domain, or serve no column of a table, or the score.
        """
        if frame is None and not isinstance(domain, Domain):
            domain, frame = Table.from_frame(domain), domain
        return cls.from_samples(
            domain, frame, floor=floor, score=score, allow_unlisted=allow_unlisted
        )

    @classmethod
    def from_file(
        cls,
        file: str | Path,
        domain: Domain | None = None,
        *,
        query: str | None = None,
        dialect: Dialect | None = None,
        floor: float = 0.0,
        score: str | None = None,
        allow_unlisted: bool = False,
    ) -> Reference:
        """Count the public rows of a file or a database, which are read as nodes read theirs.

        Parameters
        ----------
        file : str or Path
            A text file, ``.csv`` or ``.tsv``, also as ``.gz`` or ``.zst``; a ``.parquet`` file, or
            a folder of such; or a database's URL, see ``docs/tables.md``.
        domain, floor, score, allow_unlisted
            As in `from_frame`.
        query : str, optional
            SQL that selects a database's rows.
        dialect : Dialect, optional
            How texts are written. By default it is recognised, and becomes the table's; if a
            `domain` is given, its own, whose sentinels hold for any file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is no such file, or as in `from_frame`.
        """
        rows = rows_in(file, query, public=True)
        if isinstance(rows, TextFile):
            if dialect is None and domain is None:
                from flwr_kld.table.sniff import recognise, sniff_lines  # the public side alone

                usual, _ = sniff_lines(file)
                rows = rows.spelt(usual)
                dialect = recognise(rows, usual)
            rows = rows.spelt(dialect or getattr(domain, "dialect", None) or Dialect())
        table = Table.from_frame(rows) if domain is None else domain
        return cls.from_samples(
            table, rows, floor=floor, score=score, allow_unlisted=allow_unlisted
        )

    from_csv = from_file

    @property
    def is_table(self) -> bool:
        """Whether the domain is a `Table`, whose columns have domains of their own."""
        return isinstance(self.domain, Table)

    @cached_property
    def columns(self) -> dict[str, Reference]:
        """Reference of each column of a table, over the column's own domain, by name.

        A single column is a table of one: its name is the domain's kind.
        """
        if not self.is_table:
            return {self.domain.kind: self}
        table = cast(Table, self.domain)
        own = zip(table.columns.items(), table.parts, strict=True)
        return {
            name: replace(self, domain=domain, probabilities=self.probabilities[part])
            for (name, domain), part in own
        }

    @property
    def unlisted(self) -> dict[str, float]:
        """Mass of records that the domain's spec does not list, such as 'other', by name; not 0."""
        index, domain = self.domain.unlisted_index(), self.domain
        mass = np.bincount(index[index >= 0], self.probabilities[index >= 0], len(domain.unlisted))
        return {w: m for w, m in zip(domain.unlisted, mass.tolist(), strict=True) if m > 0}

    @property
    def _parts(self) -> dict[str, slice]:
        """Symbols whose probabilities sum to 1, by a name for messages."""
        if not isinstance(self.domain, Table):
            return {"": slice(None)}
        names = [f" of column {name!r}" for name in self.domain.columns]
        return dict(zip(names, self.domain.parts, strict=True))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the domain, the probabilities, and how they were counted."""
        digest = hashlib.sha256(f"flwr-kld reference {_FORMAT}\n".encode())
        digest.update(json.dumps([self.records, self.noise]).encode())
        digest.update(self.domain.fingerprint.encode())
        digest.update(self.probabilities.astype("<f8").tobytes())
        return digest.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return what a file holds of it; `from_dict` reads it."""
        return {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "domain": self.domain.spec(),
            "probabilities": self.probabilities.tolist(),
            "counted": [self.records, self.noise],
            "notes": self.domain.notes if isinstance(self.domain, Table) else {},
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Reference:
        """Read `to_dict`; ValueError for anything else."""
        read = _File.from_file(content)
        domain = domain_from_spec(read.domain)
        if isinstance(domain, Table):
            domain = domain.noting(read.notes)
        found = cls(domain, np.array(read.probabilities), *read.counted)
        if found.fingerprint != read.fingerprint:
            raise ValueError("the reference was changed: its fingerprint is another one")
        return found

    def save(self, path: str | Path) -> None:
        """Write a ``.json`` file, which Flower ships inside an app."""
        put_in_place(Path(path), f"{json.dumps(self.to_dict(), sort_keys=True)}\n".encode())

    @classmethod
    def load(cls, path: str | Path, table: Table | None = None) -> Reference:
        """Read a file written by `save`.

        Parameters
        ----------
        table : Table, optional
            A data dictionary's (`Table.from_toml`), whose units, descriptions and thresholds are
            then those of the reference.

        Raises
        ------
        ValueError
            If the file is not a reference of this version, or was counted for another table.
        """
        content = parsed(Path(path).read_text("utf-8", errors="replace"))
        if not isinstance(content, dict) or type(content.get("format")) is not int:
            raise ValueError(
                f"{path} is not a flwr-kld reference file: flwr-kld reference build makes one"
            )
        if content["format"] != _FORMAT:
            raise ValueError(
                f"{path} has reference format {content['format']}; this version reads {_FORMAT}"
            )
        try:
            found = cls.from_dict(content)
        except ValueError as error:
            raise ValueError(f"{path} is not a flwr-kld reference file: {error}") from None
        if table is None:
            return found
        _require_same(found.domain, table, path)
        return replace(found, domain=table)


@dataclass(frozen=True)
class _File(Model, what="the reference file"):
    format: StrictInt
    fingerprint: StrictStr
    domain: dict[str, Any]
    probabilities: list[StrictFloat]
    counted: tuple[StrictFloat | None, StrictFloat]
    notes: dict[str, dict[str, Any]]


def _require_same(counted: Domain, table: Table, path: str | Path) -> None:
    """Refuse a table for which the reference was not counted, and name what differs."""
    if counted == table:
        return
    before = counted.columns if isinstance(counted, Table) else {}
    names = dict.fromkeys((*table.columns, *before))
    differ = [repr(name) for name in names if table.columns.get(name) != before.get(name)]
    where = f"in column {', '.join(differ)}" if differ else "in how files are written (dialect)"
    raise ValueError(
        f"{path} was counted for another table, which differs {where}: count it anew, "
        f"flwr-kld reference build PUBLIC.csv --table table.toml --out {path}"
    )


def _require_domain(domain: object) -> None:
    instance("domain", domain, Domain, "a Domain, such as Labels(['bus', 'car']), and come first")


def _of_names(domain: Labels, counts: Mapping[Any, ArrayLike]) -> NDArray[np.float64]:
    """Put counts by name in the order of the names; a name that is left out has none."""
    if unknown := [name for name in counts if name not in domain.names]:
        raise ValueError(f"the domain has no label {unknown[0]!r}: it has {domain.names}")
    return np.array([counts.get(name, 0) for name in domain.names], dtype=np.float64)


def _of_all(domain: Domain, given: NDArray[np.float64]) -> NDArray[np.float64]:
    """Put 0 for 'other' and 'missing' where only the listed symbols have a value."""
    listed = domain.unlisted_index() < 0
    if given.shape != (np.count_nonzero(listed),):
        return given
    spread = np.zeros(domain.size)
    spread[listed] = given
    return spread


def _normalised(domain: Domain, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide counts by their sum, those of a table column by column."""
    if counts.shape != (domain.size,):
        return counts  # refused by its shape
    parts = counts.copy()
    for part in domain.parts:
        total = _sum(parts[part])
        if not total > 0:
            raise ValueError(_BAD_COUNTS)
        parts[part] /= total
    return parts


def _sum(numbers: NDArray[np.float64]) -> float:
    """Return the exact sum, rounded once: the same on every processor, as fingerprints are."""
    try:
        return math.fsum(numbers.tolist())
    except OverflowError:
        return math.inf


def _joined(table: Table, counts: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Put the counts of columns one after the other."""
    if set(counts) != set(table.columns):
        raise ValueError(
            "reference counts of a table need each of its columns: " + ", ".join(table.columns)
        )
    own = {name: np.asarray(counts[name], dtype=np.float64) for name in table.columns}
    return np.concatenate([_of_all(domain, own[name]) for name, domain in table.columns.items()])
