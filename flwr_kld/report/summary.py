"""The first line of a check's report: the outcome, of what, and what moved.

At most 25 words and two measured numbers, for whoever reads nothing else. Names of columns and of
values are cut where they are long.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.report.column import ColumnReport, share
from flwr_kld.report.words import brief, counted, some_of

MOST_WORDS = 25
"""Words of a first line."""

Columns = Mapping[str, ColumnReport]


def first_line(columns: Columns, verdict: Verdict | None) -> str:
    """Say how a check ended; `columns` are in rank."""
    line, *more = _sentences(columns, verdict)
    for sentence in filter(None, more):
        if words_in(f"{line} {sentence}") <= MOST_WORDS:
            line = f"{line} {sentence}"
    return line


def words_in(text: str) -> int:
    """Count the words of a text: what has a letter or a digit."""
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def _sentences(columns: Columns, verdict: Verdict | None) -> list[str]:
    """Return the outcome, and what is added while there is room."""
    if verdict is None:
        return ["Not judged: no threshold is set.", *_moved_most(columns, "moved most")]
    if verdict.cause is Cause.CONTRADICTION:
        return ["Inconclusive: the published counts contradict each other.", "A client is wrong."]
    cleared = verdict.outcome is Outcome.NO_DRIFT
    how = "moved most" if cleared else "moved too little for an alarm"
    within = _moved_most(columns, how, alone="It")
    if cleared:
        beyond = " beyond what you tolerate" if within else ""
        drawn = any(column.reading.drawn for column in columns.values())
        whose = " of the drawn clients" if drawn else ""
        return [f"OK: no drift{beyond} in {_all_of(columns)}{whose}.", *within]
    named = [name for name, one in columns.items() if _alike(one.verdict, verdict)]
    which, moved = _which(named, columns), _what_moved(named[0], columns[named[0]])
    several = len(named) > 1
    if verdict.outcome is Outcome.DRIFT:
        alone = "One client alone could have made this." if verdict.by_one_client else ""
        return [f"ALARM: {which}.", *_added_up(verdict, named), moved, alone]
    if verdict.outcome is Outcome.NO_ALARM:
        room = [] if within else _room(named, columns)
        return [f"No alarm, but too few data to clear {which}.", *within, *room]
    if verdict.cause is Cause.OLD:
        since = f"{which} {'were' if several else 'was'} counted"
        return [f"Inconclusive: too many records changed since {since}.", moved]
    if verdict.cause is Cause.DRAW:
        differ = "differ" if several else "differs"
        moved = moved.replace("of the records", "of their records")
        return [f"Suspected: {which} {differ} in the drawn clients, perhaps by chance.", moved]
    if verdict.cause is Cause.NEAR:
        unsure = f"{'seem' if several else 'seems'} above your threshold"
        return [f"Suspected: {which} {unsure}, not surely enough for an alarm.", moved]
    decided = {n: one for n, one in columns.items() if one.outcome is not Outcome.INCONCLUSIVE}
    room = [moved] if moved else _moved_most(decided, how) or _room(named, columns)
    return [f"Inconclusive: too few data to judge {which}.", *room]


def _alike(one: Verdict | None, verdict: Verdict) -> bool:
    """Whether one sentence says both: what is inconclusive has other causes."""
    if one is None or one.outcome is not verdict.outcome:
        return False
    return verdict.outcome is not Outcome.INCONCLUSIVE or one.cause is verdict.cause


def _all_of(columns: Columns) -> str:
    return brief(next(iter(columns))) if len(columns) == 1 else counted(len(columns), "column")


def _which(named: list[str], columns: Columns) -> str:
    """Name the columns of an outcome: one or two, else the first and how many more."""
    if len(named) == 2:
        return some_of([brief(name) for name in named])
    others = f" and {len(named) - 1} more of {len(columns)} columns" if len(named) > 1 else ""
    return f"{brief(named[0])}{others}"


def _what_moved(name: str, column: ColumnReport) -> str:
    """Say what moved most in a column; empty if nothing stands out."""
    if not column.moved:
        return ""
    move = column.moved[0]
    if move.unknown and move.name == "other":
        share = str(move).rpartition("→ ")[2]
        return f"{share} of the records have a {brief(name)} that the reference does not know."
    said = str(move)
    return f"{said[:1].upper()}{said[1:]} of the records."


def _added_up(verdict: Verdict, named: list[str]) -> list[str]:
    if verdict.cause is not Cause.EVIDENCE or verdict.detector is None:
        return []
    of = f" of {brief(named[0])}" if len(named) > 1 else ""
    return [f"Small changes{of} added up over {counted(verdict.detector.checks, 'check')}."]


def _moved_most(columns: Columns, how: str, alone: str = "") -> list[str]:
    """Say which column moved furthest, and what in it; nothing if none moved."""
    moved = [name for name, one in columns.items() if one.has_moved]
    if not moved:
        return []
    name = max(moved, key=lambda one: _low(columns[one]))
    subject, column = alone if alone and len(columns) == 1 else brief(name), columns[name]
    if column.changed is not None and not column.moved:
        return [f"{subject} {how}, in about {share(column.changed)[0]} of the records."]
    return [f"{subject} {how}, {column.moved[0]}."]


def _low(column: ColumnReport) -> float:
    """Return how many of the records have changed at least, in [0, 1]."""
    return 0.0 if column.changed is None else column.changed.low


def _room(named: list[str], columns: Columns) -> list[str]:
    """Say how much the columns that are not cleared may have moved: a limit, no estimate."""
    known = {name: one for name in named if (one := columns[name].changed) is not None}
    if not known:
        return []
    widest = max(known, key=lambda name: known[name].high)
    *_, most = share(known[widest])
    if most.startswith("100"):
        return ["This check excludes nothing."]
    another = "changed" if len(columns) == 1 else f"another {brief(widest)}"
    return [f"Up to {most} of the records may have {another}."]
