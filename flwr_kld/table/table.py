"""A table: every column by itself, and pairs of columns where they are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.common.guesses import suggests
from flwr_kld.kernel.arguments import finite, instance, integer, one_line
from flwr_kld.table.base import (
    Domain,
    Spec,
    Symbols,
    domain_from_spec,
    domains_from_pairs,
    in_order,
)
from flwr_kld.table.categories import Categories, features_of
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.frame import (
    BY,
    Features,
    TextFile,
    columns_of,
    in_one,
    joint,
    require_names,
    texts_in,
)

if TYPE_CHECKING:
    from flwr_kld.table.score import Score

_NOTES = ("left_out", "read_as", "units", "descriptions", "thresholds")
"""Fields that say nothing about records."""


@suggests()
@dataclass(frozen=True, eq=False)
class Table(Domain):
    """Columns side by side: a row has one symbol in each of them.

    In a joint domain (`Categories`), a row has one symbol for all features together: six columns of
    four bins are 4,096 of them. Here every column is counted by itself, and a pair of columns only
    where it is asked for. The columns' symbols are numbered one column after the other.

    Parameters
    ----------
    features : Mapping of str to (Domain or Sequence of names)
        One domain for each feature, in order. A list of names stands for ``Labels(names)``.
    interactions : Sequence of (str, str) or (str, str, str)
        Two or three features each, whose combinations are further columns, ``"age × job"``: drifts
        that no single column shows.
    by : str, optional
        A feature whose values are groups: sites, or regions. Its combinations with every other
        feature are further columns, from which statistics describe each group by itself.
    dialect : Dialect
        How texts are written, in files and in other loaders' columns: a node reads its own so,
        unless its config says otherwise.
    sources : Mapping of str to str
        Column of the records that a feature reads, by default the one of its own name. So several
        features read one column: ``{"admitted: hour": "admitted", "admitted: day": "admitted"}``.
    scores : Mapping of str to Score
        Public models of how features go together: the score of a row is a further column, which
        shows what changes between features that stay as they are. `Reference.from_frame` fits one.
    left_out : Mapping[str, str]
        Columns of the frame that `from_frame` made the table of and that it leaves out, each with
        the reason. Like what follows not in the spec, as it says nothing about records.
    read_as : Mapping[str, str]
        What `from_frame` took each column for, in words.
    units, descriptions : Mapping[str, str]
        What reports say of a column: the unit of its numbers, and what it holds.
    thresholds : Mapping[str, float]
        Nats of divergence that are tolerated in a column, unless a check sets another threshold.

    Raises
    ------
    DomainError
        If there is no feature, a name is not text or means two columns, a feature is itself a
        table or ``Categories``, an interaction does not name two features, each pair once, there is
        no feature besides `by`, `sources` names no feature, or a score reads other features.

    Examples
    --------
    >>> table = Table({"sex": ["f", "m"], "hand": ["left", "right"]})
    >>> table.encode({"sex": ["f", "m"], "hand": ["right", None]})
    array([[0, 5],
           [1, 7]], dtype=int16)
    """

    features: Mapping[str, Domain | Sequence[str] | Sequence[int]]
    interactions: Sequence[tuple[str, ...]] = ()
    by: str | None = None
    dialect: Dialect = field(default_factory=Dialect, kw_only=True)
    sources: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    scores: Mapping[str, Score] = field(default_factory=dict, kw_only=True, repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    read_as: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    units: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    descriptions: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    thresholds: Mapping[str, float] = field(default_factory=dict, kw_only=True, repr=False)
    kind: ClassVar[str] = "table"
    joins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        features = features_of("a Table", self.features)
        object.__setattr__(self, "sources", _sources(self.sources, features))
        interactions = in_order("interactions", self.interactions)
        pairs = tuple(_interaction(names, features) for names in interactions)
        if len({frozenset(pair) for pair in pairs}) < len(pairs):
            raise DomainError("an interaction is named once, in one order")
        pairs += _grouped(self.by, features, pairs)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "interactions", pairs)
        _require_scores(self.scores, features)
        if len(self.columns) < len(features) + len(pairs) + len(self.scores):
            raise DomainError(
                f"two columns have one name: keep {BY!r} out of names, and give each score a name "
                "of its own"
            )
        instance("dialect", self.dialect, Dialect, "a Dialect, such as Dialect(';')")
        read = set(self.sources.values())
        sentinels = {n: texts for n, texts in self.dialect.sentinels.items() if n in read}
        object.__setattr__(self, "dialect", replace(self.dialect, sentinels=sentinels))
        self._check_notes()

    def _check_notes(self) -> None:
        for name in _NOTES:
            instance(name, getattr(self, name), Mapping, "a mapping of columns, {name: …}")
        for what, notes in (
            ("unit", self.units),
            ("description", self.descriptions),
            ("threshold", self.thresholds),
        ):
            for name, note in notes.items():
                if name not in self.columns:
                    raise DomainError(
                        f"column {name!r} has a {what}, but no kind, and is not a pair of columns"
                    )
                if what != "threshold":
                    one_line(f"{what} of {name!r}", note)
        for name, reason in (*self.left_out.items(), *self.read_as.items()):
            one_line(f"reason of {name!r}", reason)
        nats = {
            name: finite(f"threshold of {name!r}", nats, least=0, unit="nats")
            for name, nats in self.thresholds.items()
        }
        object.__setattr__(self, "thresholds", nats)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        bins: int = 20,
        labels: int = 20,
        columns: Sequence[str] | None = None,
        interactions: Sequence[tuple[str, ...]] = (),
        by: str | None = None,
        dialect: Dialect | None = None,
    ) -> Table:
        """Choose a domain for each column of public data.

        Numbers get quantile bins (`Binned.quantiles`), texts their most frequent labels, many codes
        groups, truth values both; of times, date, weekday and hour are features each. 'other' and
        'missing' come with them. Free text, identifiers and counters are left out: `left_out` says
        which and why, and ``Table({**table.features, "id": …})`` takes one in.

        Parameters
        ----------
        frame : data frame, mapping of feature to array [n], structured array [n], list of dicts
            Public rows: edges and labels are some of their values, and clients see them.
        bins : int
            Most bins of a number. Default 20.
        labels : int
            Most labels of a text. Default 20.
        columns : Sequence of str, optional
            Those that are wanted, even such as are usually left out: of identifiers and free text,
            groups (`Codes`). By default all that serve.
        interactions : Sequence of (str, str)
            As of the table.
        by : str, optional
            Column of the groups, as in `Table`.
        dialect : Dialect, optional
            How texts are written; by default it is recognised.

        Raises
        ------
        ValueError
            If it is no frame or has not these columns, if no column is left, or a number is out of
            range.
        """
        # only the public side: nodes do not even load what guesses
        from flwr_kld.table.of_column import features_of_column
        from flwr_kld.table.sniff import recognise

        bins, labels = integer("bins", bins, least=2), integer("labels", labels, least=1)
        held = {name: texts_in(column) for name, column in columns_of(frame).items()}
        require_names(held)
        if dialect is None and isinstance(frame, TextFile):
            dialect = frame.dialect
        elif dialect is None:
            dialect = recognise(held, Dialect())
        if missing := [name for name in columns or () if name not in held]:
            raise DomainError(f"the frame has no column {missing[0]!r}")
        chosen: dict[str, tuple[Domain | str, str]] = {}
        sources: dict[str, str] = {}
        for name in held if columns is None else columns:
            found = features_of_column(
                name, held[name], dialect, bins=bins, labels=labels, wanted=columns is not None
            )
            if twice := [own for own in found if own != name and own in held]:
                raise DomainError(f"{twice[0]!r} is a column and a part of {name!r}: rename one")
            chosen |= found
            sources |= dict.fromkeys(found, name)
        features = {name: own for name, (own, _) in chosen.items() if isinstance(own, Domain)}
        left_out = {name: own for name, (own, _) in chosen.items() if isinstance(own, str)}
        if not features:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
            raise DomainError(f"no column of the frame is left ({reasons or 'it has none'})")
        sources = {name: sources[name] for name in features}
        return cls(
            features, interactions, by, dialect=dialect, sources=sources, left_out=left_out,
            read_as={name: chosen[name][1] for name in features},
        )  # fmt: skip

    @classmethod
    def from_toml(cls, file: str | Path) -> Table:
        """Read a data dictionary, as `to_toml` writes it and people edit it.

        Parameters
        ----------
        file : str or Path
            See "A data dictionary" in ``docs/tables.md``.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it describes no table: with line and column, and what to write.
        """
        from flwr_kld.table.dictionary import from_toml  # only where a dictionary is read

        read = from_toml(file)
        nats = read.pop("threshold")
        try:
            table = cls(**read)
        except ValueError as error:
            raise DomainError(f"{file}: {error}") from None
        if nats is None:
            return table
        return replace(table, thresholds={**dict.fromkeys(table.columns, nats), **table.thresholds})

    def to_toml(self, file: str | Path) -> None:
        """Write a data dictionary: what each column is, and how files are written."""
        from flwr_kld.table.dictionary import toml_of  # only where a dictionary is written

        text = toml_of(
            {name: self._spec_of(name) for name in self.columns},
            dialect=self.dialect,
            interactions=self.interactions,
            by=self.by,
            left_out=self.left_out,
        )
        Path(file).write_text(text, encoding="utf-8")

    def _spec_of(self, name: str) -> dict[str, Any]:
        """Return what a data dictionary says of a column."""
        has_spec = name in self.features or name in self.scores
        spec = self.columns[name].spec() if has_spec else {}
        kind = {key: spec.pop(key) for key in ("kind", "version") if key in spec}
        if kind.get("version") == 1:
            del kind["version"]
        source = self.sources.get(name, name)
        notes = {
            "source": None if source == name else source,
            "description": self.descriptions.get(name),
            "unit": self.units.get(name),
            "threshold": self.thresholds.get(name),
            "missing": self.dialect.sentinels.get(source),
        }
        return kind | {key: value for key, value in notes.items() if value is not None} | spec

    def with_score(self, name: str, symbols: Symbols) -> tuple[Table, NDArray[np.int64]]:
        """Fit a `Score`, also in place of one; return the table with it, and its counts."""
        features = len(self.features)
        sizes = dict(zip(self.features, self.sizes, strict=False))
        from flwr_kld.table.score import Score  # only the public side

        score, counts = Score.fit(sizes, symbols[:, :features] - self._ends[0, :features])
        others = {other: own for other, own in self.scores.items() if other != name}
        return replace(self, scores={**others, name: score}), counts

    @property
    def notes(self) -> dict[str, Mapping[str, Any]]:
        """What of a table is not in its spec."""
        return {name: getattr(self, name) for name in _NOTES if getattr(self, name)}

    def noting(self, notes: Mapping[str, Mapping[str, Any]]) -> Table:
        """Return the same table with what `notes` of another say."""
        if unknown := [name for name in notes if name not in _NOTES]:
            raise DomainError(f"a table has no {unknown[0]!r}: it has {', '.join(_NOTES)}")
        values: dict[str, Any] = {name: notes.get(name, {}) for name in _NOTES}
        return replace(self, **values)

    @cached_property
    def columns(self) -> dict[str, Domain]:
        """Domain of each column: the features, then the interactions, then the scores."""
        features = {name: d for name, d in self.features.items() if isinstance(d, Domain)}
        pairs = {BY.join(p): Categories({n: features[n] for n in p}) for p in self.interactions}
        return {**features, **pairs, **self.scores}

    @property
    def by_group(self) -> tuple[str, ...]:
        """Columns in which each group is described by itself: the interactions of `by`."""
        pairs = [names for names in self.interactions if len(names) == 2]
        return tuple(BY.join(pair) for pair in pairs if self.by in pair)

    @property
    def size(self) -> int:
        """Number of symbols of all columns together."""
        return sum(domain.size for domain in self.columns.values())

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Symbols of each column."""
        ends = np.cumsum([domain.size for domain in self.columns.values()]).tolist()
        return tuple(slice(a, b) for a, b in zip([0, *ends], ends, strict=False))

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Ways to be unlisted of each column, such as ``"'other' in hand"``."""
        return tuple(
            f"{way} ({name})" if isinstance(domain, Categories) else f"'{way}' in {name}"
            for name, domain in self.columns.items()
            for way in domain.unlisted
        )

    def unlisted_index(self) -> NDArray[np.int64]:
        """Index in `unlisted` of each symbol, -1 if its column lists it."""
        index, before = [], 0
        for domain in self.columns.values():
            own = domain.unlisted_index()
            index.append(np.where(own < 0, own, own + before))
            before += len(domain.unlisted)
        return np.concatenate(index)

    def encode(self, records: Any) -> Symbols:
        """Map the rows of a table to symbols.

        Parameters
        ----------
        records : data frame, mapping of feature to array [n], structured array [n], list of dicts
            Data frames of pandas, polars or pyarrow. Columns that are not features of the table
            are ignored.

        Returns
        -------
        Symbols
            Shape [n, columns], of the first of int16, int32 and int64 that holds `size`: symbols
            are most of what a long table takes in memory.

        Raises
        ------
        DomainError
            If there is no column for a feature or it is not a column (the message names the
            feature), or columns differ in length, whatever they hold.
        """
        return in_one(self._numbered(symbols) for symbols in self._read.blocks(records))

    def _numbered(self, symbols: list[Symbols]) -> Symbols:
        """Add interactions and scores, and number the symbols one column after the other."""
        if self.interactions or self.scores:
            own = dict(zip(self.features, symbols, strict=True))
            sizes = {n: d.size for n, d in self.features.items() if isinstance(d, Domain)}
            pairs = [
                joint(np.array([own[n] for n in pair]), [sizes[n] for n in pair])
                for pair in self.interactions
            ]
            scores = [
                score.of(np.array([own[n] for n in score.columns]))
                for score in self.scores.values()
            ]
            symbols = [*symbols, *pairs, *scores]
        numbered = np.array(symbols, dtype=self._dtype)
        numbered += self._ends[0][:, None].astype(self._dtype)
        return numbered.T

    def holds(self, symbols: Symbols) -> bool:
        """Whether these are what `encode` is to give, each symbol of its column."""
        if symbols.shape[1:] != (self.per_record,) or symbols.dtype != self._dtype:
            return False
        starts, stops = self._ends
        return bool((symbols >= starts).all() and (symbols < stops).all())

    @cached_property
    def _read(self) -> Features:
        own = {name: self.columns[name] for name in self.features}
        return Features(own, self.dialect, self.sources)

    @cached_property
    def _dtype(self) -> np.dtype[np.signedinteger[Any]]:
        return np.promote_types(np.int16, np.min_scalar_type(-self.size))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """First symbol of each column, and the first one after it; shape [2, columns]."""
        return np.array([(part.start, part.stop) for part in self.parts]).T

    def name_of(self, symbol: SupportsIndex) -> str:
        """Return column and symbol, as ``"hand=left"``."""
        index = self._index(symbol)
        for (name, domain), part in zip(self.columns.items(), self.parts, strict=True):
            if index < part.stop:
                own = domain.name_of(index - part.start)
                return own if isinstance(domain, Categories) else f"{name}={own}"
        raise DomainError("a symbol of no column")

    def spec(self) -> Spec:
        """Return the features as pairs of name and spec, and all its other settings."""
        pairs = [[name, self.columns[name].spec()] for name in self.features]
        interactions = [list(pair) for pair in self.interactions]
        scores = [[name, score.spec()] for name, score in self.scores.items()]
        return {
            "kind": self.kind,
            "version": self.version,
            "features": pairs,
            "interactions": interactions,
            "by": self.by,
            "dialect": self.dialect.overrides,
            "sources": {name: own for name, own in self.sources.items() if name != own},
            **({"scores": scores} if scores else {}),
        }

    @classmethod
    def from_fields(cls, fields: Spec) -> Self:
        """Build it from the pairs of its spec."""
        features = domains_from_pairs(fields["features"])
        dialect = Dialect.from_fields(fields["dialect"])
        scores = {name: domain_from_spec(spec) for name, spec in fields.get("scores", ())}
        read = {"features": features, "dialect": dialect, "scores": scores}
        return cls(**{**fields, **read})


def _sources(spec: Any, features: Mapping[str, Domain]) -> dict[str, str]:
    """Return the column that each feature reads."""
    if not isinstance(spec, Mapping) or not all(isinstance(own, str) for own in spec.values()):
        raise DomainError("sources= is a mapping of features to names of columns")
    if unknown := [name for name in spec if name not in features]:
        raise DomainError(f"sources= names {unknown[0]!r}, which is not a feature of the table")
    return {name: spec.get(name, name) for name in features}


def _require_scores(scores: Any, features: Mapping[str, Domain]) -> None:
    """Refuse scores that read other features than these."""
    if scores == {}:
        return
    from flwr_kld.table.score import Score  # a node whose table has none does not load it

    if not isinstance(scores, Mapping) or not all(
        isinstance(name, str) and isinstance(score, Score) for name, score in scores.items()
    ):
        raise DomainError("scores= is a mapping of names to Scores, such as Score.fit makes")
    for name, score in scores.items():
        for read, size in score.columns.items():
            if read not in features or features[read].size != size:
                raise DomainError(
                    f"score {name!r} reads {read!r} with {size} symbols, which the table has not: "
                    "fit it to rows of this table"
                )


def _grouped(
    by: str | None, features: Mapping[str, Domain], pairs: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, ...], ...]:
    """Pairs of `by` and each other feature that are not among the interactions yet."""
    if by is None:
        return ()
    if by not in features or len(features) < 2:
        raise DomainError("by= names a feature of the table, one of two or more")
    named = {frozenset(pair) for pair in pairs}
    return tuple((by, name) for name in features if name != by and {by, name} not in named)


def require_one_symbol(domain: Domain, what: str) -> None:
    """Refuse a table where records are to have one symbol each."""
    if isinstance(domain, Table):
        raise DomainError(
            f"{what} takes one symbol a record, and a row of a Table has one in each column: take "
            "one column (table.columns[name], reference.columns[name]) and its records, or the "
            "joint law of a few features: Categories({…})"
        )


def _interaction(given: Any, features: Mapping[str, Domain]) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, tuple | list) else ()
    if not 1 < len(names) == len(set(names)) < 4 or not set(names) <= set(features):
        raise DomainError("an interaction is of two or three of the table's features")
    return names
