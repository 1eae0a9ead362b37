"""Phrases that texts, tables and pages share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_ROUNDED = 1e-9
"""Part of the last digit that rounding made."""
_BOUND = "\u00a0"
"""A space at which no line ends."""
_FAR = 1e15
"""Numbers from 0 that are not written out."""


def counted(number: int, what: str) -> str:
    """Write a number of things: ``1 check``, ``2 checks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


_YEAR = 365


def more_checks(room: int) -> str:
    """Write for how many more checks there is room, as a ledger counts them."""
    return counted(room, "more check") if room <= _YEAR else "more than a year of nightly checks"


def when(moment: str) -> str:
    """Write a moment to the minute, in UTC."""
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M}"


def shown(name: str) -> str:
    """Write a label for a line of text; different ones differently.

    What is blank, begins with a quotation mark or is not printable is quoted and escaped.
    """
    return name if name.isprintable() and name.strip() and name[0] not in "'\"" else ascii(name)


def printable(text: str) -> str:
    """Escape what a terminal would obey, and the ends of lines."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shortened(name: str, longest: int = 26) -> str:
    """Cut off what there is no room for."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


_LONGEST = 30
"""Characters of a name where there is little room."""


def brief(name: str) -> str:
    """Write a column's or a label's name where there is little room."""
    return shortened(shown(name), _LONGEST)


def in_digits(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Write a number and its limits in as many digits as are known, the limits rounded outward."""
    if not high > low:
        return f"{value:.4g}", f"{low:.4g}", f"{high:.4g}"
    places = -math.floor(math.log10(high - low) - math.log10(2))
    places += places < 0  # two digits of what is between them, if that is more than 20
    unit = 10.0**-places
    if not 0 < unit <= _FAR or max(abs(low), abs(high)) > _FAR:
        return f"{value:.4g}", f"{low:.4g}", f"{high:.4g}"
    rounded = value / unit, math.floor(low / unit + _ROUNDED), math.ceil(high / unit - _ROUNDED)
    first, *ends = (f"{round(one) * unit:,.{max(places, 0)}f}" for one in rounded)
    return first, ends[0], ends[1]


def left_out(reasons: Mapping[str, int]) -> str:
    """Write ``2 × no reply; 1 × refused: …``, the most frequent reason first; empty for none."""
    most_first = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return "; ".join(f"{clients} × {reason}" for reason, clients in most_first if clients)


def aside(reasons: Mapping[str, int]) -> str:
    """Write the same in brackets, behind a space."""
    words = left_out(reasons)
    return f" ({words})" if words else ""


_MOST_NAMES = 5
"""Clients that a sentence names."""


def some_of(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Name the first few, and count the others."""
    more = len(names) - most
    said = [*names[:most], f"{more} more"] if more > 0 else names
    return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:])))


def nats(value: float | None) -> str:
    """Write a divergence, a dash for none."""
    return "–" if value is None else f"{value:z.3f}"


def evidence(won: float) -> str:
    """Write evidence over checks, which spans many powers of ten."""
    if won < 1e-3:
        return "below 0.001" if won > 0 else "0"
    return f"{won:.3g}" if won < 1000 else f"{won:,.0f}"


def wrapped(sentence: str, width: int, indent: str = "") -> list[str]:
    """Break a sentence into lines of text, but no percentage and no path, however long."""
    whole = sentence.replace(" %", f"{_BOUND}%")
    lines = wrap(
        whole, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return [line.replace(_BOUND, " ") for line in lines]


_WHOLE = "outcome"
"""Head of the column whose words are folded last."""
_FOLDED = (10**9, 12, 7)
"""Characters to which words of all other columns are folded before, the first that is enough."""
_BETWEEN = 2
"""Characters between two columns."""


class _Folding(Table):
    """A table whose columns become narrower, the widest first, down to their longest words."""

    note: str = ""
    """Stands below it, as wide as the terminal: a rich table's caption is as narrow as itself."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield its lines; where even short words have no room, as rich folds them."""
        sizes = [
            [Measurement.get(console, options, one) for one in (column.header, *column.cells)]
            for column in self.columns
        ]
        widest = [max(one.maximum for one in own) for own in sizes]
        words = [max(one.minimum for one in own) for own in sizes]
        room = options.max_width - _BETWEEN * (len(widest) - 1)
        tried = (
            [
                word if column.header == _WHOLE else min(word, most)
                for column, word in zip(self.columns, words, strict=True)
            ]
            for most in _FOLDED
        )
        found = (_narrowed(widest, least, room) for least in tried)
        widths = next(filter(None, found), None)
        for place, column in enumerate(self.columns):
            column.width = widths[place] if widths else None
        yield from super().__rich_console__(console, options)
        yield from (Text(line) for line in wrapped(self.note, options.max_width))


def _narrowed(widest: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Take from the widest until all have room; None if they are at their least before."""
    widths = list(widest)
    while sum(widths) > room:
        wide = [place for place, width in enumerate(widths) if width > least[place]]
        if not wide:
            return None
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def table_of(
    heads: Iterable[str],
    rows: Iterable[tuple[Iterable[str], bool]],
    *,
    left: Sequence[str],
    caption: str = "",
    title: str = "",
) -> Table:
    """Return a table for a terminal of rows, and whether each stands out."""
    table = _Folding(
        title=escape(title) or None, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False,
        show_edge=False,
    )  # fmt: skip
    table.note = caption
    for name in heads:
        table.add_column(name, overflow="fold", justify="left" if name in left else "right")
    for cells, marked in rows:
        table.add_row(*map(escape, cells), style="bold red" if marked else "")
    return table


def as_text(table: Table, *, width: int = 100) -> str:
    """Write a table as text, at most this many characters wide."""
    from rich.console import Console  # takes longer to load than all of rich that reports need

    text = StringIO()
    Console(file=text, width=width, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())
