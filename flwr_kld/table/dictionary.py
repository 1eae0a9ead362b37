"""A data dictionary: a table as a TOML file that people read and edit.

```toml
threshold = 0.1

[dialect]
delimiter = ";"

[columns.age]
kind = "binned"
edges = [18, 30, 45, 65]
missing = ["-999"]
unit = "years"
```
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import tomli_w

from flwr_kld.common.errors import DomainError
from flwr_kld.kernel.arguments import InvalidArgument, finite, one_line
from flwr_kld.table.base import Domain, Spec, domain_class, feature_kinds
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.frame import BY
from flwr_kld.table.score import Score

_TOP = ("threshold", "interactions", "by", "dialect", "columns", "left_out")
_OF_COLUMN = ("kind", "version", "source", "missing", "unit", "description", "threshold")
"""What any column may say, besides what its kind takes."""
_WIDTH = 100
_HEAD = """\
# What drift checks count, column by column, and how files are written. All of it is public.
# To leave a column out, delete its section. This and a change of kind, edges, names, missing or
# dialect make another question: count the reference anew,
#   flwr-kld reference build PUBLIC.csv --table table.toml --out reference.json
# Any column may also say unit = "years", description = "…", threshold = 0.05 and further texts that
# stand for no value, missing = ["-999"]. Thresholds, units, descriptions may change at any time.
"""


def toml_of(
    columns: Mapping[str, Mapping[str, Any]],
    *,
    dialect: Dialect,
    interactions: Any,
    by: str | None,
    left_out: Mapping[str, str],
) -> str:
    """Write a table; `columns` hold what each says, by the names that the file has for it."""
    checks: dict[str, Any] = {}
    thresholds = Counter(own.get("threshold") for own in columns.values())
    most, _ = thresholds.most_common(1)[0]
    if None not in thresholds:
        checks["threshold"] = most
        columns = {
            name: {k: v for k, v in own.items() if (k, v) != ("threshold", most)}
            for name, own in columns.items()
        }
    if interactions:
        checks["interactions"] = [list(pair) for pair in interactions]
    if by is not None:
        checks["by"] = by
    lines = [_HEAD]
    for key, value in checks.items():
        note = "  # nats that any column may lie from the reference" if key == "threshold" else ""
        lines.append(_line(key, value) + note)
    how = {key: value for key, value in asdict(dialect).items() if key != "sentinels"}
    lines += ["", "[dialect]", *(_line(key, value) for key, value in how.items())]
    for name, own in columns.items():
        if own:
            lines += ["", f"[columns.{_key(name)}]"]
            lines += [_line(key, value) for key, value in own.items() if value is not None]
    if left_out:
        lines += ["", "[left_out]  # of the public rows, and why"]
        lines += [_line(name, reason) for name, reason in left_out.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).rpartition(" = ")[0]


def _line(key: str, value: Any) -> str:
    """Write a key and its value; a long list over several lines."""
    line = f"{_key(key)} = {_value(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list | tuple):
        return line
    rows = [""]
    for text in map(_value, value):
        if len(rows[-1]) + len(text) > _WIDTH - 7:
            rows.append("")
        rows[-1] += f"{text}, "
    return f"{_key(key)} = [\n" + "".join(f"    {row.rstrip()}\n" for row in rows) + "]"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {_value(own)}' for key, own in value.items())}}}"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def from_toml(file: str | Path) -> dict[str, Any]:
    """Return the arguments of the `Table` that a file describes, or say where it describes none."""
    return _Reader(Path(file)).read()


class _Reader:
    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self.text = file.read_text(encoding="utf-8-sig")
            self.content = tomllib.loads(self.text)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {file}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise DomainError(f"{file} is not a valid TOML file: {error}") from None

    def read(self) -> dict[str, Any]:
        self._require_known((), self.content, _TOP)
        columns = self._table("columns")
        if not columns:
            raise DomainError(f"{self.file} describes no column: write a section [columns.NAME]")
        for name, own in columns.items():
            if not isinstance(own, dict):
                self._fail(("columns", name), "is a section, [columns.NAME], with a kind")
        features: dict[str, Domain] = {}
        scores: dict[str, Domain] = {}
        for name, own in columns.items():
            if "kind" in own:
                domain = self._domain(name, own)
                (scores if isinstance(domain, Score) else features)[name] = domain
            elif BY not in name:
                kinds = ", ".join(feature_kinds())
                self._fail(("columns", name), f"it needs a kind, one of {kinds}")
        return {
            "features": features,
            "interactions": self._interactions(),
            "by": self.content.get("by"),
            "dialect": self._dialect(columns),
            "sources": self._notes(columns, "source"),
            "scores": scores,
            "left_out": self._table("left_out"),
            "units": self._notes(columns, "unit"),
            "descriptions": self._notes(columns, "description"),
            "thresholds": self._notes(columns, "threshold"),
            "threshold": self._note((), self.content, "threshold"),
        }

    def _domain(self, name: str, own: dict[str, Any]) -> Domain:
        here, kind = ("columns", name), own["kind"]
        known = domain_class(kind) if isinstance(kind, str) else None
        if known is None or (known.joins and known is not Score):
            likely = get_close_matches(str(kind), feature_kinds(), 1)
            self._fail(
                (*here, "kind"),
                f"{kind!r} is not a kind of column: write "
                + (f"{likely[0]!r}, or another " if likely else "one ")
                + f"of {', '.join(feature_kinds())}; the module of a kind of your own has to be "
                "imported first",
            )
        spec = {key: value for key, value in own.items() if key not in _OF_COLUMN}
        if known.from_fields.__func__ is Domain.from_fields.__func__:  # type: ignore[attr-defined]
            taken = fields(known)  # type: ignore[arg-type]
            self._require_known(here, own, (*_OF_COLUMN, *(field.name for field in taken)))
            for field in taken:
                needed = field.default is MISSING and field.default_factory is MISSING
                if needed and field.name not in spec:
                    self._fail((*here, "kind"), f"a column of kind {kind!r} needs {field.name}")
        if own.get("version", 1) != known.version:
            self._fail(here, f"version {known.version} of kind {kind!r} is installed: write that")
        try:
            return known.from_fields(spec)
        except Exception as error:  # whatever a kind of somebody's own raises
            if "means" in own:  # of the edges that were there before
                return self._domain(name, {key: own[key] for key in own if key != "means"})
            self._fail((*here, *list(spec)[:1]), f"{error}{_disorder(spec)}")

    def _dialect(self, columns: Mapping[str, dict[str, Any]]) -> Dialect:
        spec = self._table("dialect")
        known = [field.name for field in fields(Dialect) if field.name != "sentinels"]
        self._require_known(("dialect",), spec, known)
        sentinels: dict[str, list[str]] = {}
        for name, own in columns.items():
            held = own.get("missing", [])
            if not isinstance(held, list) or not all(type(one) in (str, int) for one in held):
                self._fail(
                    ("columns", name, "missing"),
                    f'missing is a list of texts, such as ["-999", "?"], not {held!r}',
                )
            if held:
                of_source = sentinels.setdefault(own.get("source", name), [])
                of_source += [str(one) for one in held if str(one) not in of_source]
        for key in spec:  # each by itself, as the first that does not fit is named
            try:
                Dialect(**{key: spec[key]})
            except DomainError as error:
                self._fail(("dialect", key), str(error))
        return Dialect(**spec, sentinels=sentinels)

    def _interactions(self) -> list[tuple[str, ...]]:
        pairs = self.content.get("interactions", [])
        if not isinstance(pairs, list) or not all(isinstance(pair, list) for pair in pairs):
            self._fail(("interactions",), 'is a list of pairs or threes, such as [["age", "job"]]')
        return [tuple(pair) for pair in pairs]

    def _notes(self, columns: Mapping[str, dict[str, Any]], key: str) -> dict[str, Any]:
        found = {name: self._note(("columns", name), own, key) for name, own in columns.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _note(self, here: tuple[str, ...], own: Mapping[str, Any], key: str) -> Any:
        """Return what is said of a column, or of all of them; None if nothing is."""
        if key not in own or (key == "source" and isinstance(own[key], str)):
            return own.get(key)
        try:
            if key == "threshold":
                return finite(key, own[key], least=0, unit="nats")
            return one_line(key, own[key])
        except InvalidArgument as error:
            self._fail((*here, key), str(error))

    def _table(self, key: str) -> dict[str, Any]:
        found = self.content.get(key, {})
        if not isinstance(found, dict):
            self._fail((key,), f"is a section, [{key}]")
        return found

    def _require_known(self, here: tuple[str, ...], given: Mapping[str, Any], known: Any) -> None:
        for key in given:
            if key not in known:
                likely = get_close_matches(key, known, 1)
                meant = f"did you mean {likely[0]!r}?" if likely else "known are"
                more = "" if likely else f" {', '.join(known)}"
                self._fail((*here, key), f"{key!r} has no meaning here: {meant}{more}")

    def _fail(self, keys: tuple[str, ...], why: str) -> NoReturn:
        line = _line_of(self.text, keys)
        column = f", column {keys[1]!r}" if keys[0] == "columns" and len(keys) > 1 else ""
        place = f", line {line}" if line else ""
        raise DomainError(f"{self.file}{place}{column}: {why}")


def _disorder(spec: Spec) -> str:
    """Name the first two numbers of a list that do not rise, where that is what is wrong."""
    edges = spec.get("edges", spec.get("by"))
    if isinstance(edges, list):
        for before, after in pairwise(edges):
            if type(before) is type(after) is not dict and after <= before:
                return f"; {after} comes after {before}"
    return ""


def _line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """Return the line that gives a key its value, or else that of the section which it is in."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        path = _path_of(line)
        if path and line.lstrip().startswith("["):
            section, path = path, ()
        if (section + path)[: len(keys)] == keys:
            return number
    return _line_of(text, keys[:-1]) if len(keys) > 1 else None


def _path_of(line: str) -> tuple[str, ...]:
    """Return the keys that a line of TOML names; none if it goes on with a value."""
    for form in (line, line.partition("=")[0] + "= 0"):
        try:
            found: Any = tomllib.loads(form)
        except tomllib.TOMLDecodeError:
            continue
        return tuple(_down(found))
    return ()


def _down(found: Any) -> Iterator[str]:
    while isinstance(found, dict) and len(found) == 1:
        ((key, found),) = found.items()
        yield key
